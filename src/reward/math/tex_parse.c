/* tex_parse.c - parses an answer in TeX into a tree. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tex_parse.h"

#include <string.h>

/* The state of a parse. Once `failed` is set, every function returns as soon as it can. */
typedef struct parser {
  tri_tex_lexer lexer;
  tri_tex_token token; /* the next token */
  tri_tex_tree *tree;
  int           depth;
  int           bars; /* open absolute values. A bar then closes the last */
  bool          failed;
} parser;

static int parse_elements(parser *p, tri_tex_shape shape);
static int parse_sum(parser *p);
static int parse_factor(parser *p);
static int parse_primary(parser *p);

/* ---- tokens and nodes ---- */

static void advance(parser *p) { tri_tex_next(&p->lexer, false, &p->token); }

static bool at(const parser *p, tri_tex_kind kind) { return p->token.kind == kind; }

static bool take(parser *p, tri_tex_kind kind) {
  if (!at(p, kind)) return false;
  advance(p);
  return true;
}

static int fail(parser *p) {
  p->failed = true;
  return 0;
}

static tri_tex_node *node_of(parser *p, int i) { return &p->tree->node[i]; }

static int make(parser *p, tri_tex_shape shape) {
  int i = tri_tex_make(p->tree, shape);

  return i < 0 ? fail(p) : i;
}

static void give(parser *p, int parent, int child) {
  if (!p->failed) tri_tex_give(p->tree, parent, child);
}

static int make_1(parser *p, tri_tex_shape shape, int a) {
  int i = make(p, shape);

  give(p, i, a);
  return i;
}

static int make_2(parser *p, tri_tex_shape shape, int a, int b) {
  int i = make_1(p, shape, a);

  give(p, i, b);
  return i;
}

static int make_text(parser *p, tri_tex_shape shape) {
  int i = make(p, shape);

  if (p->failed) return 0;
  node_of(p, i)->text = p->token.text;
  node_of(p, i)->repeat = p->token.repeat;
  node_of(p, i)->base = p->token.base;
  advance(p);
  return i;
}

static int make_leaf(parser *p, tri_tex_shape shape) {
  advance(p);
  return make(p, shape);
}

static bool deeper(parser *p) {
  if (p->failed || p->depth == TRI_TEX_DEPTH) {
    p->failed = true;
    return false;
  }
  p->depth++;
  return true;
}

/* ---- factors ---- */

/* Reads one value in braces or brackets, from the opening token up to `close`. */
static int parse_group(parser *p, tri_tex_kind close) {
  int x;

  if (!deeper(p)) return 0;
  advance(p);
  x = parse_sum(p);
  if (!take(p, close)) return fail(p);
  p->depth--;
  return x;
}

/* Reads a single digit, letter or command, as TeX takes an argument without braces. */
static int parse_single(parser *p) {
  tri_tex_lexer *x = &p->lexer;
  bool           digit = at(p, TRI_TEX_NUMBER),
       letter = at(p, TRI_TEX_NAME) || at(p, TRI_TEX_WORD) || at(p, TRI_TEX_EULER) || at(p, TRI_TEX_UNIT_I);

  if (at(p, TRI_TEX_OPEN_BRACE)) return parse_group(p, TRI_TEX_CLOSE_BRACE);
  if (!deeper(p)) return 0;
  if (digit || letter) {
    x->at = p->token.begin;
    tri_tex_next(x, true, &p->token);
  }
  int made = digit ? make_text(p, TRI_SHAPE_NUMBER) : parse_primary(p);
  p->depth--;
  return made;
}

/* Reads the exponent behind a caret. It is an argument of TeX, or in plain text a whole number or a
 * bracket. */
static int parse_exponent(parser *p) {
  int x;

  if (!deeper(p)) return 0;
  if (at(p, TRI_TEX_OPEN_BRACE)) {
    x = parse_group(p, TRI_TEX_CLOSE_BRACE);
  } else if (take(p, TRI_TEX_MINUS)) {
    x = make_1(p, TRI_SHAPE_NEGATIVE, parse_exponent(p));
  } else if (at(p, TRI_TEX_NUMBER)) {
    x = make_text(p, TRI_SHAPE_NUMBER);
  } else if (at(p, TRI_TEX_OPEN)) {
    p->lexer.brackets++;
    x = parse_group(p, TRI_TEX_CLOSE);
    p->lexer.brackets--;
  } else {
    x = parse_single(p);
  }
  p->depth--;
  return x;
}

