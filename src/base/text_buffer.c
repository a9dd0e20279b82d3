/* text_buffer.c - growable text, and texts copied and compared. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "text_buffer.h"

#include "host_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tri_status tri_copy_text(const char *text, char **out) {
  size_t n = strlen(text) + 1;

  TRI_TRY(TRI_ALLOC(*out, n));
  memcpy(*out, text, n);
  return TRI_OK;
}

static tri_status text_space(tri_text *t, size_t more) {
  size_t need = t->len + more + 1, cap = t->cap ? t->cap : 256;
  char  *data;

  if (need <= t->cap) return TRI_OK;
  while (cap < need) cap *= 2;
  data = realloc(t->data, cap);
  if (!data) TRI_FAIL(TRI_ENOMEM, "the host cannot allocate %zu bytes of memory", cap);
  t->data = data;
  t->cap = cap;
  return TRI_OK;
}

tri_status tri_text_put(tri_text *t, const char *bytes, size_t n) {
  TRI_TRY(text_space(t, n));
  if (n) memcpy(t->data + t->len, bytes, n);
  t->len += n;
  t->data[t->len] = 0;
  return TRI_OK;
}

tri_status tri_text_printf(tri_text *t, const char *fmt, ...) {
  va_list ap;
  int     n;

  va_start(ap, fmt);
  n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0) TRI_FAIL(TRI_EINTERNAL, "a message cannot be formatted: %s", fmt);
  TRI_TRY(text_space(t, (size_t)n));
  va_start(ap, fmt);
  vsnprintf(t->data + t->len, (size_t)n + 1, fmt, ap);
  va_end(ap);
  t->len += (size_t)n;
  return TRI_OK;
}

void tri_text_free(tri_text *t) {
  free(t->data);
  *t = (tri_text){0};
}

/* Edit distance with a swap of two neighbours as one edit (optimal string alignment, three rows). Names
 * longer than a row count as far apart. */
static int edit_distance(const char *a, const char *b) {
  enum { MOST = 96 };
  int row[3][MOST + 1], n_a = (int)strlen(a), n_b = (int)strlen(b);

  if (n_a > MOST || n_b > MOST) return MOST;
  for (int j = 0; j <= n_b; j++) row[0][j] = j;
  for (int i = 1; i <= n_a; i++) {
    int *now = row[i % 3], *up = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= n_b; j++) {
      int best = up[j - 1] + (a[i - 1] != b[j - 1]);
      if (up[j] + 1 < best) best = up[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[n_a % 3][n_b];
}

bool tri_ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);

  return n >= m && !strcmp(text + n - m, end);
}

const char *tri_nearest_within(int edits, const char *name, const char *const *known, int n_known) {
  const char *best = NULL;
  int         best_distance = edits + 1;

  for (int i = 0; i < n_known; i++) {
    int d = edit_distance(name, known[i]);
    if (d < best_distance) {
      best = known[i];
      best_distance = d;
    }
  }
  return best;
}

const char *tri_nearest(const char *name, const char *const *known, int n_known) {
  int n = (int)strlen(name), limit = n / 3;

  if (limit < 2) limit = n < 4 ? n / 2 : 2; /* two edits turn three letters into another word */
  return tri_nearest_within(limit, name, known, n_known);
}
