/* text_number.c - finds the first and the last number in prose and compares numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "text_number.h"

#include "tex_lex.h"
#include "text_formula.h"

#include <math.h>
#include <string.h>

/* Chosen: digits of an exponent, and bytes of an argument of \frac. Larger numbers are not answers. The
 * second bounds the search for closing braces, which a text of \frac{\frac{\frac{ starts at each of them. */
enum { EXPONENT_DIGITS = 4, ARGUMENT_BYTES = 1024 };

/* A position in a text. `tail` is the end of the last part of a formula, or NULL. */
typedef struct cursor {
  const char *begin, *at, *end, *tail;
} cursor;

/* A value while it is read. */
typedef struct amount {
  tri_residue at[TRI_FIELDS];
  double      estimate;
} amount;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static size_t starts(const char *s, const char *end, const char *what) {
  size_t n = strlen(what);

  return (size_t)(end - s) >= n && !memcmp(s, what, n) ? n : 0;
}

static bool ends(const char *begin, const char *s, const char *what) {
  size_t n = strlen(what);

  return (size_t)(s - begin) >= n && !memcmp(s - n, what, n);
}

static size_t count_digits(const char *s, const char *end) {
  size_t n = 0;

  while (s + n < end && is_digit(s[n])) n++;
  return n;
}

/* Returns the bytes of the first string of the list that is found at s, else 0. */
static size_t any_of(const char *const *list, size_t count, const char *s, const char *end) {
  for (size_t i = 0; i < count; i++)
    if (starts(s, end, list[i])) return strlen(list[i]);
  return 0;
}
#define ANY_OF(list, s, end) any_of(list, sizeof(list) / sizeof *(list), s, end)

/* ---- arithmetic ---- */

static amount from_decimal(tri_part digits) {
  amount x = {.estimate = tri_float_decimal(digits, (tri_part){0})};

  for (int k = 0; k < TRI_FIELDS; k++) x.at[k] = tri_field_decimal(k, digits, (tri_part){0});
  return x;
}

static amount plus(amount a, amount b) {
  a.estimate += b.estimate;
  for (int k = 0; k < TRI_FIELDS; k++) a.at[k] = tri_field_add(k, a.at[k], b.at[k]);
  return a;
}

static amount minus(amount a) {
  a.estimate = -a.estimate;
  for (int k = 0; k < TRI_FIELDS; k++) a.at[k] = tri_field_negate(k, a.at[k]);
  return a;
}

static amount times(amount a, amount b) {
  a.estimate *= b.estimate;
  for (int k = 0; k < TRI_FIELDS; k++) a.at[k] = tri_field_multiply(k, a.at[k], b.at[k]);
  return a;
}

static bool divide(amount *a, amount b) {
  for (int k = 0; k < TRI_FIELDS; k++)
    if (!tri_field_invert(k, b.at[k], &b.at[k])) return false;
  b.estimate = 1 / b.estimate;
  *a = times(*a, b);
  return true;
}

static bool raise(amount *a, int64_t n) {
  amount base = *a, one = from_decimal((tri_part){"1", 1});

  a->estimate = pow(a->estimate, (double)(n < 0 ? -n : n));
  for (int k = 0; k < TRI_FIELDS; k++) a->at[k] = tri_field_power(k, base.at[k], (uint64_t)(n < 0 ? -n : n));
  if (n >= 0) return true;
  base = *a;
  *a = one;
  return divide(a, base);
}

/* ---- digits ---- */

static const char *const minus_sign[] = {"-",
                                         "\xe2\x88\x92",  /* U+2212 minus */
                                         "\xe2\x80\x90",  /* U+2010 hyphen */
                                         "\xe2\x80\x91",  /* U+2011 hyphen that does not break */
                                         "\xe2\x80\x92",  /* U+2012 figure dash */
                                         "\xe2\x80\x93",  /* U+2013 en dash */
                                         "\xef\xb9\xa3",  /* U+FE63 */
                                         "\xef\xbc\x8d"}; /* U+FF0D */

