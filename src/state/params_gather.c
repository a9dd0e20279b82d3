/* params_gather.c - gathers, packs and releases the parameter store's weights one unit at a time, and spreads
 * new weights. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "params_impl.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

static tri_status finish_gather(tri_params *p, slot *sl, tri_stream *s) {
  tri_comm *c = tri_params_comm(p, p->opt.plan.params);

  if (!sl->gathering) return TRI_OK;
  sl->gathering = false;
  if (p->offload && !p->opt.train) return tri_offload_wait(p, sl, s);
  return tri_comm_wait(c, &sl->req, s);
}

tri_status tri_params_forget(tri_params *p, slot *sl, tri_stream *s) {
  TRI_TRY(finish_gather(p, sl, s));
  sl->unit = -1;
  sl->have[0] = sl->have[1] = false;
  return TRI_OK;
}

/* For a store that gathers nothing. Returns the unit's slot of the ring, or the free slot that other ranks
 * have most likely released too. */
static slot *oldest(tri_params *p, int index) {
  slot *found = NULL;

  for (int k = 0; k < TRI_PARAM_RING; k++) {
    slot *sl = &p->ring[k];
    if (sl->unit == index) return sl;
    if (!sl->busy && (!found || sl->freed < found->freed)) found = sl;
  }
  return found;
}

static slot *find_slot(tri_params *p, int index) {
  unit *u = &p->unit[index];

  if (p->held) return &u->held;
  if (u->own) return u->own;
  if (!tri_params_gathers(p)) return oldest(p, index);
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (p->ring[k].unit == index) return &p->ring[k];
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (!p->ring[k].busy && !p->ring[k].gathering) return &p->ring[k];
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (!p->ring[k].busy) return &p->ring[k];
  return NULL;
}

/* Returns the address of linear[j]'s form for this use in the slot, or NULL if the weight itself serves. */
static void *packed_at(const unit *u, const slot *s, int use, int j) {
  size_t at = 0;

  for (int k = 0; k < (use ? u->spec->n_linear : j); k++) at += u->packed_bytes[0][k];
  for (int k = 0; use && k < j; k++) at += u->packed_bytes[1][k];
  return u->packed_bytes[use][j] ? (char *)s->packed_buffers + at : NULL;
}

/* Returns a gathered unit's weights, A [padded]. */
static char *flat_of(const tri_params *p, const unit *u, const slot *sl) {
  return p->resident ? u->weight : u->whole ? u->whole : sl->flat;
}

static tri_status start_gather(tri_params *p, int index, slot *sl, tri_stream *s) {
  unit     *u = &p->unit[index];
  tri_comm *c = tri_params_comm(p, p->opt.plan.params);

  TRI_TRY(tri_params_forget(p, sl, s)); /* drops a prefetched unit that was never used */
  sl->unit = index;
  if (!tri_params_gathers(p)) return TRI_OK;
  sl->gathering = true;
  if (p->offload && !p->opt.train) return tri_offload_gather(p, u, sl, s);
  tri_params_carry(p, u, "weights");
  return tri_all_gather(c, flat_of(p, u, sl), u->weight, u->rp.count, p->opt.dtype, s, &sl->req);
}

tri_status tri_params_prefetch(tri_params *p, int index, tri_stream *s) {
  slot *sl;

  if (index < 0 || p->held || !tri_params_gathers(p)) return TRI_OK;
  sl = find_slot(p, index);
  if (!sl || sl->unit == index || sl->busy) return TRI_OK;
  return start_gather(p, index, sl, s);
}

/* Makes the matrix of linear[j] from its blocks, in p->matrix. */
static tri_status put_blocks(tri_params *p, const unit *u, const tri_linear_use *l, char *flat, tri_stream *s,
                             tri_tensor *w) {
  const tri_blocks *b = &l->blocks;

  *w = tri_view2(p->matrix, p->opt.dtype, b->n_out, b->n_in);
  TRI_TRY(p->device->ops->fill(s, w->data, 0, (size_t)(b->n_out * b->n_in) * tri_params_weight_bytes(p)));
  for (int i = 0; i < l->n; i++) {
    tri_tensor x = tri_param_view(&u->spec->param[l->first + i], flat, p->opt.dtype),
               rows = tri_rows(w, b->row[i], x.dim[0]);
    TRI_TRY(tri_params_kernels(p)->cols_put(s, &rows, i * x.dim[1], b->scale, &x));
  }
  return TRI_OK;
}

/* The number of ranks that pack a form together, and this rank's number among them. */
static int packers(const tri_params *p) { return tri_params_segment(p) ? p->comm[TRI_NODE]->size : 1; }
static int packer(const tri_params *p) { return tri_params_segment(p) ? p->comm[TRI_NODE]->rank : 0; }