/* Reads a root. \\sqrt takes an argument of TeX, and a root in plain text a whole number. */
static int parse_root(parser *p) {
  bool tex = *p->token.begin == '\\';
  int  order = -1, x;

  advance(p);
  if (tex && at(p, TRI_TEX_OPEN_SQUARE)) order = parse_group(p, TRI_TEX_CLOSE_SQUARE);
  x = !tex && at(p, TRI_TEX_NUMBER) ? make_text(p, TRI_SHAPE_NUMBER) : parse_single(p);
  return order < 0 ? make_1(p, TRI_SHAPE_ROOT, x) : make_2(p, TRI_SHAPE_ROOT, x, order);
}

static int parse_function(parser *p);

/* Reads the argument of a function. It is a single bracket, or all factors up to the next sign or
 * function. */
static int parse_argument(parser *p) {
  int x, product;

  if (at(p, TRI_TEX_OPEN) || at(p, TRI_TEX_OPEN_BRACE) || (at(p, TRI_TEX_BAR) && !p->bars) ||
      at(p, TRI_TEX_INFINITY))
    return parse_factor(p);
  if (at(p, TRI_TEX_FUNCTION)) { /* \ln\ln x */
    if (!deeper(p)) return 0;
    x = parse_function(p);
    p->depth--;
    return x;
  }
  if (!tri_tex_starts_argument(p->token.kind)) return fail(p);
  x = parse_factor(p);
  if (!tri_tex_starts_argument(p->token.kind)) return x;
  product = make_1(p, TRI_SHAPE_PRODUCT, x);
  while (!p->failed && tri_tex_starts_argument(p->token.kind)) give(p, product, parse_factor(p));
  return product;
}

/* Reads the base of a logarithm. The lexer gives "_" as a bad token, so it is read again from its place in
 * the text. */
static int parse_base(parser *p) {
  tri_tex_lexer *x = &p->lexer;

  x->at = p->token.begin + 1;
  advance(p);
  return parse_single(p);
}

static bool is_minus_one(parser *p, int i) {
  const tri_tex_node *x = node_of(p, i);

  if (p->failed || x->shape != TRI_SHAPE_NEGATIVE) return false;
  x = node_of(p, x->first);
  return x->shape == TRI_SHAPE_NUMBER && x->text.n == 1 && *x->text.at == '1';
}

static int parse_function(parser *p) {
  tri_part name = p->token.text;
  int      power = -1, base = -1, x;

  advance(p);
  if (!p->failed && at(p, TRI_TEX_BAD) && *p->token.begin == '_') base = parse_base(p);
  if (take(p, TRI_TEX_POWER)) power = parse_exponent(p);
  if (!p->failed && base < 0 && at(p, TRI_TEX_BAD) && *p->token.begin == '_') base = parse_base(p);
  x = parse_argument(p);
  if (power >= 0 && is_minus_one(p, power)) { /* \sin^{-1} x is \arcsin x, but \sec^{-1} x is not \cos x */
    name = tri_tex_inverse(name);
    if (base >= 0 || !name.n) return fail(p);
    power = -1;
  }
  x = base < 0 ? make_1(p, TRI_SHAPE_FUNCTION, x) : make_2(p, TRI_SHAPE_FUNCTION, x, base);
  if (!p->failed) node_of(p, x)->text = name;
  return power < 0 ? x : make_2(p, TRI_SHAPE_POWER, x, power);
}

static int parse_between(parser *p, tri_tex_kind close, tri_tex_shape shape) {
  int bar = close == TRI_TEX_BAR, x;

  p->bars += bar;
  x = parse_group(p, close);
  p->bars -= bar;
  return make_1(p, shape, x);
}

