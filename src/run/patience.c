/* patience.c - decides how long and when to retry the final checkpoint after it could not be written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "patience.h"

#include <math.h>

static const double most_s = 600, spare_s = 10; /* chosen: enough to free a disk; spare_s as in pace.c */
static const double each_s[] = {1, 10, 30, 60}; /* chosen: many errors last a moment only */
enum { N_EACH = sizeof each_s / sizeof *each_s };

tri_patience tri_patience_begin(double now_s, double left_s, double save_s, int bounded) {
  double span_s = isinf(left_s) ? most_s : fmax(0, left_s - save_s - spare_s);

  return (tri_patience){now_s + (bounded ? fmin(span_s, most_s) : span_s), 0};
}

double tri_patience_next_s(tri_patience *p, double now_s) {
  double wait_s = each_s[p->tries < N_EACH ? p->tries : N_EACH - 1];

  if (p->tries++ == 0) return wait_s; /* the first retry costs next to nothing */
  if (now_s >= p->until_s) return -1;
  return fmin(wait_s, p->until_s - now_s);
}
