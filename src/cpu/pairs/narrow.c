/* narrow.c - converts f32 to bf16 with the processor's own instruction. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#if TRI_PAIRS_X86
#include <immintrin.h>

TRI_PAIRS_TARGET int64_t tri_pairs_narrow(uint16_t *to, const float *from, int64_t n, float scale) {
  enum { SUBNORMAL = 0x20 }; /* specified: Intel SDM, VFPCLASSPS */
  int64_t i = 0;

  for (; i + 16 <= n; i += 16) {
    __m512 v = _mm512_mul_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(scale));
    if (_mm512_fpclass_ps_mask(v, SUBNORMAL)) break;
    _mm256_storeu_si256((__m256i *)(void *)(to + i), (__m256i)_mm512_cvtneps_pbh(v));
  }
  return i;
}
#else
int64_t tri_pairs_narrow(uint16_t *to, const float *from, int64_t n, float scale) {
  (void)to, (void)from, (void)n, (void)scale;
  return 0;
}
#endif
