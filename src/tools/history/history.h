/* history.h - a run's output folder read by others, while it is written too: metrics, deck, events,
 * checkpoints. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_H
#define TRI_HISTORY_H

#include "base/error.h"
#include "ending.h"

/* Not collective, all of them; no MPI, nothing is written, no lock is taken. What they hand out, indices
 * too, is borrowed until the next refresh. */
typedef struct tri_history tri_history;

/* folder: a run's OUTPUT. TRI_EINPUT, with what to do, where it holds none of metrics.jsonl, run.jsonl and
 * deck.yaml, or where one of them cannot be read. A line that is not one of ours (not JSON, a name twice,
 * no step, longer than TRI_LINE_BYTES, over 1024 names) is skipped and counted; a last line without its
 * newline waits for the next refresh. A line whose step is not above the one before takes the place of
 * that and of all from its step on. Memory is at most some times what the files hold. Of files larger than
 * any run's (1 GiB, run.jsonl 256 MiB) the last part is read, with a warning. Holes are passed over. */
TRI_CHECKED tri_status tri_history_open(const char *folder, tri_history **out);
/* The same, but where the folder cannot be read *out is a run of nothing, and the next refresh tries again.
 * Only TRI_ENOMEM leaves none; the other errors are those of a refresh. */
TRI_CHECKED tri_status tri_history_open_any(const char *folder, tri_history **out);
void                   tri_history_close(tri_history **h);
/* Reads what was added since; all again where a file was cut back or replaced (a resume). *changed:
 * anything is new. After an error, which open has too, the next call goes on. */
TRI_CHECKED tri_status tri_history_refresh(tri_history *h, bool *changed);

const char *tri_history_folder(const tri_history *h);
int64_t     tri_history_bad_lines(const tri_history *h);
int64_t     tri_history_rows(const tri_history *h); /* lines of metrics.jsonl */
const int64_t     *
tri_history_step(const tri_history *h);     /* [rows], ascending; 0: the evaluation before step 1 */
int tri_history_n_series(const tri_history *h); /* names of numbers, in the order of their first line */
const char *tri_history_name(const tri_history *h, int series);
/* The numbers of a series: value [n] in row [n], ascending. A row that is not among them had null, or no such
 * name. */
typedef struct tri_history_points {
  const int32_t *row;
  const double  *value;
  int64_t        n;
} tri_history_points;
tri_history_points tri_history_points_of(const tri_history *h, int series);
double             tri_history_at(const tri_history *h, int series, int64_t row); /* NaN: it has none there */
int                tri_history_find(const tri_history *h, const char *name);      /* -1: none */
const char        *tri_history_text(const tri_history *h,
                                    const char        *name); /* the last text of a name; NULL: none */
int64_t tri_history_text_step(const tri_history *h, const char *name); /* of that text's line; -1: none */

/* The deck as used, flattened, in the file's order: "train.steps" and its value as deck.yaml spells it,
 * without quotes; a list as [a, b]; of a list of mappings "reward[0].name". None where the deck cannot be
 * read. */
int         tri_history_n_keys(const tri_history *h);
const char *tri_history_key(const tri_history *h, int i);
const char *tri_history_key_value(const tri_history *h, int i);
const char *tri_history_deck(const tri_history *h, const char *key); /* NULL: not there */
const char *tri_history_deck_error(const tri_history *h);            /* why it cannot be read; NULL: it can */

/* Alarms and errors of run.jsonl, oldest first, the last 1000; each one line without control characters. A
 * folder without that file, of an earlier version, has none. */
int         tri_history_n_alarms(const tri_history *h);
const char *tri_history_alarm(const tri_history *h, int i);
const char *tri_history_alarm_code(const tri_history *h, int i); /* of an error its cause */
int64_t     tri_history_alarm_step(const tri_history *h, int i); /* -1: not known */
bool        tri_history_alarm_is_error(const tri_history *h, int i);
int         tri_history_first_alarm(const tri_history *h); /* of the newest start; n_alarms: it has none */

/* The newest start, an object of run.jsonl (src/report/README.md) with members of any type; NULL: none. */
const struct json_t *tri_history_start(const tri_history *h);
/* How the newest start ended. */
tri_ending  tri_history_ending(const tri_history *h);
const char *tri_history_phase(const tri_history *h); /* what that start does, or did last; "": not known */
int64_t     tri_history_phase_step(const tri_history *h); /* in which step; -1: not known */
int64_t     tri_history_said_steps(const tri_history *h); /* all steps, as it said; -1: it did not */
int         tri_history_starts(const tri_history *h);     /* in run.jsonl; -1: there is no such file */
int64_t     tri_history_bad_events(const tri_history *h); /* lines of run.jsonl that are none of ours */

enum { TRI_HISTORY_HOST_BYTES = 64 };
typedef struct tri_history_life {
  int64_t checkpoint;                   /* step of the newest whole checkpoint (LATEST); -1: none */
  double  checkpoint_unix_s;            /* when it was written; 0: none */
  bool    is_saving;                    /* a checkpoint is being written, or was when the run ended */
  bool    has_start;                    /* OUTPUT/.start: a start has the folder, or was killed in it */
  char    host[TRI_HISTORY_HOST_BYTES]; /* of that start's rank 0, visible; "": not known */
  int64_t pid;                          /* its process there; 0: not known */
  double  start_unix_s;                 /* 0: not known */
  double  seen_unix_s;                  /* the last change of what a run writes; 0: none */
} tri_history_life;
const tri_history_life *tri_history_life_of(const tri_history *h);
int64_t                 tri_history_checkpoint(const tri_history *h); /* the same step */
#endif
