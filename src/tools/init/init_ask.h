/* init_ask.h - questions to a person at a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INIT_ASK_H
#define TRI_INIT_ASK_H

#include "base/error.h"

/* Whether there is one: questions go to stderr, answers come from standard input. */
bool tri_ask_can(void);
/* Not collective. Shows the question, with the default behind it in brackets, and waits for a line: *out,
 * without spaces at its ends; the default where it is empty, which is said. none: what "" as default means,
 * in words; NULL: there is no default then, and it is asked again. By tri_host_free. TRI_EARG: the input has
 * ended (Ctrl-D). */
TRI_CHECKED tri_status tri_ask_line(const char *question, const char *def, const char *none, char **out);

#endif
