/* terminal.h - the whole screen of a terminal while runs are on show. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TERMINAL_H
#define TRI_TERMINAL_H

#include "base/error.h"

typedef enum {
  TRI_TERMINAL_TIME, /* nothing came in this time */
  TRI_TERMINAL_RESIZED,
  TRI_TERMINAL_KEY,    /* *key is a letter, or a TRI_KEY_ below */
  TRI_TERMINAL_SIGNAL, /* *key is its number (SIGINT, SIGTERM, SIGHUP, SIGQUIT) */
  TRI_TERMINAL_GONE    /* the terminal is gone */
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

/* No function here is collective. Only one screen can be open, because it catches signals. Open takes the
 * alternate screen of standard output. It takes the keys of standard input too if that is a terminal. Close
 * restores everything. A stop by SIGTSTP restores everything until SIGCONT. */
TRI_CHECKED tri_status tri_terminal_open(void);
void                   tri_terminal_close(void);
void                   tri_terminal_size(int *columns, int *lines);
/* Draws text, whose lines must fit, in place of the last frame. Writes nothing if the two are equal. Returns
 * false if the terminal is not writable. */
bool               tri_terminal_show(const char *text, size_t n);
tri_terminal_event tri_terminal_wait(double patience_s, int *key);
bool               tri_terminal_has_keys(void); /* true if standard input is a terminal */
bool               tri_terminal_has_more(void); /* true if keys were typed and not yet taken */

#endif
