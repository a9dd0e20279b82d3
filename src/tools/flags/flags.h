/* flags.h - command-line flags from a table: parsing and --help are the same rows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FLAGS_H
#define TRI_FLAGS_H

#include "base/error.h"

typedef enum {
  TRI_FLAG_BOOL,
  TRI_FLAG_TEXT,
  TRI_FLAG_TEXTS, /* may be given again: each is added */
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
  /* bool *, const char **, tri_flag_texts *, int64_t *, double *; keeps its value when the flag is absent */
  void       *where;
  double      min, max;     /* of numbers; OR_0: or 0, whatever min */
  const char *value, *help; /* "S", "key of the random numbers"; of a word, all that are legal: "f32|bf16" */
} tri_flag;

/* One subcommand: its row in main.c's table. run gets the arguments after its name and returns a status;
 * *code may be set to another exit code than the status's (75: requeue). */
typedef struct tri_command {
  const char *name, *usage, *summary;
  tri_status (*run)(int argc, char **argv, int *code);
} tri_command;

/* Not collective. Sorts argv into flags and the rest (moved to its front, *n_rest of them). TRI_EARG for an
 * unknown flag (with the nearest), a missing or bad value. --help prints usage and the table to stdout and
 * sets *help. --verbose, where the table has none, is every command's and changes nothing here (main.c).
 * "--" ends the flags; a single "-" is no flag. */
TRI_CHECKED tri_status tri_flags_parse(const tri_command *c, const tri_flag *flag, int n_flag, int argc,
                                       char **argv, int *n_rest, bool *help);

/* What a command cannot do without, as its usage has it: "MODEL", "--data F.jsonl". */
typedef struct tri_need {
  const char *what;
  bool        given;
} tri_need;
/* Not collective. TRI_EARG with the usage: all that is not given, else `extra`, an argument too many, where
 * there is one (else NULL). */
TRI_CHECKED tri_status tri_flags_need(const tri_command *c, const tri_need *need, int n_need,
                                      const char *extra);

/* Not collective. On stdout, in lines that no terminal wraps: `left` behind two spaces, and from column
 * `indent`, which it must not reach, the words of `text`. left "": only these. */
void tri_flags_row(const char *left, int indent, const char *text);

#endif
