/* look.h - shows the state, rates and curves of runs from outside, as text, as JSON or on a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOOK_H
#define TRI_LOOK_H

#include "base/text_buffer.h"

/* Runs, given by their output folders. No function here is collective. None writes to the folders. */
typedef struct tri_look tri_look;

typedef struct tri_look_how {
  int  columns; /* columns of a line, at least TRI_LOOK_LEAST_COLUMNS */
  bool utf8;    /* false means only ASCII */
  bool colour;  /* by escape sequences */
  const char *const
      *metric; /* [n_metric] metrics to show, borrowed, where n_metric 0 chooses the most important ones */
  int  n_metric;
} tri_look_how;
enum { TRI_LOOK_LEAST_COLUMNS = 20 };

/* folder [n] is borrowed. A folder that is no run's, or is unreadable, is shown with the reason in its place.
 * TRI_EINPUT if that is so for all folders. */
TRI_CHECKED tri_status tri_look_open(const char *const *folder, int n, tri_look **out);
/* TRI_EINPUT if at least one of several folders was unreadable at opening. This is for callers that look only
 * once. */
TRI_CHECKED tri_status tri_look_check(const tri_look *l);
void                   tri_look_close(tri_look **l);
/* Reads the new lines of each run. For a run that is unreadable now, the reason is shown in its place. */
TRI_CHECKED tri_status tri_look_refresh(tri_look *l);
/* Appends lines for people, each of at most how->columns columns. now_unix_s is in seconds since 1970. */
TRI_CHECKED tri_status tri_look_draw(const tri_look *l, const tri_look_how *how, double now_unix_s,
                                     tri_text *out);
/* Appends one JSON object, on a line of its own, for each run. */
TRI_CHECKED tri_status tri_look_json(const tri_look *l, const tri_look_how *how, double now_unix_s,
                                     tri_text *out);

/* Shows the runs on the terminal of standard output and refreshes them every `every_s` seconds. It ends when
 * the user types q or on SIGINT, SIGTERM or SIGHUP. *code is 0, or 128 plus the signal's number. The terminal
 * is restored at the end. */
TRI_CHECKED tri_status tri_look_follow(tri_look *l, const tri_look_how *how, double every_s, int *code);
/* Returns true if standard output is a terminal fit for tri_look_follow. */
bool tri_look_can_follow(void);
/* Finds columns, utf8 (from the locale's name) and colour (off with NO_COLOR) for a terminal or a pipe. */
void tri_look_find_how(bool on_terminal, tri_look_how *how);

#endif
