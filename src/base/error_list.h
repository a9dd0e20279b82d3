/* error_list.h - what is wrong with what the user gave, where all of it is looked for. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ERROR_LIST_H
#define TRI_ERROR_LIST_H

#include "error.h"
#include "text_buffer.h"

#include <stdint.h>

/* What is wrong with what the user gave, where all of it is looked for. Zero-initialise; the text is to be
 * freed. */
typedef struct tri_errors {
  tri_text   text;   /* each as its message and a newline; a message may have several lines */
  tri_text   trace;  /* where in the program each arose (tri_error_trace), one behind the other */
  int64_t    n;      /* a message may stand for several */
  tri_status st;     /* with the exit code of all, or TRI_ECONFIG where these differ */
  tri_text   unseen; /* what could not be looked at because of them, "data, memory" */
  unsigned   about;  /* bits of whoever notes them: which parts of a deck they are of (TRI_CONFIG_ABOUT_*) */
} tri_errors;
void tri_errors_free(tri_errors *errors);
/* Where `errors` is not NULL and st is an error of what the user gave: its message is added, the error is
 * cleared, and TRI_OK comes back, so that what is behind it is looked at too. Else st. Not collective. */
TRI_CHECKED tri_status tri_error_note(tri_status st, tri_errors *errors);
/* The list of all, without its last newline, as info, and where they arose as detail. Not collective. */
void tri_errors_say(tri_errors *errors);
/* Makes the only error the error again, with its trace, and hands its status back. Not collective. */
TRI_CHECKED tri_status tri_errors_fail(const tri_errors *errors);
/* Adds to errors->unseen, where `errors` is not NULL. Not collective. */
TRI_CHECKED tri_status tri_errors_miss(tri_errors *errors, const char *what);

#endif
