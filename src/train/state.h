/* state.h - saves a trainer's counters and files to a checkpoint, and loads its whole state. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_STATE_H
#define TRI_TRAIN_STATE_H

#include "train.h"

/* Collective over world. Writes a checkpoint's content beside its tensors, which is counters and files. */
TRI_CHECKED tri_status tri_state_put(tri_trainer *t, tri_ckpt_writer *w);
/* Not collective. Returns an upper bound of the bytes of these files. Only rank 0 knows it. */
int64_t tri_state_side_bytes(const tri_trainer *t);
/* Pure. True if a checkpoint holds this kind of a learner's state. `group` is the learner's. */
bool tri_state_keeps(const tri_params *p, const char *const *group, int kind);
/* Collective over world. Loads every learner's weights from its source. A resumed run also loads all other
 * state from its checkpoint. */
TRI_CHECKED tri_status tri_state_load(tri_trainer *t);

/* Collective over world. Loads only the weights of every learner, from a checkpoint, and sets
 * t->progress.step to the checkpoint's step. */
TRI_CHECKED tri_status tri_state_load_weights(tri_trainer *t);

#endif
