/* test_columns.c - numbers and text formatted to a width. Judges: literals, and the widths of numbers of
 * every size. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef void (*cell_fn)(double x, int width, char out[TRI_CELL_BYTES]);

static void shows(cell_fn cell, double x, int width, const char *want) {
  char out[TRI_CELL_BYTES];

  cell(x, width, out);
  assert_string_equal(out, want);
}

static void numbers_give_up_decimals_first(void **state) {
  (void)state;
  shows(tri_cell_number, 0.43124, 8, "0.4312");
  shows(tri_cell_number, 0.43124, 5, "0.431");
  shows(tri_cell_number, -1234.5678, 8, "-1234.57");
  shows(tri_cell_number, -1234.5678, 6, "-1235");
  shows(tri_cell_number, 1e9, 7, "1.00e9");
  shows(tri_cell_number, 3.04e-5, 7, "3.04e-5");
  shows(tri_cell_number, 3.04e-5, 5, "3e-5");
  shows(tri_cell_number, 0.0, 6, "0.0000");
  shows(tri_cell_number, -0.0, 6, "0.0000");
  shows(tri_cell_number, 0.0096, 4, "0.01");
  shows(tri_cell_number, NAN, 5, "nan");
  shows(tri_cell_number, -INFINITY, 5, "-inf");
  shows(tri_cell_number, -7.45e-10, 6, "-7e-10");
  shows(tri_cell_number, -7.45e-10, 5, "-0");
  shows(tri_cell_number, 7.45e-10, 5, "7e-10");
  shows(tri_cell_number, 1e-300, 5, "0");
  shows(tri_cell_number, -1e-300, 5, "-0");
  shows(tri_cell_number, -1e100, 5, "#####");
  shows(tri_cell_digits, -1.5e-10, 5, "-0");
  shows(tri_cell_digits, 0.002984, 8, "0.00298");
  shows(tri_cell_digits, 7.34e-5, 8, "7.34e-5");
  shows(tri_cell_digits, 0, 8, "0");
}

static void counts_and_shares(void **state) {
  (void)state;
  shows(tri_cell_count, 3.14, 5, "3.1");
  shows(tri_cell_count, 940.4, 5, "940");
  shows(tri_cell_count, 12345, 5, "12345");
  shows(tri_cell_count, 123456, 5, "123k");
  shows(tri_cell_count, 1e9, 5, "1G");
  shows(tri_cell_count, 1.25e9, 5, "1.2G");
  shows(tri_cell_count, 99999.9, 5, "100k");
  shows(tri_cell_count, 1e30, 5, "#####");
  shows(tri_cell_count, NAN, 5, "nan");
  shows(tri_cell_share, 0, 4, "0%");
  shows(tri_cell_share, 0.031, 4, "3.1%");
  shows(tri_cell_share, 0.0999, 4, "10%");
  shows(tri_cell_share, 1, 4, "100%");
  shows(tri_cell_share, NAN, 4, "nan");
}

static void steps_and_durations(void **state) {
  char out[TRI_CELL_BYTES];

  (void)state;
  tri_cell_steps(12, 100, 10, out);
  assert_string_equal(out, "12/100");
  tri_cell_steps(1000000, 1000000, 15, out);
  assert_string_equal(out, "1000000/1000000");
  tri_cell_steps(1000000, 1000000, 10, out);
  assert_string_equal(out, "1000000/1M");
  tri_cell_steps(999999999, 1000000000, 10, out);
  assert_string_equal(out, "1.0G/1G");
  const struct {
    double      s;
    const char *text;
  } row[] = {{0, "0s"},          {59.9, "59s"},     {61, "1m01s"},       {3599, "59m59s"},
             {359999, "99h59m"}, {360000, "4d04h"}, {8639999, "99d23h"}, {86400 * 1000.0, "1000d"},
             {-1, "0s"},         {NAN, "0s"},       {INFINITY, "0s"},    {1e300, "99999d"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_cell_duration(row[i].s, out);
    assert_string_equal(out, row[i].text);
    assert_true(strlen(out) <= 6);
  }
}

static void bytes_have_binary_units(void **state) {
  static const struct {
    int64_t     n;
    const char *text;
  } row[] = {{0, "0 B"},
             {1023, "1023 B"},
             {1024, "1.00 KiB"},
             {284928, "278 KiB"},
             {(1 << 20) - 1, "1.00 MiB"},
             {(int64_t)65971697664, "61.4 GiB"},
             {INT64_MAX, "8.00 EiB"}};
  char out[TRI_CELL_BYTES];

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_cell_bytes(row[i].n, out);
    assert_string_equal(out, row[i].text);
    assert_true(strlen(out) <= 8);
  }
}

/* A refusal over a few MiB must show them. */
static void memory_has_its_decimals(void **state) {
  static const struct {
    size_t      n;
    const char *text;
  } row[] = {{12884902, "12.3 MiB"},
             {(size_t)180 << 20, "180.0 MiB"},
             {((size_t)1 << 30) - 1, "1.000 GiB"},
             {(size_t)1234 << 20, "1.205 GiB"}};
  char out[TRI_CELL_BYTES];

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_cell_memory(row[i].n, out);
    assert_string_equal(out, row[i].text);
  }
}

