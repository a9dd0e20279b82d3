/* value_grow.c - appends to texts and lists that a template builds piece by piece, mostly in a loop. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

/* Values never change their bytes, and a longer value may share the bytes of a shorter one at its front. If
 * there is space after the last text or list made here, an addition is put right behind it in memory. So a
 * text of n pieces takes twice its bytes, not n times. */

/* Finds the memory that ends with these n elements. NULL: unknown. */
static tri_jtail *find_tail(tri_jarena *a, const void *at, int64_t n) {
  for (tri_jtail *t = a->tail; t < a->tail + TRI_JINJA_TAILS; t++)
    if (n && t->at == at && t->n == n) return t;
  return NULL;
}

/* Replaces the oldest entry. */
static void keep_tail(tri_jarena *a, void *at, int64_t n, int64_t cap) {
  a->tail[a->next_tail++ % TRI_JINJA_TAILS] = (tri_jtail){at, n, cap};
}

/* Makes space for `more` elements after the tail. */
static tri_status widen(tri_jarena *a, tri_jtail *t, int64_t more, size_t size) {
  int64_t cap = 2 * (t->n + more);
  void   *fresh = NULL;

  if (more <= t->cap - t->n) return TRI_OK;
  TRI_TRY(tri_jarena_take(a, (size_t)cap * size, &fresh));
  memcpy(fresh, t->at, (size_t)t->n * size);
  *t = (tri_jtail){fresh, t->n, cap};
  return TRI_OK;
}

static tri_status put_piece(tri_jarena *a, tri_jtail *t, tri_jvalue v) {
  tri_jbuf said = {.a = a};

  if (v.kind != TRI_J_STRING) {
    TRI_TRY(tri_jwrite_str(&said, v));
    v = tri_jbuf_value(&said, 0);
  }
  TRI_TRY(tri_jarena_step(a, (int64_t)(v.as.text.n / 64)));
  TRI_TRY(widen(a, t, (int64_t)v.as.text.n, 1));
  if (v.as.text.n) memmove((char *)t->at + t->n, v.as.text.s, v.as.text.n);
  t->n += (int64_t)v.as.text.n;
  return TRI_OK;
}

tri_status tri_jtext_join(tri_jarena *a, const tri_jvalue *v, int64_t n, tri_jvalue *out) {
  tri_jbuf   b = {.a = a};
  tri_jtail *found =
      n && v[0].kind == TRI_J_STRING ? find_tail(a, v[0].as.text.s, (int64_t)v[0].as.text.n) : NULL;
  tri_jtail t = found ? *found : (tri_jtail){0};

  /* str() of a loop runs its test, and that must not grow the same text. */
  if (found) *found = (tri_jtail){0};
  for (int64_t i = 1; found && i < n; i++) TRI_TRY(put_piece(a, &t, v[i]));
  for (int64_t i = 0; !found && i < n; i++) TRI_TRY(tri_jwrite_str(&b, v[i]));
  if (found)
    *found = t;
  else if (b.n)
    keep_tail(a, b.s, (int64_t)b.n, (int64_t)b.cap);
  *out = found ? tri_jtext(t.at, (size_t)t.n) : tri_jbuf_value(&b, 0);
  return TRI_OK;
}

tri_status tri_jlist_join(tri_jarena *a, tri_jvalue x, tri_jvalue y, tri_jvalue *out) {
  tri_jtail *found = find_tail(a, x.as.list->item, x.as.list->n), t;
  tri_jlist *list;
  void      *memory = NULL;

  if (found) {
    t = *found;
  } else {
    TRI_TRY(tri_jarena_take(a, (size_t)(x.as.list->n + y.as.list->n) * sizeof(tri_jvalue), &memory));
    TRI_TRY(tri_jarena_step(a, x.as.list->n));
    t = (tri_jtail){memory, 0, x.as.list->n + y.as.list->n};
    if (x.as.list->n) memcpy(t.at, x.as.list->item, (size_t)x.as.list->n * sizeof(tri_jvalue));
    t.n = x.as.list->n;
  }
  TRI_TRY(tri_jarena_step(a, y.as.list->n));
  TRI_TRY(widen(a, &t, y.as.list->n, sizeof(tri_jvalue)));
  if (y.as.list->n)
    memmove((tri_jvalue *)t.at + t.n, y.as.list->item, (size_t)y.as.list->n * sizeof(tri_jvalue));
  t.n += y.as.list->n;
  if (found)
    *found = t;
  else
    keep_tail(a, t.at, t.n, t.cap);
  TRI_TRY(tri_jarena_take(a, sizeof *list, &memory));
  list = memory;
  *list = (tri_jlist){.item = t.at, .n = t.n};
  *out = tri_jlist_value(x.kind, list);
  return TRI_OK;
}
