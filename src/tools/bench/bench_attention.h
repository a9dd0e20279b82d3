/* bench_attention.h - times attention within sequences, as a training pass computes it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_ATTENTION_H
#define TRI_BENCH_ATTENTION_H

#include "bench_setup.h"
#include "comm/session.h"
#include "tools/timer/series.h"

/* Times of the layers of one kind. */
typedef struct tri_attention_times {
  int     layers; /* 0: the model has none of this kind */
  int64_t window; /* most keys that a token sees. 0: all before it */
  double  flops;  /* per layer forward. Backward has 2.5 times as many */
  double  forward_s, backward_s;
} tri_attention_times;

/* Pure. Returns the bytes of device memory for timing. */
size_t tri_attention_workspace(const tri_device *d, const tri_bench_case *c);
/* Collective over world. workspace: so many bytes. model: gives the attention rules. */
TRI_CHECKED tri_status tri_attention_time(tri_session *se, const tri_bench_case *c, const tri_model *model,
                                          void *workspace, const tri_effort *e,
                                          tri_attention_times out[TRI_KINDS]);

/* Pure. Returns the query-key pairs of a sequence. Each token sees itself and the tokens before it, at most
 * `window` (0: all). */
double tri_attention_pairs(int64_t length, int64_t window);
/* Pure. Returns the seconds of a pass. */
double tri_attention_pass_s(const tri_attention_times t[TRI_KINDS]);

#endif
