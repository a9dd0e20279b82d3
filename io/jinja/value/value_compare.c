/* value_compare.c - truth, equality, order, membership and sorting by Python's rules. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <math.h>
#include <string.h>

bool tri_jtruth(tri_jvalue v) {
  switch (v.kind) {
  case TRI_J_UNDEFINED:
  case TRI_J_NONE:
    return false;
  case TRI_J_BOOL:
    return v.as.truth;
  case TRI_J_INT:
    return v.as.whole != 0;
  case TRI_J_FLOAT:
    return v.as.real != 0;
  case TRI_J_STRING:
    return v.as.text.n > 0;
  case TRI_J_LIST:
  case TRI_J_TUPLE:
    return v.as.list->n > 0;
  case TRI_J_RANGE:
    return v.as.range->n > 0;
  case TRI_J_MAP:
    return tri_jmap_count(v) > 0;
  case TRI_J_VIEW:
    return tri_jmap_count(v.as.view->map) > 0;
  default:
    return true;
  }
}

static bool is_number(tri_jvalue v) { return tri_jis_whole(v) || v.kind == TRI_J_FLOAT; }

/* Returns -1, 0 or 1. 2: one is NaN. */
static int compare_numbers(tri_jvalue x, tri_jvalue y) {
  int order;

  if (x.kind == TRI_J_FLOAT && y.kind == TRI_J_FLOAT)
    return isnan(x.as.real) || isnan(y.as.real) ? 2 : (x.as.real > y.as.real) - (x.as.real < y.as.real);
  if (y.kind == TRI_J_FLOAT) return tri_jcompare_real(tri_jwhole(x), y.as.real);
  if (x.kind == TRI_J_FLOAT) return (order = tri_jcompare_real(tri_jwhole(y), x.as.real)) == 2 ? 2 : -order;
  return (tri_jwhole(x) > tri_jwhole(y)) - (tri_jwhole(x) < tri_jwhole(y));
}

/* Code points and UTF-8 bytes have the same order. */
static tri_status compare_texts(tri_jarena *a, tri_jvalue x, tri_jvalue y, int *out) {
  size_t least = x.as.text.n < y.as.text.n ? x.as.text.n : y.as.text.n;

  TRI_TRY(tri_jarena_step(a, (int64_t)(least / 64)));
  *out = least ? memcmp(x.as.text.s, y.as.text.s, least) : 0;
  if (!*out) *out = (x.as.text.n > y.as.text.n) - (x.as.text.n < y.as.text.n);
  return TRI_OK;
}

/* Says if the two are compared as texts: both act as texts, and not both are lists. */
static bool are_texts(tri_jvalue x, tri_jvalue y) {
  return tri_jis_text(x) && tri_jis_text(y) && (x.kind == TRI_J_STRING || y.kind == TRI_J_STRING);
}

static tri_status equal_lists(tri_jarena *a, const tri_jlist *x, const tri_jlist *y, bool *out) {
  *out = x == y || x->n == y->n;
  for (int64_t i = 0; x != y && i < x->n && *out; i++) TRI_TRY(tri_jequal(a, x->item[i], y->item[i], out));
  return TRI_OK;
}

static tri_status equal_maps(tri_jarena *a, tri_jvalue x, tri_jvalue y, bool with_values, bool *out) {
  tri_jvalue key, value, other;

  *out = x.as.map == y.as.map || tri_jmap_count(x) == tri_jmap_count(y);
  for (int64_t i = 0; x.as.map != y.as.map && i < tri_jmap_count(x) && *out; i++) {
    tri_jmap_at(x, i, &key, &value);
    TRI_TRY(tri_jmap_get(a, y, key, &other, out));
    if (*out && with_values) TRI_TRY(tri_jequal(a, value, other, out));
  }
  return TRI_OK;
}

static bool equal_ranges(const tri_jrange *r, const tri_jrange *q) {
  return r->n == q->n && (r->n == 0 || (r->begin == q->begin && (r->n == 1 || r->step == q->step)));
}

static bool equal_methods(const tri_jbound *x, const tri_jbound *y) {
  return x->row == y->row && x->self.kind == y->self.kind && x->self.as.text.s == y->self.as.text.s;
}

static tri_status equal_nested(tri_jarena *a, tri_jvalue x, tri_jvalue y, bool *out) {
  switch (x.kind) {
  case TRI_J_LIST:
  case TRI_J_TUPLE:
    return equal_lists(a, x.as.list, y.as.list, out);
  case TRI_J_MAP:
    return equal_maps(a, x, y, true, out);
  case TRI_J_RANGE:
    *out = equal_ranges(x.as.range, y.as.range);
    return TRI_OK;
  case TRI_J_VIEW:
    *out = x.as.view == y.as.view;
    if (x.as.view->part != TRI_J_VALUES && x.as.view->part == y.as.view->part)
      return equal_maps(a, x.as.view->map, y.as.view->map, x.as.view->part == TRI_J_ITEMS, out);
    return TRI_OK;
  case TRI_J_METHOD:
    *out = equal_methods(x.as.bound, y.as.bound);
    return TRI_OK;
  default:
    *out = x.as.object == y.as.object;
    return TRI_OK;
  }
}

