/* series.c - decides how often to repeat a measurement, and returns its median and its best. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "series.h"

#include "base/clock.h"
#include "base/median.h"

#include <string.h>

void tri_series_add(tri_series *s, double took_s, double to_s) {
  if (!s->begun) {
    s->begun = true;
    s->began_s = to_s;
    return;
  }
  if (s->n < s->effort.most) s->x[s->n++] = took_s;
  s->spent_s = to_s - s->began_s;
}

void tri_series_put(tri_series *s, double from_s, double to_s) { tri_series_add(s, to_s - from_s, to_s); }

bool tri_series_enough(const tri_series *s) {
  const tri_effort *e = &s->effort;

  return s->n == e->most || (s->n >= e->least && s->spent_s > e->part_s) ||
         (s->n >= 1 && s->spent_s > e->most_s);
}

double tri_series_median(const tri_series *s) {
  double x[TRI_SERIES_MOST];

  memcpy(x, s->x, (size_t)s->n * sizeof *x);
  return tri_median(x, s->n, 0);
}

double tri_series_best(const tri_series *s) {
  double best = s->n ? s->x[0] : 0;

  for (int i = 1; i < s->n; i++)
    if (s->x[i] < best) best = s->x[i];
  return best;
}

void tri_series_begin(tri_series *s) { s->from_s = tri_now_s(); }

void tri_series_end(tri_series *s) { tri_series_put(s, s->from_s, tri_now_s()); }

tri_status tri_series_ask(tri_comm *world, const tri_series *s, bool *enough) {
  *enough = tri_series_enough(s);
  return tri_host_bcast(world, enough, sizeof *enough, 0);
}
