/* metrics.h - named scalars and times of one step; one JSON line a step. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_METRICS_H
#define TRI_METRICS_H

#include "base/text_buffer.h"
#include "comm/comm.h"

/* How the ranks' values become one. RANK0: the same on every rank. */
typedef enum { TRI_METRIC_SUM, TRI_METRIC_MAX, TRI_METRIC_MIN, TRI_METRIC_RANK0 } tri_metric_kind;
typedef struct tri_metrics tri_metrics;
enum { TRI_METRIC_NAME_BYTES = 96 }; /* of a name and its end; chosen: twice the longest of a run */

/* Rank 0 appends to `path` (NULL: no file); other ranks touch no file. keep_step: lines of later steps are
 * cut off first (resuming); -1 keeps nothing. A last line without its newline is cut off too; other lines
 * that are none of ours, as a crash leaves NULs, are kept, and said. Not collective. */
TRI_CHECKED tri_status tri_metrics_open(const char *path, int64_t keep_step, int rank, tri_metrics **out);
void                   tri_metrics_close(tri_metrics **m);
/* An event file for TensorBoard beside the lines. */
typedef struct tri_metrics_board {
  const char *folder; /* it is in; made */
  const char *deck;   /* as used, shown as a text at `step` */
  int64_t     step;   /* that the run goes on from */
  double      now_s;  /* seconds since 1970: the file's number and its first events' time */
  bool        waits;  /* nothing is written unless a line comes */
} tri_metrics_board;
/* Not collective; rank 0's alone counts. Before any value. What the lines say, those that were kept too, is
 * from now on in an event file as well (tensorboard.h). A disk that is full is a warning; TRI_EFILE: the
 * folder cannot be had. */
TRI_CHECKED tri_status tri_metrics_open_board(tri_metrics *m, const tri_metrics_board *opt);
/* Not collective. Of a run without one: where lines were cut off and an earlier start wrote an event file, it
 * is written anew without them, and no more comes. What fails is a warning. */
void tri_metrics_cut_board(tri_metrics *m, const tri_metrics_board *opt);
/* Not collective, but every rank adds the same names in the same order (texts aside). Units belong in the
 * name: "time_rollout_s", "mem_used_bytes". A name given twice in a step: SUM adds, MAX keeps the larger, MIN
 * the smaller, RANK0 the latest. NaN wins over every number. At most 512 names of TRI_METRIC_NAME_BYTES,
 * texts of 255 bytes. */
void tri_metric_add(tri_metrics *m, const char *name, tri_metric_kind kind, double value);
void tri_metric_text(tri_metrics *m, const char *name, const char *value); /* rank 0's */
/* Not collective. Adds to time_<span>_s, the longest of the ranks. */
void tri_metric_time(tri_metrics *m, const char *span, double spent_s);
/* Not collective. time_<span>_s, if it is there the last name that was added, is as if it had not been. */
void   tri_metric_forget_time(tri_metrics *m, const char *span);
double tri_metric_get(const tri_metrics *m, const char *name); /* after reduce; NaN if there is none */
/* Not collective. After reduce. Appends the numbers whose names begin so as members of a JSON object:
 * "a": 1, "b": null. */
TRI_CHECKED tri_status tri_metrics_put_begun_by(const tri_metrics *m, const char *begin, tri_text *out);
bool                   tri_metric_has(const tri_metrics *m, const char *name);
/* Collective over world. One reduction for all names, once in a step; sums are made in rank order. Ranks that
 * do not have the same names are TRI_EINTERNAL. world NULL: this rank is alone. */
TRI_CHECKED tri_status tri_metrics_reduce(tri_metrics *m, tri_comm *world);
/* Not collective. After reduce: rank 0 makes one JSON line: "step" first, then names in the order they were
 * added, numbers as number.h writes them, not finite as null; all values are cleared. Then it is appended as
 * flush does; and where it is the event file that cannot be written, that is TRI_EFILE and waits likewise. */
TRI_CHECKED tri_status tri_metrics_write(tri_metrics *m, int64_t step);
/* Not collective. As write, of a line whose evaluation was given up: it ends with "eval": "due". */
TRI_CHECKED tri_status tri_metrics_put_off(tri_metrics *m, int64_t step);
/* Not collective; rank 0's alone count. As opened: there was no line to keep; the last one was put off. */
bool tri_metrics_is_new(const tri_metrics *m);
bool tri_metrics_is_due(const tri_metrics *m);
/* Not collective. After open and reduce, before any write: the values take the place of the last line's
 * "eval": "due", so that it is as if it had never been put off. The file changes as a whole, or not at all:
 * then, and that is TRI_EFILE, the values wait for the next flush, and all lines behind them. */
TRI_CHECKED tri_status tri_metrics_complete(tri_metrics *m);
/* Not collective. Rank 0 writes what waits. What cannot be written whole (disk full) is TRI_EFILE, leaves
 * nothing of itself in the file and waits for the next call. */
TRI_CHECKED tri_status tri_metrics_flush(tri_metrics *m);
/* Not collective. The file of this name is another one now, or gone: what comes is written there, from the
 * next flush on. */
void tri_metrics_follow(tri_metrics *m);

#endif
