/* decimal.c - decimal numbers that fill a whole text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decimal.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool same_bytes(tri_part a, tri_part b) { return a.n == b.n && (!a.n || !memcmp(a.at, b.at, a.n)); }

static size_t count_digits(const char *s, size_t i, size_t n) {
  size_t k = 0;
  while (i + k < n && is_digit(s[i + k])) k++;
  return k;
}

/* Returns the end of the whole part that begins at i. It has digits only, or groups of three behind up to
 * three digits, with commas. */
static size_t whole_end(const char *s, size_t i, size_t n) {
  size_t k = count_digits(s, i, n);

  i += k;
  if (k < 1 || k > 3) return i;
  while (i < n && s[i] == ',' && count_digits(s, i + 1, n) == 3) i += 4;
  return i;
}

/* Tells whether s[i] is the sign of the number behind it, and not an operator or a hyphen. */
static bool is_sign(const char *s, size_t i) {
  if (s[i] != '-' && s[i] != '+') return false;
  return i == 0 || !(is_digit(s[i - 1]) || is_letter(s[i - 1]) || s[i - 1] == ')' || s[i - 1] == ']');
}

/* Reads the number that begins at i with a digit, or with a point before one. *end is its end. */
static tri_decimal decimal_read(const char *s, size_t i, size_t n, size_t *end) {
  tri_decimal d = {.negative = i > 0 && s[i - 1] == '-' && is_sign(s, i - 1)};

  *end = whole_end(s, i, n);
  d.whole = (tri_part){s + i, *end - i};
  if (*end + 1 < n && s[*end] == '.' && is_digit(s[*end + 1])) {
    d.fraction = (tri_part){s + *end + 1, count_digits(s, *end + 1, n)};
    *end += 1 + d.fraction.n;
  }
  while (d.whole.n && (*d.whole.at == '0' || *d.whole.at == ','))
    d.whole = (tri_part){d.whole.at + 1, d.whole.n - 1};
  while (d.fraction.n && d.fraction.at[d.fraction.n - 1] == '0') d.fraction.n--;
  if (!d.whole.n && !d.fraction.n) d.negative = false;
  return d;
}

bool tri_decimal_same(const tri_decimal *a, const tri_decimal *b) {
  tri_part x = a->whole, y = b->whole;

  if (a->negative != b->negative || !same_bytes(a->fraction, b->fraction)) return false;
  while (x.n && y.n) {
    if (*x.at == ',') {
      x = (tri_part){x.at + 1, x.n - 1};
    } else if (*y.at == ',') {
      y = (tri_part){y.at + 1, y.n - 1};
    } else if (*x.at != *y.at) {
      return false;
    } else {
      x = (tri_part){x.at + 1, x.n - 1};
      y = (tri_part){y.at + 1, y.n - 1};
    }
  }
  return !x.n && !y.n;
}

bool tri_decimal_whole(const char *s, size_t n, tri_decimal *out) {
  size_t begin = n && (*s == '-' || *s == '+') ? 1 : 0, end;
  bool   point = begin + 1 < n && s[begin] == '.' && is_digit(s[begin + 1]);

  if (begin == n || !(is_digit(s[begin]) || point)) return false;
  *out = decimal_read(s, begin, n, &end);
  return end == n;
}
