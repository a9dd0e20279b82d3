/* kernel_family.h - the kernels as one family of a processor's instructions has them.
 *
 * The sources of this room are compiled once for each family (CMakeLists.txt): a program brings all families
 * of its kind of processor, and cpu/choose.h chooses among them when it runs. Each has names of its own
 * (kernel_names.h); other rooms reach a family through its table alone. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KERNEL_FAMILY_H
#define TRI_KERNEL_FAMILY_H

#include "device/kernels.h"

/* How two values become one; the same values as tri_redop (comm.h). */
typedef enum { TRI_CPU_SUM, TRI_CPU_MAX } tri_cpu_redop;

/* Not collective. dst and src do not overlap. */
typedef void tri_cpu_copy_bytes_fn(void *dst, const void *src, size_t bytes, int threads);
/* Not collective. dst [n] = src[0][i] op src[1][i] op ..., in that order; f32, bf16, f16 in f32, rounded
 * once; integer sums wrap. dst may be one of the sources. A NaN stays one in a maximum. */
typedef void tri_cpu_reduce_fn(void *dst, const void *const *src, int n_src, int64_t n, tri_dtype t,
                               tri_cpu_redop op, int threads);

typedef struct tri_cpu_family {
  const char            *name; /* a word of run.cpu_kernels: "avx512" */
  tri_kernels            kernels;
  tri_cpu_copy_bytes_fn *copy_bytes;
  tri_cpu_reduce_fn     *reduce;
} tri_cpu_family;

#endif
