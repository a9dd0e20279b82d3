/* shard.h - plan legality, padding, ranges: pure arithmetic. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHARD_H
#define TRI_SHARD_H

#include "base/error.h"
#include "comm/place.h"

/* In the order of the words of shard.params, shard.grads and shard.optimizer. */
typedef enum { TRI_SHARD_NONE, TRI_SHARD_NODE, TRI_SHARD_WORLD } tri_shard_scope;

/* Where each kind of state is split. Legal iff params <= grads <= optim in the order none < node < world:
 * ten plans. none/none/none is plain data parallel, none/none/world ZeRO-1, none/world/world ZeRO-2,
 * world/world/world ZeRO-3 (Rajbhandari et al. 2020), node/node/node MiCS or HSDP. */
typedef struct tri_shard_plan {
  tri_shard_scope params, grads, optim;
} tri_shard_plan;

/* Elements [begin, begin + count) of a unit's flat, padded buffer. */
typedef struct tri_range {
  int64_t begin, count;
} tri_range;

const char *tri_shard_scope_name(tri_shard_scope s);
/* TRI_ECONFIG naming the two keys that contradict each other. Not collective. */
TRI_CHECKED tri_status tri_shard_plan_check(tri_shard_plan p);
/* Smallest multiple of world_size * align that is >= n. Pure. */
int64_t tri_shard_pad(int64_t n, int world_size, int align);
/* The part this rank holds. Pure: no communication, so every case is a table in the test. */
tri_range tri_shard_range(tri_shard_scope s, int64_t padded, const tri_place *at);
/* The common part of two ranges; count 0 when there is none. Pure. */
tri_range tri_range_meet(tri_range a, tri_range b);

#endif
