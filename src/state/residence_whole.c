/* residence_whole.c - weights that every rank has whole, beside packed forms that stay. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "residence.h"

static tri_status plan_slots(tri_params *p, tri_ledger *l) {
  for (tri_param_unit *u = p->unit; u < p->unit + p->opt.n_unit; u++) {
    u->own = &u->alone;
    TRI_TRY(tri_shared_plan_forms(p, l, TRI_PHASE_ALWAYS, tri_params_packed_bytes(u, p->opt.backward),
                                  &u->own->packed_buffers));
  }
  return tri_grads_plan(p, l);
}

static tri_status acquire(tri_params *p, int index, int use, tri_stream *s, tri_param_slot **out) {
  (void)use, (void)s;
  p->unit[index].whole = p->unit[index].weight;
  *out = p->unit[index].own;
  return TRI_OK;
}

static tri_status release(tri_params *p, int index, tri_stream *s) {
  (void)s;
  TRI_ASSERT(p->unit[index].own->busy);
  p->unit[index].own->busy = false;
  return TRI_OK;
}

const tri_residence tri_residence_whole = {.memory = TRI_MEM_DEVICE,
                                           .plan_share = tri_ring_plan_share,
                                           .plan_slots = plan_slots,
                                           .acquire = acquire,
                                           .release = release};
