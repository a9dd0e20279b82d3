/* error_list.h - a list of the user's errors, for checks that continue after an error. Not collective, all
 * that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ERROR_LIST_H
#define TRI_ERROR_LIST_H

#include "error.h"
#include "text_buffer.h"

#include <stdint.h>

/* The user's errors found so far. Zero-initialise it, and free it with tri_errors_free. */
typedef struct tri_errors {
  tri_text   text;   /* each message and a newline. A message may have several lines */
  tri_text   trace;  /* places in the program (tri_error_trace), one behind the other */
  int64_t    n;      /* a message may stand for several */
  tri_status st;     /* has the exit code of all, or is TRI_ECONFIG if these differ */
  tri_text   unseen; /* parts that could not be checked because of them, "data, memory" */
  /* Bits chosen by the caller. They tell the affected parts of a deck (TRI_CONFIG_ABOUT_*). */
  unsigned about;
} tri_errors;
void tri_errors_free(tri_errors *errors);
/* If `errors` is not NULL and st is an error of the user's input, adds its message, clears the error and
 * returns TRI_OK. The caller can then check further. Otherwise returns st. */
TRI_CHECKED tri_status tri_error_note(tri_status st, tri_errors *errors);
/* Logs all messages, without the last newline, as info, and their places as detail. */
void tri_errors_say(tri_errors *errors);
/* Restores the only error with its trace, and returns its status. */
TRI_CHECKED tri_status tri_errors_fail(const tri_errors *errors);
/* Adds to errors->unseen if `errors` is not NULL. */
TRI_CHECKED tri_status tri_errors_miss(tri_errors *errors, const char *what);

#endif
