/* plan_bench.h - times one rank's compute on this machine's cores with a model of the policy's shape. Private
 * to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLAN_BENCH_H
#define TRI_PLAN_BENCH_H

#include "tools/bench/bench_setup.h"

struct tri_plan;

/* Seconds, each the median of several passes. */
typedef struct tri_bench_times {
  double forward, learn, update; /* a pass without and with backward, and an update of all trained numbers */
  double prefill, decode;        /* all prompts, and one decode step of all answers when half of each is
                                  * written */
  double pack;                   /* packing of all updated weights, done in the next training pass */
  double numbers;                /* numbers that an update changes */
} tri_bench_times;

/* Pure. Returns the policy as it learns and answers, without the sizes of its passes. */
tri_bench_case tri_bench_policy(const struct tri_plan *p);
/* Not collective. Opens a model of so many layers and closes it afterwards. It times training passes, or
 * generation if `generates` is set. The other members of *out stay. *done is false if the model would take
 * more memory than a plan may. */
TRI_CHECKED tri_status tri_bench_model(const struct tri_plan *p, const tri_bench_size *z, int layers,
                                       bool generates, tri_bench_times *out, bool *done);

#endif
