/* fit.h - how many sequences a rank decodes at once, where nobody says. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FIT_H
#define TRI_FIT_H

#include "comm/session.h"
#include "family/model_shape.h"

/* Chosen: products of the host's cores are at their best well below. A GPU decodes more where memory
 * allows. */
enum { TRI_SAMPLER_SEQUENCES = 256 };

/* Pure. Bytes of the key/value cache of one sequence of up to so many tokens. */
int64_t tri_sampler_row_bytes(const tri_model_shape *sh, tri_dtype dtype, int64_t tokens);
/* Pure. Of n sequences those that a rank may decode at once: on the host's cores, no more than
 * TRI_SAMPLER_SEQUENCES. */
int64_t tri_sampler_most(const tri_device *d, int64_t n);
/* Collective over world. Of *n sequences, each of row_bytes, more than TRI_SAMPLER_SEQUENCES only as far as
 * what is planned so far leaves of the device's memory: halved until they fit. The same on every rank. */
TRI_CHECKED tri_status tri_sampler_fit(const tri_session *se, int64_t row_bytes, int64_t *n);

#endif
