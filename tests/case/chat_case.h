/* chat_case.h - reads conversations written by transformers (tests/data/chat/golden.json) and opens the
 * tokenizers used for them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_CHAT_CASE_H
#define TRI_TESTS_CHAT_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "io/chat/chat.h"
#include "io/tokenizer/tokenizer.h"

static json_t *golden;

static inline json_t *read_json(const char *path) {
  json_error_t error;
  json_t      *v = json_load_file(path, JSON_ALLOW_NUL, &error);

  if (!v) fail_msg("%s: %s", path, error.text);
  return v;
}

static inline int open_golden(void **state) {
  (void)state;
  golden = read_json(TRI_TEST_DATA "/chat/golden.json");
  return 0;
}

static inline int close_golden(void **state) {
  (void)state;
  json_decref(golden);
  return 0;
}

static inline const json_t *templates(void) { return json_object_get(golden, "templates"); }

static inline const char *text_of(const json_t *v, const char *key) {
  return json_string_value(json_object_get(v, key));
}

/* Says if the published template drops a part of the conversation: a second system message, which has no
 * place. Our template of that name refuses it. */
static inline bool loses_system(const json_t *row, const json_t *conversation) {
  const json_t *m;
  size_t        i;

  if (strcmp(text_of(row, "name"), "llama2") && strncmp(text_of(row, "name"), "gemma", 5)) return false;
  json_array_foreach(conversation, i, m) {
    if (i && !strcmp(text_of(m, "role"), "system")) return true;
  }
  return false;
}

/* Opens the template as a model has it in tokenizer_config.json, or with {% generation %} marks. The caller
 * frees *text. */
static inline tri_chat *open_own(const json_t *row, bool marked, char **text) {
  tri_chat      *chat;
  tri_chat_files files = {.model = "m"};
  tri_chat_opt   opt = {.from_deck = true};

  json_t *config = json_copy(json_object_get(row, "config"));
  if (marked) json_object_set(config, "chat_template", json_object_get(row, "marked"));
  *text = json_dumps(config, 0);
  json_decref(config);
  files.config = (tri_chat_bytes){*text, strlen(*text)};
  if (tri_chat_open(&opt, &files, &chat) != TRI_OK) fail_msg("%s", tri_error_message());
  return chat;
}

/* Opens the tokenizer of a row and adds the tokens needed by its template. */
static inline tri_tokenizer *open_tokenizer(const json_t *row) {
  char           path[256], *text;
  const json_t  *more = json_object_get(row, "added"), *one;
  tri_tokenizer *t;
  size_t         i;
  json_int_t     next = 0;

  snprintf(path, sizeof path, "%s/tokenizer/%s.json", TRI_TEST_DATA, text_of(row, "tokenizer"));
  json_t     *spec = read_json(path), *added = json_object_get(spec, "added_tokens"), *id;
  const char *token;
  json_array_foreach(added, i, one) {
    json_int_t k = json_integer_value(json_object_get(one, "id")) + 1;
    next = k > next ? k : next;
  }
  json_object_foreach(json_object_get(json_object_get(spec, "model"), "vocab"), token, id) {
    next = json_integer_value(id) + 1 > next ? json_integer_value(id) + 1 : next;
  }
  json_array_foreach(more, i, one) {
    json_array_append_new(added, json_pack("{sI ss sb sb sb sb sb}", "id", next + (json_int_t)i, "content",
                                           json_string_value(one), "single_word", 0, "lstrip", 0, "rstrip", 0,
                                           "normalized", 0, "special", 1));
  }
  text = json_dumps(spec, 0);
  if (tri_tokenizer_open_text(path, text, strlen(text), &t) != TRI_OK) fail_msg("%s", tri_error_message());
  free(text);
  json_decref(spec);
  return t;
}

#endif
