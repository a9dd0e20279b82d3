/* flags.c - command-line flags from a table. The same rows serve parsing and --help. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "flags.h"
#include "base/columns.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tri_flags_row(const char *left, int indent, const char *text) {
  int lead = left[0] ? 2 : 0, column = printf("%*s%-*s", lead, "", indent - lead, left);

  if (left[0] && lead + (int)strlen(left) >= indent) column = printf("\n%*s", indent, "") - 1;
  for (bool first = true; *text; first = false) {
    int word = (int)strcspn(text, " ");
    if (!first && column + 1 + word > TRI_SCREEN_COLUMNS) {
      column = printf("\n%*s", indent, "") - 1;
      first = true;
    }
    column += printf("%s%.*s", first ? "" : " ", word, text);
    text += word;
    text += strspn(text, " ");
  }
  printf("\n");
}

enum { HELP_INDENT = 25 }; /* chosen: the longest flag with its value, "--completion-key KEY", and a space */

/* Prints one flag. A list of words too long for the left column follows the help text. */
static void print_flag(const tri_flag *flag) {
  const char *value = flag->value ? flag->value : "";
  bool        fits = !strchr(value, '|') || strlen(flag->name) + 1 + strlen(value) < HELP_INDENT - 2;
  char        left[64], text[512];
  int         n;

  snprintf(left, sizeof left, "%s%s%s", flag->name, value[0] ? " " : "", fits ? value : "WORD");
  n = snprintf(text, sizeof text, "%s%s", flag->help, fits ? "" : ": ");
  for (const char *c = fits ? "" : value; *c && n < (int)sizeof text - 2; c++) {
    text[n++] = *c == '|' ? ',' : *c;
    if (*c == '|') text[n++] = ' ';
    text[n] = '\0';
  }
  tri_flags_row(left, HELP_INDENT, text);
}

static const tri_flag *find(const tri_flag *flag, int n_flag, const char *name, size_t n) {
  for (int i = 0; i < n_flag; i++)
    if (strlen(flag[i].name) == n && !strncmp(flag[i].name, name, n)) return &flag[i];
  return NULL;
}

static void print_help(const tri_command *c, const tri_flag *flag, int n_flag) {
  printf("usage: trireme %s %s\n", c->name, c->usage);
  tri_flags_row("", 0, c->summary);
  if (n_flag) printf("\nflags:\n");
  for (int i = 0; i < n_flag; i++) print_flag(&flag[i]);
  if (!find(flag, n_flag, "--verbose", 9))
    tri_flags_row("--verbose", HELP_INDENT, "show the place in the program of an error");
  tri_flags_row("--help", HELP_INDENT, "print this text");
}
/* Returns the flag most likely meant by name [n]: the shortest that begins with it, else the longest it
 * begins with, else the nearest spelling. Returns NULL if there is none. */
static const char *meant(const char *const *known, int n_known, const char *name, size_t n) {
  const char *shortest = NULL, *begun = NULL;
  char        word[64];

  snprintf(word, sizeof word, "%.*s", (int)n, name);
  for (int i = 0; i < n_known; i++)
    if (n > 2 && !strncmp(known[i], word, strlen(word)) && (!shortest || strlen(known[i]) < strlen(shortest)))
      shortest = known[i];
  for (int i = 0; i < n_known; i++) {
    size_t all = strlen(known[i]);
    if (!strncmp(known[i], word, all) && word[all] == '-' && (!begun || all > strlen(begun)))
      begun = known[i];
  }
  if (shortest) return shortest;
  return begun ? begun : tri_nearest(word, known, n_known);
}

/* Refuses a deck, or a key of a deck, given as a flag of another program, and says how it is given here.
 * value is NULL if no value follows. */
static tri_status refuse_key(const tri_command *c, const tri_flag *flag, int n_flag, const char *name,
                             size_t n, const char *value) {
  static const char *const deck[] = {"--config", "--deck", "--config-file", "--config_file", "--yaml", NULL};
  char                     flags[512] = "";
  int                      at = 0;

  for (int i = 0; deck[i]; i++)
    if (strlen(deck[i]) == n && !strncmp(deck[i], name, n))
      TRI_FAIL(TRI_EARG, "unknown flag '%.*s'. Give the deck without a flag: trireme %s %s", (int)n, name,
               c->name, value ? value : "DECK");
  for (int i = 0; i < n_flag && at < (int)sizeof flags; i++)
    at += snprintf(flags + at, sizeof flags - (size_t)at, "%s%s", i ? ", " : "", flag[i].name);
  TRI_FAIL(TRI_EARG,
           "unknown flag '%.*s'. The flags are %s. To set a key of the deck, leave out the dashes: %.*s=%s",
           (int)n, name, flags, (int)(n - strspn(name, "-")), name + strspn(name, "-"),
           value ? value : "VALUE");
}

