/* init_fit.h - batches and memory for a deck that is to be written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INIT_FIT_H
#define TRI_INIT_FIT_H

#include "draft.h"
#include "interview.h"

/* Not collective. Reads the data as the run would, and sets d->size and d->memory to what the model, the data
 * and the memory of the nodes allow; d->planned, which points into *said, says how much of it is used.
 * TRI_EINPUT and so on: all that is wrong with model and data, listed; TRI_ECONFIG: nothing fits. */
TRI_CHECKED tri_status tri_init_fit(const tri_interview *v, tri_draft *d, tri_text *said);

#endif
