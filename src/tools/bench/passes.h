/* passes.h - opens a model with random weights and times its passes, updates and decode steps. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_PASSES_H
#define TRI_BENCH_PASSES_H

#include "bench_setup.h"
#include "comm/session.h"
#include "generate/sampler.h"
#include "tools/timer/series.h"

/* Purposes of the model. */
enum { TRI_PASS_LEARN = 1, TRI_PASS_GENERATE = 2 };

typedef struct tri_passes {
  tri_session          *se; /* borrowed, as c */
  const tri_bench_case *c;
  unsigned              what;
  tri_model            *model;
  tri_sampler          *sampler; /* NULL: it does not generate */
  tri_batch             batch;
  tri_rows_out          d;      /* gradient of the loss, input of backward */
  void                 *memory; /* device memory of these two, owned by the ledger */
  tri_prompt           *prompt; /* [c->size.prompts], and the ids of one */
  int32_t              *token;
} tri_passes;

/* Not collective. Plans the memory in the session's ledger. layers: at most the case's. A model that only
 * generates is opened without training state, but adapters are always opened with it. */
TRI_CHECKED tri_status tri_passes_open(tri_session *se, const tri_bench_case *c, int layers, unsigned what,
                                       tri_passes *out);
/* Collective over world, after the memory was taken. Fills it. */
TRI_CHECKED tri_status tri_passes_start(tri_passes *p);
void                   tri_passes_close(tri_passes *p); /* accepts a zeroed one */

/* Seconds, medians. */
typedef struct tri_learn_times {
  double forward, backward; /* training pass with packed weights */
  double learn;             /* both together */
  double pack;              /* packing of all updated weights, done in the next training pass */
  double update;            /* all trained weights */
  int    n;                 /* repetitions */
} tri_learn_times;
/* Collective over world, both. Set this rank's times. score_s: a forward pass that keeps no activations. */
TRI_CHECKED tri_status tri_passes_score(tri_passes *p, const tri_effort *e, double *score_s);
TRI_CHECKED tri_status tri_passes_learn(tri_passes *p, const tri_effort *e, tri_learn_times *out);
/* Collective over the parameter scope and TRI_TENSOR. Times one decode step of all answers to the first n
 * prompts of so many tokens each. Sets this rank's seconds and the repetitions. */
TRI_CHECKED tri_status tri_passes_decode(tri_passes *p, int64_t n, int64_t tokens, const tri_effort *e,
                                         double *step_s, int *times);
/* Collective over world. Times the prefill of all prompts. step_s: seconds of a decode step, one of which
 * follows each prefill. */
TRI_CHECKED tri_status tri_passes_prefill(tri_passes *p, const tri_effort *e, double step_s, double *out);

/* Returns the trained numbers of the model, on all ranks together. */
int64_t tri_passes_numbers(const tri_passes *p);

#endif
