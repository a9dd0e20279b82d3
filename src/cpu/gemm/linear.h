/* linear.h - what linear.c, the other linear_*.c and amx_*.c share: one weight shape's products and its part
 * of the workspace.*/
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_LINEAR_H
#define TRI_CPU_LINEAR_H

#include "gemm.h"
#include "device/kernels.h"

#include <omp.h>

/* y[M,n] = x[M,k] b[k,n] for any M. b is cut into blocks of columns, packed one after the other; the rows of
 * a block are worked off in tiles of the heights below, so that a handful of products of fixed shape serves
 * every M.
 *
 * Heights: 64 rows reach the library's best speed, the others serve few sequences. Measured:
 * oneDNN 2.6.3. */
enum { TRI_N_TILES = 5, TRI_TILE_ROWS = 64 };
typedef struct tri_linear_product {
  int64_t   n, k, width, n_blocks;
  tri_gemm *tile[2][TRI_N_TILES]; /* [0]: blocks of `width` columns, [1]: a narrower last one */
  bool      use[2][TRI_N_TILES];
  uint8_t   pick[2][TRI_TILE_ROWS + 1]; /* the tile to take next when so many rows are left */
  size_t    block_bytes, all_bytes;     /* packed */
} tri_linear_product;

/* dw[n_out,n_in] += dy^T x: chunks of rows of x are packed as b; tiles of rows of dw are the results; the
 * columns of dy that belong to a group of tiles are transposed into their a's. The last chunk is filled up
 * with zeros. */
enum { TRI_N_CHUNKS = 2 };
typedef struct tri_gradient {
  int64_t   height, group, chunk_rows[TRI_N_CHUNKS]; /* of a tile; tiles; of a large and a small chunk */
  tri_gemm *tile[2][TRI_N_CHUNKS];                   /* [0]: tiles of `height` rows, [1]: a lower last one */
  int64_t   n_slots;                                 /* chunks packed at a time */
  size_t    slot_bytes;
} tri_gradient;

struct tri_linear {
  int64_t   n_out, n_in;
  tri_dtype dtype,
      work; /* of weights and inputs; what the library multiplies: f32 where it has no fast dtype */
  bool               backward, amx, vec; /* amx, vec: all of it by amx.h, by vec.h, without the library */
  int                threads;
  tri_linear_product fwd, bwd;
  tri_gradient       grad;
  size_t             c_bytes, stage_bytes, scratch_bytes; /* the workspace: these three for each thread, */
  size_t             shared_bytes;                        /* and this once */
  char              *workspace;                           /* borrowed */
};

/* Own results, staging and the library's scratch of one thread; one area for all. */
static inline char *tri_linear_own(const tri_linear *l, int thread) {
  return l->workspace + (size_t)thread * (l->c_bytes + l->stage_bytes + l->scratch_bytes);
}
static inline char *tri_linear_stage(const tri_linear *l, int thread) {
  return tri_linear_own(l, thread) + l->c_bytes;
}
static inline char *tri_linear_scratch(const tri_linear *l, int thread) {
  return tri_linear_stage(l, thread) + l->stage_bytes;
}
static inline char *tri_linear_shared(const tri_linear *l) { return tri_linear_own(l, l->threads); }

static inline size_t tri_round64(size_t n) { return (n + 63) & ~(size_t)63; }
static inline void   tri_raise(size_t *a, size_t b) {
    if (b > *a) *a = b;
}
static inline int64_t tri_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tri_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* One y = x b, for fwd and bwd_x. */
typedef struct tri_linear_call {
  const tri_linear_product *p;
  const char               *packed, *x;
  int64_t                   rows; /* M */
  tri_out                   y;    /* [M, p->n] */
  tri_in                    bias; /* [p->n] or NULL */
  tri_in                    base; /* as y, or y, or NULL */
} tri_linear_call;

/* First statement of every parallel region: the library must start no threads of its own in it. */
static inline int tri_linear_begin(void) {
  omp_set_num_threads(1);
  return omp_get_thread_num();
}

#endif
