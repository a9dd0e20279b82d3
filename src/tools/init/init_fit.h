/* init_fit.h - chooses batches and memory settings for a new deck. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INIT_FIT_H
#define TRI_INIT_FIT_H

#include "draft.h"
#include "interview.h"

/* Not collective. Reads the data as the run would. Sets d->size and d->memory to fit the model, the data and
 * the memory of the nodes. d->planned says how much memory is used and points into *said. TRI_EINPUT and
 * similar: model or data have errors, all of which are logged. TRI_ECONFIG: nothing fits. */
TRI_CHECKED tri_status tri_init_fit(const tri_interview *v, tri_draft *d, tri_text *said);

#endif
