/* kernels_cpu.h - the kernels of the CPU back end, declared from the list of kernels.h. Here, in the lower
 * room of this back end, because both its rooms see it. */
#ifndef TRI_CPU_KERNELS_CPU_H
#define TRI_CPU_KERNELS_CPU_H

#include "device/kernels.h"

#define TRI_X(name) tri_##name##_fn tri_cpu_##name;
TRI_KERNEL_LIST(TRI_X)
#undef TRI_X

#endif
