/* value_access.c - reads attributes, items and slices of values, like the sandbox of transformers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

/* Attributes of every Python object that a template might try. The sandbox calls them unsafe. */
static bool is_internal(const char *name, size_t n) {
  static const char *const internal[] = {
      "__class__",  "__doc__",          "__init__",   "__new__",          "__repr__",         "__str__",
      "__hash__",   "__eq__",           "__ne__",     "__lt__",           "__le__",           "__gt__",
      "__ge__",     "__getattribute__", "__dir__",    "__setattr__",      "__delattr__",      "__format__",
      "__reduce__", "__reduce_ex__",    "__sizeof__", "__subclasshook__", "__init_subclass__"};

  for (size_t i = 0; i < sizeof internal / sizeof *internal; i++)
    if (strlen(internal[i]) == n && !memcmp(internal[i], name, n)) return true;
  return false;
}

/* Attributes of a sequence's or mapping's class. They are unsafe too. */
static bool is_internal_of(tri_jvalue v, const char *name, size_t n) {
  static const char *const internal[] = {"__len__",  "__getitem__", "__contains__",
                                         "__iter__", "__add__",     "__mul__"};
  bool                     has_add = v.kind == TRI_J_STRING || v.kind == TRI_J_LIST || v.kind == TRI_J_TUPLE;

  if (!has_add && v.kind != TRI_J_MAP && v.kind != TRI_J_RANGE) return false;
  for (size_t i = 0; i < (has_add ? 6 : 4); i++)
    if (strlen(internal[i]) == n && !memcmp(internal[i], name, n)) return true;
  return false;
}

