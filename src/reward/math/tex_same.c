/* tex_same.c - compares two answers: values, lists, intervals, matrices and relations. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tex_same.h"

#include "base/host_memory.h"
#include "math_value.h"
#include "tex_words.h"

#include <string.h>

/* Limits, chosen: elements of a list, comparisons, products of all evaluations together (some 10 ms), and
 * kept values. Answers with more elements or comparisons are not the same. With more products they count as
 * not read. */
enum { ELEMENTS_MOST = 128, COMPARISONS_MOST = 2000, WORK_MOST = 250000, VALUES_MOST = 256 };

/* A node of one answer. `sign` is the sign taken by \pm, 1 or -1, or 0 while both are meant. */
typedef struct side {
  const tri_tex_tree *tree;
  int                 node, sign;
} side;

typedef struct elements {
  int  n;
  side at[ELEMENTS_MOST];
} elements;

/* Work left for a comparison of two answers, and values computed so far. */
typedef struct search {
  int                 comparisons;
  int64_t             work;
  const tri_tex_tree *tree; /* the first of the two trees */
  int                 n;
  tri_math_value      value[VALUES_MOST];
  int16_t place[2][TRI_TEX_NODES][2]; /* 1 + index in value by tree, node and sign, 0 if not computed */
} search;

static bool same(search *s, side a, side b);

static const tri_tex_node *node_of(side a) { return &a.tree->node[a.node]; }
static tri_tex_shape       shape_of(side a) { return node_of(a)->shape; }
static side                child(side a, int i) { return (side){a.tree, i, a.sign}; }
static side                first_of(side a) { return child(a, node_of(a)->first); }
static side                last_of(side a) { return child(a, node_of(a)->last); }

static tri_part source_of(side a) {
  const tri_tex_node *x = node_of(a);

  return x->source.n ? x->source : x->text;
}

/* ---- values ---- */

static side without_sign(side a) { return shape_of(a) == TRI_SHAPE_NEGATIVE ? first_of(a) : a; }

/* Returns the value of a node and computes it only once. */
static tri_math_value value_of(search *s, side a) {
  int16_t       *place = &s->place[a.tree != s->tree][a.node][a.sign < 0];
  tri_math_value x;

  if (*place) return s->value[*place - 1];
  x = tri_math_evaluate(a.tree, a.node, a.sign < 0 ? -1 : 1, 0, &s->work);
  if (s->n < VALUES_MOST) {
    s->value[s->n++] = x;
    *place = (int16_t)s->n;
  }
  return x;
}

static bool values_equal(search *s, side a, side b) {
  tri_math_value   u = value_of(s, a), v = value_of(s, b);
  tri_math_operand x = {a.tree, a.node, a.sign < 0 ? -1 : 1, &u},
                   y = {b.tree, b.node, b.sign < 0 ? -1 : 1, &v};

  return tri_math_values_equal(&x, &y, &s->work);
}

/* Tells whether two numbers have different indices. A number with an index, 204_5, is compared by its
 * digits. */
static bool bases_differ(side a, side b) {
  tri_part x = node_of(without_sign(a))->base, y = node_of(without_sign(b))->base;

  return x.n && y.n && !tri_tex_words_equal(x, y);
}

/* Compares two values. 28% equals 28 and 0.28. */
static bool same_value(search *s, side a, side b) {
  bool percent_a = shape_of(a) == TRI_SHAPE_PERCENT, percent_b = shape_of(b) == TRI_SHAPE_PERCENT;

  if (bases_differ(a, b)) return false;
  if (values_equal(s, a, b)) return true;
  return percent_a != percent_b && values_equal(s, percent_a ? first_of(a) : a, percent_b ? first_of(b) : b);
}

/* Tells whether a ratio such as 4:30 may be a time of day. */
static bool may_be_clock(side a) {
  const tri_tex_node *minutes = node_of(last_of(a));

  return minutes->shape == TRI_SHAPE_NUMBER && minutes->text.n == 2 && *minutes->text.at < '6';
}

static bool same_row(search *s, side a, side b) {
  int x = node_of(a)->first, y = node_of(b)->first;

  if (node_of(a)->n != node_of(b)->n) return false;
  for (; x >= 0; x = a.tree->node[x].next, y = b.tree->node[y].next)
    if (!same(s, child(a, x), child(b, y))) return false;
  return true;
}

