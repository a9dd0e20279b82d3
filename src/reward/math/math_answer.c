/* math_answer.c - final answers of mathematics in TeX: finds them in a box, normalises their spelling,
 * compares them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "math_answer.h"

#include "tex_same.h"
#include "tex_words.h"

#include <string.h>

/* ---- texts ---- */

static tri_status put(tri_text *t, const char *s) { return tri_text_put(t, s, strlen(s)); }

static tri_status put_braced(tri_text *t, const char *s, size_t n) {
  TRI_TRY(tri_text_put(t, "{", 1));
  TRI_TRY(tri_text_put(t, s, n));
  return tri_text_put(t, "}", 1);
}

/* Returns the bytes of a text with a NUL at the end, even if it is empty. */
static const char *bytes_of(const tri_text *t) { return t->data ? t->data : ""; }

/* Returns the first `what` in from .. end, or NULL. Texts may contain NUL. */
static const char *find(const char *from, const char *end, const char *what) {
  size_t n = strlen(what);

  for (; (size_t)(end - from) >= n; from++)
    if (*from == *what && !memcmp(from, what, n)) return from;
  return NULL;
}

static const char *find_last(const char *s, size_t n, const char *what) {
  size_t m = strlen(what);

  for (const char *p = n >= m ? s + (n - m) : NULL; p && p >= s; p--)
    if (*p == *what && !memcmp(p, what, m)) return p;
  return NULL;
}

static int count(const tri_text *t, const char *what) {
  const char *end = bytes_of(t) + t->len;
  int         n = 0;

  for (const char *p = find(bytes_of(t), end, what); p; p = find(p + strlen(what), end, what)) n++;
  return n;
}

/* Replaces every `what` by `by`, from left to right. */
static tri_status replace(tri_text *t, const char *what, const char *by) {
  const char *from = bytes_of(t), *end = from + t->len;
  const char *hit = find(from, end, what);
  tri_text    made = {0};
  tri_status  st = TRI_OK;

  if (!hit) return TRI_OK;
  for (; hit; from = hit + strlen(what), hit = find(from, end, what)) {
    TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(hit - from)));
    TRI_TRY_DONE(put(&made, by));
  }
  TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(end - from)));
  tri_text_free(t);
  *t = made;
  return TRI_OK;
done:
  tri_text_free(&made);
  return st;
}

/* Keeps only n bytes of the text, those at `from`. */
static tri_status cut(tri_text *t, const char *from, size_t n) {
  if (t->data) memmove(t->data, from, n);
  t->len = n;
  if (t->data) t->data[n] = 0;
  return TRI_OK;
}

/* Returns the bytes of the UTF-8 character at s, at most `left`. */
static size_t char_bytes(const char *s, size_t left) {
  unsigned char c = (unsigned char)*s;
  size_t        n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;

  return n < left ? n : left;
}

/* ---- boxes ---- */

/* Finds the content of the braces that open at s. */
static bool inside_braces(const char *s, const char *end, tri_part *inside) {
  int open = 0;

  for (const char *p = s; p < end; p++) {
    open += (*p == '{') - (*p == '}');
    if (open) continue;
    *inside = (tri_part){s + 1, (size_t)(p - s) - 1};
    return true;
  }
  return false;
}

bool tri_math_boxed(const char *s, size_t n, tri_part *inside) {
  static const char box[] = "\\boxed", other[] = "\\fbox";
  const char       *end = s + n, *hit = find_last(s, n, box), *dollar;

  if (hit) {
    hit += sizeof box - 1;
  } else {
    hit = find_last(s, n, other);
    if (!hit) return false;
    hit += sizeof other - 1;
  }
  const char *first = hit;
  while (first < end && *first == ' ') first++;
  if (first == end) return false;
  if (*first == '{') return inside_braces(first, end, inside);
  if (first == hit) return false; /* \boxedfive */
  dollar = memchr(first, '$', (size_t)(end - first));
  *inside = (tri_part){first, (size_t)((dollar ? dollar : end) - first)};
  return true;
}

bool tri_math_box_is_open(const char *s, size_t n) {
  tri_part inside;

  return (find_last(s, n, "\\boxed") || find_last(s, n, "\\fbox")) && !tri_math_boxed(s, n, &inside);
}

/* ---- MATH ---- */

