/* test_tokenizer_places.c - the places of tokens in a text. Judge: golden, exact, from the library. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_case.h"

#include <stdlib.h>
#include <string.h>

/* Counts the characters that begin before byte n. */
static json_int_t chars_before(const char *s, size_t n) {
  json_int_t k = 0;

  for (size_t i = 0; i < n; i++) k += ((uint8_t)s[i] & 0xc0) != 0x80;
  return k;
}

static tri_tokenizer *open_with_steps(const json_t *kind) {
  char           file[64];
  const char    *name = json_string_value(json_object_get(kind, "base"));
  json_t        *spec;
  tri_tokenizer *t;

  snprintf(file, sizeof file, "%s.json", name);
  spec = load_json(file);
  assert_int_equal(json_object_update(spec, json_object_get(kind, "steps")), 0);
  char *text = json_dumps(spec, 0);
  ok(tri_tokenizer_open_text(name, text, strlen(text), &t));
  free(text);
  json_decref(spec);
  return t;
}

/* Compares the characters covered by each place. `want` has the begin and end of each token. null: the
 * library's places are narrower. 0: there are none. */
static void check_places(const char *name, size_t row, const char *text, const tri_text_place *got, int64_t n,
                         int64_t n_ids, const json_t *want) {
  if (n != (json_is_integer(want) ? 0 : n_ids))
    fail_msg("%s, text %zu: %lld places of %lld ids", name, row, (long long)n, (long long)n_ids);
  if (!json_is_array(want)) return;
  assert_int_equal(2 * n, json_array_size(want));
  for (int64_t i = 0; i < n; i++) {
    json_int_t begin = json_integer_value(json_array_get(want, 2 * (size_t)i)),
               end = json_integer_value(json_array_get(want, 2 * (size_t)i + 1)),
               b = chars_before(text, got[i].begin), e = chars_before(text, got[i].end);
    b -= (text[got[i].begin] & 0xc0) == 0x80; /* inside a character */
    if (b != begin || e != end)
      fail_msg("%s, text %zu: token %lld stands at %lld .. %lld, not %lld .. %lld", name, row, (long long)i,
               (long long)b, (long long)e, (long long)begin, (long long)end);
  }
}

static void test_places(void **state) {
  json_t *root = load_json("places.json"), *texts = json_object_get(root, "texts"), *kind, *text;
  size_t  i, k;

  (void)state;
  json_array_foreach(json_object_get(root, "kinds"), k, kind) {
    const char      *name = json_string_value(json_object_get(kind, "name"));
    tri_tokenizer   *t = open_with_steps(kind);
    tri_tokens       ids = {0};
    tri_token_places places = {0};
    json_array_foreach(texts, i, text) {
      ids.n = 0;
      ok(tri_tokenizer_encode_places(t, json_string_value(text), json_string_length(text), &ids, &places));
      check_ids(name, i, json_array_get(json_object_get(kind, "ids"), i), &ids);
      check_places(name, i, json_string_value(text), places.at, places.n, ids.n,
                   json_array_get(json_object_get(kind, "places"), i));
    }
    ids.n = 0; /* U+FFFD replaces invalid UTF-8, so there are no places */
    ok(tri_tokenizer_encode_places(t, "a\xff\xff", 3, &ids, &places));
    assert_int_equal(places.n, 0);
    tri_tokens_free(&ids);
    tri_token_places_free(&places);
    tri_tokenizer_close(&t);
  }
  json_decref(root);
  assert_int_equal(tri_host_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_places)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
