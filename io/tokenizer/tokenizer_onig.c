/* tokenizer_onig.c - translates Oniguruma's regular expressions (tokenizer.json) to PCRE2.
 *
 * These differ in Oniguruma. \s, \w, \b, \h, \v and the POSIX classes mean other characters. A class may
 * contain classes and "&&". (?m) lets the dot match line ends. (?i) without a colon opens a group. {n,m}+ is
 * not possessive. Quantifiers may follow each other. Unknown escapes are the letter itself. \p{..} knows long
 * names of categories, and a script name excludes its extensions. (Oniguruma's doc/RE,
 * ONIG_SYNTAX_ONIGURUMA.) */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tokenizer_impl.h"

#include <stdarg.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 100 }; /* chosen, deeper nesting is treated as damage */

typedef struct parser {
  const char *where, *all, *s, *end; /* s: the next byte */
  size_t      all_n;
  tri_text   *out;
  int         depth;
} parser;

static tri_status parse_alternatives(parser *p, bool extended);
static tri_status parse_class(parser *p, tri_text *out);

/* Every refusal has the place of its caller. */
#define refuse(p, ...) refuse_in(__func__, __LINE__, p, __VA_ARGS__)
static tri_status refuse_in(const char *func, int line, const parser *p, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static tri_status refuse_in(const char *func, int line, const parser *p, const char *fmt, ...) {
  char    why[160];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  return tri_fail(__FILE__, line, func, TRI_EINPUT, "%s: the regular expression '%.*s' cannot be used: %s",
                  p->where, (int)(p->all_n < 400 ? p->all_n : 400), p->all, why);
}

static bool at(const parser *p, const char *word) {
  size_t n = strlen(word);
  return (size_t)(p->end - p->s) >= n && !memcmp(p->s, word, n);
}

static bool skip(parser *p, const char *word) {
  if (!at(p, word)) return false;
  p->s += strlen(word);
  return true;
}

static tri_status put_char(tri_text *out, int32_t c) {
  char utf8[4];

  if (c < 0x80 && !isalnum(c)) return tri_text_printf(out, "\\x{%x}", (unsigned)c);
  return tri_text_put(out, utf8, (size_t)tri_tok_put_char(c, utf8));
}

/* ---- sets of characters ---- */

static tri_status find_set(const parser *p, const char *name, size_t n, tri_tok_set *set) {
  if (tri_tok_set_find(name, n, set)) return TRI_OK;
  return refuse(p, "there is no character set '%.*s'", (int)(n < 60 ? n : 60), name);
}

/* Parses {name} or {^name} after \p or \P. */
static tri_status parse_property(parser *p, bool negative, tri_tok_set *set) {
  const char *close = memchr(p->s, '}', (size_t)(p->end - p->s));

  if (!close) return refuse(p, "a \\p{ is not closed");
  p->s++;
  if (skip(p, "^")) negative = !negative;
  TRI_TRY(find_set(p, p->s, (size_t)(close - p->s), set));
  p->s = close + 1;
  if (negative) set->negative = !set->negative;
  return TRI_OK;
}

/* Parses the set after a backslash. *is_set: there is one. p->s points to the letter. */
static tri_status parse_set(parser *p, tri_tok_set *set, bool *is_set) {
  static const struct {
    char        letter;
    const char *name;
  } row[] = {{'s', "space"}, {'w', "word"}, {'d', "digit"}, {'h', "xdigit"}};
  char letter = *p->s;

  *is_set = true;
  if (at(p, "p{") || at(p, "P{")) {
    p->s++;
    return parse_property(p, letter == 'P', set);
  }
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (tolower((unsigned char)letter) == row[i].letter) {
      p->s++;
      TRI_TRY(find_set(p, row[i].name, strlen(row[i].name), set));
      if (letter != row[i].letter) set->negative = !set->negative;
      return TRI_OK;
    }
  *is_set = false;
  return TRI_OK;
}

/* ---- single characters ---- */

static tri_status parse_number(parser *p, int base, int max_digits, int32_t *c) {
  int n = 0;

  *c = 0;
  for (; p->s < p->end && n < max_digits; p->s++, n++) {
    int digit = isdigit((unsigned char)*p->s)    ? *p->s - '0'
                : isxdigit((unsigned char)*p->s) ? tolower((unsigned char)*p->s) - 'a' + 10
                                                 : 99;
    if (digit >= base) break;
    if (*c > 0x10ffff) break;
    *c = *c * base + digit;
  }
  if (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000)) return refuse(p, "U+%X is no character", (unsigned)*c);
  return TRI_OK;
}

