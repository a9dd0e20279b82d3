/* kernel_family.h - the interface of one family of CPU kernels, compiled for one set of instructions.
 *
 * The sources of this room are compiled once for each family (CMakeLists.txt). A program contains all
 * families of its kind of processor, and cpu/choose.h chooses one at run time. Each family has names of its
 * own (kernel_names.h). Other rooms reach a family through its table alone.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KERNEL_FAMILY_H
#define TRI_KERNEL_FAMILY_H

#include "device/kernels.h"

/* How a reduction combines two values, with the same numbers as tri_redop (comm.h). */
typedef enum { TRI_CPU_SUM, TRI_CPU_MAX } tri_cpu_redop;

/* dst and src do not overlap. */
typedef void tri_cpu_copy_bytes_fn(void *dst, const void *src, size_t bytes, int threads);
/* dst [n] = src[0][i] op src[1][i] op ..., in that order. f32, bf16 and f16 are computed in f32 and rounded
 * once. Integer sums wrap. dst may be one of the sources. A NaN stays a NaN in a maximum. */
typedef void tri_cpu_reduce_fn(void *dst, const void *const *src, int n_src, int64_t n, tri_dtype t,
                               tri_cpu_redop op, int threads);

typedef struct tri_cpu_family {
  const char            *name; /* a word of run.cpu_kernels, such as "avx512" */
  tri_kernels            kernels;
  tri_cpu_copy_bytes_fn *copy_bytes;
  tri_cpu_reduce_fn     *reduce;
} tri_cpu_family;

#endif
