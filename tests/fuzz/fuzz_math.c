/* fuzz_math.c - answers of mathematics (src/reward/math), from two answers separated by 0x01.
 *
 * The comparison must not depend on the order of the two. Each answer must equal itself, and itself with
 * space before it. A box must be inside its text. The first and the last number of a text must be inside it,
 * and must read back as the same number after they are written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "reward/math/math_answer.h"
#include "reward/math/tex_same.h"
#include "reward/math/text_number.h"

FUZZ_QUIET_START

static bool same(tri_part a, tri_part b) {
  bool x, y;

  FUZZ_CHECK(tri_math_same(a, b, &x) == TRI_OK && tri_math_same(b, a, &y) == TRI_OK && x == y);
  return x;
}

/* Checks that the tree of an answer equals itself, besides its bytes. */
static void check_self(tri_part a) {
  tri_tex_verdict verdict;
  tri_text        spaced = {0};

  FUZZ_CHECK(same(a, a));
  FUZZ_CHECK(tri_tex_compare(a, a, &verdict) == TRI_OK);
  if (verdict == TRI_TEX_SAME) {
    FUZZ_CHECK(tri_text_printf(&spaced, " ") == TRI_OK && tri_text_put(&spaced, a.at, a.n) == TRI_OK);
    FUZZ_CHECK(a.n >= 4095 || same(a, (tri_part){spaced.data, spaced.len}));
  }
  tri_text_free(&spaced);
}

static void check_number(tri_part a, const tri_text_number *x) {
  tri_text_number again;
  tri_text        text = {0};

  FUZZ_CHECK(x->text.at >= a.at && x->text.at + x->text.n <= a.at + a.n && x->text.n > 0);
  FUZZ_CHECK(tri_text_number_put(x, &text) == TRI_OK);
  FUZZ_CHECK(tri_text_number_first(text.data, text.len, &again) == TRI_TEXT_NUMBER);
  FUZZ_CHECK(tri_text_number_same(x, &again) && tri_text_number_same(&again, x));
  tri_text_free(&text);
}

static void check_numbers(tri_part a) {
  tri_text_number x;

  if (tri_text_number_first(a.at, a.n, &x) == TRI_TEXT_NUMBER) check_number(a, &x);
  if (tri_text_number_last(a.at, a.n, &x) == TRI_TEXT_NUMBER) check_number(a, &x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part a, b;
  tri_part  x, y, inside;

  if (n > 1 << 13) return -1;
  a = fuzz_next(&data, &n);
  b = fuzz_next(&data, &n);
  if (!fuzz_is_utf8(a.p, a.n) || !fuzz_is_utf8(b.p, b.n)) return -1;
  fuzz_begin();
  x = (tri_part){a.p, a.n};
  y = (tri_part){b.p, b.n};
  if (tri_math_boxed(x.at, x.n, &inside)) FUZZ_CHECK(inside.at >= x.at && inside.at + inside.n <= x.at + x.n);
  check_self(x);
  (void)same(x, y);
  check_numbers(x);
  fuzz_end();
  return 0;
}
