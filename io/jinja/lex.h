/* lex.h - the tokens of a template, as Jinja's lexer.py cuts them. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_LEX_H
#define TRI_JINJA_LEX_H

#include "io/jinja/tree.h"

/* X(name, what messages call it); operators are spelled as in the template, longer ones first. */
/* clang-format off */
#define TRI_JTOKEN_LIST(X)                       \
  X(EOF, "end of template")                      \
  X(DATA, "template data / text")                \
  X(VARIABLE_BEGIN, "begin of print statement")  \
  X(VARIABLE_END, "end of print statement")      \
  X(BLOCK_BEGIN, "begin of statement block")     \
  X(BLOCK_END, "end of statement block")         \
  X(NAME, "name")                                \
  X(STRING, "string")                            \
  X(INTEGER, "integer")                          \
  X(FLOAT, "float")                              \
  X(FLOORDIV, "//") X(POW, "**") X(EQ, "==") X(NE, "!=") X(GE, ">=") X(LE, "<=")  \
  X(ADD, "+") X(SUB, "-") X(DIV, "/") X(MUL, "*") X(MOD, "%") X(TILDE, "~")       \
  X(LBRACKET, "[") X(RBRACKET, "]") X(LPAREN, "(") X(RPAREN, ")") X(LBRACE, "{") X(RBRACE, "}")  \
  X(GT, ">") X(LT, "<") X(ASSIGN, "=") X(DOT, ".") X(COLON, ":") X(PIPE, "|") X(COMMA, ",") X(SEMICOLON, ";")
/* clang-format on */
#define TRI_X(name, text) TRI_JT_##name,
typedef enum { TRI_JTOKEN_LIST(TRI_X) TRI_JT_COUNT } tri_jtoken_kind;
#undef TRI_X

typedef struct tri_jtoken {
  tri_jtoken_kind kind;
  int             line;
  tri_jname      *name;  /* NAME */
  tri_jvalue      value; /* STRING, INTEGER, FLOAT: the literal's; DATA: its text */
} tri_jtoken;

typedef enum { TRI_JLEX_ROOT, TRI_JLEX_BLOCK, TRI_JLEX_VARIABLE } tri_jlex_state;

typedef struct tri_jlexer {
  tri_jtree     *tree; /* borrowed: names, texts of strings */
  const char    *s;    /* [n], borrowed */
  size_t         n, at;
  int            line; /* of byte `at`; from 1 */
  tri_jlex_state state;
  bool           line_starting; /* what was read last ends with a newline */
  tri_jtoken     pending;       /* the begin of a tag, behind the text that is handed out first */
  bool           has_pending;
  char          *bracket; /* [n_bracket], the closing ones that are awaited; by tri_host_free */
  int64_t        n_bracket, cap_bracket;
} tri_jlexer;

/* Not collective: all that follow. The next token; behind the last one TRI_JT_EOF again and again. */
TRI_CHECKED tri_status tri_jlex_next(tri_jlexer *l, tri_jtoken *out);
void                   tri_jlex_close(tri_jlexer *l);
/* Pure. How messages call tokens of a kind. */
const char *tri_jtoken_text(tri_jtoken_kind kind);

/* Of lex_literal.c. The value of a string literal between its quotes, s [n]. */
TRI_CHECKED tri_status tri_jlex_string(tri_jtree *t, int line, const char *s, size_t n, tri_jvalue *out);
/* Pure. Bytes of the number that begins s [n], 0: none. */
size_t tri_jlex_float_length(const char *s, size_t n);
size_t tri_jlex_integer_length(const char *s, size_t n);
/* The value of the number s [n]. */
TRI_CHECKED tri_status tri_jlex_number(int line, const char *s, size_t n, bool real, tri_jvalue *out);

#endif