static bool same_ratio(search *s, side a, side b) {
  if (node_of(a)->n == 2 && node_of(b)->n == 2 && !may_be_clock(a) && !may_be_clock(b) &&
      values_equal(s, a, b))
    return true;
  return same_row(s, a, b);
}

/* ---- relations ---- */

static bool is_inequality(tri_tex_kind k) { return k >= TRI_TEX_LESS && k <= TRI_TEX_GREATER_EQUAL; }
static bool is_strict(tri_tex_kind k) { return k == TRI_TEX_LESS || k == TRI_TEX_GREATER; }
static bool is_rising(tri_tex_kind k) { return k == TRI_TEX_LESS || k == TRI_TEX_LESS_EQUAL; }

static tri_tex_kind flipped(tri_tex_kind k) {
  switch (k) {
  case TRI_TEX_LESS:
    return TRI_TEX_GREATER;
  case TRI_TEX_LESS_EQUAL:
    return TRI_TEX_GREATER_EQUAL;
  case TRI_TEX_GREATER:
    return TRI_TEX_LESS;
  case TRI_TEX_GREATER_EQUAL:
    return TRI_TEX_LESS_EQUAL;
  default:
    return k;
  }
}

/* Tells whether a node has only letters, as in x, f(x), (x, y), A/B, f(2), and may be the name before a
 * value. */
static bool is_named(side a) {
  const tri_tex_node *x = node_of(a);
  bool                call = x->shape == TRI_SHAPE_FUNCTION ||
              (x->shape == TRI_SHAPE_PRODUCT && shape_of(first_of(a)) != TRI_SHAPE_NUMBER);

  switch (x->shape) {
  case TRI_SHAPE_NAME:
  case TRI_SHAPE_TEXT:
  case TRI_SHAPE_EULER:
  case TRI_SHAPE_UNIT_I:
    return true;
  case TRI_SHAPE_POWER:
    return is_named(first_of(a)); /* f^{-1} */
  case TRI_SHAPE_PRODUCT:
  case TRI_SHAPE_SUM:
  case TRI_SHAPE_QUOTIENT:
  case TRI_SHAPE_RATIO:
  case TRI_SHAPE_ABSOLUTE:
  case TRI_SHAPE_DEGREE:
  case TRI_SHAPE_FUNCTION:
  case TRI_SHAPE_TUPLE:
    for (int c = x->first; c >= 0; c = a.tree->node[c].next)
      if (!is_named(child(a, c)) && !(call && a.tree->node[c].shape == TRI_SHAPE_NUMBER)) return false;
    return true;
  default:
    return false;
  }
}

static bool has_name(side a) {
  if (shape_of(a) == TRI_SHAPE_NAME || shape_of(a) == TRI_SHAPE_TEXT) return true;
  for (int c = node_of(a)->first; c >= 0; c = a.tree->node[c].next)
    if (has_name(child(a, c))) return true;
  return false;
}

static bool all_relations(side a, tri_tex_kind kind) {
  for (int c = a.tree->node[node_of(a)->first].next; c >= 0; c = a.tree->node[c].next)
    if (a.tree->node[c].relation != kind) return false;
  return true;
}

/* Finds the value given by a relation such as x = 5, x \in S, 1/2 = 0.5. */
static bool assigned(side a, side *value) {
  bool equal = all_relations(a, TRI_TEX_EQUAL), named = is_named(first_of(a));

  *value = last_of(a);
  if (named && (equal || all_relations(a, TRI_TEX_IN) || all_relations(a, TRI_TEX_APPROX))) return true;
  if (equal && !has_name(a)) return true;
  *value = first_of(a);
  return all_relations(a, TRI_TEX_APPROX);
}

/* An interval for a letter, from inequalities. It is infinite on a side without a bound. */
typedef struct range {
  side name, low, high;
  bool has_low, has_high, low_open, high_open;
} range;

static void set_bound(range *x, bool low, side bound, bool open) {
  if (low) {
    x->low = bound;
    x->has_low = true;
    x->low_open = open;
  } else {
    x->high = bound;
    x->has_high = true;
    x->high_open = open;
  }
}

