/* kernels_cpu.h - the kernels of the CPU back end, declared from the lists of kernels.h. */
#ifndef TRI_CPU_KERNELS_CPU_H
#define TRI_CPU_KERNELS_CPU_H

#include "device/kernels.h"

#define TRI_X(name) tri_##name##_fn tri_cpu_##name;
TRI_KERNEL_LIST(TRI_X)
#undef TRI_X

#endif
