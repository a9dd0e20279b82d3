/* walk.c - walks over the names of a tree, with fields in the order of Jinja's nodes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/walk.h"

#include <string.h>

static bool walk_list(const tri_jexprs *list, tri_jvisit visit, void *ctx) {
  for (int64_t i = 0; i < list->n; i++)
    if (!tri_jwalk_expr(list->item[i], visit, ctx)) return false;
  return true;
}

static bool walk_args(const tri_jcall_args *args, tri_jvisit visit, void *ctx) {
  return walk_list(&args->pos, visit, ctx) && walk_list(&args->named, visit, ctx) &&
         tri_jwalk_expr(args->more, visit, ctx) && tri_jwalk_expr(args->more_named, visit, ctx);
}

bool tri_jwalk_expr(const tri_jexpr *x, tri_jvisit visit, void *ctx) {
  if (!x) return true;
  switch (x->kind) {
  case TRI_JX_CONST:
  case TRI_JX_NSREF:
    return true;
  case TRI_JX_NAME:
    return visit(ctx, x->as.name.name, x->as.name.use, x->line);
  case TRI_JX_TUPLE:
  case TRI_JX_LIST:
  case TRI_JX_DICT:
  case TRI_JX_CONCAT:
    return walk_list(&x->as.list, visit, ctx);
  case TRI_JX_BINARY:
  case TRI_JX_AND:
  case TRI_JX_OR:
  case TRI_JX_NOT:
  case TRI_JX_NEGATE:
  case TRI_JX_PLUS:
    return tri_jwalk_expr(x->as.binary.left, visit, ctx) && tri_jwalk_expr(x->as.binary.right, visit, ctx);
  case TRI_JX_COMPARE:
    return walk_list(&x->as.compare.operand, visit, ctx);
  case TRI_JX_ATTR:
  case TRI_JX_ITEM:
  case TRI_JX_SLICE:
    return tri_jwalk_expr(x->as.part.of, visit, ctx) && tri_jwalk_expr(x->as.part.key, visit, ctx) &&
           tri_jwalk_expr(x->as.part.begin, visit, ctx) && tri_jwalk_expr(x->as.part.end, visit, ctx) &&
           tri_jwalk_expr(x->as.part.step, visit, ctx);
  case TRI_JX_CALL:
  case TRI_JX_FILTER:
  case TRI_JX_TEST:
    return tri_jwalk_expr(x->as.call.of, visit, ctx) && walk_args(x->as.call.args, visit, ctx);
  case TRI_JX_COND:
    return tri_jwalk_expr(x->as.cond.test, visit, ctx) && tri_jwalk_expr(x->as.cond.yes, visit, ctx) &&
           tri_jwalk_expr(x->as.cond.no, visit, ctx);
  }
  return true;
}

static bool walk_macro(const tri_jmacro *m, int line, tri_jvisit visit, void *ctx) {
  for (int64_t i = 0; i < m->n_arg; i++)
    if (!visit(ctx, m->arg[i], TRI_JUSE_PARAMETER, line)) return false;
  return walk_list(&m->defaults, visit, ctx) && tri_jwalk_body(&m->body, visit, ctx);
}

static bool walk_if(const tri_jstmt *s, tri_jvisit visit, void *ctx) {
  for (const tri_jbranch *b = s->as.cond.branch; b; b = b->next)
    if (!tri_jwalk_expr(b->test, visit, ctx) || !tri_jwalk_body(&b->body, visit, ctx)) return false;
  return tri_jwalk_body(&s->as.cond.otherwise, visit, ctx);
}

static bool walk_statement(const tri_jstmt *s, tri_jvisit visit, void *ctx) {
  const tri_jfor *f = s->as.loop;

  switch (s->kind) {
  case TRI_JS_TEXT:
  case TRI_JS_BREAK:
  case TRI_JS_CONTINUE:
    return true;
  case TRI_JS_PRINT:
    return tri_jwalk_expr(s->as.print, visit, ctx);
  case TRI_JS_SET:
  case TRI_JS_SET_BLOCK:
    return tri_jwalk_expr(s->as.set.target, visit, ctx) && tri_jwalk_expr(s->as.set.value, visit, ctx) &&
           tri_jwalk_body(&s->as.set.body, visit, ctx);
  case TRI_JS_IF:
    return walk_if(s, visit, ctx);
  case TRI_JS_FOR:
    return tri_jwalk_expr(f->target, visit, ctx) && tri_jwalk_expr(f->iter, visit, ctx) &&
           tri_jwalk_body(&f->body, visit, ctx) && tri_jwalk_body(&f->otherwise, visit, ctx) &&
           tri_jwalk_expr(f->test, visit, ctx);
  case TRI_JS_MACRO:
  case TRI_JS_GENERATION:
    return walk_macro(s->as.macro.macro, s->line, visit, ctx);
  case TRI_JS_CALL:
    return tri_jwalk_expr(s->as.macro.call, visit, ctx) && walk_macro(s->as.macro.macro, s->line, visit, ctx);
  case TRI_JS_FILTER:
    return tri_jwalk_body(&s->as.block.body, visit, ctx) && tri_jwalk_expr(s->as.block.filter, visit, ctx);
  case TRI_JS_WITH:
    return walk_list(&s->as.block.target, visit, ctx) && walk_list(&s->as.block.value, visit, ctx) &&
           tri_jwalk_body(&s->as.block.body, visit, ctx);
  case TRI_JS_SCOPE:
    return tri_jwalk_body(&s->as.block.body, visit, ctx);
  }
  return true;
}

bool tri_jwalk_body(const tri_jbody *body, tri_jvisit visit, void *ctx) {
  for (const tri_jstmt *s = body->first; s; s = s->next)
    if (!walk_statement(s, visit, ctx)) return false;
  return true;
}

typedef struct search {
  const char *const *names;
  int                n, left;
  bool               asked[3], *found;
} search;

static bool find_undeclared(void *ctx, const tri_jname *name, tri_juse use, int line) {
  search *s = ctx;

  (void)line;
  for (int i = 0; i < s->n; i++) {
    if (!s->asked[i] || strcmp(s->names[i], name->s)) continue;
    s->found[i] = use == TRI_JUSE_LOAD;
    s->asked[i] = false;
    s->left--;
  }
  return s->left > 0;
}

void tri_jwalk_undeclared(const tri_jbody *body, const char *const *names, int n, bool *out) {
  search s = {.names = names, .n = n, .left = n, .found = out};

  for (int i = 0; i < n; i++) out[i] = false, s.asked[i] = true;
  tri_jwalk_body(body, find_undeclared, &s);
}
