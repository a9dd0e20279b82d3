/* median.c - finds the median of numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "median.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

double tri_median(double *x, int64_t n, double none) {
  if (n <= 0) return none;
  qsort(x, (size_t)n, sizeof *x, by_size);
  return (x[(n - 1) / 2] + x[n / 2]) / 2;
}
