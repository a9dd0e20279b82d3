/* deck_json.c - a mapping of a deck as a JSON object. */
#include "deck.h"

#include "json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* YAML 1.2.2, 10.3.2: [-+]? [0-9]+, of 64 bits. */
static bool is_whole(const char *value, long long *out) {
  const char *digits = value + (*value == '-' || *value == '+');

  if (!*digits || digits[strspn(digits, "0123456789")]) return false;
  errno = 0;
  *out = strtoll(value, NULL, 10);
  return errno == 0;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_real(const char *value, double *out) {
  const char *s = value + (*value == '-' || *value == '+');
  size_t      whole = strspn(s, "0123456789"), part = 0, power;

  s += whole;
  if (*s == '.') {
    part = strspn(++s, "0123456789");
    s += part;
  }
  if (!whole && !part) return false;
  if (*s == 'e' || *s == 'E') {
    s++;
    s += *s == '-' || *s == '+';
    power = strspn(s, "0123456789");
    if (!power) return false;
    s += power;
  }
  *out = strtod(value, NULL);
  return !*s && isfinite(*out);
}

/* One that stays a real number when it is read. */
static tri_status put_real(double x, tri_text *out) {
  size_t begin = out->len;

  TRI_TRY(tri_json_put_double(out, x));
  return strpbrk(out->data + begin, ".eE") ? TRI_OK : tri_text_put(out, ".0", 2);
}

tri_status tri_deck_put_scalar(const char *value, bool unquoted, tri_text *out) {
  long long whole;
  double    x;

  if (unquoted && (!strcmp(value, "true") || !strcmp(value, "false") || !strcmp(value, "null")))
    return tri_text_put(out, value, strlen(value));
  if (unquoted && is_whole(value, &whole)) return tri_text_printf(out, "%lld", whole);
  if (unquoted && is_real(value, &x)) return put_real(x, out);
  return tri_json_put_string(out, value, strlen(value));
}

tri_status tri_deck_put_json(const tri_deck *d, int first, int n, tri_text *out) {
  TRI_TRY(tri_text_put(out, "{", 1));
  for (int i = first; i < first + n; i++) {
    const tri_deck_entry *e = tri_deck_at(d, i);
    if (!e->field[0]) continue;
    for (int k = first; k < i; k++)
      if (!strcmp(tri_deck_at(d, k)->field, e->field))
        TRI_FAIL(TRI_ECONFIG, "%s: '%s' is given twice in %s", e->where, e->field, e->key);
    if (i > first) TRI_TRY(tri_text_put(out, ", ", 2));
    TRI_TRY(tri_json_put_string(out, e->field, strlen(e->field)));
    TRI_TRY(tri_text_put(out, ": ", 2));
    TRI_TRY(tri_deck_put_scalar(e->value, e->unquoted, out));
  }
  return tri_text_put(out, "}", 1);
}
