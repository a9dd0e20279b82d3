/* number.c - formats numbers as the shortest text that reads back the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "number.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The search tries growing numbers of digits. If a few digits suffice, %g drops the zeros after them. So it
 * can begin at the number of digits that always survive (C11, 5.2.4.2.2: DBL_DIG, FLT_DIG). For subnormal
 * numbers it begins at one digit. It ends when the digits distinguish all numbers. */
enum { DOUBLE_FIRST = 15, DOUBLE_LAST = 17, FLOAT_FIRST = 6, FLOAT_LAST = 9 };

/* Formats integers and -0. False for all other numbers. */
static bool put_whole(double x, char out[TRI_NUMBER_BYTES]) {
  if (x == 0 && signbit(x)) return snprintf(out, TRI_NUMBER_BYTES, "-0.0") > 0;
  return fabs(x) < 0x1p53 && x == floor(x) && snprintf(out, TRI_NUMBER_BYTES, "%.0f", x) > 0;
}

void tri_number_text(double x, char out[TRI_NUMBER_BYTES]) {
  if (put_whole(x, out)) return;
  for (int digits = fabs(x) < DBL_MIN ? 1 : DOUBLE_FIRST; digits <= DOUBLE_LAST; digits++) {
    snprintf(out, TRI_NUMBER_BYTES, "%.*g", digits, x);
    if (strtod(out, NULL) == x) return;
  }
}

void tri_number_text_f32(float x, char out[TRI_NUMBER_BYTES]) {
  if (put_whole((double)x, out)) return;
  for (int digits = fabsf(x) < FLT_MIN ? 1 : FLOAT_FIRST; digits <= FLOAT_LAST; digits++) {
    snprintf(out, TRI_NUMBER_BYTES, "%.*g", digits, (double)x);
    if (strtof(out, NULL) == x && (float)strtod(out, NULL) == x) return;
  }
}
