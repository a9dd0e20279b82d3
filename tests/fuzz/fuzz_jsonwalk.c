/* fuzz_jsonwalk.c - JSON read in place (io/text/json_walk.c). The input is the text.
 *
 * The walk and jansson must accept the same texts. Exceptions are numbers and depths beyond jansson's limits,
 * and halves of surrogate pairs. If no key occurs twice, both must find the same members. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <math.h>

#include "fuzz_case.h"
#include "io/text/json_walk.h"

FUZZ_QUIET_START

/* Reasons for which jansson alone refuses a text. */
static bool is_its_own(const char *why) {
  return strstr(why, "too big") || strstr(why, "overflow") || strstr(why, "invalid Unicode") ||
         strstr(why, "depth") || strstr(why, "NUL byte in object key");
}

static void check_value(const tri_json_slice *value, const json_t *want) {
  tri_text said = {0};
  int64_t  x;

  FUZZ_CHECK(tri_json_is_string(value) == json_is_string(want));
  if (json_is_string(want)) {
    FUZZ_CHECK(tri_json_put_said(value, &said) == TRI_OK);
    FUZZ_CHECK(said.len == json_string_length(want) &&
               fuzz_same(said.data, json_string_value(want), said.len));
  }
  if (value->n < 60) {
    FUZZ_CHECK(isnan(tri_json_number(value)) || tri_json_number(value) == json_number_value(want));
    FUZZ_CHECK(isnan(tri_json_number(value)) == !json_is_number(want));
    FUZZ_CHECK(tri_json_integer(value, &x) == json_is_integer(want));
    FUZZ_CHECK(!json_is_integer(want) || x == json_integer_value(want));
  }
  tri_text_free(&said);
}

static void check_members(const char *text, size_t n, const json_t *want) {
  tri_json_walk  w;
  tri_json_slice key, value;
  tri_text       name = {0};

  FUZZ_CHECK(tri_json_walk_begin(text, n, &w));
  for (size_t i = 0; tri_json_walk_next(&w, &key, &value); i++) {
    FUZZ_CHECK(value.at >= text && value.n && value.at + value.n <= text + n);
    if (json_is_object(want)) {
      name.len = 0;
      FUZZ_CHECK(tri_json_put_said(&key, &name) == TRI_OK);
      check_value(&value, json_object_get(want, name.len ? name.data : ""));
      FUZZ_CHECK(tri_json_is_key(&key, name.len ? name.data : "") == !memchr(key.at, '\\', key.n));
    } else {
      check_value(&value, json_array_get(want, i));
    }
  }
  tri_text_free(&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  const char    *text = (const char *)data;
  tri_json_walk  w;
  tri_json_slice key, value;
  json_error_t   error;
  json_t        *want;
  size_t         members = 0;
  bool           good;

  if (n == 0 || n > 1 << 14) return -1;
  fuzz_begin();
  good = tri_json_walk_begin(text, n, &w);
  while (good && tri_json_walk_next(&w, &key, &value)) members++;
  good = good && !w.bad;
  FUZZ_CHECK(!good || !memchr(text, 0, n));
  if (memchr(text, 0, n)) return fuzz_end(), 0; /* jansson skips a NUL between values */
  want = json_loadb(text, n, JSON_ALLOW_NUL, &error);
  FUZZ_CHECK(good == (want != NULL) || (good && is_its_own(error.text)));
  if (want && (json_is_array(want) || json_object_size(want) == members)) check_members(text, n, want);
  json_decref(want);
  fuzz_end();
  return 0;
}