/* Reads ( ... ), [ ... ], ( ... ], \langle ... \rangle as a value in brackets or as a tuple. */
static int parse_brackets(parser *p) {
  static const char of[][2] = {{'(', ')'}, {'[', ']'}};
  bool              square = at(p, TRI_TEX_OPEN_SQUARE), angle = at(p, TRI_TEX_OPEN_ANGLE), closes_square;
  int               x;

  if (!deeper(p)) return 0;
  p->lexer.brackets++;
  advance(p);
  x = parse_elements(p, TRI_SHAPE_TUPLE);
  p->lexer.brackets--;
  closes_square = at(p, TRI_TEX_CLOSE_SQUARE);
  if (angle ? !at(p, TRI_TEX_CLOSE_ANGLE) : !at(p, TRI_TEX_CLOSE) && !closes_square) return fail(p);
  advance(p);
  p->depth--;
  if (p->failed) return 0;
  if (node_of(p, x)->shape == TRI_SHAPE_TUPLE && !node_of(p, x)->open) {
    node_of(p, x)->open = of[square][0];
    node_of(p, x)->close = of[closes_square][1];
  } else if (square != closes_square) {
    return fail(p);
  }
  return x;
}

/* Skips "x \mid" before a condition on x. */
static void skip_letter_of_set(parser *p) {
  tri_tex_lexer kept = p->lexer;
  tri_tex_token token = p->token;

  if (take(p, TRI_TEX_NAME) && (take(p, TRI_TEX_BAR) || take(p, TRI_TEX_COLON))) return;
  p->lexer = kept;
  p->token = token;
}

static int parse_set(parser *p, tri_tex_kind close) {
  bool set = close == TRI_TEX_CLOSE_SET;
  int  x;

  if (!deeper(p)) return 0;
  p->lexer.brackets += set;
  advance(p);
  if (set) skip_letter_of_set(p);
  x = set && at(p, close) ? make(p, TRI_SHAPE_EMPTY) : parse_elements(p, TRI_SHAPE_SET);
  p->lexer.brackets -= set;
  if (!take(p, close)) return fail(p);
  p->depth--;
  if (set && !p->failed && node_of(p, x)->shape != TRI_SHAPE_SET && node_of(p, x)->shape != TRI_SHAPE_EMPTY)
    x = make_1(p, TRI_SHAPE_SET, x);
  return x;
}

static int parse_matrix(parser *p) {
  bool array = p->token.text.n == 5;
  int  x = make(p, TRI_SHAPE_MATRIX), columns = 0, rows = 0, cells = 0;

  if (!tri_tex_is_matrix(p->token.text) || !deeper(p)) return fail(p);
  if (array) { /* skips {cc}, the alignment of its columns */
    tri_part places;
    while (p->lexer.at < p->lexer.end && *p->lexer.at == ' ') p->lexer.at++;
    if (p->lexer.at < p->lexer.end && tri_tex_braced(p->lexer.at, p->lexer.end, &places))
      p->lexer.at = places.at + places.n + 1;
  }
  p->lexer.matrices++;
  advance(p);
  while (!p->failed) {
    give(p, x, parse_sum(p));
    cells++;
    if (take(p, TRI_TEX_CELL)) continue;
    if (rows++ == 0) columns = cells;
    if (cells != rows * columns) return fail(p);
    if (take(p, TRI_TEX_ROW) && !at(p, TRI_TEX_FINISH)) continue;
    break;
  }
  p->lexer.matrices--;
  if (!take(p, TRI_TEX_FINISH)) return fail(p);
  p->depth--;
  if (!p->failed) node_of(p, x)->columns = (int16_t)columns;
  return x;
}

static int parse_fraction(parser *p, tri_tex_shape shape) {
  int a;

  advance(p);
  a = parse_single(p);
  return make_2(p, shape, a, parse_single(p));
}

