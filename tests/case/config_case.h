/* config_case.h - shared by the tests of src/config: two small decks, loading one, and facts of refusals. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_CONFIG_CASE_H
#define TRI_TESTS_CONFIG_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/config.h"
#include "refusal_case.h"

#include <stdio.h>
#include <string.h>

#define SFT                                                                                                  \
  "run:\n  output: out\nmodel:\n  path: m\ndata:\n  train: t.jsonl\nalgo:\n  name: sft\n"                    \
  "train:\n  steps: 10\n  train_batch_size: 8\n" /* 11 lines */
#define GRPO                                                                                                 \
  "run:\n  output: out\nmodel:\n  path: m\ndata:\n  train: t.jsonl\n"                                        \
  "rollout:\n  rollout_batch_size: 4\n  max_response_length: 16\nreward:\n  - name: exact\n"                 \
  "train:\n  steps: 10\nalgo:\n  name: grpo\n" /* 15 lines. The section algo is open at the end */
enum { MOST_ARGS = 8 };

/* Loads a deck's text with arguments, ended by NULL. */
static inline tri_status load(const char *text, tri_config *c, tri_text *notes, const char *const *args) {
  tri_status st;
  tri_deck  *d = NULL;

  tri_error_clear();
  *c = (tri_config){0};
  st = tri_deck_open_text("d.yaml", text, strlen(text), &d);
  for (int i = 0; st == TRI_OK && args && args[i]; i++) st = tri_deck_set(d, args[i]);
  if (st == TRI_OK) st = tri_config_from_deck(d, c, notes);
  tri_deck_close(&d);
  return st;
}

#define ARGS(...) ((const char *const[MOST_ARGS + 1]){__VA_ARGS__})

static inline tri_config good(const char *text, const char *const *args) {
  tri_config c;

  if (load(text, &c, NULL, args) != TRI_OK) fail_msg("%s", tri_error_message());
  return c;
}

static inline void bad(const char *text, const char *const *args, const char *message) {
  tri_config c;

  assert_int_equal(load(text, &c, NULL, args), TRI_ECONFIG);
  tri_config_free(&c);
  expect_refusal(message);
}

static inline void same_value(tri_key_type type, const void *x, const void *y) {
  if (type == TRI_KEY_TEXT || type == TRI_KEY_MAP) {
    const char *s = *(char *const *)x, *t = *(char *const *)y;
    assert_true(!s == !t && (!s || !strcmp(s, t)));
  } else if (type == TRI_KEY_LIST) {
    const tri_config_list *s = x, *t = y;
    assert_int_equal(s->n, t->n);
    for (int j = 0; j < s->n; j++) assert_string_equal(s->item[j], t->item[j]);
  } else {
    assert_memory_equal(x, y, type == TRI_KEY_BOOL ? sizeof(bool) : type == TRI_KEY_CHOICE ? sizeof(int) : 8);
  }
}

/* Returns all values of algo.name, each as a fact. Valid until the next call. */
static inline const char *known_algos(void) {
  static char text[512];

  text[0] = 0;
  for (int i = 0; tri_algo_at(i); i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", tri_algo_at(i)->name);
  }
  return text;
}

#endif
