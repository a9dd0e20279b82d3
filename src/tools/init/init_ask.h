/* init_ask.h - asks a person questions at a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INIT_ASK_H
#define TRI_INIT_ASK_H

#include "base/error.h"

/* Returns whether a person can be asked. Questions go to stderr, answers come from standard input. */
bool tri_ask_can(void);
/* Not collective. Shows the question with the default in brackets and waits for a line. *out is the line
 * without spaces at its ends. An empty line takes the default and prints it. none: the meaning of a default
 * "", in words. If the default is "" and `none` is NULL, an answer is required and the question is repeated.
 * Free *out with tri_host_free. TRI_EARG: the input has ended (Ctrl-D). */
TRI_CHECKED tri_status tri_ask_line(const char *question, const char *def, const char *none, char **out);

#endif
