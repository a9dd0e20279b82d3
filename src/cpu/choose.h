/* choose.h - which family of instructions the CPU's kernels are of, in this process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_CHOOSE_H
#define TRI_CPU_CHOOSE_H

#include "cpu/kernels/kernel_family.h"

/* Not collective, of the main thread. Chooses the best family that this program has and this processor can
 * run, or the one that run.cpu_kernels names (base/choice.h). TRI_EDEVICE: this processor can run none, or
 * not the named one; TRI_ECONFIG: there is none of that name anywhere. */
TRI_CHECKED tri_status tri_cpu_family_choose(void);
/* Not collective. The chosen family; NULL: none was. Borrowed. */
const tri_cpu_family *tri_cpu_family_find(void);

#endif
