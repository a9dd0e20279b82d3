/* walk.h - a walk over the names of a tree, in the order of Jinja's visitors. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_WALK_H
#define TRI_JINJA_WALK_H

#include "io/jinja/tree.h"

/* Called for each name. The walk stops where it returns false. It skips the targets ns.x. */
typedef bool (*tri_jvisit)(void *ctx, const tri_jname *name, tri_juse use, int line);

/* Not collective: all that follow. False where the walk was stopped. */
bool tri_jwalk_expr(const tri_jexpr *x, tri_jvisit visit, void *ctx);
bool tri_jwalk_body(const tri_jbody *body, tri_jvisit visit, void *ctx);

/* out [n] says which of `names` [n] a body reads before it writes them (compiler.py, find_undeclared). n <=
 * 3. */
void tri_jwalk_undeclared(const tri_jbody *body, const char *const *names, int n, bool *out);

#endif
