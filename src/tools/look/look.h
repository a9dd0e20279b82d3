/* look.h - what is seen of runs from outside: their state, rates and curves, as text, as JSON, on a
 * terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOOK_H
#define TRI_LOOK_H

#include "base/text_buffer.h"

/* Runs, by their output folders. Not collective, all of it; nothing is written to the folders. */
typedef struct tri_look tri_look;

typedef struct tri_look_how {
  int  columns; /* of a line, at least TRI_LOOK_LEAST_COLUMNS */
  bool utf8;    /* else ASCII alone */
  bool colour;  /* by escape sequences */
  const char *const
      *metric; /* [n_metric] whose curves are wanted, borrowed; n_metric 0: those that matter most */
  int  n_metric;
} tri_look_how;
enum { TRI_LOOK_LEAST_COLUMNS = 20 };

/* folder [n], borrowed. One that is no run's, or cannot be read, is shown with the reason in its place.
 * TRI_EINPUT: all of them are so. */
TRI_CHECKED tri_status tri_look_open(const char *const *folder, int n, tri_look **out);
/* TRI_EINPUT: one of several could not be read when they were opened; for whoever looks once. */
TRI_CHECKED tri_status tri_look_check(const tri_look *l);
void                   tri_look_close(tri_look **l);
/* Reads what is new. What cannot be read of a run now is shown in its place. */
TRI_CHECKED tri_status tri_look_refresh(tri_look *l);
/* Appends lines of at most how->columns columns, for people. now_unix_s: seconds since 1970. */
TRI_CHECKED tri_status tri_look_draw(const tri_look *l, const tri_look_how *how, double now_unix_s,
                                     tri_text *out);
/* Appends an object, in a line, for each run. */
TRI_CHECKED tri_status tri_look_json(const tri_look *l, const tri_look_how *how, double now_unix_s,
                                     tri_text *out);

/* Shows the runs on the terminal of standard output, anew every so many seconds, until q is typed, or SIGINT,
 * SIGTERM or SIGHUP comes: *code is 0, or 128 and the signal's number. The terminal is as it was before. */
TRI_CHECKED tri_status tri_look_follow(tri_look *l, const tri_look_how *how, double every_s, int *code);
/* Whether standard output is a terminal that can do this. */
bool tri_look_can_follow(void);
/* How a line there, or in a pipe, may look: columns, utf8 (by the locale's name) and colour (NO_COLOR). */
void tri_look_find_how(bool on_terminal, tri_look_how *how);

#endif
