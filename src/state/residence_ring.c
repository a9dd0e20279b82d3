/* residence_ring.c - gathers units into slots. Layers share two slots, a ring, and each other unit has its
 * own or shares one with others. While the model generates, every unit has a slot. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "residence.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

tri_status tri_ring_plan_share(tri_params *p, tri_ledger *l, unit *u) {
  int64_t    count = tri_params_count(p, u, p->layout.plan.params);
  tri_status st;

  tri_ledger_set_gathered(l, true);
  st = tri_params_plan(p, l, p->residence->memory, TRI_PHASE_ALWAYS, true, "weights",
                       (size_t)count * tri_params_weight_bytes(p), &u->weight);
  tri_ledger_set_gathered(l, false);
  return st;
}

/* Plans memory for a unit of at most `flat` elements, with `packed` bytes of packed forms. */
static tri_status plan_slot(tri_params *p, tri_ledger *l, tri_phase phase, slot *sl, int64_t flat,
                            size_t packed) {
  sl->unit = -1;
  tri_ledger_set_gathered(l, true);
  if (p->residence->in_slots)
    TRI_TRY(tri_params_plan_work(p, l, phase, "gathered weights", (size_t)flat * tri_params_weight_bytes(p),
                                 &sl->flat));
  tri_ledger_set_gathered(l, false);
  return tri_shared_plan_forms(p, l, phase, packed, &sl->packed_buffers);
}

/* Returns whether the unit shares a slot. If nothing is gathered, a slot of its own costs nothing and keeps
 * its packed forms for longer. */
static bool shares_slot(const tri_params *p, const unit *u) {
  return u->spec->apart && p->residence->in_slots;
}

tri_status tri_ring_plan_slots(tri_params *p, tri_ledger *l) {
  size_t in_ring = 0, apart = 0; /* bytes of packed forms */

  for (unit *u = p->unit; u < p->unit + p->opt.n_unit; u++) {
    size_t packed = tri_params_packed_bytes(u, p->opt.backward), *most = u->spec->in_ring ? &in_ring : &apart;
    int64_t padded = tri_params_padded(p, u);
    if (!u->spec->in_ring) u->own = shares_slot(p, u) ? &p->apart : &u->alone;
    if (u->own == &u->alone)
      TRI_TRY(plan_slot(p, l, TRI_PHASE_LEARN, u->own, padded, packed));
    else if (packed > *most)
      *most = packed;
    if (p->opt.rollout && !p->slice)
      TRI_TRY(plan_slot(p, l, TRI_PHASE_ROLLOUT, &u->held, padded, tri_params_packed_bytes(u, false)));
  }
  TRI_TRY(plan_slot(p, l, TRI_PHASE_LEARN, &p->apart, p->apart_elements, apart));
  for (int k = 0; k < TRI_PARAM_RING; k++)
    TRI_TRY(plan_slot(p, l, TRI_PHASE_LEARN, &p->ring[k], p->ring_elements, in_ring));
  return tri_grads_plan(p, l);
}

/* Returns the unit's slot, or else the free slot with no gather that other ranks have most likely released
 * too, or NULL. */
static slot *find_slot(tri_params *p, int index) {
  unit *u = &p->unit[index];
  slot *found = NULL;

  if (p->held) return &u->held;
  if (u->own) return u->own;
  for (slot *sl = p->ring; sl < p->ring + TRI_PARAM_RING; sl++)
    if (sl->unit == index) return sl;
  for (slot *sl = p->ring; sl < p->ring + TRI_PARAM_RING; sl++) {
    bool better = !found || (sl->gathering == found->gathering ? sl->freed < found->freed : found->gathering);
    if (!sl->busy && better) found = sl;
  }
  return found;
}

static tri_status start(tri_params *p, int index, slot *sl, tri_stream *s) {
  if (sl == &p->apart && sl->unit >= 0) tri_shared_freed(p, &p->unit[sl->unit], sl);
  TRI_TRY(tri_slot_forget(p, sl, s)); /* drops a prefetched unit that was never used */
  sl->unit = index;
  return p->residence->start(p, &p->unit[index], sl, s);
}