/* Parses the character after a backslash. p->s is after the backslash. */
static tri_status parse_escaped(parser *p, int32_t *c) {
  static const char letter[] = "ntrfvae", value[] = "\n\t\r\f\v\a\x1b";
  const char       *found;

  if (p->s == p->end) return refuse(p, "it ends in a backslash");
  found = *p->s ? strchr(letter, *p->s) : NULL;
  if (found) {
    *c = value[found - letter];
    p->s++;
    return TRI_OK;
  }
  if (skip(p, "x{") || skip(p, "o{")) {
    TRI_TRY(parse_number(p, p->s[-2] == 'x' ? 16 : 8, 11, c));
    if (!skip(p, "}")) return refuse(p, "a \\x{ or \\o{ is not closed");
    return TRI_OK;
  }
  if (skip(p, "x")) {
    TRI_TRY(parse_number(p, 16, 2, c));
    if (*c >= 0x80) return refuse(p, "\\x%x is a single byte. Write \\x{...}", (unsigned)*c);
    return TRI_OK;
  }
  if (skip(p, "u")) return parse_number(p, 16, 4, c);
  if (at(p, "0")) return parse_number(p, 8, 3, c);
  if ((at(p, "c") && p->end - p->s > 1 && (uint8_t)p->s[1] < 0x80) || (at(p, "C-") && p->end - p->s > 2)) {
    p->s += *p->s == 'c' ? 1 : 2;
    *c = *p->s++ & 0x1f;
    return TRI_OK;
  }
  p->s += tri_tok_char(p->s, (size_t)(p->end - p->s), c);
  return TRI_OK;
}

/* ---- classes ---- */

/* The operand of && gathered so far: the inside of a class, and more one-character alternatives. */
typedef struct union_text {
  tri_text items, more;
} union_text;

static void union_free(union_text *u) {
  tri_text_free(&u->items);
  tri_text_free(&u->more);
}

static tri_status union_add(union_text *u, const tri_tok_set *set) {
  if (!set->negative) return tri_tok_set_put(set, &u->items);
  TRI_TRY(tri_text_printf(&u->more, "%s[^", u->more.len ? "|" : ""));
  TRI_TRY(tri_tok_set_put(set, &u->more));
  return tri_text_put(&u->more, "]", 1);
}

/* Appends an expression that matches one character of the union. */
static tri_status union_put(const union_text *u, tri_text *out) {
  if (!u->items.len && !u->more.len) return tri_text_put(out, "(?!)", 4);
  if (!u->more.len) return tri_text_printf(out, "[%s]", u->items.data);
  if (!u->items.len) return tri_text_printf(out, "(?:%s)", u->more.data);
  return tri_text_printf(out, "(?:[%s]|%s)", u->items.data, u->more.data);
}

/* Parses [:name:] or [:^name:]. *found false: there is none, and p->s has not moved. */
static tri_status parse_posix(parser *p, tri_tok_set *set, bool *found) {
  const char *s = p->s + 2, *name;
  bool        negative = false;

  *found = false;
  if (!at(p, "[:")) return TRI_OK;
  if (s < p->end && *s == '^') negative = true, s++;
  for (name = s; s < p->end && isalpha((unsigned char)*s);) s++;
  if (s == name || p->end - s < 2 || s[0] != ':' || s[1] != ']') return TRI_OK;
  if (s - name == 5 && !memcmp(name, "punct", 5)) /* larger than \\p{Punct} */
    TRI_TRY(find_set(p, "posixpunct", 10, set));
  else
    TRI_TRY(find_set(p, name, (size_t)(s - name), set));
  if (negative) set->negative = !set->negative;
  p->s = s + 2;
  *found = true;
  return TRI_OK;
}

/* Parses one element of a class, except a nested class: a set (*is_set) or a character. */
static tri_status parse_element(parser *p, tri_tok_set *set, bool *is_set, int32_t *c) {
  *is_set = false;
  if (p->s == p->end) return refuse(p, "a [ is not closed");
  if (*p->s == '[') return parse_posix(p, set, is_set);
  if (skip(p, "\\")) {
    if (p->s == p->end) return refuse(p, "it ends in a backslash");
    TRI_TRY(parse_set(p, set, is_set));
    return *is_set ? TRI_OK : parse_escaped(p, c);
  }
  p->s += tri_tok_char(p->s, (size_t)(p->end - p->s), c);
  return TRI_OK;
}

