/* live.h - one line at the end of a terminal that is drawn again and again, and out of the way of
 * messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LIVE_H
#define TRI_LIVE_H

#include <stdbool.h>

/* Not collective, all that follow. There is a live line only where stderr is a terminal (TERM other than
 * dumb); else they do nothing. While the line stands, the cursor is at its beginning, so that wiping removes
 * all of it, wrapped by a terminal that became narrower or not. */

/* Draw `line`, ASCII without control characters, cut to the terminal's width (80 where that is not known), in
 * place of the one before; copied. NULL: wipe it and forget it. Whether it stands there now. */
bool tri_live_draw(const char *line);
/* Columns of a line that stderr's terminal does not wrap, one less than it has; 0 where stderr is no such
 * terminal. */
int tri_live_columns(void);
/* Before and after something else is written to the terminal; tri_log does it by itself. */
void tri_live_wipe(void);
void tri_live_redraw(void);
/* In a signal handler: wipe, and write one line, which ends with \n, or nothing to stderr, terminal or
 * not. */
void tri_live_interrupt(const char *line);

#endif
