/* metrics.h - collects named numbers and times of one step, and writes them as one JSON line per step. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_METRICS_H
#define TRI_METRICS_H

#include "base/text_buffer.h"
#include "comm/comm.h"

/* How the values of the ranks are combined. With RANK0 they are the same on every rank. */
typedef enum { TRI_METRIC_SUM, TRI_METRIC_MAX, TRI_METRIC_MIN, TRI_METRIC_RANK0 } tri_metric_kind;
typedef struct tri_metrics tri_metrics;
enum { TRI_METRIC_NAME_BYTES = 96 }; /* with its final NUL. Chosen, twice the longest name of a run */

/* Rank 0 appends to `path`, or NULL for no file. Other ranks touch no file. Lines of steps after keep_step
 * are cut off first (for a resume). -1 keeps nothing. An unfinished last line is cut off too. Other lines
 * that are not ours, such as NULs left by a crash, are kept with a warning. */
TRI_CHECKED tri_status tri_metrics_open(const char *path, int64_t keep_step, int rank, tri_metrics **out);
void                   tri_metrics_close(tri_metrics **m);
/* An event file for TensorBoard beside the lines. */
typedef struct tri_metrics_board {
  const char *folder; /* folder of the file, made if needed */
  const char *deck;   /* deck as used, shown as a text at `step` */
  int64_t     step;   /* step at which the run continues */
  double      now_s;  /* seconds since 1970, for the file's number and its first events */
  bool        waits;  /* writes nothing until a line comes */
} tri_metrics_board;
/* Not collective, and only rank 0's call counts. Call it before any value. From now on the content of the
 * lines, including kept ones, is also in an event file (tensorboard.h). A full disk causes a warning.
 * TRI_EFILE: the folder cannot be used. */
TRI_CHECKED tri_status tri_metrics_open_board(tri_metrics *m, const tri_metrics_board *opt);
/* Not collective, for a run without an event file. If lines were cut off and an earlier start wrote an event
 * file, writes that file again without these steps, and nothing later. Errors cause a warning. */
void tri_metrics_cut_board(tri_metrics *m, const tri_metrics_board *opt);
/* Not collective, but every rank adds the same names in the same order, except texts. Names include the unit,
 * as in "time_rollout_s" and "mem_used_bytes". For a name given twice in a step, SUM adds, MAX keeps the
 * larger, MIN the smaller, RANK0 the latest value. NaN wins over every number. The limits are 512 names of
 * TRI_METRIC_NAME_BYTES and texts of 255 bytes. */
void tri_metric_add(tri_metrics *m, const char *name, tri_metric_kind kind, double value);
void tri_metric_text(tri_metrics *m, const char *name, const char *value); /* rank 0's counts */
/* Adds to time_<span>_s, the maximum over ranks. */
void tri_metric_time(tri_metrics *m, const char *span, double spent_s);
/* Removes time_<span>_s, if present. It must be the last name added. */
void   tri_metric_forget_time(tri_metrics *m, const char *span);
double tri_metric_get(const tri_metrics *m, const char *name); /* after reduce, NaN for an unknown name */
/* Not collective, after reduce. Appends the numbers with names that begin this way as members of a JSON
 * object, such as "a": 1, "b": null. */
TRI_CHECKED tri_status tri_metrics_put_begun_by(const tri_metrics *m, const char *begin, tri_text *out);
bool                   tri_metric_has(const tri_metrics *m, const char *name);
/* Collective over world. Reduces all names together, once per step, with sums in rank order. TRI_EINTERNAL:
 * ranks have different names. world is NULL for a single rank. */
TRI_CHECKED tri_status tri_metrics_reduce(tri_metrics *m, tri_comm *world);
/* Not collective, after reduce. On rank 0, makes one JSON line with "step" first, then the names in the order
 * added. number.h formats the numbers, and a number that is not finite is null. Clears all values. Then
 * appends the line as flush does. If the event file cannot be written, the result is TRI_EFILE too, and its
 * data waits likewise. */
TRI_CHECKED tri_status tri_metrics_write(tri_metrics *m, int64_t step);
/* Does the same for a line whose evaluation was interrupted. The line ends with "eval": "due". */
TRI_CHECKED tri_status tri_metrics_put_off(tri_metrics *m, int64_t step);
/* Not collective, and only rank 0's result counts. At the opening, no line was kept, or the last kept line
 * ended with "eval": "due". */
bool tri_metrics_is_new(const tri_metrics *m);
bool tri_metrics_is_due(const tri_metrics *m);
/* Not collective, after open and reduce, before any write. Replaces the last line's "eval": "due" by the
 * values, as if it had never been interrupted. The file changes as a whole or not at all. If not, the result
 * is TRI_EFILE, and the values and all later lines wait for the next flush. */
TRI_CHECKED tri_status tri_metrics_complete(tri_metrics *m);
/* On rank 0, writes all waiting lines. If they cannot be written completely (disk full), the result is
 * TRI_EFILE. Then the file stays as it was, and they wait for the next call. */
TRI_CHECKED tri_status tri_metrics_flush(tri_metrics *m);
/* Another file has this name now, or none. Later lines are written there, from the next flush on. */
void tri_metrics_follow(tri_metrics *m);

#endif
