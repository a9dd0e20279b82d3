/* gemm_known.c - the algorithms of shapes this process has tried. A second linear of the same shape, such as
 * a reference model's, then tries nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gemm_impl.h"

#include <string.h>

/* Chosen above the shapes of a run's models. A new one replaces the oldest. */
enum { KNOWN = 64 };
enum { PRODUCTS = 3 };
_Static_assert((int)PRODUCTS == (int)TRI_LT_FWDS, "a part has so many products");

/* Everything a choice follows from. Compared as bytes. */
typedef struct key {
  int64_t       n_out, n_in, n_whole, dtype, any_order, part, lane_sm;
  size_t        version, logit_bytes;
  unsigned char uuid[16];
} key;

typedef struct known {
  key                  of;
  int64_t              fwd_rows, sum_rows;
  size_t               lt_bytes;
  cublasLtMatmulAlgo_t algo[PRODUCTS][TRI_LT_BUCKETS];
  bool                 unlike[PRODUCTS];
} known;

static known all[KNOWN];
static int   n_known;

static key key_of(const tri_linear *l, tri_lt_part part) {
  key k;

  memset(&k, 0, sizeof k);
  k.n_out = l->n_out, k.n_in = l->n_in, k.n_whole = l->n_whole, k.dtype = l->dtype, k.part = part;
  k.any_order = part == TRI_LT_PART_FWD && l->any_order;
  k.lane_sm = part == TRI_LT_PART_BWD ? l->device->lane_sm : 0;
  k.version = cublasLtGetVersion();
  k.logit_bytes = l->device->advice.logit_bytes;
  memcpy(k.uuid, l->device->base.uuid, sizeof k.uuid);
  return k;
}

static void products_of(const tri_linear *l, tri_lt_part part, const tri_lt *out[PRODUCTS]) {
  out[0] = part == TRI_LT_PART_FWD ? &l->fwd[0] : &l->bwd_x[0];
  out[1] = part == TRI_LT_PART_FWD ? &l->fwd[1] : &l->bwd_x[1];
  out[2] = part == TRI_LT_PART_FWD ? &l->fwd[2] : &l->bwd_w;
}

bool tri_lt_recall(tri_linear *l, tri_lt_part part) {
  const key     want = key_of(l, part);
  const tri_lt *p[PRODUCTS];
  const known  *found = NULL;

  for (int i = 0; i < KNOWN && i < n_known && !found; i++)
    if (!memcmp(&all[i].of, &want, sizeof want)) found = &all[i];
  if (!found) return false;
  products_of(l, part, p);
  for (int i = 0; i < PRODUCTS; i++) {
    memcpy(((tri_lt *)p[i])->algo, found->algo[i], sizeof found->algo[i]);
    ((tri_lt *)p[i])->unlike = found->unlike[i];
  }
  if (part == TRI_LT_PART_FWD) l->fwd_rows = found->fwd_rows;
  if (part == TRI_LT_PART_BWD) l->sum_rows = found->sum_rows;
  if (found->lt_bytes > l->lt_bytes) l->lt_bytes = found->lt_bytes;
  return true;
}

void tri_lt_remember(const tri_linear *l, tri_lt_part part) {
  known        *k = &all[n_known++ % KNOWN];
  const tri_lt *p[PRODUCTS];

  products_of(l, part, p);
  *k = (known){
      .of = key_of(l, part), .fwd_rows = l->fwd_rows, .sum_rows = l->sum_rows, .lt_bytes = l->lt_bytes};
  for (int i = 0; i < PRODUCTS; i++) {
    memcpy(k->algo[i], p[i]->algo, sizeof k->algo[i]);
    k->unlike[i] = p[i]->unlike;
  }
}