static bool range_of(side a, range *out) {
  side         x = first_of(a), y = child(a, node_of(x)->next);
  tri_tex_kind k = node_of(y)->relation, l;

  *out = (range){.low_open = true, .high_open = true};
  if (!is_inequality(k)) return false;
  if (node_of(a)->n == 2 && is_named(x) && !has_name(y)) {
    out->name = x;
    set_bound(out, !is_rising(k), y, is_strict(k));
    return true;
  }
  if (has_name(x) || !is_named(y)) return false;
  out->name = y;
  set_bound(out, is_rising(k), x, is_strict(k));
  if (node_of(a)->n == 2) return true;
  l = node_of(last_of(a))->relation;
  if (node_of(a)->n != 3 || !is_inequality(l) || is_rising(l) != is_rising(k) || has_name(last_of(a)))
    return false;
  set_bound(out, !is_rising(k), last_of(a), is_strict(l));
  return true;
}

static bool is_infinite(side a) { return shape_of(without_sign(a)) == TRI_SHAPE_INFINITY; }

/* Reads a tuple of two as an interval. */
static bool interval_of(side a, range *out) {
  if (shape_of(a) != TRI_SHAPE_TUPLE || node_of(a)->n != 2) return false;
  *out = (range){.name = a, .low_open = true, .high_open = true};
  if (!is_infinite(first_of(a))) set_bound(out, true, first_of(a), node_of(a)->open == '(');
  if (!is_infinite(last_of(a))) set_bound(out, false, last_of(a), node_of(a)->close == ')');
  return true;
}

/* Reads an interval from x > 2 or x \in (2, \infty). */
static bool said_range(side a, range *out) {
  if (range_of(a, out)) return true;
  if (node_of(a)->n != 2 || node_of(last_of(a))->relation != TRI_TEX_IN || !interval_of(last_of(a), out))
    return false;
  out->name = first_of(a);
  return true;
}

static bool same_range(search *s, const range *a, const range *b) {
  return a->has_low == b->has_low && a->has_high == b->has_high && a->low_open == b->low_open &&
         a->high_open == b->high_open && (!a->has_low || same(s, a->low, b->low)) &&
         (!a->has_high || same(s, a->high, b->high));
}

/* Tells whether the same terms are joined by the same signs. With `back` b is read from its end. */
static bool same_chain(search *s, side a, side b, bool back) {
  int  n = node_of(a)->n, x = node_of(a)->first, y = node_of(b)->first, at_b[8];
  bool good = n == node_of(b)->n && n <= 8;

  for (int i = 0; good && i < n; i++, y = b.tree->node[y].next) at_b[i] = y;
  for (int i = 0; good && i < n; i++, x = a.tree->node[x].next) {
    tri_tex_kind k = a.tree->node[x].relation;
    if (i && k != (back ? flipped(b.tree->node[at_b[n - i]].relation) : b.tree->node[at_b[i]].relation))
      return false;
    good = same(s, child(a, x), child(b, at_b[back ? n - 1 - i : i]));
  }
  return good;
}

/* Tells whether left - right of both differ by a constant factor only. *positive is set if the factor is
 * positive. */
static bool proportional(search *s, side a, side b, bool *positive) {
  side           term[4] = {first_of(a), last_of(a), first_of(b), last_of(b)};
  tri_math_value x[4];
  int            n_positive = 0;

  for (int i = 0; i < 4; i++) {
    if (tri_tex_is_ordered(term[i].tree, term[i].node)) return false; /* x = cat */
    x[i] = value_of(s, term[i]);
    if (!x[i].defined) return false;
  }
  if (x[0].constant && x[1].constant) return false;
  for (int k = 0; k < TRI_FIELDS; k++) {
    tri_residue ratio[TRI_POINTS], below;
    for (int j = 0; j < TRI_POINTS; j++) {
      below = tri_field_add(k, x[2].at[k][j], tri_field_negate(k, x[3].at[k][j]));
      if (!tri_field_invert(k, below, &below)) return false;
      ratio[j] =
          tri_field_multiply(k, below, tri_field_add(k, x[0].at[k][j], tri_field_negate(k, x[1].at[k][j])));
      if (!tri_field_equal(ratio[j], ratio[0])) return false;
    }
    if (tri_field_equal(ratio[0], (tri_residue){0, 0})) return false;
    n_positive += !ratio[0].im && tri_field_positive(k, ratio[0].re);
  }
  *positive = n_positive == TRI_FIELDS;
  return *positive || !n_positive;
}

