/* linear_rows.c - converts rows to the type of the library's products, and reports the library's failures. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "linear_rows.h"

#include <string.h>

tri_status tri_linear_failed(const tri_linear *l, const char *what) {
  TRI_FAIL(TRI_EDEVICE, "%s failed in %s of a [%lld,%lld] weight", tri_gemm_library(), what,
           (long long)l->n_out, (long long)l->n_in);
}

void tri_linear_copy(const tri_linear *l, char *out, const char *in, int64_t rows, int64_t padded, int64_t n,
                     int64_t stride) {
  const size_t row_bytes = (size_t)n * tri_dtype_bytes(l->work);
  for (int64_t r = 0; r < rows; r++) {
    const char *from = in + (size_t)(r * stride) * tri_dtype_bytes(l->dtype);
    char       *to = out + (size_t)r * row_bytes;
    if (l->work == l->dtype) {
      memcpy(to, from, row_bytes);
      continue;
    }
    const uint16_t *a = (const uint16_t *)(const void *)from;
    float          *b = (float *)(void *)to;
    if (l->dtype == TRI_F16) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++) b[i] = tri_f16_to_f32(a[i]);
      continue;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) b[i] = tri_bf16_to_f32(a[i]);
  }
  memset(out + (size_t)rows * row_bytes, 0, (size_t)(padded - rows) * row_bytes);
}