/* Removes a unit at the right, such as "\text{ cm}". */
static tri_status remove_unit(tri_text *t, bool *good) {
  const char *hit = find(bytes_of(t), bytes_of(t) + t->len, "\\text{ ");

  if (!hit) return TRI_OK;
  *good = *good && count(t, "\\text{ ") == 1;
  return cut(t, bytes_of(t), (size_t)(hit - bytes_of(t)));
}

/* Makes 5 of "k = 5", if the only equals sign has at most two characters before it. */
static tri_status remove_name(tri_text *t) {
  const char *hit = find(bytes_of(t), bytes_of(t) + t->len, "=");
  size_t      n = 0;

  if (!hit || count(t, "=") != 1) return TRI_OK;
  for (const char *p = bytes_of(t); p < hit; p += char_bytes(p, (size_t)(hit - p))) n++;
  return n <= 2 ? cut(t, hit + 1, t->len - (size_t)(hit + 1 - bytes_of(t))) : TRI_OK;
}

/* Makes \sqrt{3} of \sqrt3. */
static tri_status brace_roots(tri_text *t, bool *good) {
  const char *from = bytes_of(t), *end = from + t->len;
  tri_text    made = {0};
  tri_status  st = TRI_OK;

  for (const char *hit = find(from, end, "\\sqrt"); hit; hit = find(from, end, "\\sqrt")) {
    const char *arg = hit + 5, *next = find(arg, end, "\\sqrt");
    *good = *good && arg < (next ? next : end);
    TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(arg - from)));
    from = arg;
    if (!*good || *arg == '{') continue;
    size_t n = char_bytes(arg, (size_t)(end - arg));
    TRI_TRY_DONE(put_braced(&made, arg, n));
    from += n;
  }
  TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(end - from)));
  tri_text_free(t);
  *t = made;
  return TRI_OK;
done:
  tri_text_free(&made);
  return st;
}

/* Appends the text s .. end between one \frac and the next, with its two arguments in braces. *two is false
 * if it lacks two arguments. */
static tri_status put_fraction(const char *s, const char *end, tri_text *out, bool *two) {
  size_t a = char_bytes(s, (size_t)(end - s)), b;

  *two = true;
  if (*s == '{') return tri_text_put(out, s, (size_t)(end - s));
  *two = s + a < end;
  if (!*two) return TRI_OK;
  b = char_bytes(s + a, (size_t)(end - s) - a);
  TRI_TRY(put_braced(out, s, a));
  s += a;
  if (*s != '{') {
    TRI_TRY(put_braced(out, s, b));
    s += b;
  }
  return tri_text_put(out, s, (size_t)(end - s));
}

/* Makes \frac{1}{2} of \frac12 and \frac1{2}. If one \frac lacks two arguments, all stay unchanged. */
static tri_status brace_fractions(tri_text *t, bool *good) {
  const char *from = bytes_of(t), *end = from + t->len, *hit = find(from, end, "\\frac");
  tri_text    made = {0};
  tri_status  st = TRI_OK;
  bool        two = true;

  if (!hit) return TRI_OK;
  TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(hit - from)));
  while (hit && two) {
    const char *arg = hit + 5, *next = find(arg, end, "\\frac"), *stop = next ? next : end;
    *good = *good && arg < stop;
    if (!*good) goto done;
    TRI_TRY_DONE(put(&made, "\\frac"));
    TRI_TRY_DONE(put_fraction(arg, stop, &made, &two));
    hit = next;
  }
  if (two) {
    tri_text swap = *t;
    *t = made;
    made = swap;
  }
done:
  tri_text_free(&made);
  return st;
}

/* Tells whether this is a whole number as printf writes it, without plus, leading zeros or -0. */
static bool is_whole(const char *s, size_t n) {
  size_t sign = n && *s == '-', k = sign;

  while (k < n && s[k] >= '0' && s[k] <= '9') k++;
  return k == n && k > sign && (s[sign] != '0' || n == 1);
}