static tri_status parse_item(parser *p, union_text *u) {
  tri_tok_set set;
  bool        is_set;
  int32_t     from = 0, to = 0;

  if (*p->s == '[') {
    TRI_TRY(parse_posix(p, &set, &is_set));
    if (is_set) return union_add(u, &set);
    p->s++;
    if (u->more.len) TRI_TRY(tri_text_put(&u->more, "|", 1));
    return parse_class(p, &u->more);
  }
  TRI_TRY(parse_element(p, &set, &is_set, &from));
  if (is_set) return union_add(u, &set);
  TRI_TRY(put_char(&u->items, from));
  if (p->end - p->s < 2 || *p->s != '-' || p->s[1] == ']' || p->s[1] == '[' || at(p, "-&&")) return TRI_OK;
  p->s++;
  TRI_TRY(parse_element(p, &set, &is_set, &to));
  if (is_set) { /* [a-\d]: the minus is literal */
    TRI_TRY(put_char(&u->items, '-'));
    return union_add(u, &set);
  }
  if (to < from)
    return refuse(p, "the range U+%04X-U+%04X of a class is empty", (unsigned)from, (unsigned)to);
  TRI_TRY(tri_text_put(&u->items, "-", 1));
  return put_char(&u->items, to);
}

/* Appends an expression for one character. p->s is after the [. */
static tri_status parse_class(parser *p, tri_text *out) {
  bool       negative = skip(p, "^"), first = true;
  union_text u = {{0}, {0}};
  tri_text   both = {0}; /* lookaheads for the operands of && so far */
  tri_status st = TRI_OK;

  if (++p->depth > MAX_DEPTH) return refuse(p, "it nests more than %d deep", MAX_DEPTH);
  for (;; first = false) {
    if (p->s == p->end) TRI_TRY_DONE(refuse(p, "a [ is not closed"));
    if (*p->s == ']' && !(first && memchr(p->s + 1, ']', (size_t)(p->end - p->s) - 1))) break;
    if (skip(p, "&&")) {
      TRI_TRY_DONE(tri_text_put(&both, "(?=", 3));
      TRI_TRY_DONE(union_put(&u, &both));
      TRI_TRY_DONE(tri_text_put(&both, ")", 1));
      union_free(&u);
      continue;
    }
    TRI_TRY_DONE(parse_item(p, &u));
  }
  if (first) TRI_TRY_DONE(refuse(p, "a class is empty"));
  p->s++;
  p->depth--;
  if (negative && !both.len && !u.more.len) {
    TRI_TRY_DONE(tri_text_printf(out, "[^%s]", u.items.data));
    goto done;
  }
  if (negative) TRI_TRY_DONE(tri_text_put(out, "(?:(?!", 6));
  if (both.len) TRI_TRY_DONE(tri_text_printf(out, "(?:%s", both.data));
  TRI_TRY_DONE(union_put(&u, out));
  if (both.len) TRI_TRY_DONE(tri_text_put(out, ")", 1));
  if (negative) TRI_TRY_DONE(tri_text_put(out, ")(?s:.))", 8));
done:
  union_free(&u);
  tri_text_free(&both);
  return st;
}

/* ---- outside of classes ---- */

/* Copies the name or number in <> or '' after \k and \g. */
static tri_status parse_reference(parser *p, char letter) {
  char        closer = *p->s == '<' ? '>' : '\'';
  const char *close = memchr(p->s + 1, closer, (size_t)(p->end - p->s) - 1);

  if (!close) return refuse(p, "a \\%c is not closed", letter);
  TRI_TRY(tri_text_printf(p->out, "\\%c%.*s",
                          isdigit((unsigned char)p->s[1]) || p->s[1] == '-' ? 'g' : letter,
                          (int)(close + 1 - p->s), p->s));
  p->s = close + 1;
  return TRI_OK;
}

/* Appends \w, \p{L} and the like outside of a class. Only there Oniguruma's word includes the No characters
 * of Latin-1. */
static tri_status put_set(const tri_tok_set *set, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "[%s", set->negative ? "^" : ""));
  TRI_TRY(tri_tok_set_put(set, out));
  return tri_text_printf(out, "%s]", set->word ? "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}" : "");
}

/* Appends \b or \B for Oniguruma's word. */
static tri_status put_edge(const parser *p, bool edge, tri_text *out) {
  static const char *const look[2][4] = {{"(?:(?<=", ")(?=", ")|(?<!", ")(?!"},
                                         {"(?:(?<=", ")(?!", ")|(?<!", ")(?="}};
  tri_tok_set              word;

  TRI_TRY(find_set(p, "word", 4, &word));
  for (int i = 0; i < 4; i++) {
    TRI_TRY(tri_text_printf(out, "%s", look[edge][i]));
    TRI_TRY(put_set(&word, out));
  }
  return tri_text_printf(out, "))");
}

