/* tex_lex.c - the tokens of an answer in TeX or plain text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tex_lex.h"

#include <string.h>

typedef struct word {
  const char  *name;
  tri_tex_kind kind;
} word;

/* Commands for type, size or space only. */
static const char *const blank[] = {"left",         "right",
                                    "bigl",         "bigr",
                                    "Bigl",         "Bigr",
                                    "big",          "Big",
                                    "bigg",         "Bigg",
                                    "biggl",        "biggr",
                                    "mleft",        "mright",
                                    "displaystyle", "textstyle",
                                    "scriptstyle",  "limits",
                                    "quad",         "qquad",
                                    "boxed",        "fbox",
                                    "bf",           "rm",
                                    "it",           "mathstrut",
                                    "thinspace",    "small",
                                    "large",        "Large",
                                    "huge",         "nonumber",
                                    "textdollar",   "scriptscriptstyle"};

static const word command[] = {{"pi", TRI_TEX_PI},
                               {"infty", TRI_TEX_INFINITY},
                               {"emptyset", TRI_TEX_EMPTY},
                               {"varnothing", TRI_TEX_EMPTY},
                               {"imath", TRI_TEX_UNIT_I},
                               {"pm", TRI_TEX_PLUS_MINUS},
                               {"mp", TRI_TEX_MINUS_PLUS},
                               {"cdot", TRI_TEX_TIMES},
                               {"times", TRI_TEX_TIMES},
                               {"ast", TRI_TEX_TIMES},
                               {"div", TRI_TEX_SLASH},
                               {"colon", TRI_TEX_COLON},
                               {"degree", TRI_TEX_DEGREE},
                               {"circ", TRI_TEX_DEGREE},
                               {"le", TRI_TEX_LESS_EQUAL},
                               {"leq", TRI_TEX_LESS_EQUAL},
                               {"leqslant", TRI_TEX_LESS_EQUAL},
                               {"ge", TRI_TEX_GREATER_EQUAL},
                               {"geq", TRI_TEX_GREATER_EQUAL},
                               {"geqslant", TRI_TEX_GREATER_EQUAL},
                               {"lt", TRI_TEX_LESS},
                               {"gt", TRI_TEX_GREATER},
                               {"ne", TRI_TEX_NOT_EQUAL},
                               {"neq", TRI_TEX_NOT_EQUAL},
                               {"approx", TRI_TEX_APPROX},
                               {"in", TRI_TEX_IN},
                               {"cup", TRI_TEX_CUP},
                               {"lparen", TRI_TEX_OPEN},
                               {"rparen", TRI_TEX_CLOSE},
                               {"lbrack", TRI_TEX_OPEN_SQUARE},
                               {"rbrack", TRI_TEX_CLOSE_SQUARE},
                               {"lbrace", TRI_TEX_OPEN_SET},
                               {"rbrace", TRI_TEX_CLOSE_SET},
                               {"langle", TRI_TEX_OPEN_ANGLE},
                               {"rangle", TRI_TEX_CLOSE_ANGLE},
                               {"lfloor", TRI_TEX_OPEN_FLOOR},
                               {"rfloor", TRI_TEX_CLOSE_FLOOR},
                               {"lceil", TRI_TEX_OPEN_CEILING},
                               {"rceil", TRI_TEX_CLOSE_CEILING},
                               {"vert", TRI_TEX_BAR},
                               {"lvert", TRI_TEX_BAR},
                               {"rvert", TRI_TEX_BAR},
                               {"mid", TRI_TEX_BAR},
                               {"frac", TRI_TEX_FRACTION},
                               {"dfrac", TRI_TEX_FRACTION},
                               {"tfrac", TRI_TEX_FRACTION},
                               {"cfrac", TRI_TEX_FRACTION},
                               {"binom", TRI_TEX_BINOMIAL},
                               {"dbinom", TRI_TEX_BINOMIAL},
                               {"tbinom", TRI_TEX_BINOMIAL},
                               {"sqrt", TRI_TEX_ROOT}};

static const char *const function[] = {"sin",    "cos",    "tan",    "cot",    "sec",  "csc",
                                       "arcsin", "arccos", "arctan", "arccot", "sinh", "cosh",
                                       "tanh",   "log",    "ln",     "exp",    "lg"};

