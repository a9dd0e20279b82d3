/* residence_segment.c - weights that the ranks of a node have once, in their shared memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "residence.h"

static tri_status plan_share(tri_params *p, tri_ledger *l, tri_param_unit *u) {
  (void)l;
  return tri_shared_plan_part(p, TRI_PHASE_ALWAYS, true,
                              (size_t)tri_params_padded(p, u) * tri_params_weight_bytes(p), &u->whole);
}

/* If sharing failed, each rank gathers the weights into memory of its own. */
static tri_status start(tri_params *p, tri_param_unit *u, tri_param_slot *sl, tri_stream *s) {
  return tri_shared_segment(p) ? TRI_OK : tri_ring_start(p, u, sl, s);
}

const tri_residence tri_residence_segment = {.plan_share = plan_share,

                                             .start = start,
                                             .arrive = tri_ring_arrive,

                                             TRI_RING_OPERATIONS};
