/* gemm_impl.h - what the two files of the products share: one weight shape, and its algorithms. Layer 1, private. */
#ifndef TRI_GPU_GEMM_IMPL_H
#define TRI_GPU_GEMM_IMPL_H

#include "gpu/cuda_impl.h"

#include <cublasLt.h>

enum { TRI_LT_TRIES = 8 }; /* algorithms asked for at a time; chosen */

/* An algorithm serves up to so many rows, the last one all. Chosen: a decode step's sizes. */
enum { TRI_LT_BUCKETS = 4, TRI_LT_MANY = TRI_LT_BUCKETS - 1 };
static const int64_t tri_lt_rows[TRI_LT_BUCKETS] = {16, 64, 256, 4096};
static inline int    tri_lt_bucket(int64_t rows) {
     int i = 0;
     while (i < TRI_LT_MANY && rows > tri_lt_rows[i]) i++;
  return i;
}

typedef enum { TRI_LT_FWD, TRI_LT_BWD_X, TRI_LT_BWD_W } tri_lt_direction;

/* One direction with one type of result. */
typedef struct tri_lt {
  tri_lt_direction     dir;
  bool                 bias; /* added by the product: of the result's type */
  tri_dtype            out;
  cublasLtMatmulDesc_t desc; /* NULL: this shape has no such product */
  cublasLtMatmulAlgo_t algo[TRI_LT_BUCKETS];
} tri_lt;

/* fwd: y of type A, of type A with bias, and, where A is not f32, y f32. */
enum { TRI_LT_Y_A, TRI_LT_Y_A_BIAS, TRI_LT_Y_F32, TRI_LT_FWDS };

struct tri_linear {
  tri_cuda_device *device; /* borrowed */
  int64_t          n_out, n_in;
  tri_dtype        dtype;
  bool             backward;
  tri_lt           fwd[TRI_LT_FWDS], bwd_x[2], bwd_w; /* bwd_x: dx of type A; f32 where A is not */
  size_t           lt_bytes;                          /* workspace of the algorithms in use */
  char            *workspace;                         /* borrowed; the algorithms', then linear_check's */
};

typedef struct tri_lt_found { /* the quickest (as the library thinks) first */
  cublasLtMatmulHeuristicResult_t at[TRI_LT_TRIES];
  int                             n;
} tri_lt_found;

typedef struct tri_lt_call {
  const void *a, *b, *bias; /* bias: NULL unless the product has one */
  void       *d;
  const void *base; /* added, of d's type and shape; may be d; NULL: nothing */
  int64_t     rows; /* M */
  void       *workspace;
  size_t      bytes;
} tri_lt_call;

static inline const char *tri_lt_type_name(tri_dtype t) { return t == TRI_F32 ? "f32" : "bf16"; }
static inline size_t      tri_lt_round(size_t n) { return (n + 255) & ~(size_t)255; }
/* Makes room for an algorithm's workspace; at least something, as the library may look at the address. */
static inline void tri_lt_enlarge(size_t *room, size_t bytes) {
  bytes = tri_lt_round(bytes + 1);
  if (bytes > *room) *room = bytes;
}

/* gemm_cublas.c. Algorithms for `rows` rows that divide no sum; n = 0 if the library has none. */
TRI_CHECKED tri_status tri_lt_look_up(const tri_linear *l, const tri_lt *p, int64_t rows, tri_lt_found *out);
/* Queues the product; rows 0 is legal. */
TRI_CHECKED tri_status tri_lt_run(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                                  tri_stream *s, const tri_lt_call *c);

/* gemm_agree.c. Chooses the algorithms of fwd by trial, in memory of its own. The host waits. */
TRI_CHECKED tri_status tri_lt_settle(tri_linear *l);
/* Bytes of workspace behind l->lt_bytes that linear_check wants. */
size_t tri_lt_check_bytes(const tri_linear *l);

#endif
