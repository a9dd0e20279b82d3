/* parse_statement.c - parses statements, with one function for each tag, and the text and {{ }} between
 * them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "io/jinja/parse.h"

static tri_status parse_bodies(tri_jparser *p, const tri_jopen *open, tri_jbody *body);

/* Parses the body after a tag, up to one of the end tags. That end tag is then the current token. */
static tri_status parse_body(tri_jparser *p, tri_jopen open, tri_jbody *body) {
  bool ignored;

  TRI_TRY(tri_jarena_enter(&p->tree->arena));
  open.outer = p->open;
  TRI_TRY(tri_jparse_skip_if(p, TRI_JT_COLON, &ignored));
  TRI_TRY(tri_jparse_expect(p, TRI_JT_BLOCK_END, NULL));
  TRI_TRY(parse_bodies(p, &open, body));
  p->open = open.outer;
  tri_jarena_leave(&p->tree->arena);
  return TRI_OK;
}

/* Parses a body with one end tag and skips the end tag. */
static tri_status parse_body_to(tri_jparser *p, const char *tag, const char *end, tri_jbody *body) {
  TRI_TRY(parse_body(p, (tri_jopen){.tag = tag, .ends = {end}}, body));
  return tri_jparse_next(p);
}

/* ---- targets ---- */

static const char *const kind_text[] = {
    [TRI_JX_CONST] = "const",   [TRI_JX_NAME] = "name",       [TRI_JX_NSREF] = "nsref",
    [TRI_JX_TUPLE] = "tuple",   [TRI_JX_LIST] = "list",       [TRI_JX_DICT] = "dict",
    [TRI_JX_CONCAT] = "concat", [TRI_JX_BINARY] = "operator", [TRI_JX_AND] = "and",
    [TRI_JX_OR] = "or",         [TRI_JX_NOT] = "not",         [TRI_JX_NEGATE] = "neg",
    [TRI_JX_PLUS] = "pos",      [TRI_JX_COMPARE] = "compare", [TRI_JX_ATTR] = "getattr",
    [TRI_JX_ITEM] = "getitem",  [TRI_JX_SLICE] = "getitem",   [TRI_JX_CALL] = "call",
    [TRI_JX_FILTER] = "filter", [TRI_JX_TEST] = "test",       [TRI_JX_COND] = "condexpr",
};

static bool can_assign(const tri_jexpr *x) {
  if (x->kind == TRI_JX_NAME || x->kind == TRI_JX_NSREF) return true;
  for (int64_t i = 0; x->kind == TRI_JX_TUPLE && i < x->as.list.n; i++)
    if (!can_assign(x->as.list.item[i])) return false;
  return x->kind == TRI_JX_TUPLE;
}

static void mark_use(tri_jexpr *x, tri_juse use) {
  if (x->kind == TRI_JX_NAME) x->as.name.use = use;
  for (int64_t i = 0; x->kind == TRI_JX_TUPLE && i < x->as.list.n; i++) mark_use(x->as.list.item[i], use);
}

/* Parses a target of set, for or with: names and tuples of names. */
static tri_status parse_target(tri_jparser *p, bool with_namespace, tri_juse use, tri_jexpr **out) {
  TRI_TRY(tri_jparse_tuple(p, (tri_jtuple){.targets = true, .with_namespace = with_namespace}, out));
  if (!can_assign(*out)) TRI_JFAIL((*out)->line, "can't assign to '%s'", kind_text[(*out)->kind]);
  mark_use(*out, use);
  return TRI_OK;
}

static tri_status parse_target_name(tri_jparser *p, tri_jname **out) {
  static const char *const constant[] = {"true", "false", "none", "True", "False", "None"};

  int line = p->token.line;
  TRI_TRY(tri_jparse_expect(p, TRI_JT_NAME, out));
  for (size_t i = 0; i < sizeof constant / sizeof *constant; i++)
    if (!strcmp((*out)->s, constant[i])) TRI_JFAIL(line, "can't assign to 'name'");
  return TRI_OK;
}

/* ---- statements: the current token is the tag's name ---- */

static tri_status parse_set(tri_jparser *p, int line, tri_jbody *body) {
  tri_jexpr *target, *filter;
  tri_jstmt *s;
  bool       assign;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(parse_target(p, true, TRI_JUSE_STORE, &target));
  TRI_TRY(tri_jparse_skip_if(p, TRI_JT_ASSIGN, &assign));
  TRI_TRY(tri_jstmt_put(p->tree, body, assign ? TRI_JS_SET : TRI_JS_SET_BLOCK, line, &s));
  s->as.set.target = target;
  if (assign) return tri_jparse_tuple(p, (tri_jtuple){0}, &s->as.set.value);
  TRI_TRY(tri_jparse_filters(p, NULL, false, &filter));
  s->as.set.value = filter;
  return parse_body_to(p, "set", "endset", &s->as.set.body);
}

