/* parse.h - the parser of templates, after Jinja's parser.py. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_PARSE_H
#define TRI_JINJA_PARSE_H

#include "io/jinja/lex.h"

/* An open block, the end tags it expects, and the block around it. */
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
  tri_jtoken       token, ahead; /* the current token, and the next one if has_ahead */
  bool             has_ahead;
  const tri_jopen *open;
  int              loops; /* enclosing `for` bodies in the same macro */
  /* parse_operators.c sets it, for expressions in brackets. with_cond: an inline if is allowed. */
  tri_status (*expression)(tri_jparser *p, bool with_cond, tri_jexpr **out);
};

/* Not collective: all that follow. parse_token.c. */
TRI_CHECKED tri_status tri_jparse_next(tri_jparser *p); /* moves to the next token */
TRI_CHECKED tri_status tri_jparse_look(tri_jparser *p,
                                       tri_jtoken  *out); /* returns the next token without moving */
bool                   tri_jparse_is(const tri_jparser *p, tri_jtoken_kind kind);
bool                   tri_jparse_is_name(const tri_jparser *p, const char *name);
/* Skips the current token if it has this kind, or this name. *found: it did. */
TRI_CHECKED tri_status tri_jparse_skip_if(tri_jparser *p, tri_jtoken_kind kind, bool *found);
TRI_CHECKED tri_status tri_jparse_skip_name(tri_jparser *p, const char *name, bool *found);
/* Skips the token, or fails. `name` receives a NAME, or is NULL. */
TRI_CHECKED tri_status tri_jparse_expect(tri_jparser *p, tri_jtoken_kind kind, tri_jname **name);
TRI_CHECKED tri_status tri_jparse_expect_name(tri_jparser *p, const char *name);
/* Returns the current token as named in messages. */
const char *tri_jparse_token_text(const tri_jparser *p);

/* parse_operand.c: names, literals, brackets and their postfixes. */
TRI_CHECKED tri_status tri_jparse_unary(tri_jparser *p, bool with_filter, tri_jexpr **out);
/* with_namespace: ns.name is allowed as a target. */
TRI_CHECKED tri_status tri_jparse_primary(tri_jparser *p, bool with_namespace, tri_jexpr **out);
/* x is NULL for the filters of a block. first: the first filter has no bar before it. */
TRI_CHECKED tri_status tri_jparse_filters(tri_jparser *p, tri_jexpr *x, bool first, tri_jexpr **out);

/* How to parse a tuple. One without brackets ends at the end of the tag or at a round bracket, even after a
 * comma. */
typedef struct tri_jtuple {
  bool targets;        /* only names */
  bool with_namespace; /* also ns.name */
  bool without_cond;
  bool in_brackets; /* may be empty */
} tri_jtuple;
/* Parses an expression, or a tuple if there are commas. */
TRI_CHECKED tri_status tri_jparse_tuple(tri_jparser *p, tri_jtuple how, tri_jexpr **out);

/* parse_operators.c */
TRI_CHECKED tri_status tri_jparse_expression(tri_jparser *p, bool with_cond, tri_jexpr **out);

/* parse_statement.c: parses the whole template into p->tree. */
TRI_CHECKED tri_status tri_jparse_template(tri_jparser *p);

#endif