/* Makes \frac{3}{4} of 3/4. */
static tri_status turn_slash(tri_text *t) {
  const char *s = bytes_of(t), *slash = find(s, s + t->len, "/");
  tri_text    made = {0};
  size_t      a, b;
  tri_status  st;

  if (!slash || count(t, "/") != 1) return TRI_OK;
  a = (size_t)(slash - s);
  b = t->len - a - 1;
  if (!is_whole(s, a) || !is_whole(slash + 1, b)) return TRI_OK;
  st = tri_text_printf(&made, "\\frac{%.*s}{%.*s}", (int)a, s, (int)b, slash + 1);
  if (st == TRI_OK) {
    tri_text_free(t);
    *t = made;
  }
  return st;
}

static bool is_text(const tri_text *t, const char *what) {
  return t->len == strlen(what) && !memcmp(bytes_of(t), what, t->len);
}

typedef struct change {
  const char *what, *by;
} change;

static tri_status replace_all(tri_text *t, const change *c, size_t n) {
  for (size_t i = 0; i < n; i++) TRI_TRY(replace(t, c[i].what, c[i].by));
  return TRI_OK;
}
#define REPLACE_ALL(t, c) replace_all(t, c, sizeof(c) / sizeof *(c))

/* Makes 0.5 of .5. */
static tri_status put_zeros(tri_text *t) {
  static const change c[] = {{" .", " 0."}, {"{.", "{0."}};
  tri_text            made = {0};
  tri_status          st;

  TRI_TRY(REPLACE_ALL(t, c));
  if (!t->len || *t->data != '.') return TRI_OK;
  st = put(&made, "0");
  if (st == TRI_OK) st = tri_text_put(&made, t->data, t->len);
  if (st == TRI_OK) {
    tri_text swap = *t;
    *t = made;
    made = swap;
  }
  tri_text_free(&made);
  return st;
}

tri_status tri_math_strip(const char *s, size_t n, tri_text *out, bool *good) {
  static const change first[] = {{"\n", ""},        {"\\!", ""},    {"\\\\", "\\"},  {"tfrac", "frac"},
                                 {"dfrac", "frac"}, {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""},
                                 {"^\\circ", ""},   {"\\$", ""}};

  *good = true;
  TRI_TRY(tri_text_put(out, s, n));
  TRI_TRY(REPLACE_ALL(out, first));
  TRI_TRY(remove_unit(out, good));
  TRI_TRY(replace(out, "\\%", ""));
  TRI_TRY(put_zeros(out));
  if (!out->len) return TRI_OK;
  TRI_TRY(remove_name(out));
  TRI_TRY(brace_roots(out, good));
  TRI_TRY(replace(out, " ", ""));
  TRI_TRY(brace_fractions(out, good));
  if (is_text(out, "0.5")) {
    out->len = 0;
    TRI_TRY(put(out, "\\frac{1}{2}"));
  }
  return turn_slash(out);
}

/* ---- Minerva ---- */

/* Keeps the text between the first two dollar signs. */
static tri_status take_dollars(tri_text *t) {
  const char *end = bytes_of(t) + t->len, *a = find(bytes_of(t), end, "$"),
             *b = a ? find(a + 1, end, "$") : NULL;

  return b ? cut(t, a + 1, (size_t)(b - a) - 1) : TRI_OK;
}

/* Makes x of \text{x}, up to the first closing brace. */
static tri_status unwrap(tri_text *t, const char *open) {
  const char *from = bytes_of(t), *end = from + t->len;
  tri_text    made = {0};
  tri_status  st = TRI_OK;

  for (const char *hit = find(from, end, open); hit; hit = find(from, end, open)) {
    const char *inner = hit + strlen(open), *close = memchr(inner, '}', (size_t)(end - inner));
    if (!close) break;
    TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(hit - from)));
    TRI_TRY_DONE(tri_text_put(&made, inner, (size_t)(close - inner)));
    from = close + 1;
  }
  TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(end - from)));
  tri_text_free(t);
  *t = made;
  return TRI_OK;
done:
  tri_text_free(&made);
  return st;
}

/* Makes x of \boxed{x}, up to the last closing brace. */
static tri_status unwrap_box(tri_text *t) {
  const char *hit = find(bytes_of(t), bytes_of(t) + t->len, "\\boxed{"), *close;
  tri_text    made = {0};
  tri_status  st = TRI_OK;

  close = hit ? find_last(hit + 7, t->len - (size_t)(hit + 7 - bytes_of(t)), "}") : NULL;
  if (!close) return TRI_OK;
  TRI_TRY_DONE(tri_text_put(&made, t->data, (size_t)(hit - t->data)));
  TRI_TRY_DONE(tri_text_put(&made, hit + 7, (size_t)(close - hit) - 7));
  TRI_TRY_DONE(tri_text_put(&made, close + 1, t->len - (size_t)(close + 1 - t->data)));
  tri_text_free(t);
  *t = made;
  return TRI_OK;
done:
  tri_text_free(&made);
  return st;
}

