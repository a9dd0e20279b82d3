/* fold.h - wraps untrusted text to a width and makes control characters visible. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_FOLD_H
#define TRI_SHOW_FOLD_H

#include "pager.h"

/* Not collective, both. Prints the lines of text [n], each with the margin "| ". A line too long for the
 * pager continues below with a margin of two spaces, broken at spaces if it has any. Control characters are
 * made visible (visible.h), and tabs become spaces. Nothing is left out. An empty text is "(empty)". */
TRI_CHECKED tri_status tri_fold_text(tri_pager *p, const char *text, size_t n);
/* Prints a text of this program, broken at words. `colour` is an SGR number ("1") or "", and counts only if
 * the pager has colours. */
TRI_CHECKED tri_status tri_fold_words(tri_pager *p, const char *text, const char *colour);

#endif
