/* inputs.h - opens a run's data, rewards and model sources, and plans its batches. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_INPUTS_H
#define TRI_TRAIN_INPUTS_H

#include "train.h"

struct tri_longest;

/* Collective over world. Opens rewards, model sources and data, and plans steps and batches. If t->run.errors
 * is not NULL, errors are added to it and the other inputs are examined too. Then *l is only set if no error
 * was added. */
TRI_CHECKED tri_status tri_inputs_open(tri_trainer *t, struct tri_longest *l);
/* Not collective, in a pretended session, for a deck whose keys have errors (t->run.errors). Adds errors of
 * rewards, models and data, as far as their keys could be read. */
TRI_CHECKED tri_status tri_inputs_look(tri_trainer *t);
/* Collective over world. Opens the inputs of evaluations for the checkpoint t->run.resume, which are rewards,
 * models and held-out data. */
TRI_CHECKED tri_status tri_inputs_open_to_evaluate(tri_trainer *t, struct tri_longest *l);
/* Not collective. Plans the batches again for micro-batches of at most `tokens` tokens. */
TRI_CHECKED tri_status tri_inputs_pack(tri_trainer *t, int64_t tokens);
/* Not collective. Returns the number of sequences in these samples (batch_source.h). */
int64_t tri_sequences(const tri_trainer *t, int64_t samples);

#endif
