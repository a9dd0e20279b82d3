/* dataset_case.h - gives the tests of data files a folder, a tokenizer of bytes and bad lines.
 *
 * setup and teardown serve every test. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_DATASET_CASE_H
#define TRI_TESTS_DATASET_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/host_memory.h"
#include "io/data/dataset.h"
#include "refusal_case.h"

enum { BOS = 1, END = 2, FIRST_BYTE = 3, VOCAB = 300 };

static char folder[64], path_a[96], path_b[96];

static inline int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_dataset_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path_a, sizeof path_a, "%s/a.jsonl", folder);
  snprintf(path_b, sizeof path_b, "%s/b.jsonl", folder);
  return 0;
}

static inline int teardown(void **state) {
  (void)state;
  unlink(path_a);
  unlink(path_b);
  assert_int_equal(tri_host_bytes(), 0);
  return rmdir(folder);
}

static inline void put_file(const char *path, const char *bytes, size_t n) {
  assert_int_equal(tri_file_write(path, bytes, n), TRI_OK);
}

/* A tokenizer of bytes. Byte b is token 3 + b, and `special` adds a begin token. ctx is a buffer [4096]. The
 * text "FAIL" fails. */
static inline tri_status encode_bytes(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                                      int64_t *n_id) {
  int32_t *buffer = ctx;
  int64_t  k = 0;

  if (n == 4 && !memcmp(text, "FAIL", 4)) TRI_FAIL(TRI_EINTERNAL, "the tokenizer failed");
  if (special) buffer[k++] = BOS;
  for (size_t i = 0; i < n && k < 4096; i++) {
    if (text[i] == '$') /* the end token's text */
      buffer[k++] = END;
    else
      buffer[k++] = FIRST_BYTE + (unsigned char)text[i];
  }
  *id = buffer;
  *n_id = k;
  return TRI_OK;
}

static int32_t buffer[4096];

static inline tri_data_opt options(tri_data_kind kind) {
  return (tri_data_opt){.kind = kind,
                        .vocab = VOCAB,
                        .end.completion = END,
                        .end.text = kind == TRI_DATA_SFT ? END : -1,
                        .max_total_name = "the test's limit",
                        .from_deck = true,
                        .encode = encode_bytes,
                        .ctx = buffer};
}

static inline tri_dataset *open_bytes(const char *bytes, size_t n, const tri_data_opt *opt) {
  const char  *file[] = {path_a};
  tri_dataset *d;

  put_file(path_a, bytes, n);
  tri_error_clear();
  if (tri_dataset_open(file, 1, opt, &d) != TRI_OK) fail_msg("%s", tri_error_message());
  return d;
}

static inline tri_dataset *open_text(const char *text, const tri_data_opt *opt) {
  return open_bytes(text, strlen(text), opt);
}

/* Expects the file to be refused with `part`, and every message to start with its path. */
static inline void expect_refused(const char *bytes, size_t n, const tri_data_opt *opt, tri_status status,
                                  const char *part) {
  const char  *file[] = {path_a};
  tri_dataset *d;

  put_file(path_a, bytes, n);
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 1, opt, &d), status);
  assert_null(d);
  if (status == TRI_EINPUT && strncmp(tri_error_message(), path_a, strlen(path_a)))
    fail_msg("`%s` does not name the file", tri_error_message());
  expect_refusal(part);
}

/* Writes id [n] as text, with ^ for begin, $ for end, and bytes. */
static inline void expect_ids(const int32_t *id, int n, const char *want) {
  assert_int_equal(n, strlen(want));
  for (int i = 0; i < n; i++)
    assert_int_equal(id[i], want[i] == '^'   ? BOS
                            : want[i] == '$' ? END
                                             : FIRST_BYTE + (unsigned char)want[i]);
}

static inline void expect_tokens(const tri_example *e, const char *want, int n_prompt) {
  assert_int_equal(e->n_prompt, n_prompt);
  expect_ids(e->token, e->n_token, want);
}

typedef struct bad_line {
  const char *line, *part;
} bad_line;

/* Puts each line third, after a good line and a blank one. */
static inline void refuse_each(const bad_line *row, size_t n, const char *good, const tri_data_opt *opt) {
  char text[1024];

  for (size_t i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%s\n\n%s\n%s\n", good, row[i].line, good);
    expect_refused(text, strlen(text), opt, TRI_EINPUT, row[i].part);
    assert_true(tells(tri_error_message(), "a.jsonl:3"));
  }
}

#endif
