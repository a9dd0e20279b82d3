/* save.h - decides when checkpoints are written and removed, and writes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_SAVE_H
#define TRI_TRAIN_SAVE_H

#include "train.h"

/* Not collective, once the models' memory is planned. With checkpoint.async, plans memory for a copy of this
 * rank's part of the state. */
TRI_CHECKED tri_status tri_save_plan(tri_trainer *t);
/* Not collective, once the memory is planned. Returns the bytes of a checkpoint with its tensors and copied
 * files. */
TRI_CHECKED tri_status tri_save_bytes(tri_trainer *t, int64_t *bytes);
/* Collective over world, once all is planned, and not collective in a pretended session. Checks by a trial,
 * without leaving files, that checkpoints can be written in the run's folder, and that the disk has space for
 * the coming ones. Does nothing if no step is left. TRI_EFILE, TRI_EDEVICE. */
TRI_CHECKED tri_status tri_save_rehearse(tri_trainer *t);
/* Collective over world, after each step. Saves a checkpoint of step progress.step if one is due, by the
 * number of steps, by time (rank 0's clock) or because the run stops here. A failed save is reported and
 * counted.
 *
 * With checkpoint.async, it also publishes a checkpoint written in the background, once every rank has
 * written its part. A new checkpoint and the end of the run wait for that. The first checkpoint of this
 * process and the last one are tried repeatedly (run/patience.h). TRI_EFILE: they cannot be written. */
TRI_CHECKED tri_status tri_save_if_due(tri_trainer *t, bool stop);
/* These three do nothing without checkpoint.keep_best. Collective over world, once the metrics are open.
 * Finds the best evaluation so far among existing checkpoints and makes BEST point to its checkpoint. Warns
 * if it cannot. */
TRI_CHECKED tri_status tri_save_find_best(tri_trainer *t);
/* Not collective. Records the evaluation after step progress.step, before its metrics are written. */
void tri_save_note_evaluation(tri_trainer *t);
/* Collective over world. Saves a checkpoint of step progress.step if its evaluation beats all checkpoints.
 * tri_save_if_due does this too. */
TRI_CHECKED tri_status tri_save_if_best(tri_trainer *t);
/* Not collective. Waits until old checkpoints are removed. Warns of any that remain. */
void tri_save_end_sweep(tri_trainer *t);
/* Collective over world. Publishes the checkpoint being written in the background, if there is one. */
TRI_CHECKED tri_status tri_save_settle(tri_trainer *t);
/* Not collective. For tests, sets the function that waits between tries of a save, in seconds. NULL restores
 * the clock. */
void tri_save_idle_by(void (*rest)(double s));

/* after_error.c. Collective over world if every rank failed, and not collective for a rank that failed alone.
 * The run ends with this error. If the weights belong to a finished step, its checkpoint is written first.
 * After a failed reward, OUTPUT/OUTAGE states the reason. Returns st with its message. */
TRI_CHECKED tri_status tri_save_after_error(tri_trainer *t, tri_status st);

#endif
