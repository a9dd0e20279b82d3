/* fit.h - chooses the number of sequences a rank decodes at once, and the pages of its cache. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FIT_H
#define TRI_FIT_H

#include "comm/session.h"
#include "family/model_shape.h"

/* Chosen. Products on the host's cores reach their best speed well below 256 rows, and a GPU's below 512. */
enum { TRI_SAMPLER_SEQUENCES = 256, TRI_SAMPLER_GPU_SEQUENCES = 512 };

/* Pure. Returns the bytes of a page of the cache, 0 for a model without layers that attend. */
int64_t tri_sampler_page_bytes(const tri_model_shape *sh, tri_dtype dtype);
/* Pure. Returns the sequences a rank may decode at once out of n, at most the numbers above. */
int64_t tri_sampler_most(const tri_device *d, int64_t n);
/* Collective over world. Lowers *rows, the sequences that a rank decodes at once. Their states and that of a
 * prompt (tri_sampler_states) have state_bytes each. They take at most half of the memory that the plan so
 * far leaves to the cache. *rows is at least 1 and the same on all ranks. */
TRI_CHECKED tri_status tri_sampler_fit_rows(const tri_session *se, int64_t state_bytes, int64_t *rows);
/* Collective over world. Lowers *pages to those of page_bytes each that fit into the memory left by the plan
 * so far and by states_bytes, the states of the cache. It is the least over all ranks. *pages must be the
 * same on all. Only small buffers may be planned afterwards. On the host's cores the cache takes at most half
 * of a rank's share of the memory. */
TRI_CHECKED tri_status tri_sampler_fit_pages(const tri_session *se, int64_t states_bytes, int64_t page_bytes,
                                             int64_t *pages);

#endif