/* Puts each of the n_arg characters behind `name` into braces, unless the first is a brace. */
static tri_status brace_behind(tri_text *t, const char *name, int n_arg) {
  const char *from = bytes_of(t), *end = from + t->len;
  tri_text    made = {0};
  tri_status  st = TRI_OK;

  for (const char *hit = find(from, end, name); hit; hit = find(from, end, name)) {
    const char *arg = hit + strlen(name);
    size_t      a = arg < end ? char_bytes(arg, (size_t)(end - arg)) : 0,
           b = n_arg == 2 && arg + a < end ? char_bytes(arg + a, (size_t)(end - arg) - a) : 0;
    bool fits = a && *arg != '{' && (n_arg == 1 || b);
    TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(arg - from)));
    from = arg;
    if (!fits) continue;
    TRI_TRY_DONE(put_braced(&made, arg, a));
    if (b) TRI_TRY_DONE(put_braced(&made, arg + a, b));
    from += a + b;
  }
  TRI_TRY_DONE(tri_text_put(&made, from, (size_t)(end - from)));
  tri_text_free(t);
  *t = made;
  return TRI_OK;
done:
  tri_text_free(&made);
  return st;
}

/* Makes 100000 of 100,000. */
static tri_status join_thousands(tri_text *t) {
  tri_decimal d;

  if (strspn(bytes_of(t), "0123456789,") != t->len || !tri_decimal_whole(bytes_of(t), t->len, &d))
    return TRI_OK;
  return replace(t, ",", "");
}

tri_status tri_math_final(const char *s, size_t n, tri_text *out) {
  static const change      first[] = {{"\n", ""},
                                      {"an ", ""},
                                      {"a ", ""},
                                      {".$", "$"},
                                      {"\\$", ""},
                                      {"\\ ", ""},
                                      {" ", ""},
                                      {"mbox", "text"},
                                      {",\\text{and}", ","},
                                      {"\\text{and}", ","},
                                      {"\\text{m}", "\\text{}"}};
  static const char *const gone[] = {"square",       "ways",
                                     "integers",     "dollars",
                                     "mph",          "inches",
                                     "ft",           "hours",
                                     "km",           "units",
                                     "\\ldots",      "sue",
                                     "points",       "feet",
                                     "minutes",      "digits",
                                     "cents",        "degrees",
                                     "cm",           "gm",
                                     "pounds",       "meters",
                                     "meals",        "edges",
                                     "students",     "childrentickets",
                                     "multiples",    "\\text{s}",
                                     "\\text{.}",    "\\text{}^2",
                                     "\\text{}^3",   "\\text{}",
                                     "\\mathrm{th}", "^\\circ",
                                     "^{\\circ}",    "\\;",
                                     ",\\!",         "{,}",
                                     "\"",           "\\dots"};
  const char              *equals;

  TRI_TRY(tri_text_put(out, s, n));
  equals = count(out, "=") == 1 ? find(bytes_of(out), bytes_of(out) + out->len, "=") : NULL;
  if (equals) TRI_TRY(cut(out, equals + 1, out->len - (size_t)(equals + 1 - bytes_of(out))));
  TRI_TRY(REPLACE_ALL(out, first));
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) TRI_TRY(replace(out, gone[i], ""));
  TRI_TRY(take_dollars(out));
  TRI_TRY(unwrap(out, "\\text{"));
  TRI_TRY(unwrap(out, "\\textbf{"));
  TRI_TRY(unwrap(out, "\\overline{"));
  TRI_TRY(unwrap_box(out));
  TRI_TRY(brace_behind(out, "frac", 2));
  TRI_TRY(brace_behind(out, "sqrt", 1));
  TRI_TRY(replace(out, "$", ""));
  return join_thousands(out);
}

/* ---- comparison ---- */

