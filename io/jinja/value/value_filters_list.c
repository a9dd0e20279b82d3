/* value_filters_list.c - filters of iterables, as in jinja2/filters.py of Jinja2 3.1.6. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

/* ---- attributes of items ---- */

/* Reads a part of a path. A number is an index. */
static tri_status path_part(tri_jvalue text, tri_jvalue *out) {
  int64_t whole = 0;
  bool    found = text.as.text.n > 0;

  for (size_t i = 0; i < text.as.text.n && found; i++)
    found = text.as.text.s[i] >= '0' && text.as.text.s[i] <= '9';
  *out = text;
  if (!found) return TRI_OK;
  TRI_TRY(tri_jparse_whole(text, 10, &whole, &found));
  if (found) *out = tri_jint(whole);
  return TRI_OK;
}

tri_status tri_jpath_make(tri_jarena *a, const tri_jvalue *attribute, bool ignore_case, tri_jpath *out) {
  tri_jvalue dot = TRI_J_LITERAL("."), parts;

  *out = (tri_jpath){.otherwise = tri_jnone(), .ignore_case = ignore_case};
  if (!attribute || attribute->kind == TRI_J_NONE) return TRI_OK;
  if (tri_jis_text(*attribute))
    TRI_TRY(tri_jtext_split(a, tri_jas_text(*attribute), &dot, -1, false, &parts));
  else
    TRI_TRY(tri_jlist_make(a, TRI_J_LIST, attribute, 1, &parts));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, parts.as.list->n, &out->part, &dot));
  out->n = parts.as.list->n;
  for (int64_t i = 0; i < out->n; i++)
    if (parts.as.list->item[i].kind == TRI_J_STRING)
      TRI_TRY(path_part(parts.as.list->item[i], &out->part[i]));
    else
      out->part[i] = parts.as.list->item[i];
  return TRI_OK;
}

tri_status tri_jpath_get(tri_jarena *a, const tri_jpath *path, tri_jvalue item, tri_jvalue *out) {
  for (int64_t i = 0; i < path->n; i++) {
    TRI_TRY(tri_jitem(a, item, path->part[i], &item));
    if (item.kind == TRI_J_UNDEFINED && path->otherwise.kind != TRI_J_NONE) item = path->otherwise;
  }
  *out = item;
  return path->ignore_case && item.kind == TRI_J_STRING ? tri_jtext_case(a, item, TRI_JCASE_LOWER, out)
                                                        : TRI_OK;
}

/* ---- streams ---- */

static void *keep_array(char **at, const void *from, int64_t n, size_t size) {
  void *to = *at;

  if (n) memcpy(to, from, (size_t)n * size);
  *at += (size_t)n * size;
  return to;
}

tri_status tri_jcall_keep(tri_jarena *a, const tri_jcalled *c, tri_jcalled **out) {
  const tri_jargs *args = c->all;
  size_t           n = (size_t)(args->n_pos + 2 * args->n_named);
  void            *memory = NULL;
  tri_jcalled     *kept;
  tri_jargs       *all;
  char            *at;

  TRI_TRY(tri_jarena_take(a, sizeof *kept + sizeof *all + n * sizeof(tri_jvalue), &memory));
  kept = memory;
  all = (tri_jargs *)(kept + 1);
  at = (char *)(all + 1);
  *kept = *c;
  *all = *args;
  all->pos = keep_array(&at, args->pos, args->n_pos, sizeof *args->pos);
  all->key = keep_array(&at, args->key, args->n_named, sizeof *args->key);
  all->named = keep_array(&at, args->named, args->n_named, sizeof *args->named);
  kept->all = all;
  for (int i = 0; i < TRI_JARG_MOST; i++) {
    if (!c->arg[i]) continue;
    if (args->n_pos && c->arg[i] >= args->pos && c->arg[i] < args->pos + args->n_pos)
      kept->arg[i] = all->pos + (c->arg[i] - args->pos);
    else
      kept->arg[i] = all->named + (c->arg[i] - args->named);
  }
  *out = kept;
  return TRI_OK;
}

static tri_status next_of_list(tri_jarena *a, tri_jstream *s, tri_jvalue *out, bool *found) {
  const tri_jlist *list = s->state;

  *found = s->at < list->n;
  if (*found) *out = list->item[s->at++];
  return tri_jarena_step(a, 1);
}

