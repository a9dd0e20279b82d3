/* text_formula.c - tells whether a number in prose is a part of a formula. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "text_formula.h"

#include "tex_lex.h"

#include <string.h>

enum { ARGUMENT_BYTES = 1024 }; /* chosen: limit of the search for the end of an argument */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static size_t starts(const char *s, const char *end, const char *what) {
  size_t n = strlen(what);

  return (size_t)(end - s) >= n && !memcmp(s, what, n) ? n : 0;
}

static size_t any_of(const char *const *list, size_t count, const char *s, const char *end) {
  for (size_t i = 0; i < count; i++)
    if (starts(s, end, list[i])) return strlen(list[i]);
  return 0;
}
#define ANY_OF(list, s, end) any_of(list, sizeof(list) / sizeof *(list), s, end)

static size_t count_letters(const char *s, const char *end) {
  size_t n = 0;

  while (s + n < end && is_letter(s[n])) n++;
  return n;
}

/* Skips spaces of TeX and of plain text. A new line is not skipped, because it ends a formula. */
static const char *skip_spaces(const char *s, const char *end) {
  static const char *const space[] = {" ",   "\\,", "\\;",      "\\:",         "\\!",
                                      "\\ ", "~",   "\xc2\xa0", "\xe2\x80\x89"};
  size_t                   n;

  while ((n = ANY_OF(space, s, end))) s += n;
  return s;
}

/* ---- symbols ---- */

/* Returns the end of the brackets at s, else s. */
static const char *skip_brackets(const char *s, const char *end) {
  const char *stop = end - s > ARGUMENT_BYTES ? s + ARGUMENT_BYTES : end;
  int         open = 0;

  if (s == end || !strchr("{([", *s)) return s;
  for (const char *p = s; p < stop; p++) {
    open += (*p && strchr("{([", *p) != NULL) - (*p && strchr("})]", *p) != NULL);
    if (!open) return p + 1;
  }
  return s;
}

/* Returns the end of an argument at s, which is brackets, digits, a letter or a command. */
static const char *skip_argument(const char *s, const char *end) {
  const char *from, *p;

  for (;;) { /* \sqrt[3]{8}, \log_2 8, \sin^2 x */
    s = skip_spaces(s, end);
    if (s < end && (*s == '_' || *s == '^')) {
      s++;
      p = skip_brackets(s, end);
      s = p > s ? p : s < end ? s + 1 : s;
    } else if (s < end && *s == '[' && (p = skip_brackets(s, end)) > s) {
      s = p;
    } else {
      break;
    }
  }
  from = s;
  p = skip_brackets(s, end);
  for (; p > s; p = skip_brackets(s, end)) s = p; /* \binom{5}{2} */
  if (s > from) return s;
  while (s < end && is_digit(*s)) s++;
  if (s > from) return s;
  if (s < end && *s == '\\') return s + 1 + count_letters(s + 1, end);
  return s;
}

/* Tells whether this name is no English word beside a number. "log 5", "max 5" and "tan 5" may be words. */
static bool is_plain_function(const char *s, size_t n) {
  static const char *const list[] = {"sqrt", "ln", "sin", "cos"};

  return ANY_OF(list, s, s + n) == n;
}

/* Returns the bytes of the name of a function, root or constant at s, with its backslash. *takes is set if it
 * has an argument. */
static size_t symbol_name(const char *begin, const char *s, const char *end, bool *takes) {
  static const char *const root[] = {"\xe2\x88\x9a", "\xe2\x88\x9b"}; /* U+221A, U+221B */
  size_t                   n = ANY_OF(root, s, end);

  *takes = true;
  if (n) return n;
  if (starts(s, end, "\xcf\x80")) { /* U+03C0 pi */
    *takes = false;
    return 2;
  }
  if (*s == '\\') {
    n = count_letters(s + 1, end);
    return n && tri_tex_is_symbol((tri_part){s + 1, n}, takes) ? n + 1 : 0;
  }
  if (!is_letter(*s) || (s > begin && is_letter(s[-1]))) return 0;
  n = count_letters(s, end);
  if (!tri_tex_is_symbol((tri_part){s, n}, takes)) return 0;
  if (*takes && is_plain_function(s, n)) {
    const char *p = skip_spaces(s + n, end); /* sqrt 3. "min 5" may be words */
    if (p > s + n && p < end && is_digit(*p)) return n;
  }
  if (*takes) return s + n < end && s[n] == '(' ? n : 0;
  return n == 2 && !memcmp(s, "pi", 2) ? n : 0;
}