/* Tells whether two normalised answers are equal. Empty ones are not, since they may be two different
 * units. */
static bool are_equal(const tri_text *a, const tri_text *b) {
  return a->len && a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static bool are_equal_numbers(const tri_text *a, const tri_text *b) {
  tri_decimal x, y;

  return tri_decimal_whole(bytes_of(a), a->len, &x) && tri_decimal_whole(bytes_of(b), b->len, &y) &&
         tri_decimal_same(&x, &y);
}

/* One answer in every spelling. */
typedef struct spellings {
  tri_text raw, strip, final, both;
  bool     good; /* result of strip */
} spellings;

static void free_spellings(spellings *x) {
  tri_text_free(&x->raw);
  tri_text_free(&x->strip);
  tri_text_free(&x->final);
  tri_text_free(&x->both);
}

static tri_status spell(tri_part p, spellings *x) {
  TRI_TRY(tri_text_put(&x->raw, p.at, p.n));
  TRI_TRY(tri_math_strip(p.at, p.n, &x->strip, &x->good));
  TRI_TRY(tri_math_final(p.at, p.n, &x->final));
  TRI_TRY(tri_math_final(bytes_of(&x->strip), x->strip.len, &x->both));
  return replace(&x->both, "%", "");
}

/* Tells whether MATH or Minerva would cut the answer. The rests of two different sentences may be equal. */
static bool may_be_cut(tri_part t) {
  static const char *const list[] = {"=", "$", "\\text{ "};

  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (t.n && find(t.at, t.at + t.n, list[i])) return true;
  return false;
}

/* Compares two answers by spelling, if one of them has no value. */
static tri_status same_spelling(tri_part a, tri_part b, bool *same) {
  spellings  x = {0}, y = {0};
  tri_status st = TRI_OK;

  *same = tri_tex_words_equal(a, b);
  if (*same || may_be_cut(a) || may_be_cut(b)) return TRI_OK;
  TRI_TRY_DONE(spell(a, &x));
  TRI_TRY_DONE(spell(b, &y));
  if (x.good && y.good)
    *same = *same || are_equal(&x.strip, &y.strip) || are_equal(&x.both, &y.both) ||
            are_equal_numbers(&x.both, &y.both);
  *same = *same || are_equal(&x.final, &y.final);
done:
  free_spellings(&x);
  free_spellings(&y);
  return st;
}

/* Returns 'a' or 'p' for "a.m.", "PM" and the like at the end of a text, else 0. */
static char half_of_day(tri_part t) {
  char letter[3] = {0};

  while (t.n && strchr(" .}$", t.at[t.n - 1])) t.n--;
  for (int i = 0; i < 3; i++) {
    if (i < 2)
      while (t.n && t.at[t.n - 1] == '.') t.n--;
    letter[i] = t.n ? (char)(t.at[t.n - 1] | 0x20) : ' '; /* lower case */
    if (t.n) t.n--;
  }
  if (letter[0] != 'm' || (letter[2] >= 'a' && letter[2] <= 'z')) return 0;
  return letter[1] == 'a' || letter[1] == 'p' ? letter[1] : 0;
}

/* Tells whether c is space, a quote or a star of Markdown, to be removed at the ends of an answer. */
static bool is_around(char c) { return c && strchr(" \t\r\n*`\"", c); }

static tri_part trimmed(tri_part t) {
  while (t.n && is_around(*t.at)) t = (tri_part){t.at + 1, t.n - 1};
  while (t.n && is_around(t.at[t.n - 1])) t.n--;
  return t;
}

bool tri_math_is_empty(tri_part answer) {
  answer = trimmed(answer);
  return !tri_tex_words_equal(answer, answer);
}

tri_status tri_math_same(tri_part a, tri_part b, bool *same) {
  tri_tex_verdict verdict;
  char            x = half_of_day(a), y = half_of_day(b);

  a = trimmed(a);
  b = trimmed(b);
  *same = a.n == b.n && (!a.n || !memcmp(a.at, b.at, a.n));
  if (*same || (x && y && x != y)) return TRI_OK;
  TRI_TRY(tri_tex_compare(a, b, &verdict));
  if (verdict == TRI_TEX_UNREAD) return same_spelling(a, b, same);
  *same = verdict == TRI_TEX_SAME;
  return TRI_OK;
}
