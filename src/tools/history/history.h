/* history.h - reads a run's output folder (metrics, deck, events, checkpoints), even while the run writes
 * it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_H
#define TRI_HISTORY_H

#include "base/error.h"
#include "ending.h"

/* No function here is collective. None uses MPI, writes a file or takes a lock. Returned pointers and indices
 * are valid until the next refresh. */
typedef struct tri_history tri_history;

/* folder is a run's OUTPUT. TRI_EINPUT, with the cure, if it has none of metrics.jsonl, run.jsonl and
 * deck.yaml, or if one of them is unreadable. A foreign line is skipped and counted (not JSON, a name twice,
 * no step, longer than TRI_LINE_BYTES, over 1024 names). A last line without its newline waits for the next
 * refresh. If a line's step is not above the previous one, the line replaces all rows from its step on.
 * Memory is at most a few times the size of the files. Files larger than any run writes (1 GiB, run.jsonl 256
 * MiB) are read only in their last part, with a warning. Holes in files are skipped. */
TRI_CHECKED tri_status tri_history_open(const char *folder, tri_history **out);
/* Does the same, but if the folder is unreadable, *out is an empty run and the next refresh tries again. *out
 * is NULL only after TRI_ENOMEM. Other errors are those of a refresh. */
TRI_CHECKED tri_status tri_history_open_any(const char *folder, tri_history **out);
/* Does the same as tri_history_open, but reads only the last MiB of metrics.jsonl. This suffices for the
 * state of the run. */
TRI_CHECKED tri_status tri_history_open_end(const char *folder, tri_history **out);
void                   tri_history_close(tri_history **h);
/* Reads the lines added since the last call. A file that was cut back or replaced, as by a resume, is read
 * again from its start. *changed is true if anything is new. After an error, also one of open, the next call
 * goes on. */
TRI_CHECKED tri_status tri_history_refresh(tri_history *h, bool *changed);

const char *tri_history_folder(const tri_history *h);
int64_t     tri_history_bad_lines(const tri_history *h);
int64_t     tri_history_rows(const tri_history *h); /* lines of metrics.jsonl */
const int64_t     *
tri_history_step(const tri_history *h);     /* [rows], ascending, 0 for the evaluation before step 1 */
int tri_history_n_series(const tri_history *h); /* names of numbers, in order of first appearance */
const char *tri_history_name(const tri_history *h, int series);
/* The numbers of a series, value [n] in row [n], ascending. In any other row the name was null or missing. */
typedef struct tri_history_points {
  const int32_t *row;
  const double  *value;
  int64_t        n;
} tri_history_points;
tri_history_points tri_history_points_of(const tri_history *h, int series);
double             tri_history_at(const tri_history *h, int series, int64_t row); /* NaN if there is none */
int                tri_history_find(const tri_history *h, const char *name);      /* -1 if there is none */
const char *tri_history_text(const tri_history *h, const char *name);  /* the last text of a name, or NULL */
int64_t tri_history_text_step(const tri_history *h, const char *name); /* step of that text's line, or -1 */

/* The deck as used, flattened, in the file's order. A key such as "train.steps" has its value as deck.yaml
 * spells it, without quotes. A list has the form [a, b]. Keys in a list of mappings have the form
 * "reward[0].name". An unreadable deck has no keys. */
int         tri_history_n_keys(const tri_history *h);
const char *tri_history_key(const tri_history *h, int i);
const char *tri_history_key_value(const tri_history *h, int i);
const char *tri_history_deck(const tri_history *h, const char *key); /* NULL if the deck lacks the key */
const char *tri_history_deck_error(const tri_history *h);            /* why the deck is unreadable, or NULL */

/* The last 1000 alarms and errors of run.jsonl, oldest first. Each is one line without control characters.
 * There are none without run.jsonl, as in folders of an earlier version. */
int         tri_history_n_alarms(const tri_history *h);
const char *tri_history_alarm(const tri_history *h, int i);
const char *tri_history_alarm_code(const tri_history *h, int i); /* for an error, its cause */
int64_t     tri_history_alarm_step(const tri_history *h, int i); /* -1 if unknown */
bool        tri_history_alarm_is_error(const tri_history *h, int i);
int         tri_history_first_alarm(const tri_history *h); /* first of the newest start, n_alarms if it has
                                                            * none */

/* Returns the newest start event, an object of run.jsonl (src/report/README.md) with members of any type, or
 * NULL. */
const struct json_t *tri_history_start(const tri_history *h);
/* Returns how the newest start ended. */
tri_ending  tri_history_ending(const tri_history *h);
const char *tri_history_phase(const tri_history *h);      /* phase of that start, "" if unknown */
int64_t     tri_history_phase_step(const tri_history *h); /* step of that phase, -1 if unknown */
int64_t     tri_history_said_steps(const tri_history *h); /* number of all steps in the start event, or -1 */
int         tri_history_starts(const tri_history *h);     /* starts in run.jsonl, -1 without that file */
int64_t     tri_history_bad_events(const tri_history *h); /* foreign lines of run.jsonl */

enum { TRI_HISTORY_HOST_BYTES = 64 };
typedef struct tri_history_life {
  int64_t checkpoint;                   /* step of the newest whole checkpoint (LATEST), or -1 */
  double  checkpoint_unix_s;            /* when it was written, 0 if there is none */
  bool    is_saving;                    /* a checkpoint is being written, or was when the run ended */
  bool    has_start;                    /* OUTPUT/.start exists, so a start uses the folder or was killed in
                                         * it */
  char    host[TRI_HISTORY_HOST_BYTES]; /* host of that start's rank 0, visible, "" if unknown */
  int64_t pid;                          /* its process there, 0 if unknown */
  double  start_unix_s;                 /* 0 if unknown */
  double  seen_unix_s;                  /* last change of any file of the run, 0 if none */
} tri_history_life;
const tri_history_life *tri_history_life_of(const tri_history *h);
int64_t                 tri_history_checkpoint(const tri_history *h); /* same as life's checkpoint */
#endif
