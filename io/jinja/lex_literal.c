/* lex_literal.c - reads number and string literals as Python does. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/jinja/lex.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* (\d+_)*\d+ */
static size_t digits_length(const char *s, size_t n) {
  size_t i = 0;

  while (i < n &&
         (is_digit(s[i]) || (i && s[i] == '_' && s[i - 1] != '_' && i + 1 < n && is_digit(s[i + 1]))))
    i++;
  return i;
}

/* e[+\-]?(\d+_)*\d+ */
static size_t exponent_length(const char *s, size_t n) {
  size_t i = 1, digits;

  if (!n || (s[0] != 'e' && s[0] != 'E')) return 0;
  if (i < n && (s[i] == '+' || s[i] == '-')) i++;
  digits = digits_length(s + i, n - i);
  return digits ? i + digits : 0;
}

size_t tri_jlex_float_length(const char *s, size_t n) {
  size_t whole = digits_length(s, n), part = 0, power;

  if (!whole) return 0;
  if (whole < n && s[whole] == '.') part = digits_length(s + whole + 1, n - whole - 1);
  if (part) part++;
  power = exponent_length(s + whole + part, n - whole - part);
  return part || power ? whole + part + power : 0;
}

/* (_?[digit])* for the digits of a base. */
static size_t based_length(const char *s, size_t n, int base) {
  size_t i = 0;

  for (;;) {
    size_t next = i < n && s[i] == '_' ? i + 1 : i;
    if (next >= n || digit_of(s[next]) >= base) return i;
    i = next + 1;
  }
}

static int base_of(const char *s, size_t n) {
  if (n < 3 || s[0] != '0') return 10;
  switch (s[1] | 0x20) {
  case 'b':
    return 2;
  case 'o':
    return 8;
  case 'x':
    return 16;
  default:
    return 10;
  }
}

size_t tri_jlex_integer_length(const char *s, size_t n) {
  int    base = base_of(s, n);
  size_t more;

  if (!n || !is_digit(s[0])) return 0;
  if (base != 10 && (more = based_length(s + 2, n - 2, base)) > 0) return 2 + more;
  return 1 + based_length(s + 1, n - 1, s[0] == '0' ? 1 : 10);
}

static tri_status read_integer(int line, const char *s, size_t n, tri_jvalue *out) {
  int     base = base_of(s, n);
  int64_t x = 0;

  for (size_t i = base == 10 ? 0 : 2; i < n; i++)
    if (s[i] != '_' && (__builtin_mul_overflow(x, base, &x) || __builtin_add_overflow(x, digit_of(s[i]), &x)))
      TRI_JFAIL(line, "the number %.*s has more than 64 bits", n > 80 ? 80 : (int)n, s);
  *out = tri_jint(x);
  return TRI_OK;
}

tri_status tri_jlex_number(int line, const char *s, size_t n, bool real, tri_jvalue *out) {
  char   digits[512];
  size_t used = 0;

  if (!real) return read_integer(line, s, n, out);
  for (size_t i = 0; i < n; i++) {
    if (s[i] == '_') continue;
    if (used + 1 == sizeof digits) TRI_JFAIL(line, "the number %.40s... has more than 500 digits", s);
    digits[used++] = s[i];
  }
  digits[used] = 0;
  *out = tri_jfloat(strtod(digits, NULL));
  return TRI_OK;
}

/* ---- strings ---- */

