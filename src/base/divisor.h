/* divisor.h - the largest common divisor of two numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DIVISOR_H
#define TRI_DIVISOR_H

#include <stdint.h>

/* Pure. Returns the largest common divisor of a and b, both above 0. */
static inline int64_t tri_common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

#endif