/* The marks allowed between two groups of three digits. */
static const char *const group_mark[] = {",\\!",         "\\!,", "{,}",          ",",
                                         "\\,",          "\\!",  "\xe2\x80\x89", /* U+2009 thin space */
                                         "\xe2\x80\xaf",                         /* U+202F narrow space */
                                         "\xe2\x80\x87",                         /* U+2007 figure space */
                                         "\xc2\xa0",     " "};                   /* U+00A0 no-break space */

/* Returns the end of digits, or of groups of three behind up to three digits. *broken is set if two groups do
 * not fit. */
static const char *whole_end(const char *s, const char *end, bool *broken) {
  size_t n = count_digits(s, end), mark;
  bool   groups = n >= 1 && n <= 3 && *s != '0';

  for (s += n;; s += mark + 3) {
    mark = ANY_OF(group_mark, s, end);
    if (!mark || s + mark >= end || !is_digit(s[mark])) return s;
    if (groups && count_digits(s + mark, end) == 3) continue;
    *broken = *broken || *s == ',' || *s == '{';
    return s;
  }
}

static size_t exponent_bytes(const char *s, const char *end) {
  size_t sign, n;

  if (s == end || (*s != 'e' && *s != 'E')) return 0;
  sign = s + 1 < end && (s[1] == '-' || s[1] == '+');
  n = count_digits(s + 1 + sign, end);
  return n && n <= EXPONENT_DIGITS ? 1 + sign + n : 0;
}

/* Reads a decimal number without its sign at *at, and moves *at behind it. */
static bool read_decimal(const char **at, const char *end, bool *plain, bool *broken, amount *out) {
  const char *begin = *at, *s = whole_end(begin, end, broken);
  size_t      n;

  if (s + 1 < end && *s == '.' && is_digit(s[1])) {
    s += 1 + count_digits(s + 1, end);
    if (s + 1 < end && (*s == '.' || *s == ',') && is_digit(s[1])) *broken = true; /* 1.2.3, 1.234,5 */
  }
  if (s == begin) return false;
  n = exponent_bytes(s, end);
  *plain = *plain && !n;
  s += n;
  *out = from_decimal((tri_part){begin, (size_t)(s - begin)});
  *at = s;
  return true;
}

/* ---- powers ---- */

static size_t raised_digit(const char *s, const char *end, int *digit) {
  static const char *const list[] = {"\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",     "\xc2\xb3",
                                     "\xe2\x81\xb4", "\xe2\x81\xb5", "\xe2\x81\xb6", "\xe2\x81\xb7",
                                     "\xe2\x81\xb8", "\xe2\x81\xb9"};

  for (int i = 0; i < 10; i++)
    if (starts(s, end, list[i])) {
      *digit = i;
      return strlen(list[i]);
    }
  return 0;
}

/* Returns the bytes of ^3, ^{-3} or raised digits at s, else 0. Too many digits set *broken. */
static size_t power_bytes(const char *s, const char *end, int64_t *power, bool *broken) {
  const char *from = s;
  bool        brace = false, negative = false;
  int         digit;
  size_t      n;

  *power = 0;
  if (s < end && (*s == '^' || starts(s, end, "**"))) {
    s += *s == '^' ? 1 : 2;
    brace = s < end && *s == '{';
    s += brace;
    n = ANY_OF(minus_sign, s, end);
    negative = n > 0;
    s += n;
    n = count_digits(s, end);
    if (!n) return 0;
    if (n > EXPONENT_DIGITS || (brace && (s + n == end || s[n] != '}'))) {
      *broken = true;
      return (size_t)(s + n - from);
    }
    for (size_t i = 0; i < n; i++) *power = 10 * *power + (s[i] - '0');
    s += n + brace;
  } else {
    n = starts(s, end, "\xe2\x81\xbb"); /* U+207B raised minus */
    negative = n > 0;
    for (s += n; (n = raised_digit(s, end, &digit)); s += n) {
      if (*power > 999) *broken = true;
      *power = *broken ? *power : 10 * *power + digit;
    }
    if (s == from || (negative && s == from + 3)) return 0;
  }
  if (negative) *power = -*power;
  return (size_t)(s - from);
}

