/* deck_json.c - writes a mapping of a deck as a JSON object. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "deck.h"

#include "json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* YAML 1.2.2, section 10.3.2: [-+]? [0-9]+, in 64 bits. */
static bool is_whole(const char *value, long long *out) {
  const char *digits = value + (*value == '-' || *value == '+');

  if (!*digits || digits[strspn(digits, "0123456789")]) return false;
  errno = 0;
  *out = strtoll(value, NULL, 10);
  return errno == 0;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?, or .inf or .nan. */
static bool reads_as_real(const char *value) {
  const char *s = value + (*value == '-' || *value == '+');
  size_t      whole = strspn(s, "0123456789"), part = 0, power;

  if (!strcasecmp(s, ".inf") || !strcasecmp(value, ".nan")) return true;
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
  return !*s;
}

static bool is_real(const char *value, double *out) {
  *out = strtod(value, NULL);
  return reads_as_real(value) && isfinite(*out) && strcasecmp(value, ".nan") != 0 && !strpbrk(value, "fF");
}

/* Writes a number so that it is read as a real number again. */
static tri_status put_real(double x, tri_text *out) {
  size_t begin = out->len;

  TRI_TRY(tri_json_put_double(out, x));
  return strpbrk(out->data + begin, ".eE") ? TRI_OK : tri_text_put(out, ".0", 2);
}

/* YAML 1.2.2, section 10.3.2. The rows end with NULL. */
static const char *const words[][5] = {
    {"true", "True", "TRUE"}, {"false", "False", "FALSE"}, {"null", "Null", "NULL", "~"}};

static bool is_one_of(const char *value, const char *const *word) {
  while (*word && strcmp(*word, value) != 0) word++;
  return *word;
}

tri_status tri_deck_put_scalar(const char *value, bool unquoted, tri_text *out) {
  long long whole;
  double    x;

  for (size_t i = 0; unquoted && i < sizeof words / sizeof *words; i++)
    if (is_one_of(value, words[i])) return tri_text_put(out, words[i][0], strlen(words[i][0]));
  if (unquoted && is_whole(value, &whole)) return tri_text_printf(out, "%lld", whole);
  if (unquoted && is_real(value, &x)) return put_real(x, out);
  return tri_json_put_string(out, value, strlen(value));
}

tri_status tri_deck_check_scalar(const char *value, const char *place) {
  static const char *const truth[] = {"yes", "Yes", "YES", "no",  "No",  "NO", "on",
                                      "On",  "ON",  "off", "Off", "OFF", NULL};
  const char              *digits = value + (*value == '-' || *value == '+');
  long long                whole;
  double                   x;

  if (is_one_of(value, truth))
    TRI_FAIL(TRI_ECONFIG, "%s = %s may mean a boolean or a text. Write true or false, or \"%s\"", place,
             value, value);
  if (*digits && !digits[strspn(digits, "0123456789")] && !is_whole(value, &whole))
    TRI_FAIL(TRI_ECONFIG, "%s = %.40s does not fit in 64 bits. Give a smaller number, or quote it", place,
             value);
  if (reads_as_real(value) && !is_real(value, &x))
    TRI_FAIL(TRI_ECONFIG, "%s = %.40s is not a finite 64-bit number. Give another one, or quote it", place,
             value);
  return TRI_OK;
}

static tri_status check_plain(const tri_deck_entry *e) {
  tri_text   place = {0};
  tri_status st = TRI_OK;

  if (!e->unquoted) return TRI_OK;
  TRI_TRY_DONE(tri_text_printf(&place, "%s: %s: '%s'", e->where, e->key, e->field));
  st = tri_deck_check_scalar(e->value, place.data);
done:
  tri_text_free(&place);
  return st;
}

tri_status tri_deck_put_json(const tri_deck *d, int first, int n, tri_text *out) {
  TRI_TRY(tri_text_put(out, "{", 1));
  for (int i = first; i < first + n; i++) {
    const tri_deck_entry *e = tri_deck_at(d, i);
    if (!e->field[0]) continue;
    for (int k = first; k < i; k++)
      if (!strcmp(tri_deck_at(d, k)->field, e->field))
        TRI_FAIL(TRI_ECONFIG, "%s: '%s' is given twice in %s", e->where, e->field, e->key);
    TRI_TRY(check_plain(e));
    if (i > first) TRI_TRY(tri_text_put(out, ", ", 2));
    TRI_TRY(tri_json_put_string(out, e->field, strlen(e->field)));
    TRI_TRY(tri_text_put(out, ": ", 2));
    TRI_TRY(tri_deck_put_scalar(e->value, e->unquoted, out));
  }
  return tri_text_put(out, "}", 1);
}
