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

/* The rows end with NULL. YAML 1.2.2, 10.3.2. */
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

/* Refuses a value that other readers of YAML take for another one than this does: text here, a truth value of
 * YAML 1.1 there; a real number here, a longer integer there. */
static tri_status check_plain(const tri_deck_entry *e) {
  static const char *const truth[] = {"yes", "Yes", "YES", "no",  "No",  "NO", "on",
                                      "On",  "ON",  "off", "Off", "OFF", NULL};
  const char              *digits = e->value + (*e->value == '-' || *e->value == '+');
  long long                whole;

  if (!e->unquoted) return TRI_OK;
  if (is_one_of(e->value, truth))
    TRI_FAIL(TRI_ECONFIG,
             "%s: %s: '%s' = %s may mean a truth value or a text: write true or false, or \"%s\"", e->where,
             e->key, e->field, e->value, e->value);
  if (*digits && !digits[strspn(digits, "0123456789")] && !is_whole(e->value, &whole))
    TRI_FAIL(TRI_ECONFIG, "%s: %s: '%s' = %.40s is beyond 64 bits: give a smaller number, or \"text\"",
             e->where, e->key, e->field, e->value);
  return TRI_OK;
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
