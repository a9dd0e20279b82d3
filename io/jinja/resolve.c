/* resolve.c - binds names to variables, as in Jinja's compiler. For each scope it first collects the names
 * (analyze, the FrameSymbolVisitor of idtracking.py), then finds the variable of each name (bind, the
 * CodeGenerator). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/resolve.h"

#include <string.h>

#include "io/jinja/scope.h"
#include "io/jinja/walk.h"

/* ---- analyze: the names that a scope knows ---- */

typedef struct analysis {
  tri_jtree       *tree;
  tri_jopen_scope *scope;
  tri_status       st;
  bool             parameters; /* targets are parameters */
} analysis;

static bool analyze_name(void *ctx, const tri_jname *name, tri_juse use, int line) {
  analysis  *a = ctx;
  tri_jname *n = (tri_jname *)name;
  int        slot;

  (void)line;
  if (use == TRI_JUSE_LOAD)
    a->st = tri_jscope_load(a->tree, a->scope, n);
  else if (use == TRI_JUSE_PARAMETER || a->parameters)
    a->st = tri_jscope_declare(a->tree, a->scope, n, &slot);
  else
    a->st = tri_jscope_store(a->tree, a->scope, n);
  return a->st == TRI_OK;
}

static tri_status analyze_expr(tri_jtree *t, tri_jopen_scope *s, const tri_jexpr *x) {
  analysis a = {.tree = t, .scope = s};

  tri_jwalk_expr(x, analyze_name, &a);
  return a.st;
}

static tri_status analyze_list(tri_jtree *t, tri_jopen_scope *s, const tri_jexprs *list) {
  for (int64_t i = 0; i < list->n; i++) TRI_TRY(analyze_expr(t, s, list->item[i]));
  return TRI_OK;
}

/* Analyzes the target of a set. ns.x reads ns. */
static tri_status analyze_target(tri_jtree *t, tri_jopen_scope *s, const tri_jexpr *x) {
  if (x->kind == TRI_JX_NSREF) return tri_jscope_load(t, s, x->as.name.name);
  if (x->kind != TRI_JX_TUPLE) return analyze_expr(t, s, x);
  for (int64_t i = 0; i < x->as.list.n; i++) TRI_TRY(analyze_target(t, s, x->as.list.item[i]));
  return TRI_OK;
}

static tri_status analyze_parameters(tri_jtree *t, tri_jopen_scope *s, const tri_jexpr *x) {
  analysis a = {.tree = t, .scope = s, .parameters = true};

  tri_jwalk_expr(x, analyze_name, &a);
  return a.st;
}

static tri_status analyze_body(tri_jtree *t, tri_jopen_scope *s, const tri_jbody *body);

static tri_status analyze_branch(tri_jtree *t, tri_jopen_scope *s, const tri_jbody *body,
                                 tri_jopen_scope *branch) {
  tri_jscope_enter_branch(branch, s);
  TRI_TRY(analyze_body(t, branch, body));
  tri_jscope_leave_branch(branch);
  return TRI_OK;
}

/* Branches do not see each other's names, but an elif sees the names of the elifs before it. */
static tri_status analyze_if(tri_jtree *t, tri_jopen_scope *s, const tri_jstmt *x) {
  const tri_jbranch *b = x->as.cond.branch;
  tri_jopen_scope    yes, elifs, elif, no;

  TRI_TRY(analyze_expr(t, s, b->test));
  TRI_TRY(analyze_branch(t, s, &b->body, &yes));
  tri_jscope_enter_branch(&elifs, s);
  for (b = b->next; b; b = b->next) {
    TRI_TRY(analyze_expr(t, &elifs, b->test));
    TRI_TRY(analyze_branch(t, &elifs, &b->body, &elif));
    tri_jscope_merge_branch(&elif, &elifs);
  }
  tri_jscope_leave_branch(&elifs);
  TRI_TRY(analyze_branch(t, s, &x->as.cond.otherwise, &no));
  tri_jscope_merge_branch(&yes, s);
  tri_jscope_merge_branch(&elifs, s);
  tri_jscope_merge_branch(&no, s);
  return TRI_OK;
}

