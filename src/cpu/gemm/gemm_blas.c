/* gemm_blas.c - tri_gemm by OpenBLAS, f32 only, for machines without oneDNN. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "gemm.h"

#if !TRI_HAVE_ONEDNN

#include <cblas.h>
#include <stdio.h>
#include <string.h>

struct tri_gemm {
  tri_gemm_spec spec;
  bool          by_columns; /* b is packed as [n,k] because its columns were dense */
};

static int64_t n_created;

const char *tri_gemm_library(void) {
  static char text[64];
  snprintf(text, sizeof text, "%.60s", openblas_get_config());
  return text;
}

int64_t tri_gemm_count(void) { return n_created; }

tri_status tri_gemm_native(tri_dtype dtype, bool *out) {
  *out = dtype == TRI_F32;
  return TRI_OK;
}

tri_status tri_gemm_open(const tri_gemm_spec *spec, const tri_gemm *like, int threads, tri_gemm **out) {
  (void)threads;
  *out = NULL;
  TRI_ASSERT(spec->dtype == TRI_F32);
  if (spec->m > INT32_MAX || spec->n > INT32_MAX || spec->k > INT32_MAX)
    TRI_FAIL(TRI_EDEVICE, "OpenBLAS takes at most %d rows and columns", INT32_MAX);
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->spec = *spec;
  (*out)->by_columns = like ? like->by_columns : spec->b_col != 1;
  TRI_ASSERT(like || spec->b_col == 1 || spec->b_row == 1);
  openblas_set_num_threads(1); /* we run our own threads */
  n_created++;
  return TRI_OK;
}

void tri_gemm_close(tri_gemm **g) { TRI_FREE(*g); }

size_t tri_gemm_packed_bytes(const tri_gemm *g) {
  return ((size_t)(g->spec.k * g->spec.n) * sizeof(float) + 63) & ~(size_t)63;
}

size_t tri_gemm_scratch_bytes(const tri_gemm *g) {
  (void)g;
  return 0;
}

bool tri_gemm_alike(const tri_gemm *g, const tri_gemm *other) {
  (void)g;
  (void)other;
  return true;
}

bool tri_gemm_pack(tri_gemm *g, int thread, void *packed, const void *b, void *scratch) {
  (void)thread;
  (void)scratch;
  const int64_t rows = g->by_columns ? g->spec.n : g->spec.k, cols = g->by_columns ? g->spec.k : g->spec.n;
  const int64_t stride = g->by_columns ? g->spec.b_col : g->spec.b_row;
  for (int64_t i = 0; i < rows; i++)
    memcpy((float *)packed + i * cols, (const float *)b + i * stride, (size_t)cols * sizeof(float));
  return true;
}

bool tri_gemm_run(tri_gemm *g, int thread, float *c, const void *a, const void *packed, void *scratch) {
  (void)thread;
  (void)scratch;
  const int m = (int)g->spec.m, n = (int)g->spec.n, k = (int)g->spec.k;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, g->by_columns ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a, k,
              packed, g->by_columns ? k : n, g->spec.add ? 1.0f : 0.0f, c, n);
  return true;
}

#endif
