/* decimal.h - decimal numbers that fill a whole text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECIMAL_H
#define TRI_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* Part of a text, borrowed. */
typedef struct tri_part {
  const char *at;
  size_t      n;
} tri_part;

/* A decimal number in its text. `whole` lacks leading zeros but keeps its commas. `fraction` lacks trailing
 * zeros. */
typedef struct tri_decimal {
  bool     negative;
  tri_part whole, fraction;
} tri_decimal;

/* Pure. Tells whether the text is one number and nothing else, of ASCII digits or groups of three separated
 * by commas. */
bool tri_decimal_whole(const char *s, size_t n, tri_decimal *out);
/* Pure. Tells whether they are the same number, without rounding. */
bool tri_decimal_same(const tri_decimal *a, const tri_decimal *b);

#endif
