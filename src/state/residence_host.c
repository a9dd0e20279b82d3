/* residence_host.c - weights of a frozen store in host memory. They are copied and gathered into the slots of
 * a ring. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "residence.h"

static tri_status start(tri_params *p, tri_param_unit *u, tri_param_slot *sl, tri_stream *s) {
  tri_shard_scope scope = p->layout.plan.params;
  size_t          each = tri_params_weight_bytes(p);
  tri_stream     *fetch = p->offload->fetch;

  sl->gathering = true;
  TRI_TRY(tri_offload_follow(p, s)); /* the slot is free from then on */
  for (int f = 0; f < tri_params_fields(p, u); f++) {
    tri_range r = tri_params_share(p, u, f, scope);
    TRI_TRY(tri_offload_copy(p, u, TRI_LANE_FETCH, (char *)sl->flat + (size_t)r.begin * each,
                             tri_params_weight_at(p, u, r.begin), (size_t)r.count * each));
  }
  if (!tri_params_splits(p, scope)) return p->device->ops->event_record(p->offload->copied, fetch);
  return tri_params_exchange(
      p, u, &(tri_exchange){"weights", TRI_ALL_GATHER, TRI_SHARD_NONE, scope, sl->flat, NULL, p->opt.dtype},
      fetch, &sl->req);
}

static tri_status arrive(tri_params *p, tri_param_slot *sl, tri_stream *s) {
  if (!tri_params_splits(p, p->layout.plan.params)) return p->device->ops->stream_wait(s, p->offload->copied);
  return tri_ring_arrive(p, sl, s);
}

const tri_residence tri_residence_host = {.memory = TRI_MEM_PINNED,
                                          .in_slots = true,
                                          .plan_share = tri_ring_plan_share,
                                          .start = start,
                                          .arrive = arrive,

                                          TRI_RING_OPERATIONS};