static const char *const greek[] = {
    "alpha", "beta",   "gamma",  "delta", "epsilon", "varepsilon", "zeta",  "eta",      "theta",  "vartheta",
    "iota",  "kappa",  "lambda", "mu",    "nu",      "xi",         "rho",   "sigma",    "tau",    "upsilon",
    "phi",   "varphi", "chi",    "psi",   "omega",   "Gamma",      "Delta", "Theta",    "Lambda", "Xi",
    "Pi",    "Sigma",  "Phi",    "Psi",   "Omega",   "ell",        "angle", "triangle", "hbar"};

/* Commands with an argument in braces that form a name together with it. */
static const char *const accent[] = {"overline",           "bar",     "vec",       "hat",      "tilde",
                                     "overrightarrow",     "mathbb",  "mathcal",   "mathfrak", "mathscr",
                                     "overleftrightarrow", "widehat", "widetilde", "underline"};

/* Commands with a text as argument, such as a word, a unit or a letter. */
static const char *const text[] = {"text",       "mbox",   "textbf",       "textit", "textrm",
                                   "textnormal", "hbox",   "mathrm",       "mathbf", "mathit",
                                   "boldsymbol", "textsf", "operatorname", "mathsf", "emph"};

/* Runs of letters without a backslash that are one token. */
static const word plain[] = {
    {"pi", TRI_TEX_PI},          {"sqrt", TRI_TEX_ROOT},         {"inf", TRI_TEX_INFINITY},
    {"infty", TRI_TEX_INFINITY}, {"infinity", TRI_TEX_INFINITY}, {"and", TRI_TEX_AND},
    {"or", TRI_TEX_AND},         {"percent", TRI_TEX_PERCENT},   {"percentage", TRI_TEX_PERCENT},
    {"pct", TRI_TEX_PERCENT},    {"degrees", TRI_TEX_DEGREE},    {"degree", TRI_TEX_DEGREE},
    {"deg", TRI_TEX_DEGREE}};

/* Units of two or three letters. Longer words differ from products of letters by their length. */
static const char *const unit[] = {"cm",  "mm",  "km",  "ft",  "kg", "mg", "lb",  "lbs", "oz", "hr",
                                   "hrs", "min", "sec", "mph", "sq", "yd", "gal", "ml",  "USD"};

/* Characters beyond ASCII and their tokens. */
static const struct {
  const char  *bytes;
  tri_tex_kind kind;
} character[] = {{"\xe2\x88\x92", TRI_TEX_MINUS},         /* U+2212 */
                 {"\xe2\x80\x90", TRI_TEX_MINUS},         /* U+2010 hyphen */
                 {"\xe2\x80\x91", TRI_TEX_MINUS},         /* U+2011 */
                 {"\xe2\x80\x93", TRI_TEX_MINUS},         /* U+2013 en dash */
                 {"\xef\xb9\xa3", TRI_TEX_MINUS},         /* U+FE63 */
                 {"\xef\xbc\x8d", TRI_TEX_MINUS},         /* U+FF0D */
                 {"\xc2\xb1", TRI_TEX_PLUS_MINUS},        /* U+00B1 */
                 {"\xc3\x97", TRI_TEX_TIMES},             /* U+00D7 */
                 {"\xc2\xb7", TRI_TEX_TIMES},             /* U+00B7 */
                 {"\xe2\x8b\x85", TRI_TEX_TIMES},         /* U+22C5 */
                 {"\xc3\xb7", TRI_TEX_SLASH},             /* U+00F7 */
                 {"\xe2\x81\x84", TRI_TEX_SLASH},         /* U+2044 */
                 {"\xe2\x88\x95", TRI_TEX_SLASH},         /* U+2215 */
                 {"\xe2\x88\x9a", TRI_TEX_ROOT},          /* U+221A */
                 {"\xcf\x80", TRI_TEX_PI},                /* U+03C0 */
                 {"\xe2\x88\x9e", TRI_TEX_INFINITY},      /* U+221E */
                 {"\xe2\x89\xa4", TRI_TEX_LESS_EQUAL},    /* U+2264 */
                 {"\xe2\x89\xa5", TRI_TEX_GREATER_EQUAL}, /* U+2265 */
                 {"\xe2\x89\xa0", TRI_TEX_NOT_EQUAL},     /* U+2260 */
                 {"\xe2\x89\x88", TRI_TEX_APPROX},        /* U+2248 */
                 {"\xe2\x88\x88", TRI_TEX_IN},            /* U+2208 */
                 {"\xe2\x88\xaa", TRI_TEX_CUP},           /* U+222A */
                 {"\xe2\x88\x85", TRI_TEX_EMPTY},         /* U+2205 */
                 {"\xc2\xb0", TRI_TEX_DEGREE}};           /* U+00B0 */