size_t tri_text_symbol(const char *begin, const char *s, const char *end, bool *has_digit) {
  bool        takes;
  size_t      n = s < end ? symbol_name(begin, s, end, &takes) : 0;
  const char *after = s + n;

  if (!n) return 0;
  if (takes) after = skip_argument(after, end);
  *has_digit = tri_tex_has_digit(s, after);
  return (size_t)(after - s);
}

/* ---- joints ---- */

static const char *const joint[] = {"+",
                                    "-",
                                    "*",
                                    "/",
                                    "\\cdot",
                                    "\\times",
                                    "\\div",
                                    "\\pm",
                                    "\xc2\xb1",
                                    "\xc3\x97", /* U+00B1, U+00D7 */
                                    "\xc3\xb7", /* U+00F7 */
                                    "\xc2\xb7",
                                    "\xe2\x8b\x85", /* U+00B7, U+22C5 */
                                    "\xe2\x88\x92",
                                    "\xe2\x81\x84",
                                    "\xe2\x88\x95"}; /* U+2212, U+2044, U+2215 */

/* Tells whether a dash or star is a sign. With space on one side only it is punctuation between words. */
static bool is_even(const char *begin, const char *sign, const char *after, const char *end) {
  bool left = sign > begin && (sign[-1] == ' ' || sign[-1] == '~'), right = after < end && *after == ' ';

  if (*sign != '-' && *sign != '*') return true;
  if (*sign == '*' && ((after < end && *after == '*') || (sign > begin && sign[-1] == '*'))) return false;
  return left == right;
}

size_t tri_text_joint(const char *begin, const char *s, const char *end) {
  const char *sign = skip_spaces(s, end);
  size_t      n = ANY_OF(joint, sign, end);

  if (!n || !is_even(begin, sign, sign + n, end)) return 0;
  return (size_t)(skip_spaces(sign + n, end) - s);
}

/* Tells whether the sign gives two numbers, as in 5 \pm 2. */
static bool is_two_signs(const char *sign, const char *end) {
  return starts(sign, end, "\\pm") || starts(sign, end, "\xc2\xb1");
}

/* ---- behind a number ---- */

/* Returns the bytes of a single letter that may be a variable. "a" and "I" may be words and do not count. */
static size_t variable(const char *s, const char *end) {
  return s < end && is_letter(*s) && count_letters(s, end) == 1 && *s != 'a' && *s != 'I' && *s != 'A';
}

/* Returns the bytes of letters directly behind a number that are not a unit, as in 2x, 5i, 5k (five
 * thousand), 3ab, 2pi. */
static size_t factor_letters(const char *s, const char *end) {
  static const char units[] = "mgshLlVAWJNCFd\0"; /* one-letter units */
  static const char names[] = "abcijknuvwxyz";
  size_t            n = count_letters(s, end), i = 0;

  if (n == 1) return !strchr(units, *s) && !(s + 1 < end && s[1] == '.' && (*s == 'a' || *s == 'p'));
  if (starts(s, end, "in") || starts(s, end, "an")) return 0;
  while (i < n && strchr(names, s[i])) i++;
  return n == 2 && i == n ? n : 0;
}

/* Tells whether a raised part is a power, and not a degree or the ending of an ordinal number. */
static bool is_power(const char *s, const char *end) {
  static const char *const other[] = {
      "^\\circ",  "^{\\circ", "^o",    "^{o}",  "^{\\degree", "^\\degree",   "^{\\prime", "^\\text",
      "^{\\text", "^{th}",    "^{st}", "^{nd}", "^{rd}",      "^{\\mathrm{", "^\\mathrm", "^{ \\circ"};

  return s < end && *s == '^' && !ANY_OF(other, s, end);
}

/* Returns the bytes of a mark for digits without end, as in 0.333..., 0.1\overline{6}, 0.1(6). */
static size_t endless(const char *number, const char *s, const char *end) {
  static const char *const more[] = {"...", "\\ldots", "\\dots", "\\cdots", "\xe2\x80\xa6"};
  static const char *const over[] = {"\\overline", "\\bar", "\\dot", ".\\overline", ".\\bar", ".\\dot"};
  size_t                   n = ANY_OF(over, s, end);
  bool                     point = memchr(number, '.', (size_t)(s - number));
  const char              *open = s + (!point && s < end && *s == '.');

  if (n) return n + (size_t)(skip_brackets(s + n, end) - (s + n));
  if ((point || open > s) && end - open > 1 && *open == '(' && is_digit(open[1]))
    return (size_t)(skip_brackets(open, end) - s); /* 0.(36) */
  return point ? ANY_OF(more, s, end) : 0;
}

