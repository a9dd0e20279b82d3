/* gemm_impl.h - the common base of the products: one weight shape, its algorithms, their trials. Private to
 * its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_GEMM_IMPL_H
#define TRI_GPU_GEMM_IMPL_H

#include "device/gpu_plan.h"
#include "gpu/base/cuda_impl.h"
#include "gemm_rows.h"

#include <cublasLt.h>

/* Algorithms asked for at a time, and relatives made of one. Chosen. The library orders them by its own
 * estimate of their time, and the quickest with one kind of bits has been seen behind the tenth. */
enum { TRI_LT_TRIES = 32, TRI_LT_RELATIVES = 24 };

/* An algorithm serves up to this many rows, the last one all. Chosen for decode steps, then micro-batches. */
enum { TRI_LT_BUCKETS = 5, TRI_LT_MANY = TRI_LT_BUCKETS - 1 };
static const int64_t tri_lt_rows[TRI_LT_BUCKETS] = {TRI_GPU_TRIAL_LEAST, 64, 256, 1024, 4096};
static inline int    tri_lt_bucket(int64_t rows) {
     int i = 0;
     while (i < TRI_LT_MANY && rows > tri_lt_rows[i]) i++;
  return i;
}
/* Returns the fewest rows a bucket serves. */
static inline int64_t tri_lt_least(int bucket) { return bucket ? tri_lt_rows[bucket - 1] + 1 : 1; }

typedef enum { TRI_LT_FWD, TRI_LT_BWD_X, TRI_LT_BWD_W } tri_lt_direction;

/* A direction with a type of result. */
typedef struct tri_lt {
  tri_lt_direction     dir;
  bool                 bias; /* the product adds a bias of the result's type */
  tri_dtype            out;
  cublasLtMatmulDesc_t desc; /* NULL if this shape has no such product */
  cublasLtMatmulAlgo_t algo[TRI_LT_BUCKETS];
  bool                 unlike; /* no algorithm gives the columns of tri_linear_spec.whole */
} tri_lt;

/* Kinds of fwd: y of type A, of type A with bias, and y of f32 if A is not f32. */
enum { TRI_LT_Y_A, TRI_LT_Y_A_BIAS, TRI_LT_Y_F32, TRI_LT_FWDS };

struct tri_linear {
  tri_cuda_device *device;               /* borrowed */
  int64_t          n_out, n_in, n_whole; /* n_whole is n_out of tri_linear_spec.whole, or 0 */
  tri_dtype        dtype;
  bool             backward, any_order; /* as in tri_linear_spec */
  int64_t          fwd_rows, sum_rows;  /* most rows of one product, in fwd as many as tried, and in bwd_w */
  tri_lt           fwd[TRI_LT_FWDS], bwd_x[2], bwd_w; /* bwd_x has dx of type A, and f32 if A is not */
  size_t           lt_bytes;                          /* workspace of the algorithms in use */
  char            *workspace;                         /* borrowed, for the algorithms, then linear_check */
};

typedef struct
    tri_lt_found { /* the quickest by the library's estimate first, relatives of another algorithm last */
  cublasLtMatmulHeuristicResult_t at[TRI_LT_TRIES + TRI_LT_RELATIVES];
  int                             n;
} tri_lt_found;

typedef struct tri_lt_layouts { /* d = op(a) op(b) */
  cublasLtMatrixLayoutOpaque_t a, b, d;
} tri_lt_layouts;

typedef struct tri_lt_call {
  const void *a, *b, *bias; /* bias is NULL if the product has none */
  void       *d;
  const void *base; /* added, of d's type and shape, may be d or NULL */
  int64_t     rows; /* M */
  void       *workspace;
  size_t      bytes;
} tri_lt_call;

static inline const char    *tri_lt_type_name(tri_dtype t) { return tri_dtype_word(t); }
static inline cudaDataType_t tri_lt_type(tri_dtype t) {
  return t == TRI_F32 ? CUDA_R_32F : t == TRI_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}
