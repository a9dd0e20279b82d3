/* gemm.h - one matrix product of a fixed shape, run by one thread, in the library the program was built with.
 *
 * c f32 [m,n] = a [m,k] b [k,n] with f32 sums; a and c dense, b packed before. One tri_gemm may run in
 * several threads at once, each with its own `thread` number. Nothing is created or allocated by pack and
 * run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_GEMM_H
#define TRI_CPU_GEMM_H

#include "base/error.h"
#include "base/tensor.h"

typedef struct tri_gemm tri_gemm;
typedef struct tri_gemm_spec {
  int64_t   m, n, k;
  tri_dtype dtype;        /* of a and b: TRI_F32, or TRI_BF16 where tri_gemm_native says so */
  bool      add;          /* c += a b */
  int64_t   b_row, b_col; /* pack finds element [i,j] of b at i * b_row + j * b_col */
} tri_gemm_spec;

/* Whether the library multiplies `dtype` at its full speed on this processor. Not collective. */
TRI_CHECKED tri_status tri_gemm_native(tri_dtype dtype, bool *out);
/* Not collective; not for two threads at once. `like` (may be NULL) is a product with the same b: the new one
 * reads what `like` packed and cannot pack. *out stays NULL, with TRI_OK, if the library cannot do that at
 * speed. TRI_EDEVICE if the library fails. The caller closes. */
TRI_CHECKED tri_status tri_gemm_open(const tri_gemm_spec *spec, const tri_gemm *like, int threads,
                                     tri_gemm **out);
void                   tri_gemm_close(tri_gemm **g);

size_t      tri_gemm_packed_bytes(const tri_gemm *g);  /* of b, a multiple of 64 */
size_t      tri_gemm_scratch_bytes(const tri_gemm *g); /* of `scratch` below, a multiple of 64 */
const char *tri_gemm_library(void);                    /* name and version, for messages */
int64_t     tri_gemm_count(void);                      /* library objects created so far in this process */
/* Whether the library runs both by the same instructions; others add up a row in another order. Not
 * collective. */
bool tri_gemm_alike(const tri_gemm *g, const tri_gemm *other);

/* thread in [0, threads). packed and scratch are 64-byte aligned. False if the library failed. Not
 * collective. */
bool tri_gemm_pack(tri_gemm *g, int thread, void *packed, const void *b, void *scratch);
bool tri_gemm_run(tri_gemm *g, int thread, float *c, const void *a, const void *packed, void *scratch);

#endif
