/* attend.h - bf16 attention of rows of queries to blocks of keys, in tiles. Training and decoding share it,
 * so a row has the same bits in both (cpu/kernels/attention_pairs.c).
 *
 * The algorithm is that of cpu/kernels/attention.c with two differences. A row processes TRI_PAIRS_BLOCK keys
 * at once, and its weights are rounded to bf16 for the product with the values. A weight of 0 adds nothing to
 * a sum if the value is finite. Values that are not finite are removed for rows that do not see them. All
 * state belongs to one thread. Not collective, all of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_ATTEND_H
#define TRI_CPU_ATTEND_H

#include "pairs.h"

enum {
  TRI_ATTEND_MAX_D = 512, /* the widest head */
  TRI_ATTEND_WIDE = 256,  /* a head up to this width */
  TRI_ATTEND_ROWS = 256,  /* rows (tokens x heads) that share the load of a block */
  TRI_ATTEND_ALL = TRI_ATTEND_WIDE * TRI_ATTEND_ROWS, /* elements */
  TRI_ATTEND_PANEL = TRI_ATTEND_MAX_D / 2 * TRI_PAGE, /* pairs of a panel */
};

typedef struct tri_attend { /* the rows of one thread and the block they share */
  const tri_pairs *x;
  int              D, dk, dv;  /* head width; padded to 32 as depth; padded to 16 as columns */
  int              each;       /* rows of a group, at most TRI_PAIRS_ROWS */
  float            scale, cap; /* cap 0 means none */
  const uint32_t  *k[TRI_PAIRS_PANELS],
      *v[TRI_PAIRS_PANELS];                 /* panels [dk/2,TRI_PAGE,2] and [TRI_PAGE/2,ld_v,2] */
  const uint32_t  *fetch[TRI_PAIRS_PANELS]; /* pages to prefetch, used next, or NULL */
  int64_t          ld_v;                    /* pairs */
  bool             finite;                  /* whether all values of the block are finite */
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
/* Returns the first key of the first block seen by a row at position `row`. */
static inline int64_t tri_attend_first(int64_t row, int64_t window) {
  return window > 0 && row >= window ? (row + 1 - window) / TRI_PAIRS_BLOCK * TRI_PAIRS_BLOCK : 0;
}

/* Sets up groups of `each` rows. `tile` is the largest number of rows with the same keys in one call below.
 * Call x->end afterwards. */
void tri_attend_open(tri_attend *a, const tri_attn_rule *rule, int each, int tile);
/* Resets rows of groups 0 .. n_group - 1 to having seen no key. */
void tri_attend_begin(tri_attend *a, int n_group);
/* Sets which keys of the block n_row rows see. The first row is `ahead` rows behind the block's first key.
 * Each next row is `step` further. */
void tri_attend_see(tri_pairs_seen *seen, int64_t ahead, int64_t window, int step, int n_row);
/* The three parts of a block. keys computes scores of n_row rows of group `group`, from its row `row` on,
 * with the keys in a->k. weigh turns the scores of n_row rows of the group into weights. values adds the
 * products of the weights with the values in a->v. */
void tri_attend_keys(tri_attend *a, int group, int row, int n_row, const tri_pairs_seen *t);
void tri_attend_weigh(tri_attend *a, int group, int n_row, const tri_pairs_seen *t);
void tri_attend_values(tri_attend *a, int group, int row, int n_row, const tri_pairs_seen *t);
/* Does all three for n_row rows of group `group`. Values need not be finite. */
void tri_attend_block(tri_attend *a, int group, int n_row, const tri_pairs_seen *t);
/* Copies the panel of values v, row stride ld pairs, to `to`, with zeros for keys outside first .. end -
 * 1. */
void tri_attend_leave(uint32_t *to, const uint32_t *v, int64_t ld, int D, int first, int end);
/* Writes row `row` of a group to o [D] and returns the sum of its weights. */
float tri_attend_end(const tri_attend *a, int group, int row, uint16_t *o);

#endif