static tri_status analyze_statement(tri_jtree *t, tri_jopen_scope *s, const tri_jstmt *x) {
  switch (x->kind) {
  case TRI_JS_TEXT:
  case TRI_JS_BREAK:
  case TRI_JS_CONTINUE:
  case TRI_JS_GENERATION:
  case TRI_JS_SCOPE:
    return TRI_OK;
  case TRI_JS_PRINT:
    return analyze_expr(t, s, x->as.print);
  case TRI_JS_SET:
    TRI_TRY(analyze_expr(t, s, x->as.set.value));
    return analyze_target(t, s, x->as.set.target);
  case TRI_JS_SET_BLOCK:
    return analyze_target(t, s, x->as.set.target);
  case TRI_JS_IF:
    return analyze_if(t, s, x);
  case TRI_JS_FOR:
    return analyze_expr(t, s, x->as.loop->iter);
  case TRI_JS_MACRO:
    return tri_jscope_store(t, s, x->as.macro.macro->name);
  case TRI_JS_CALL:
    return analyze_expr(t, s, x->as.macro.call);
  case TRI_JS_FILTER:
    return analyze_expr(t, s, x->as.block.filter);
  case TRI_JS_WITH:
    return analyze_list(t, s, &x->as.block.value);
  }
  return TRI_OK;
}

static tri_status analyze_body(tri_jtree *t, tri_jopen_scope *s, const tri_jbody *body) {
  TRI_TRY(tri_jarena_enter(&t->arena));
  for (const tri_jstmt *x = body->first; x; x = x->next) TRI_TRY(analyze_statement(t, s, x));
  tri_jarena_leave(&t->arena);
  return TRI_OK;
}

/* ---- bind: each name its place ---- */

/* soft: inside an if. Unknown filters and tests are allowed there. */
typedef struct frame {
  tri_jtree       *tree;
  tri_jopen_scope *scope;
  bool             soft;
} frame;

static tri_status bind_expr(frame f, tri_jexpr *x);
static tri_status bind_body(frame f, tri_jbody *body);

static tri_status bind_list(frame f, tri_jexprs *list) {
  for (int64_t i = 0; i < list->n; i++) TRI_TRY(bind_expr(f, list->item[i]));
  return TRI_OK;
}

static tri_status bind_args(frame f, tri_jcall_args *args) {
  TRI_TRY(bind_list(f, &args->pos));
  TRI_TRY(bind_list(f, &args->named));
  TRI_TRY(bind_expr(f, args->more));
  return bind_expr(f, args->more_named);
}

static tri_status bind_name(frame f, tri_jexpr *x) {
  if (!tri_jscope_find(f.scope, x->as.name.name, &x->as.name.at))
    TRI_JFAIL(x->line, "only the filter of this set block reads %.200s, and Jinja cannot evaluate that",
              x->as.name.name->s);
  return TRI_OK;
}

static tri_status check_known(frame f, const tri_jexpr *x) {
  const tri_jname *name = x->as.call.name;
  const char      *what = x->kind == TRI_JX_FILTER ? "filter" : "test";
  bool             elsewhere = false;

  if (f.soft || x->as.call.filter || x->as.call.test) return TRI_OK;
  if (x->kind == TRI_JX_FILTER)
    tri_jfilter_find(name->s, name->n, &elsewhere);
  else
    tri_jtest_find(name->s, name->n, &elsewhere);
  if (elsewhere) TRI_JFAIL(x->line, "the %s '%s' of Jinja is not supported", what, name->s);
  TRI_JFAIL(x->line, "No %s named '%.200s'.", what, name->s);
}