/* A generator that makes all its elements as a list when the first is needed. */
typedef struct later {
  tri_jcalled  *called;
  tri_jcall_fn *make;
} later;

static tri_status next_later(tri_jarena *a, tri_jstream *s, tri_jvalue *out, bool *found) {
  const later *l = s->state;
  tri_jvalue   list;

  TRI_TRY(l->make(a, l->called, &list));
  s->state = (void *)(uintptr_t)list.as.list;
  s->next = next_of_list;
  return next_of_list(a, s, out, found);
}

static tri_status make_later(tri_jarena *a, const tri_jcalled *c, tri_jcall_fn *make, tri_jvalue *out) {
  void        *memory = NULL;
  later       *l;
  tri_jstream *s = NULL;

  TRI_TRY(tri_jarena_take(a, sizeof *l, &memory));
  l = memory;
  l->make = make;
  TRI_TRY(tri_jcall_keep(a, c, &l->called));
  TRI_TRY(tri_jstream_make(a, "generator", &s, out));
  s->next = next_later;
  s->state = l;
  return TRI_OK;
}

static tri_status batches(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  int64_t          width = -1, n;
  bool             fill = c->arg[1] && c->arg[1]->kind != TRI_J_NONE;
  tri_jvalue      *item = NULL, *of_batch = NULL;

  TRI_TRY(tri_jiterate(a, c->self, &list));
  if (tri_jis_whole(*c->arg[0]))
    width = tri_jwhole(*c->arg[0]);
  else if (list->n && fill)
    TRI_FAIL(TRI_EINPUT, "'<' not supported between instances of 'int' and '%s'", tri_jtype(*c->arg[0]));
  /* As in do_batch: a width below 1 is never reached, so one batch holds everything. With width 0, an empty
   * batch comes first. */
  n = width <= 0 || width >= list->n ? list->n > 0 : (list->n - 1) / width + 1;
  n += width == 0 && n;
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, n, &item, out));
  for (int64_t i = 0; i < n; i++) {
    int64_t from = width > 0 ? i * width : 0, held = list->n - from, space;
    if (width > 0 && held > width) held = width;
    if (width == 0 && i == 0) held = 0;
    space = fill && width > held ? width : held;
    TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, space, &of_batch, &item[i]));
    for (int64_t k = 0; k < space; k++) of_batch[k] = k < held ? list->item[from + k] : *c->arg[1];
  }
  return TRI_OK;
}

static tri_status slices(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  int64_t          n = 0, offset = 0;
  bool             fill = c->arg[1] && c->arg[1]->kind != TRI_J_NONE;
  tri_jvalue      *item = NULL, *of_slice = NULL;

  TRI_TRY(tri_jiterate(a, c->self, &list));
  TRI_TRY(tri_jarg_whole(c, 0, 0, &n));
  if (n == 0) TRI_FAIL(TRI_EINPUT, "integer division or modulo by zero");
  if (n < 0) n = 0;
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, n, &item, out));
  for (int64_t i = 0; i < n; i++) {
    int64_t each = list->n / n, extra = list->n % n, from = offset + i * each, size;
    if (i < extra) offset++;
    size = offset + (i + 1) * each - from;
    TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, size + (fill && i >= extra), &of_slice, &item[i]));
    for (int64_t k = 0; k < size; k++) of_slice[k] = list->item[from + k];
    if (fill && i >= extra) of_slice[size] = *c->arg[1];
  }
  return TRI_OK;
}

static tri_status pairs(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  tri_jvalue       view;

  if (c->self.kind == TRI_J_UNDEFINED) return tri_jlist_make(a, TRI_J_LIST, NULL, 0, out);
  if (c->self.kind != TRI_J_MAP) TRI_FAIL(TRI_EINPUT, "Can only get item pairs from a mapping.");
  TRI_TRY(tri_jview_make(a, c->self, TRI_J_ITEMS, &view));
  TRI_TRY(tri_jiterate(a, view, &list));
  *out = tri_jlist_value(TRI_J_LIST, list);
  return TRI_OK;
}

