/* rates.h - what doctor measures and knows, for a bench: communicators' rates, the library of products. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_RATES_H
#define TRI_BENCH_RATES_H

#include "comm/session.h"

/* Of one communicator. */
typedef struct tri_bench_rate {
  char    scope[8];               /* "world", "node", "cross" */
  int64_t bytes;                  /* of a gather, of all ranks */
  double  bytes_per_s, latency_s; /* that a rank takes in; of a sum of one number */
} tri_bench_rate;

typedef struct tri_rates tri_rates;
/* Not collective. Plans its memory in the session's ledger. */
TRI_CHECKED tri_status tri_rates_open(tri_session *se, tri_rates **out);
void                   tri_rates_close(tri_rates **n);
/* Collective over world. Of those with more than one rank, *n of them; medians of five of doctor's
 * figures. */
TRI_CHECKED tri_status tri_rates_time(tri_session *se, const tri_rates *rates,
                                      tri_bench_rate out[TRI_SCOPE_COUNT], int *n);

/* Not collective. The library of products, its version and instructions, "oneDNN 2.6.3, AMX, bf16 by amx,
 * f32 by avx512"; "": it does not tell. */
void tri_rates_library(const tri_session *se, char *out, size_t cap);

#endif
