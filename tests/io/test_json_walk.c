/* test_json_walk.c - checks and walks JSON in place. Judges: RFC 8259, written out, and jansson
 * (tests/fuzz/fuzz_jsonwalk.c). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "io/text/json_walk.h"

/* Counts members or entries. -1: it is neither an object nor a list. */
static int count(const char *text, size_t n) {
  tri_json_walk  w;
  tri_json_slice key, value;
  int            members = 0;

  if (!tri_json_walk_begin(text, n, &w)) return -1;
  while (tri_json_walk_next(&w, &key, &value)) members++;
  return w.bad ? -1 : members;
}

static void what_is_json(void **state) {
  static const struct {
    const char *text;
    int         members;
  } c[] = {{"{}", 0},
           {" [ ]\r\n", 0},
           {"{\"a\":1}", 1},
           {"\t{\"a\" : [1 , {\"b\":[]}] ,\"c\":null}", 2},
           {"[true,false,null,-0,0.5,1e9,-1.25E-3,\"\"]", 8},
           {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD800\"]", 1},
           {"[\"\xc3\xa9\xf0\x9f\x99\x82\x7f\"]", 1},
           {"[[[[[]]],[]]]", 1},
           {"", -1},
           {"1", -1},
           {"\"a\"", -1},
           {"{", -1},
           {"[1", -1},
           {"[1,]", -1},
           {"[,1]", -1},
           {"[1 2]", -1},
           {"[1]]", -1},
           {"{} {}", -1},
           {"[[1}]", -1},
           {"{\"a\"}", -1},
           {"{\"a\":}", -1},
           {"{\"a\":1,}", -1},
           {"{a:1}", -1},
           {"{\"a\":{\"b\" 1}}", -1},
           {"[01]", -1},
           {"[1.]", -1},
           {"[.5]", -1},
           {"[+1]", -1},
           {"[-]", -1},
           {"[1e]", -1},
           {"[NaN]", -1},
           {"[tru]", -1},
           {"[nullx]", -1},
           {"[\"a]", -1},
           {"[\"\\x\"]", -1},
           {"[\"\\u12g4\"]", -1},
           {"[\"\\u12\"]", -1},
           {"[\"a\nb\"]", -1},
           {"[\"\xff\"]", -1},
           {"[\"\xed\xa0\x80\"]", -1},
           {"[\"\xc0\xaf\"]", -1}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++)
    if (count(c[i].text, strlen(c[i].text)) != c[i].members)
      fail_msg("%s: %d, not %d", c[i].text, count(c[i].text, strlen(c[i].text)), c[i].members);
  assert_int_equal(count("[\"\0\"]", 5), -1);
  assert_int_equal(count("[1]\0", 4), -1);
}

/* No byte after the end of a text is read. Each prefix of the text is in a memory block of its own length, so
 * sanitizers see it. */
static void no_byte_behind_the_end_is_read(void **state) {
  static const char text[] = "{\"a\\u0041\": [1.5e3, \"\xf0\x9f\x99\x82\\n\", {\"b\": null}], \"c\": -0}";

  (void)state;
  for (size_t n = 0; n < sizeof text; n++) {
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    assert_int_equal(count(copy, n), n == sizeof text - 1 ? 2 : -1);
    free(copy);
  }
}

static void depth_has_an_end(void **state) {
  enum { MOST = 5000 };
  char text[2 * MOST + 1];

  (void)state;
  for (int depth = 2; depth <= MOST; depth = depth < 2047 ? depth + 409 : depth + 1000) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    assert_int_equal(count(text, 2 * (size_t)depth), depth <= 2049 ? 1 : -1);
    assert_int_equal(count(text, (size_t)depth), -1);
  }
}

static void members_are_as_they_stand(void **state) {
  static const char text[] =
      "{\"n\" : 12 , \"x\":-1.50e1, \"s\": \"a\\u0000\\ud83d\\ude42\\ud83d\\u00e9\\/\", \"big\": "
      "9223372036854775808, \"e\\u0065\": [1, [2]] }";
  static const char said[] = "a\0\xf0\x9f\x99\x82\xef\xbf\xbd\xc3\xa9/";
  tri_json_walk     w;
  tri_json_slice    key, value;
  tri_text          out = {0};
  int64_t           whole = 7;

  (void)state;
  assert_true(tri_json_walk_begin(text, sizeof text - 1, &w));
  assert_true(tri_json_walk_next(&w, &key, &value));
  assert_true(tri_json_is_key(&key, "n") && !tri_json_is_key(&key, "na") && !tri_json_is_key(&key, ""));
  assert_true(tri_json_integer(&value, &whole) && whole == 12 && tri_json_number(&value) == 12 &&
              value.n == 2);
  assert_true(tri_json_walk_next(&w, &key, &value));
  assert_true(!tri_json_integer(&value, &whole) && tri_json_number(&value) == -15 &&
              !tri_json_is_string(&value));
  assert_true(tri_json_walk_next(&w, &key, &value));
  assert_true(tri_json_is_string(&value) && isnan(tri_json_number(&value)));
  assert_int_equal(tri_json_put_said(&value, &out), TRI_OK);
  assert_int_equal(out.len, sizeof said - 1);
  assert_memory_equal(out.data, said, out.len);
  assert_true(tri_json_walk_next(&w, &key, &value));
  assert_true(!tri_json_integer(&value, &whole) && tri_json_number(&value) == 9223372036854775808.0);
  assert_true(tri_json_walk_next(&w, &key, &value));
  assert_false(tri_json_is_key(&key, "ee"));
  assert_int_equal(value.n, 8);
  assert_memory_equal(value.at, "[1, [2]]", 8);
  assert_false(tri_json_walk_next(&w, &key, &value));
  assert_false(w.bad || tri_json_walk_next(&w, &key, &value));
  tri_text_free(&out);
}

static void other_numbers_are_none(void **state) {
  const tri_json_slice big = {"1e999", 5}, none = {0}, word = {"true", 4};
  char                 digits[80];
  const tri_json_slice endless = {digits, sizeof digits};
  int64_t              x;

  (void)state;
  memset(digits, '1', sizeof digits);
  assert_true(isnan(tri_json_number(&big)) && isnan(tri_json_number(&none)) &&
              isnan(tri_json_number(&word)) && isnan(tri_json_number(&endless)));
  assert_false(tri_json_integer(&none, &x) || tri_json_integer(&word, &x) || tri_json_integer(&endless, &x));
}

int main(void) {
  const struct CMUnitTest test[] = {
      cmocka_unit_test(what_is_json), cmocka_unit_test(no_byte_behind_the_end_is_read),
      cmocka_unit_test(depth_has_an_end), cmocka_unit_test(members_are_as_they_stand),
      cmocka_unit_test(other_numbers_are_none)};

  return cmocka_run_group_tests(test, NULL, NULL);
}
