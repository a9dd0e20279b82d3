/* value_mapping.c - mappings in order of first insertion, hashed from nine keys on, and namespaces. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

enum { SEARCHED = 8 }; /* chosen, up to so many keys are compared one by one */

typedef struct entry {
  tri_jvalue key, value;
  uint64_t   hash;
} entry;
struct tri_jmap {
  entry  *entry; /* [n] */
  int64_t n, cap;
  /* [n_slot], a power of two. The index of an entry plus one, or 0. NULL up to SEARCHED keys. */
  int32_t *slot;
  int64_t  n_slot;
};

tri_status tri_jmap_make(tri_jarena *a, tri_jvalue *out) {
  void *memory = NULL;

  TRI_TRY(tri_jarena_take(a, sizeof(tri_jmap), &memory));
  *out = (tri_jvalue){.kind = TRI_J_MAP, .as.map = memory};
  return TRI_OK;
}

/* Equal keys have equal hashes. 1, 1.0 and true are one number. */
static tri_status hash_key(tri_jarena *a, tri_jvalue v, uint64_t *out) {
  int64_t  whole = 0;
  uint64_t part;

  switch (v.kind) {
  case TRI_J_STRING:
    TRI_TRY(tri_jarena_step(a, (int64_t)(v.as.text.n / 64)));
    *out = tri_hash64(v.as.text.s, v.as.text.n, 1);
    return TRI_OK;
  case TRI_J_BOOL:
  case TRI_J_INT:
    whole = tri_jwhole(v);
    break;
  case TRI_J_FLOAT:
    if (!(v.as.real >= -0x1p63 && v.as.real < 0x1p63) || v.as.real != floor(v.as.real)) {
      *out = tri_hash64(&v.as.real, sizeof v.as.real, 2);
      return TRI_OK;
    }
    whole = (int64_t)v.as.real;
    break;
  case TRI_J_TUPLE:
    *out = 3;
    TRI_TRY(tri_jarena_enter(a));
    TRI_TRY(tri_jarena_step(a, v.as.list->n));
    for (int64_t i = 0; i < v.as.list->n; i++) {
      TRI_TRY(hash_key(a, v.as.list->item[i], &part));
      *out = tri_hash64(&part, sizeof part, *out);
    }
    tri_jarena_leave(a);
    return TRI_OK;
  case TRI_J_RANGE:
    *out = tri_hash64(&v.as.range->n, sizeof v.as.range->n, 4);
    return TRI_OK;
  case TRI_J_LIST:
  case TRI_J_MAP:
  case TRI_J_VIEW:
    if (v.kind != TRI_J_VIEW || v.as.view->part != TRI_J_VALUES)
      TRI_FAIL(TRI_EINPUT, "unhashable type: '%s'", tri_jtype(v));
    /* fallthrough */
  default:
    *out = tri_hash64(&v.kind, sizeof v.kind, 5);
    return TRI_OK;
  }
  *out = tri_hash64(&whole, sizeof whole, 6);
  return TRI_OK;
}

static bool same_number(tri_jvalue x, tri_jvalue y) {
  if (x.kind == TRI_J_FLOAT && y.kind == TRI_J_FLOAT) return x.as.real == y.as.real;
  if (x.kind == TRI_J_FLOAT) return tri_jcompare_real(tri_jwhole(y), x.as.real) == 0;
  if (y.kind == TRI_J_FLOAT) return tri_jcompare_real(tri_jwhole(x), y.as.real) == 0;
  return tri_jwhole(x) == tri_jwhole(y);
}

static bool is_number(tri_jvalue v) { return tri_jis_whole(v) || v.kind == TRI_J_FLOAT; }

static tri_status same_key(tri_jarena *a, tri_jvalue x, tri_jvalue y, bool *out) {
  const tri_jrange *r = x.as.range, *q = y.as.range;

  TRI_TRY(tri_jarena_step(a, 1));
  *out = false;
  if (is_number(x) && is_number(y))
    *out = same_number(x, y);
  else if (x.kind != y.kind)
    return TRI_OK;
  else if (x.kind == TRI_J_STRING)
    *out = x.as.text.n == y.as.text.n && !memcmp(x.as.text.s, y.as.text.s, x.as.text.n);
  else if (x.kind == TRI_J_NONE || x.kind == TRI_J_UNDEFINED)
    *out = true;
  else if (x.kind == TRI_J_RANGE)
    *out = r->n == q->n && (r->n == 0 || (r->begin == q->begin && (r->n == 1 || r->step == q->step)));
  else if (x.kind == TRI_J_TUPLE) {
    if (x.as.list->n != y.as.list->n) return TRI_OK;
    *out = true;
    TRI_TRY(tri_jarena_enter(a));
    for (int64_t i = 0; i < x.as.list->n && *out; i++)
      TRI_TRY(same_key(a, x.as.list->item[i], y.as.list->item[i], out));
    tri_jarena_leave(a);
  } else if (x.kind == TRI_J_METHOD)
    *out = x.as.bound->row == y.as.bound->row && x.as.bound->self.as.text.s == y.as.bound->self.as.text.s;
  else
    *out = x.as.object == y.as.object;
  return TRI_OK;
}

