/* speed.h - how fast links, products and memory are, measured. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SPEED_H
#define TRI_SPEED_H

#include "comm/session.h"
#include "tools/doctor/checks.h"

/* What collectives are measured with; the session's memory. */
typedef struct tri_speed_buffers {
  void   *recv, *send; /* [per_rank * ranks] and [per_rank] bytes of the device */
  int64_t per_rank;
} tri_speed_buffers;
/* Not collective. Plans it; tri_session_take_memory takes it. */
TRI_CHECKED tri_status tri_speed_plan(tri_session *se, tri_speed_buffers *out);

/* Collective over world. Gathers of a scope: rate is what a rank takes in, (ranks - 1) / ranks of all bytes;
 * latency that of a sum of one number. *out is zero where the scope has one rank. The slowest rank's. */
TRI_CHECKED tri_status tri_speed_scope(tri_session *se, tri_scope scope, const tri_speed_buffers *workspace,
                                       tri_rate *out);

/* Pure. How many rounds it takes until every pair of nodes has met once, at most 63. */
int tri_speed_rounds(const tri_runtime *rt);
/* Collective over world. One round: messages of the host between the first ranks of pairs of nodes. *out is
 * this rank's pair, zero where it has none, or is not the lower one. */
TRI_CHECKED tri_status tri_speed_pair(tri_session *se, int round, tri_rate *out);

/* Collective over world: of this rank, while all others do the same; 0: not measured. */
typedef struct tri_speeds {
  double flops_bf16, flops_f32; /* per second */
  double mem_bytes_per_s;       /* read and written */
  double host_bytes_per_s;      /* to the device; 0 where its memory is the host's */
} tri_speeds;
/* Collective over world. */
TRI_CHECKED tri_status tri_speed_device(tri_session *se, tri_speeds *out);

#endif
