/* state.h - a trainer's state in a checkpoint: put and loaded. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_STATE_H
#define TRI_TRAIN_STATE_H

#include "train.h"

/* Collective over world. What a checkpoint has beside its tensors: counters and files. */
TRI_CHECKED tri_status tri_state_put(tri_trainer *t, tri_ckpt_writer *w);
/* Not collective. Bytes of these files at most; rank 0 knows. */
int64_t tri_state_side_bytes(const tri_trainer *t);
/* Pure. Has a checkpoint this kind of a learner's state? group: the learner's. */
bool tri_state_keeps(const tri_params *p, const char *const *group, int kind);
/* Collective over world. Every learner's weights from its source; where the run goes on from a checkpoint,
 * all other state from there. */
TRI_CHECKED tri_status tri_state_load(tri_trainer *t);

/* Collective over world. Every learner's weights alone, those of a checkpoint; t->progress.step is
 * the step it was written after. */
TRI_CHECKED tri_status tri_state_load_weights(tri_trainer *t);

#endif