/* No-break, thin, narrow and figure spaces. */
static const char *const space[] = {"\xc2\xa0", "\xe2\x80\x89", "\xe2\x80\xaf", "\xe2\x80\x87",
                                    "\xe2\x81\xa0"};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '~'; }

static bool starts(const char *s, const char *end, const char *what) {
  size_t n = strlen(what);

  return (size_t)(end - s) >= n && !memcmp(s, what, n);
}

static bool is_one_of(const char *const *list, size_t count, tri_part name) {
  for (size_t i = 0; i < count; i++)
    if (strlen(list[i]) == name.n && !memcmp(list[i], name.at, name.n)) return true;
  return false;
}
#define IS_ONE_OF(list, name) is_one_of(list, sizeof(list) / sizeof *(list), name)

static bool find_word(const word *list, size_t count, tri_part name, tri_tex_kind *kind) {
  for (size_t i = 0; i < count; i++)
    if (strlen(list[i].name) == name.n && !memcmp(list[i].name, name.at, name.n)) {
      *kind = list[i].kind;
      return true;
    }
  return false;
}
#define FIND_WORD(list, name, kind) find_word(list, sizeof(list) / sizeof *(list), name, kind)

static size_t count_letters(const char *s, const char *end) {
  size_t n = 0;

  while (s + n < end && is_letter(s[n])) n++;
  return n;
}

static size_t count_digits(const char *s, const char *end) {
  size_t n = 0;

  while (s + n < end && is_digit(s[n])) n++;
  return n;
}

bool tri_tex_braced(const char *s, const char *end, tri_part *inside) {
  int open = 0;

  for (const char *p = s; p < end; p++) {
    if (*p == '\\' && p + 1 < end) {
      p++;
      continue;
    }
    open += (*p == '{') - (*p == '}');
    if (open) continue;
    *inside = (tri_part){s + 1, (size_t)(p - s) - 1};
    return p > s;
  }
  return false;
}

/* ---- space ---- */

/* Returns the number of bytes at s that set only space or type, else 0. */
static size_t blank_bytes(const tri_tex_lexer *x, const char *s) {
  size_t n;

  if (is_space(*s) || *s == '$') return 1;
  for (size_t i = 0; i < sizeof space / sizeof *space; i++)
    if (starts(s, x->end, space[i])) return strlen(space[i]);
  if (*s != '\\' || s + 1 == x->end) return 0;
  if (s[1] == '\\' && !x->matrices && s + 2 < x->end && is_letter(s[2])) return 1; /* "\\frac" */
  if (strchr(" ,;:!$()[]\n", s[1]) && s[1]) return 2;
  n = count_letters(s + 1, x->end);
  return n && IS_ONE_OF(blank, ((tri_part){s + 1, n})) ? n + 1 : 0;
}

static bool skip_blanks(tri_tex_lexer *x) {
  const char *from = x->at;

  while (x->at < x->end) {
    size_t n = blank_bytes(x, x->at);
    if (!n) break;
    x->at += n;
  }
  return x->at > from;
}

/* Tells whether only full stops, line ends and space are left. */
static bool is_end(const tri_tex_lexer *x) {
  const char *s = x->at;

  while (s < x->end) {
    size_t n = *s == '.' ? 1 : !x->matrices && starts(s, x->end, "\\\\") ? 2 : blank_bytes(x, s);
    if (!n) return false;
    s += n;
  }
  return true;
}

/* ---- numbers ---- */

/* Returns the bytes of a mark between two groups of three digits at s, else 0. It is "{,}", a comma with or
 * without \! beside it, a thin space or a space. A comma with space behind it separates elements. */
