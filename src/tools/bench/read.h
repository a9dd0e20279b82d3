/* read.h - measures how fast all ranks of a machine together read memory, which limits decoding. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_READ_H
#define TRI_BENCH_READ_H

#include "comm/session.h"
#include "tools/timer/series.h"

/* Pure. Returns the bytes that a rank reads repeatedly to time a step with `bytes` to read. They are as many
 * as in the step, because caches hold a part of a small number. They are no fewer than most caches hold, and
 * no more than needed to measure memory. */
size_t tri_read_buffers(const tri_session *se, double bytes);
/* Not collective. Fills so many bytes of device memory with random numbers. */
TRI_CHECKED tri_status tri_read_fill(tri_session *se, void *workspace, size_t bytes);
/* Collective over world. Sets the bytes per second of each rank, by the slowest, for the workspace's first
 * `bytes`. */
TRI_CHECKED tri_status tri_read_time(tri_session *se, void *workspace, size_t bytes, const tri_effort *e,
                                     double *bytes_per_s);

#endif