static bool same_relation(search *s, side a, side b) {
  tri_tex_kind k = node_of(last_of(a))->relation, l = node_of(last_of(b))->relation;
  side         value_a, value_b;
  range        x, y;
  bool         positive;

  if (same_chain(s, a, b, false) || same_chain(s, a, b, true)) return true;
  if (said_range(a, &x) && said_range(b, &y)) return same(s, x.name, y.name) && same_range(s, &x, &y);
  if (assigned(a, &value_a) && assigned(b, &value_b) &&
      (!is_named(first_of(a)) || !is_named(first_of(b)) || same(s, first_of(a), first_of(b))) &&
      same(s, value_a, value_b))
    return true;
  if (node_of(a)->n != 2 || node_of(b)->n != 2 || !(k == TRI_TEX_EQUAL || is_inequality(k)) ||
      !proportional(s, a, b, &positive))
    return false;
  return k == TRI_TEX_EQUAL ? l == k : l == (positive ? k : flipped(k));
}

/* Compares a relation with another node, by its value or by the interval it describes. */
static bool same_as_relation(search *s, side relation, side b) {
  side  value;
  range x, y;

  if (assigned(relation, &value)) return same(s, value, b);
  return range_of(relation, &x) && interval_of(b, &y) && same_range(s, &x, &y);
}

/* ---- lists ---- */

static bool is_two_valued(side a) { return !a.sign && node_of(a)->two_valued; }

static bool holds_elements(side a, bool unions) {
  tri_tex_shape shape = shape_of(a);

  return shape == TRI_SHAPE_LIST || shape == TRI_SHAPE_SET || (unions && shape == TRI_SHAPE_UNION);
}

/* Lists the elements of a list, set or union, and both values of \pm. Anything else is its own only
 * element. */
static bool flatten(side a, bool unions, elements *out) {
  int x = holds_elements(a, unions) ? node_of(a)->first : a.node;

  for (; x >= 0; x = holds_elements(a, unions) ? a.tree->node[x].next : -1) {
    side y = child(a, x);
    if (out->n + 2 > ELEMENTS_MOST) return false;
    if (is_two_valued(y)) {
      out->at[out->n++] = (side){y.tree, y.node, 1};
      y.sign = -1;
    }
    out->at[out->n++] = y;
  }
  return true;
}

static bool each_is_in(search *s, const elements *a, const elements *b) {
  for (int i = 0; i < a->n; i++) {
    bool found = false;
    for (int j = 0; j < b->n && !found; j++) found = same(s, a->at[i], b->at[(i + j) % b->n]);
    if (!found) return false;
  }
  return true;
}

static bool same_elements(search *s, side a, side b, bool unions) {
  elements x = {0}, y = {0};

  return flatten(a, unions, &x) && flatten(b, unions, &y) && each_is_in(s, &x, &y) && each_is_in(s, &y, &x);
}

/* ---- answers ---- */

/* Tells whether infinite ends at the same place have the same sign. */
static bool infinite_alike(side a, side b) {
  side end[4] = {first_of(a), first_of(b), last_of(a), last_of(b)};

  for (int i = 0; i < 4; i += 2)
    if (is_infinite(end[i]) && is_infinite(end[i + 1]) &&
        (shape_of(end[i]) == TRI_SHAPE_NEGATIVE) != (shape_of(end[i + 1]) == TRI_SHAPE_NEGATIVE))
      return false;
  return true;
}

static bool same_tuple(search *s, side a, side b) {
  range x, y;

  if (interval_of(a, &x) && interval_of(b, &y)) return infinite_alike(a, b) && same_range(s, &x, &y);
  return same_row(s, a, b);
}

static bool is_round(side a) { return node_of(a)->open == '(' && node_of(a)->close == ')'; }
static bool is_structure(tri_tex_shape s) { return s >= TRI_SHAPE_TEXT; }

/* Tells whether a node is \mathbb{R} or (-\infty, \infty). */
static bool is_real_line(side a) {
  static const char name[] = "\\mathbb{R}";
  tri_part          t = node_of(a)->text;

  if (shape_of(a) == TRI_SHAPE_NAME) return t.n == sizeof name - 1 && !memcmp(t.at, name, t.n);
  return shape_of(a) == TRI_SHAPE_TUPLE && node_of(a)->n == 2 && is_infinite(first_of(a)) &&
         is_infinite(last_of(a)) && shape_of(first_of(a)) == TRI_SHAPE_NEGATIVE &&
         shape_of(last_of(a)) == TRI_SHAPE_INFINITY;
}