/* Packs this rank's part of the forms of linear[j] from its matrix. A product without packed forms uses the
 * matrix itself as its form, if the matrix is made of blocks. */
static tri_status pack_linear(tri_params *p, unit *u, slot *sl, int j, const bool want[2],
                              const tri_tensor *w, tri_stream *s) {
  const tri_linear_use *l = &u->spec->linear[j];
  tri_linear_bytes      b;
  void                 *to[2];

  TRI_TRY(tri_params_kernels(p)->linear_size(l->linear, &b));
  for (int use = 0; use < 2; use++) {
    size_t own = use ? b.bwd : b.fwd;
    to[use] = want[use] ? packed_at(u, sl, use, j) : NULL;
    if (!to[use] || own) continue;
    if (j % packers(p) == packer(p))
      TRI_TRY(p->device->ops->copy(s, to[use], w->data,
                                   (size_t)tri_tensor_count(w) * tri_params_weight_bytes(p)));
    to[use] = NULL;
  }
  if (!to[0] && !to[1]) return TRI_OK;
  return tri_params_kernels(p)->linear_pack(s, l->linear, to[0], to[1], w, packer(p), packers(p));
}

static tri_status pack_unit(tri_params *p, unit *u, slot *sl, char *flat, int use, tri_stream *s) {
  const bool want[2] = {(use & TRI_USE_FWD) && !sl->have[0], (use & TRI_USE_BWD) && !sl->have[1]};

  if (!want[0] && !want[1]) return TRI_OK;
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    tri_tensor            w = tri_param_view(&u->spec->param[l->first], flat, p->opt.dtype);
    TRI_ASSERT(w.ndim == 2);
    for (int i = 1; i < l->n; i++) w.dim[0] += u->spec->param[l->first + i].dim[0];
    if (l->blocks.n_out) TRI_TRY(put_blocks(p, u, l, flat, s, &w));
    TRI_TRY(pack_linear(p, u, sl, j, want, &w, s));
  }
  sl->have[0] |= want[0];
  sl->have[1] |= want[1];
  return TRI_OK;
}

/* Collective over the parameter scope if ranks share. Makes the forms of an acquired unit. */
static tri_status make_forms(tri_params *p, unit *u, slot *sl, int use, tri_stream *s) {
  bool         whole = ((use & TRI_USE_FWD) == 0 || sl->have[0]) && ((use & TRI_USE_BWD) == 0 || sl->have[1]);
  tri_segment *w = u->spec->n_linear ? tri_params_segment(p) : NULL;

  if (whole) return TRI_OK;
  if (w) {
    tri_rank_status_carry(p->opt.label, u->spec->name, "space for packed weights");
    TRI_TRY(tri_segment_wait(w, sl->freed));
  }
  TRI_TRY(pack_unit(p, u, sl, flat_of(p, u, sl), use, s));
  if (!w) return TRI_OK;
  tri_rank_status_carry(p->opt.label, u->spec->name, "packed weights");
  return tri_segment_barrier(w, tri_params_generation(p, u, TRI_GENERATION_PACKED + use));
}

static void show(const tri_params *p, unit *u, const slot *sl, char *flat, tri_weights *out) {
  for (int i = 0; i < u->spec->n_param; i++)
    u->view[i] = tri_param_view(&u->spec->param[i], flat, p->opt.dtype);
  for (int use = 0; use < 2; use++)
    for (int j = 0; j < u->spec->n_linear; j++) {
      const void *packed = sl->have[use] ? packed_at(u, sl, use, j) : NULL;
      u->packed[use][j] = packed ? packed : u->view[u->spec->linear[j].first].data;
    }
  *out = (tri_weights){.t = u->view, .packed_fwd = u->packed[0], .packed_bwd = u->packed[1]};
}

tri_status tri_params_acquire(tri_params *p, int index, int use, int next, tri_stream *s, tri_weights *out) {
  unit *u = &p->unit[index];
  slot *sl = find_slot(p, index);

  TRI_ASSERT(sl && (p->held || p->resident || !sl->busy || sl->unit == index));
  /* Held slots have no space for backward forms. */
  TRI_ASSERT(!(use & TRI_USE_BWD) || (p->opt.backward && !p->held));
  if (!p->resident && !p->held) {
    if (sl->unit != index) TRI_TRY(start_gather(p, index, sl, s));
    TRI_TRY(finish_gather(p, sl, s));
  }
  sl->busy = true;
  TRI_TRY(make_forms(p, u, sl, use, s));
  show(p, u, sl, flat_of(p, u, sl), out);
  return tri_params_prefetch(p, next, s);
}

