/* attend.h - rows of queries meet blocks of keys: the attention of bf16 by tiles, for training and
 * decoding alike, so that a row has the same bits in both (cpu/kernels/attention_pairs.c).
 *
 * As cpu/kernels/attention.c, but a row meets TRI_PAIRS_BLOCK keys at once and its weights are rounded to
 * bf16 for the product with the values. A weight of 0 adds nothing to a sum, whatever the finite value it
 * meets; values that are not finite are taken away from the rows that do not see them. What one thread has
 * for itself; nothing is collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_ATTEND_H
#define TRI_CPU_ATTEND_H

#include "pairs.h"

enum {
  TRI_ATTEND_MAX_D = 512, /* the widest head */
  TRI_ATTEND_WIDE = 256,  /* a head up to this width, */
  TRI_ATTEND_ROWS = 256,  /* and so many rows (tokens x heads), share the load of a block; */
  TRI_ATTEND_ALL = TRI_ATTEND_WIDE * TRI_ATTEND_ROWS, /* elements */
  TRI_ATTEND_PANEL = TRI_ATTEND_MAX_D / 2 * TRI_PAGE, /* pairs of a panel */
};

typedef struct tri_attend { /* of the rows one thread works on, and the block they share */
  const tri_pairs *x;
  int              D, dk, dv;  /* the width; padded to 32 as depth, to 16 as columns */
  int              each;       /* rows of a group, TRI_PAIRS_ROWS or fewer */
  float            scale, cap; /* 0: none */
  const uint32_t  *k[TRI_PAIRS_PANELS],
      *v[TRI_PAIRS_PANELS];                 /* panels [dk/2,TRI_PAGE,2] and [TRI_PAGE/2,ld_v,2] */
  const uint32_t  *fetch[TRI_PAIRS_PANELS]; /* pages that are met next, or NULL */
  int64_t          ld_v;                    /* pairs */
  bool             finite;                  /* all of the block's values */
  uint16_t         q[TRI_ATTEND_ALL];       /* [rows,dk] */
  float            o[TRI_ATTEND_ALL];       /* [rows,dv], sums of p v */
  tri_pairs_rows16 rows[TRI_ATTEND_ROWS / TRI_PAIRS_ROWS];
  uint32_t         own_k[TRI_PAIRS_PANELS][TRI_ATTEND_PANEL], own_v[TRI_PAIRS_PANELS][TRI_ATTEND_PANEL],
      left_v[TRI_PAIRS_PANELS][TRI_ATTEND_PANEL];
  float    s[TRI_PAIRS_ROWS * TRI_PAIRS_BLOCK];
  uint16_t p[TRI_PAIRS_ROWS * TRI_PAIRS_BLOCK];
} tri_attend;

static inline int tri_attend_pad(int n, int to) { return (n + to - 1) / to * to; }
static inline int tri_attend_least(int64_t a, int b) { return a < b ? (int)a : b; }
/* The key that begins the first block a row at position `row` sees. */
static inline int64_t tri_attend_first(int64_t row, int64_t window) {
  return window > 0 && row >= window ? (row + 1 - window) / TRI_PAIRS_BLOCK * TRI_PAIRS_BLOCK : 0;
}

/* Groups of `each` rows, of which as many as `tile` meet the same keys in one call below. Until x->end. */
void tri_attend_open(tri_attend *a, const tri_attn_rule *rule, int each, int tile);
/* Rows of groups 0 .. n_group - 1 have met no key. */
void tri_attend_begin(tri_attend *a, int n_group);
/* n_row rows of which the first is `ahead` rows behind the block's first key, each `step` behind the one
 * before it. */
void tri_attend_see(tri_pairs_seen *seen, int64_t ahead, int64_t window, int step, int n_row);
/* The three parts of a block: n_row rows of group `group`, from its row `row` on, and the keys in a->k; the
 * group's n_row rows become weights; and the values in a->v. */
void tri_attend_keys(tri_attend *a, int group, int row, int n_row, const tri_pairs_seen *t);
void tri_attend_weigh(tri_attend *a, int group, int n_row, const tri_pairs_seen *t);
void tri_attend_values(tri_attend *a, int group, int row, int n_row, const tri_pairs_seen *t);
/* All three, for n_row rows of group `group`; values may be not finite. */
void tri_attend_block(tri_attend *a, int group, int n_row, const tri_pairs_seen *t);
/* to = the panel of values v, row stride ld pairs, with zeros for keys outside of first .. end - 1. */
void tri_attend_leave(uint32_t *to, const uint32_t *v, int64_t ld, int D, int first, int end);
/* Row `row` of a group to o [D]; returns the sum of its weights. */
float tri_attend_end(const tri_attend *a, int group, int row, uint16_t *o);

#endif
