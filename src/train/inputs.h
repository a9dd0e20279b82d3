/* inputs.h - opens a run's data, rewards and model sources, and plans its batches. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_INPUTS_H
#define TRI_TRAIN_INPUTS_H

#include "train.h"

struct tri_longest;

/* Collective over world. Opens rewards, sources of models and data, and plans steps and batches.
 * With t->run.faults each error is added there, the rest is looked at too, and *l is set where none was
 * added. */
TRI_CHECKED tri_status tri_inputs_open(tri_trainer *t, struct tri_longest *l);
/* Not collective, in a pretended session, of a deck whose keys have errors (t->run.faults): errors
 * of rewards, models and data are added, as far as the keys they stand on were read. */
TRI_CHECKED tri_status tri_inputs_look(tri_trainer *t);
/* Collective over world. The same of evaluations alone, with t->run.resume: rewards, models and
 * held-out data. */
TRI_CHECKED tri_status tri_inputs_open_to_evaluate(tri_trainer *t, struct tri_longest *l);
/* Not collective. The batches again with passes of at most so many tokens. */
TRI_CHECKED tri_status tri_inputs_pack(tri_trainer *t, int64_t tokens);
/* Not collective. So many samples in sequences (batch_source.h). */
int64_t tri_sequences(const tri_trainer *t, int64_t samples);

#endif
