/* resolve.h - names of a parsed tree bound to their variables. Private to its room. */
#ifndef TRI_JINJA_RESOLVE_H
#define TRI_JINJA_RESOLVE_H

#include "io/jinja/tree.h"

/* Not collective. Fills in places, slots and scopes of the tree; refuses what Jinja's compiler refuses: filters and
 * tests that there are not (but inside an if, where Jinja fails when they are used), `loop` as a target. */
TRI_CHECKED tri_status tri_jresolve(tri_jtree *t);

#endif
