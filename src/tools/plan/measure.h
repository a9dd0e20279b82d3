/* measure.h - times the policy's compute on this machine for a plan. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLAN_MEASURE_H
#define TRI_PLAN_MEASURE_H

#include "tools/bench/bench_setup.h"
#include "tools/cost/cost.h"

struct tri_plan;

/* Not collective. Times batches of the deck's sizes on this machine's cores, as one rank uses them. It takes
 * a second or two. On GPUs, or with a model too large for that, *done is false and *out is unchanged. r NULL:
 * nothing is generated. */
TRI_CHECKED tri_status tri_plan_measure(const struct tri_plan *p, const tri_cost_pass *learn,
                                        const tri_cost_rollout *r, tri_cost_compute *out, bool *done);

/* Pure. Returns the sizes of a training pass and of one round of decoding. r NULL: nothing is generated. */
tri_bench_size tri_plan_sizes(const tri_cost_pass *learn, const tri_cost_rollout *r);

#endif
