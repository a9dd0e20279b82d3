/* tex_same.h - compares two answers: values, lists, intervals, matrices and relations. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_SAME_H
#define TRI_TEX_SAME_H

#include "base/error.h"
#include "decimal.h"

typedef enum tri_tex_verdict {
  TRI_TEX_UNREAD, /* one of the two cannot be read */
  TRI_TEX_DIFFERENT,
  TRI_TEX_SAME
} tri_tex_verdict;

/* Not collective, symmetric. Compares two answers by value. Returns TRI_ENOMEM if memory is short. */
TRI_CHECKED tri_status tri_tex_compare(tri_part a, tri_part b, tri_tex_verdict *verdict);

#endif
