/* value_methods.c - methods of lists, tuples, ranges, mappings and numbers. For str see
 * value_methods_text.c. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <math.h>

static tri_status keys(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jview_make(a, c->self, TRI_J_KEYS, out);
}
static tri_status values(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jview_make(a, c->self, TRI_J_VALUES, out);
}
static tri_status items(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jview_make(a, c->self, TRI_J_ITEMS, out);
}

static tri_status get(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  bool found = false;

  TRI_TRY(tri_jmap_get(a, c->self, *c->arg[0], out, &found));
  if (!found) *out = c->arg[1] ? *c->arg[1] : tri_jnone();
  return TRI_OK;
}

/* A copy may be the original, because neither ever changes. */
static tri_status copy(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  *out = c->self;
  return tri_jarena_step(a, 1);
}

static tri_status fromkeys(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;

  TRI_TRY(tri_jiterate(a, *c->arg[0], &list));
  TRI_TRY(tri_jmap_make(a, out));
  for (int64_t i = 0; i < list->n; i++)
    TRI_TRY(tri_jmap_put(a, *out, list->item[i], c->arg[1] ? *c->arg[1] : tri_jnone()));
  return TRI_OK;
}

static tri_status index_of(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  int64_t          begin = 0, end = INT64_MAX;
  bool             same = false;

  TRI_TRY(tri_jiterate(a, c->self, &list));
  TRI_TRY(tri_jarg_whole(c, 1, 0, &begin));
  TRI_TRY(tri_jarg_whole(c, 2, INT64_MAX, &end));
  tri_jrange_clip(list->n, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    TRI_TRY(tri_jequal(a, list->item[i], *c->arg[0], &same));
    if (!same) continue;
    *out = tri_jint(i);
    return TRI_OK;
  }
  TRI_FAIL(TRI_EINPUT, "value is not in %s", tri_jtype(c->self));
}

static tri_status count(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  int64_t          n = 0;
  bool             same = false;

  TRI_TRY(tri_jiterate(a, c->self, &list));
  for (int64_t i = 0; i < list->n; i++) {
    TRI_TRY(tri_jequal(a, list->item[i], *c->arg[0], &same));
    n += same;
  }
  *out = tri_jint(n);
  return TRI_OK;
}

static tri_status is_integer(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  *out = tri_jbool(isfinite(c->self.as.real) && c->self.as.real == floor(c->self.as.real));
  return tri_jarena_step(a, 1);
}

static tri_status bit_length(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  int64_t  x = tri_jwhole(c->self), n = 0;
  uint64_t u = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;

  for (; u; u >>= 1) n++;
  *out = tri_jint(n);
  return tri_jarena_step(a, 1);
}

/* clang-format off */
static const tri_jrow of_map[] = {
  {"copy", "/", copy}, {"fromkeys", "/iterable,value=", fromkeys}, {"get", "/key,default=", get}, {"items", "/", items},
  {"keys", "/", keys}, {"values", "/", values},
};
static const tri_jrow of_list[] = {{"copy", "/", copy}, {"count", "/value", count}, {"index", "/value,start=,stop=", index_of}};
static const tri_jrow of_tuple[] = {{"count", "/value", count}, {"index", "/value,start=,stop=", index_of}};
static const tri_jrow of_range[] = {{"count", "/value", count}, {"index", "/value", index_of}};
static const tri_jrow of_float[] = {
  {"is_integer", "/", is_integer}, {"hex", "", NULL}, {"as_integer_ratio", "", NULL}, {"conjugate", "", NULL},
};
static const tri_jrow of_int[] = {
  {"bit_length", "/", bit_length}, {"as_integer_ratio", "", NULL}, {"bit_count", "", NULL}, {"conjugate", "", NULL},
  {"to_bytes", "", NULL}, {"from_bytes", "", NULL},
};
/* clang-format on */
#define ROWS(table) (*n = sizeof(table) / sizeof *(table), (table))

const tri_jrow *tri_jmethods_of(tri_jkind kind, int64_t *n) {
  *n = 0;
  switch (kind) {
  case TRI_J_MAP:
    return ROWS(of_map);
  case TRI_J_LIST:
    return ROWS(of_list);
  case TRI_J_TUPLE:
    return ROWS(of_tuple);
  case TRI_J_RANGE:
    return ROWS(of_range);
  case TRI_J_FLOAT:
    return ROWS(of_float);
  case TRI_J_BOOL:
  case TRI_J_INT:
    return ROWS(of_int);
  case TRI_J_STRING:
    return tri_jmethods_text(n);
  default:
    return NULL;
  }
}
