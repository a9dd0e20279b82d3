/* text_number.h - numbers in prose: the first, the last, whether two are equal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_NUMBER_H
#define TRI_TEXT_NUMBER_H

#include "base/text_buffer.h"
#include "math_field.h"

/* A number where it stands; its text is borrowed. */
typedef struct tri_text_number {
  tri_part    text;  /* with its sign */
  bool        plain; /* digits alone, perhaps with a sign, groups and a fraction behind a point */
  bool        negative;
  tri_residue at[TRI_FIELDS];
  double      estimate;
} tri_text_number;

typedef enum tri_text_found {
  TRI_TEXT_NONE,
  TRI_TEXT_NUMBER,
  TRI_TEXT_BROKEN /* digits that are no number as a whole: 1.2.3, 1,23, 4:30 */
} tri_text_found;

/* The first, the last number of a text; TRI_TEXT_BROKEN where digits stand there that are none. Which numbers
 * are read: reward.h, `number`. Pure. */
tri_text_found tri_text_number_first(const char *s, size_t n, tri_text_number *out);
tri_text_found tri_text_number_last(const char *s, size_t n, tri_text_number *out);
/* Whether they are the same number, unrounded. Pure. */
bool tri_text_number_same(const tri_text_number *a, const tri_text_number *b);
/* Not collective. Appends it; plain numbers that are the same are the same text. */
TRI_CHECKED tri_status tri_text_number_put(const tri_text_number *x, tri_text *out);

#endif
