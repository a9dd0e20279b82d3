/* passes.h - a model whose numbers are noise, and the time that its passes, updates and decode steps take. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_PASSES_H
#define TRI_BENCH_PASSES_H

#include "bench_setup.h"
#include "comm/session.h"
#include "generate/sampler.h"
#include "series.h"

/* What it is opened for. */
enum { TRI_PASS_LEARN = 1, TRI_PASS_GENERATE = 2 };

typedef struct tri_passes {
  tri_session          *se; /* borrowed, as c */
  const tri_bench_case *c;
  unsigned              what;
  tri_model            *model;
  tri_sampler          *sampler; /* NULL: it generates nothing */
  tri_batch             batch;
  tri_rows_out          d;      /* of the loss, that backward begins with */
  void                 *memory; /* of the device, where these two lie; the ledger's */
  tri_prompt           *prompt; /* [c->size.prompts], and the ids of one */
  int32_t              *token;
} tri_passes;

/* Not collective. Plans its memory in the session's ledger: with so many layers, at most the case's. What
 * only generates need not learn; but adapters are opened to learn. */
TRI_CHECKED tri_status tri_passes_open(tri_session *se, const tri_bench_case *c, int layers, unsigned what,
                                       tri_passes *out);
/* Collective over world, once the memory was taken. Fills it. */
TRI_CHECKED tri_status tri_passes_start(tri_passes *p);
void                   tri_passes_close(tri_passes *p); /* a zeroed one is legal */

/* Seconds, medians. */
typedef struct tri_learn_times {
  double forward, backward; /* of a pass of learning whose weights were packed before */
  double learn;             /* of both, one behind the other */
  double pack;              /* of all that an update changed, in the pass of learning after it */
  double update;            /* of all that learns */
  int    n;                 /* how often */
} tri_learn_times;
/* Collective over world, both; this rank's. score_s: of a forward pass that keeps nothing. */
TRI_CHECKED tri_status tri_passes_score(tri_passes *p, const tri_effort *e, double *score_s);
TRI_CHECKED tri_status tri_passes_learn(tri_passes *p, const tri_effort *e, tri_learn_times *out);
/* Collective over the parameter scope. Of one decode step of all answers to the first n prompts, of so many
 * tokens each; this rank's, and how often. */
TRI_CHECKED tri_status tri_passes_decode(tri_passes *p, int64_t n, int64_t tokens, const tri_effort *e,
                                         double *step_s, int *times);
/* Collective over world. Of all prompts; step_s: of a decode step, one of which is behind each. */
TRI_CHECKED tri_status tri_passes_prefill(tri_passes *p, const tri_effort *e, double step_s, double *out);

/* Numbers that the model learns, on all ranks together. */
int64_t tri_passes_numbers(const tri_passes *p);

#endif
