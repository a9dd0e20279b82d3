/* gemm.h - one matrix product of a fixed shape, run by one thread, with the library this program was built
 * with.
 *
 * c f32 [m,n] = a [m,k] b [k,n] with f32 sums. a and c are dense, and b was packed before. Several threads
 * may run one tri_gemm at once, each with its own `thread` number. pack and run create and allocate nothing.
 * Not collective, all of them.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_GEMM_H
#define TRI_CPU_GEMM_H

#include "base/error.h"
#include "base/tensor.h"

typedef struct tri_gemm tri_gemm;
typedef struct tri_gemm_spec {
  int64_t   m, n, k;
  tri_dtype dtype;        /* type of a and b, TRI_F32, or TRI_BF16 if tri_gemm_native allows */
  bool      add;          /* c += a b */
  int64_t   b_row, b_col; /* element [i,j] of b lies at i * b_row + j * b_col for pack */
} tri_gemm_spec;

/* Sets *out if the library multiplies `dtype` at its full speed on this processor. */
TRI_CHECKED tri_status tri_gemm_native(tri_dtype dtype, bool *out);
/* Not collective, and not for two threads at once. `like` (may be NULL) is a product with the same b. The new
 * product reads b as packed by `like` and cannot pack. *out stays NULL, with TRI_OK, if the library cannot do
 * so at full speed. Returns TRI_EDEVICE if the library fails. The caller closes. */
TRI_CHECKED tri_status tri_gemm_open(const tri_gemm_spec *spec, const tri_gemm *like, int threads,
                                     tri_gemm **out);
void                   tri_gemm_close(tri_gemm **g);

size_t      tri_gemm_packed_bytes(const tri_gemm *g);  /* size of packed b, a multiple of 64 */
size_t      tri_gemm_scratch_bytes(const tri_gemm *g); /* size of `scratch` below, a multiple of 64 */
const char *tri_gemm_library(void);                    /* name and version, for messages */
int64_t     tri_gemm_count(void);                      /* library objects created in this process so far */
/* Returns whether the library runs both by the same instructions. Otherwise they may add up a row in
 * different orders. */
bool tri_gemm_alike(const tri_gemm *g, const tri_gemm *other);

/* `thread` is in [0, threads). packed and scratch are 64-byte aligned. Return false if the library failed. */
bool tri_gemm_pack(tri_gemm *g, int thread, void *packed, const void *b, void *scratch);
bool tri_gemm_run(tri_gemm *g, int thread, float *c, const void *a, const void *packed, void *scratch);

#endif
