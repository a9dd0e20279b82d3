/* parse.h - the parser of templates, after Jinja's parser.py. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_PARSE_H
#define TRI_JINJA_PARSE_H

#include "io/jinja/lex.h"

/* The end tags that a block waits for, and the blocks around it. */
typedef struct tri_jopen tri_jopen;
struct tri_jopen {
  const char       *tag;
  const char *const ends[3];
  const tri_jopen  *outer;
};

typedef struct tri_jparser tri_jparser;
struct tri_jparser {
  tri_jtree       *tree;
  tri_jlexer       lexer;
  tri_jtoken       token, ahead; /* the current one, and the one behind it if has_ahead */
  bool             has_ahead;
  const tri_jopen *open;
  int              loops; /* `for` bodies around, inside the same macro */
  /* parse_operators.c, for what stands in brackets: with_cond: an inline if may follow. */
  tri_status (*expression)(tri_jparser *p, bool with_cond, tri_jexpr **out);
};

/* Not collective: all that follow. parse_token.c. */
TRI_CHECKED tri_status tri_jparse_next(tri_jparser *p); /* one token ahead */
TRI_CHECKED tri_status tri_jparse_look(tri_jparser *p,
                                       tri_jtoken  *out); /* the token behind the current one */
bool                   tri_jparse_is(const tri_jparser *p, tri_jtoken_kind kind);
bool                   tri_jparse_is_name(const tri_jparser *p, const char *name);
/* Skips the current token if it is of this kind, or this name; *found says so. */
TRI_CHECKED tri_status tri_jparse_skip_if(tri_jparser *p, tri_jtoken_kind kind, bool *found);
TRI_CHECKED tri_status tri_jparse_skip_name(tri_jparser *p, const char *name, bool *found);
/* Skips it, or fails. name: NULL, or where it is handed out (NAME). */
TRI_CHECKED tri_status tri_jparse_expect(tri_jparser *p, tri_jtoken_kind kind, tri_jname **name);
TRI_CHECKED tri_status tri_jparse_expect_name(tri_jparser *p, const char *name);
/* How messages call the current token. */
const char *tri_jparse_token_text(const tri_jparser *p);

/* parse_operand.c: names, literals, brackets, and what may follow them. */
TRI_CHECKED tri_status tri_jparse_unary(tri_jparser *p, bool with_filter, tri_jexpr **out);
/* with_namespace: ns.name is a target. */
TRI_CHECKED tri_status tri_jparse_primary(tri_jparser *p, bool with_namespace, tri_jexpr **out);
/* x: NULL for the filters of a block; first: the first one stands without a bar. */
TRI_CHECKED tri_status tri_jparse_filters(tri_jparser *p, tri_jexpr *x, bool first, tri_jexpr **out);

/* A tuple without brackets ends at the end of the tag or at a round bracket, after a comma too. */
typedef struct tri_jtuple {
  bool targets;        /* names alone */
  bool with_namespace; /* and ns.name */
  bool without_cond;
  bool in_brackets; /* may be empty */
} tri_jtuple;
/* An expression, or a tuple if there are commas. */
TRI_CHECKED tri_status tri_jparse_tuple(tri_jparser *p, tri_jtuple how, tri_jexpr **out);

/* parse_operators.c */
TRI_CHECKED tri_status tri_jparse_expression(tri_jparser *p, bool with_cond, tri_jexpr **out);

/* parse_statement.c: the whole template into p->tree. */
TRI_CHECKED tri_status tri_jparse_template(tri_jparser *p);

#endif
