/* decimal.h - texts that are one decimal number. */
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

/* A decimal number where it stands: whole without leading zeros (commas still inside), fraction without
 * trailing ones. */
typedef struct tri_decimal {
  bool     negative;
  tri_part whole, fraction;
} tri_decimal;

/* Whether the text is one number and nothing else: ASCII digits, groups of three behind commas. Pure. */
bool tri_decimal_whole(const char *s, size_t n, tri_decimal *out);
/* Whether they are the same number, unrounded. Pure. */
bool tri_decimal_same(const tri_decimal *a, const tri_decimal *b);

#endif