static size_t group_mark(const tri_tex_lexer *x, const char *s) {
  const char *p = s;
  bool        comma = false, tight = false, wide = false;

  while (p < x->end && p - s < 16) {
    size_t n = blank_bytes(x, p);
    if (starts(p, x->end, "{,}")) {
      tight = true;
      p += 3;
    } else if (*p == ',' && !comma) {
      comma = true;
      p++;
    } else if (starts(p, x->end, "\\!")) {
      tight = true;
      p += 2;
    } else if (n && *p != '$') {
      wide = wide || *p != ' ';
      p += n;
    } else {
      break;
    }
  }
  if (p == s || p == x->end || !is_digit(*p)) return 0;
  if (tight || (wide && !comma)) return (size_t)(p - s);
  return !x->brackets && p - s == 1 ? 1 : 0;
}

/* Returns the end of the whole part. Its first digits are begin .. s. */
static const char *read_groups(const tri_tex_lexer *x, const char *begin, const char *s) {
  if (s - begin > 3 || *begin == '0') return s;
  for (;;) {
    size_t mark = group_mark(x, s);
    if (!mark || count_digits(s + mark, x->end) != 3) return s;
    s += mark + 3;
  }
}

/* Returns the bytes of an exponent "e-3" at s, else 0. */
static size_t exponent_bytes(const char *s, const char *end) {
  size_t sign, n;

  if (s == end || (*s != 'e' && *s != 'E')) return 0;
  sign = s + 1 < end && (s[1] == '-' || s[1] == '+');
  n = count_digits(s + 1 + sign, end);
  return n && n <= 6 ? 1 + sign + n : 0;
}

/* Returns the bytes of \overline{3} at s, behind a decimal point, else 0. */
static size_t repeat_bytes(const char *s, const char *end, tri_part *repeat) {
  size_t   n = starts(s, end, "\\overline") ? 9 : starts(s, end, "\\bar") ? 4 : 0;
  tri_part inside;

  if (!n || s + n == end || s[n] != '{' || !tri_tex_braced(s + n, end, &inside)) return 0;
  if (!inside.n || inside.n > 18 || count_digits(inside.at, end) != inside.n) return 0;
  *repeat = inside;
  return n + inside.n + 2;
}

/* Returns the bytes of the index "_{2}" of a number or name at s, else 0. */
static size_t index_bytes(const char *s, const char *end, tri_part *index) {
  if (s + 1 >= end || *s != '_') return 0;
  if (s[1] == '{') return tri_tex_braced(s + 1, end, index) ? index->n + 3 : 0;
  if (!is_digit(s[1]) && !is_letter(s[1])) return 0;
  *index = (tri_part){s + 1, 1};
  return 2;
}

/* Returns the bytes of "st", "nd", "rd", "th" at s behind digits, else 0. */
static size_t ordinal_bytes(const char *begin, const char *s, const char *end) {
  static const char *const ending[] = {"th", "st", "nd", "rd"};
  int                      last = s > begin && is_digit(s[-1]) ? s[-1] - '0' : -1;

  if (last < 0 || count_letters(s, end) != 2) return 0;
  if (last > 3 || (s - begin > 1 && s[-2] == '1')) last = 0;
  return starts(s, end, ending[last]) ? 2 : 0;
}

static void read_number(tri_tex_lexer *x, bool single, tri_tex_token *out) {
  const char *begin = x->at, *s = begin + count_digits(begin, x->end);

  out->kind = TRI_TEX_NUMBER;
  if (single && is_digit(*begin)) {
    out->text = (tri_part){begin, 1};
    x->at = begin + 1;
    return;
  }
  s = read_groups(x, begin, s);
  if (s < x->end && *s == '.') {
    size_t digits = count_digits(s + 1, x->end), repeat = repeat_bytes(s + 1 + digits, x->end, &out->repeat);
    if (digits || repeat) s += 1 + digits;
    out->text = (tri_part){begin, (size_t)(s - begin)};
    s += repeat;
    if (digits && s + 1 < x->end && *s == '.' && is_digit(s[1])) out->kind = TRI_TEX_BAD; /* 1.2.3 */
  }
  if (!out->repeat.n) {
    s += exponent_bytes(s, x->end);
    out->text = (tri_part){begin, (size_t)(s - begin)};
    s += ordinal_bytes(begin, s, x->end);
  }
  s += index_bytes(s, x->end, &out->base);
  if (s == begin) out->kind = TRI_TEX_BAD; /* a point without digits */
  x->at = s > begin ? s : s + 1;
}

