/* terminal.h - the whole screen of a terminal, for as long as it is looked at. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TERMINAL_H
#define TRI_TERMINAL_H

#include "base/error.h"

typedef enum {
  TRI_TERMINAL_TIME, /* nothing came so long */
  TRI_TERMINAL_RESIZED,
  TRI_TERMINAL_KEY,    /* *key: a letter, or one of those below */
  TRI_TERMINAL_SIGNAL, /* *key: its number; SIGINT, SIGTERM, SIGHUP */
  TRI_TERMINAL_GONE    /* there is no terminal any more */
} tri_terminal_event;
enum {
  TRI_KEY_UP = 256,
  TRI_KEY_DOWN,
  TRI_KEY_PAGE_UP,
  TRI_KEY_PAGE_DOWN,
  TRI_KEY_HOME,
  TRI_KEY_END,
  TRI_KEY_NONE
};

/* Not collective, all of them. One at a time: it catches signals. Open takes the alternate screen of
 * standard output and the keys of standard input where that is a terminal; close gives all back, as
 * SIGTSTP does until SIGCONT. */
TRI_CHECKED tri_status tri_terminal_open(void);
void                   tri_terminal_close(void);
void                   tri_terminal_size(int *columns, int *lines);
/* Draws text, lines that fit, in place of what stood there; nothing is written where it is the same.
 * False: it cannot be written. */
bool               tri_terminal_show(const char *text, size_t n);
tri_terminal_event tri_terminal_wait(double patience_s, int *key);
bool               tri_terminal_has_keys(void); /* standard input is a terminal */
bool               tri_terminal_has_more(void); /* keys that were typed already */

#endif
