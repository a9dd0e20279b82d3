/* flags.h - command-line flags from a table. The same rows serve parsing and --help. Not collective, all that
 * follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FLAGS_H
#define TRI_FLAGS_H

#include "base/error.h"

typedef enum {
  TRI_FLAG_BOOL,
  TRI_FLAG_TEXT,
  TRI_FLAG_TEXTS, /* may be given several times, each value is kept */
  TRI_FLAG_WORD,
  TRI_FLAG_I64,
  TRI_FLAG_F64,
  TRI_FLAG_F64_OR_0
} tri_flag_type;

enum { TRI_FLAG_TEXTS_MOST = 32 }; /* chosen: more than a screen shows */
typedef struct tri_flag_texts {
  const char *item[TRI_FLAG_TEXTS_MOST];
  int         n;
} tri_flag_texts;

typedef struct tri_flag {
  const char   *name; /* "--seed" */
  tri_flag_type type;
  /* Points to a bool, const char *, tri_flag_texts, int64_t or double. It keeps its value if the flag is
   * absent. */
  void       *where;
  double      min, max;     /* limits of a number. OR_0 also accepts 0, whatever min is */
  const char *value, *help; /* "S", "key of the random numbers". TRI_FLAG_WORD lists all legal words in value,
                             * "f32|bf16" */
} tri_flag;

/* One subcommand, a row in main.c's table. run gets the arguments after the command's name and returns a
 * status. It may set *code to another exit code than the status's, such as 75 for requeue. */
typedef struct tri_command {
  const char *name, *usage, *summary;
  tri_status (*run)(int argc, char **argv, int *code);
} tri_command;

/* Sorts argv into flags and the rest, and moves the *n_rest others to its front. Returns TRI_EARG for an
 * unknown flag (naming the nearest one), or a missing or bad value. --help prints usage and the table to
 * stdout and sets *help. --verbose belongs to every command and changes nothing here unless the table has it
 * (main.c). "--" ends the flags. A single "-" is not a flag. */
TRI_CHECKED tri_status tri_flags_parse(const tri_command *c, const tri_flag *flag, int n_flag, int argc,
                                       char **argv, int *n_rest, bool *help);

/* An argument the command needs, written as in its usage: "MODEL", "--data F.jsonl". */
typedef struct tri_need {
  const char *what;
  bool        given;
} tri_need;
/* Returns TRI_EARG with the usage if a needed argument is missing, else if `extra` is not NULL. `extra` is
 * the first argument too many. */
TRI_CHECKED tri_status tri_flags_need(const tri_command *c, const tri_need *need, int n_need,
                                      const char *extra);

/* Prints a row on stdout, wrapped at the width of a screen. `left` stands behind two spaces, and the words of
 * `text` begin at column `indent`, on the next line if `left` is too long. With left "" only `text` is
 * printed. */
void tri_flags_row(const char *left, int indent, const char *text);

#endif
