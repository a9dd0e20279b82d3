/* value_unicode.h - the layout of the tables in value_unicode_table.c. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_VALUE_UNICODE_H
#define TRI_JINJA_VALUE_UNICODE_H

#include <stdint.h>

/* Pairs of first and last, in ascending order. */
typedef struct tri_junicode_ranges {
  const int32_t *at; /* [2 n] */
  int64_t        n;
} tri_junicode_ranges;
/* Every step-th character of first .. last is shifted by delta. */
typedef struct tri_junicode_rule {
  int32_t first, last, step, delta;
} tri_junicode_rule;
/* A character that maps to two or three. The third is 0 if there are two. */
typedef struct tri_junicode_longer {
  int32_t c, to[3];
} tri_junicode_longer;
typedef struct tri_junicode_mapping {
  const tri_junicode_rule   *rule; /* [n_rule], by first */
  int64_t                    n_rule;
  const tri_junicode_longer *longer; /* [n_longer], by c */
  int64_t                    n_longer;
} tri_junicode_mapping;

extern const tri_junicode_ranges tri_junicode_class[]; /* in the order of tri_jclass */
extern const tri_junicode_mapping
    tri_junicode_case[]; /* by tri_jcase. TITLE and FOLD: only if different from UPPER and LOWER */

#endif
