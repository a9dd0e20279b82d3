/* lex.h - the tokens of a template, as in Jinja's lexer.py. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_LEX_H
#define TRI_JINJA_LEX_H

#include "io/jinja/tree.h"

/* X(name, text in messages). Operators are spelled as in the template, longer ones first. */
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
  tri_jvalue      value; /* the value of a literal, or the text of DATA */
} tri_jtoken;

typedef enum { TRI_JLEX_ROOT, TRI_JLEX_BLOCK, TRI_JLEX_VARIABLE } tri_jlex_state;

typedef struct tri_jlexer {
  tri_jtree     *tree; /* borrowed, for names and strings */
  const char    *s;    /* [n], borrowed */
  size_t         n, at;
  int            line; /* line of byte `at`, from 1 */
  tri_jlex_state state;
  bool           line_starting; /* the last text read ends with a newline */
  /* The begin of a tag. It is returned after the text before it. */
  tri_jtoken pending;
  bool       has_pending;
  /* [n_bracket] The expected closing brackets, freed with tri_host_free. */
  char   *bracket;
  int64_t n_bracket, cap_bracket;
} tri_jlexer;

/* Not collective: all that follow. Returns the next token. After the last token it returns TRI_JT_EOF every
 * time. */
TRI_CHECKED tri_status tri_jlex_next(tri_jlexer *l, tri_jtoken *out);
void                   tri_jlex_close(tri_jlexer *l);
/* Pure. Returns the name of a token kind in messages. */
const char *tri_jtoken_text(tri_jtoken_kind kind);

/* lex_literal.c. Reads a string literal, s [n] without its quotes. */
TRI_CHECKED tri_status tri_jlex_string(tri_jtree *t, int line, const char *s, size_t n, tri_jvalue *out);
/* Pure. Return the length of the number at the start of s [n]. 0: none. */
size_t tri_jlex_float_length(const char *s, size_t n);
size_t tri_jlex_integer_length(const char *s, size_t n);
/* Reads the number s [n]. */
TRI_CHECKED tri_status tri_jlex_number(int line, const char *s, size_t n, bool real, tri_jvalue *out);

#endif