/* ---- names and words ---- */

/* Ends a name that starts at begin, with its index and primes. */
static void finish_name(tri_tex_lexer *x, const char *begin, bool single, tri_tex_token *out) {
  tri_part index;

  out->kind = TRI_TEX_NAME;
  if (!single) {
    x->at += index_bytes(x->at, x->end, &index);
    while (x->at < x->end && *x->at == '\'') x->at++;
  }
  out->text = (tri_part){begin, (size_t)(x->at - begin)};
}

static void read_letters(tri_tex_lexer *x, bool single, tri_tex_token *out) {
  const char *begin = x->at;
  tri_part    run = {begin, count_letters(begin, x->end)};
  char        next;

  if (!single && run.n > 1) {
    out->text = run;
    x->at = begin + run.n;
    if (FIND_WORD(plain, run, &out->kind)) return;
    out->kind = TRI_TEX_FUNCTION;
    if (IS_ONE_OF(function, run)) return;
    out->kind = TRI_TEX_WORD;
    if (run.n > 3 || IS_ONE_OF(unit, run)) return;
  }
  x->at = begin + 1;
  next = x->at < x->end ? *x->at : 0;
  finish_name(x, begin, single, out);
  if (out->text.n > 1 || (next == '_' && !single)) return;
  if (*begin == 'e') out->kind = TRI_TEX_EULER;
  if (*begin == 'i') out->kind = TRI_TEX_UNIT_I;
}

static bool is_conjunction(tri_part t) {
  static const char *const list[] = {"and", "or"};

  while (t.n && (is_space(*t.at) || *t.at == ',')) t = (tri_part){t.at + 1, t.n - 1};
  while (t.n && (is_space(t.at[t.n - 1]) || t.at[t.n - 1] == ',')) t.n--;
  return IS_ONE_OF(list, t);
}

/* Reads the argument in braces of the command out->text as text. */
static void read_text(tri_tex_lexer *x, tri_tex_token *out) {
  static const char *const percent[] = {"percent", "percentage", "pct", "\\%", "%"};
  tri_part                 inside, trimmed;
  bool                     named = out->text.n == 12; /* only \operatorname names functions. \text{sec} means
                                                       * seconds */

  while (x->at < x->end && is_space(*x->at)) x->at++;
  out->kind = TRI_TEX_BAD;
  if (x->at == x->end || *x->at != '{' || !tri_tex_braced(x->at, x->end, &inside)) return;
  x->at = inside.at + inside.n + 1;
  out->text = trimmed = inside;
  while (trimmed.n && is_space(*trimmed.at)) trimmed = (tri_part){trimmed.at + 1, trimmed.n - 1};
  while (trimmed.n && is_space(trimmed.at[trimmed.n - 1])) trimmed.n--;
  out->kind = TRI_TEX_TEXT;
  if (is_conjunction(trimmed)) out->kind = TRI_TEX_AND;
  if (IS_ONE_OF(percent, trimmed)) out->kind = TRI_TEX_PERCENT;
  if (named && IS_ONE_OF(function, trimmed)) {
    out->kind = TRI_TEX_FUNCTION;
    out->text = trimmed;
  }
  if (trimmed.n != 1 || !is_letter(*trimmed.at)) return;
  out->text = trimmed;
  if (*trimmed.at == 'e') out->kind = TRI_TEX_EULER;
  if (*trimmed.at == 'i') out->kind = TRI_TEX_UNIT_I;
}

/* Reads the name behind \begin or \end, as in \begin{pmatrix}. */
static void read_environment(tri_tex_lexer *x, tri_tex_kind kind, tri_tex_token *out) {
  tri_part inside;

  if (x->at == x->end || *x->at != '{' || !tri_tex_braced(x->at, x->end, &inside)) return;
  x->at = inside.at + inside.n + 1;
  out->kind = kind;
  out->text = inside;
}