/* Returns the bytes of " million" and the like behind a number, which then means more than its digits. */
static size_t number_word(const char *s, const char *end) {
  static const char *const list[] = {"hundred", "thousand", "million", "billion", "trillion", "dozen"};
  const char              *p = skip_spaces(s, end);
  size_t                   n = ANY_OF(list, p, end);

  if (n && p + n < end && p[n] == 's') n++;
  return n && count_letters(p, end) == n ? (size_t)(p + n - s) : 0;
}

/* Returns the bytes of a symbol or a single letter at s. */
static size_t operand(const char *begin, const char *s, const char *end) {
  bool   ignored;
  size_t n = tri_text_symbol(begin, s, end, &ignored);

  return n ? n : variable(s, end);
}

/* Returns the bytes of " x" behind a number, as in 2 x. */
static size_t unknown_behind(const char *s, const char *end) {
  const char *p = skip_spaces(s, end);

  return p > s && count_letters(p, end) == 1 && *p >= 'x' && *p <= 'z' ? (size_t)(p + 1 - s) : 0;
}

/* Returns the bytes of ")^" behind a number in brackets with a power, as in (1/2)^3. */
static size_t closed_power(const char *s, const char *end) {
  size_t n = starts(s, end, "\\right)");

  if (!n) n = starts(s, end, ")");
  return n && is_power(s + n, end) ? n + 1 : 0;
}

bool tri_text_goes_on(const char *number, const char *s, const char *end, const char **after) {
  const char *p = skip_spaces(s, end);
  size_t      n = endless(number, s, end);
  bool        ignored;

  if (!n) n = factor_letters(s, end);
  if (!n) n = number_word(s, end);
  if (!n) n = unknown_behind(s, end);
  if (!n) n = closed_power(s, end);
  if (!n && is_power(s, end)) n = 1;
  if (!n && s + 1 < end && *s == '_' && (is_digit(s[1]) || s[1] == '{')) n = 1;
  if (!n && s < end && *s == '(') n = operand(number, s + 1, end) ? 1 : 0;
  if (!n && s + 1 < end && *s == '/' && s[1] == '(') n = 1;
  if (n) {
    *after = s + n;
    return true;
  }
  n = tri_text_symbol(number, p, end, &ignored);
  if (!n) {
    size_t sign = tri_text_joint(number, s, end);
    n = sign && is_two_signs(skip_spaces(s, end), end) ? 1 : sign ? operand(number, s + sign, end) : 0;
    p = s + sign;
  }
  *after = p + n;
  return n > 0;
}

/* ---- before a number ---- */

static const char *back_over(const char *begin, const char *s, const char *what) {
  while (s > begin && s[-1] && strchr(what, s[-1])) s--;
  return s;
}

/* Returns the bytes of a sign that ends at s. */
static size_t joint_before(const char *begin, const char *s) {
  for (size_t i = 0; i < sizeof joint / sizeof *joint; i++) {
    size_t n = strlen(joint[i]);
    if ((size_t)(s - begin) >= n && !memcmp(s - n, joint[i], n)) return n;
  }
  return 0;
}

/* Tells whether the digits at s stand under a line, so that they repeat without end. */
static bool is_over(const char *begin, const char *s) {
  static const char *const list[] = {"\\overline{", "\\bar{"};

  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    size_t n = strlen(list[i]);
    if ((size_t)(s - begin) >= n && !memcmp(s - n, list[i], n)) return true;
  }
  return false;
}

bool tri_text_continues(const char *begin, const char *tail, const char *s) {
  const char *p = back_over(begin, s, " ~"), *q;
  size_t      n = joint_before(begin, p);

  if (!n) return (tail && s == tail) || is_over(begin, s);
  if (is_two_signs(p - n, p)) return true;
  q = back_over(begin, p - n, " ~");
  if (q == begin || !is_even(begin, p - n, p, s + 1)) return false;
  if (tail && q >= tail && back_over(tail, q, " ~)}]$") == tail) return true;
  if (p[-1] == '/' || n == 3) return !is_digit(q[-1]);
  return is_letter(q[-1]) && variable(q - 1, q) && (q - 1 == begin || (!is_letter(q[-2]) && q[-2] != '\\'));
}
