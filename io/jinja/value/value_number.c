/* value_number.c - converts numbers to text and text to numbers by Python's rules, and compares both kinds
 * exactly. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds one to the last digit of "d.ddde+xx". false: it is a nine. */
static bool next_up(char *text) {
  char *last = strchr(text, 'e') - 1;

  if (*last == '9') return false;
  ++*last;
  return true;
}

/* Writes the fewest digits that read back as x, as "d.ddde+xx". 15 digits always survive, and the caller
 * drops trailing zeros. Just below a power of two, doubles are twice as dense as above it. There the shortest
 * text may be the one above the nearest. */
static void shortest(double x, char out[TRI_JNUMBER_BYTES]) {
  for (int digits = fabs(x) < 0x1p-1022 ? 1 : 15; digits <= 17; digits++) {
    snprintf(out, TRI_JNUMBER_BYTES, "%.*e", digits - 1, x);
    if (strtod(out, NULL) == x) return;
    if (digits == 16 && next_up(out) && strtod(out, NULL) == x) return;
  }
}

void tri_jreal_text(double x, char out[TRI_JNUMBER_BYTES]) {
  char  text[TRI_JNUMBER_BYTES], digits[24], *at = out;
  int   n = 0, exponent;
  char *e;

  if (isnan(x)) {
    strcpy(out, "nan");
    return;
  }
  if (signbit(x)) *at++ = '-';
  x = fabs(x);
  if (isinf(x) || x == 0) {
    strcpy(at, x == 0 ? "0.0" : "inf");
    return;
  }
  shortest(x, text);
  e = strchr(text, 'e');
  exponent = atoi(e + 1);
  for (char *p = text; p < e; p++)
    if (*p != '.') digits[n++] = *p;
  while (n > 1 && digits[n - 1] == '0') n--;
  if (exponent < -4 || exponent >= 16) { /* float_repr_style short: repr uses the exponent from 1e16 */
    *at++ = digits[0];
    if (n > 1) *at++ = '.';
    for (int i = 1; i < n; i++) *at++ = digits[i];
    sprintf(at, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    return;
  }
  if (exponent < 0) {
    *at++ = '0', *at++ = '.';
    for (int i = -1; i > exponent; i--) *at++ = '0';
  }
  for (int i = 0; i < n || i <= exponent; i++) {
    if (i == exponent + 1 && exponent >= 0) *at++ = '.';
    *at++ = i < n ? digits[i] : '0';
  }
  if (exponent >= n - 1) *at++ = '.', *at++ = '0';
  *at = 0;
}

int tri_jcompare_real(int64_t i, double x) {
  int64_t whole;

  if (isnan(x)) return 2;
  if (x >= 0x1p63) return -1;
  if (x < -0x1p63) return 1;
  whole = (int64_t)x; /* toward zero */
  if (i != whole) return i < whole ? -1 : 1;
  /* Exact. Below 2^53 both are exact, and above it x has no fraction. */
  x -= (double)whole;
  return x > 0 ? -1 : x < 0 ? 1 : 0;
}

tri_status tri_jwhole_of_real(double x, int64_t *out) {
  if (isnan(x)) TRI_FAIL(TRI_EINPUT, "cannot convert float NaN to integer");
  if (isinf(x)) TRI_FAIL(TRI_EINPUT, "cannot convert float infinity to integer");
  if (!(x >= -0x1p63 && x < 0x1p63))
    TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: %.17g", x);
  *out = (int64_t)x;
  return TRI_OK;
}

/* Copies text to `out` without white space around it, with decimal digits of any script as ASCII. An
 * underscore between two digits is dropped. false: the text is longer than any number here, or has other
 * characters. */
static bool plain_number(tri_jvalue text, char *out, size_t cap) {
  const char *s = text.as.text.s, *end = s + text.as.text.n;
  size_t      bytes, n = 0;
  bool        gap = false, any = false;

  while (s < end && tri_jchar_is(tri_jpoint_read(s, &bytes), TRI_JC_SPACE)) s += bytes;
  for (const char *p = s; p < end; p += bytes)
    if (!tri_jchar_is(tri_jpoint_read(p, &bytes), TRI_JC_SPACE)) gap = false;
  for (bool spaces = true; spaces && end > s;) {
    const char *p = end - 1;
    while (p > s && ((unsigned char)*p & 0xc0) == 0x80) p--;
    spaces = tri_jchar_is(tri_jpoint_read(p, &bytes), TRI_JC_SPACE);
    if (spaces) end = p;
  }
  for (bool digit = false; s < end; s += bytes) {
    int32_t c = tri_jpoint_read(s, &bytes);
    int     value = tri_jdecimal_value(c);
    if (c == '_') {
      if (!digit || gap) return false;
      gap = true;
      continue;
    }
    if (value >= 0) c = '0' + value;
    if (c >= 128 || n + 1 >= cap) return false;
    digit = value >= 0 || (c | 32) >= 'a';
    if (gap && !digit) return false;
    gap = false;
    any = true;
    out[n++] = (char)c;
  }
  out[n] = 0;
  return any && !gap;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c | 32) >= 'a' && (c | 32) <= 'z') return (c | 32) - 'a' + 10;
  return 99;
}

