/* resolve.h - binds the names of a parsed tree to variables. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_RESOLVE_H
#define TRI_JINJA_RESOLVE_H

#include "io/jinja/tree.h"

/* Not collective. Fills the places, slots and scopes of the tree. Refuses `loop` as a target, and unknown
 * filters and tests. Inside an if, unknown ones fail only when they are used, as in Jinja. */
TRI_CHECKED tri_status tri_jresolve(tri_jtree *t);

#endif