static tri_status bind_expr(frame f, tri_jexpr *x) {
  if (!x) return TRI_OK;
  switch (x->kind) {
  case TRI_JX_CONST:
    return TRI_OK;
  case TRI_JX_NAME:
  case TRI_JX_NSREF:
    return bind_name(f, x);
  case TRI_JX_TUPLE:
  case TRI_JX_LIST:
  case TRI_JX_DICT:
  case TRI_JX_CONCAT:
    return bind_list(f, &x->as.list);
  case TRI_JX_BINARY:
  case TRI_JX_AND:
  case TRI_JX_OR:
  case TRI_JX_NOT:
  case TRI_JX_NEGATE:
  case TRI_JX_PLUS:
    TRI_TRY(bind_expr(f, x->as.binary.left));
    return bind_expr(f, x->as.binary.right);
  case TRI_JX_COMPARE:
    return bind_list(f, &x->as.compare.operand);
  case TRI_JX_ATTR:
  case TRI_JX_ITEM:
  case TRI_JX_SLICE:
    TRI_TRY(bind_expr(f, x->as.part.of));
    TRI_TRY(bind_expr(f, x->as.part.key));
    TRI_TRY(bind_expr(f, x->as.part.begin));
    TRI_TRY(bind_expr(f, x->as.part.end));
    return bind_expr(f, x->as.part.step);
  case TRI_JX_FILTER:
  case TRI_JX_TEST:
    TRI_TRY(check_known(f, x)); /* fall through */
  case TRI_JX_CALL:
    TRI_TRY(bind_expr(f, x->as.call.of));
    return bind_args(f, x->as.call.args);
  case TRI_JX_COND:
    f.soft = true;
    TRI_TRY(bind_expr(f, x->as.cond.test));
    TRI_TRY(bind_expr(f, x->as.cond.yes));
    return bind_expr(f, x->as.cond.no);
  }
  return TRI_OK;
}

/* ---- macros ---- */

static tri_status analyze_macro(tri_jtree *t, tri_jopen_scope *s, tri_jmacro *m) {
  for (int64_t i = 0; i < m->n_arg; i++) TRI_TRY(tri_jscope_declare(t, s, m->arg[i], &m->arg_slot[i]));
  TRI_TRY(analyze_list(t, s, &m->defaults));
  return analyze_body(t, s, &m->body);
}

/* Declares caller, kwargs and varargs if the body reads them and they are not arguments. */
static tri_status declare_special(tri_jtree *t, tri_jopen_scope *s, tri_jmacro *m, int line) {
  static const char *const names[] = {"caller", "kwargs", "varargs"};
  int                     *slot[] = {&m->caller_slot, &m->kwargs_slot, &m->varargs_slot};
  bool                     read[3], is_arg[3] = {false};
  tri_jname               *name;

  tri_jwalk_undeclared(&m->body, names, 3, read);
  for (int64_t i = 0; i < m->n_arg; i++)
    for (int k = 0; k < 3; k++) {
      if (strcmp(m->arg[i]->s, names[k])) continue;
      is_arg[k] = true;
      if (k == 0 && read[0] && i < m->n_arg - m->defaults.n)
        TRI_JFAIL(
            line,
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be given "
            "a default.");
    }
  m->explicit_caller = is_arg[0];
  m->reads_caller = read[0];
  for (int k = 0; k < 3; k++) {
    *slot[k] = -1;
    if (!read[k] || is_arg[k]) continue;
    TRI_TRY(tri_jtree_name(t, names[k], strlen(names[k]), &name));
    TRI_TRY(tri_jscope_declare(t, s, name, slot[k]));
  }
  return TRI_OK;
}

static tri_status bind_macro(frame outer, tri_jmacro *m, int line) {
  tri_jtree      *t = outer.tree;
  tri_jfunc       func;
  tri_jopen_scope scope;
  frame           f = {.tree = t, .scope = &scope};

  tri_jfunc_begin(&func, outer.scope->func);
  tri_jscope_enter(&scope, outer.scope, &func);
  TRI_TRY(tri_jarena_take(&t->arena, (size_t)m->n_arg * sizeof(int) + 1, (void **)&m->arg_slot));
  TRI_TRY(tri_jarena_take(&t->arena, (size_t)m->n_arg * sizeof(char *) + 1, (void **)&m->unset));
  for (int64_t i = 0; i < m->n_arg; i++)
    TRI_TRY(tri_jtree_text(t, &m->unset[i], "parameter '%.1000s' was not provided", m->arg[i]->s));
  TRI_TRY(analyze_macro(t, &scope, m));
  TRI_TRY(declare_special(t, &scope, m, line));
  TRI_TRY(bind_list(f, &m->defaults));
  TRI_TRY(bind_body(f, &m->body));
  TRI_TRY(tri_jscope_leave(t, &scope, &m->scope));
  tri_jfunc_end(&func);
  m->n_slot = func.n_slot;
  return TRI_OK;
}

