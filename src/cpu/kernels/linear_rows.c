/* linear_rows.c - converts rows to the type of the products, and reports the library's failures. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "linear_rows.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

tri_status tri_linear_failed(const tri_linear *l, const char *what) {
  TRI_FAIL(TRI_EDEVICE, "%s failed in %s of a [%lld,%lld] weight", tri_gemm_library(), what,
           (long long)l->n_out, (long long)l->n_in);
}

void        tri_linear_widen_bf16(float *restrict to, const uint16_t *restrict from, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) to[i] = tri_bf16_to_f32(from[i]);
}

void tri_linear_widen_f16(float *restrict to, const uint16_t *restrict from, int64_t n) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
#pragma omp simd
  for (int64_t j = i; j < n; j++) to[j] = tri_f16_to_f32(from[j]);
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
    if (l->dtype == TRI_F16)
      tri_linear_widen_f16((float *)(void *)to, (const uint16_t *)(const void *)from, n);
    else
      tri_linear_widen_bf16((float *)(void *)to, (const uint16_t *)(const void *)from, n);
  }
  memset(out + (size_t)rows * row_bytes, 0, (size_t)(padded - rows) * row_bytes);
}
