/* by_need.h - a generation by all ranks together. Each rank takes further prompts when it has space for their
 * answers, so a slow rank answers fewer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BY_NEED_H
#define TRI_BY_NEED_H

#include "comm/comm.h"
#include "sampler.h"

/* Collective over world, and so over the parameter scope. Answers the n prompts, the same on every rank, each
 * `group` times. Fills the empty *out with the answers of this rank, ordered by place, then by sample. The
 * place of a prompt is its index. The fields are those of tri_sampler_generate, and `place`. The answers to a
 * prompt are all on one rank. They depend neither on the rank nor on the number of ranks. Where several ranks
 * generate as one model, world rank k is the first rank of model k, and only first ranks have answers.
 *
 * gen->progress gets the number of all ranks' finished answers, as far as this rank knows it. gen->halt is
 * also called while this rank waits for the words of the others. If it returns true on a rank while answers
 * are left, the generation ends on all ranks, and *out stays empty. A rank's failure is returned on all
 * ranks, as by tri_agree. Where several ranks generate as one model, a rank that fails in a decode step
 * returns alone, without waiting for the others. Its process must end. */
TRI_CHECKED tri_status tri_generate_by_need(tri_sampler *s, tri_comm *world, const tri_prompt *prompt, int n,
                                            const tri_generate_opt *gen, tri_stream *stream,
                                            tri_rollout *out);

#endif