static tri_status distinct(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  tri_jpath        path;
  tri_jvalue      *item = NULL, seen, key, old;
  int64_t          n = 0;
  bool             found = false;

  TRI_TRY(tri_jpath_make(a, c->arg[1], !tri_jarg_truth(c, 0, false), &path));
  TRI_TRY(tri_jiterate(a, c->self, &list));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &item, out));
  TRI_TRY(tri_jmap_make(a, &seen));
  for (int64_t i = 0; i < list->n; i++) {
    TRI_TRY(tri_jpath_get(a, &path, list->item[i], &key));
    TRI_TRY(tri_jmap_get(a, seen, key, &old, &found));
    if (found) continue;
    TRI_TRY(tri_jmap_put(a, seen, key, tri_jnone()));
    item[n++] = list->item[i];
  }
  return tri_jlist_make(a, TRI_J_LIST, item, n, out);
}

tri_status tri_jf_batch(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_later(a, c, batches, out);
}
tri_status tri_jf_slice(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_later(a, c, slices, out);
}
tri_status tri_jf_items(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_later(a, c, pairs, out);
}
tri_status tri_jf_unique(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_later(a, c, distinct, out);
}

/* Returns the type of reversed(v). NULL: Python cannot reverse it. */
static const char *reversed_type(tri_jvalue v) {
  switch (v.kind) {
  case TRI_J_LIST:
    return "list_reverseiterator";
  case TRI_J_UNDEFINED:
  case TRI_J_STRING:
  case TRI_J_TUPLE:
    return "reversed";
  case TRI_J_RANGE:
    return "range_iterator";
  case TRI_J_MAP:
    return "dict_reversekeyiterator";
  case TRI_J_VIEW:
    return v.as.view->part == TRI_J_KEYS     ? "dict_reversekeyiterator"
           : v.as.view->part == TRI_J_VALUES ? "dict_reversevalueiterator"
                                             : "dict_reverseitemiterator";
  default:
    return NULL;
  }
}

tri_status tri_jf_reverse(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  tri_jvalue      *item = NULL;
  tri_jstream     *s = NULL;
  int64_t          n = 0;
  const char      *type = reversed_type(c->self);

  if (c->self.kind == TRI_J_STRING) {
    TRI_TRY(tri_jlength(a, c->self, &n));
    return tri_jtext_pick(a, c->self, n - 1, -1, -1, out);
  }
  if (!type && c->self.kind != TRI_J_STREAM) TRI_FAIL(TRI_EINPUT, "argument must be iterable");
  TRI_TRY(tri_jiterate(a, c->self, &list));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &item, out));
  for (int64_t i = 0; i < list->n; i++) item[i] = list->item[list->n - 1 - i];
  if (!type) return TRI_OK;
  list = out->as.list;
  TRI_TRY(tri_jstream_make(a, type, &s, out));
  s->next = next_of_list;
  s->state = (void *)(uintptr_t)list;
  return TRI_OK;
}

tri_status tri_jf_first(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jwalk w;
  bool      found = false;

  if (c->self.kind == TRI_J_STRING && c->self.as.text.n) { /* needs no list of all characters */
    *out = tri_jtext(c->self.as.text.s, tri_jpoint_bytes(c->self.as.text.s));
    return TRI_OK;
  }
  TRI_TRY(tri_jwalk_open(a, c->self, &w));
  TRI_TRY(tri_jwalk_next(a, &w, out, &found));
  if (!found) *out = tri_jmissing("No first item, sequence was empty.");
  return TRI_OK;
}

tri_status tri_jf_last(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;

  if (!reversed_type(c->self)) TRI_FAIL(TRI_EINPUT, "'%s' object is not reversible", tri_jtype(c->self));
  if (c->self.kind == TRI_J_STRING && c->self.as.text.n) return tri_jitem(a, c->self, tri_jint(-1), out);
  TRI_TRY(tri_jiterate(a, c->self, &list));
  *out = list->n ? list->item[list->n - 1] : tri_jmissing("No last item, sequence was empty.");
  return TRI_OK;
}

tri_status tri_jf_length(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  int64_t n = 0;

  TRI_TRY(tri_jlength(a, c->self, &n));
  *out = tri_jint(n);
  return TRI_OK;
}

tri_status tri_jf_list(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;

  TRI_TRY(tri_jiterate(a, c->self, &list));
  return tri_jlist_make(a, TRI_J_LIST, list->item, list->n, out);
}

tri_status tri_jf_default(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  bool absent = c->self.kind == TRI_J_UNDEFINED || (tri_jarg_truth(c, 1, false) && !tri_jtruth(c->self));

  *out = !absent ? c->self : c->arg[0] ? *c->arg[0] : tri_jtext("", 0);
  return tri_jarena_step(a, 1);
}