static void read_command(tri_tex_lexer *x, bool single, tri_tex_token *out) {
  const char *begin = x->at;
  tri_part    name = {begin + 1, count_letters(begin + 1, x->end)}, inside;

  if (!name.n) {
    char c = begin + 1 < x->end ? begin[1] : 0;
    x->at = c ? begin + 2 : x->end;
    if (c == '{') out->kind = TRI_TEX_OPEN_SET;
    if (c == '}') out->kind = TRI_TEX_CLOSE_SET;
    if (c == '%') out->kind = TRI_TEX_PERCENT;
    if (c == '|') out->kind = TRI_TEX_BAR;
    if (c == '\\' && x->matrices) out->kind = TRI_TEX_ROW;
    return;
  }
  x->at = name.at + name.n;
  out->text = name;
  if (FIND_WORD(command, name, &out->kind)) return;
  if (IS_ONE_OF(function, name)) {
    out->kind = TRI_TEX_FUNCTION;
  } else if (IS_ONE_OF(greek, name)) {
    finish_name(x, begin, single, out);
  } else if (IS_ONE_OF(text, name)) {
    read_text(x, out);
  } else if (IS_ONE_OF(accent, name)) {
    if (x->at < x->end && *x->at == '{' && tri_tex_braced(x->at, x->end, &inside)) {
      x->at = inside.at + inside.n + 1;
      finish_name(x, begin, single, out);
    }
  } else if (name.n == 5 && !memcmp(name.at, "begin", 5)) {
    read_environment(x, TRI_TEX_BEGIN, out);
  } else if (name.n == 3 && !memcmp(name.at, "end", 3)) {
    read_environment(x, TRI_TEX_FINISH, out);
  }
}

/* ---- signs ---- */

static const struct {
  char         c;
  tri_tex_kind kind;
} sign[] = {{'+', TRI_TEX_PLUS},        {'-', TRI_TEX_MINUS},        {'*', TRI_TEX_TIMES},
            {'/', TRI_TEX_SLASH},       {':', TRI_TEX_COLON},        {'^', TRI_TEX_POWER},
            {'!', TRI_TEX_BANG},        {'%', TRI_TEX_PERCENT},      {',', TRI_TEX_COMMA},
            {';', TRI_TEX_SEMICOLON},   {'=', TRI_TEX_EQUAL},        {'<', TRI_TEX_LESS},
            {'>', TRI_TEX_GREATER},     {'(', TRI_TEX_OPEN},         {')', TRI_TEX_CLOSE},
            {'[', TRI_TEX_OPEN_SQUARE}, {']', TRI_TEX_CLOSE_SQUARE}, {'{', TRI_TEX_OPEN_BRACE},
            {'}', TRI_TEX_CLOSE_BRACE}, {'|', TRI_TEX_BAR},          {'&', TRI_TEX_CELL}};

/* Reads a degree or the ending of an ordinal number behind a caret: ^\circ, ^{\circ}, ^o, ^{th}. */
static bool read_raised(tri_tex_lexer *x, tri_tex_token *out) {
  static const char *const degree[] = {"\\circ", "\\degree", "o", "\\text{o}", "\\prime"};
  static const char *const ending[] = {"th",           "st",         "nd",         "rd",        "\\text{th}",
                                       "\\mathrm{th}", "\\text{st}", "\\text{nd}", "\\text{rd}"};
  const char              *s = x->at + 1;
  tri_part                 inside;

  while (s < x->end && is_space(*s)) s++;
  if (s == x->end) return false;
  if (starts(s, x->end, "\\circ")) {
    inside = (tri_part){s, 5};
    x->at = s + 5;
  } else {
    if (*s != '{' || !tri_tex_braced(s, x->end, &inside)) return false;
    s = inside.at + inside.n + 1;
    while (inside.n && is_space(*inside.at)) inside = (tri_part){inside.at + 1, inside.n - 1};
    while (inside.n && is_space(inside.at[inside.n - 1])) inside.n--;
    if (!IS_ONE_OF(degree, inside) && !IS_ONE_OF(ending, inside)) return false;
    x->at = s;
  }
  out->kind = IS_ONE_OF(ending, inside) ? TRI_TEX_WORD : TRI_TEX_DEGREE;
  out->text = inside;
  return true;
}