static tri_status parse_for(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;
  tri_jfor  *f;
  bool       found;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_FOR, line, &s));
  TRI_TRY(tri_jarena_take(&p->tree->arena, sizeof *f, (void **)&f));
  s->as.loop = f;
  TRI_TRY(parse_target(p, false, TRI_JUSE_STORE, &f->target));
  TRI_TRY(tri_jparse_expect_name(p, "in"));
  TRI_TRY(tri_jparse_tuple(p, (tri_jtuple){.without_cond = true}, &f->iter));
  TRI_TRY(tri_jparse_skip_name(p, "if", &found));
  if (found) {
    TRI_TRY(tri_jparse_expression(p, true, &f->test));
    TRI_TRY(tri_jexpr_copy_target(p->tree, f->target, &f->test_target));
  }
  if (tri_jparse_is_name(p, "recursive")) TRI_JFAIL(line, "a recursive loop is not supported");
  p->loops++;
  TRI_TRY(parse_body(p, (tri_jopen){.tag = "for", .ends = {"endfor", "else"}}, &f->body));
  p->loops--;
  found = tri_jparse_is_name(p, "else");
  TRI_TRY(tri_jparse_next(p));
  return found ? parse_body_to(p, "for", "endfor", &f->otherwise) : TRI_OK;
}

static tri_status parse_if(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt    *s;
  tri_jbranch **at, *branch;
  bool          more = true, last;

  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_IF, line, &s));
  for (at = &s->as.cond.branch; more; at = &branch->next) {
    TRI_TRY(tri_jarena_take(&p->tree->arena, sizeof *branch, (void **)&branch));
    *at = branch;
    branch->line = p->token.line;
    TRI_TRY(tri_jparse_next(p)); /* if, elif */
    TRI_TRY(tri_jparse_tuple(p, (tri_jtuple){.without_cond = true}, &branch->test));
    TRI_TRY(parse_body(p, (tri_jopen){.tag = "if", .ends = {"elif", "else", "endif"}}, &branch->body));
    more = tri_jparse_is_name(p, "elif");
  }
  last = tri_jparse_is_name(p, "else");
  TRI_TRY(tri_jparse_next(p));
  return last ? parse_body_to(p, "if", "endif", &s->as.cond.otherwise) : TRI_OK;
}

static tri_status put_argument(tri_jparser *p, tri_jmacro *m, tri_jname *name, int64_t *cap, int line) {
  for (int64_t i = 0; i < m->n_arg; i++)
    if (m->arg[i] == name) TRI_JFAIL(line, "duplicate argument '%.200s' of a macro", name->s);
  TRI_TRY(tri_jarena_step(&p->tree->arena, m->n_arg));
  if (m->n_arg == *cap) {
    tri_jname **more;
    *cap = *cap ? 2 * *cap : 4;
    TRI_TRY(tri_jarena_take(&p->tree->arena, (size_t)*cap * sizeof(tri_jname *), (void **)&more));
    if (m->n_arg) memcpy(more, m->arg, (size_t)m->n_arg * sizeof(tri_jname *));
    m->arg = more;
  }
  m->arg[m->n_arg++] = name;
  return TRI_OK;
}

static tri_status parse_signature(tri_jparser *p, tri_jmacro *m) {
  int64_t    cap = 0;
  tri_jname *name;
  tri_jexpr *x;
  bool       found;

  TRI_TRY(tri_jparse_expect(p, TRI_JT_LPAREN, NULL));
  while (!tri_jparse_is(p, TRI_JT_RPAREN)) {
    if (m->n_arg) TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
    TRI_TRY(parse_target_name(p, &name));
    TRI_TRY(tri_jparse_skip_if(p, TRI_JT_ASSIGN, &found));
    if (found) {
      TRI_TRY(tri_jparse_expression(p, true, &x));
      TRI_TRY(tri_jexprs_put(p->tree, &m->defaults, x));
    } else if (m->defaults.n) {
      TRI_JFAIL(p->token.line, "non-default argument follows default argument");
    }
    TRI_TRY(put_argument(p, m, name, &cap, p->token.line));
  }
  return tri_jparse_next(p);
}

