/* save.h - when checkpoints are written and removed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_SAVE_H
#define TRI_TRAIN_SAVE_H

#include "train.h"

/* Not collective, once the models' memory is planned. With checkpoint.async, memory for a copy of
 * what this rank saves. */
TRI_CHECKED tri_status tri_save_plan(tri_trainer *t);
/* Not collective, once the memory is planned. Bytes of a checkpoint: its tensors, and files that are copied
 * into it. */
TRI_CHECKED tri_status tri_save_bytes(tri_trainer *t, int64_t *bytes);
/* Collective over world, once all is planned; in a pretended session not collective. Whether checkpoints
 * can be written where the run will, by a trial that leaves nothing, and whether the disk has space for
 * those that will come. Nothing of a run that has no step to take. TRI_EFILE, TRI_EDEVICE. */
TRI_CHECKED tri_status tri_save_rehearse(tri_trainer *t);
/* Collective over world, after each step. A checkpoint of step progress.step where it is due: by count, by
 * time (rank 0's clock), or because the run stops here. Failure is reported and counted. With
 * checkpoint.async one that was written beside the steps is published, when every rank has written its part;
 * a new one and the end of the run wait for it. This process's first one and the last one are tried again
 * (run/patience.h); TRI_EFILE: they cannot be written. */
TRI_CHECKED tri_status tri_save_if_due(tri_trainer *t, bool stop);
/* checkpoint.keep_best, without which these three do nothing. Collective over world, when the metrics are
 * open: the best of the evaluations so far of which there is a checkpoint, which BEST names from here on; a
 * warning where it cannot. */
TRI_CHECKED tri_status tri_save_find_best(tri_trainer *t);
/* Not collective. The evaluation after step progress.step is done, and its metrics not yet written. */
void tri_save_see(tri_trainer *t);
/* Collective over world. A checkpoint of step progress.step if its evaluation is better than that of any
 * checkpoint; as tri_save_if_due, which does this too. */
TRI_CHECKED tri_status tri_save_if_best(tri_trainer *t);
/* Not collective. Waits until old checkpoints are removed; what stays is a warning. */
void tri_save_end_sweep(tri_trainer *t);
/* Collective over world. Publishes a checkpoint that is being written beside the steps, if there is one. */
TRI_CHECKED tri_status tri_save_settle(tri_trainer *t);
/* Not collective. What lets time pass between tries of a save, seconds: for tests; NULL: the clock. */
void tri_save_idle_by(void (*rest)(double s));

/* after_error.c. Collective over world, where every rank failed; of a rank that failed alone not collective.
 * The run ends with this error: where the weights are those of a finished step, its checkpoint is written
 * first. Where a reward failed, OUTPUT/OUTAGE says so. Hands st back, with its message. */
TRI_CHECKED tri_status tri_save_after_error(tri_trainer *t, tri_status st);

#endif
