/* fuzz_dataset.c - JSON lines and data sets (io/text/jsonl.c, io/data/), from six bytes of options and a
 * file, possibly compressed.
 *
 * A file read whole must equal the same file read in three parts. The bytes of every value must be JSON of
 * the same value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <jansson.h>
#include <math.h>
#include <sys/mman.h>

#include "fuzz_case.h"
#include "io/data/dataset_parts.h"
#include "io/text/jsonl.h"
#include "io/text/lines.h"
#include "io/tokenizer/tokenizer.h"

enum { HEAD_BYTES = 6, MOST_BYTES = 1 << 16, MOST_TOKENS = 4 * MOST_BYTES };

static tri_tokenizer *tokenizer;
static tri_tokens     ids; /* ids of the last text, allocated at its largest size from the start */
static tri_chat      *chat[4];
static int            memory = -1;
static char           path[64];

static tri_status encode(void *context, const char *text, size_t n, bool special, const int32_t **id,
                         int64_t *n_id) {
  (void)context;
  ids.n = 0;
  TRI_TRY(tri_tokenizer_encode(tokenizer, text, n, special, &ids));
  *id = ids.id;
  *n_id = ids.n;
  return TRI_OK;
}

static const char *refuse(const void *context, const char *answer, size_t n) {
  (void)context;
  return n && answer[0] == '!' ? "is refused" : NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static const int32_t     zero[MOST_TOKENS];
  static const char *const form[] = {"chatml", "llama2", "qwen3", "mistral"};

  (void)argc, (void)argv;
  tri_log_open(1, TRI_LOG_ERROR);
  FUZZ_CHECK(tri_tokenizer_open(TRI_TEST_DATA "/cli/tokenizer.json", &tokenizer) == TRI_OK);
  FUZZ_CHECK(tri_tokens_put(&ids, zero, MOST_TOKENS) == TRI_OK);
  for (int i = 0; i < 4; i++)
    FUZZ_CHECK(tri_chat_open(&(tri_chat_opt){.template = form[i], .from_deck = true},
                             &(tri_chat_files){.model = "m"}, &chat[i]) == TRI_OK);
  memory = memfd_create("fuzz", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  return 0;
}

static tri_data_opt options(const uint8_t h[HEAD_BYTES]) {
  tri_data_opt o = {.kind = h[3] & 32 ? (h[0] & 1 ? TRI_DATA_LABELLED : TRI_DATA_PAIRS)
                                      : (tri_data_kind)(h[0] & 3),
                    .overlong_prompt = (tri_overlong)((h[0] >> 2) % 3),
                    .overlong = (tri_overlong)((h[0] >> 4) & 3),
                    .from_deck = h[0] & 64,
                    .max_prompt_tokens = h[1] & 31,
                    .max_total_tokens = h[2] & 63,
                    .max_total_name = "x",
                    .vocab = 257,
                    .end.completion = h[3] & 1 ? 256 : -1,
                    .end.text = h[3] & 2 ? 256 : -1,
                    .max_line_bytes = MOST_BYTES,
                    .encode = h[3] & 4 ? NULL : encode,
                    .chat = {chat[h[3] >> 6], h[2] & 64, h[0] & 128, NULL},
                    .refuse = h[3] & 8 ? refuse : NULL};

  if (h[3] & 16) {
    o.prompt_key = "q";
    o.answer_key = "a";
    o.completion_key = "t.x";
    o.chosen_key = "a";
    o.rejected_key = "text";
    o.label_key = "chosen";
    o.margin_key = "m";
  }
  return o;
}

static bool same_text(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
  return !a == !b && a_bytes == b_bytes && (!a || fuzz_same(a, b, a_bytes + 1));
}

static bool same_skip(const uint8_t *a, const uint8_t *b, int n) {
  return !a == !b && (!a || fuzz_same(a, b, (size_t)n));
}

/* Checks that at least one token after the prompt has loss, and at least one has none, if the line selects
 * tokens. */
static void check_skip(const uint8_t *skip, int n, int n_prompt) {
  int learned = 0, first = n_prompt > 1 ? n_prompt : 1;

  for (int i = first; skip && i < n; i++) learned += !skip[i];
  FUZZ_CHECK(!skip || (learned > 0 && learned < n - first));
}

static bool same_example(const tri_example *x, const tri_example *y) {
  return x->n_token >= 1 && x->n_prompt >= 0 && x->n_prompt <= x->n_token && x->n_token == y->n_token &&
         x->n_prompt == y->n_prompt && fuzz_same(x->token, y->token, (size_t)x->n_token * sizeof *x->token) &&
         !x->rejected == !x->n_rejected && x->n_rejected == y->n_rejected && x->value == y->value &&
         (!x->rejected || fuzz_same(x->rejected, y->rejected, (size_t)x->n_rejected * sizeof *x->rejected)) &&
         same_skip(x->skip, y->skip, x->n_token) &&
         same_skip(x->rejected_skip, y->rejected_skip, x->n_rejected) &&
         same_text(x->prompt, x->prompt_bytes, y->prompt, y->prompt_bytes) &&
         same_text(x->answer, x->answer_bytes, y->answer, y->answer_bytes);
}

/* Checks that both sides begin with the prompt and have tokens to learn. */
static void check_preference(tri_data_kind kind, const tri_example *e) {
  int first = e->n_prompt > 1 ? e->n_prompt : 1;

  FUZZ_CHECK((kind == TRI_DATA_PAIRS) == (e->rejected != NULL));
  if (kind < TRI_DATA_PAIRS) FUZZ_CHECK(e->value == 0);
  if (kind == TRI_DATA_LABELLED) FUZZ_CHECK(e->value == 0 || e->value == 1);
  if (kind >= TRI_DATA_PAIRS) FUZZ_CHECK(e->n_token > first && isfinite(e->value));
  if (!e->rejected) return;
  FUZZ_CHECK(e->n_rejected > first);
  FUZZ_CHECK(fuzz_same(e->token, e->rejected, (size_t)e->n_prompt * sizeof *e->token));
}

/* Checks that the file of n bytes, cut at two places given in 1/256 of it, gives the same as `whole`. */
static void check_parts(const tri_data_opt *o, const tri_dataset *whole, int64_t n, int cut1, int cut2) {
  int64_t        at1 = (cut1 < cut2 ? cut1 : cut2) * (n + 1) / 256;
  int64_t        at2 = (cut1 < cut2 ? cut2 : cut1) * (n + 1) / 256;
  tri_data_range range[3] = {{0, at1}, {at1, at2}, {at2, n}};
  const char    *file = path;
  int64_t        n_example = 0, n_line = 0;

  for (int i = 0; i < 3; i++) {
    tri_dataset *part = NULL;
    FUZZ_CHECK(tri_dataset_read(&file, 1, o, &range[i], &part) == TRI_OK);
    for (int64_t k = 0; k < part->n; k++, n_example++) {
      FUZZ_CHECK(n_example < tri_dataset_count(whole));
      FUZZ_CHECK(same_example(&part->example[k], tri_dataset_get(whole, n_example)));
      FUZZ_CHECK(part->example[k].id + n_line == tri_dataset_get(whole, n_example)->id);
    }
    n_line += part->stats.n_line;
    tri_dataset_close(&part);
  }
  FUZZ_CHECK(n_example == tri_dataset_count(whole));
  FUZZ_CHECK(n_line == tri_dataset_stats(whole)->n_line);
}

static void check_values(void) {
  tri_jsonl     *lines = NULL;
  const char    *key;
  const int32_t *id;
  json_t        *object, *value;

  if (tri_jsonl_open(path, &lines) != TRI_OK) return;
  while (tri_jsonl_next(lines, &object) == TRI_OK && object) {
    json_object_foreach(object, key, value) {
      size_t      n = 0;
      const char *raw = tri_jsonl_raw(lines, key, &n);
      json_t     *again;
      FUZZ_CHECK(raw);
      again = json_loadb(raw, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
      if (again || !tri_jsonl_has_odd(lines)) FUZZ_CHECK(again && json_equal(value, again));
      if (again) FUZZ_CHECK(tri_jsonl_refuse_odd(lines, key) == TRI_OK);
      tri_error_clear();
      json_decref(again);
    }
    int64_t n_id;
    (void)!tri_jsonl_ids(lines, "tokens", 257, &id, &n_id);
    tri_error_clear();
  }
  tri_jsonl_close(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tri_dataset *whole = NULL;
  const char  *file = path;
  int64_t      size;
  tri_data_opt o;

  if (n < HEAD_BYTES || n > MOST_BYTES) return -1;
  o = options(data);
  FUZZ_CHECK(ftruncate(memory, 0) == 0);
  FUZZ_CHECK(pwrite(memory, data + HEAD_BYTES, n - HEAD_BYTES, 0) == (ssize_t)(n - HEAD_BYTES));
  fuzz_begin();
  if (tri_dataset_open(&file, 1, &o, &whole) == TRI_OK) {
    FUZZ_CHECK(tri_lines_size(path, &size) == TRI_OK);
    check_parts(&o, whole, size, data[4], data[5]);
    for (int64_t i = 0; i < tri_dataset_count(whole); i++) {
      const tri_example *e = tri_dataset_get(whole, i);
      check_preference(o.kind, e);
      check_skip(e->skip, e->n_token, e->n_prompt);
      check_skip(e->rejected_skip, e->n_rejected, e->n_prompt);
    }
    for (int64_t i = 0; i < 2 * tri_dataset_count(whole) && i < 64; i++)
      FUZZ_CHECK(tri_dataset_at(whole, 7, data[4] & 1, i) < tri_dataset_count(whole));
  }
  tri_dataset_close(&whole);
  tri_error_clear();
  check_values();
  fuzz_end();
  return 0;
}
