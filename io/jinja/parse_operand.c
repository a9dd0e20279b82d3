/* parse_operand.c - parses names, literals, brackets and their postfixes: .name, [key], calls, filters,
 * tests. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "io/jinja/parse.h"

static tri_status make_const(tri_jparser *p, int line, tri_jvalue value, tri_jexpr **out) {
  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_CONST, line, out));
  (*out)->as.value = value;
  return TRI_OK;
}

static tri_status parse_part(tri_jparser *p, tri_jexpr **out) { return p->expression(p, true, out); }

/* ---- brackets ---- */

static tri_status put_part(tri_jparser *p, tri_jexpr *x, tri_jexpr *part) {
  TRI_TRY(tri_jexprs_put(p->tree, &x->as.list, part));
  return tri_jexpr_holds(x, part);
}

static tri_status parse_list(tri_jparser *p, tri_jexpr **out) {
  tri_jexpr *part;

  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_LIST, p->token.line, out));
  TRI_TRY(tri_jparse_next(p));
  while (!tri_jparse_is(p, TRI_JT_RBRACKET)) {
    if ((*out)->as.list.n) TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
    if (tri_jparse_is(p, TRI_JT_RBRACKET)) break;
    TRI_TRY(parse_part(p, &part));
    TRI_TRY(put_part(p, *out, part));
  }
  return tri_jparse_next(p);
}

static tri_status parse_dict(tri_jparser *p, tri_jexpr **out) {
  tri_jexpr *part;

  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_DICT, p->token.line, out));
  TRI_TRY(tri_jparse_next(p));
  while (!tri_jparse_is(p, TRI_JT_RBRACE)) {
    if ((*out)->as.list.n) TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
    if (tri_jparse_is(p, TRI_JT_RBRACE)) break;
    TRI_TRY(parse_part(p, &part));
    TRI_TRY(put_part(p, *out, part));
    TRI_TRY(tri_jparse_expect(p, TRI_JT_COLON, NULL));
    TRI_TRY(parse_part(p, &part));
    TRI_TRY(put_part(p, *out, part));
  }
  return tri_jparse_next(p);
}

/* Jinja lists `in` and `recursive` as ends too, but never finds them (Token.test_any), so `for x, in`
 * fails. */
static bool is_tuple_end(const tri_jparser *p) {
  return tri_jparse_is(p, TRI_JT_VARIABLE_END) || tri_jparse_is(p, TRI_JT_BLOCK_END) ||
         tri_jparse_is(p, TRI_JT_RPAREN);
}

tri_status tri_jparse_tuple(tri_jparser *p, tri_jtuple how, tri_jexpr **out) {
  tri_jexpr *x = NULL, *part = NULL;
  int        line = p->token.line;

  while (!is_tuple_end(p)) {
    if (how.targets)
      TRI_TRY(tri_jparse_primary(p, how.with_namespace, &part));
    else
      TRI_TRY(p->expression(p, !how.without_cond, &part));
    if (!x && !tri_jparse_is(p, TRI_JT_COMMA)) {
      *out = part;
      return TRI_OK;
    }
    if (!x) TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_TUPLE, line, &x));
    TRI_TRY(put_part(p, x, part));
    if (!tri_jparse_is(p, TRI_JT_COMMA)) break;
    line = p->token.line;
    TRI_TRY(tri_jparse_next(p));
  }
  if (!x && !how.in_brackets)
    TRI_JFAIL(p->token.line, "Expected an expression, got '%.200s'", tri_jparse_token_text(p));
  if (!x) TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_TUPLE, line, &x));
  x->line = line;
  *out = x;
  return TRI_OK;
}

/* ---- names and literals ---- */