static void read_sign(tri_tex_lexer *x, tri_tex_token *out) {
  const char *s = x->at;

  for (size_t i = 0; i < sizeof sign / sizeof *sign; i++)
    if (sign[i].c == *s) out->kind = sign[i].kind;
  x->at++;
  if (starts(s, x->end, "**")) {
    out->kind = TRI_TEX_POWER;
    x->at++;
  } else if (starts(s, x->end, "<=") || starts(s, x->end, ">=") || starts(s, x->end, "!=")) {
    out->kind = *s == '<' ? TRI_TEX_LESS_EQUAL : *s == '>' ? TRI_TEX_GREATER_EQUAL : TRI_TEX_NOT_EQUAL;
    x->at++;
  } else if (*s == '^') {
    x->at = s;
    if (!read_raised(x, out)) x->at = s + 1;
  }
}

static void read_character(tri_tex_lexer *x, tri_tex_token *out) {
  static const char *const raised[] = {"\xc2\xb2", "\xc2\xb3"}; /* U+00B2, U+00B3 */

  for (size_t i = 0; i < sizeof character / sizeof *character; i++)
    if (starts(x->at, x->end, character[i].bytes)) {
      out->kind = character[i].kind;
      x->at += strlen(character[i].bytes);
      return;
    }
  for (size_t i = 0; i < 2; i++)
    if (starts(x->at, x->end, raised[i])) {
      out->kind = TRI_TEX_POWER;
      out->text = (tri_part){i ? "3" : "2", 1};
      x->at += 2;
      return;
    }
  x->at++;
}

void tri_tex_next(tri_tex_lexer *x, bool single, tri_tex_token *out) {
  *out = (tri_tex_token){.kind = TRI_TEX_BAD};
  out->spaced = skip_blanks(x);
  out->begin = x->at;
  if (is_end(x)) {
    out->kind = TRI_TEX_END;
    x->at = x->end;
    return;
  }
  if (is_digit(*x->at) || (*x->at == '.' && (count_digits(x->at + 1, x->end) || x->at[1] == '\\')))
    read_number(x, single, out);
  else if (is_letter(*x->at))
    read_letters(x, single, out);
  else if (*x->at == '\\')
    read_command(x, single, out);
  else if ((unsigned char)*x->at < 0x80)
    read_sign(x, out);
  else
    read_character(x, out);
}

bool tri_tex_starts_argument(tri_tex_kind kind) {
  switch (kind) {
  case TRI_TEX_NUMBER:
  case TRI_TEX_NAME:
  case TRI_TEX_PI:
  case TRI_TEX_EULER:
  case TRI_TEX_UNIT_I:
  case TRI_TEX_FRACTION:
  case TRI_TEX_ROOT:
    return true;
  default:
    return false;
  }
}

tri_part tri_tex_inverse(tri_part name) {
  static const char *const list[] = {"arcsin", "arccos", "arctan", "arccot"};

  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (name.n == 3 && !memcmp(list[i] + 3, name.at, 3)) return (tri_part){list[i], 6};
  return (tri_part){NULL, 0};
}

bool tri_tex_is_matrix(tri_part name) {
  static const char *const list[] = {"pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array"};

  return IS_ONE_OF(list, name);
}

bool tri_tex_closes(tri_tex_kind kind) {
  return kind == TRI_TEX_END || kind == TRI_TEX_CLOSE_BRACE || kind == TRI_TEX_CLOSE_SET ||
         kind == TRI_TEX_CLOSE || kind == TRI_TEX_CLOSE_SQUARE;
}

bool tri_tex_is_symbol(tri_part name, bool *takes) {
  tri_tex_kind kind = TRI_TEX_BAD;

  (void)FIND_WORD(command, name, &kind);
  *takes = kind == TRI_TEX_ROOT || kind == TRI_TEX_BINOMIAL || IS_ONE_OF(function, name);
  return *takes || kind == TRI_TEX_PI || kind == TRI_TEX_INFINITY || IS_ONE_OF(greek, name);
}

bool tri_tex_has_digit(const char *s, const char *end) {
  while (s < end && (*s < '0' || *s > '9')) s++;
  return s < end;
}
