/* parse_operators.c - parses expressions by precedence, with one function for each level as in Jinja's
 * parser.py: inline if, or, and, not, comparisons, + -, ~, * / // %, ** (left-associative). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/parse.h"

static tri_status join(tri_jparser *p, tri_jexpr_kind kind, tri_jop op, int line, tri_jexpr *left,
                       tri_jexpr *right, tri_jexpr **out) {
  tri_jexpr *x;

  TRI_TRY(tri_jexpr_make(p->tree, kind, line, &x));
  x->as.binary.op = op;
  x->as.binary.left = left;
  x->as.binary.right = right;
  TRI_TRY(tri_jexpr_holds(x, left));
  TRI_TRY(tri_jexpr_holds(x, right));
  *out = x;
  return TRI_OK;
}

/* Operators of a level, as pairs of token and operation. The list ends with EOF. */
typedef struct op_row {
  tri_jtoken_kind token;
  tri_jop         op;
} op_row;

static const op_row *find_op(const tri_jparser *p, const op_row *row) {
  for (; row->token != TRI_JT_EOF; row++)
    if (p->token.kind == row->token) return row;
  return NULL;
}

static tri_status parse_pow(tri_jparser *p, tri_jexpr **out) {
  int line = p->token.line;

  TRI_TRY(tri_jparse_unary(p, true, out));
  while (tri_jparse_is(p, TRI_JT_POW)) {
    tri_jexpr *right;
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(tri_jparse_unary(p, true, &right));
    TRI_TRY(join(p, TRI_JX_BINARY, TRI_JOP_POW, line, *out, right, out));
    line = p->token.line;
  }
  return TRI_OK;
}

static tri_status parse_products(tri_jparser *p, tri_jexpr **out) {
  static const op_row rows[] = {{TRI_JT_MUL, TRI_JOP_MUL},
                                {TRI_JT_DIV, TRI_JOP_DIV},
                                {TRI_JT_FLOORDIV, TRI_JOP_FLOORDIV},
                                {TRI_JT_MOD, TRI_JOP_MOD},
                                {TRI_JT_EOF, TRI_JOP_MUL}};
  int                 line = p->token.line;
  const op_row       *row;

  TRI_TRY(parse_pow(p, out));
  while ((row = find_op(p, rows)) != NULL) {
    tri_jexpr *right;
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(parse_pow(p, &right));
    TRI_TRY(join(p, TRI_JX_BINARY, row->op, line, *out, right, out));
    line = p->token.line;
  }
  return TRI_OK;
}

static tri_status parse_concat(tri_jparser *p, tri_jexpr **out) {
  int        line = p->token.line;
  tri_jexpr *x, *part;

  TRI_TRY(parse_products(p, out));
  if (!tri_jparse_is(p, TRI_JT_TILDE)) return TRI_OK;
  part = *out;
  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_CONCAT, line, &x));
  TRI_TRY(tri_jexprs_put(p->tree, &x->as.list, part));
  TRI_TRY(tri_jexpr_holds(x, part));
  while (tri_jparse_is(p, TRI_JT_TILDE)) {
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(parse_products(p, &part));
    TRI_TRY(tri_jexprs_put(p->tree, &x->as.list, part));
    TRI_TRY(tri_jexpr_holds(x, part));
  }
  *out = x;
  return TRI_OK;
}

static tri_status parse_sums(tri_jparser *p, tri_jexpr **out) {
  static const op_row rows[] = {
      {TRI_JT_ADD, TRI_JOP_ADD}, {TRI_JT_SUB, TRI_JOP_SUB}, {TRI_JT_EOF, TRI_JOP_ADD}};
  int           line = p->token.line;
  const op_row *row;

  TRI_TRY(parse_concat(p, out));
  while ((row = find_op(p, rows)) != NULL) {
    tri_jexpr *right;
    TRI_TRY(tri_jparse_next(p));
    TRI_TRY(parse_concat(p, &right));
    TRI_TRY(join(p, TRI_JX_BINARY, row->op, line, *out, right, out));
    line = p->token.line;
  }
  return TRI_OK;
}

/* Skips a comparison operator. *found: there was one. */
static tri_status skip_comparison(tri_jparser *p, tri_jop *op, bool *found) {
  static const op_row rows[] = {{TRI_JT_EQ, TRI_JOP_EQ}, {TRI_JT_NE, TRI_JOP_NE}, {TRI_JT_LT, TRI_JOP_LT},
                                {TRI_JT_LE, TRI_JOP_LE}, {TRI_JT_GT, TRI_JOP_GT}, {TRI_JT_GE, TRI_JOP_GE},
                                {TRI_JT_EOF, TRI_JOP_EQ}};
  const op_row       *row = find_op(p, rows);
  tri_jtoken          ahead;

  *found = true;
  if (row) {
    *op = row->op;
    return tri_jparse_next(p);
  }
  *op = TRI_JOP_IN;
  if (tri_jparse_is_name(p, "in")) return tri_jparse_next(p);
  if (tri_jparse_is_name(p, "not")) {
    TRI_TRY(tri_jparse_look(p, &ahead));
    *op = TRI_JOP_NOT_IN;
    if (ahead.kind == TRI_JT_NAME && ahead.name->n == 2 && ahead.name->s[0] == 'i' &&
        ahead.name->s[1] == 'n') {
      TRI_TRY(tri_jparse_next(p));
      return tri_jparse_next(p);
    }
  }
  *found = false;
  return TRI_OK;
}

