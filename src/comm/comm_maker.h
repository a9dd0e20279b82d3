/* comm_maker.h - for files that implement communicators: the interface of a back end, and collectives as
 * text. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_MAKER_H
#define TRI_COMM_MAKER_H

#include "comm.h"
#include "device/trace.h"

/* A communicator of another library, supplied by a back end (device.h, tri_backend). */
typedef struct tri_comm_maker {
  /* Returns the back end's own struct. Its ops are set and the rest of its first member is zero. */
  tri_status (*open)(tri_device *d, tri_comm **out);
} tri_comm_maker;

/* Implemented in comm_coll.c. The scope as which s counts: a scope with all ranks counts as the world, and
 * one of TRI_TENSOR and TRI_MATES with all ranks of the node counts as the node. The ranks have the same
 * order. */
tri_scope tri_comm_same(tri_comm *const comm[TRI_SCOPE_COUNT], tri_scope s);
/* Bit set of the collectives expected on scope s, as tri_comm.expected has them. The bits of a scope that
 * counts as another are merged there, and its own set is empty. */
unsigned    tri_comm_kinds(tri_comm *const comm[TRI_SCOPE_COUNT], tri_scope s);
const char *tri_coll_text(tri_coll_kind k);
/* Pure. The elements of all spans of k. */
int64_t tri_coll_count(const tri_coll *k);
/* Makes the trace note of collective k, which begins now: its bytes, and the label given by its caller or
 * else its kind. Returns an empty note if t is NULL. */
tri_trace_note tri_coll_note(tri_trace *t, const tri_comm *c, const tri_coll *k);
tri_lane       tri_coll_lane(tri_coll_kind k);
/* A communicator of "nccl" serves one scope and one of these. Pure: whether one is used for the expected
 * collectives `kinds`. */
typedef enum { TRI_USE_GATHER, TRI_USE_REDUCE, TRI_USE_IN_STREAM, TRI_COMM_USES } tri_comm_use;
bool tri_comm_is_used(unsigned kinds, tri_comm_use use);
/* Records that the data of k moved in s seconds. */
void tri_coll_timed(tri_comm *c, const tri_coll *k, double s);

#endif
