/* tokenizer_case.h - reads goldens of the tokenizer's tests, and compares ids with them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKENIZER_CASE_H
#define TOKENIZER_CASE_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "io/tokenizer/tokenizer.h"

static inline void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_message());
}

static inline json_t *load_json(const char *file) {
  char         path[512];
  json_error_t error;
  json_t      *root;

  snprintf(path, sizeof path, "%s/tokenizer/%s", TRI_TEST_DATA, file);
  root = json_load_file(path, JSON_ALLOW_NUL, &error);
  if (!root) fail_msg("%s: %s", path, error.text);
  return root;
}

static inline void check_ids(const char *name, size_t row, json_t *want, const tri_tokens *got) {
  size_t  i;
  json_t *v;

  if ((int64_t)json_array_size(want) != got->n)
    fail_msg("%s, text %zu: %lld ids, not %zu", name, row, (long long)got->n, json_array_size(want));
  json_array_foreach(want, i, v) if (json_integer_value(v) != got->id[i]) fail_msg(
      "%s, text %zu: id %d at %zu, not %lld", name, row, got->id[i], i, (long long)json_integer_value(v));
}

#endif