static tri_status parse_escape(parser *p) {
  /* PCRE2 10.42 takes pictographs in a row as one cluster. This follows UAX #29, GB9 to GB11. */
  static const char cluster[] =
      "(?>\\p{Extended_Pictographic}(?:[\\p{Mn}\\p{Me}\\x{200c}\\x{1f3fb}-\\x{1f3ff}]*\\x{200d}"
      "\\p{Extended_Pictographic})*[\\p{M}\\x{200c}\\x{200d}\\x{1f3fb}-\\x{1f3ff}]*|\\X)";
  tri_tok_set set;
  bool        is_set;
  int32_t     c;

  if (p->s == p->end) return refuse(p, "it ends in a backslash");
  if (*p->s == 'y' || *p->s == 'Y') return refuse(p, "\\%c (text segments) is not supported", *p->s);
  if (skip(p, "b")) return put_edge(p, true, p->out);
  if (skip(p, "B")) return put_edge(p, false, p->out);
  if (skip(p, "X")) return tri_text_printf(p->out, "%s", cluster);
  if (skip(p, "O")) return tri_text_printf(p->out, "(?s:.)");
  if (*p->s && strchr("AZzGRNK", *p->s)) return tri_text_printf(p->out, "\\%c", *p->s++);
  if ((*p->s == 'k' || *p->s == 'g') && p->end - p->s > 1 && (p->s[1] == '<' || p->s[1] == '\'')) {
    p->s++;
    return parse_reference(p, p->s[-1]);
  }
  if (*p->s >= '1' && *p->s <= '9') {
    TRI_TRY(parse_number(p, 10, 3, &c));
    return tri_text_printf(p->out, "\\g{%d}", c);
  }
  TRI_TRY(parse_set(p, &set, &is_set));
  if (is_set) return put_set(&set, p->out);
  TRI_TRY(parse_escaped(p, &c));
  return put_char(p->out, c);
}

/* Parses (?imx-imx) and (?imx-imx:...). p->s is after the question mark. */
static tri_status parse_options(parser *p, bool extended) {
  bool on = true;

  TRI_TRY(tri_text_put(p->out, "(?", 2));
  for (; p->s < p->end && *p->s != ')' && *p->s != ':'; p->s++) {
    if (*p->s == '-' && on)
      on = false;
    else if (*p->s == 'x') {
      extended = on;
      continue;
    } else if (*p->s != 'i' && *p->s != 'm')
      return refuse(p, "the group option '%c' is not supported", *p->s);
    TRI_TRY(tri_text_put(p->out, *p->s == 'm' ? "s" : p->s, 1));
  }
  if (p->s == p->end) return refuse(p, "a ( is not closed");
  TRI_TRY(tri_text_put(p->out, ":", 1));
  if (*p->s++ == ')') { /* valid up to the end of the enclosing group, across its alternatives */
    TRI_TRY(parse_alternatives(p, extended));
    return tri_text_put(p->out, ")", 1);
  }
  TRI_TRY(parse_alternatives(p, extended));
  if (!skip(p, ")")) return refuse(p, "a ( is not closed");
  return tri_text_put(p->out, ")", 1);
}

/* Parses a group. p->s is after the (. */
static tri_status parse_group(parser *p, bool extended) {
  static const char *const opening[] = {"?:", "?=", "?!", "?>", "?<=", "?<!"};
  const char              *close;
  size_t                   i;

  if (skip(p, "?#")) {
    close = memchr(p->s, ')', (size_t)(p->end - p->s));
    if (!close) return refuse(p, "a ( is not closed");
    p->s = close + 1;
    return TRI_OK;
  }
  TRI_TRY(tri_text_put(p->out, "(", 1));
  for (i = 0; i < sizeof opening / sizeof *opening; i++)
    if (skip(p, opening[i])) break;
  if (i < sizeof opening / sizeof *opening) {
    TRI_TRY(tri_text_printf(p->out, "%s", opening[i]));
  } else if (at(p, "?<") || at(p, "?'")) {
    close = memchr(p->s + 2, p->s[1] == '<' ? '>' : '\'', (size_t)(p->end - p->s) - 2);
    if (!close) return refuse(p, "the name of a group is not closed");
    TRI_TRY(tri_text_put(p->out, p->s, (size_t)(close + 1 - p->s)));
    p->s = close + 1;
  } else if (skip(p, "?")) {
    p->out->data[--p->out->len] = 0;
    return parse_options(p, extended);
  } else if (at(p, "*")) {
    return refuse(p, "callouts are not supported");
  }
  TRI_TRY(parse_alternatives(p, extended));
  if (!skip(p, ")")) return refuse(p, "a ( is not closed");
  return tri_text_put(p->out, ")", 1);
}

