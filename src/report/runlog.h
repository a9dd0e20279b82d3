/* runlog.h - OUTPUT/run.jsonl: what happened to a run, for programs; README.md has every event and field. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RUNLOG_H
#define TRI_RUNLOG_H

#include "base/notice.h"
#include "device/memory.h"
#include "metrics.h"

/* Rank 0 writes. Another rank writes what rank 0 cannot: a verdict, or its own error when it fails alone. A
 * line is written whole, with one call. What cannot be written (a full disk) waits for the next event, up to
 * 1 MiB, as the lines of metrics.jsonl do. It never ends a run, and is warned of once. While a run log is
 * open, notices of this process (base/notice.h) become alarms and verdicts. At most one is open at a time. */
typedef struct tri_runlog tri_runlog;

/* Not collective. output: the run's output folder, which need not be there. Alarms that come before
 * tri_runlog_start are kept, and follow its line. A verdict is written at once, unless the folder is locked
 * by a run and tri_runlog_claim has not said that it is this one. */
TRI_CHECKED tri_status tri_runlog_open(const char *output, int rank, tri_runlog **out);
/* Not collective. When no other thread gives notice any more: behind tri_session_leave. */
void tri_runlog_close(tri_runlog **l);

/* Not collective, every rank. The output folder is this start's: nobody else's live run is in it. carries_on:
 * run.jsonl there is this run's, or new; tri_runlog_end then writes even before tri_runlog_start. */
void tri_runlog_claim(tri_runlog *l, bool carries_on);

typedef struct tri_runlog_begin {
  const char           *record;             /* a JSON object (record/record.h), rank 0's */
  const char           *algo, *loss;        /* loss: what is minimised, for people */
  const char           *model_type, *dtype; /* of the policy */
  int64_t               parameters, layers, width, vocabulary, nodes;
  int64_t               step, steps;                /* that the run goes on from; all */
  const char           *params, *grads, *optimizer; /* the shard plan */
  const tri_ledger_row *memory;                     /* [n_memory] planned on rank 0 */
  int                   n_memory;
  const char           *deck;         /* as used; its hash is written */
  const char           *resumed_from; /* a checkpoint; NULL or "": none */
} tri_runlog_begin;
/* Not collective, every rank; rank 0's argument counts. The file is opened, a line that a crash cut is ended,
 * and the start is written. TRI_EFILE: the file cannot be had. */
TRI_CHECKED tri_status tri_runlog_start(tri_runlog *l, const tri_runlog_begin *begin);

/* Not collective, all that follow; l may be NULL, and is not started on other ranks than 0: then they do
 * nothing. */

/* The run is in this step; alarms are of it from here on. */
void tri_runlog_step(tri_runlog *l, int64_t step);
/* What the run does now, one word, in which step; cause, one word, and text say why, or are NULL. Nothing is
 * written where it is what the last one said. */
void tri_runlog_state(tri_runlog *l, const char *phase, int64_t step, const char *cause, const char *text);
/* A checkpoint of this step was written, or could not be: why, else NULL. */
void tri_runlog_save(tri_runlog *l, int64_t step, int64_t bytes, double seconds, const char *why);
/* The step was evaluated: every number of m, reduced, whose name begins with "eval_"; nothing where there is
 * none. seconds: NaN, not known. */
void tri_runlog_eval(tri_runlog *l, int64_t step, double seconds, const tri_metrics *m);

typedef enum { TRI_RUNLOG_FINISHED, TRI_RUNLOG_STOPPED, TRI_RUNLOG_FAILED } tri_runlog_state_end;
typedef struct tri_runlog_ending {
  tri_runlog_state_end state;
  int64_t              step;
  int                  exit_code;
  const char          *cause; /* one word: "file", "time", "signal"; of an error tri_status_word; or NULL */
  const char          *text;  /* for people; or NULL */
  const char          *open_alarms; /* codes with a blank between; or NULL */
  const char          *trace;       /* lines (tri_error_trace); or NULL */
  int                  rank;        /* that failed alone, with its host; -1: all end together */
  const char          *node;
} tri_runlog_ending;
/* Writes the end of the run. Any rank that was started may call it. A call before tri_runlog_claim is allowed
 * too: the step is then unknown, and rank 0 writes the kept alarms first. */
void tri_runlog_end(tri_runlog *l, const tri_runlog_ending *end);
/* The output folder is another one now: what comes is written there, behind the start where the file is
 * new. */
void tri_runlog_follow(tri_runlog *l);

#endif
