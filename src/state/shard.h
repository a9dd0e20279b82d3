/* shard.h - pure arithmetic of shard plans, with legal plans and ranges. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHARD_H
#define TRI_SHARD_H

#include "base/error.h"

/* In the order of the words of shard.params, shard.grads and shard.optimizer. */
typedef enum { TRI_SHARD_NONE, TRI_SHARD_NODE, TRI_SHARD_WORLD } tri_shard_scope;

/* The scope over which each kind of state is split. A plan is legal iff params <= grads <= optim in the order
 * none < node < world, so there are ten.
 *
 * none/none/none is plain data parallel. none/none/world is ZeRO-1, none/world/world ZeRO-2, and
 * world/world/world ZeRO-3 (Rajbhandari et al. 2020). node/node/node is MiCS or HSDP. */
typedef struct tri_shard_plan {
  tri_shard_scope params, grads, optim;
} tri_shard_plan;

/* Elements [begin, begin + count) of a unit's flat, padded buffer. */
typedef struct tri_range {
  int64_t begin, count;
} tri_range;

const char *tri_shard_scope_name(tri_shard_scope s);
/* Not collective. TRI_ECONFIG, with the two keys, if they contradict each other. */
TRI_CHECKED tri_status tri_shard_plan_check(tri_shard_plan p);
/* Pure. Returns the common part of two ranges, with count 0 if there is none. */
tri_range tri_range_meet(tri_range a, tri_range b);

#endif
