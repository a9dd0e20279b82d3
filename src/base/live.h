/* live.h - one status line at the end of a terminal, redrawn repeatedly and kept out of the way of
 * messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LIVE_H
#define TRI_LIVE_H

#include <stdbool.h>

/* Not collective, all that follow. The live line exists only if stderr is a terminal (TERM other than dumb).
 * Otherwise these functions do nothing. The cursor stays at the beginning of the line, so wiping removes all
 * of it, even if a narrower terminal has wrapped it. */

/* Draws `line` in place of the previous one. It must be ASCII without control characters. It is copied and
 * cut to the terminal's width (80 if unknown). NULL wipes the line and forgets it. Returns true if a line is
 * shown now. */
bool tri_live_draw(const char *line);
/* Columns of a line that stderr's terminal does not wrap, one less than its width. 0: stderr is no such
 * terminal. */
int tri_live_columns(void);
/* Call these before and after other output to the terminal. tri_log calls them itself. */
void tri_live_wipe(void);
void tri_live_redraw(void);
/* For signal handlers. Wipes the live line and writes one line, which ends with \n, or nothing. It goes to
 * stderr, terminal or not. */
void tri_live_interrupt(const char *line);

#endif
