/* kernels_cpu.h - the kernels of the CPU back end, declared from the list of kernels.h. Private to its
 * workspace. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_KERNELS_CPU_H
#define TRI_CPU_KERNELS_CPU_H

#include "kernel_names.h"

#include "kernel_family.h"

#define TRI_X(name) tri_##name##_fn tri_cpu_##name;
TRI_KERNEL_LIST(TRI_X)
#undef TRI_X

/* bulk.c: what a family has besides (kernel_family.h). */
tri_cpu_copy_bytes_fn tri_cpu_bulk_copy;
tri_cpu_reduce_fn     tri_cpu_bulk_reduce;

#endif