static void no_number_is_wider_than_its_column(void **state) {
  static const cell_fn fn[] = {tri_cell_number, tri_cell_digits, tri_cell_count, tri_cell_share};
  char                 out[TRI_CELL_BYTES];

  (void)state;
  for (int f = 0; f < 4; f++)
    for (int width = 4; width < 12; width++)
      for (int power = -320; power <= 308; power++)
        for (int k = 0; k < 6; k++) {
          double x = (k % 2 ? -1 : 1) * (k < 2 ? 1 : k < 4 ? 1.23456789 : 9.9999999) * pow(10, power);
          fn[f](x, width, out);
          if (strlen(out) > (size_t)width || !out[0]) fail_msg("%d: %g in %d columns: %s", f, x, width, out);
        }
}

static void columns_give_what_they_can(void **state) {
  tri_column c[] = {{"a", 10, 4}, {"b", 6, 6}, {"c", 7, 5}};

  (void)state;
  tri_columns_fit(c, 3, 25);
  assert_int_equal(c[0].width + c[1].width + c[2].width, 23);
  assert_int_equal(c[0].width, 10);
  tri_columns_fit(c, 3, 21);
  assert_int_equal(c[0].width + c[1].width + c[2].width, 19);
  assert_int_equal(c[1].width, 6);
  tri_columns_fit(c, 3, 5);
  assert_int_equal(c[0].width + c[1].width + c[2].width, 15);
}

static void long_text_loses_its_middle(void **state) {
  char out[64];

  (void)state;
  tri_text_shorten("short", 20, out, sizeof out);
  assert_string_equal(out, "short");
  tri_text_shorten("/scratch/project/user/runs/of/today/grpo-7", 20, out, sizeof out);
  assert_string_equal(out, "/scra...today/grpo-7");
  tri_text_shorten("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc", 6, out,
                   sizeof out);
  assert_string_equal(out, "\xc3\xa4...\xc3\xb6\xc3\xbc");
  assert_int_equal(tri_text_columns("\xe6\x97\xa5\xe6\x9c\xac", 6), 4);
}

static void lines_are_broken_where_a_reader_pauses(void **state) {
  tri_text out = {0};

  (void)state;
  assert_int_equal(tri_text_wrap("total = a x b x ranks: 24 = 3 x 4 x 2\nnext, one", 30, &out), TRI_OK);
  assert_string_equal(out.data, "total = a x b x ranks:\n    24 = 3 x 4 x 2\nnext, one");
  out.len = 0;
  assert_int_equal(tri_text_wrap("one two three four five six", 10, &out), TRI_OK);
  assert_string_equal(out.data, "one two\n    three\n    four\n    five\n    six");
  out.len = 0;
  assert_int_equal(tri_text_wrap("in /a/very/long/path/of/one/word it is", 12, &out), TRI_OK);
  assert_string_equal(out.data, "in\n    /a/very/long/path/of/one/word\n    it is");
  out.len = 0;
  assert_int_equal(tri_text_wrap("type one of\n    these two words\nor none at all", 12, &out), TRI_OK);
  assert_string_equal(out.data, "type one of\n    these two words\nor none at\n    all");
  out.len = 0;
  assert_int_equal(tri_text_wrap("  /a/very/long/path/of/one/word it is\n                one", 12, &out),
                   TRI_OK);
  assert_string_equal(out.data, "  /a/very/long/path/of/one/word\n    it is\n                one");
  tri_text_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_give_up_decimals_first),
      cmocka_unit_test(counts_and_shares),
      cmocka_unit_test(steps_and_durations),
      cmocka_unit_test(bytes_have_binary_units),
      cmocka_unit_test(memory_has_its_decimals),
      cmocka_unit_test(no_number_is_wider_than_its_column),
      cmocka_unit_test(columns_give_what_they_can),
      cmocka_unit_test(long_text_loses_its_middle),
      cmocka_unit_test(lines_are_broken_where_a_reader_pauses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