tri_status tri_jf_attr(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue name;
  bool       found = false;

  TRI_TRY(tri_jarg_text(a, c, 0, c->self, &name));
  if (c->self.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(c->self);
  TRI_TRY(tri_jattribute(a, c->self, name.as.text.s, name.as.text.n, out, &found));
  return found ? TRI_OK : tri_jabsent(a, c->self, name, TRI_J_ATTRIBUTE, out);
}

tri_status tri_jf_join(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jbuf   b = {.a = a};
  tri_jvalue sep = tri_jtext("", 0), v;
  tri_jwalk  w;
  tri_jpath  path;
  bool       found = true;

  TRI_TRY(tri_jpath_make(a, c->arg[1], false, &path));
  if (c->arg[0]) TRI_TRY(tri_jstr(a, *c->arg[0], &sep));
  TRI_TRY(tri_jwalk_open(a, c->self, &w));
  for (int64_t i = 0;; i++) {
    TRI_TRY(tri_jwalk_next(a, &w, &v, &found));
    if (!found) break;
    TRI_TRY(tri_jpath_get(a, &path, v, &v));
    TRI_TRY(tri_jstr(a, v, &v)); /* before the buffer grows, which must stay at the arena's end */
    if (i) TRI_TRY(tri_jbuf_put(&b, sep.as.text.s, sep.as.text.n));
    TRI_TRY(tri_jbuf_put(&b, v.as.text.s, v.as.text.n));
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}

/* ---- order ---- */

static tri_status extreme(tri_jarena *a, const tri_jcalled *c, tri_jop op, tri_jvalue *out) {
  tri_jwalk  w;
  tri_jpath  path;
  tri_jvalue v, key, best_key;
  bool       found = false, better = true;

  TRI_TRY(tri_jpath_make(a, c->arg[1], !tri_jarg_truth(c, 0, false), &path));
  TRI_TRY(tri_jwalk_open(a, c->self, &w));
  *out = tri_jmissing("No aggregated item, sequence was empty.");
  for (int64_t i = 0;; i++) {
    TRI_TRY(tri_jwalk_next(a, &w, &v, &found));
    if (!found) return TRI_OK;
    TRI_TRY(tri_jpath_get(a, &path, v, &key));
    if (i) TRI_TRY(tri_jorder(a, op, key, best_key, &better));
    if (better) *out = v, best_key = key;
  }
}

tri_status tri_jf_min(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return extreme(a, c, TRI_JOP_LT, out);
}
tri_status tri_jf_max(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return extreme(a, c, TRI_JOP_GT, out);
}

/* sort(reverse, case_sensitive, attribute). `attribute` may list several, with commas. The key of an item is
 * the list of all of them. */
tri_status tri_jf_sort(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  tri_jvalue       comma = TRI_J_LITERAL(","), names, *item = NULL, *key = NULL, *of_key = NULL, keys;
  tri_jpath       *path;
  void            *memory = NULL;
  bool             ignore_case = !tri_jarg_truth(c, 1, false);

  if (c->arg[2] && tri_jis_text(*c->arg[2]))
    TRI_TRY(tri_jtext_split(a, tri_jas_text(*c->arg[2]), &comma, -1, false, &names));
  else {
    tri_jvalue none = tri_jnone();
    TRI_TRY(tri_jlist_make(a, TRI_J_LIST, c->arg[2] ? c->arg[2] : &none, 1, &names));
  }
  TRI_TRY(tri_jarena_take(a, (size_t)names.as.list->n * sizeof *path, &memory));
  path = memory;
  for (int64_t i = 0; i < names.as.list->n; i++)
    TRI_TRY(tri_jpath_make(a, &names.as.list->item[i], ignore_case, &path[i]));
  TRI_TRY(tri_jiterate(a, c->self, &list));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &key, &keys));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &item, out));
  for (int64_t i = 0; i < list->n; i++) {
    item[i] = list->item[i];
    TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, names.as.list->n, &of_key, &key[i]));
    for (int64_t k = 0; k < names.as.list->n; k++) TRI_TRY(tri_jpath_get(a, &path[k], item[i], &of_key[k]));
  }
  return tri_jsort(a, item, key, list->n, tri_jarg_truth(c, 0, false));
}

