/* runlog.h - writes the events of a run to OUTPUT/run.jsonl, for programs. README.md lists all events and
 * fields. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RUNLOG_H
#define TRI_RUNLOG_H

#include "base/notice.h"
#include "device/memory.h"
#include "metrics.h"

/* Rank 0 writes. Another rank writes only a verdict, or its own error when it fails alone. Each line is
 * written whole, with one call. On a full disk lines wait for the next event, up to 1 MiB, as those of
 * metrics.jsonl do. A failed write never ends a run, and is warned of once. While a run log is open, notices
 * of this process (base/notice.h) become alarms and verdicts. At most one run log is open at a time. */
typedef struct tri_runlog tri_runlog;

/* `output` is the run's output folder, which need not exist. Alarms before tri_runlog_start are kept, and
 * follow the start line. A verdict is written at once, unless another run has locked the folder.
 * tri_runlog_claim says that this start has locked it. */
TRI_CHECKED tri_status tri_runlog_open(const char *output, int rank, tri_runlog **out);
/* Call it when no other thread gives notices any more, after tri_session_leave. */
void tri_runlog_close(tri_runlog **l);

/* Not collective, on every rank. Says that the output folder belongs to this start, and no other running one.
 * If carries_on, run.jsonl there is this run's or new. Then tri_runlog_end writes even before
 * tri_runlog_start. */
void tri_runlog_claim(tri_runlog *l, bool carries_on);

typedef struct tri_runlog_begin {
  const char *record;             /* a JSON object (record/record.h), rank 0's */
  const char *algo, *loss;        /* loss: the minimized loss in words for people */
  const char *model_type, *dtype; /* the policy's */
  int64_t     parameters, layers, width, vocabulary, nodes;
  /* Step at which the run continues, and their total number. */
  int64_t               step, steps;
  const char           *params, *grads, *optimizer; /* the shard plan */
  const tri_ledger_row *memory;                     /* [n_memory] planned on rank 0 */
  int                   n_memory;
  const char           *deck;         /* deck as used, only its hash is written */
  const char           *resumed_from; /* a checkpoint, or NULL or "" for none */
} tri_runlog_begin;
/* Not collective, on every rank. Only rank 0's argument counts. Opens the file, ends a line that a crash cut,
 * and writes the start. TRI_EFILE: the file cannot be opened. */
TRI_CHECKED tri_status tri_runlog_start(tri_runlog *l, const tri_runlog_begin *begin);

/* The functions below are not collective. They do nothing if l is NULL, or on ranks other than 0. */

/* Sets the current step for later alarms. */
void tri_runlog_step(tri_runlog *l, int64_t step);
/* Writes the current phase of the run, as one word, with its step. cause (one word) and text give a reason,
 * or are NULL. A repetition of the last state is not written. */
void tri_runlog_state(tri_runlog *l, const char *phase, int64_t step, const char *cause, const char *text);
/* Writes that a checkpoint of this step was saved (why NULL), or why it could not be. */
void tri_runlog_save(tri_runlog *l, int64_t step, int64_t bytes, double seconds, const char *why);
/* Writes an evaluation of the step with all numbers of m, reduced, whose names begin with "eval_". Writes
 * nothing without such numbers. seconds is NaN if unknown. */
void tri_runlog_eval(tri_runlog *l, int64_t step, double seconds, const tri_metrics *m);

typedef enum { TRI_RUNLOG_FINISHED, TRI_RUNLOG_STOPPED, TRI_RUNLOG_FAILED } tri_runlog_state_end;
typedef struct tri_runlog_ending {
  tri_runlog_state_end state;
  int64_t              step;
  int                  exit_code;
  /* One word, "file", "time" or "signal", for an error tri_status_word, or NULL. */
  const char *cause;
  const char *text;        /* for people, or NULL */
  const char *open_alarms; /* codes separated by blanks, or NULL */
  const char *trace;       /* lines (tri_error_trace), or NULL */
  int         rank;        /* the rank that failed alone, with its host, or -1 if all end together */
  const char *node;
} tri_runlog_ending;
/* Writes the end of the run. Any rank that was started may call it. A call before tri_runlog_claim is allowed
 * too: the step is then unknown, and rank 0 writes the kept alarms first. */
void tri_runlog_end(tri_runlog *l, const tri_runlog_ending *end);
/* The output folder was replaced. Later events are written there, after the start line if the file is new. */
void tri_runlog_follow(tri_runlog *l);

#endif
