/* bench_attention.h - attention inside sequences, as a pass of learning has it, timed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_ATTENTION_H
#define TRI_BENCH_ATTENTION_H

#include "bench_setup.h"
#include "comm/session.h"
#include "series.h"

/* Of layers of one kind. */
typedef struct tri_attention_times {
  int     layers; /* 0: the model has none of this kind */
  int64_t window; /* keys that a token sees at most; 0: all before it */
  double  flops;  /* of a layer's forward; backward 2.5 times as many */
  double  forward_s, backward_s;
} tri_attention_times;

/* Pure. Bytes of the device that timing takes. */
size_t tri_attention_workspace(const tri_device *d, const tri_bench_case *c);
/* Collective over world. workspace: so many bytes; model: whose rules count. */
TRI_CHECKED tri_status tri_attention_time(tri_session *se, const tri_bench_case *c, const tri_model *model,
                                          void *workspace, const tri_effort *e,
                                          tri_attention_times out[TRI_KINDS]);

/* Pure. Keys that the tokens of a sequence see, all together: of each its own and those before it, at most
 * `window` (0: all). */
double tri_attention_pairs(int64_t length, int64_t window);
/* Pure. Seconds of a pass. */
double tri_attention_pass_s(const tri_attention_times t[TRI_KINDS]);

#endif
