/* tree.c - makes nodes, lists and names of a template's tree. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

enum { BUCKETS = 1024 };

static tri_status grow_buckets(tri_jtree *t, int64_t n) {
  tri_jname **bucket;

  TRI_TRY(tri_jarena_take(&t->arena, (size_t)n * sizeof *bucket, (void **)&bucket));
  for (int64_t i = 0; i < t->n_bucket; i++)
    for (tri_jname *name = t->bucket[i], *next; name; name = next) {
      tri_jname **at = &bucket[tri_hash64(name->s, name->n, 0) % (uint64_t)n];
      next = name->next;
      name->next = *at;
      *at = name;
    }
  t->bucket = bucket;
  t->n_bucket = n;
  return TRI_OK;
}

tri_status tri_jtree_name(tri_jtree *t, const char *s, size_t n, tri_jname **out) {
  uint64_t   hash = tri_hash64(s, n, 0);
  tri_jname *name;
  char      *copy;

  if (t->n_name >= t->n_bucket) TRI_TRY(grow_buckets(t, t->n_bucket ? 4 * t->n_bucket : BUCKETS));
  for (name = t->bucket[hash % (uint64_t)t->n_bucket]; name; name = name->next)
    if (name->n == n && !memcmp(name->s, s, n)) {
      *out = name;
      return TRI_OK;
    }
  TRI_TRY(tri_jarena_take(&t->arena, sizeof *name, (void **)&name));
  TRI_TRY(tri_jarena_take(&t->arena, n + 1, (void **)&copy));
  memcpy(copy, s, n);
  *name = (tri_jname){.s = copy, .n = n, .global = -1};
  name->next = t->bucket[hash % (uint64_t)t->n_bucket];
  t->bucket[hash % (uint64_t)t->n_bucket] = name;
  t->n_name++;
  *out = name;
  return TRI_OK;
}

tri_status tri_jtree_text(tri_jtree *t, char **out, const char *fmt, ...) {
  char    text[4096];
  va_list ap;
  size_t  n;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  n = strlen(text);
  TRI_TRY(tri_jarena_take(&t->arena, n + 1, (void **)out));
  memcpy(*out, text, n);
  return TRI_OK;
}

tri_status tri_jexpr_make(tri_jtree *t, tri_jexpr_kind kind, int line, tri_jexpr **out) {
  TRI_TRY(tri_jarena_take(&t->arena, sizeof **out, (void **)out));
  (*out)->kind = kind;
  (*out)->line = line;
  (*out)->depth = 1;
  return TRI_OK;
}

tri_status tri_jexprs_put(tri_jtree *t, tri_jexprs *list, tri_jexpr *x) {
  if (list->n == list->cap) {
    int64_t     cap = list->cap ? 2 * list->cap : 2;
    tri_jexpr **item;
    TRI_TRY(tri_jarena_take(&t->arena, (size_t)cap * sizeof *item, (void **)&item));
    if (list->n) memcpy(item, list->item, (size_t)list->n * sizeof *item);
    list->item = item;
    list->cap = cap;
  }
  list->item[list->n++] = x;
  return TRI_OK;
}

tri_status tri_jexpr_holds(tri_jexpr *x, const tri_jexpr *part) {
  if (part && part->depth >= x->depth) x->depth = part->depth + 1;
  if (x->depth > TRI_JINJA_LEVELS)
    TRI_JFAIL(x->line, "the expression is nested more than %d levels deep", TRI_JINJA_LEVELS);
  return TRI_OK;
}

tri_status tri_jstmt_put(tri_jtree *t, tri_jbody *body, tri_jstmt_kind kind, int line, tri_jstmt **out) {
  tri_jstmt *s;

  TRI_TRY(tri_jarena_take(&t->arena, sizeof *s, (void **)&s));
  s->kind = kind;
  s->line = line;
  if (body->last)
    body->last->next = s;
  else
    body->first = s;
  body->last = s;
  *out = s;
  return TRI_OK;
}

tri_status tri_jexpr_copy_target(tri_jtree *t, const tri_jexpr *x, tri_jexpr **out) {
  TRI_TRY(tri_jexpr_make(t, x->kind, x->line, out));
  (*out)->depth = x->depth;
  if (x->kind != TRI_JX_TUPLE) {
    (*out)->as = x->as;
    return TRI_OK;
  }
  for (int64_t i = 0; i < x->as.list.n; i++) {
    tri_jexpr *item;
    TRI_TRY(tri_jexpr_copy_target(t, x->as.list.item[i], &item));
    TRI_TRY(tri_jexprs_put(t, &(*out)->as.list, item));
  }
  return TRI_OK;
}
