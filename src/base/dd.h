/* dd.h - numbers of twice the precision of f64, as sums of two f64 (double-double arithmetic). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DD_H
#define TRI_DD_H

#include "inline.h"

/* The number is hi + lo, and hi is that sum in f64. A sum of n numbers errs by some n 2^-106. So its hi
 * depends on the order of the numbers only if the exact sum lies that near to the middle of two f64. */
typedef struct tri_dd {
  double hi, lo;
} tri_dd;

/* Adds x to *hi, and the exact error of that sum to *lo (Knuth's two-sum). It costs less than tri_dd_add.
 * Call that once after many of these. */
TRI_INLINE void tri_dd_take(double *hi, double *lo, double x) {
  double sum = *hi + x, rest = sum - *hi;

  *lo += (*hi - (sum - rest)) + (x - rest);
  *hi = sum;
}

/* Pure. Returns a + b (Dekker 1971, add2, with the exact error of a.hi + b.hi by Knuth's two-sum). A NaN in
 * either makes hi NaN, else an Inf makes it Inf. a and b may be exchanged. */
TRI_INLINE tri_dd tri_dd_add(tri_dd a, tri_dd b) {
  double sum = a.hi + b.hi, rest = sum - a.hi, low = (a.hi - (sum - rest)) + (b.hi - rest) + (a.lo + b.lo);
  tri_dd c;

  c.hi = low == low ? sum + low : sum; /* no NaN for Inf */
  c.lo = low - (c.hi - sum);
  return c;
}

#endif