/* Parses the body of a macro. Loops around the macro do not reach into it. */
static tri_status parse_macro_body(tri_jparser *p, const char *tag, const char *end, tri_jmacro *m) {
  int loops = p->loops;

  p->loops = 0;
  TRI_TRY(parse_body_to(p, tag, end, &m->body));
  p->loops = loops;
  return TRI_OK;
}

static tri_status put_macro(tri_jparser *p, tri_jstmt_kind kind, int line, tri_jbody *body, tri_jstmt **out) {
  TRI_TRY(tri_jstmt_put(p->tree, body, kind, line, out));
  return tri_jarena_take(&p->tree->arena, sizeof *(*out)->as.macro.macro, (void **)&(*out)->as.macro.macro);
}

static tri_status parse_macro(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(put_macro(p, TRI_JS_MACRO, line, body, &s));
  TRI_TRY(parse_target_name(p, &s->as.macro.macro->name));
  TRI_TRY(parse_signature(p, s->as.macro.macro));
  return parse_macro_body(p, "macro", "endmacro", s->as.macro.macro);
}

static tri_status parse_call_block(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(put_macro(p, TRI_JS_CALL, line, body, &s));
  if (tri_jparse_is(p, TRI_JT_LPAREN)) TRI_TRY(parse_signature(p, s->as.macro.macro));
  TRI_TRY(tri_jparse_expression(p, true, &s->as.macro.call));
  if (s->as.macro.call->kind != TRI_JX_CALL) TRI_JFAIL(line, "expected call");
  for (int64_t i = 0; i < s->as.macro.call->as.call.args->named.n; i++)
    if (!strcmp(s->as.macro.call->as.call.args->key[i]->s, "caller"))
      TRI_JFAIL(line, "keyword argument repeated: caller");
  return parse_macro_body(p, "call", "endcall", s->as.macro.macro);
}

static tri_status parse_generation(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(put_macro(p, TRI_JS_GENERATION, line, body, &s));
  p->tree->marks = true;
  return parse_macro_body(p, "generation", "endgeneration", s->as.macro.macro);
}

static tri_status parse_filter_block(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_FILTER, line, &s));
  TRI_TRY(tri_jparse_filters(p, NULL, true, &s->as.block.filter));
  return parse_body_to(p, "filter", "endfilter", &s->as.block.body);
}

static tri_status parse_with(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;
  tri_jexpr *x;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_WITH, line, &s));
  while (!tri_jparse_is(p, TRI_JT_BLOCK_END)) {
    if (s->as.block.target.n) TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
    TRI_TRY(parse_target(p, false, TRI_JUSE_PARAMETER, &x));
    TRI_TRY(tri_jexprs_put(p->tree, &s->as.block.target, x));
    TRI_TRY(tri_jparse_expect(p, TRI_JT_ASSIGN, NULL));
    TRI_TRY(tri_jparse_expression(p, true, &x));
    TRI_TRY(tri_jexprs_put(p->tree, &s->as.block.value, x));
  }
  return parse_body_to(p, "with", "endwith", &s->as.block.body);
}

/* Only `false` is accepted, because autoescape is off already. */
static tri_status parse_autoescape(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;
  tri_jexpr *x;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(tri_jparse_expression(p, true, &x));
  if (x->kind != TRI_JX_CONST || tri_jtruth(x->as.value))
    TRI_JFAIL(line, "{%% autoescape %%} is supported only with false");
  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_SCOPE, line, &s));
  return parse_body_to(p, "autoescape", "endautoescape", &s->as.block.body);
}

static tri_status parse_print(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jparse_next(p));
  for (bool first = true; !tri_jparse_is(p, TRI_JT_BLOCK_END); first = false) {
    if (!first) TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
    TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_PRINT, line, &s));
    TRI_TRY(tri_jparse_expression(p, true, &s->as.print));
  }
  return TRI_OK;
}

static tri_status parse_jump(tri_jparser *p, int line, tri_jbody *body) {
  tri_jstmt *s;
  bool       stop = tri_jparse_is_name(p, "break");

  if (!p->loops) TRI_JFAIL(line, "'%s' outside loop", p->token.name->s);
  TRI_TRY(tri_jstmt_put(p->tree, body, stop ? TRI_JS_BREAK : TRI_JS_CONTINUE, line, &s));
  return tri_jparse_next(p);
}

static tri_status refuse(tri_jparser *p, int line, tri_jbody *body) {
  (void)body;
  TRI_JFAIL(line, "{%% %s %%} is not supported, because a chat template stands alone", p->token.name->s);
}

/* ---- tags ---- */

typedef struct tag_row {
  const char *name;
  tri_status (*parse)(tri_jparser *p, int line, tri_jbody *body);
} tag_row;

