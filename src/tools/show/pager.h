/* pager.h - prints to standard output, through a pager if people read it. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_PAGER_H
#define TRI_SHOW_PAGER_H

#include "base/error.h"

#include <stdio.h>

typedef struct tri_pager {
  FILE       *pipe;    /* to the pager, NULL without one */
  const char *command; /* the pager's command, borrowed */
  bool        gone;    /* the pager has quit, so nobody reads on */
  bool        colour;
  int         columns; /* width of one line */
} tri_pager;

/* Not collective, all that follow. Starts a pager if standard output is a terminal. It is $PAGER, or `less
 * -R` if the variable is not set and less exists. An empty $PAGER means no pager. Colours need a terminal
 * other than TERM=dumb, no NO_COLOR, and a pager that shows them. */
void tri_pager_open(tri_pager *out);
/* Prints text [n] with its escape sequences. Returns TRI_EFILE if it cannot be written. A pager that has quit
 * is no error. */
TRI_CHECKED tri_status tri_pager_put(tri_pager *p, const char *text, size_t n);
/* Waits for the pager to end. Returns TRI_EARG if it could not be started. */
TRI_CHECKED tri_status tri_pager_close(tri_pager *p);

#endif
