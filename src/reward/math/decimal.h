/* decimal.h - decimal numbers in texts: the last one, whether two are equal. */
#ifndef TRI_DECIMAL_H
#define TRI_DECIMAL_H

#include "base/base.h"

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

/* The first, the last number of the text; false: there is none. What a number is: reward.h, `number`.
 * Pure. */
bool tri_decimal_first(const char *s, size_t n, tri_decimal *out);
bool tri_decimal_last(const char *s, size_t n, tri_decimal *out);
/* Whether the text is one number and nothing else. Pure. */
bool tri_decimal_whole(const char *s, size_t n, tri_decimal *out);
/* Whether they are the same number, unrounded. Pure. */
bool tri_decimal_same(const tri_decimal *a, const tri_decimal *b);
/* Not collective. Appends it, without what stands where it stood: numbers that are the same are the same
 * text. */
TRI_CHECKED tri_status tri_decimal_put(const tri_decimal *d, tri_text *out);

#endif
