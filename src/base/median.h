/* median.h - finds the median of numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEDIAN_H
#define TRI_MEDIAN_H

#include <stdint.h>

/* Not collective. Sorts x [n], which must hold no NaN. Returns its median, the mean of the two middle numbers
 * if n is even, or `none` if n is 0. */
double tri_median(double *x, int64_t n, double none);

#endif
