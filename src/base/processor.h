/* processor.h - whether this processor has the instructions that the program was compiled for. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROCESSOR_H
#define TRI_PROCESSOR_H

/* Not collective, at the start. Of all but the CPU's kernels, which choose for themselves (cpu/choose.h): the
 * name of instructions that the build asks for (TRI_ARCH) and this processor has not, or NULL. Static. */
const char *tri_processor_lacks(void);

#endif
