/* test_number.c - numbers as text, and the median. Judge: the exact number read back, and arithmetic by hand.
 * Every shorter text must read back as another number. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/median.h"
#include "base/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void is_text(double x, const char *want) {
  char out[TRI_NUMBER_BYTES];

  tri_number_text(x, out);
  assert_string_equal(out, want);
}

static void is_text_f32(float x, const char *want) {
  char out[TRI_NUMBER_BYTES];

  tri_number_text_f32(x, out);
  assert_string_equal(out, want);
}

static void known_numbers(void **state) {
  (void)state;
  is_text(1e-6, "1e-06");
  is_text(0.1, "0.1");
  is_text(0.3, "0.3");
  is_text(0.1 + 0.2, "0.30000000000000004");
  is_text(-2.5, "-2.5");
  is_text(0, "0");
  is_text(-0.0, "-0.0");
  is_text(1e15, "1000000000000000");
  is_text(0x1p53 - 1, "9007199254740991");
  is_text(1e300, "1e+300");
  is_text(5e-324, "5e-324");
  is_text(DBL_MAX, "1.7976931348623157e+308");
  is_text(DBL_MIN, "2.2250738585072014e-308");
  is_text(1795328426.123, "1795328426.123");
  is_text_f32(0.1f, "0.1");
  is_text_f32(-1.3862944f, "-1.3862944");
  is_text_f32(16777216.0f, "16777216");
  is_text_f32(-0.0f, "-0.0");
  is_text_f32(FLT_MAX, "3.4028235e+38");
  is_text_f32(1e-45f, "1e-45");
}

/* Tries random bits of both types. The text gives the same number back, and one digit less gives another. */
static void every_number_reads_back(void **state) {
  uint64_t s = 42;
  char     out[TRI_NUMBER_BYTES], fewer[TRI_NUMBER_BYTES];

  (void)state;
  for (int i = 0; i < 200000; i++) {
    double   x;
    float    y;
    uint32_t low;
    s = s * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    memcpy(&x, &s, sizeof x);
    low = (uint32_t)(s >> 32);
    memcpy(&y, &low, sizeof y);
    if (isfinite(x)) {
      tri_number_text(x, out);
      assert_true(strtod(out, NULL) == x);
      for (int digits = 1; digits < 17 && fabs(x) < 1e300; digits++) {
        snprintf(fewer, sizeof fewer, "%.*g", digits, x);
        if (strtod(fewer, NULL) == x && fabs(x) >= DBL_MIN && x != floor(x))
          assert_true(strlen(out) <= strlen(fewer));
      }
    }
    if (isfinite(y)) {
      tri_number_text_f32(y, out);
      assert_true(strtof(out, NULL) == y && (float)strtod(out, NULL) == y);
    }
  }
}

/* By hand, with an odd and an even count, equal numbers, one and none. */
static void medians(void **state) {
  double odd[] = {3, -1, 2}, even[] = {8, 1, 4, 2}, equal[] = {5, 5}, one[] = {7};

  (void)state;
  assert_true(tri_median(odd, 3, 0) == 2);
  assert_true(tri_median(even, 4, 0) == 3);
  assert_true(tri_median(equal, 2, 0) == 5);
  assert_true(tri_median(one, 1, 0) == 7);
  assert_true(tri_median(one, 0, -9) == -9);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_numbers),
                                     cmocka_unit_test(every_number_reads_back), cmocka_unit_test(medians)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