static const tag_row tags[] = {
    {"set", parse_set},
    {"if", parse_if},
    {"for", parse_for},
    {"macro", parse_macro},
    {"generation", parse_generation},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"print", parse_print},
    {"break", parse_jump},
    {"continue", parse_jump},
    {"autoescape", parse_autoescape},
    {"block", refuse},
    {"extends", refuse},
    {"include", refuse},
    {"import", refuse},
    {"from", refuse},
};

/* Writes "'a' or 'b'", the end tags expected by the innermost open block. */
static void put_ends(const tri_jopen *open, char *out, size_t cap) {
  size_t n = 0;

  out[0] = 0;
  for (int i = 0; i < 3 && open->ends[i] && n < cap; i++)
    n += (size_t)snprintf(out + n, cap - n, "%s'%s'", i ? " or " : "", open->ends[i]);
}

static bool ends_any(const tri_jopen *open, const char *tag) {
  for (; open; open = open->outer)
    for (int i = 0; i < 3 && open->ends[i]; i++)
      if (!strcmp(open->ends[i], tag)) return true;
  return false;
}

static tri_status fail_unknown(const tri_jparser *p) {
  const char *tag = p->token.name->s;
  char        ends[80];

  if (!p->open) TRI_JFAIL(p->token.line, "Encountered unknown tag '%.200s'.", tag);
  put_ends(p->open, ends, sizeof ends);
  if (ends_any(p->open, tag))
    TRI_JFAIL(
        p->token.line,
        "Encountered unknown tag '%s'. You probably made a nesting mistake. Jinja is expecting this tag, but "
        "currently looking for %s. The innermost block that needs to be closed is '%s'.",
        tag, ends, p->open->tag);
  TRI_JFAIL(
      p->token.line,
      "Encountered unknown tag '%.200s'. Jinja was looking for the following tags: %s. The innermost block "
      "that needs to be closed is '%s'.",
      tag, ends, p->open->tag);
}

static tri_status parse_statement(tri_jparser *p, tri_jbody *body) {
  int line = p->token.line;

  if (!tri_jparse_is(p, TRI_JT_NAME)) TRI_JFAIL(line, "tag name expected");
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
    if (!strcmp(tags[i].name, p->token.name->s)) {
      TRI_TRY(tags[i].parse(p, line, body));
      return tri_jparse_expect(p, TRI_JT_BLOCK_END, NULL);
    }
  return fail_unknown(p);
}

static tri_status parse_print_tag(tri_jparser *p, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_PRINT, p->token.line, &s));
  TRI_TRY(tri_jparse_tuple(p, (tri_jtuple){0}, &s->as.print));
  return tri_jparse_expect(p, TRI_JT_VARIABLE_END, NULL);
}

static tri_status parse_text(tri_jparser *p, tri_jbody *body) {
  tri_jstmt *s;

  TRI_TRY(tri_jstmt_put(p->tree, body, TRI_JS_TEXT, p->token.line, &s));
  s->as.text.s = p->token.value.as.text.s;
  s->as.text.n = p->token.value.as.text.n;
  return tri_jparse_next(p);
}

static bool is_end(const tri_jparser *p, const tri_jopen *open) {
  for (int i = 0; open && i < 3 && open->ends[i]; i++)
    if (tri_jparse_is_name(p, open->ends[i])) return true;
  return false;
}

static tri_status parse_bodies(tri_jparser *p, const tri_jopen *open, tri_jbody *body) {
  char ends[80];

  p->open = open;
  for (;;) {
    if (tri_jparse_is(p, TRI_JT_EOF)) break;
    if (tri_jparse_is(p, TRI_JT_DATA)) {
      TRI_TRY(parse_text(p, body));
    } else if (tri_jparse_is(p, TRI_JT_VARIABLE_BEGIN)) {
      TRI_TRY(parse_print_tag(p, body));
    } else {
      TRI_TRY(tri_jparse_next(p)); /* begin of block */
      if (is_end(p, open)) return TRI_OK;
      TRI_TRY(parse_statement(p, body));
    }
  }
  if (!open) return TRI_OK;
  put_ends(open, ends, sizeof ends);
  TRI_JFAIL(
      p->token.line,
      "Unexpected end of template. Jinja was looking for the following tags: %s. The innermost block that "
      "needs to be closed is '%s'.",
      ends, open->tag);
}

tri_status tri_jparse_template(tri_jparser *p) {
  TRI_TRY(tri_jparse_next(p));
  return parse_bodies(p, NULL, &p->tree->body);
}
