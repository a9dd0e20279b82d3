/* print.h - writes results to standard output, which may be a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PRINT_H
#define TRI_PRINT_H

#include "error.h"

/* Not collective. Writes text [n] to standard output. On a terminal, control characters except newlines and
 * tabs are shown and not obeyed (visible.h). TRI_EFILE: it cannot be written. */
TRI_CHECKED tri_status tri_print(const char *text, size_t n);
/* True if a person reads along, so that text other than results may be printed. */
bool tri_print_is_terminal(void);
/* True if it is a terminal with colours and NO_COLOR is not set. */
bool tri_print_is_coloured(void);

#endif
