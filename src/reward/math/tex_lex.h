/* tex_lex.h - the tokens of an answer in TeX or plain text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_LEX_H
#define TRI_TEX_LEX_H

#include "decimal.h"

typedef enum tri_tex_kind {
  TRI_TEX_END,
  TRI_TEX_BAD, /* not readable by any rule */
  TRI_TEX_NUMBER,
  TRI_TEX_NAME, /* a letter, a Greek letter, \overline{AB}, x_1 */
  TRI_TEX_WORD, /* four letters or more, or the name of a unit */
  TRI_TEX_TEXT, /* \text{...}, \mbox{...} and such */
  TRI_TEX_PI,
  TRI_TEX_EULER,
  TRI_TEX_UNIT_I,
  TRI_TEX_INFINITY,
  TRI_TEX_EMPTY,
  TRI_TEX_PLUS,
  TRI_TEX_MINUS,
  TRI_TEX_PLUS_MINUS,
  TRI_TEX_MINUS_PLUS,
  TRI_TEX_TIMES,
  TRI_TEX_SLASH,
  TRI_TEX_COLON,
  TRI_TEX_POWER,
  TRI_TEX_BANG,
  TRI_TEX_PERCENT,
  TRI_TEX_DEGREE,
  TRI_TEX_COMMA,
  TRI_TEX_SEMICOLON,
  TRI_TEX_AND, /* and, or */
  TRI_TEX_EQUAL,
  TRI_TEX_NOT_EQUAL,
  TRI_TEX_LESS,
  TRI_TEX_LESS_EQUAL,
  TRI_TEX_GREATER,
  TRI_TEX_GREATER_EQUAL,
  TRI_TEX_APPROX,
  TRI_TEX_IN,
  TRI_TEX_CUP,
  TRI_TEX_OPEN, /* ( */
  TRI_TEX_CLOSE,
  TRI_TEX_OPEN_SQUARE, /* [ */
  TRI_TEX_CLOSE_SQUARE,
  TRI_TEX_OPEN_BRACE, /* {, TeX's group */
  TRI_TEX_CLOSE_BRACE,
  TRI_TEX_OPEN_SET, /* \{ */
  TRI_TEX_CLOSE_SET,
  TRI_TEX_OPEN_ANGLE, /* \langle */
  TRI_TEX_CLOSE_ANGLE,
  TRI_TEX_OPEN_FLOOR,
  TRI_TEX_CLOSE_FLOOR,
  TRI_TEX_OPEN_CEILING,
  TRI_TEX_CLOSE_CEILING,
  TRI_TEX_BAR, /* | */
  TRI_TEX_FRACTION,
  TRI_TEX_BINOMIAL,
  TRI_TEX_ROOT,
  TRI_TEX_FUNCTION, /* `text` is its name */
  TRI_TEX_CELL,     /* & */
  TRI_TEX_ROW,      /* \\ in a matrix */
  TRI_TEX_BEGIN,    /* \begin{text} */
  TRI_TEX_FINISH    /* \end{text} */
} tri_tex_kind;

typedef struct tri_tex_token {
  tri_tex_kind kind;
  const char  *begin;  /* start in the text, after any space */
  bool         spaced; /* space precedes it */
  tri_part     text;   /* digits of a number with grouping, a name, or the content of \text */
  tri_part     repeat; /* digits of a number under \overline */
  tri_part     base;   /* index of a number, as in 1101_2 */
} tri_tex_token;

typedef struct tri_tex_lexer {
  const char *at, *end; /* borrowed */
  int         brackets; /* open brackets. Within them a comma separates elements, not thousands */
  int         matrices; /* open matrices. Within them \\ ends a row */
} tri_tex_lexer;

/* Not collective. Reads the next token, and nothing behind lexer->end. With `single` it takes one digit or
 * letter, as TeX reads an argument without braces. */
void tri_tex_next(tri_tex_lexer *lexer, bool single, tri_tex_token *out);
/* Pure. Finds the content of the braces that open at s. Returns false if they are not closed. */
bool tri_tex_braced(const char *s, const char *end, tri_part *inside);
/* Pure. Tells whether a token of this kind may begin an argument of a function without brackets. */
bool tri_tex_starts_argument(tri_tex_kind kind);
/* Pure. Returns the name of the inverse of a function, such as arcsin of sin, or an empty name. */
tri_part tri_tex_inverse(tri_part name);
/* Pure. Tells whether an environment of this name is a matrix. */
bool tri_tex_is_matrix(tri_part name);
/* Pure. Tells whether a token of this kind ends a list of elements. */
bool tri_tex_closes(tri_tex_kind kind);
/* Pure. Tells whether a command or word of this name is a function, a root or a constant. *takes is set if it
 * has an argument. */
bool tri_tex_is_symbol(tri_part name, bool *takes);
/* Pure. Tells whether s .. end contains an ASCII digit. */
bool tri_tex_has_digit(const char *s, const char *end);

#endif