/* Returns the bytes of "x 10^3" at s, else 0. */
static size_t ten_bytes(const char *s, const char *end, int64_t *power, bool *broken) {
  static const char *const sign[] = {"\\times",      "\\cdot", "\xc3\x97", "\xc2\xb7",
                                     "\xe2\x8b\x85", "*",      "x",        "X"};
  const char              *from = s;
  size_t                   n;

  while (s < end && (*s == ' ' || *s == '$')) s++;
  n = ANY_OF(sign, s, end);
  if (!n || starts(s, end, "**")) return 0;
  s += n;
  while (s < end && (*s == ' ' || *s == '$')) s++;
  if (!starts(s, end, "10")) return 0;
  n = power_bytes(s + 2, end, power, broken);
  return n ? (size_t)(s + 2 + n - from) : 0;
}

/* Reads scientific notation or a power behind a decimal number. */
static bool read_power(const char **at, const char *end, bool *plain, bool *broken, amount *x) {
  int64_t power;
  size_t  n = ten_bytes(*at, end, &power, broken);
  amount  ten = from_decimal((tri_part){"10", 2});

  if (n) {
    if (!raise(&ten, power)) return false;
    *x = times(*x, ten);
  } else {
    n = power_bytes(*at, end, &power, broken);
    if (n && !raise(x, power)) return false;
  }
  *plain = *plain && !n;
  *at += n;
  return true;
}

/* ---- fractions ---- */

static size_t fraction_command(const char *s, const char *end) {
  static const char *const list[] = {"\\frac", "\\dfrac", "\\tfrac", "\\cfrac"};

  return ANY_OF(list, s, end);
}

/* Reads an argument of \frac, a digit or a whole number in braces. */
static bool read_argument(const char **at, const char *end, amount *out) {
  const char *s = *at;
  bool        plain = true, broken = false, negative = false;
  tri_part    inside;
  size_t      n;

  while (s < end && *s == ' ') s++;
  if (s < end && is_digit(*s)) {
    *out = from_decimal((tri_part){s, 1});
    *at = s + 1;
    return true;
  }
  if (end - s > ARGUMENT_BYTES) end = s + ARGUMENT_BYTES;
  if (s == end || *s != '{' || !tri_tex_braced(s, end, &inside)) return false;
  *at = inside.at + inside.n + 1;
  s = inside.at;
  end = s + inside.n;
  while (s < end && *s == ' ') s++;
  while (end > s && end[-1] == ' ') end--;
  n = ANY_OF(minus_sign, s, end);
  negative = n > 0;
  s += n;
  if (s == end || !read_decimal(&s, end, &plain, &broken, out) || broken || s < end) return false;
  if (negative) *out = minus(*out);
  return true;
}

/* Reads \frac{3}{4} at *at. *at moves behind its arguments even if they are not numbers. */
static bool read_tex_fraction(const char **at, const char *end, amount *out) {
  amount below;
  bool   good;

  *at += fraction_command(*at, end);
  good = read_argument(at, end, out);
  return read_argument(at, end, &below) && good && divide(out, below);
}

static bool read_vulgar(const char **at, const char *end, amount *out) {
  static const struct {
    const char *bytes;
    char        top, bottom;
  } list[] = {{"\xc2\xbd", '1', '2'},     {"\xc2\xbc", '1', '4'},     {"\xc2\xbe", '3', '4'},
              {"\xe2\x85\x93", '1', '3'}, {"\xe2\x85\x94", '2', '3'}, {"\xe2\x85\x95", '1', '5'},
              {"\xe2\x85\x96", '2', '5'}, {"\xe2\x85\x97", '3', '5'}, {"\xe2\x85\x98", '4', '5'},
              {"\xe2\x85\x99", '1', '6'}, {"\xe2\x85\x9a", '5', '6'}, {"\xe2\x85\x9b", '1', '8'},
              {"\xe2\x85\x9c", '3', '8'}, {"\xe2\x85\x9d", '5', '8'}, {"\xe2\x85\x9e", '7', '8'}};

  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    size_t n = starts(*at, end, list[i].bytes);
    if (!n) continue;
    *at += n;
    *out = from_decimal((tri_part){&list[i].top, 1});
    return divide(out, from_decimal((tri_part){&list[i].bottom, 1}));
  }
  return false;
}

