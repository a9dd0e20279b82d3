/* json_text.c - JSON strings and numbers written into a text. */
#include "io/json_text.h"

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

static tri_status put_number(tri_text *t, double x, int digits) {
  if (!isfinite(x)) return tri_text_put(t, "null", 4);
  if (x == 0 && signbit(x)) return tri_text_put(t, "-0.0", 4); /* as an integer it would lose its sign */
  if (fabs(x) < 0x1p53 && x == floor(x)) return tri_text_printf(t, "%.0f", x);
  return tri_text_printf(t, "%.*g", digits, x);
}

/* 17 and 9 digits tell all doubles and all floats apart (C11, 5.2.4.2.2: 1 + p log10 2, rounded up). */
tri_status tri_json_put_double(tri_text *t, double x) { return put_number(t, x, 17); }
tri_status tri_json_put_float(tri_text *t, float x) { return put_number(t, (double)x, 9); }
