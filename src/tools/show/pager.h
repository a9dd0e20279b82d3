/* pager.h - where people read: standard output, or a pager before it. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_PAGER_H
#define TRI_SHOW_PAGER_H

#include "base/error.h"

#include <stdio.h>

typedef struct tri_pager {
  FILE       *pipe;    /* to the pager; NULL: there is none */
  const char *command; /* its; borrowed */
  bool        gone;    /* it was left: nobody reads on */
  bool        colour;
  int         columns; /* of a line that is not wrapped */
} tri_pager;

/* Not collective, all that follow. Where standard output is a terminal a pager shows what is put: $PAGER, or
 * without that `less -R` if there is one; an empty $PAGER is none. Colours are wanted on a terminal whose
 * TERM is not dumb, without NO_COLOR, and where the pager takes them. */
void tri_pager_open(tri_pager *out);
/* Escape sequences of the text are obeyed. TRI_EFILE where it cannot be written; a pager that was left is no
 * error. */
TRI_CHECKED tri_status tri_pager_put(tri_pager *p, const char *text, size_t n);
/* Waits for the pager. TRI_EARG: it could not be started. */
TRI_CHECKED tri_status tri_pager_close(tri_pager *p);

#endif
