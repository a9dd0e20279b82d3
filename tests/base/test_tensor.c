/* test_tensor.c - the 16-bit types. Judges: the values of all 65,536 words of float16 by ldexp, and the f32
 * numbers at and next to each border between two of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/tensor.h"

#include <math.h>

enum { INF = 0x7c00, SIGN = 0x8000 };

static double meaning(int h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;

  return exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
}

static void every_f16(void **state) {
  (void)state;
  for (int h = 0; h <= UINT16_MAX; h++) {
    float f = tri_f16_to_f32((uint16_t)h);
    int   magnitude = h & ~SIGN;
    assert_int_equal(signbit(f) != 0, h >= SIGN);
    if (magnitude > INF) {
      assert_true(isnan(f));
      assert_int_equal(tri_f32_to_f16(f), h | 0x200);
      continue;
    }
    assert_true((double)fabsf(f) == (magnitude == INF ? (double)INFINITY : meaning(magnitude)));
    assert_int_equal(tri_f32_to_f16(f), h);
  }
}

static void rounds_to(float f, int h) {
  assert_int_equal(tri_f32_to_f16(f), h);
  assert_int_equal(tri_f32_to_f16(-f), h | SIGN);
}

/* Between h and h + 1, with infinity as 65536, the middle rounds to the even one and all else to the nearer
 * one. */
static void every_border(void **state) {
  (void)state;
  for (int h = 0; h < INF; h++) {
    float middle = (float)((meaning(h) + meaning(h + 1)) / 2);
    rounds_to(middle, h % 2 ? h + 1 : h);
    rounds_to(nextafterf(middle, 0), h);
    rounds_to(nextafterf(middle, INFINITY), h + 1);
  }
  rounds_to(0x1p-149f, 0);
  rounds_to(65536, INF);
  rounds_to(3e38f, INF);
}

static void words(void **state) {
  (void)state;
  for (int t = TRI_F32; t <= TRI_F16; t++) {
    assert_true(tri_dtype_computes((tri_dtype)t));
    assert_int_equal(tri_dtype_named(tri_dtype_word((tri_dtype)t)), t);
  }
  assert_false(tri_dtype_computes(TRI_I32));
  assert_int_equal(tri_dtype_bytes(TRI_F16), 2);
  assert_int_equal(tri_half_to_f32(TRI_BF16, tri_f32_to_half(TRI_BF16, 3.0f)), 3);
  assert_int_equal(tri_half_to_f32(TRI_F16, tri_f32_to_half(TRI_F16, 3.0f)), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_f16), cmocka_unit_test(every_border),
                                     cmocka_unit_test(words)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
