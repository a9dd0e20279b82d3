/* text_number.h - finds the first and the last number in prose and compares numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_NUMBER_H
#define TRI_TEXT_NUMBER_H

#include "base/text_buffer.h"
#include "math_field.h"

/* A number in its text, which is borrowed. */
typedef struct tri_text_number {
  tri_part    text;  /* with its sign */
  bool        plain; /* only digits, with an optional sign, groups and a fraction behind a point */
  bool        negative;
  tri_residue at[TRI_FIELDS];
  double      estimate;
} tri_text_number;

typedef enum tri_text_found {
  TRI_TEXT_NONE,
  TRI_TEXT_NUMBER,
  TRI_TEXT_BROKEN /* digits without a value as a whole, such as 1.2.3, 1,23, 4:30 */
} tri_text_found;

/* Pure. Finds the first or the last number of a text. Returns TRI_TEXT_BROKEN if digits at that place are not
 * a number. reward.h, `number`, lists the readable numbers. */
tri_text_found tri_text_number_first(const char *s, size_t n, tri_text_number *out);
tri_text_found tri_text_number_last(const char *s, size_t n, tri_text_number *out);
/* Pure. Tells whether they are the same number, without rounding. */
bool tri_text_number_same(const tri_text_number *a, const tri_text_number *b);
/* Not collective. Appends the number. Equal plain numbers give equal texts. */
TRI_CHECKED tri_status tri_text_number_put(const tri_text_number *x, tri_text *out);

#endif