static tri_status put_op(tri_jparser *p, tri_jexpr *x, tri_jop op) {
  int64_t n = x->as.compare.operand.n - 1;

  if ((n & (n - 1)) == 0) { /* full at 0, 1, 2, 4, 8, ... */
    tri_jop *more;
    TRI_TRY(tri_jarena_take(&p->tree->arena, (size_t)(n ? 2 * n : 1) * sizeof *more, (void **)&more));
    for (int64_t i = 0; i < n; i++) more[i] = x->as.compare.op[i];
    x->as.compare.op = more;
  }
  x->as.compare.op[n] = op;
  return TRI_OK;
}

static tri_status parse_compare(tri_jparser *p, tri_jexpr **out) {
  tri_jexpr *x = NULL, *part;
  int        line = p->token.line;
  tri_jop    op;
  bool       found;

  TRI_TRY(parse_sums(p, &part));
  TRI_TRY(skip_comparison(p, &op, &found));
  while (found) {
    if (!x) {
      TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_COMPARE, line, &x));
      TRI_TRY(tri_jexprs_put(p->tree, &x->as.compare.operand, part));
      TRI_TRY(tri_jexpr_holds(x, part));
    }
    TRI_TRY(put_op(p, x, op));
    TRI_TRY(parse_sums(p, &part));
    TRI_TRY(tri_jexprs_put(p->tree, &x->as.compare.operand, part));
    TRI_TRY(tri_jexpr_holds(x, part));
    x->line = p->token.line;
    TRI_TRY(skip_comparison(p, &op, &found));
  }
  *out = x ? x : part;
  return TRI_OK;
}

static tri_status parse_not(tri_jparser *p, tri_jexpr **out) {
  int        line = p->token.line;
  tri_jexpr *x;

  if (!tri_jparse_is_name(p, "not")) return parse_compare(p, out);
  TRI_TRY(tri_jarena_enter(&p->tree->arena));
  TRI_TRY(tri_jparse_next(p));
  TRI_TRY(parse_not(p, &x));
  tri_jarena_leave(&p->tree->arena);
  return join(p, TRI_JX_NOT, TRI_JOP_EQ, line, x, NULL, out);
}

static tri_status parse_and(tri_jparser *p, tri_jexpr **out) {
  int  line = p->token.line;
  bool found;

  TRI_TRY(parse_not(p, out));
  for (;;) {
    tri_jexpr *right;
    TRI_TRY(tri_jparse_skip_name(p, "and", &found));
    if (!found) return TRI_OK;
    TRI_TRY(parse_not(p, &right));
    TRI_TRY(join(p, TRI_JX_AND, TRI_JOP_EQ, line, *out, right, out));
    line = p->token.line;
  }
}

static tri_status parse_or(tri_jparser *p, tri_jexpr **out) {
  int  line = p->token.line;
  bool found;

  TRI_TRY(parse_and(p, out));
  for (;;) {
    tri_jexpr *right;
    TRI_TRY(tri_jparse_skip_name(p, "or", &found));
    if (!found) return TRI_OK;
    TRI_TRY(parse_and(p, &right));
    TRI_TRY(join(p, TRI_JX_OR, TRI_JOP_EQ, line, *out, right, out));
    line = p->token.line;
  }
}

/* Makes `yes if test else no`. `line` is the line of the whole expression. */
static tri_status join_cond(tri_jparser *p, int line, tri_jexpr *yes, tri_jexpr *test, tri_jexpr *no,
                            tri_jexpr **out) {
  tri_jexpr *x;

  TRI_TRY(tri_jexpr_make(p->tree, TRI_JX_COND, line, &x));
  x->as.cond.test = test;
  x->as.cond.yes = yes;
  x->as.cond.no = no;
  if (!no)
    TRI_TRY(tri_jtree_text(
        p->tree, &x->as.cond.message,
        "the inline if-expression on line %d evaluated to false and no else section was defined.", line));
  TRI_TRY(tri_jexpr_holds(x, yes));
  TRI_TRY(tri_jexpr_holds(x, test));
  TRI_TRY(tri_jexpr_holds(x, no));
  *out = x;
  return TRI_OK;
}

static tri_status parse_cond(tri_jparser *p, tri_jexpr **out) {
  int  line = p->token.line;
  bool found;

  TRI_TRY(parse_or(p, out));
  for (;;) {
    tri_jexpr *test, *no = NULL;
    TRI_TRY(tri_jparse_skip_name(p, "if", &found));
    if (!found) return TRI_OK;
    TRI_TRY(parse_or(p, &test));
    TRI_TRY(tri_jparse_skip_name(p, "else", &found));
    if (found) TRI_TRY(tri_jparse_expression(p, true, &no));
    TRI_TRY(join_cond(p, line, *out, test, no, out));
    line = p->token.line;
  }
}

tri_status tri_jparse_expression(tri_jparser *p, bool with_cond, tri_jexpr **out) {
  TRI_TRY(tri_jarena_enter(&p->tree->arena));
  TRI_TRY(with_cond ? parse_cond(p, out) : parse_or(p, out));
  tri_jarena_leave(&p->tree->arena);
  return TRI_OK;
}
