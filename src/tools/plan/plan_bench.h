/* plan_bench.h - one rank's compute timed on this machine's cores, with a model of the policy's shape.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLAN_BENCH_H
#define TRI_PLAN_BENCH_H

#include "tools/bench/bench_setup.h"

struct tri_plan;

/* Seconds, medians of several. */
typedef struct tri_bench_times {
  double forward, learn, update; /* of a pass without and with backward; of an update of all that learns */
  double prefill, decode;        /* of all prompts; of one decode step of all answers, half of them written */
  double pack;                   /* of all that an update changed, in the pass of learning after it */
  double numbers;                /* that it changes */
} tri_bench_times;

/* Pure. The policy as it learns and answers, but for the sizes of its passes. */
tri_bench_case tri_bench_policy(const struct tri_plan *p);
/* Not collective. A model of so many layers is opened, times its passes of learning or, `generates`, of
 * generation, and is closed; of *out the rest stays. *done false: it would take more memory than a plan
 * may. */
TRI_CHECKED tri_status tri_bench_model(const struct tri_plan *p, const tri_bench_size *z, int layers,
                                       bool generates, tri_bench_times *out, bool *done);

#endif
