/* choose.h - chooses the family of instructions for the CPU's kernels in this process. Not collective, all
 * that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_CHOOSE_H
#define TRI_CPU_CHOOSE_H

#include "cpu/kernels/kernel_family.h"

/* Not collective, for the main thread only. Chooses the best family in this program for this processor, or
 * the one named by run.cpu_kernels (base/choice.h). Returns TRI_EDEVICE if this processor can run none, or
 * not the named one. Returns TRI_ECONFIG if no family has this name on any processor. */
TRI_CHECKED tri_status tri_cpu_family_choose(void);
/* Returns the chosen family, borrowed, or NULL if none was chosen. */
const tri_cpu_family *tri_cpu_family_find(void);

#endif