static tri_status put_character(tri_jtree *t, tri_text *out, uint32_t c) {
  char   b[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

  if (n == 1) b[0] = (char)c;
  for (size_t i = n; n > 1 && i-- > 1; c >>= 6) b[i] = (char)(0x80 | (c & 0x3F));
  if (n > 1) b[0] = (char)((0xF00 >> n & 0xFF) | c);
  return tri_jput(&t->arena, out, b, n);
}

/* Reads \xHH, \uHHHH or \UHHHHHHHH. s begins after the letter. */
static tri_status put_hex(tri_jtree *t, int line, char letter, const char *s, size_t n, size_t want,
                          tri_text *out) {
  uint32_t c = 0;

  for (size_t i = 0; i < want; i++) {
    if (i >= n || digit_of(s[i]) >= 16)
      TRI_JFAIL(line, "truncated \\%c%s escape in a string", letter,
                letter == 'x'   ? "XX"
                : letter == 'u' ? "XXXX"
                                : "XXXXXXXX");
    c = 16 * c + (uint32_t)digit_of(s[i]);
  }
  if (c > 0x10FFFF) TRI_JFAIL(line, "illegal Unicode character in a string");
  if (c >= 0xD800 && c < 0xE000)
    TRI_JFAIL(line, "\\u%04X in a string is half a character. Write \\U and eight digits", (unsigned)c);
  return put_character(t, out, c);
}

/* Handles a backslash before a character beyond ASCII. Jinja spells such a character as an escape before it
 * reads escapes (lexer.py, wrap). So the backslash is literal and letters and digits follow it. */
static tri_status put_spelled(tri_jtree *t, const char *s, size_t n, size_t *used, tri_text *out) {
  unsigned char first = (unsigned char)s[0];
  size_t        more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  uint32_t      c = first & (0x3Fu >> more);
  char         *text;

  if (more >= n) more = n - 1; /* never happens, the template is UTF-8 */
  for (size_t i = 1; i <= more; i++) c = c << 6 | ((unsigned char)s[i] & 0x3F);
  *used = 1 + more;
  TRI_TRY(tri_jtree_text(t, &text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c));
  return tri_jput(&t->arena, out, text, strlen(text));
}

/* Reads the escape after a backslash, s [n] with n > 0. */
static tri_status put_escape(tri_jtree *t, int line, const char *s, size_t n, size_t *used, tri_text *out) {
  static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
  const char       *known = memchr(from, s[0], sizeof from - 1);
  uint32_t          c = 0;

  *used = 1;
  if (s[0] == '\n') return TRI_OK;
  if (known) return tri_jput(&t->arena, out, &to[known - from], 1);
  if (s[0] == 'x' || s[0] == 'u' || s[0] == 'U') {
    *used = s[0] == 'x' ? 3 : s[0] == 'u' ? 5 : 9;
    return put_hex(t, line, s[0], s + 1, n - 1, *used - 1, out);
  }
  if (s[0] == 'N') TRI_JFAIL(line, "\\N{...} in a string is not supported. Write the character itself");
  if (s[0] >= '0' && s[0] <= '7') {
    for (*used = 0; *used < 3 && *used < n && s[*used] >= '0' && s[*used] <= '7'; ++*used)
      c = 8 * c + (uint32_t)(s[*used] - '0');
    return put_character(t, out, c);
  }
  if ((unsigned char)s[0] >= 0x80) return put_spelled(t, s, n, used, out);
  TRI_TRY(tri_jput(&t->arena, out, "\\", 1));
  return tri_jput(&t->arena, out, s, 1);
}

tri_status tri_jlex_string(tri_jtree *t, int line, const char *s, size_t n, tri_jvalue *out) {
  tri_text    text = {0};
  tri_status  st = TRI_OK;
  const char *end = s + n;

  if (!memchr(s, '\\', n)) {
    *out = tri_jtext(s, n); /* the template's bytes live as long as the tree */
    return TRI_OK;
  }
  while (s < end) {
    const char *stop = memchr(s, '\\', (size_t)(end - s));
    size_t      plain = (size_t)((stop ? stop : end) - s), used = 0;
    TRI_TRY_DONE(tri_jput(&t->arena, &text, s, plain));
    s += plain;
    if (!stop) break;
    TRI_TRY_DONE(put_escape(t, line, s + 1, (size_t)(end - s) - 1, &used, &text));
    s += 1 + used;
  }
  TRI_TRY_DONE(tri_jtext_copy(&t->arena, text.len ? text.data : "", text.len, out));
done:
  tri_text_free(&text);
  return st;
}