/* Parses {n}, {n,}, {n,m} or {,m} into `text`. false: the brace is literal. */
static bool parse_interval(parser *p, char text[32], bool *exact) {
  const char *s = p->s + 1, *low = s;

  while (s < p->end && isdigit((unsigned char)*s)) s++;
  *exact = s < p->end && *s == '}';
  if (s < p->end && *s == ',')
    for (s++; s < p->end && isdigit((unsigned char)*s);) s++;
  if (s == p->end || *s != '}' || s - low > 20 || s - low < (*exact ? 1 : 2)) return false;
  snprintf(text, 32, "{%s%.*s}", *low == ',' ? "0" : "", (int)(s - low), low);
  p->s = s + 1;
  return true;
}

/* Skips white space and comments of an extended pattern. */
static bool skip_blank(parser *p) {
  const char *s = p->s;

  while (p->s < p->end && strchr(" \t\n\r\f\v", *p->s) && *p->s) p->s++;
  if (at(p, "#"))
    while (p->s < p->end && *p->s != '\n') p->s++;
  return p->s > s;
}

/* Puts a group around the text of *out from `start` on. */
static tri_status wrap(tri_text *out, size_t start) {
  TRI_TRY(tri_text_put(out, "(?:)", 4));
  memmove(out->data + start + 3, out->data + start, out->len - start - 4);
  memcpy(out->data + start, "(?:", 3);
  out->data[out->len - 1] = ')';
  return TRI_OK;
}

/* Parses the quantifiers after the atom in *out from `start` on. */
static tri_status parse_quantifiers(parser *p, size_t start, bool extended) {
  char text[32];
  bool exact = false, simple;

  for (int n = 0; n < MAX_DEPTH; n++) {
    while (extended && skip_blank(p)) {
    }
    simple = at(p, "*") || at(p, "+") || at(p, "?");
    if (simple)
      snprintf(text, sizeof text, "%c", *p->s++);
    else if (!at(p, "{") || !parse_interval(p, text, &exact))
      return TRI_OK;
    if (n) TRI_TRY(wrap(p->out, start));
    TRI_TRY(tri_text_printf(p->out, "%s", text));
    if ((simple || !exact) && skip(p, "?"))
      TRI_TRY(tri_text_put(p->out, "?", 1));
    else if (simple && skip(p, "+"))
      TRI_TRY(tri_text_put(p->out, "+", 1));
  }
  return refuse(p, "more than %d quantifiers in a row", MAX_DEPTH);
}

static tri_status parse_atom(parser *p, bool extended) {
  int32_t c;

  if (skip(p, "(")) return parse_group(p, extended);
  if (skip(p, "[")) return parse_class(p, p->out);
  if (skip(p, "\\")) return parse_escape(p);
  if (at(p, "*") || at(p, "+") || at(p, "?")) return refuse(p, "nothing stands before a %c", *p->s);
  if (at(p, ".") || at(p, "^") || at(p, "$")) return tri_text_put(p->out, p->s++, 1);
  p->s += tri_tok_char(p->s, (size_t)(p->end - p->s), &c);
  return put_char(p->out, c);
}

/* Parses up to the ) of the enclosing group, or to the end. */
static tri_status parse_alternatives(parser *p, bool extended) {
  if (++p->depth > MAX_DEPTH) return refuse(p, "it nests more than %d deep", MAX_DEPTH);
  while (p->s < p->end && *p->s != ')') {
    size_t start = p->out->len;
    if (extended && skip_blank(p)) continue;
    if (skip(p, "|")) {
      TRI_TRY(tri_text_put(p->out, "|", 1));
      continue;
    }
    TRI_TRY(parse_atom(p, extended));
    TRI_TRY(parse_quantifiers(p, start, extended));
  }
  p->depth--;
  return TRI_OK;
}

tri_status tri_tok_regex_translate(const char *where, const char *s, size_t n, tri_text *out) {
  parser p = {where, s, s, s + n, n, out, 0};

  TRI_TRY(parse_alternatives(&p, false));
  if (p.s < p.end) return refuse(&p, "a ) has no (");
  return TRI_OK;
}
