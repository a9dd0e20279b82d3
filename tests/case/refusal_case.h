/* refusal_case.h - asks an error for its place and its facts: its sentence may change, these may not. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_REFUSAL_CASE_H
#define TRI_TESTS_REFUSAL_CASE_H

#include "base/error.h"

#include <ctype.h>
#include <string.h>

static inline bool refusal_in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether `fact` [n] stands in the text as a whole: 3 does not stand in 13. */
static inline bool refusal_has(const char *text, const char *fact, size_t n) {
  for (const char *at = text; *at; at++)
    if (!strncmp(at, fact, n) && !(at > text && refusal_in_word(at[-1]) && refusal_in_word(fact[0])) &&
        !(refusal_in_word(at[n]) && refusal_in_word(fact[n - 1])))
      return true;
  return false;
}

/* Says if the text has all facts, in any order. Blanks and commas separate facts. A fact "!FACT" must be
 * missing in the text. */
static inline bool tells(const char *text, const char *facts) {
  for (size_t n; *(facts += strspn(facts, " ,\n")); facts += n) {
    bool without = facts[0] == '!' && !strchr(" ,\n=", facts[1]);
    facts += without;
    n = strcspn(facts, " ,\n");
    if (refusal_has(text, facts, n) == without) return false;
  }
  return true;
}

/* Whether the text has as many lines as `facts`, and each tells those of its line. */
static inline bool tells_lines(const char *text, const char *facts) {
  char line[2][4096];

  for (size_t n, m; *text || *facts; text += n + (text[n] == '\n'), facts += m + (facts[m] == '\n')) {
    n = strcspn(text, "\n");
    m = strcspn(facts, "\n");
    if (!*text || !*facts || n >= sizeof line[0] || m >= sizeof line[1]) return false;
    memcpy(line[0], text, n);
    memcpy(line[1], facts, m);
    line[0][n] = line[1][m] = 0;
    if (!tells(line[0], line[1])) return false;
  }
  return true;
}

/* Says if the newest error of this thread tells the facts. want: "FUNCTION() FACT FACT". A function, if
 * named, is the one that refused. */
static inline bool refusal_is(const char *want) {
  size_t      n = strcspn(want, " \n");
  const char *place = tri_error_trace();
  bool        here = true;

  if (n > 2 && !strncmp(want + n - 2, "()", 2)) { /* "  FILE:LINE FUNCTION: ..." */
    place += strspn(place, " ");
    place += strcspn(place, " \n");
    here = *place == ' ' && !strncmp(place + 1, want, n - 2) && place[n - 1] == ':';
    want += n;
  }
  return here && tells(tri_error_message(), want);
}

#define expect_refusal(want)                                                                                 \
  do {                                                                                                       \
    if (!refusal_is(want)) fail_msg("not '%s': %s\n%s", want, tri_error_message(), tri_error_trace());       \
  } while (0)

#define expect_lines(text, facts)                                                                            \
  do {                                                                                                       \
    if (!tells_lines(text, facts)) fail_msg("not '%s': %s", facts, text);                                    \
  } while (0)

#endif
