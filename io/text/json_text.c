/* json_text.c - writes JSON strings and numbers, and bounds the memory of JSON text before it is parsed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "json_text.h"

#include "base/number.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

tri_status tri_json_put_string(tri_text *t, const char *s, size_t n) {
  json_t    *string = json_stringn(n ? s : "", n);
  char      *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
  tri_status st = TRI_OK;

  if (!text)
    TRI_FAIL_DONE(TRI_EINTERNAL, "a text of %zu bytes cannot be written as JSON: it is not valid UTF-8", n);
  TRI_TRY_DONE(tri_text_put(t, text, strlen(text)));
done:
  free(text);
  json_decref(string);
  return st;
}

tri_status tri_json_put_double(tri_text *t, double x) {
  char text[TRI_NUMBER_BYTES] = "null";

  if (isfinite(x)) tri_number_text(x, text);
  return tri_text_put(t, text, strlen(text));
}

tri_status tri_json_put_float(tri_text *t, float x) {
  char text[TRI_NUMBER_BYTES] = "null";

  if (isfinite(x)) tri_number_text_f32(x, text);
  return tri_text_put(t, text, strlen(text));
}

const char *tri_json_skip_string(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  return p < end ? p + 1 : end;
}

/* Counts the characters a and b outside of strings. */
static int64_t count(const char *p, const char *end, char a, char b) {
  int64_t n = 0;

  while (p < end) {
    n += *p == a || *p == b;
    p = *p == '"' ? tri_json_skip_string(p, end) : p + 1;
  }
  return n;
}

int64_t tri_json_count_nested(const char *s, size_t n) { return count(s, s + n, '{', '['); }

bool tri_json_fits(const char *s, size_t n, int64_t most_nested) {
  return tri_json_count_nested(s, n) <= most_nested &&
         count(s, s + n, ',', ',') <= TRI_JSON_VALUES_OF_NESTED * most_nested;
}

bool tri_json_same(const char *a, const char *b) {
  json_t *x = a ? json_loads(a, JSON_ALLOW_NUL, NULL) : NULL,
         *y = b ? json_loads(b, JSON_ALLOW_NUL, NULL) : NULL;
  bool same = (!a && !b) || (x && y && json_equal(x, y));

  json_decref(x);
  json_decref(y);
  return same;
}
