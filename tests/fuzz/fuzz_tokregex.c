/* fuzz_tokregex.c - a tokenizer's regular expressions (io/tokenizer/tokenizer_onig.c, tokenizer_regex.c),
 * from a pattern and a text, separated by 0x01.
 *
 * Matches and the stretches between them must cover the text in order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/tokenizer/tokenizer_impl.h"

FUZZ_QUIET_START

static void check_cover(const tri_tok_work *w, size_t n) {
  size_t at = 0;

  for (int64_t i = 0; i < w->n_match; i++) {
    FUZZ_CHECK(w->match[i].from == at && w->match[i].to >= at);
    at = w->match[i].to;
  }
  FUZZ_CHECK(at == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part      pattern = fuzz_next(&data, &n), text = fuzz_next(&data, &n);
  tri_tok_regex  x = {0};
  tri_tok_work   w = {0};
  tri_tok_pieces t = {0};

  if (pattern.n > 2000 || !fuzz_is_utf8(pattern.p, pattern.n)) return -1;
  fuzz_begin();
  FUZZ_CHECK(tri_tok_put_lossy(&t, text.p, text.n) == TRI_OK);
  if (tri_tok_regex_open("pattern", pattern.p, pattern.n, false, &x) == TRI_OK && t.text_n &&
      tri_tok_regex_find(&x, t.text, (size_t)t.text_n, &w) == TRI_OK)
    check_cover(&w, (size_t)t.text_n);
  tri_tok_regex_close(&x);
  tri_tok_work_free(&w);
  tri_tok_pieces_free(&t);
  fuzz_end();
  return 0;
}