static int parse_primary(parser *p) {
  switch (p->token.kind) {
  case TRI_TEX_NUMBER:
    return make_text(p, TRI_SHAPE_NUMBER);
  case TRI_TEX_NAME:
    return make_text(p, TRI_SHAPE_NAME);
  case TRI_TEX_TEXT:
  case TRI_TEX_WORD:
    return make_text(p, TRI_SHAPE_TEXT);
  case TRI_TEX_PI:
    return make_leaf(p, TRI_SHAPE_PI);
  case TRI_TEX_EULER:
    return make_text(p, TRI_SHAPE_EULER);
  case TRI_TEX_UNIT_I:
    return make_text(p, TRI_SHAPE_UNIT_I);
  case TRI_TEX_INFINITY:
    return make_leaf(p, TRI_SHAPE_INFINITY);
  case TRI_TEX_EMPTY:
    return make_leaf(p, TRI_SHAPE_EMPTY);
  case TRI_TEX_OPEN:
  case TRI_TEX_OPEN_ANGLE:
  case TRI_TEX_OPEN_SQUARE:
    return parse_brackets(p);
  case TRI_TEX_OPEN_BRACE:
    return parse_set(p, TRI_TEX_CLOSE_BRACE);
  case TRI_TEX_OPEN_SET:
    return parse_set(p, TRI_TEX_CLOSE_SET);
  case TRI_TEX_OPEN_FLOOR:
    return parse_between(p, TRI_TEX_CLOSE_FLOOR, TRI_SHAPE_FLOOR);
  case TRI_TEX_OPEN_CEILING:
    return parse_between(p, TRI_TEX_CLOSE_CEILING, TRI_SHAPE_CEILING);
  case TRI_TEX_BAR:
    return parse_between(p, TRI_TEX_BAR, TRI_SHAPE_ABSOLUTE);
  case TRI_TEX_FRACTION:
    return parse_fraction(p, TRI_SHAPE_QUOTIENT);
  case TRI_TEX_BINOMIAL:
    return parse_fraction(p, TRI_SHAPE_BINOMIAL);
  case TRI_TEX_ROOT:
    return parse_root(p);
  case TRI_TEX_FUNCTION:
    return parse_function(p);
  case TRI_TEX_BEGIN:
    return parse_matrix(p);
  default:
    return fail(p);
  }
}

/* Reads an exponent: a raised digit in the token, or the text behind the caret. */
static int parse_raised(parser *p) {
  bool digit = p->token.text.n;

  if (digit) return make_text(p, TRI_SHAPE_NUMBER);
  advance(p);
  return parse_exponent(p);
}

static int parse_factor(parser *p) {
  int x = parse_primary(p);

  while (!p->failed) switch (p->token.kind) {
    case TRI_TEX_POWER:
      x = make_2(p, TRI_SHAPE_POWER, x, parse_raised(p));
      break;
    case TRI_TEX_BANG:
      advance(p);
      x = make_1(p, TRI_SHAPE_FACTORIAL, x);
      break;
    case TRI_TEX_PERCENT:
      advance(p);
      x = make_1(p, TRI_SHAPE_PERCENT, x);
      break;
    case TRI_TEX_DEGREE:
      advance(p);
      x = make_1(p, TRI_SHAPE_DEGREE, x);
      break;
    default:
      return x;
    }
  return x;
}

/* ---- products ---- */

static bool starts_factor(const parser *p) {
  switch (p->token.kind) {
  case TRI_TEX_BINOMIAL:
  case TRI_TEX_INFINITY:
  case TRI_TEX_OPEN:
  case TRI_TEX_OPEN_SQUARE:
  case TRI_TEX_OPEN_BRACE:
  case TRI_TEX_OPEN_FLOOR:
  case TRI_TEX_OPEN_CEILING:
  case TRI_TEX_FUNCTION:
  case TRI_TEX_BEGIN:
    return true;
  case TRI_TEX_BAR:
    return !p->bars;
  default:
    return tri_tex_starts_argument(p->token.kind);
  }
}

/* Skips a unit behind the value that begins at `begin`, perhaps raised to a power. A word without \text
 * behind letters alone is not skipped, because it may be anything. */
static void skip_unit(parser *p, const char *begin) {
  if (at(p, TRI_TEX_WORD) && !tri_tex_has_digit(begin, p->token.begin)) return;
  while (!p->failed && (at(p, TRI_TEX_TEXT) || at(p, TRI_TEX_WORD))) {
    advance(p);
    if (at(p, TRI_TEX_POWER)) (void)parse_raised(p);
    if (at(p, TRI_TEX_SLASH) || at(p, TRI_TEX_TIMES) || at(p, TRI_TEX_MINUS)) { /* km/h, N m */
      tri_tex_lexer kept = p->lexer;
      tri_tex_token token = p->token;
      bool          slash = at(p, TRI_TEX_SLASH);
      advance(p);
      if (at(p, TRI_TEX_TEXT) || at(p, TRI_TEX_WORD)) continue;
      if (slash && take(p, TRI_TEX_NAME)) continue;
      p->lexer = kept;
      p->token = token;
    }
  }
}

