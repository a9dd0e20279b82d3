/* print.h - results on standard output, which may be a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PRINT_H
#define TRI_PRINT_H

#include "error.h"

/* Not collective. Text [n] on standard output as it is; where that is a terminal, with control characters
 * other than newlines and tabs shown instead of obeyed (visible.h). TRI_EFILE where it cannot be written. */
TRI_CHECKED tri_status tri_print(const char *text, size_t n);
/* Whether a person reads along, so that what is not a result may stand there too. */
bool tri_print_is_terminal(void);
/* Whether it is a terminal that shows colours, without NO_COLOR. */
bool tri_print_is_coloured(void);

#endif
