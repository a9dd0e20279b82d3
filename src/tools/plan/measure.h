/* measure.h - the policy's compute measured on the spot. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLAN_MEASURE_H
#define TRI_PLAN_MEASURE_H

#include "tools/bench/bench_setup.h"
#include "tools/cost/cost.h"

struct tri_plan;

/* Not collective. Times batches of the deck's sizes on this machine's cores, as one rank uses them, in a
 * second or two. *done false, and *out as it was: on GPUs, or the model is too large for that. r NULL:
 * nothing is generated. */
TRI_CHECKED tri_status tri_plan_measure(const struct tri_plan *p, const tri_cost_pass *learn,
                                        const tri_cost_rollout *r, tri_cost_compute *out, bool *done);

/* Pure. The sizes of a pass and of what is decoded at once. r NULL: nothing is generated. */
tri_bench_size tri_plan_sizes(const tri_cost_pass *learn, const tri_cost_rollout *r);

#endif
