/* fold.h - text of others laid out for a width: harmless, and broken where a terminal would. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_FOLD_H
#define TRI_SHOW_FOLD_H

#include "pager.h"

/* Not collective, both. The text's lines [n], each behind "| ", what does not fit into the pager's columns
 * below it behind two spaces; broken at spaces where there are any. Control characters are shown (visible.h),
 * tabs become spaces. Nothing is left out; no text is "(empty)". */
TRI_CHECKED tri_status tri_fold_text(tri_pager *p, const char *text, size_t n);
/* Text of ours, broken at words; in this colour, "" or as of SGR ("1"), where the pager has colours. */
TRI_CHECKED tri_status tri_fold_words(tri_pager *p, const char *text, const char *colour);

#endif
