/* program.h - the program's name, as it was typed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROGRAM_H
#define TRI_PROGRAM_H

/* argv[0] as the user typed it. It starts this program again in the same shell. Borrowed. "trireme" until it
 * is set. */
void        tri_program_set(const char *argv0);
const char *tri_program(void);

#endif
