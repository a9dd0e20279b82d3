/* tokenizer_onig.c - Oniguruma's regular expressions (tokenizer.json) in the words of PCRE2.
 *
 * What differs: \s, \w, \b, \h, \v and the POSIX classes mean other characters; a class may hold classes and && ;
 * (?m) lets the dot match line ends; (?i) without a colon opens a group; {n,m}+ is no possessive; quantifiers may
 * follow each other; unknown escapes are the letter itself; \p{..} knows long names of categories and means a
 * script, not its extensions. (Oniguruma's doc/RE, ONIG_SYNTAX_ONIGURUMA.) */
#include "io/tokenizer_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 100 }; /* chosen: deeper nesting is taken for damage */

typedef struct parser {
  const char *where, *all, *s, *end; /* s: the next byte */
  size_t      all_n;
  tri_text   *out;
  int         depth;
} parser;

#define SPACES                                                                                               \
  "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

/* name (lower case, without space, _ and -) -> the inside of a class */
static const struct {
  const char *name, *items;
  bool        negative;
} set_row[] = {
    {"space", SPACES, false},
    {"whitespace", SPACES, false},
    {"word", WORD, false},
    {"alpha", "\\p{Alphabetic}", false},
    {"alnum", "\\p{Alphabetic}\\p{Nd}", false},
    {"digit", "\\p{Nd}", false},
    {"xdigit", "0-9a-fA-F", false},
    {"blank", "\\t\\p{Zs}", false},
    {"cntrl", "\\p{Cc}", false},
    {"lower", "\\p{Lowercase}", false},
    {"upper", "\\p{Uppercase}", false},
    {"punct", "\\p{P}\\$\\+<=>\\^`|~", false},
    {"graph", SPACES "\\p{Cc}\\p{Cn}\\p{Cs}", true},
    {"print", "\\p{Cc}\\p{Cn}\\p{Cs}", true},
    {"ascii", "\\x{0}-\\x{7f}", false},
    {"any", "\\x{0}-\\x{10ffff}", false},
    {"assigned", "\\p{Cn}", true},
    {"other", "\\p{C}", false},
    {"control", "\\p{Cc}", false},
    {"format", "\\p{Cf}", false},
    {"unassigned", "\\p{Cn}", false},
    {"privateuse", "\\p{Co}", false},
    {"surrogate", "\\p{Cs}", false},
    {"letter", "\\p{L}", false},
    {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}", false},
    {"lc", "\\p{Lu}\\p{Ll}\\p{Lt}", false},
    {"lowercaseletter", "\\p{Ll}", false},
    {"modifierletter", "\\p{Lm}", false},
    {"otherletter", "\\p{Lo}", false},
    {"titlecaseletter", "\\p{Lt}", false},
    {"uppercaseletter", "\\p{Lu}", false},
    {"mark", "\\p{M}", false},
    {"combiningmark", "\\p{M}", false},
    {"spacingmark", "\\p{Mc}", false},
    {"enclosingmark", "\\p{Me}", false},
    {"nonspacingmark", "\\p{Mn}", false},
    {"number", "\\p{N}", false},
    {"decimalnumber", "\\p{Nd}", false},
    {"letternumber", "\\p{Nl}", false},
    {"othernumber", "\\p{No}", false},
    {"punctuation", "\\p{P}", false},
    {"connectorpunctuation", "\\p{Pc}", false},
    {"dashpunctuation", "\\p{Pd}", false},
    {"closepunctuation", "\\p{Pe}", false},
    {"finalpunctuation", "\\p{Pf}", false},
    {"initialpunctuation", "\\p{Pi}", false},
    {"otherpunctuation", "\\p{Po}", false},
    {"openpunctuation", "\\p{Ps}", false},
    {"symbol", "\\p{S}", false},
    {"currencysymbol", "\\p{Sc}", false},
    {"modifiersymbol", "\\p{Sk}", false},
    {"mathsymbol", "\\p{Sm}", false},
    {"othersymbol", "\\p{So}", false},
    {"separator", "\\p{Z}", false},
    {"lineseparator", "\\p{Zl}", false},
    {"paragraphseparator", "\\p{Zp}", false},
    {"spaceseparator", "\\p{Zs}", false},
};

/* A set of characters: the inside of a class, to be negated or not. */
typedef struct char_set {
  char items[256];
  bool negative;
} char_set;

static tri_status parse_alternatives(parser *p, bool extended);
static tri_status parse_class(parser *p, tri_text *out);