/* Refuses the flag in argv[0], the name of which has n_name characters. */
static tri_status unknown(const tri_command *c, const tri_flag *flag, int n_flag, char *const *argv, int argc,
                          size_t n_name) {
  const char *known[64], *near = NULL, *name = argv[0];
  const char *value = name[n_name] ? name + n_name + 1 : argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
  bool        keys = strstr(c->usage, "key=value") != NULL && !strncmp(name, "--", 2);
  char        dashed[64];
  int         n = 0;

  snprintf(dashed, sizeof dashed, "%.*s", (int)n_name, name);
  for (char *at = dashed; *at; at++)
    if (*at == '_') *at = '-';
  for (int i = 0; i < n_flag && n < 62; i++) known[n++] = flag[i].name;
  known[n++] = "--verbose";
  known[n++] = "--help";
  if (!keys || !memchr(name, '.', n_name)) near = meant(known, n, dashed, strlen(dashed));
  if (keys && !near) return refuse_key(c, flag, n_flag, name, n_name, value);
  TRI_FAIL(TRI_EARG, "unknown flag '%s'%s%s%s --help lists the flags", name, near ? ": did you mean " : "",
           near ? near : "", near ? "?" : ".");
}

/* Tells whether text is one of the words of list, separated by '|'. */
static bool is_word(const char *list, const char *text) {
  size_t n = strlen(text);

  for (;;) {
    size_t word = strcspn(list, "|");
    if (word == n && !strncmp(list, text, n)) return true;
    if (!list[word]) return false;
    list += word + 1;
  }
}

static tri_status set(const tri_flag *f, const char *text) {
  bool   or_0 = f->type == TRI_FLAG_F64_OR_0;
  char  *end = NULL;
  double x = 0;

  errno = 0;
  if (f->type == TRI_FLAG_WORD && !is_word(f->value, text))
    TRI_FAIL(TRI_EARG, "%s %s: must be one of %s", f->name, text, f->value);
  if (f->type == TRI_FLAG_TEXTS) {
    tri_flag_texts *texts = f->where;
    if (texts->n == TRI_FLAG_TEXTS_MOST)
      TRI_FAIL(TRI_EARG, "%s %s: give this flag at most %d times", f->name, text, TRI_FLAG_TEXTS_MOST);
    texts->item[texts->n++] = text;
    return TRI_OK;
  }
  if (f->type == TRI_FLAG_TEXT || f->type == TRI_FLAG_WORD) {
    *(const char **)f->where = text;
    return TRI_OK;
  }
  if (f->type == TRI_FLAG_I64) {
    long long v = strtoll(text, &end, 10);
    x = (double)v;
    *(int64_t *)f->where = v;
  } else {
    x = strtod(text, &end);
    *(double *)f->where = x;
  }
  if (end == text || *end || errno || !isfinite(x) || ((x < f->min || x > f->max) && !(or_0 && x == 0)))
    TRI_FAIL(TRI_EARG, "%s %s: must be %s%s from %.15g to %.15g", f->name, text, or_0 ? "0 or " : "",
             f->type == TRI_FLAG_I64 ? "a whole number" : "a number", f->min, f->max);
  return TRI_OK;
}

tri_status tri_flags_parse(const tri_command *c, const tri_flag *flag, int n_flag, int argc, char **argv,
                           int *n_rest, bool *help) {
  bool only_rest = false;

  *n_rest = 0;
  *help = false;
  for (int i = 0; i < argc; i++) {
    const char     *equals = strchr(argv[i], '=');
    size_t          n = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
    const tri_flag *f;
    if (only_rest || argv[i][0] != '-' || !argv[i][1]) {
      argv[(*n_rest)++] = argv[i];
      continue;
    }
    if (!strcmp(argv[i], "--")) {
      only_rest = true;
      continue;
    }
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      print_help(c, flag, n_flag);
      *help = true;
      return TRI_OK;
    }
    f = find(flag, n_flag, argv[i], n);
    if (!f && !strcmp(argv[i], "--verbose")) continue; /* main.c acts on it */
    if (!f) return unknown(c, flag, n_flag, argv + i, argc - i, n);
    if (f->type == TRI_FLAG_BOOL) {
      if (equals) TRI_FAIL(TRI_EARG, "%s takes no value", f->name);
      *(bool *)f->where = true;
      continue;
    }
    if (!equals && i + 1 == argc) TRI_FAIL(TRI_EARG, "%s needs a value: %s %s", f->name, f->name, f->value);
    TRI_TRY(set(f, equals ? equals + 1 : argv[++i]));
  }
  return TRI_OK;
}

tri_status tri_flags_need(const tri_command *c, const tri_need *need, int n_need, const char *extra) {
  char   missing[256] = "";
  size_t used = 0;
  int    n = 0;

  for (int i = 0; i < n_need; i++) {
    if (need[i].given) continue;
    used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s", n++ ? ", " : "", need[i].what);
    TRI_ASSERT(used < sizeof missing);
  }
  if (n)
    TRI_FAIL(TRI_EARG, "%s %s missing. Usage: trireme %s %s", missing, n == 1 ? "is" : "are", c->name,
             c->usage);
  if (extra)
    TRI_FAIL(TRI_EARG, "'%s' is one argument too many. Usage: trireme %s %s", extra, c->name, c->usage);
  return TRI_OK;
}
