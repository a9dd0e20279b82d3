/* isa.c - runs a program with the kernels and matrix products of another processor.
 *
 * isa FAMILY PROGRAM [ARGUMENT...]     FAMILY as in oneDNN's ONEDNN_MAX_CPU_ISA, or AVX2_OWN or AVX512_OWN
 * FAMILY limits oneDNN and selects the kernels and the attention of that family. oneDNN does all products,
 * except with AVX2_OWN and AVX512_OWN, where the program's own in f32 do them. The exit status is the
 * program's, or 77 if this processor or the library lacks the family. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

static const struct {
  const char    *name, *limit, *kernels, *bf16, *f32; /* the last are words of run.cpu_kernels and so on */
  dnnl_cpu_isa_t isa;
} families[] = {
    {"AVX2", "AVX2", "avx2", "f32", "library", dnnl_cpu_isa_avx2},
    {"AVX2_OWN", "AVX2", "avx2", "f32", "avx2", dnnl_cpu_isa_avx2},
    {"AVX512_OWN", "AVX2", "avx512", "f32", "avx512", dnnl_cpu_isa_avx2}, /* oneDNN has no bf16 then */
    {"AVX512_CORE", "AVX512_CORE", "avx512", "f32", "library", dnnl_cpu_isa_avx512_core},
    {"AVX512_CORE_BF16", "AVX512_CORE_BF16", "avx512", "avx512", "library", dnnl_cpu_isa_avx512_core_bf16},
    {"AVX512_CORE_AMX", "AVX512_CORE_AMX", "avx512", "amx", "library", dnnl_cpu_isa_avx512_core_amx}};

int main(int argc, char **argv) {
  size_t i = 0, n = sizeof families / sizeof *families;
  if (argc < 3) {
    fprintf(stderr, "usage: isa FAMILY PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  while (i < n && strcmp(families[i].name, argv[1])) i++;
  if (i == n) {
    fprintf(stderr, "isa: %s is none of the families in the table\n", argv[1]);
    return 2;
  }
#if defined(__x86_64__)
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  bool avx512 = false;
#endif
  setenv("ONEDNN_MAX_CPU_ISA", families[i].limit, 1);
  setenv("TRI_CPU_KERNELS", families[i].kernels, 1);
  setenv("TRI_CPU_BF16", families[i].bf16, 1);
  setenv("TRI_CPU_F32", families[i].f32, 1);
  if (dnnl_get_effective_cpu_isa() != families[i].isa || (!strcmp(families[i].f32, "avx512") && !avx512)) {
    printf("skipped: no %s here\n", argv[1]);
    return EXIT_SKIPPED;
  }
  execv(argv[2], argv + 2);
  perror(argv[2]);
  return 2;
}
