/* attend.c - attention of rows of queries to blocks of keys. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attend.h"

#include <math.h>
#include <string.h>

#if TRI_PAIRS_X86

enum { BLOCK = TRI_PAIRS_BLOCK };

static inline int clamp(int64_t n) { return n < 0 ? 0 : n > BLOCK ? BLOCK : (int)n; }

TRI_PAIRS_TARGET void tri_attend_open(tri_attend *a, const tri_attn_rule *rule, int each, int tile) {
  a->x = tri_pairs_find();
  a->D = rule->heads.D, a->dk = tri_attend_pad(a->D, 32), a->dv = tri_attend_pad(a->D, 16);
  a->scale = rule->scale, a->cap = rule->softcap;
  a->each = each;
  memset(a->fetch, 0, sizeof a->fetch);
  a->x->begin(tile);
}

TRI_PAIRS_TARGET void tri_attend_begin(tri_attend *a, int n_group) {
  memset(a->o, 0, (size_t)(n_group * a->each * a->dv) * sizeof *a->o);
  memset(a->rows, 0, (size_t)n_group * sizeof *a->rows);
  for (int i = 0; i < n_group; i++)
    for (int r = 0; r < TRI_PAIRS_ROWS; r++) a->rows[i].max[r] = -INFINITY;
}

TRI_PAIRS_TARGET void tri_attend_see(tri_pairs_seen *seen, int64_t ahead, int64_t window, int step,
                                     int n_row) {
  for (int r = 0; r < n_row; r++) {
    int64_t end = ahead + 1 + r * step;
    seen->first[r] = window > 0 ? clamp(end - window) : 0;
    seen->end[r] = clamp(end);
  }
  seen->panel = seen->first[0] / TRI_PAGE;
  seen->panel_end = (seen->end[n_row - 1] + TRI_PAGE - 1) / TRI_PAGE;
}

TRI_PAIRS_TARGET void tri_attend_leave(uint32_t *to, const uint32_t *v, int64_t ld, int D, int first,
                                       int end) {
  for (int k = 0; k < TRI_PAGE; k += 2) {
    uint32_t mask = (k >= first && k < end ? 0xffffu : 0) | (k + 1 >= first && k + 1 < end ? 0xffff0000u : 0);
    for (int d = 0; d < D; d++) to[k / 2 * ld + d] = mask ? v[k / 2 * ld + d] & mask : 0;
  }
}

/* Computes o += p v if some values are not finite. Each row uses only the values of the keys it sees. */
static TRI_PAIRS_TARGET void add_apart(tri_attend *a, float *o, int n_row, const tri_pairs_seen *t) {
  float one[TRI_PAIRS_ROWS * TRI_ATTEND_MAX_D];

  for (int r = 0; r < n_row; r++) {
    const uint32_t *v[TRI_PAIRS_PANELS];
    for (int i = t->panel; i < t->panel_end; i++) {
      tri_attend_leave(a->left_v[i], a->v[i], a->ld_v, a->D, t->first[r] - i * TRI_PAGE,
                       t->end[r] - i * TRI_PAGE);
      v[i] = a->left_v[i];
    }
    memcpy(one, o + r * a->dv, (size_t)a->dv * sizeof *one);
    a->x->sums(one, a->dv, a->p + r * BLOCK + t->panel * TRI_PAGE, 0, v + t->panel, NULL, a->ld_v,
               t->panel_end - t->panel, 1, a->dv);
    memcpy(o + r * a->dv, one, (size_t)a->dv * sizeof *one);
  }
}

TRI_PAIRS_TARGET void tri_attend_keys(tri_attend *a, int group, int row, int n_row, const tri_pairs_seen *t) {
  a->x->scores(a->s + row * BLOCK + t->panel * TRI_PAGE, BLOCK, a->q + (group * a->each + row) * a->dk, a->dk,
               a->k + t->panel, a->fetch, t->panel_end - t->panel, n_row, a->dk);
}

TRI_PAIRS_TARGET void tri_attend_weigh(tri_attend *a, int group, int n_row, const tri_pairs_seen *t) {
  float *o = a->o + group * a->each * a->dv;

  if (!tri_pairs_softmax(&a->rows[group], a->s, a->p, n_row, t, a->scale, a->cap)) return;
  for (int r = 0; r < n_row; r++) {
    float factor = a->rows[group].factor[r], *to = o + r * a->dv;
#pragma omp simd
    for (int d = 0; d < a->dv; d++) to[d] *= factor;
  }
}

TRI_PAIRS_TARGET void tri_attend_values(tri_attend *a, int group, int row, int n_row,
                                        const tri_pairs_seen *t) {
  a->x->sums(a->o + (group * a->each + row) * a->dv, a->dv, a->p + row * BLOCK + t->panel * TRI_PAGE, BLOCK,
             a->v + t->panel, a->fetch, a->ld_v, t->panel_end - t->panel, n_row, a->dv);
}

TRI_PAIRS_TARGET void tri_attend_block(tri_attend *a, int group, int n_row, const tri_pairs_seen *t) {
  bool whole = t->first[n_row - 1] == 0 && t->end[0] == BLOCK;

  if (t->panel_end <= t->panel) return;
  tri_attend_keys(a, group, 0, n_row, t);
  tri_attend_weigh(a, group, n_row, t);
  if (a->finite || whole)
    tri_attend_values(a, group, 0, n_row, t);
  else
    add_apart(a, a->o + group * a->each * a->dv, n_row, t);
}

/* Adding 0 gives a sum of zeros a fixed sign. */
TRI_PAIRS_TARGET float tri_attend_end(const tri_attend *a, int group, int row, uint16_t *o) {
  float        sum = tri_pairs_sum(&a->rows[group], row), inverse = 1.0f / sum;
  const float *from = a->o + (group * a->each + row) * a->dv;
#pragma omp simd
  for (int d = 0; d < a->D; d++) o[d] = tri_f32_to_bf16(fmaf(from[d], inverse, 0.0f));
  return sum;
}
#endif