/* Joins adjacent strings. */
static tri_status parse_string(tri_jparser *p, tri_jexpr **out) {
  tri_text   text = {0};
  tri_jvalue value = p->token.value;
  int        line = p->token.line;
  tri_status st = TRI_OK;

  TRI_TRY(tri_jparse_next(p));
  if (tri_jparse_is(p, TRI_JT_STRING)) {
    TRI_TRY_DONE(tri_jput(&p->tree->arena, &text, value.as.text.s, value.as.text.n));
    while (tri_jparse_is(p, TRI_JT_STRING)) {
      TRI_TRY_DONE(tri_jput(&p->tree->arena, &text, p->token.value.as.text.s, p->token.value.as.text.n));
      TRI_TRY_DONE(tri_jparse_next(p));
    }
    TRI_TRY_DONE(tri_jtext_copy(&p->tree->arena, text.len ? text.data : "", text.len, &value));
  }
  TRI_TRY_DONE(make_const(p, line, value, out));
done:
  tri_text_free(&text);
  return st;
}

/* Recognises true, false and none in both spellings. */
static bool const_name(const char *s, tri_jvalue *out) {
  if (!strcmp(s, "true") || !strcmp(s, "True"))
    *out = tri_jbool(true);
  else if (!strcmp(s, "false") || !strcmp(s, "False"))
    *out = tri_jbool(false);
  else if (!strcmp(s, "none") || !strcmp(s, "None"))
    *out = tri_jnone();
  else
    return false;
  return true;
}

static tri_status parse_name(tri_jparser *p, bool with_namespace, tri_jexpr **out) {
  tri_jname *name = p->token.name;
  int        line = p->token.line;
  tri_jvalue value;

  TRI_TRY(tri_jparse_next(p));
  if (const_name(name->s, &value)) return make_const(p, line, value, out);
  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_NAME, line, out));
  (*out)->as.name.name = name;
  if (!with_namespace || !tri_jparse_is(p, TRI_JT_DOT)) return TRI_OK;
  (*out)->kind = TRI_JX_NSREF;
  TRI_TRY(tri_jparse_next(p));
  return tri_jparse_expect(p, TRI_JT_NAME, &(*out)->as.name.attr);
}

tri_status tri_jparse_primary(tri_jparser *p, bool with_namespace, tri_jexpr **out) {
  tri_jvalue value = p->token.value;
  int        line = p->token.line;

  switch (p->token.kind) {
  case TRI_JT_NAME:
    return parse_name(p, with_namespace, out);
  case TRI_JT_STRING:
    return parse_string(p, out);
  case TRI_JT_INTEGER:
  case TRI_JT_FLOAT:
    TRI_TRY(tri_jparse_next(p));
    return make_const(p, line, value, out);
  case TRI_JT_LPAREN:
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(tri_jparse_tuple(p, (tri_jtuple){.in_brackets = true}, out));
    return tri_jparse_expect(p, TRI_JT_RPAREN, NULL);
  case TRI_JT_LBRACKET:
    return parse_list(p, out);
  case TRI_JT_LBRACE:
    return parse_dict(p, out);
  default:
    TRI_JFAIL(line, "unexpected '%s'", tri_jparse_token_text(p));
  }
}

/* ---- arguments ---- */

static tri_status put_named(tri_jparser *p, tri_jcall_args *args, tri_jname *key, tri_jexpr *value,
                            int line) {
  int64_t n = args->named.n;

  for (int64_t i = 0; i < n; i++)
    if (args->key[i] == key) TRI_JFAIL(line, "keyword argument repeated: %.200s", key->s);
  TRI_TRY(tri_jarena_step(&p->tree->arena, n));
  TRI_TRY(tri_jexprs_put(p->tree, &args->named, value));
  if ((n & (n - 1)) == 0) { /* full at 0, 1, 2, 4, 8, ... */
    tri_jname **more;
    TRI_TRY(tri_jarena_take(&p->tree->arena, (size_t)(n ? 2 * n : 1) * sizeof(tri_jname *), (void **)&more));
    for (int64_t i = 0; i < n; i++) more[i] = args->key[i];
    args->key = more;
  }
  args->key[n] = key;
  return TRI_OK;
}

