/* thin.c - chooses the points of a long curve to draw, without losing a peak, and computes its mean. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "thin.h"

#include "base/host_memory.h"

#include <math.h>

enum {
  MEAN_ROWS = 60,  /* chosen, a curve of fewer rows is clear without a mean */
  MEAN_PARTS = 30, /* chosen, a mean over this part of the rows shows the trend */
  MEAN_LEAST = 5   /* chosen, a mean over fewer rows is hardly smoother */
};

int64_t tri_thin_width(int64_t first, int64_t last, int columns) {
  int64_t behind = last - first; /* fits in 64 bits since steps are not negative, while one more might not */

  return behind < 2 * (int64_t)columns ? 1 : behind / columns + 1;
}

/* The rows kept so far. */
typedef struct kept {
  int64_t *row, n;
} kept;

static void keep(kept *k, int64_t row) {
  if (row == TRI_THIN_GAP && (k->n == 0 || k->row[k->n - 1] == row)) return;
  k->row[k->n++] = row;
}

/* Keeps the rows of one column, from .. to - 1. Returns true if the line is broken at its end. */
static bool keep_column(const tri_curve *c, int64_t from, int64_t to, kept *k, bool joined, bool broken) {
  int64_t low = -1, high = -1;

  for (int64_t i = from; i < to; i++) {
    if (isnan(c->value[i])) continue;
    if (low < 0 || c->value[i] < c->value[low]) low = i;
    if (high < 0 || c->value[i] > c->value[high]) high = i;
  }
  if (low < 0) return broken || (to > from && !joined);
  if (broken || (!joined && isnan(c->value[from]))) keep(k, TRI_THIN_GAP);
  keep(k, low < high ? low : high);
  if (low != high) keep(k, low < high ? high : low);
  return !joined && isnan(c->value[to - 1]);
}

tri_status tri_thin(const tri_curve *c, int64_t first, int64_t last, int columns, bool joined, int64_t **row,
                    int64_t *n) {
  int64_t width = tri_thin_width(first, last, columns), from = 0, most = c->n;
  bool    broken = false;
  kept    k = {0};

  TRI_ASSERT(columns > 0 && first <= last);
  if (width > 1 && most > 2 * (int64_t)columns + 2) most = 2 * (int64_t)columns + 2;
  TRI_TRY(TRI_ALLOC(k.row, 2 * most + 1)); /* with a gap between any two */
  while (from < c->n) {
    int64_t column = (c->step[from] - first) / width, to = from + 1;
    while (to < c->n && (c->step[to] - first) / width == column) to++;
    broken = keep_column(c, from, to, &k, joined, broken);
    from = to;
  }
  if (k.n && k.row[k.n - 1] == TRI_THIN_GAP) k.n--;
  *row = k.row;
  *n = k.n;
  return TRI_OK;
}

void tri_means_free(tri_means *m) {
  TRI_FREE(m->row);
  TRI_FREE(m->mean);
  *m = (tri_means){0};
}

/* Lists the rows with a number and adds these up. sum[i] is the sum of the first i numbers. Returns their
 * count. */
static int64_t add_up(const tri_curve *c, int64_t *row, double *sum) {
  int64_t n = 0;

  for (int64_t i = 0; i < c->n; i++) {
    if (isnan(c->value[i])) continue;
    row[n] = i;
    sum[n + 1] = sum[n] + c->value[i];
    n++;
  }
  return n;
}

tri_status tri_means_make(const tri_curve *c, int most, tri_means *out) {
  tri_means  m = {0};
  int64_t   *row = NULL, n;
  double    *sum = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(row, c->n + 1));
  TRI_TRY_DONE(TRI_ALLOC(sum, c->n + 1));
  n = add_up(c, row, sum);
  if (n < MEAN_ROWS) goto done;
  m.width = n / MEAN_PARTS > MEAN_LEAST ? n / MEAN_PARTS : MEAN_LEAST;
  m.n = n < most ? n : most;
  m.apart = m.width + n / m.n + 2;
  TRI_TRY_DONE(TRI_ALLOC(m.row, m.n));
  TRI_TRY_DONE(TRI_ALLOC(m.mean, m.n));
  for (int64_t i = 0; i < m.n; i++) {
    int64_t at = m.n == n ? i : i * (n - 1) / (m.n - 1), half = m.width / 2;
    int64_t from = at > half ? at - half : 0, to = at + half + 1 < n ? at + half + 1 : n;
    m.row[i] = row[at];
    m.mean[i] = (sum[to] - sum[from]) / (double)(to - from);
  }
  *out = m;
  m = (tri_means){0};
done:
  TRI_FREE(row);
  TRI_FREE(sum);
  tri_means_free(&m);
  return st;
}