tri_status tri_jequal(tri_jarena *a, tri_jvalue x, tri_jvalue y, bool *out) {
  int order = 0;

  TRI_TRY(tri_jarena_step(a, 1));
  *out = false;
  if (is_number(x) && is_number(y))
    *out = compare_numbers(x, y) == 0;
  else if (are_texts(x, y)) {
    x = tri_jas_text(x), y = tri_jas_text(y);
    if (x.as.text.n != y.as.text.n) return TRI_OK;
    TRI_TRY(compare_texts(a, x, y, &order));
    *out = order == 0;
  } else if (x.kind != y.kind)
    return TRI_OK;
  else if (x.kind == TRI_J_NONE || x.kind == TRI_J_UNDEFINED)
    *out = true;
  else {
    TRI_TRY(tri_jarena_enter(a));
    TRI_TRY(equal_nested(a, x, y, out));
    tri_jarena_leave(a);
  }
  return TRI_OK;
}

static const char *op_text(tri_jop op) {
  return op == TRI_JOP_LT ? "<" : op == TRI_JOP_LE ? "<=" : op == TRI_JOP_GT ? ">" : ">=";
}

static bool holds(tri_jop op, int order) {
  if (order == 2) return false;
  return op == TRI_JOP_LT   ? order < 0
         : op == TRI_JOP_LE ? order <= 0
         : op == TRI_JOP_GT ? order > 0
                            : order >= 0;
}

/* As in Python, the first elements that differ decide, else the lengths. */
static tri_status order_lists(tri_jarena *a, tri_jop op, const tri_jlist *x, const tri_jlist *y, bool *out) {
  bool same = true;

  for (int64_t i = 0; i < x->n && i < y->n; i++) {
    TRI_TRY(tri_jequal(a, x->item[i], y->item[i], &same));
    if (!same) return tri_jorder(a, op, x->item[i], y->item[i], out);
  }
  *out = holds(op, (x->n > y->n) - (x->n < y->n));
  return TRI_OK;
}

tri_status tri_jorder(tri_jarena *a, tri_jop op, tri_jvalue x, tri_jvalue y, bool *out) {
  int order = 0;

  TRI_TRY(tri_jarena_step(a, 1));
  if (is_number(x) && is_number(y))
    *out = holds(op, compare_numbers(x, y));
  else if (are_texts(x, y)) {
    TRI_TRY(compare_texts(a, tri_jas_text(x), tri_jas_text(y), &order));
    *out = holds(op, order < 0 ? -1 : order > 0);
  } else if (x.kind == y.kind && (x.kind == TRI_J_LIST || x.kind == TRI_J_TUPLE)) {
    TRI_TRY(tri_jarena_enter(a));
    TRI_TRY(order_lists(a, op, x.as.list, y.as.list, out));
    tri_jarena_leave(a);
  } else if (x.kind == TRI_J_UNDEFINED)
    return tri_jundefined_fail(x);
  else if (y.kind == TRI_J_UNDEFINED)
    return tri_jundefined_fail(y);
  else
    TRI_FAIL(TRI_EINPUT, "'%s' not supported between instances of '%s' and '%s'", op_text(op), tri_jtype(x),
             tri_jtype(y));
  return TRI_OK;
}

static tri_status in_list(tri_jarena *a, const tri_jlist *list, tri_jvalue x, bool *out) {
  *out = false;
  for (int64_t i = 0; i < list->n && !*out; i++) TRI_TRY(tri_jequal(a, list->item[i], x, out));
  return TRI_OK;
}

static bool in_range(const tri_jrange *r, tri_jvalue x) {
  int64_t i;

  if (x.kind == TRI_J_FLOAT) {
    if (!(x.as.real >= -0x1p63 && x.as.real < 0x1p63) || x.as.real != floor(x.as.real)) return false;
    x = tri_jint((int64_t)x.as.real);
  }
  if (!tri_jis_whole(x) || !r->n) return false;
  i = tri_jwhole(x);
  if (r->step > 0 ? i < r->begin || i >= r->end : i > r->begin || i <= r->end) return false;
  return (__int128)((__int128)i - r->begin) % r->step == 0;
}