/* Returns the bytes of "/" between two numbers at s with the space around it, else 0. */
static size_t slash_bytes(const char *s, const char *end) {
  static const char *const slash[] = {"/", "\xe2\x81\x84", "\xe2\x88\x95"};
  const char              *from = s;
  size_t                   n;
  bool                     spaced = s < end && *s == ' ';

  s += spaced;
  n = ANY_OF(slash, s, end);
  if (!n) return 0;
  s += n;
  if (spaced && s < end && *s == ' ') s++;
  return s < end && is_digit(*s) ? (size_t)(s - from) : 0;
}

/* Reads "/4" behind a number. */
static void read_quotient(const char **at, const char *end, bool *plain, bool *broken, amount *x) {
  size_t n = slash_bytes(*at, end);
  amount below;

  if (!n) return;
  *plain = false;
  *at += n;
  if (!read_decimal(at, end, plain, broken, &below) || !divide(x, below)) *broken = true;
  if (slash_bytes(*at, end)) *broken = true; /* 1/2/2024 */
}

/* Reads the rest of a mixed number behind "1", which is " 3/4", \frac{3}{4} or a one-character fraction. */
static void read_mixed(const char **at, const char *end, bool *plain, bool *broken, amount *x) {
  const char *s = *at;
  amount      part, bottom;
  bool        was_plain = true, bad = false;
  size_t      n;

  while (s < end && *s == ' ') s++;
  if (fraction_command(s, end)) {
    *plain = false;
    *at = s;
    if (!read_tex_fraction(at, end, &part)) *broken = true;
    *x = plus(*x, part);
    return;
  }
  s = *at;
  if (read_vulgar(&s, end, &part)) {
    *plain = false;
    *at = s;
    *x = plus(*x, part);
    return;
  }
  if (s == end || *s != ' ' || s + 1 == end || !is_digit(s[1])) return;
  s++;
  if (!read_decimal(&s, end, &was_plain, &bad, &part) || bad || !(n = slash_bytes(s, end))) return;
  s += n;
  if (!read_decimal(&s, end, &was_plain, &bad, &bottom) || bad || !(part.estimate < bottom.estimate)) return;
  if (!divide(&part, bottom)) return;
  *plain = false;
  *at = s;
  *x = plus(*x, part);
}

/* ---- places of numbers ---- */

/* Returns the start of the sign of the number at s, else s. A sign behind a letter, a digit or a closing
 * bracket is an operator or a hyphen. A currency may stand between sign and digits. */
static const char *sign_begin(const char *begin, const char *s, bool *negative) {
  static const char *const currency[] = {"\\$", "$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5"};
  const char              *before = s, *sign;
  char                     last;

  *negative = false;
  for (size_t i = 0; i < sizeof currency / sizeof *currency; i++)
    if (ends(begin, s, currency[i])) {
      before = s - strlen(currency[i]);
      break;
    }
  sign = before;
  for (size_t i = 0; i < sizeof minus_sign / sizeof *minus_sign; i++)
    if (ends(begin, before, minus_sign[i])) {
      sign = before - strlen(minus_sign[i]);
      *negative = true;
    }
  if (sign == before && before == s && ends(begin, s, "+")) sign = s - 1;
  last = sign > begin ? sign[-1] : ' ';
  if (sign < before && !is_digit(last) && !is_letter(last) && last != ')' && last != ']') return sign;
  *negative = false;
  return s;
}