static tri_status refuse(const parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static tri_status refuse(const parser *p, const char *fmt, ...) {
  char    why[160];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  TRI_FAIL(TRI_EINPUT, "%s: the regular expression '%.*s' cannot be used: %s", p->where,
           (int)(p->all_n < 400 ? p->all_n : 400), p->all, why);
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

/* ---- sets by name ---- */

static void set_items(char_set *set, const char *items, bool negative) {
  snprintf(set->items, sizeof set->items, "%s", items);
  set->negative = negative;
}

static bool compiles(const char *pattern) {
  int         code;
  PCRE2_SIZE  where;
  pcre2_code *re =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);

  pcre2_code_free(re);
  return re != NULL;
}

static tri_status find_set(parser *p, const char *name, size_t n, char_set *set) {
  char   plain[64], pattern[96];
  size_t k = 0;

  for (size_t i = 0; i < n && k + 1 < sizeof plain; i++)
    if (isalnum((unsigned char)name[i])) plain[k++] = (char)tolower((unsigned char)name[i]);
  plain[k] = 0;
  for (size_t i = 0; i < sizeof set_row / sizeof *set_row; i++)
    if (!strcmp(plain, set_row[i].name)) {
      set_items(set, set_row[i].items, set_row[i].negative);
      return TRI_OK;
    }
  snprintf(pattern, sizeof pattern, "\\p{sc:%s}", plain);
  if (!compiles(pattern)) snprintf(pattern, sizeof pattern, "\\p{%s}", plain);
  if (!k || !compiles(pattern))
    return refuse(p, "no characters are known by the name '%.*s'", (int)(n < 60 ? n : 60), name);
  set_items(set, pattern, false);
  return TRI_OK;
}

/* After \p or \P: {name}, {^name} or one letter. */
static tri_status parse_property(parser *p, bool negative, char_set *set) {
  const char *close;

  if (p->s == p->end) return refuse(p, "it ends in \\p");
  if (*p->s != '{') {
    TRI_TRY(find_set(p, p->s, 1, set));
    p->s++;
  } else {
    close = memchr(p->s, '}', (size_t)(p->end - p->s));
    if (!close) return refuse(p, "a \\p{ is not closed");
    p->s++;
    if (skip(p, "^")) negative = !negative;
    TRI_TRY(find_set(p, p->s, (size_t)(close - p->s), set));
    p->s = close + 1;
  }
  if (negative) set->negative = !set->negative;
  return TRI_OK;
}

/* The set behind a backslash, if that is one; *is_set tells. p->s stands on the letter. */
static tri_status parse_set(parser *p, char_set *set, bool *is_set) {
  char letter = *p->s;

  *is_set = true;
  switch (letter) {
  case 's':
  case 'S':
    set_items(set, SPACES, letter == 'S');
    break;
  case 'w':
  case 'W':
    set_items(set, WORD, letter == 'W');
    break;
  case 'd':
  case 'D':
    set_items(set, "\\p{Nd}", letter == 'D');
    break;
  case 'h':
  case 'H':
    set_items(set, "0-9a-fA-F", letter == 'H');
    break;
  case 'p':
  case 'P':
    p->s++;
    return parse_property(p, letter == 'P', set);
  default:
    *is_set = false;
    return TRI_OK;
  }
  p->s++;
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

/* The character behind a backslash; p->s stands behind the backslash. */
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
    if (*c >= 0x80) return refuse(p, "\\x%x is a single byte; write \\x{...}", (unsigned)*c);
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

/* What one side of && has gathered: the inside of a class, and further one-character alternatives. */
typedef struct union_text {
  tri_text items, more;
} union_text;

static void union_free(union_text *u) {
  tri_text_free(&u->items);
  tri_text_free(&u->more);
}

static tri_status union_add(union_text *u, const char_set *set) {
  if (!set->negative) return tri_text_printf(&u->items, "%s", set->items);
  return tri_text_printf(&u->more, "%s[^%s]", u->more.len ? "|" : "", set->items);
}

/* An expression that matches one character of the union. */
static tri_status union_put(const union_text *u, tri_text *out) {
  if (!u->items.len && !u->more.len) return tri_text_put(out, "(?!)", 4);
  if (!u->more.len) return tri_text_printf(out, "[%s]", u->items.data);
  if (!u->items.len) return tri_text_printf(out, "(?:%s)", u->more.data);
  return tri_text_printf(out, "(?:[%s]|%s)", u->items.data, u->more.data);
}

/* [:name:] or [:^name:]; *found false: it is none, and p->s has not moved. */
static tri_status parse_posix(parser *p, char_set *set, bool *found) {
  const char *s = p->s + 2, *name;
  bool        negative = false;

  *found = false;
  if (!at(p, "[:")) return TRI_OK;
  if (s < p->end && *s == '^') negative = true, s++;
  for (name = s; s < p->end && isalpha((unsigned char)*s);) s++;
  if (s == name || p->end - s < 2 || s[0] != ':' || s[1] != ']') return TRI_OK;
  TRI_TRY(find_set(p, name, (size_t)(s - name), set));
  if (negative) set->negative = !set->negative;
  p->s = s + 2;
  *found = true;
  return TRI_OK;
}

/* One element of a class that is no nested class: a set (*is_set) or a character. */
static tri_status parse_element(parser *p, char_set *set, bool *is_set, int32_t *c) {
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
  char_set set;
  bool     is_set;
  int32_t  from = 0, to = 0;

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
  if (is_set) { /* [a-\d]: the minus is itself */
    TRI_TRY(put_char(&u->items, '-'));
    return union_add(u, &set);
  }
  if (to < from)
    return refuse(p, "the range U+%04X-U+%04X of a class is empty", (unsigned)from, (unsigned)to);
  TRI_TRY(tri_text_put(&u->items, "-", 1));
  return put_char(&u->items, to);
}

/* p->s stands behind the [. Appends an expression of one character. */
static tri_status parse_class(parser *p, tri_text *out) {
  bool       negative = skip(p, "^"), first = true;
  union_text u = {{0}, {0}};
  tri_text   both = {0}; /* lookaheads of the operands of && so far */
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

/* The name or number in <> or '' behind \k and \g. */
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

static tri_status parse_escape(parser *p) {
  static const char word_edge[] = "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))";
  static const char no_edge[] = "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))";
  char_set          set;
  bool              is_set;
  int32_t           c;

  if (p->s == p->end) return refuse(p, "it ends in a backslash");
  if (*p->s == 'y' || *p->s == 'Y') return refuse(p, "\\%c (text segments) is not supported", *p->s);
  if (skip(p, "b")) return tri_text_printf(p->out, "%s", word_edge);
  if (skip(p, "B")) return tri_text_printf(p->out, "%s", no_edge);
  if (skip(p, "O")) return tri_text_printf(p->out, "(?s:.)");
  if (*p->s && strchr("AZzGRXNK", *p->s)) return tri_text_printf(p->out, "\\%c", *p->s++);
  if ((*p->s == 'k' || *p->s == 'g') && p->end - p->s > 2 && (p->s[1] == '<' || p->s[1] == '\'')) {
    p->s++;
    return parse_reference(p, p->s[-1]);
  }
  if (*p->s >= '1' && *p->s <= '9') {
    TRI_TRY(parse_number(p, 10, 3, &c));
    return tri_text_printf(p->out, "\\g{%d}", c);
  }
  TRI_TRY(parse_set(p, &set, &is_set));
  if (is_set) return tri_text_printf(p->out, "[%s%s]", set.negative ? "^" : "", set.items);
  TRI_TRY(parse_escaped(p, &c));
  return put_char(p->out, c);
}

/* (?imx-imx) and (?imx-imx:...); p->s stands behind the question mark. */
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
  if (*p->s++ == ')') { /* holds to the end of the group around it, alternatives and all */
    TRI_TRY(parse_alternatives(p, extended));
    return tri_text_put(p->out, ")", 1);
  }
  TRI_TRY(parse_alternatives(p, extended));
  if (!skip(p, ")")) return refuse(p, "a ( is not closed");
  return tri_text_put(p->out, ")", 1);
}

/* p->s stands behind the (. */
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

/* {n}, {n,}, {n,m}, {,m} into `text`; false: the brace is itself. */
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

/* White space and comments of an extended pattern. */
static bool skip_blank(parser *p) {
  const char *s = p->s;

  while (p->s < p->end && strchr(" \t\n\r\f\v", *p->s) && *p->s) p->s++;
  if (at(p, "#"))
    while (p->s < p->end && *p->s != '\n') p->s++;
  return p->s > s;
}

/* Put what stands in *out from `start` on in a group of its own. */
static tri_status wrap(tri_text *out, size_t start) {
  TRI_TRY(tri_text_put(out, "(?:)", 4));
  memmove(out->data + start + 3, out->data + start, out->len - start - 4);
  memcpy(out->data + start, "(?:", 3);
  out->data[out->len - 1] = ')';
  return TRI_OK;
}

/* The quantifiers behind the atom that stands in *out from `start` on. */
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

/* Up to the ) of the group around, or the end. */
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