static tri_status in_view(tri_jarena *a, const tri_jview *view, tri_jvalue x, bool *out) {
  tri_jvalue key, value;

  *out = false;
  if (view->part == TRI_J_KEYS) return tri_jmap_get(a, view->map, x, &value, out);
  if (view->part == TRI_J_ITEMS) {
    if (x.kind != TRI_J_TUPLE || x.as.list->n != 2) return TRI_OK;
    TRI_TRY(tri_jmap_get(a, view->map, x.as.list->item[0], &value, out));
    return *out ? tri_jequal(a, value, x.as.list->item[1], out) : TRI_OK;
  }
  for (int64_t i = 0; i < tri_jmap_count(view->map) && !*out; i++) {
    tri_jmap_at(view->map, i, &key, &value);
    TRI_TRY(tri_jequal(a, value, x, out));
  }
  return TRI_OK;
}

static tri_status in_stream(tri_jarena *a, tri_jstream *s, tri_jvalue x, bool *out) {
  bool       more = true;
  tri_jvalue v;

  for (*out = false; !*out;) {
    TRI_TRY(s->next(a, s, &v, &more));
    if (!more) return TRI_OK;
    TRI_TRY(tri_jequal(a, v, x, out));
  }
  return TRI_OK;
}

tri_status tri_jcontains(tri_jarena *a, tri_jvalue container, tri_jvalue x, bool *out) {
  const char *hit = NULL;

  if (tri_jis_text(container) && (container.kind == TRI_J_STRING || tri_jis_text(x))) {
    if (!tri_jis_text(x))
      TRI_FAIL(TRI_EINPUT, "'in <string>' requires string as left operand, not %s", tri_jtype(x));
    container = tri_jas_text(container);
    TRI_TRY(tri_jarena_step(a, (int64_t)(container.as.text.n / 64)));
    TRI_TRY(tri_jfind(a, container.as.text.s, container.as.text.n, tri_jas_text(x), &hit));
    *out = hit != NULL;
    return TRI_OK;
  }
  switch (container.kind) {
  case TRI_J_UNDEFINED:
    *out = false;
    return TRI_OK;
  case TRI_J_LIST:
  case TRI_J_TUPLE:
    return in_list(a, container.as.list, x, out);
  case TRI_J_MAP: {
    tri_jvalue value;
    return tri_jmap_get(a, container, x, &value, out);
  }
  case TRI_J_RANGE:
    *out = in_range(container.as.range, x);
    return TRI_OK;
  case TRI_J_VIEW:
    return in_view(a, container.as.view, x, out);
  case TRI_J_STREAM:
    return in_stream(a, container.as.stream, x, out);
  default:
    TRI_FAIL(TRI_EINPUT, "argument of type '%s' is not iterable", tri_jtype(container));
  }
}

/* Merges two sorted runs of indices. Among equal keys the left one comes first, also in reverse order, as in
 * sorted(). */
static tri_status merge(tri_jarena *a, const tri_jvalue *key, const int64_t *left, int64_t n_left,
                        const int64_t *right, int64_t n_right, bool reverse, int64_t *out) {
  bool right_first = false;

  while (n_left && n_right) {
    tri_jvalue l = key[*left], r = key[*right];
    if (reverse)
      TRI_TRY(tri_jorder(a, TRI_JOP_LT, l, r, &right_first));
    else
      TRI_TRY(tri_jorder(a, TRI_JOP_LT, r, l, &right_first));
    *out++ = right_first ? *right++ : *left++;
    if (right_first)
      n_right--;
    else
      n_left--;
  }
  memcpy(out, left, (size_t)n_left * sizeof *out);
  memcpy(out + n_left, right, (size_t)n_right * sizeof *out);
  return TRI_OK;
}

tri_status tri_jsort(tri_jarena *a, tri_jvalue *item, tri_jvalue *key, int64_t n, bool reverse) {
  void       *memory = NULL;
  int64_t    *from, *to;
  tri_jvalue *copy;

  if (n < 2) return TRI_OK;
  TRI_TRY(tri_jarena_take(a, (size_t)n * (2 * sizeof *from + sizeof *copy), &memory));
  copy = memory;
  from = (int64_t *)(copy + n);
  to = from + n;
  for (int64_t i = 0; i < n; i++) from[i] = i, copy[i] = item[i];
  for (int64_t run = 1; run < n; run *= 2) {
    int64_t *swap;
    TRI_TRY(tri_jarena_step(a, n));
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t n_left = n - i < run ? n - i : run, n_right = n - i - n_left < run ? n - i - n_left : run;
      TRI_TRY(merge(a, key, from + i, n_left, from + i + n_left, n_right, reverse, to + i));
    }
    swap = from, from = to, to = swap;
  }
  for (int64_t i = 0; i < n; i++) item[i] = copy[from[i]];
  return TRI_OK;
}
