/* tex_same.h - whether two answers are the same value, list, interval, matrix or relation. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_SAME_H
#define TRI_TEX_SAME_H

#include "base/error.h"
#include "decimal.h"

typedef enum tri_tex_verdict {
  TRI_TEX_UNREAD, /* one of the two has no form that is read */
  TRI_TEX_DIFFERENT,
  TRI_TEX_SAME
} tri_tex_verdict;

/* Not collective. Compares two answers by value; symmetric. TRI_ENOMEM where memory ends. */
TRI_CHECKED tri_status tri_tex_compare(tri_part a, tri_part b, tri_tex_verdict *verdict);

#endif