/* ---- loops ---- */

static bool refuse_loop(void *ctx, const tri_jname *name, tri_juse use, int line) {
  if (use != TRI_JUSE_STORE || strcmp(name->s, "loop")) return true;
  *(int *)ctx = line;
  return false;
}

/* The test of a loop is a function of its own. It passes the elements on. */
static tri_status bind_loop_test(frame outer, tri_jfor *l) {
  tri_jfunc       func;
  tri_jopen_scope scope;
  frame           f = {.tree = outer.tree, .scope = &scope};

  if (!l->test) return TRI_OK;
  tri_jfunc_begin(&func, outer.scope->func);
  tri_jscope_enter(&scope, outer.scope, &func);
  TRI_TRY(analyze_parameters(f.tree, &scope, l->test_target));
  TRI_TRY(analyze_expr(f.tree, &scope, l->test));
  TRI_TRY(bind_expr(f, l->test_target));
  TRI_TRY(bind_expr(f, l->test));
  TRI_TRY(tri_jscope_leave(f.tree, &scope, &l->test_scope));
  tri_jfunc_end(&func);
  l->test_slots = func.n_slot;
  return TRI_OK;
}

static tri_status check_loop_targets(const tri_jstmt *x) {
  const tri_jfor *l = x->as.loop;
  int             line = 0;

  if (!tri_jwalk_expr(l->target, refuse_loop, &line) || !tri_jwalk_body(&l->body, refuse_loop, &line) ||
      !tri_jwalk_body(&l->otherwise, refuse_loop, &line))
    TRI_JFAIL(line, "Can't assign to special loop variable in for-loop target");
  return TRI_OK;
}

static tri_status bind_for(frame outer, tri_jstmt *x) {
  static const char *const names[] = {"loop"};
  tri_jfor                *l = x->as.loop;
  tri_jopen_scope          scope;
  frame                    f = {.tree = outer.tree, .scope = &scope};
  tri_jname               *name;
  bool                     extended;

  TRI_TRY(check_loop_targets(x));
  TRI_TRY(bind_expr(outer, l->iter));
  TRI_TRY(bind_loop_test(outer, l));
  tri_jscope_enter(&scope, outer.scope, outer.scope->func);
  l->loop_slot = -1;
  tri_jwalk_undeclared(&l->body, names, 1, &extended);
  if (extended) {
    TRI_TRY(tri_jtree_name(f.tree, "loop", 4, &name));
    TRI_TRY(tri_jscope_declare(f.tree, &scope, name, &l->loop_slot));
  }
  TRI_TRY(analyze_parameters(f.tree, &scope, l->target));
  TRI_TRY(analyze_body(f.tree, &scope, &l->body));
  TRI_TRY(bind_expr(f, l->target));
  TRI_TRY(bind_body(f, &l->body));
  TRI_TRY(tri_jscope_leave(f.tree, &scope, &l->body_scope));
  tri_jscope_enter(&scope, outer.scope, outer.scope->func);
  TRI_TRY(analyze_body(f.tree, &scope, &l->otherwise));
  TRI_TRY(bind_body(f, &l->otherwise));
  return tri_jscope_leave(f.tree, &scope, &l->else_scope);
}

/* ---- other statements ---- */

static tri_status bind_if(frame f, tri_jstmt *x) {
  f.soft = true;
  for (tri_jbranch *b = x->as.cond.branch; b; b = b->next) {
    TRI_TRY(bind_expr(f, b->test));
    TRI_TRY(bind_body(f, &b->body));
  }
  return bind_body(f, &x->as.cond.otherwise);
}