/* Reads factors side by side. An integer before a fraction is a mixed number. */
static int parse_juxtaposed(parser *p) {
  int x = parse_factor(p), product = -1;

  while (!p->failed && starts_factor(p)) {
    int y;
    if (at(p, TRI_TEX_NUMBER)) { /* "1 2/3", never "2 3" */
      if (product >= 0 || !tri_tex_is_integer(p->tree, x) || !p->token.spaced) {
        if (node_of(p, x)->shape == TRI_SHAPE_NUMBER) return fail(p);
        y = parse_factor(p);
      } else {
        y = parse_factor(p);
        if (!tri_tex_is_integer(p->tree, y) || !take(p, TRI_TEX_SLASH) || !at(p, TRI_TEX_NUMBER))
          return fail(p);
        return make_2(p, TRI_SHAPE_SUM, x, make_2(p, TRI_SHAPE_QUOTIENT, y, make_text(p, TRI_SHAPE_NUMBER)));
      }
    } else {
      bool fraction = at(p, TRI_TEX_FRACTION),
           call = at(p, TRI_TEX_OPEN) && node_of(p, x)->shape == TRI_SHAPE_NAME;
      y = parse_factor(p);
      if (p->failed) return 0;
      if (call && product < 0 && node_of(p, y)->shape == TRI_SHAPE_NUMBER) { /* f(2) is not a product */
        tri_part name = node_of(p, x)->text;
        x = make_1(p, TRI_SHAPE_FUNCTION, y);
        if (!p->failed) node_of(p, x)->text = name;
        continue;
      }
      if (product < 0 && fraction && tri_tex_is_integer(p->tree, x) && tri_tex_is_fraction(p->tree, y)) {
        x = make_2(p, TRI_SHAPE_SUM, x, y);
        continue;
      }
    }
    if (product < 0) product = make_1(p, TRI_SHAPE_PRODUCT, x);
    give(p, product, y);
    x = y;
  }
  return product < 0 ? x : product;
}

/* Reads a factor behind a multiplication or division sign. It may have a sign of its own. */
static int parse_signed(parser *p) {
  bool negative = at(p, TRI_TEX_MINUS);
  int  x;

  if (negative || at(p, TRI_TEX_PLUS)) advance(p);
  x = parse_juxtaposed(p);
  return negative ? make_1(p, TRI_SHAPE_NEGATIVE, x) : x;
}

static int parse_product(parser *p) {
  const char *begin = p->token.begin;
  int         x = parse_juxtaposed(p);

  while (!p->failed && (at(p, TRI_TEX_TIMES) || at(p, TRI_TEX_SLASH))) {
    tri_tex_shape shape = at(p, TRI_TEX_TIMES) ? TRI_SHAPE_PRODUCT : TRI_SHAPE_QUOTIENT;
    advance(p);
    x = make_2(p, shape, x, parse_signed(p));
  }
  if (p->failed) return 0;
  if (node_of(p, x)->shape != TRI_SHAPE_TEXT) skip_unit(p, begin);
  x = tri_tex_spread(p->tree, x);
  return x < 0 ? fail(p) : x;
}

/* ---- sums ---- */

static bool is_sign(const parser *p) {
  return at(p, TRI_TEX_PLUS) || at(p, TRI_TEX_MINUS) || at(p, TRI_TEX_PLUS_MINUS) ||
         at(p, TRI_TEX_MINUS_PLUS);
}