/* Compares words, and also n = \text{even} with even. */
static bool same_words(search *s, side a, side b) {
  side value;

  if (tri_tex_words_equal(source_of(a), source_of(b))) return true;
  if (shape_of(a) == TRI_SHAPE_RELATION && assigned(a, &value)) return same(s, value, b);
  return shape_of(b) == TRI_SHAPE_RELATION && assigned(b, &value) && same(s, a, value);
}

static bool same(search *x, side a, side b) {
  tri_tex_shape s = shape_of(a), t = shape_of(b);
  bool          unions = s == TRI_SHAPE_UNION || t == TRI_SHAPE_UNION, equal;

  if (--x->comparisons < 0) return false;
  if (s == TRI_SHAPE_TEXT || t == TRI_SHAPE_TEXT) return same_words(x, a, b);
  if (tri_tex_compare_letters(a.tree, a.node, b.tree, b.node, &equal)) return equal;
  if (s == TRI_SHAPE_RELATION && t == TRI_SHAPE_RELATION && !is_two_valued(a) && !is_two_valued(b))
    return same_relation(x, a, b);
  if (is_real_line(a) && is_real_line(b)) return true;
  if (is_two_valued(a) || is_two_valued(b)) return same_elements(x, a, b, unions);
  if (s == TRI_SHAPE_RELATION && !holds_elements(b, true)) return same_as_relation(x, a, b);
  if (t == TRI_SHAPE_RELATION && !holds_elements(a, true)) return same_as_relation(x, b, a);
  if (s == TRI_SHAPE_RELATION || t == TRI_SHAPE_RELATION) {
    side value;
    if (assigned(s == TRI_SHAPE_RELATION ? a : b, &value) && holds_elements(value, true))
      return same(x, value, s == TRI_SHAPE_RELATION ? b : a);
  }
  if (s == TRI_SHAPE_LIST && t == TRI_SHAPE_TUPLE) return is_round(b) && same_row(x, a, b);
  if (s == TRI_SHAPE_TUPLE && t == TRI_SHAPE_LIST) return is_round(a) && same_row(x, a, b);
  if (holds_elements(a, unions) || holds_elements(b, unions)) return same_elements(x, a, b, unions);
  if (s == TRI_SHAPE_TUPLE && t == s) return same_tuple(x, a, b);
  if (s == TRI_SHAPE_MATRIX && t == s) return node_of(a)->columns == node_of(b)->columns && same_row(x, a, b);
  if (s == TRI_SHAPE_RATIO && t == s) return same_ratio(x, a, b);
  if (is_structure(s) || is_structure(t)) return s == t && s == TRI_SHAPE_EMPTY;
  return same_value(x, a, b);
}

/* Returns the verdict. An answer that does not equal itself contains something without a value, and counts as
 * not read. */
static tri_tex_verdict verdict_of(search *s, const tri_tex_tree *a, const tri_tex_tree *b) {
  side pair[3][2] = {{{a, a->root, 0}, {b, b->root, 0}},
                     {{a, a->root, 0}, {a, a->root, 0}},
                     {{b, b->root, 0}, {b, b->root, 0}}};
  bool good[3];

  s->tree = a;
  s->work = WORK_MOST;
  for (int i = 0; i < 3; i++) {
    s->comparisons = COMPARISONS_MOST;
    good[i] = same(s, pair[i][0], pair[i][1]);
    if (i == 0 && good[i]) return TRI_TEX_SAME;
  }
  return good[1] && good[2] && s->work >= 0 ? TRI_TEX_DIFFERENT : TRI_TEX_UNREAD;
}

/* Tells whether a comes before b. Sorting makes the verdict independent of the order of two answers. */
static bool comes_before(tri_part a, tri_part b) {
  int c = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);

  return c ? c < 0 : a.n < b.n;
}

tri_status tri_tex_compare(tri_part a, tri_part b, tri_tex_verdict *verdict) {
  tri_tex_tree *tree = NULL;
  search       *s = NULL;
  tri_status    st = TRI_OK;

  *verdict = TRI_TEX_UNREAD;
  if (!a.n || !b.n) return TRI_OK;
  TRI_TRY_DONE(TRI_ALLOC(tree, 2));
  TRI_TRY_DONE(TRI_ALLOC(s, 1));
  if (!comes_before(a, b)) {
    tri_part c = a;
    a = b;
    b = c;
  }
  if (tri_tex_parse(a, &tree[0]) && tri_tex_parse(b, &tree[1])) *verdict = verdict_of(s, &tree[0], &tree[1]);
done:
  TRI_FREE(s);
  TRI_FREE(tree);
  return st;
}
