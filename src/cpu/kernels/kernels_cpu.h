/* kernels_cpu.h - declares the kernels of the CPU back end from the list in kernels.h. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_KERNELS_CPU_H
#define TRI_CPU_KERNELS_CPU_H

#include "kernel_names.h"

#include "kernel_family.h"

#define TRI_X(name) tri_##name##_fn tri_cpu_##name;
TRI_KERNEL_LIST(TRI_X)
TRI_RECURRENT_KERNELS(TRI_X)
#undef TRI_X

/* The other two functions of a family (kernel_family.h), in bulk.c. */
tri_cpu_copy_bytes_fn tri_cpu_bulk_copy;
tri_cpu_reduce_fn     tri_cpu_bulk_reduce;

#endif