tri_status tri_ring_start(tri_params *p, unit *u, slot *sl, tri_stream *s) {
  sl->gathering = true;
  return tri_params_exchange(p, u,
                             &(tri_exchange){"weights", TRI_ALL_GATHER, TRI_SHARD_NONE, p->layout.plan.params,
                                             tri_params_flat(u, sl), u->weight, p->opt.dtype},
                             s, &sl->req);
}

tri_status tri_ring_arrive(tri_params *p, slot *sl, tri_stream *s) {
  return tri_comm_wait(tri_params_comm(p, p->layout.plan.params), &sl->req, s);
}

tri_status tri_ring_prefetch(tri_params *p, int index, tri_stream *s) {
  slot *sl = find_slot(p, index);

  if (p->held || !sl || sl->unit == index || sl->busy) return TRI_OK;
  return start(p, index, sl, s);
}

tri_status tri_ring_acquire(tri_params *p, int index, int use, tri_stream *s, slot **out) {
  slot *sl = *out = find_slot(p, index);

  TRI_ASSERT(sl && (p->held || !sl->busy || sl->unit == index));
  TRI_ASSERT(!p->held || !(use & TRI_USE_BWD)); /* held slots have no space for backward forms */
  if (p->held) return TRI_OK;
  if (sl->unit != index) TRI_TRY(start(p, index, sl, s));
  return tri_slot_arrive(p, sl, s);
}

tri_status tri_ring_release(tri_params *p, int index, tri_stream *s) {
  unit *u = &p->unit[index];
  slot *sl = find_slot(p, index);

  TRI_ASSERT(sl && sl->busy);
  sl->busy = false;
  if (p->held) return TRI_OK;
  /* The unit stays valid until another unit takes the slot, an update, or a change of what this memory is for
   * (forget_all). A rank may use it any number of times. All ranks meet at those changes before it is packed
   * again, and a unit that takes the slot tells them that this one is released (start). */
  if (sl == u->own && p->opt.train) return TRI_OK;
  tri_shared_freed(p, u, sl);
  sl->unit = -1;
#if TRI_DEBUG /* a use after release shows as NaN in the next loss */
  if (sl->flat)
    TRI_TRY(p->device->ops->fill(s, sl->flat, 0xff,
                                 (size_t)tri_params_padded(p, u) * tri_params_weight_bytes(p)));
#else
  (void)s;
#endif
  return TRI_OK;
}

/* After an error of its own a rank goes on with the gathers and the barrier, because the others wait
 * there. */
tri_status tri_ring_hold(tri_params *p, bool hold, tri_stream *s) {
  tri_status st = TRI_OK, end;

  if (p->held == hold) return TRI_OK;
  TRI_TRY(tri_params_forget_all(p, s));
  p->held = hold;
  if (!hold) return TRI_OK;
  TRI_ASSERT(p->opt.rollout);
  for (int i = 0; i < p->opt.n_unit; i++) {
    slot *sl = &p->unit[i].held;
    TRI_TRY(start(p, i, sl, s));
    TRI_TRY(tri_slot_arrive(p, sl, s));
    if (st == TRI_OK) st = tri_params_pack(p, &p->unit[i], sl, TRI_USE_FWD, s);
  }
  end = tri_shared_barrier(p);
  return st == TRI_OK ? end : st;
}

tri_status tri_ring_forget(tri_params *p, bool all, tri_stream *s) {
  for (int k = 0; k < TRI_PARAM_RING; k++) {
    TRI_ASSERT(!p->ring[k].busy);
    TRI_TRY(tri_slot_forget(p, &p->ring[k], s));
  }
  for (int i = 0; i < p->opt.n_unit; i++)
    if (p->unit[i].own)
      TRI_TRY(all ? tri_slot_forget(p, p->unit[i].own, s) : tri_slot_arrive(p, p->unit[i].own, s));
  return TRI_OK;
}

const tri_residence tri_residence_ring = {.memory = TRI_MEM_DEVICE,
                                          .in_slots = true,
                                          .plan_share = tri_ring_plan_share,
                                          .start = tri_ring_start,
                                          .arrive = tri_ring_arrive,

                                          TRI_RING_OPERATIONS};
