/* speed.h - measures the speed of links, products and memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SPEED_H
#define TRI_SPEED_H

#include "comm/session.h"
#include "tools/doctor/checks.h"

/* Buffers for timing collectives. The session owns the memory. */
typedef struct tri_speed_buffers {
  void   *recv, *send; /* [per_rank * ranks] and [per_rank] bytes of the device */
  int64_t per_rank;
} tri_speed_buffers;
/* Not collective. Plans the buffers. tri_session_take_memory allocates them. */
TRI_CHECKED tri_status tri_speed_plan(tri_session *se, tri_speed_buffers *out);

/* Collective over world. Times gathers of a scope. The rate counts the bytes received by a rank, (ranks - 1)
 * / ranks of all. The latency is the time of a sum of one number. Both belong to the slowest rank. *out is
 * zero if the scope has one rank. */
TRI_CHECKED tri_status tri_speed_scope(tri_session *se, tri_scope scope, const tri_speed_buffers *workspace,
                                       tri_rate *out);

/* Pure. Returns the rounds until every pair of nodes has met once, at most 63. */
int tri_speed_rounds(const tri_runtime *rt);
/* Collective over world. Runs one round of host messages between the first ranks of pairs of nodes. *out is
 * this rank's pair. It is zero if the rank has none, or is not the lower one. */
TRI_CHECKED tri_status tri_speed_pair(tri_session *se, int round, tri_rate *out);

/* Speeds of this rank while all others run the same. 0: not measured. */
typedef struct tri_speeds {
  double flops_bf16, flops_f32; /* per second */
  double mem_bytes_per_s;       /* read and written */
  double host_bytes_per_s;      /* to the device. 0 if its memory is the host's */
} tri_speeds;
/* Collective over world. Measures products and memory. */
TRI_CHECKED tri_status tri_speed_device(tri_session *se, tri_speeds *out);

#endif
