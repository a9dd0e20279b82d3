/* linear.h - one weight shape's products and its part of the workspace, shared by linear.c, linear_*.c,
 * amx_*.c and vec_*.c. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_LINEAR_H
#define TRI_CPU_LINEAR_H

#include "gemm.h"
#include "device/kernels.h"

#include <omp.h>

/* y[M,n] = x[M,k] b[k,n] for any M. b is cut into blocks of columns, packed one after the other. The rows of
 * a block are processed in tiles of the heights below, so a handful of products of fixed shape serves every
 * M.
 *
 * Heights: 64 rows reach the library's best speed, and the others serve few sequences. Measured: oneDNN
 * 2.6.3. */
enum { TRI_N_TILES = 5, TRI_TILE_ROWS = 64 };
typedef struct tri_linear_product {
  int64_t   n, k, width, n_blocks;
  bool      filled;               /* a narrower last block is packed as a wide one, with zeros */
  tri_gemm *tile[2][TRI_N_TILES]; /* [0] for blocks of `width` columns, [1] for a narrower last one */
  bool      use[2][TRI_N_TILES];
  uint8_t   pick[2][TRI_TILE_ROWS + 1]; /* the next tile, by the number of rows left */
  size_t    block_bytes, all_bytes;     /* packed */
} tri_linear_product;

/* dw[n_out,n_in] += dy^T x. Chunks of rows of x are packed as b, and tiles of rows of dw are the results. For
 * each group of tiles, its columns of dy are transposed into the a's. The last chunk is padded with zeros. */
enum { TRI_N_CHUNKS = 2 };
typedef struct tri_gradient {
  /* Rows of a tile, tiles of a group, and rows of a large and a small chunk. */
  int64_t height, group, chunk_rows[TRI_N_CHUNKS];
  /* [0] for tiles of `height` rows, [1] for a lower last one */
  tri_gemm *tile[2][TRI_N_CHUNKS];
  int64_t   n_slots; /* chunks packed at a time */
  size_t    slot_bytes;
} tri_gradient;

typedef struct tri_linear_call tri_linear_call;
struct tri_linear {
  int64_t   n_out, n_in;
  tri_dtype dtype,
      work; /* dtype of weights and inputs; work is the library's type, f32 if it has no fast dtype */
  /* With amx or vec, all products use amx.h or vec.h instead of the library. */
  bool               backward, amx, vec;
  bool               unlike;  /* its columns have other bits than those of tri_linear_spec.whole */
  int64_t            n_whole; /* n_out of that, or 0 */
  int                threads;
  tri_linear_product fwd, bwd;
  tri_gradient       grad;
  size_t             c_bytes, stage_bytes, scratch_bytes; /* workspace of each thread */
  size_t             shared_bytes;                        /* workspace shared by all threads */
  char              *workspace;                           /* borrowed */
  /* For vec.h. widen converts n elements of a 16-bit dtype. store writes columns [col, col + n) of row `row`
   * of y from t[n], with bias and base added, and changes t. */
  void (*widen)(float *to, const uint16_t *from, int64_t n);
  void (*store)(const tri_linear_call *c, float *t, int64_t row, int64_t col, int64_t n);
};

/* A thread's own results, its staging area and its scratch memory for the library. tri_linear_shared is one
 * area for all threads. */
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

/* The arguments of one y = x b, for fwd and bwd_x. */
struct tri_linear_call {
  const tri_linear_product *p;
  const char               *packed, *x;
  int64_t                   rows; /* M */
  tri_out                   y;    /* [M, p->n] */
  tri_in                    bias; /* [p->n] or NULL */
  tri_in                    base; /* like y, or y itself, or NULL */
};

/* The first statement of every parallel region. It keeps the library from starting threads of its own
 * there. */
static inline int tri_linear_begin(void) {
  omp_set_num_threads(1);
  return omp_get_thread_num();
}

#endif