static tri_status bind_set_block(frame outer, tri_jstmt *x) {
  tri_jopen_scope scope;
  frame           f = {.tree = outer.tree, .scope = &scope};

  tri_jscope_enter(&scope, outer.scope, outer.scope->func);
  TRI_TRY(analyze_body(f.tree, &scope, &x->as.set.body));
  TRI_TRY(bind_body(f, &x->as.set.body));
  TRI_TRY(bind_expr(f, x->as.set.value));
  TRI_TRY(tri_jscope_leave(f.tree, &scope, &x->as.set.scope));
  return bind_expr(outer, x->as.set.target);
}

/* Binds filter, with and autoescape blocks. */
static tri_status bind_block(frame outer, tri_jstmt *x) {
  tri_jopen_scope scope;
  frame           f = {.tree = outer.tree, .scope = &scope};

  TRI_TRY(bind_list(outer, &x->as.block.value));
  tri_jscope_enter(&scope, outer.scope, outer.scope->func);
  TRI_TRY(analyze_list(f.tree, &scope, &x->as.block.target));
  TRI_TRY(analyze_body(f.tree, &scope, &x->as.block.body));
  TRI_TRY(analyze_expr(f.tree, &scope, x->as.block.filter));
  TRI_TRY(bind_list(f, &x->as.block.target));
  TRI_TRY(bind_body(f, &x->as.block.body));
  TRI_TRY(bind_expr(f, x->as.block.filter));
  return tri_jscope_leave(f.tree, &scope, &x->as.block.scope);
}

static tri_status bind_statement(frame f, tri_jstmt *x) {
  switch (x->kind) {
  case TRI_JS_TEXT:
  case TRI_JS_BREAK:
  case TRI_JS_CONTINUE:
    return TRI_OK;
  case TRI_JS_PRINT:
    return bind_expr(f, x->as.print);
  case TRI_JS_SET:
    TRI_TRY(bind_expr(f, x->as.set.target));
    return bind_expr(f, x->as.set.value);
  case TRI_JS_SET_BLOCK:
    return bind_set_block(f, x);
  case TRI_JS_IF:
    return bind_if(f, x);
  case TRI_JS_FOR:
    return bind_for(f, x);
  case TRI_JS_MACRO:
    TRI_TRY(bind_macro(f, x->as.macro.macro, x->line));
    TRI_ASSERT(tri_jscope_find(f.scope, x->as.macro.macro->name, &x->as.macro.at)); /* stored by analyze */
    return TRI_OK;
  case TRI_JS_CALL:
    TRI_TRY(bind_expr(f, x->as.macro.call));
    return bind_macro(f, x->as.macro.macro, x->line);
  case TRI_JS_GENERATION:
    return bind_macro(f, x->as.macro.macro, x->line);
  case TRI_JS_FILTER:
  case TRI_JS_WITH:
  case TRI_JS_SCOPE:
    return bind_block(f, x);
  }
  return TRI_OK;
}

static tri_status bind_body(frame f, tri_jbody *body) {
  TRI_TRY(tri_jarena_enter(&f.tree->arena));
  for (tri_jstmt *x = body->first; x; x = x->next) TRI_TRY(bind_statement(f, x));
  tri_jarena_leave(&f.tree->arena);
  return TRI_OK;
}

tri_status tri_jresolve(tri_jtree *t) {
  static const char *const names[] = {"self"};
  tri_jfunc                func;
  tri_jopen_scope          scope;
  frame                    f = {.tree = t, .scope = &scope};
  bool                     reads_self;

  tri_jwalk_undeclared(&t->body, names, 1, &reads_self);
  if (reads_self) TRI_JFAIL(1, "self is not supported, because a chat template has no blocks");
  tri_jfunc_begin(&func, NULL);
  tri_jscope_enter(&scope, NULL, &func);
  TRI_TRY(analyze_body(t, &scope, &t->body));
  TRI_TRY(bind_body(f, &t->body));
  TRI_TRY(tri_jscope_leave(t, &scope, &t->scope));
  tri_jfunc_end(&func);
  t->n_slot = func.n_slot;
  return TRI_OK;
}
