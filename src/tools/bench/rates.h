/* rates.h - measures communicators and names the library of products, with the functions of doctor. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_RATES_H
#define TRI_BENCH_RATES_H

#include "comm/session.h"

/* Rate of one communicator. */
typedef struct tri_bench_rate {
  char    scope[8];               /* "world", "node", "cross", "tensor", "mates" */
  int64_t bytes;                  /* gathered, all ranks together */
  double  bytes_per_s, latency_s; /* bytes that a rank receives, and latency of a sum of one number */
} tri_bench_rate;

typedef struct tri_rates tri_rates;
/* Not collective. Plans the memory in the session's ledger. */
TRI_CHECKED tri_status tri_rates_open(tri_session *se, tri_rates **out);
void                   tri_rates_close(tri_rates **n);
/* Collective over world. Measures the *n communicators with more than one rank. Figures are medians of five
 * of doctor's. */
TRI_CHECKED tri_status tri_rates_time(tri_session *se, const tri_rates *rates,
                                      tri_bench_rate out[TRI_SCOPE_COUNT], int *n);

/* Not collective. Writes the library of products with version and instructions, "oneDNN 2.6.3, AMX, bf16 by
 * amx, f32 by avx512". "": not known. */
void tri_rates_library(const tri_session *se, char *out, size_t cap);

#endif