/* Parses an argument. ok false: it may not follow the arguments before it. */
static tri_status parse_argument(tri_jparser *p, tri_jexpr *owner, tri_jcall_args *args, bool *ok) {
  tri_jtoken ahead = {0};
  tri_jname *key = p->token.name;
  tri_jexpr *x;
  bool       star = tri_jparse_is(p, TRI_JT_MUL), stars = tri_jparse_is(p, TRI_JT_POW), named = false;

  if (tri_jparse_is(p, TRI_JT_NAME)) {
    TRI_TRY(tri_jparse_look(p, &ahead));
    named = ahead.kind == TRI_JT_ASSIGN;
  }
  *ok = !args->more_named && (stars || named || (!args->more && (star || !args->named.n)));
  if (!*ok) return TRI_OK;
  if (named) TRI_TRY(tri_jparse_next(p));
  if (named || star || stars) TRI_TRY(tri_jparse_next(p));
  TRI_TRY(parse_part(p, &x));
  TRI_TRY(tri_jexpr_holds(owner, x));
  if (named) return put_named(p, args, key, x, x->line);
  if (star)
    args->more = x;
  else if (stars)
    args->more_named = x;
  else
    TRI_TRY(tri_jexprs_put(p->tree, &args->pos, x));
  return TRI_OK;
}

static tri_status parse_args(tri_jparser *p, tri_jexpr *owner, tri_jcall_args *args) {
  int  line = p->token.line;
  bool first = true, ok;

  TRI_TRY(tri_jparse_next(p));
  for (; !tri_jparse_is(p, TRI_JT_RPAREN); first = false) {
    if (!first) TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
    if (!first && tri_jparse_is(p, TRI_JT_RPAREN)) break;
    TRI_TRY(parse_argument(p, owner, args, &ok));
    if (!ok) TRI_JFAIL(line, "invalid syntax for function call expression");
  }
  return tri_jparse_next(p);
}

/* Makes a call, filter or test of x. NULL: a block's text. */
static tri_status make_call(tri_jparser *p, tri_jexpr_kind kind, int line, tri_jexpr *x, tri_jname *name,
                            tri_jexpr **out) {
  TRI_TRY(tri_jexpr_make(p->tree, kind, line, out));
  TRI_TRY(tri_jarena_take(&p->tree->arena, sizeof *(*out)->as.call.args, (void **)&(*out)->as.call.args));
  (*out)->as.call.of = x;
  (*out)->as.call.name = name;
  return tri_jexpr_holds(*out, x);
}

static tri_status parse_call(tri_jparser *p, tri_jexpr *x, tri_jexpr **out) {
  TRI_TRY(make_call(p, TRI_JX_CALL, p->token.line, x, NULL, out));
  return parse_args(p, *out, (*out)->as.call.args);
}

/* Parses the name of a filter or test: names joined by dots. */
static tri_status parse_dotted(tri_jparser *p, tri_jname **out) {
  char *text;

  TRI_TRY(tri_jparse_expect(p, TRI_JT_NAME, out));
  while (tri_jparse_is(p, TRI_JT_DOT)) {
    tri_jname *more;
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(tri_jparse_expect(p, TRI_JT_NAME, &more));
    TRI_TRY(tri_jtree_text(p->tree, &text, "%.500s.%.500s", (*out)->s, more->s));
    TRI_TRY(tri_jtree_name(p->tree, text, strlen(text), out));
  }
  return TRI_OK;
}

tri_status tri_jparse_filters(tri_jparser *p, tri_jexpr *x, bool first, tri_jexpr **out) {
  bool ignored;

  *out = x;
  while (first || tri_jparse_is(p, TRI_JT_PIPE)) {
    tri_jname *name;
    int        line;
    if (!first) TRI_TRY(tri_jparse_next(p));
    first = false;
    line = p->token.line;
    TRI_TRY(parse_dotted(p, &name));
    TRI_TRY(make_call(p, TRI_JX_FILTER, line, *out, name, out));
    (*out)->as.call.filter = tri_jfilter_find(name->s, name->n, &ignored);
    if (tri_jparse_is(p, TRI_JT_LPAREN)) TRI_TRY(parse_args(p, *out, (*out)->as.call.args));
  }
  return TRI_OK;
}

