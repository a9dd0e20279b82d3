/* read.h - how fast the ranks of a machine read memory, all at once: the limit of decoding. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_READ_H
#define TRI_BENCH_READ_H

#include "comm/session.h"
#include "series.h"

/* Pure. Bytes that a rank reads over and over for a step that reads `bytes` of them: as many, for caches hold
 * a part of a little; but no fewer than most caches hold, and no more than tell memory's speed. */
size_t tri_read_buffers(const tri_session *se, double bytes);
/* Not collective. Noise into a room of so many bytes, of the device. */
TRI_CHECKED tri_status tri_read_fill(tri_session *se, void *workspace, size_t bytes);
/* Collective over world. Bytes per second of each rank, by the slowest, of the workspace's first `bytes`. */
TRI_CHECKED tri_status tri_read_time(tri_session *se, void *workspace, size_t bytes, const tri_effort *e,
                                     double *bytes_per_s);

#endif
