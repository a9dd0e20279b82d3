/* value_arena.c - counts memory, steps and levels of a rendering, and grows buffers in the arena. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "value_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
  BLOCK_LEAST = 16 << 10,
  BLOCK_MOST = 1 << 20
}; /* chosen, few blocks for small and for large templates */

struct tri_jblock {
  struct tri_jblock *below;
  size_t             used, cap;
  char               bytes[];
};

static size_t round_up(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static int64_t most_bytes(const tri_jarena *a) { return TRI_JINJA_BYTES + TRI_JINJA_BYTES_MORE * a->given; }

static tri_status count_bytes(tri_jarena *a, size_t bytes) {
  if (bytes > (size_t)most_bytes(a) || a->bytes + (int64_t)bytes > most_bytes(a))
    TRI_FAIL(TRI_EINPUT,
             "the template takes more than %lld MiB of memory. The limit counts all values it makes, even "
             "those no longer used",
             (long long)(most_bytes(a) >> 20));
  a->bytes += (int64_t)bytes;
  return TRI_OK;
}

tri_status tri_jarena_take(tri_jarena *a, size_t bytes, void **out) {
  struct tri_jblock *b = a->block, *fresh = NULL;
  size_t             cap;
  void              *memory = NULL;

  *out = NULL;
  TRI_TRY(count_bytes(a, bytes));
  bytes = round_up(bytes);
  if (!b || b->cap - b->used < bytes) {
    cap = b ? 2 * b->cap : BLOCK_LEAST;
    if (cap > BLOCK_MOST) cap = BLOCK_MOST;
    if (cap < bytes) cap = bytes;
    TRI_TRY(tri_host_alloc(1, sizeof *b + cap, &memory));
    fresh = memory;
    fresh->cap = cap;
    if (b && cap == bytes &&
        b->cap - b->used > cap / 2) { /* a large one, so the rest of the previous block stays in use */
      fresh->used = cap;
      fresh->below = b->below;
      b->below = fresh;
      *out = fresh->bytes;
      return TRI_OK;
    }
    fresh->below = b;
    a->block = b = fresh;
  }
  *out = b->bytes + b->used;
  b->used += bytes;
  return TRI_OK;
}

tri_status tri_jarena_step(tri_jarena *a, int64_t n) {
  int64_t most = TRI_JINJA_STEPS + TRI_JINJA_STEPS_MORE * a->given;

  if (n < 0 || n > most - a->steps)
    TRI_FAIL(TRI_EINPUT, "the template takes more than %lld steps", (long long)most);
  a->steps += n;
  return TRI_OK;
}

tri_status tri_jarena_enter(tri_jarena *a) {
  if (++a->level > TRI_JINJA_LEVELS)
    TRI_FAIL(TRI_EINPUT, "the template or its values are nested deeper than %d levels", TRI_JINJA_LEVELS);
  return TRI_OK;
}

void tri_jarena_leave(tri_jarena *a) { a->level--; }

void tri_jarena_free(tri_jarena *a) {
  for (struct tri_jblock *b = a->block, *below; b; b = below) {
    void *memory = b;
    below = b->below;
    tri_host_free(&memory);
  }
  *a = (tri_jarena){0};
}

tri_status tri_jput(tri_jarena *a, tri_text *out, const char *bytes, size_t n) {
  TRI_TRY(tri_jarena_step(a, (int64_t)(n / 64)));
  if (n > (size_t)most_bytes(a) || out->len + n > (size_t)most_bytes(a))
    TRI_FAIL(TRI_EINPUT, "the template writes more than %lld MiB", (long long)(most_bytes(a) >> 20));
  TRI_TRY(tri_text_put(out, bytes, n));
  return TRI_OK;
}

tri_status tri_jarena_grow(tri_jarena *a, void **p, int64_t *cap, int64_t n, int64_t need, size_t size) {
  struct tri_jblock *b = a->block;
  int64_t            more = need > 2 * *cap ? need : 2 * *cap;
  char              *old = *p;
  size_t             old_bytes = round_up((size_t)*cap * size);
  void              *fresh = NULL;

  if (need <= *cap) return TRI_OK;
  if (need > TRI_JINJA_BYTES) TRI_TRY(count_bytes(a, (size_t)need));
  if (more < 16) more = 16;
  if (old && b && old + old_bytes == b->bytes + b->used &&
      round_up((size_t)more * size) - old_bytes <= b->cap - b->used) {
    TRI_TRY(count_bytes(a, round_up((size_t)more * size) - old_bytes));
    b->used += round_up((size_t)more * size) - old_bytes;
    *cap = more;
    return TRI_OK;
  }
  TRI_TRY(tri_jarena_take(a, (size_t)more * size, &fresh));
  if (n) memcpy(fresh, old, (size_t)n * size);
  *p = fresh;
  *cap = more;
  return TRI_OK;
}

tri_status tri_jbuf_put(tri_jbuf *b, const char *bytes, size_t n) {
  int64_t cap = (int64_t)b->cap;

  TRI_TRY(tri_jarena_step(b->a, (int64_t)(n / 64)));
  if (n > b->cap - b->n) {
    if (n > TRI_JINJA_BYTES) TRI_TRY(count_bytes(b->a, n));
    TRI_TRY(TRI_JGROW(b->a, b->s, cap, (int64_t)b->n, (int64_t)(b->n + n)));
    b->cap = (size_t)cap;
  }
  if (n) memcpy(b->s + b->n, bytes, n);
  b->n += n;
  return TRI_OK;
}

tri_status tri_jbuf_text(tri_jbuf *b, const char *text) { return tri_jbuf_put(b, text, strlen(text)); }

tri_status tri_jbuf_fill(tri_jbuf *b, char c, int64_t n) {
  char piece[256];

  memset(piece, c, sizeof piece);
  for (; n > 0; n -= (int64_t)sizeof piece)
    TRI_TRY(tri_jbuf_put(b, piece, n < (int64_t)sizeof piece ? (size_t)n : sizeof piece));
  return TRI_OK;
}

tri_status tri_jbuf_printf(tri_jbuf *b, const char *fmt, ...) {
  char    text[512];
  va_list ap;
  int     n;

  va_start(ap, fmt);
  n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  TRI_ASSERT(n >= 0 && n < (int)sizeof text);
  TRI_TRY(tri_jbuf_put(b, text, (size_t)n));
  return TRI_OK;
}

tri_jvalue tri_jbuf_value(const tri_jbuf *b, int32_t note) {
  return (tri_jvalue){.kind = TRI_J_STRING, .note = note, .as.text = {.s = b->s ? b->s : "", .n = b->n}};
}
