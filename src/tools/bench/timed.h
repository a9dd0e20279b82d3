/* timed.h - times a kernel call on all ranks at once, and makes random data for it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_TIMED_H
#define TRI_BENCH_TIMED_H

#include "comm/session.h"
#include "series.h"

typedef tri_status (*tri_timed_work)(void *ctx, tri_stream *s);

/* Collective over world. Sets the seconds of one call on the slowest rank. It is the median of runs, each of
 * so many calls that it takes about a millisecond or more. */
TRI_CHECKED tri_status tri_timed(tri_session *se, tri_timed_work work, void *ctx, const tri_effort *e,
                                 double *call_s);

/* Collective over world. Replaces each x [n], seconds, by the largest of all ranks. */
TRI_CHECKED tri_status tri_slowest(tri_comm *world, double *x, int n);

/* Pure. Returns numbers like the weights of a new model, because products of zeros may be faster. */
float tri_noise(uint64_t i);
/* Not collective. Writes n of these numbers to device memory. */
TRI_CHECKED tri_status tri_noise_put(tri_session *se, void *where, tri_dtype t, int64_t n);

/* Divides one block into parts. Returns the next n bytes, 256-byte aligned. Without a block it returns NULL
 * and counts the bytes. */
typedef struct tri_carve {
  char  *base;
  size_t used;
} tri_carve;
void *tri_carve_next(tri_carve *c, size_t n);

#endif
