/* json_odd.c - finds JSON values that Python's json writes but jansson cannot hold. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "json_odd.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "json_text.h"
#include "json_walk.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns the length of a word of Python's json at p. 0: none. */
static size_t odd_word(const char *p, const char *end) {
  static const char *const word[] = {"NaN", "Infinity", "-Infinity"};

  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    size_t n = strlen(word[i]);
    if ((size_t)(end - p) >= n && !memcmp(p, word[i], n))
      return p + n < end && (isalnum((unsigned char)p[n]) || p[n] == '_') ? 0 : n;
  }
  return 0;
}

/* Says if the number p .. end - 1 does not fit: an integer in 64 bits, a real number in a double. The text
 * after it stops strtod and strtoll. */
static bool is_odd_number(const char *p, const char *end) {
  bool whole = true;

  for (const char *c = p; c < end; c++) whole &= *c == '-' || is_digit(*c);
  errno = 0;
  if (!whole) return isinf(strtod(p, NULL));
  return (void)strtoll(p, NULL, 10), errno == ERANGE;
}

/* ---- strings ---- */

/* Returns the four hexadecimal digits of an escape as a number. -1: there are none. */
static long unit_at(const char *p, const char *end) {
  char digits[5] = {0};

  if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return -1;
  memcpy(digits, p + 2, 4);
  for (int i = 0; i < 4; i++)
    if (!isxdigit((unsigned char)digits[i])) return -1;
  return strtol(digits, NULL, 16);
}

static bool is_high(long unit) { return unit >= 0xD800 && unit < 0xDC00; }
static bool is_low(long unit) { return unit >= 0xDC00 && unit < 0xE000; }

/* Finds the next half of a surrogate pair, or U+0000 in a key, in p .. end - 1. NULL: none. */
static char *find_bad_escape(char *p, const char *end, bool key) {
  while (p < end) {
    long unit = unit_at(p, end);
    if (is_high(unit) && is_low(unit_at(p + 6, end)))
      p += 12;
    else if (is_high(unit) || is_low(unit) || (key && unit == 0))
      return p;
    else
      p += *p == '\\' ? 2 : 1;
  }
  return NULL;
}

static bool is_key(const char *behind, const char *end) {
  while (behind < end && strchr(" \t\r\n", *behind)) behind++;
  return behind < end && *behind == ':';
}

/* ---- the text ---- */

static tri_status note_odd(size_t at, size_t n, tri_json_odds *found) {
  TRI_TRY(TRI_GROW(found->odd, found->cap, found->n + 1));
  found->odd[found->n++] = (tri_json_odd){at, n};
  return TRI_OK;
}

static tri_status put_odd(char *text, size_t at, size_t n, tri_json_odds *found) {
  TRI_TRY(note_odd(at, n, found));
  memset(text + at, ' ', n);
  text[at] = '{';
  text[at + n - 1] = '}';
  return TRI_OK;
}

static tri_status replace_string(char *text, char *p, char *behind, const char *end, tri_json_odds *found,
                                 bool *changed) {
  bool  key = is_key(behind, end);
  char *bad = find_bad_escape(p + 1, behind - 1, key);

  if (!bad) return TRI_OK;
  *changed = true;
  if (!key) return put_odd(text, (size_t)(p - text), (size_t)(behind - p), found);
  for (; bad; bad = find_bad_escape(bad, behind - 1, true)) memcpy(bad, "\\ufffd", 6);
  return note_odd((size_t)(p - text), (size_t)(behind - p), found);
}

static size_t count_digits(const char *p, const char *end) {
  size_t n = 0;

  while (p + n < end && is_digit(p[n])) n++;
  return n;
}

tri_status tri_json_replace_odd(char *text, size_t n, tri_json_odds *found, bool *changed) {
  const char *end = text + n;

  found->n = 0;
  *changed = false;
  for (char *p = text; p < end;) {
    if (*p == '"') {
      char *behind = text + (tri_json_skip_string(p, end) - text);
      if (behind[-1] == '"' && behind > p + 1) TRI_TRY(replace_string(text, p, behind, end, found, changed));
      p = behind;
      continue;
    }
    size_t      odd = odd_word(p, end);
    const char *number = tri_json_skip_number(p, end);
    if (!odd && number && is_odd_number(p, number)) odd = (size_t)(number - p);
    if (odd) TRI_TRY(put_odd(text, (size_t)(p - text), odd, found));
    *changed |= odd > 0;
    p += odd ? odd : number ? (size_t)(number - p) : 1 + (is_digit(*p) ? count_digits(p + 1, end) : 0);
  }
  return TRI_OK;
}

const char *tri_json_odd_cure(const char *value, size_t n) {
  if (*value == '"')
    return "holds half of a surrogate pair (\\ud800 to \\udfff), or is a key with U+0000. Write a whole "
           "character, or U+FFFD";
  if (memchr(value, 'N', n) || memchr(value, 'I', n))
    return "is not a finite number. Give a finite one or null, or leave it out";
  return "does not fit in 64 bits. Give a smaller number, or write it as text";
}
