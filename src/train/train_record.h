/* train_record.h - writes a run's record and its end as events of run.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_RECORD_H
#define TRI_TRAIN_RECORD_H

#include "train.h"

/* Collective over world. Writes rank 0's record (record/record.h) to log.txt, and with the plan to t->runlog
 * as the start event. The record is borrowed as long as checkpoints are written. If the run resumes from a
 * checkpoint with another record, warns of the differences. */
TRI_CHECKED tri_status tri_train_record(tri_trainer *t, const char *record);
/* Not collective. Writes the cause of a coming stop to t->runlog. */
void tri_train_note_halt(const tri_trainer *t);
/* Not collective, on any rank. Writes the end of the run to t->runlog. st is TRI_OK or the error, whose
 * message and trace must still be set. `together` is true if every rank ends this way, and false if only this
 * rank does. */
void tri_train_note_end(const tri_trainer *t, tri_train_end end, tri_status st, int exit_code, bool together);

#endif
