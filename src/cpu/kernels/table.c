/* table.c - the table of one family's kernels. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#define TEXT_OF(x)   #x
#define TEXT(family) TEXT_OF(family)

extern const tri_cpu_family tri_cpu_family_table;

#define TRI_X(name) .name = tri_cpu_##name,
const tri_cpu_family tri_cpu_family_table = {.name = TEXT(TRI_CPU_FAMILY),
                                             .kernels = {TRI_KERNEL_LIST(TRI_X) TRI_RECURRENT_KERNELS(TRI_X)},
                                             .copy_bytes = tri_cpu_bulk_copy,
                                             .reduce = tri_cpu_bulk_reduce};
#undef TRI_X
