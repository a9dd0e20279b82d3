/* fuzz_toktext.c - text through the tokenizers of tests/data (io/tokenizer), from a byte that selects the
 * tokenizer and the text.
 *
 * Every text must have ids. They must be the same on each call, with positions or without, and with U+FFFD in
 * place of bytes outside UTF-8. Decoded ids must be UTF-8. If a tokenizer keeps every byte, they must give
 * the text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/tokenizer/tokenizer_impl.h"

static const char *const name[] = {
    "tokenizer/cl100k",         "tokenizer/deepseek2",     "tokenizer/deepseek3",
    "tokenizer/digits",         "tokenizer/flags",         "tokenizer/gpt2",
    "tokenizer/kimi",           "tokenizer/llama2",        "tokenizer/llama3",
    "tokenizer/metaspace",      "tokenizer/mistral",       "tokenizer/qwen2",
    "tokenizer/unigram_albert", "tokenizer/unigram_llmjp", "tokenizer/unigram_t5",
    "tokenizer/unigram_ties",   "cli/tokenizer",           "train/tokenizer"};
enum { N_NAME = sizeof name / sizeof *name };

static tri_tokenizer *tokenizer[N_NAME];
static bool           exact[N_NAME]; /* decode(encode(text)) is the text */

static bool is_exact(const tri_tokenizer *t) {
  if (t->normalizer.n > 0 || t->decoder.n != 1 || t->decoder.op[0].kind != TRI_TOK_BYTES) return false;
  for (int k = 0; k < t->pre_tokenizer.n; k++)
    if (t->pre_tokenizer.op[k].kind == TRI_TOK_PREFIX_SPACE) return false;
  for (int b = 0; b < 256; b++) {
    char c[4];
    int  n = tri_tok_put_char(tri_tok_byte_char((uint8_t)b), c);
    if (tri_tok_map_find(&t->model, c, (size_t)n) < 0) return false;
  }
  return true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  tri_log_open(1, TRI_LOG_ERROR);
  for (int i = 0; i < N_NAME; i++) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s.json", TRI_TEST_DATA, name[i]);
    FUZZ_CHECK(tri_tokenizer_open(path, &tokenizer[i]) == TRI_OK);
    exact[i] = is_exact(tokenizer[i]);
  }
  return 0;
}

static void check_same_ids(const tri_tokenizer *t, const char *text, size_t n, const tri_tokens *want) {
  tri_tokens id = {0};

  FUZZ_CHECK(tri_tokenizer_encode(t, text ? text : "", n, false, &id) == TRI_OK);
  FUZZ_CHECK(id.n == want->n && fuzz_same(id.id, want->id, (size_t)id.n * sizeof *id.id));
  tri_tokens_free(&id);
}

/* Checks that encoding with positions gives the same ids, and that each position is inside the text. */
static void check_places(const tri_tokenizer *t, const char *text, size_t n, const tri_tokens *want) {
  tri_tokens       id = {0};
  tri_token_places places = {0};

  FUZZ_CHECK(tri_tokenizer_encode_places(t, text, n, &id, &places) == TRI_OK);
  FUZZ_CHECK(id.n == want->n && fuzz_same(id.id, want->id, (size_t)id.n * sizeof *id.id));
  FUZZ_CHECK(!places.n || places.n == id.n);
  for (int64_t i = 0; i < places.n; i++)
    FUZZ_CHECK(places.at[i].begin <= places.at[i].end && places.at[i].end <= n &&
               (!i || places.at[i].begin >= places.at[i - 1].begin));
  tri_tokens_free(&id);
  tri_token_places_free(&places);
}

static void check_text(const tri_tokenizer *t, const char *text, size_t n, bool keeps_all,
                       const tri_tokens *id) {
  tri_text       out = {0};
  tri_tok_pieces lossy = {0};

  for (int64_t i = 0; i < id->n; i++) FUZZ_CHECK(tri_tokenizer_token(t, id->id[i]));
  check_same_ids(t, text, n, id);
  check_places(t, text, n, id);
  FUZZ_CHECK(tri_tok_put_lossy(&lossy, text, n) == TRI_OK);
  check_same_ids(t, lossy.text, (size_t)lossy.text_n, id);
  FUZZ_CHECK(tri_tokenizer_decode(t, id->id, id->n, false, &out) == TRI_OK);
  FUZZ_CHECK(fuzz_is_utf8(out.data, out.len));
  if (keeps_all) FUZZ_CHECK((size_t)lossy.text_n == out.len && fuzz_same(out.data, lossy.text, out.len));
  tri_text_free(&out);
  tri_tok_pieces_free(&lossy);
}

/* Decodes the input's pairs of bytes as ids, some of them out of range. */
static void check_any_ids(const tri_tokenizer *t, const uint8_t *data, size_t n) {
  int32_t  id[32], n_id = 0;
  tri_text out = {0};

  for (size_t i = 0; i + 1 < n && n_id < 32; i += 2)
    id[n_id++] = (data[i] | data[i + 1] << 8) % (tri_tokenizer_vocab_size(t) + 2) - 1;
  if (tri_tokenizer_decode(t, id, n_id, n & 1, &out) == TRI_OK) FUZZ_CHECK(fuzz_is_utf8(out.data, out.len));
  tri_error_clear();
  tri_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tri_tokens           id = {0};
  const tri_tokenizer *t;
  int                  which;

  if (n < 1 || n > 1 << 14) return -1;
  which = data[0] % N_NAME;
  t = tokenizer[which];
  data++;
  n--;
  fuzz_begin();
  if (tri_tokenizer_encode(t, (const char *)data, n, false, &id) == TRI_OK)
    check_text(t, (const char *)data, n, exact[which], &id);
  else /* only the last tokenizer lacks bytes, and a regular expression may give up */
    FUZZ_CHECK(which == N_NAME - 1 || strstr(tri_error_message(), "regular"));
  tri_error_clear();
  check_any_ids(t, data, n);
  tri_tokens_free(&id);
  fuzz_end();
  return 0;
}
