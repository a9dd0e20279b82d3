/* processor.c - checks the processor for the instructions that the compiler was allowed to use. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "processor.h"

#include <stddef.h>

#if defined(__x86_64__)
const char *tri_processor_lacks(void) {
  __builtin_cpu_init();
#define LACKS(feature, name)                                                                                 \
  if (!__builtin_cpu_supports(feature)) return name
#ifdef __SSE3__
  LACKS("sse3", "SSE3");
#endif
#ifdef __SSSE3__
  LACKS("ssse3", "SSSE3");
#endif
#ifdef __SSE4_1__
  LACKS("sse4.1", "SSE4.1");
#endif
#ifdef __SSE4_2__
  LACKS("sse4.2", "SSE4.2");
#endif
#ifdef __POPCNT__
  LACKS("popcnt", "POPCNT");
#endif
#ifdef __AVX__
  LACKS("avx", "AVX");
#endif
#ifdef __AVX2__
  LACKS("avx2", "AVX2");
#endif
#ifdef __FMA__
  LACKS("fma", "FMA");
#endif
#ifdef __BMI__
  LACKS("bmi", "BMI");
#endif
#ifdef __BMI2__
  LACKS("bmi2", "BMI2");
#endif
#ifdef __AVX512F__
  LACKS("avx512f", "AVX-512");
#endif
#ifdef __AVX512BW__
  LACKS("avx512bw", "AVX-512 BW");
#endif
#ifdef __AVX512VL__
  LACKS("avx512vl", "AVX-512 VL");
#endif
#ifdef __AVX512DQ__
  LACKS("avx512dq", "AVX-512 DQ");
#endif
#ifdef __AVX512VNNI__
  LACKS("avx512vnni", "AVX-512 VNNI");
#endif
#ifdef __AVX512BF16__
  LACKS("avx512bf16", "AVX-512 BF16");
#endif
  return NULL;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

const char *tri_processor_lacks(void) {
#ifdef __ARM_FEATURE_ATOMICS
  if (!(getauxval(AT_HWCAP) & HWCAP_ATOMICS)) return "LSE";
#endif
#ifdef __ARM_FEATURE_SVE
  if (!(getauxval(AT_HWCAP) & HWCAP_SVE)) return "SVE";
#endif
#ifdef __ARM_FEATURE_SVE2
  if (!(getauxval(AT_HWCAP2) & HWCAP2_SVE2)) return "SVE2";
#endif
  return NULL;
}
#else
const char *tri_processor_lacks(void) { return NULL; }
#endif
