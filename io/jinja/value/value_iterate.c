/* value_iterate.c - Python's iter() and len(). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

/* Makes a list of n elements for a walk, in the memory of an earlier walk if that is large enough. New
 * memory has at least twice the earlier capacity, because the next walk may be longer. The capacity is
 * stored before the first element. */
static tri_status walk_space(tri_jarena *a, int64_t n, tri_jvalue **item, tri_jvalue *out) {
  tri_jtail  t = a->spare;
  tri_jlist *list = NULL;
  void      *memory = NULL;

  a->spare = (tri_jtail){0};
  TRI_TRY(tri_jarena_step(a, n));
  if (!t.at || t.cap < n) {
    int64_t cap = n > 2 * t.cap ? n : 2 * t.cap;
    TRI_TRY(tri_jarena_take(a, (size_t)(cap + 1) * sizeof **item, &memory));
    t = (tri_jtail){(tri_jvalue *)memory + 1, 0, cap};
    *(tri_jvalue *)memory = tri_jint(cap);
  }
  TRI_TRY(tri_jarena_take(a, sizeof *list, &memory));
  list = memory;
  *list = (tri_jlist){.item = t.at, .n = n};
  *item = t.at;
  *out = tri_jlist_value(TRI_J_LIST, list);
  return TRI_OK;
}

void tri_jiterate_done(tri_jarena *a, tri_jvalue v, const tri_jlist *list) {
  bool made = v.kind == TRI_J_STRING || v.kind == TRI_J_RANGE || v.kind == TRI_J_MAP || v.kind == TRI_J_VIEW;

  if (made && list->item[-1].as.whole > a->spare.cap)
    a->spare = (tri_jtail){(void *)(uintptr_t)list->item, 0, list->item[-1].as.whole};
}

static tri_status list_text(tri_jarena *a, tri_jvalue s, tri_jvalue *out) {
  tri_jvalue *item = NULL;
  const char *p = s.as.text.s;

  TRI_TRY(walk_space(a, tri_jpoints(p, s.as.text.n), &item, out));
  for (int64_t i = 0; i < out->as.list->n; i++) {
    item[i] = tri_jmarkup(tri_jtext(p, tri_jpoint_bytes(p)), false); /* iter(Markup) gives plain strings */
    p += item[i].as.text.n;
  }
  return TRI_OK;
}

static tri_status list_map(tri_jarena *a, tri_jvalue map, tri_jpart part, tri_jvalue *out) {
  tri_jvalue *item = NULL, pair[2];

  TRI_TRY(walk_space(a, tri_jmap_count(map), &item, out));
  for (int64_t i = 0; i < out->as.list->n; i++) {
    tri_jmap_at(map, i, &pair[0], &pair[1]);
    if (part == TRI_J_ITEMS)
      TRI_TRY(tri_jlist_make(a, TRI_J_TUPLE, pair, 2, &item[i]));
    else
      item[i] = pair[part == TRI_J_VALUES];
  }
  return TRI_OK;
}

static tri_status list_range(tri_jarena *a, const tri_jrange *r, tri_jvalue *out) {
  tri_jvalue *item = NULL;

  TRI_TRY(walk_space(a, r->n, &item, out));
  for (int64_t i = 0; i < r->n; i++)
    item[i] = tri_jint((int64_t)((uint64_t)r->begin + (uint64_t)i * (uint64_t)r->step));
  return TRI_OK;
}

tri_status tri_jwalk_open(tri_jarena *a, tri_jvalue v, tri_jwalk *out) {
  tri_jvalue list = v;

  *out = (tri_jwalk){0};
  switch (v.kind) {
  case TRI_J_UNDEFINED:
    TRI_TRY(tri_jlist_make(a, TRI_J_LIST, NULL, 0, &list));
    break;
  case TRI_J_STRING:
    TRI_TRY(list_text(a, v, &list));
    break;
  case TRI_J_LIST:
  case TRI_J_TUPLE:
    break;
  case TRI_J_RANGE:
    TRI_TRY(list_range(a, v.as.range, &list));
    break;
  case TRI_J_MAP:
    TRI_TRY(list_map(a, v, TRI_J_KEYS, &list));
    break;
  case TRI_J_VIEW:
    TRI_TRY(list_map(a, v.as.view->map, v.as.view->part, &list));
    break;
  case TRI_J_STREAM:
    out->stream = v.as.stream;
    return TRI_OK;
  default:
    TRI_FAIL(TRI_EINPUT, "'%s' object is not iterable", tri_jtype(v));
  }
  out->list = list.as.list;
  return TRI_OK;
}

tri_status tri_jwalk_next(tri_jarena *a, tri_jwalk *w, tri_jvalue *out, bool *found) {
  TRI_TRY(tri_jarena_step(a, 1));
  if (w->stream) {
    TRI_TRY(tri_jarena_enter(a)); /* a stream may draw from a stream */
    TRI_TRY(w->stream->next(a, w->stream, out, found));
    tri_jarena_leave(a);
    return TRI_OK;
  }
  *found = w->at < w->list->n;
  if (*found) *out = w->list->item[w->at++];
  return TRI_OK;
}

tri_status tri_jiterate(tri_jarena *a, tri_jvalue v, const tri_jlist **out) {
  tri_jwalk   w;
  tri_jvalue *item = NULL, one, list;
  int64_t     n = 0, cap = 0;
  bool        found = true;

  TRI_TRY(tri_jwalk_open(a, v, &w));
  *out = w.list;
  if (w.list) return TRI_OK;
  for (;;) {
    TRI_TRY(tri_jwalk_next(a, &w, &one, &found));
    if (!found) break;
    TRI_TRY(TRI_JGROW(a, item, cap, n, n + 1));
    item[n++] = one;
  }
  TRI_TRY(tri_jlist_make(a, TRI_J_LIST, item, n, &list));
  *out = list.as.list;
  return TRI_OK;
}

tri_status tri_jlength(tri_jarena *a, tri_jvalue v, int64_t *out) {
  switch (v.kind) {
  case TRI_J_UNDEFINED:
    *out = 0;
    return TRI_OK;
  case TRI_J_STRING:
    *out = tri_jpoints(v.as.text.s, v.as.text.n);
    return tri_jarena_step(a, (int64_t)(v.as.text.n / 64));
  case TRI_J_LIST:
  case TRI_J_TUPLE:
    *out = v.as.list->n;
    return TRI_OK;
  case TRI_J_RANGE:
    *out = v.as.range->n;
    return TRI_OK;
  case TRI_J_MAP:
    *out = tri_jmap_count(v);
    return TRI_OK;
  case TRI_J_VIEW:
    *out = tri_jmap_count(v.as.view->map);
    return TRI_OK;
  default:
    TRI_FAIL(TRI_EINPUT, "object of type '%s' has no len()", tri_jtype(v));
  }
}