/* ---- postfixes ---- */

static tri_status parse_slice(tri_jparser *p, tri_jexpr *of, tri_jexpr *begin, tri_jexpr **out) {
  tri_jexpr *bound[2] = {NULL, NULL};

  TRI_TRY(tri_jparse_next(p)); /* the first colon */
  for (int i = 0; i < 2; i++) {
    if (i && !tri_jparse_is(p, TRI_JT_COLON)) break;
    if (i) TRI_TRY(tri_jparse_next(p));
    if (!tri_jparse_is(p, TRI_JT_RBRACKET) && !tri_jparse_is(p, TRI_JT_COMMA) &&
        !tri_jparse_is(p, TRI_JT_COLON))
      TRI_TRY(parse_part(p, &bound[i]));
  }
  if (!tri_jparse_is(p, TRI_JT_RBRACKET)) TRI_JFAIL(p->token.line, "invalid syntax for a slice");
  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_SLICE, p->token.line, out));
  (*out)->as.part.of = of;
  (*out)->as.part.begin = begin;
  (*out)->as.part.end = bound[0];
  (*out)->as.part.step = bound[1];
  TRI_TRY(tri_jexpr_holds(*out, of));
  TRI_TRY(tri_jexpr_holds(*out, begin));
  TRI_TRY(tri_jexpr_holds(*out, bound[0]));
  TRI_TRY(tri_jexpr_holds(*out, bound[1]));
  return tri_jparse_next(p);
}

/* Parses [key], [a:b:c] or [a, b]. The last has a tuple as its key. */
static tri_status parse_subscript(tri_jparser *p, tri_jexpr *of, tri_jexpr **out) {
  int        line = p->token.line;
  tri_jexpr *key = NULL, *tuple = NULL;

  TRI_TRY(tri_jparse_next(p));
  if (tri_jparse_is(p, TRI_JT_COLON)) return parse_slice(p, of, NULL, out);
  if (!tri_jparse_is(p, TRI_JT_RBRACKET)) TRI_TRY(parse_part(p, &key));
  if (tri_jparse_is(p, TRI_JT_COLON)) return parse_slice(p, of, key, out);
  if (!tri_jparse_is(p, TRI_JT_RBRACKET) || !key) {
    TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_TUPLE, line, &tuple));
    if (key) TRI_TRY(put_part(p, tuple, key));
    while (!tri_jparse_is(p, TRI_JT_RBRACKET)) {
      TRI_TRY(tri_jparse_expect(p, TRI_JT_COMMA, NULL));
      TRI_TRY(parse_part(p, &key));
      TRI_TRY(put_part(p, tuple, key));
    }
    key = tuple;
  }
  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_ITEM, line, out));
  (*out)->as.part.of = of;
  (*out)->as.part.key = key;
  TRI_TRY(tri_jexpr_holds(*out, of));
  TRI_TRY(tri_jexpr_holds(*out, key));
  return tri_jparse_next(p);
}

/* Parses .name or .0 */
static tri_status parse_attr(tri_jparser *p, tri_jexpr *of, tri_jexpr **out) {
  int line = p->token.line;

  TRI_TRY(tri_jparse_next(p));
  if (tri_jparse_is(p, TRI_JT_NAME)) {
    TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_ATTR, line, out));
    (*out)->as.part.name = p->token.name;
  } else if (tri_jparse_is(p, TRI_JT_INTEGER)) {
    TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_ITEM, line, out));
    TRI_TRY(make_const(p, p->token.line, p->token.value, &(*out)->as.part.key));
  } else {
    TRI_JFAIL(p->token.line, "expected name or number");
  }
  (*out)->as.part.of = of;
  TRI_TRY(tri_jexpr_holds(*out, of));
  return tri_jparse_next(p);
}