/* Tells whether digits belong to a word, an index or an exponent, as in H2O, x_1, m^2, m^{2}. */
static bool belongs_to_word(const char *begin, const char *s) {
  const char *p = s;

  if (p > begin && p[-1] == '{') p--;
  if (p > begin && (p[-1] == '^' || p[-1] == '_')) return true;
  for (p = s; p > begin && is_letter(p[-1]);) p--;
  return p < s && (p == begin || p[-1] != '\\');
}

/* Tells whether the digits continue as something other than a number, as in 4:30, 1_000, 0x1F. */
static bool goes_on(const char *begin, const char *s, const char *end) {
  if (s + 1 < end && (*s == ':' || *s == '_') && is_digit(s[1])) return true;
  return s - begin == 1 && *begin == '0' && s + 1 < end && (*s == 'x' || *s == 'X') &&
         (is_digit(s[1]) || (s[1] >= 'A' && s[1] <= 'F') || (s[1] >= 'a' && s[1] <= 'f'));
}

static bool at_number(const cursor *c) {
  const char *s = c->at;
  bool        point = s[0] == '.' && s + 1 < c->end && is_digit(s[1]) &&
               (s == c->begin || (!is_digit(s[-1]) && s[-1] != '.')); /* ...72 is 72 */

  bool ignored;

  return is_digit(*s) || point || fraction_command(s, c->end) || (unsigned char)*s >= 0xc2 ||
         tri_text_symbol(c->begin, s, c->end, &ignored);
}

/* Skips the digits of a word and anything joined to them, as in v2.0. */
static void pass_word(cursor *c) {
  char before = c->at > c->begin ? c->at[-1] : 0;

  do c->at += 1 + count_digits(c->at + 1, c->end);
  while (c->at + 1 < c->end && (*c->at == '.' || *c->at == ',') && is_digit(c->at[1]));
  if (!before || !strchr("^_{", before)) return;
  if (before == '{' && c->at < c->end && *c->at == '}') c->at++;
  c->tail = c->at; /* x^2, x_1 */
}

/* Skips a root, function or constant. It is not a number, and a number beside it is a part of the formula. */
static tri_text_found pass_symbol(cursor *c, size_t n, bool has_digit) {
  c->at += n;
  c->tail = c->at;
  return has_digit ? TRI_TEXT_BROKEN : TRI_TEXT_NONE;
}

/* Reads the digits at the cursor and moves behind them. *broken is set if they are not a number as a
 * whole. */
static bool read_amount(cursor *c, bool *plain, bool *broken, amount *x) {
  const char *s = c->at;

  if (fraction_command(s, c->end)) {
    *plain = false;
    if (read_tex_fraction(&c->at, c->end, x)) return true;
    c->tail = c->at;
    *broken = tri_tex_has_digit(s, c->at); /* \frac{\pi}{2} */
    return false;
  }
  if ((unsigned char)*s >= 0x80) {
    *plain = false;
    if (read_vulgar(&c->at, c->end, x)) return true;
    c->at++;
    return false;
  }
  if (belongs_to_word(c->begin, s)) {
    pass_word(c);
    return false;
  }
  if (!read_decimal(&c->at, c->end, plain, broken, x)) return false;
  *broken = *broken || goes_on(s, c->at, c->end);
  if (!*broken && !read_power(&c->at, c->end, plain, broken, x)) *broken = true;
  if (!*broken && *plain) read_mixed(&c->at, c->end, plain, broken, x);
  if (!*broken && *plain) read_quotient(&c->at, c->end, plain, broken, x);
  return true;
}

/* Skips a broken number and everything joined to it without a space, so that no part of it is read. */
static tri_text_found pass_broken(cursor *c) {
  while (c->at < c->end && *c->at && (is_digit(*c->at) || strchr(".,:_/{}\\!", *c->at))) {
    if (*c->at == '\\' && c->at + 1 < c->end && is_letter(c->at[1])) break;
    c->at++;
  }
  c->tail = c->at;
  return TRI_TEXT_BROKEN;
}