tri_status tri_jf_dictsort(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue       by, *item = NULL, *key = NULL, keys;
  const tri_jlist *list = NULL;
  bool             by_value, case_sensitive = tri_jarg_truth(c, 0, false);

  TRI_TRY(tri_jarg_text(a, c, 1, TRI_J_LITERAL("key"), &by));
  by_value = by.as.text.n == 5 && !memcmp(by.as.text.s, "value", 5);
  if (!by_value && (by.as.text.n != 3 || memcmp(by.as.text.s, "key", 3)))
    TRI_FAIL(TRI_EINPUT, "You can only sort by either \"key\" or \"value\"");
  if (c->self.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(c->self);
  if (c->self.kind != TRI_J_MAP)
    TRI_FAIL(TRI_EINPUT, "'%s' object has no attribute 'items'", tri_jtype(c->self));
  TRI_TRY(pairs(a, c, out));
  list = out->as.list;
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &item, out));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &key, &keys));
  for (int64_t i = 0; i < list->n; i++) {
    item[i] = list->item[i];
    key[i] = item[i].as.list->item[by_value];
    if (!case_sensitive && key[i].kind == TRI_J_STRING)
      TRI_TRY(tri_jtext_case(a, key[i], TRI_JCASE_LOWER, &key[i]));
  }
  return tri_jsort(a, item, key, list->n, tri_jarg_truth(c, 2, false));
}

static tri_status make_group(tri_jarena *a, tri_jvalue grouper, const tri_jvalue *item, int64_t n,
                             tri_jvalue *out) {
  tri_jvalue pair[2] = {grouper, grouper};
  tri_jlist *list;
  void      *memory = NULL;

  TRI_TRY(tri_jlist_make(a, TRI_J_LIST, item, n, &pair[1]));
  TRI_TRY(tri_jlist_make(a, TRI_J_TUPLE, pair, 2, out));
  TRI_TRY(tri_jarena_take(a, sizeof *list, &memory));
  list = memory;
  *list = *out->as.list;
  list->group = true;
  out->as.list = list;
  return TRI_OK;
}

tri_status tri_jf_groupby(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  tri_jpath        path, shown;
  tri_jvalue      *item = NULL, *key = NULL, *group = NULL, sorted, keys, grouper;
  int64_t          n_group = 0, from = 0;
  bool             same = true, case_sensitive = tri_jarg_truth(c, 2, false);

  TRI_TRY(tri_jpath_make(a, c->arg[0], !case_sensitive, &path));
  if (c->arg[1]) path.otherwise = *c->arg[1];
  shown = path;
  shown.ignore_case = false;
  TRI_TRY(tri_jiterate(a, c->self, &list));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &item, &sorted));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &key, &keys));
  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, list->n, &group, out));
  for (int64_t i = 0; i < list->n; i++) {
    item[i] = list->item[i];
    TRI_TRY(tri_jpath_get(a, &path, item[i], &key[i]));
  }
  TRI_TRY(tri_jsort(a, item, key, list->n, false));
  for (int64_t i = 0; i < list->n; i++) TRI_TRY(tri_jpath_get(a, &path, item[i], &key[i]));
  for (int64_t i = 1; i <= list->n; i++) {
    if (i < list->n) TRI_TRY(tri_jequal(a, key[from], key[i], &same));
    if (i < list->n && same) continue;
    grouper = key[from];
    if (!case_sensitive) TRI_TRY(tri_jpath_get(a, &shown, item[from], &grouper));
    TRI_TRY(make_group(a, grouper, item + from, i - from, &group[n_group++]));
    from = i;
  }
  return tri_jlist_make(a, TRI_J_LIST, group, n_group, out);
}

tri_status tri_jf_sum(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jwalk  w;
  tri_jpath  path;
  tri_jvalue v;
  bool       found = true;

  TRI_TRY(tri_jpath_make(a, c->arg[0], false, &path));
  *out = c->arg[1] ? *c->arg[1] : tri_jint(0);
  if (out->kind == TRI_J_STRING) TRI_FAIL(TRI_EINPUT, "sum() can't sum strings [use ''.join(seq) instead]");
  TRI_TRY(tri_jwalk_open(a, c->self, &w));
  for (;;) {
    TRI_TRY(tri_jwalk_next(a, &w, &v, &found));
    if (!found) return TRI_OK;
    TRI_TRY(tri_jpath_get(a, &path, v, &v));
    TRI_TRY(tri_jbinary(a, TRI_JOP_ADD, *out, v, out));
  }
}