static tri_status parse_postfix(tri_jparser *p, tri_jexpr *x, tri_jexpr **out) {
  for (*out = x;; x = *out) {
    if (tri_jparse_is(p, TRI_JT_DOT))
      TRI_TRY(parse_attr(p, x, out));
    else if (tri_jparse_is(p, TRI_JT_LBRACKET))
      TRI_TRY(parse_subscript(p, x, out));
    else if (tri_jparse_is(p, TRI_JT_LPAREN))
      TRI_TRY(parse_call(p, x, out));
    else
      return TRI_OK;
  }
}

static bool begins_argument(const tri_jparser *p) {
  switch (p->token.kind) {
  case TRI_JT_STRING:
  case TRI_JT_INTEGER:
  case TRI_JT_FLOAT:
  case TRI_JT_LBRACKET:
  case TRI_JT_LBRACE:
    return true;
  case TRI_JT_NAME:
    return !tri_jparse_is_name(p, "else") && !tri_jparse_is_name(p, "or") && !tri_jparse_is_name(p, "and");
  default:
    return false;
  }
}

/* Parses `x is [not] name`, with or without an argument in brackets. */
static tri_status parse_test(tri_jparser *p, tri_jexpr *x, tri_jexpr **out) {
  int        line = p->token.line;
  bool       negated, ignored;
  tri_jname *name;
  tri_jexpr *argument, *test;

  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(tri_jparse_skip_name(p, "not", &negated));
  TRI_TRY(parse_dotted(p, &name));
  TRI_TRY(make_call(p, TRI_JX_TEST, line, x, name, &test));
  test->as.call.test = tri_jtest_find(name->s, name->n, &ignored);
  if (tri_jparse_is(p, TRI_JT_LPAREN)) {
    TRI_TRY(parse_args(p, test, test->as.call.args));
  } else if (begins_argument(p)) {
    if (tri_jparse_is_name(p, "is")) TRI_JFAIL(p->token.line, "You cannot chain multiple tests with is");
    TRI_TRY(tri_jparse_primary(p, false, &argument));
    TRI_TRY(parse_postfix(p, argument, &argument));
    TRI_TRY(tri_jexprs_put(p->tree, &test->as.call.args->pos, argument));
    TRI_TRY(tri_jexpr_holds(test, argument));
  }
  *out = test;
  if (!negated) return TRI_OK;
  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_NOT, line, out));
  (*out)->as.binary.left = test;
  return tri_jexpr_holds(*out, test);
}

static tri_status parse_filters_and_tests(tri_jparser *p, tri_jexpr *x, tri_jexpr **out) {
  for (*out = x;; x = *out) {
    if (tri_jparse_is(p, TRI_JT_PIPE))
      TRI_TRY(tri_jparse_filters(p, x, false, out));
    else if (tri_jparse_is_name(p, "is"))
      TRI_TRY(parse_test(p, x, out));
    else if (tri_jparse_is(p, TRI_JT_LPAREN))
      TRI_TRY(parse_call(p, x, out));
    else
      return TRI_OK;
  }
}

tri_status tri_jparse_unary(tri_jparser *p, bool with_filter, tri_jexpr **out) {
  bool       minus = tri_jparse_is(p, TRI_JT_SUB), sign = minus || tri_jparse_is(p, TRI_JT_ADD);
  int        line = p->token.line;
  tri_jexpr *x;

  if (sign) {
    TRI_TRY(tri_jarena_enter(&p->tree->arena));
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(tri_jparse_unary(p, false, &x));
    tri_jarena_leave(&p->tree->arena);
    TRI_TRY(tri_jexpr_make(p->tree, minus ? TRI_JX_NEGATE : TRI_JX_PLUS, line, out));
    (*out)->as.binary.left = x;
    TRI_TRY(tri_jexpr_holds(*out, x));
    x = *out;
  } else {
    TRI_TRY(tri_jparse_primary(p, false, &x));
  }
  TRI_TRY(parse_postfix(p, x, &x));
  *out = x;
  return with_filter ? parse_filters_and_tests(p, x, out) : TRI_OK;
}
