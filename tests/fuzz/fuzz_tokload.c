/* fuzz_tokload.c - tokenizer.json (io/tokenizer), from the file and a text, separated by 0x01. After these
 * may come tokenizer_config.json, special_tokens_map.json and added_tokens.json.
 *
 * Ids of any text must be tokens of the vocabulary. Decoded text must be UTF-8. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/tokenizer/tokenizer_impl.h"

FUZZ_QUIET_START

static void check_text(const tri_tokenizer *t, fuzz_part text, bool special) {
  tri_tokens id = {0};
  tri_text   out = {0};

  if (tri_tokenizer_encode(t, text.p, text.n, special, &id) == TRI_OK) {
    for (int64_t i = 0; i < id.n; i++)
      FUZZ_CHECK(id.id[i] >= 0 && id.id[i] < tri_tokenizer_vocab_size(t) && tri_tokenizer_token(t, id.id[i]));
    if (tri_tokenizer_decode(t, id.id, id.n, special, &out) == TRI_OK)
      FUZZ_CHECK(fuzz_is_utf8(out.data, out.len));
  }
  tri_error_clear();
  tri_tokens_free(&id);
  tri_text_free(&out);
}

static void check_ids(const tri_tokenizer *t) {
  tri_text out = {0};

  for (int32_t i = 0; i < tri_tokenizer_vocab_size(t) && i < 600; i++) {
    out.len = 0;
    (void)!tri_tokenizer_decode(t, &i, 1, i & 1, &out);
    tri_error_clear();
  }
  tri_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char  usual[] = "Hello,  world 123 \xc3\xa9\xe4\xbd\xa0 <s>\n ab";
  fuzz_part          json = fuzz_next(&data, &n), text = fuzz_next(&data, &n);
  tri_tokenizer_file file[TRI_TOKENIZER_FILES] = {{"tokenizer", json.p, json.n}};
  tri_tokenizer     *t = NULL;

  for (int i = TRI_TOKENIZER_CONFIG; i < TRI_TOKENIZER_FILES; i++) {
    fuzz_part part = fuzz_next(&data, &n);
    file[i] = (tri_tokenizer_file){tri_tokenizer_file_name(i), part.n ? part.p : NULL, part.n};
  }
  fuzz_begin();
  if (tri_tokenizer_open_files(file, &t) == TRI_OK) {
    FUZZ_CHECK(tri_tokenizer_named(t, "eos_token") < tri_tokenizer_vocab_size(t));
    for (int special = 0; special < 2; special++) {
      check_text(t, (fuzz_part){usual, sizeof usual - 1}, special);
      check_text(t, text, special);
    }
    check_ids(t);
  }
  tri_tokenizer_close(&t);
  fuzz_end();
  return 0;
}
