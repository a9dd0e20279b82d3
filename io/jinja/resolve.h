/* resolve.h - names of a parsed tree bound to their variables. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_RESOLVE_H
#define TRI_JINJA_RESOLVE_H

#include "io/jinja/tree.h"

/* Not collective. Fills in places, slots and scopes of the tree. Refuses `loop` as a target, and unknown
 * filters and tests; inside an if these fail only when they are used, as in Jinja. */
TRI_CHECKED tri_status tri_jresolve(tri_jtree *t);

#endif
