/* cli_facts.h - finds facts in the program's messages, for tests of the whole program. Facts are keys,
 * values, numbers, paths, and the function that reports an error. Sentences are no facts, because they may be
 * reworded. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_CLI_FACTS_H
#define TRI_TESTS_CLI_FACTS_H

#include "cli_case.h"

#include <ctype.h>

static inline bool cli_in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

/* Returns the first place of the fact in text [n] at or behind `from`, where it is no part of a longer word
 * or number, or NULL. */
static inline const char *cli_find_fact(const char *text, size_t n, const char *from, const char *fact) {
  const size_t size = strlen(fact);

  for (const char *at = from; (at = strstr(at, fact)) != NULL && at + size <= text + n; at++)
    if ((at == text || !cli_in_word(*at) ||
         (!cli_in_word(at[-1]) && (at[-1] != '.' || !isdigit((unsigned char)*at)))) &&
        (!cli_in_word(at[size - 1]) ||
         (!cli_in_word(at[size]) && (at[size] != '.' || !cli_in_word(at[size + 1])))))
      return at;
  return NULL;
}

static inline bool cli_has_fact(const char *text, size_t n, const char *fact) {
  return cli_find_fact(text, n, text, fact) != NULL;
}

/* Bytes of the message at the beginning of the text. A message is a line and the indented lines after it. */
static inline size_t cli_message_size(const char *text) {
  size_t n = strcspn(text, "\n");

  while (text[n] && text[n + 1] == ' ') n += 1 + strcspn(text + n + 1, "\n");
  return text[n] ? n + 1 : n;
}

/* Counts the messages of the text that begin so and have all the facts, in any order. NULL ends the facts. */
static inline int cli_count_facts(const char *text, const char *begin, const char *const *fact) {
  int found = 0;

  for (size_t n; *text; text += n) {
    bool all = strncmp(text, begin, strlen(begin)) == 0;
    n = cli_message_size(text);
    for (int i = 0; all && fact[i]; i++) all = cli_has_fact(text, n, fact[i]);
    found += all;
  }
  return found;
}

/* True if a message of the text begins so and has all the facts in this order. One fact may begin within
 * another one. */
static inline bool cli_has_in_order(const char *text, const char *begin, const char *const *fact) {
  for (size_t n; *text; text += n) {
    const char *at = strncmp(text, begin, strlen(begin)) == 0 ? text : NULL;
    n = cli_message_size(text);
    for (int i = 0; at && fact[i]; i++) at = cli_find_fact(text, n, at, fact[i]);
    if (at) return true;
  }
  return false;
}

#define CLI_FACTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Counts the messages of the text with all these facts. */
#define cli_saying(text, ...) cli_count_facts(text, "", CLI_FACTS(__VA_ARGS__))

/* Checks that one message of the text has all these facts, in this order. */
#define cli_says(text, ...) cli_says_at(text, "", CLI_FACTS(__VA_ARGS__), __FILE__, __LINE__)
static inline void cli_says_at(const char *text, const char *begin, const char *const *fact, const char *file,
                               int line) {
  if (cli_has_in_order(text, begin, fact)) return;
  for (int i = 0; fact[i]; i++) print_error("fact: %s\n", fact[i]);
  fail_msg("%s:%d: no message has all these facts in this order\n%s", file, line, text);
}

/* The command, with --verbose appended, fails as cli_fails requires. The error arose in this function, and
 * its message has all these facts, in this order. */
#define cli_refuses(code, command, function, ...)                                                            \
  cli_refuses_at(code, command, function, CLI_FACTS(__VA_ARGS__), __FILE__, __LINE__)
static inline void cli_refuses_at(int code, const char *command, const char *function,
                                  const char *const *fact, const char *file, int line) {
  cli_fails_in(code, command, function, fact[0]);
  cli_says_at(cli_err, "trireme: ", fact, file, line);
}

#endif