/* Methods that change a list or mapping. The immutable sandbox calls them unsafe. */
static bool is_mutation(tri_jvalue v, const char *name, size_t n) {
  static const char *const of_list[] = {"append", "clear", "pop",    "reverse",
                                        "insert", "sort",  "extend", "remove"};
  static const char *const of_map[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const char *const       *list = v.kind == TRI_J_LIST ? of_list : of_map;
  size_t                   count = v.kind == TRI_J_LIST ? 8 : 5;

  if (v.kind != TRI_J_LIST && v.kind != TRI_J_MAP) return false;
  for (size_t i = 0; i < count; i++)
    if (strlen(list[i]) == n && !memcmp(list[i], name, n)) return true;
  return false;
}

static tri_status bind_method(tri_jarena *a, tri_jvalue self, const tri_jrow *row, tri_jvalue *out) {
  void       *memory = NULL;
  tri_jbound *bound;

  TRI_TRY(tri_jarena_take(a, sizeof *bound, &memory));
  bound = memory;
  *bound = (tri_jbound){.self = self, .row = row};
  *out = (tri_jvalue){.kind = TRI_J_METHOD, .as.bound = bound};
  return TRI_OK;
}

/* Returns attributes that are not methods. */
static bool plain_attribute(tri_jvalue v, const char *name, size_t n, tri_jvalue *out) {
  bool is_group = v.kind == TRI_J_TUPLE && v.as.list->group;

  if (is_group && n == 7 && !memcmp(name, "grouper", 7)) return *out = v.as.list->item[0], true;
  if (is_group && n == 4 && !memcmp(name, "list", 4)) return *out = v.as.list->item[1], true;
  if (v.kind == TRI_J_RANGE && n == 5 && !memcmp(name, "start", 5))
    return *out = tri_jint(v.as.range->begin), true;
  if (v.kind == TRI_J_RANGE && n == 4 && !memcmp(name, "stop", 4))
    return *out = tri_jint(v.as.range->end), true;
  if (v.kind == TRI_J_RANGE && n == 4 && !memcmp(name, "step", 4))
    return *out = tri_jint(v.as.range->step), true;
  return false;
}

/* Works as Python's getattr(v, name), with the sandbox's refusals. *found false: AttributeError. */
tri_status tri_jattribute(tri_jarena *a, tri_jvalue v, const char *name, size_t n, tri_jvalue *out,
                          bool *found) {
  const tri_jrow *row = NULL, *rows;
  int64_t         n_row = 0;
  bool            is_dict = v.kind == TRI_J_FUNCTION && !strcmp(v.as.function->name, "dict");

  *found = true;
  TRI_TRY(tri_jarena_step(a, 1));
  if (is_internal(name, n) || is_internal_of(v, name, n) || is_mutation(v, name, n))
    return tri_jabsent(a, v, tri_jtext(name, n), TRI_J_UNSAFE, out);
  if (v.kind == TRI_J_OBJECT) {
    *found = false;
    return v.as.object->get ? v.as.object->get(a, v.as.object, name, n, out, found) : TRI_OK;
  }
  if (v.kind == TRI_J_NAMESPACE) return tri_jmap_get(a, v.as.space->map, tri_jtext(name, n), out, found);
  if (plain_attribute(v, name, n, out)) return TRI_OK;
  if (is_dict) TRI_TRY(tri_jmap_make(a, &v)); /* dict.fromkeys */
  rows = tri_jmethods_of(v.kind, &n_row);
  row = tri_jrow_find(rows, n_row, name, n);
  if (row && (!is_dict || !strcmp(row->name, "fromkeys"))) return bind_method(a, v, row, out);
  if (tri_jis_text(v)) {
    rows = tri_jmethods_text(&n_row);
    row = tri_jrow_find(rows, n_row, name, n);
    if (row) return bind_method(a, tri_jas_text(v), row, out);
  }
  *found = false;
  return TRI_OK;
}

tri_status tri_jattr(tri_jarena *a, tri_jvalue v, const char *name, size_t n, tri_jvalue *out) {
  tri_jvalue key = tri_jtext(name, n);
  bool       found = false;

  if (v.kind == TRI_J_UNDEFINED && !is_internal(name, n)) return tri_jundefined_fail(v);
  TRI_TRY(tri_jattribute(a, v, name, n, out, &found));
  if (!found && v.kind == TRI_J_MAP) TRI_TRY(tri_jmap_get(a, v, key, out, &found));
  return found ? TRI_OK : tri_jabsent(a, v, key, TRI_J_ATTRIBUTE, out);
}

/* Returns an element, or the value after the last element, which may wrap. */
static int64_t range_at(const tri_jrange *r, int64_t i) {
  return (int64_t)((uint64_t)r->begin + (uint64_t)i * (uint64_t)r->step);
}

/* v[i] of a sequence. *found false: out of range. */
static tri_status element(tri_jarena *a, tri_jvalue v, int64_t i, tri_jvalue *out, bool *found) {
  int64_t     n = 0;
  const char *p;

  if (v.kind == TRI_J_STRING && i >= 0) { /* its length is not needed */
    TRI_TRY(tri_jarena_step(a, (i < (int64_t)v.as.text.n ? i : (int64_t)v.as.text.n) / 64));
    p = tri_jpoint_at(v.as.text.s, v.as.text.n, i);
    *found = p < v.as.text.s + v.as.text.n;
    if (*found) *out = tri_jmarkup(tri_jtext(p, tri_jpoint_bytes(p)), v.note == TRI_J_MARKUP);
    return TRI_OK;
  }
  TRI_TRY(tri_jlength(a, v, &n));
  if (i < 0) i += n;
  *found = i >= 0 && i < n;
  if (!*found) return TRI_OK;
  if (v.kind == TRI_J_STRING) return tri_jtext_pick(a, v, i, i + 1, 1, out);
  *out = v.kind == TRI_J_RANGE ? tri_jint(range_at(v.as.range, i)) : v.as.list->item[i];
  return TRI_OK;
}

static bool is_sequence(tri_jvalue v) {
  return v.kind == TRI_J_STRING || v.kind == TRI_J_LIST || v.kind == TRI_J_TUPLE || v.kind == TRI_J_RANGE;
}

static bool is_hashable(tri_jvalue key) {
  bool all = key.kind != TRI_J_LIST && key.kind != TRI_J_MAP;

  if (key.kind == TRI_J_VIEW) return key.as.view->part == TRI_J_VALUES;
  for (int64_t i = 0; key.kind == TRI_J_TUPLE && all && i < key.as.list->n;
       i++) /* tuples nest no deeper, C would recurse */
    all = key.as.list->item[i].kind != TRI_J_TUPLE && is_hashable(key.as.list->item[i]);
  return all;
}

tri_status tri_jitem(tri_jarena *a, tri_jvalue v, tri_jvalue key, tri_jvalue *out) {
  bool     found = false;
  tri_jbuf b = {.a = a};

  TRI_TRY(tri_jarena_step(a, 1));
  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (v.kind == TRI_J_MAP && is_hashable(key))
    TRI_TRY(tri_jmap_get(a, v, key, out, &found));
  else if (is_sequence(v) && tri_jis_whole(key))
    TRI_TRY(element(a, v, tri_jwhole(key), out, &found));
  if (found) return TRI_OK;
  if (key.kind == TRI_J_STRING) {
    TRI_TRY(tri_jattribute(a, v, key.as.text.s, key.as.text.n, out, &found));
    return found ? TRI_OK : tri_jabsent(a, v, key, TRI_J_ATTRIBUTE, out);
  }
  if (key.kind == TRI_J_METHOD || key.kind == TRI_J_STREAM || key.kind == TRI_J_FUNCTION)
    TRI_TRY(tri_jbuf_text(&b, tri_jtype(key)));
  else
    TRI_TRY(tri_jwrite_repr(&b, key));
  return tri_jabsent(a, v, tri_jbuf_value(&b, 0), TRI_J_ELEMENT, out);
}

static tri_status bound_of(const tri_jvalue *v, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (!v || v->kind == TRI_J_NONE) return TRI_OK;
  if (!tri_jis_whole(*v))
    TRI_FAIL(TRI_EINPUT, "slice indices must be integers or None or have an __index__ method, not %s",
             tri_jtype(*v));
  *out = tri_jwhole(*v);
  return TRI_OK;
}

/* Clips begin and end as slice.indices(n). */
static void clip(int64_t n, int64_t step, int64_t *begin, int64_t *end) {
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;

  if (*begin < 0 && (*begin += n) < low) *begin = low;
  if (*begin > high) *begin = high;
  if (*end < 0 && (*end += n) < low) *end = low;
  if (*end > high) *end = high;
}

tri_status tri_jslice(tri_jarena *a, tri_jvalue v, const tri_jvalue *begin, const tri_jvalue *end,
                      const tri_jvalue *step, tri_jvalue *out) {
  int64_t     n = 0, i = 0, stop = 0, by = 1, count;
  bool        to_start = !end || end->kind == TRI_J_NONE;
  tri_jvalue *item = NULL;
  tri_jrange *range;
  void       *memory = NULL;

  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (v.kind == TRI_J_MAP) TRI_FAIL(TRI_EINPUT, "unhashable type: 'slice'");
  if (!is_sequence(v)) TRI_FAIL(TRI_EINPUT, "'%s' object is not subscriptable", tri_jtype(v));
  TRI_TRY(bound_of(step, 1, &by));
  if (by == 0) TRI_FAIL(TRI_EINPUT, "slice step cannot be zero");
  if (by < -INT64_MAX) by = -INT64_MAX;
  TRI_TRY(tri_jlength(a, v, &n));
  TRI_TRY(bound_of(begin, by > 0 ? 0 : INT64_MAX, &i));
  TRI_TRY(bound_of(end, INT64_MAX, &stop));
  clip(n, by, &i, &stop);
  if (to_start && by < 0) stop = -1;
  count = by > 0 ? (stop > i ? (stop - i - 1) / by + 1 : 0) : (i > stop ? (i - stop - 1) / -by + 1 : 0);
  if (v.kind == TRI_J_STRING) return tri_jtext_pick(a, v, i, count ? stop : i, by, out);
  if (v.kind == TRI_J_RANGE) {
    TRI_TRY(tri_jarena_take(a, sizeof *range, &memory));
    range = memory;
    *range = (tri_jrange){.begin = range_at(v.as.range, i),
                          .end = range_at(v.as.range, stop),
                          .step = v.as.range->step,
                          .n = count};
    if (__builtin_mul_overflow(range->step, by, &range->step))
      TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: the step of a range");
    *out = (tri_jvalue){.kind = TRI_J_RANGE, .as.range = range};
    return TRI_OK;
  }
  TRI_TRY(tri_jlist_reserve(a, v.kind, count, &item, out));
  for (int64_t k = 0; k < count; k++) item[k] = v.as.list->item[i + k * by];
  return TRI_OK;
}