/* Reads the number at the cursor and moves behind it. */
static tri_text_found read_number(cursor *c, tri_text_number *out) {
  const char *s = c->at, *after;
  bool        plain = true, broken = false, negative, has_digit, joined;
  size_t      n = tri_text_symbol(c->begin, s, c->end, &has_digit);
  amount      x;

  if (n) return pass_symbol(c, n, has_digit);
  joined = tri_text_continues(c->begin, c->tail, s);
  if (!read_amount(c, &plain, &broken, &x)) return broken ? pass_broken(c) : TRI_TEXT_NONE;
  if (broken || joined) return pass_broken(c);
  if (tri_text_goes_on(s, c->at, c->end, &after)) {
    c->at = c->tail = after;
    return TRI_TEXT_BROKEN;
  }
  s = sign_begin(c->begin, s, &negative);
  if (negative) x = minus(x);
  *out = (tri_text_number){.text = {s, (size_t)(c->at - s)}, .plain = plain, .estimate = x.estimate};
  out->negative = negative && (x.at[0].re || x.at[1].re);
  memcpy(out->at, x.at, sizeof out->at);
  return TRI_TEXT_NUMBER;
}

static tri_text_found next_number(cursor *c, tri_text_number *out) {
  while (c->at < c->end) {
    tri_text_found found = TRI_TEXT_NONE;
    if (at_number(c))
      found = read_number(c, out);
    else
      c->at++;
    if (found != TRI_TEXT_NONE) return found;
  }
  return TRI_TEXT_NONE;
}

tri_text_found tri_text_number_first(const char *s, size_t n, tri_text_number *out) {
  cursor          c = {s, s, s + n, NULL};
  tri_text_found  found = n ? next_number(&c, out) : TRI_TEXT_NONE;
  tri_text_number more;
  size_t          sign;

  /* 5 + 2\sqrt{3} */
  while (found == TRI_TEXT_NUMBER && (sign = tri_text_joint(s, c.at, c.end)) && c.at + sign < c.end) {
    c.at += sign;
    if (!at_number(&c)) break;
    switch (read_number(&c, &more)) {
    case TRI_TEXT_NUMBER:
      continue;
    case TRI_TEXT_BROKEN:
      return TRI_TEXT_BROKEN;
    default:
      return found;
    }
  }
  return found;
}

tri_text_found tri_text_number_last(const char *s, size_t n, tri_text_number *out) {
  cursor         c = {s, s, s + n, NULL};
  tri_text_found found = TRI_TEXT_NONE, last = TRI_TEXT_NONE;

  if (!n) return TRI_TEXT_NONE;
  while ((found = next_number(&c, out)) != TRI_TEXT_NONE) last = found;
  return last;
}

bool tri_text_number_same(const tri_text_number *a, const tri_text_number *b) {
  double scale = fmax(fabs(a->estimate), fabs(b->estimate));

  for (int k = 0; k < TRI_FIELDS; k++)
    if (!tri_field_equal(a->at[k], b->at[k])) return false;
  return !isfinite(scale) || fabs(a->estimate - b->estimate) <= 1e-9 * scale;
}

tri_status tri_text_number_put(const tri_text_number *x, tri_text *out) {
  const char *s = x->text.at, *end = s + x->text.n, *point, *stop = end;

  if (!x->plain) return tri_text_put(out, s, x->text.n);
  while (s < end && !is_digit(*s) && *s != '.') s++;
  point = memchr(s, '.', (size_t)(end - s));
  while (point && stop > point && (stop[-1] == '0' || stop[-1] == '.')) stop--;
  while (s < end && (*s == '0' || !is_digit(*s)) && *s != '.') s++;
  if (x->negative) TRI_TRY(tri_text_put(out, "-", 1));
  if (s >= stop || *s == '.') TRI_TRY(tri_text_put(out, "0", 1));
  for (; s < stop; s++)
    if (is_digit(*s) || *s == '.') TRI_TRY(tri_text_put(out, s, 1));
  return TRI_OK;
}
