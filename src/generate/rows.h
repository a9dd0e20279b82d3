/* rows.h - the answers that run, and the pages they hold: who starts, grows, ends and gives up. Private to
 * its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ROWS_H
#define TRI_ROWS_H

#include "sampler_impl.h"

/* Not collective. Forgets all rows and prompts. */
void tri_rows_begin(tri_sampler *s);
/* Collective over the parameter scope unless the parameters are held. Starts the oldest waiting answers while
 * rows and pages last. */
TRI_CHECKED tri_status tri_rows_start(tri_sampler *s);
/* Not collective, as all that follow. Takes pages from the youngest rows until every other row can have its
 * next page. */
TRI_CHECKED tri_status tri_rows_make_space(tri_sampler *s);
/* Takes the row's next page, if position `pos` begins one. */
void tri_rows_grow(tri_sampler *s, tri_row *w, int64_t pos);
/* Gives up the pages of row i, whose answer has ended, and removes the row. */
TRI_CHECKED tri_status tri_rows_remove(tri_sampler *s, int i);
/* Gives up the pages of all rows and prompts. The answers that run wait again. */
void tri_rows_end(tri_sampler *s);
/* Pure. Returns whether the row's answer continues, before the tokens in flight are known. */
bool tri_rows_go_on(const tri_sampler *s, const tri_row *w);
/* Pure. Returns the number of rows that may still take a page. */
int64_t tri_rows_reserve(const tri_sampler *s);

#endif