/* Finds the entry of a key, or NULL. Each probe is a step, so keys made to collide reach the limit. */
static tri_status find(tri_jarena *a, const tri_jmap *m, tri_jvalue key, uint64_t hash, entry **out) {
  bool same = false;

  *out = NULL;
  if (!m->slot) {
    for (int64_t i = 0; i < m->n && !*out; i++) {
      if (m->entry[i].hash == hash) TRI_TRY(same_key(a, m->entry[i].key, key, &same));
      if (same) *out = &m->entry[i];
    }
    return TRI_OK;
  }
  for (uint64_t at = hash;; at++) {
    int32_t i = m->slot[at & (uint64_t)(m->n_slot - 1)];
    if (!i) return TRI_OK;
    TRI_TRY(tri_jarena_step(a, 1));
    if (m->entry[i - 1].hash == hash) TRI_TRY(same_key(a, m->entry[i - 1].key, key, &same));
    if (same) {
      *out = &m->entry[i - 1];
      return TRI_OK;
    }
  }
}

static void place(tri_jmap *m, int64_t i) {
  uint64_t at = m->entry[i].hash;

  while (m->slot[at & (uint64_t)(m->n_slot - 1)]) at++;
  m->slot[at & (uint64_t)(m->n_slot - 1)] = (int32_t)(i + 1);
}

/* Keeps at least twice as many slots as entries. */
static tri_status hash_all(tri_jarena *a, tri_jmap *m) {
  void   *memory = NULL;
  int64_t n_slot = m->n_slot ? 4 * m->n_slot : 8 * SEARCHED;

  if (m->n <= SEARCHED || 2 * m->n <= m->n_slot) return TRI_OK;
  TRI_TRY(tri_jarena_step(a, m->n));
  TRI_TRY(tri_jarena_take(a, (size_t)n_slot * sizeof *m->slot, &memory));
  m->slot = memory;
  m->n_slot = n_slot;
  for (int64_t i = 0; i < m->n - 1; i++) place(m, i); /* the caller places the last one */
  return TRI_OK;
}

tri_status tri_jmap_put(tri_jarena *a, tri_jvalue map, tri_jvalue key, tri_jvalue value) {
  tri_jmap *m = map.as.map;
  uint64_t  hash = 0;
  entry    *e = NULL;

  TRI_ASSERT(map.kind == TRI_J_MAP);
  TRI_TRY(hash_key(a, key, &hash));
  TRI_TRY(find(a, m, key, hash, &e));
  TRI_TRY(tri_jarena_step(a, 1));
  if (e) {
    e->value = value;
    return TRI_OK;
  }
  TRI_TRY(TRI_JGROW(a, m->entry, m->cap, m->n, m->n + 1));
  m->entry[m->n++] = (entry){.key = key, .value = value, .hash = hash};
  TRI_TRY(hash_all(a, m));
  if (m->slot) place(m, m->n - 1);
  return TRI_OK;
}

tri_status tri_jmap_get(tri_jarena *a, tri_jvalue map, tri_jvalue key, tri_jvalue *out, bool *found) {
  uint64_t hash = 0;
  entry   *e = NULL;

  TRI_ASSERT(map.kind == TRI_J_MAP);
  TRI_TRY(hash_key(a, key, &hash));
  TRI_TRY(find(a, map.as.map, key, hash, &e));
  *found = e != NULL;
  if (e) *out = e->value;
  return TRI_OK;
}

int64_t tri_jmap_count(tri_jvalue map) { return map.as.map->n; }

void tri_jmap_at(tri_jvalue map, int64_t i, tri_jvalue *key, tri_jvalue *value) {
  *key = map.as.map->entry[i].key;
  *value = map.as.map->entry[i].value;
}

tri_status tri_jspace_set(tri_jarena *a, tri_jvalue space, const char *name, size_t n, tri_jvalue value) {
  tri_jvalue key;

  if (space.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(space);
  if (space.kind != TRI_J_NAMESPACE) TRI_FAIL(TRI_EINPUT, "cannot assign attribute on non-namespace object");
  if (n && name[0] == '_')
    TRI_FAIL(
        TRI_EINPUT,
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '%.*s'. Please "
        "rename the attribute.",
        (int)(n < 200 ? n : 200), name);
  TRI_TRY(tri_jtext_copy(a, name, n, &key));
  TRI_TRY(tri_jmap_put(a, space.as.space->map, key, value));
  return TRI_OK;
}