tri_status tri_params_release(tri_params *p, int index, tri_stream *s) {
  unit *u = &p->unit[index];
  slot *sl = find_slot(p, index);

  TRI_ASSERT(sl && sl->busy);
  sl->busy = false;
  if (p->resident || p->held) return TRI_OK;
  /* Only generation reuses this memory, and drops the unit first. So the unit stays valid until the next
   * update. A rank may use it any number of times, because all ranks meet before it is packed again
   * (publish_end, forget_all). */
  if (sl == u->own && p->opt.train) return TRI_OK;
  if (u->spec->n_linear && tri_params_segment(p))
    sl->freed =
        tri_segment_generation(tri_params_segment(p), tri_params_generation(p, u, TRI_GENERATION_FREED));
  sl->unit = -1;
#if TRI_DEBUG /* a use after release shows as NaN in the next loss */
  if (!u->whole)
    TRI_TRY(p->device->ops->fill(s, sl->flat, 0xff, (size_t)u->padded * tri_params_weight_bytes(p)));
#else
  (void)s;
#endif
  return TRI_OK;
}

tri_status tri_params_forget_unused(tri_params *p, tri_stream *s) {
  for (int k = 0; k < TRI_PARAM_RING; k++) {
    TRI_ASSERT(!p->ring[k].busy);
    TRI_TRY(tri_params_forget(p, &p->ring[k], s));
  }
  for (int i = 0; i < p->opt.n_unit && !p->resident; i++)
    if (p->unit[i].own) TRI_TRY(finish_gather(p, p->unit[i].own, s));
  return TRI_OK;
}

tri_status tri_params_forget_all(tri_params *p, tri_stream *s) {
  if (p->resident) return TRI_OK;
  TRI_TRY(tri_params_forget_unused(p, s));
  for (int i = 0; i < p->opt.n_unit; i++)
    if (p->unit[i].own) TRI_TRY(tri_params_forget(p, p->unit[i].own, s));
  return tri_params_barrier(p);
}

tri_status tri_params_hold(tri_params *p, bool hold, tri_stream *s) {
  tri_comm *c = tri_params_comm(p, p->opt.plan.params);

  if (p->resident || p->held == hold) return TRI_OK;
  TRI_TRY(tri_params_forget_all(p, s));
  p->held = hold;
  if (!hold) return TRI_OK;
  TRI_ASSERT(p->opt.rollout);
  for (int i = 0; i < p->opt.n_unit; i++) {
    unit *u = &p->unit[i];
    char *flat = flat_of(p, u, &u->held);
    if (tri_params_gathers(p)) {
      tri_params_carry(p, u, "weights");
      TRI_TRY(tri_all_gather(c, flat, u->weight, u->rp.count, p->opt.dtype, s, NULL));
    }
    u->held.have[0] = false;
    TRI_TRY(pack_unit(p, u, &u->held, flat, TRI_USE_FWD, s));
  }
  return tri_params_barrier(p);
}

/* ---- new weights ---- */

tri_status tri_params_spread(tri_params *p, const unit *u, void *buf, tri_dtype t, tri_shard_scope to,
                             tri_range to_range, tri_shard_scope from, tri_range from_range, tri_stream *s,
                             tri_req *req) {
  tri_comm *c = tri_params_comm_between(p, to, from);
  char     *mine = (char *)buf + (size_t)(from_range.begin - to_range.begin) * tri_dtype_bytes(t);

  if (!c || c->size == 1) return TRI_OK;
  tri_params_carry(p, u, "new weights"); /* moments are only spread at the start */
  return tri_all_gather(c, buf, mine, from_range.count, t, s, req);
}

/* Collective. Waits for the unit whose new weights are on their way. */
static tri_status finish_news(tri_params *p, tri_stream *s) {
  tri_param_flight *f = &p->news;

  if (!f->unit) return TRI_OK;
  f->unit = NULL;
  return tri_comm_wait(tri_params_comm_between(p, p->opt.plan.params, tri_params_fine(p)), &f->req, s);
}

tri_status tri_params_publish(tri_params *p, int index, tri_stream *s) {
  unit     *u = &p->unit[index];
  tri_comm *c = tri_params_comm_between(p, p->opt.plan.params, tri_params_fine(p));

  if (u->own) TRI_TRY(tri_params_forget(p, u->own, s));
  TRI_TRY(finish_news(p, s));
  p->news.unit = c && c->size > 1 ? u : NULL;
  return tri_params_spread(p, u, u->weight, p->opt.dtype, p->opt.plan.params, u->rp, tri_params_fine(p),
                           u->ro, s, &p->news.req);
}

tri_status tri_params_publish_end(tri_params *p, tri_stream *s) {
  TRI_TRY(finish_news(p, s));
  TRI_TRY(tri_offload_settle(p, s));
  return tri_params_barrier(p);
}