/* Reads a sign and its term. left < 0 means that nothing stands before the sign. */
static int parse_signed_term(parser *p, int left) {
  tri_tex_kind kind = p->token.kind;
  int          x;

  advance(p);
  if (is_sign(p)) { /* - -3, -(-3) */
    if (!deeper(p)) return 0;
    x = parse_signed_term(p, -1);
    p->depth--;
  } else {
    x = parse_product(p);
  }
  if (kind == TRI_TEX_PLUS_MINUS || kind == TRI_TEX_MINUS_PLUS) {
    tri_tex_shape shape = kind == TRI_TEX_PLUS_MINUS ? TRI_SHAPE_PLUS_MINUS : TRI_SHAPE_MINUS_PLUS;
    x = left < 0 ? make_1(p, shape, x) : make_2(p, shape, left, x);
    if (!p->failed) node_of(p, x)->two_valued = true;
    return x;
  }
  if (kind == TRI_TEX_MINUS) x = make_1(p, TRI_SHAPE_NEGATIVE, x);
  if (left < 0) return x;
  if (node_of(p, left)->shape == TRI_SHAPE_SUM && node_of(p, left)->next < 0 && !p->failed) {
    give(p, left, x);
    return left;
  }
  return make_2(p, TRI_SHAPE_SUM, left, x);
}

static int parse_sum(parser *p) {
  int x = is_sign(p) ? parse_signed_term(p, -1) : parse_product(p);

  while (!p->failed && is_sign(p)) x = parse_signed_term(p, x);
  return x;
}

/* ---- elements ---- */

/* Reads a ratio such as "1:2:3". */
static int parse_ratio(parser *p) {
  int x = parse_sum(p), ratio = -1;

  while (!p->failed && take(p, TRI_TEX_COLON)) {
    if (ratio < 0) ratio = make_1(p, TRI_SHAPE_RATIO, x);
    give(p, ratio, parse_sum(p));
  }
  return ratio < 0 ? x : ratio;
}

static int parse_union(parser *p) {
  int x = parse_ratio(p), all = -1;

  while (!p->failed && take(p, TRI_TEX_CUP)) {
    if (all < 0) all = make_1(p, TRI_SHAPE_UNION, x);
    give(p, all, parse_ratio(p));
  }
  return all < 0 ? x : all;
}

static bool is_relation(const parser *p) {
  return p->token.kind >= TRI_TEX_EQUAL && p->token.kind <= TRI_TEX_IN;
}

/* Reads an element with its relations. */
static int parse_element(parser *p) {
  const char *begin = p->token.begin;
  int         x, all = -1;

  (void)take(p, TRI_TEX_APPROX);
  x = parse_union(p);
  while (!p->failed && is_relation(p)) {
    tri_tex_kind kind = p->token.kind;
    int          y;
    if (all < 0) all = make_1(p, TRI_SHAPE_RELATION, x);
    advance(p);
    y = parse_union(p);
    if (p->failed) return 0;
    node_of(p, y)->relation = kind;
    give(p, all, y);
  }
  if (all >= 0) x = all;
  if (!p->failed && !node_of(p, x)->source.n)
    node_of(p, x)->source = (tri_part){begin, (size_t)(p->token.begin - begin)};
  return x;
}

static bool take_separators(parser *p) {
  bool any = false;

  while (at(p, TRI_TEX_COMMA) || at(p, TRI_TEX_SEMICOLON) || at(p, TRI_TEX_AND)) {
    advance(p);
    any = true;
  }
  return any;
}

/* Reads one element, or a node of this shape if there are several. */
static int parse_elements(parser *p, tri_tex_shape shape) {
  const char *begin = p->token.begin;
  int         x = parse_element(p), all = -1;

  while (!p->failed && take_separators(p) && !tri_tex_closes(p->token.kind)) {
    if (all < 0) all = make_1(p, shape, x);
    give(p, all, parse_element(p));
  }
  if (all < 0 || p->failed) return x;
  node_of(p, all)->source = (tri_part){begin, (size_t)(p->token.begin - begin)};
  return all;
}

bool tri_tex_parse(tri_part answer, tri_tex_tree *out) {
  parser p = {.lexer = {.at = answer.at, .end = answer.at + answer.n}, .tree = out};

  out->n = 0;
  out->node[0] = (tri_tex_node){.first = -1, .last = -1, .next = -1};
  if (!answer.n || answer.n > TRI_TEX_BYTES) return false;
  advance(&p);
  out->root = parse_elements(&p, TRI_SHAPE_LIST);
  return !p.failed && at(&p, TRI_TEX_END);
}