static inline size_t tri_lt_round(size_t n) { return (n + 255) & ~(size_t)255; }
/* Enlarges the workspace for an algorithm. It is never empty, because the library may look at the address. */
static inline void tri_lt_enlarge(size_t *workspace, size_t bytes) {
  bytes = tri_lt_round(bytes + 1);
  if (bytes > *workspace) *workspace = bytes;
}

/* gemm_product.c. It calls no other file of this list. Each file below uses those above it. */
/* Returns the status of a failed call of the library, with a message. */
tri_status tri_lt_failed(const tri_linear *l, const char *file, int line, cublasStatus_t e, const char *what);
#define TRI_LT_TRY(call)                                                                                     \
  do {                                                                                                       \
    cublasStatus_t try_ = (call);                                                                            \
    if (try_ != CUBLAS_STATUS_SUCCESS) return tri_lt_failed(l, __FILE__, __LINE__, try_, #call);             \
  } while (0)
#define TRI_LT_TRY_DONE(call)                                                                                \
  do {                                                                                                       \
    cublasStatus_t try_ = (call);                                                                            \
    if (try_ != CUBLAS_STATUS_SUCCESS) {                                                                     \
      st = tri_lt_failed(l, __FILE__, __LINE__, try_, #call);                                                \
      goto done;                                                                                             \
    }                                                                                                        \
  } while (0)

TRI_CHECKED tri_status tri_lt_set_layouts(const tri_linear *l, const tri_lt *p, int64_t rows,
                                          tri_lt_layouts *out);
/* Queues the product. rows may be 0. */
TRI_CHECKED tri_status tri_lt_run(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                                  tri_stream *s, const tri_lt_call *c);

/* gemm_find.c. Gets algorithms for `rows` rows, n = 0 if the library has none. Sums are whole, unless `parts`
 * is set. Then some may be added in parts, of f32 and in a fixed order. */
TRI_CHECKED tri_status tri_lt_look_up(const tri_linear *l, const tri_lt *p, int64_t rows, bool parts,
                                      tri_lt_found *out);
/* Appends relatives of the algorithm `of` that suit `rows` rows, the same algorithm with other tiles. Skips
 * those already in the list. */
TRI_CHECKED tri_status tri_lt_relatives(const tri_linear *l, const tri_lt *p, int64_t rows,
                                        const cublasLtMatmulAlgo_t *of, tri_lt_found *io);
/* Makes the algorithm the first of the list, if it can multiply this many rows. */
void tri_lt_put_first(const tri_linear *l, const tri_lt *p, int64_t rows, const cublasLtMatmulAlgo_t *algo,
                      tri_lt_found *io);
/* Returns whether the algorithm can multiply this many rows, and the workspace it needs. */
bool tri_lt_fits(const tri_linear *l, const tri_lt *p, int64_t rows, const cublasLtMatmulAlgo_t *algo,
                 size_t *bytes);
/* Returns whether it adds each sum in one piece, as far as the library says. */
bool tri_lt_is_whole(const cublasLtMatmulAlgo_t *algo);
/* Logs (debug) the algorithm of a bucket. `why` explains the choice. ms < 0 means not timed. */
void tri_lt_log(const tri_linear *l, const tri_lt *p, int bucket, const char *why, double ms);

/* gemm_trial.c. Noise to multiply, and space for results, in memory of the caller. */
typedef struct tri_lt_workspace {
  tri_stream *s;
  int64_t     rows;
  const void *w;
  char       *x, *bias, *base, *judge, *y, *lt; /* base, judge, y [rows,n_out], see tri_lt_judge */
  size_t      lt_bytes;
  void       *evict; /* written before a timed run, NULL for no timing */
} tri_lt_workspace;
size_t tri_lt_workspace_bytes(const tri_linear *l, int64_t rows);
/* Returns the bytes of tri_lt_workspace.evict. */
size_t tri_lt_evict_bytes(const tri_linear *l);
/* Fills noise at `at`. rows, w, lt and lt_bytes must be set. */
TRI_CHECKED tri_status tri_lt_workspace_fill(const tri_linear *l, tri_lt_workspace *r, char *at);
/* Sets the places of the results of p, with the reference at r->base and r->judge. */
void tri_lt_place(const tri_linear *l, const tri_lt *p, tri_lt_workspace *r);
/* Multiplies all rows by this algorithm as the reference of others, without and with an addend. */
TRI_CHECKED tri_status tri_lt_judge(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                                    tri_lt_workspace *r);
/* *same &= the algorithm can do it, and rows [first, first + rows) have the reference bits, without and with
 * an addend. Raises c->workspaceSize to its need for this many rows. The host waits. */
TRI_CHECKED tri_status tri_lt_agree(const tri_linear *l, const tri_lt *p, cublasLtMatmulHeuristicResult_t *c,
                                    const tri_lt_workspace *r, int64_t first, int64_t rows, bool *same);
/* Measures the shortest of some runs with this many rows and the weights not in the cache. The host waits. */
TRI_CHECKED tri_status tri_lt_time(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                                   const tri_lt_workspace *r, int64_t rows, double *ms);

/* gemm_part.c. A trial of a part has rows of the whole's noise as its weights, and the whole's columns as its
 * reference. `r` is the part's workspace and `rw` the whole's, with the same x and number of rows. */
/* Copies rows of the whole's weights and bias to the part's, `w` on the device. */
TRI_CHECKED tri_status tri_lt_part_fill(const tri_linear *l, const tri_linear *whole,
                                        const tri_lt_workspace *r, const tri_lt_workspace *rw, char *w);
/* Sets the reference of product p of the part from the whole's algorithm for many rows. */
TRI_CHECKED tri_status tri_lt_part_judge(const tri_linear *l, const tri_lt *p, const tri_linear *whole,
                                         tri_lt_workspace *r, tri_lt_workspace *rw);

/* gemm_known.c. Recalls and remembers the findings of a process about a shape: the algorithms of fwd or of
 * the gradients, and the values that belong to them. They hold for the same shape, GPU and library.
 * tri_lt_recall returns false if nothing is known. */
typedef enum { TRI_LT_PART_FWD, TRI_LT_PART_BWD } tri_lt_part;
bool tri_lt_recall(tri_linear *l, tri_lt_part part);
void tri_lt_remember(const tri_linear *l, tri_lt_part part);

/* gemm_free.c. Sets *io to the library's first algorithm for the bucket that can do both the fewest and the
 * most rows correctly. Sums in parts are allowed if they pay off. *n is its place in the library's order,
 * from 1, or 0 if there is none and *io stays. It uses memory of its own. The host waits. */
TRI_CHECKED tri_status tri_lt_free_choice(const tri_linear *l, const tri_lt *p, int bucket,
                                          cublasLtMatmulHeuristicResult_t *io, int *n);
/* Choose the algorithms of bwd_x and bwd_w this way, and those of fwd with any_order. */
TRI_CHECKED tri_status tri_lt_settle_backward(tri_linear *l);
TRI_CHECKED tri_status tri_lt_settle_free(tri_linear *l);

/* gemm_cost.c. Milliseconds of the algorithms that serve a product and of the library's free choice, < 0 if
 * unknown. */
typedef struct tri_lt_cost {
  double ms[TRI_LT_BUCKETS], free_ms[TRI_LT_BUCKETS];
} tri_lt_cost;
/* Sets free_ms of a bucket with known ms. The host waits. */
TRI_CHECKED tri_status tri_lt_compare(const tri_linear *l, const tri_lt *p, const tri_lt_workspace *r,
                                      int bucket, tri_lt_cost *io);
/* Logs the cost of equal bits of rows in the most expensive product of l. Warns if it is high. cost is
 * [TRI_LT_FWDS]. */
void tri_lt_report(const tri_linear *l, const tri_lt_cost *cost);

/* gemm_agree.c. Chooses the algorithms of fwd by trial, in memory of its own, and sets fwd_rows. The bits are
 * those of `whole`, unless it is NULL. The host waits. */
TRI_CHECKED tri_status tri_lt_settle(tri_linear *l, const tri_linear *whole);

#endif
