/* walk.h - walks over the names of a tree, in the order of Jinja's visitors. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_WALK_H
#define TRI_JINJA_WALK_H

#include "io/jinja/tree.h"

/* Called for each name. The walk stops if it returns false. Targets ns.x are skipped. */
typedef bool (*tri_jvisit)(void *ctx, const tri_jname *name, tri_juse use, int line);

/* Not collective: all that follow. false: the walk was stopped. */
bool tri_jwalk_expr(const tri_jexpr *x, tri_jvisit visit, void *ctx);
bool tri_jwalk_body(const tri_jbody *body, tri_jvisit visit, void *ctx);

/* Sets out [n] for each of `names` [n]: the body reads the name before it writes it (compiler.py,
 * find_undeclared). n <= 3. */
void tri_jwalk_undeclared(const tri_jbody *body, const char *const *names, int n, bool *out);

#endif