tri_status tri_jparse_whole(tri_jvalue text, int64_t base, int64_t *out, bool *found) {
  char        number[512]; /* Python reads up to 4,300 digits, but beyond 19 all are refused here */
  const char *p = number;
  bool        negative = false, prefix = false, zeros = true;
  uint64_t    x = 0;

  *found = false;
  if (base != 0 && (base < 2 || base > 36)) TRI_FAIL(TRI_EINPUT, "int() base must be >= 2 and <= 36, or 0");
  if (!plain_number(text, number, sizeof number)) return TRI_OK;
  if (*p == '+' || *p == '-') negative = *p++ == '-';
  if (p[0] == '0' && p[1]) {
    int64_t of = (p[1] | 32) == 'x' ? 16 : (p[1] | 32) == 'o' ? 8 : (p[1] | 32) == 'b' ? 2 : 0;
    if (of && (base == of || base == 0)) base = of, p += 2, prefix = true;
  }
  if (base == 0) {
    for (const char *q = p; *q; q++) zeros = zeros && *q == '0';
    if (*p == '0' && !zeros && !prefix) return TRI_OK; /* "010" is no number in base 0 */
    base = 10;
  }
  if (!*p) return TRI_OK;
  for (const char *q = p; *q; q++)
    if (digit_of(*q) >= base) return TRI_OK;
  for (; *p; p++) {
    if (x > (UINT64_MAX - 35) / 36 && __builtin_mul_overflow(x, (uint64_t)base, &x))
      TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: %s", number);
    else if (x <= (UINT64_MAX - 35) / 36)
      x *= (uint64_t)base;
    if (__builtin_add_overflow(x, (uint64_t)digit_of(*p), &x))
      TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: %s", number);
  }
  if (x > (uint64_t)INT64_MAX + negative)
    TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: %s", number);
  *out = negative ? (int64_t)(0 - x) : (int64_t)x;
  *found = true;
  return TRI_OK;
}

/* Says if text is a decimal number for float(), not hexadecimal and not nan(...). */
static bool is_decimal(const char *p) {
  int digits = 0;

  if (*p == '+' || *p == '-') p++;
  if (!strcasecmp(p, "nan") || !strcasecmp(p, "inf") || !strcasecmp(p, "infinity")) return true;
  while (*p >= '0' && *p <= '9') p++, digits++;
  if (*p == '.')
    for (p++; *p >= '0' && *p <= '9'; p++) digits++;
  if (!digits) return false;
  if ((*p | 32) == 'e') {
    p++;
    if (*p == '+' || *p == '-') p++;
    if (*p < '0' || *p > '9') return false;
    while (*p >= '0' && *p <= '9') p++;
  }
  return *p == 0;
}

bool tri_jparse_real(tri_jvalue text, double *out) {
  char number[512]; /* nobody writes longer numbers */

  if (!plain_number(text, number, sizeof number) || !is_decimal(number)) return false;
  *out = strtod(number, NULL);
  return true;
}
