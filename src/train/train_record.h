/* train_record.h - a run's record and end, as events of run.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_RECORD_H
#define TRI_TRAIN_RECORD_H

#include "train.h"

/* Collective over world. Rank 0's record (record/record.h), borrowed while checkpoints are
 * written, is put into log.txt, and with the plan into t->runlog as its start; where the run goes on from a
 * checkpoint with another one, a warning says what differs. */
TRI_CHECKED tri_status tri_train_record(tri_trainer *t, const char *record);
/* Not collective: why the run is about to stop, into t->runlog. */
void tri_train_note_halt(const tri_trainer *t);
/* Not collective, of any rank: how the run ends, into t->runlog. st: its error, whose message
 * and trace stand, or TRI_OK. together: every rank ends so; else this one alone. */
void tri_train_note_end(const tri_trainer *t, tri_train_end end, tri_status st, int exit_code, bool together);

#endif
