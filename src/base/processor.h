/* processor.h - checks that this processor has the instructions the program was compiled for. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROCESSOR_H
#define TRI_PROCESSOR_H

/* Not collective, at the start. Returns the name of instructions that the build requires (TRI_ARCH) and this
 * processor lacks, or NULL. The string is static. The CPU kernels are not included, since they choose for
 * themselves (cpu/choose.h). */
const char *tri_processor_lacks(void);

#endif
