/* params_gather.c - the parameter store's weights, one unit at a time: gathered, packed, let go again. */
#include "params_impl.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

static tri_status finish_gather(tri_params *p, slot *sl, tri_stream *s) {
  tri_comm *c = tri_params_comm(p, p->opt.plan.params);

  if (!sl->gathering) return TRI_OK;
  sl->gathering = false;
  return c->ops->wait(c, &sl->req, s);
}

tri_status tri_params_forget(tri_params *p, slot *sl, tri_stream *s) {
  TRI_TRY(finish_gather(p, sl, s));
  sl->unit = -1;
  sl->have[0] = sl->have[1] = false;
  return TRI_OK;
}

static slot *find_slot(tri_params *p, int index) {
  unit *u = &p->unit[index];

  if (p->held) return &u->held;
  if (u->own) return u->own;
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (p->ring[k].unit == index) return &p->ring[k];
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (!p->ring[k].busy && !p->ring[k].gathering) return &p->ring[k];
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (!p->ring[k].busy) return &p->ring[k];
  return NULL;
}

static void carve(const unit *u, slot *s, int n_use) {
  char *at = s->packed_room;

  for (int use = 0; use < n_use; use++)
    for (int j = 0; j < u->spec->n_linear; j++) {
      s->packed[use][j] = u->linear_bytes[use][j] ? at : NULL;
      at += u->linear_bytes[use][j];
    }
}

static tri_status start_gather(tri_params *p, int index, slot *sl, tri_stream *s) {
  unit     *u = &p->unit[index];
  tri_comm *c = tri_params_comm(p, p->opt.plan.params);

  TRI_TRY(tri_params_forget(p, sl, s)); /* something prefetched and never used */
  sl->unit = index;
  tri_params_carry(p, u, "weights");
  TRI_TRY(c->ops->all_gather(c, sl->flat, u->weight, u->rp.count, p->opt.dtype, s, &sl->req));
  sl->gathering = true;
  return TRI_OK;
}

tri_status tri_params_prefetch(tri_params *p, int index, tri_stream *s) {
  slot *sl;

  if (index < 0 || p->resident || p->held) return TRI_OK;
  sl = find_slot(p, index);
  if (!sl || sl->unit == index || sl->busy) return TRI_OK;
  return start_gather(p, index, sl, s);
}

static tri_status pack_unit(tri_params *p, unit *u, slot *sl, const char *flat, int use, tri_stream *s) {
  bool fwd = (use & TRI_USE_FWD) && !sl->have[0], bwd = (use & TRI_USE_BWD) && !sl->have[1];

  if (!fwd && !bwd) return TRI_OK;
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    const tri_param_spec *first = &u->spec->param[l->first];
    int64_t               n_out = 0;
    for (int i = 0; i < l->n; i++) n_out += u->spec->param[l->first + i].dim[0];
    tri_tensor w = tri_view2((char *)flat + (size_t)first->offset * tri_params_weight_bytes(p), p->opt.dtype,
                             n_out, first->dim[1]);
    TRI_TRY(tri_params_kernels(p)->linear_pack(s, l->linear, fwd ? sl->packed[0][j] : NULL,
                                               bwd ? sl->packed[1][j] : NULL, &w));
  }
  sl->have[0] |= fwd;
  sl->have[1] |= bwd;
  return TRI_OK;
}

tri_status tri_params_acquire(tri_params *p, int index, int use, int next, tri_stream *s, tri_weights *out) {
  unit *u = &p->unit[index];
  slot *sl = find_slot(p, index);
  char *flat;

  TRI_ASSERT(sl && (p->held || p->resident || !sl->busy || sl->unit == index));
  if (!p->resident && !p->held) {
    if (sl->unit != index) TRI_TRY(start_gather(p, index, sl, s));
    TRI_TRY(finish_gather(p, sl, s));
  }
  if (!p->held) carve(u, sl, p->opt.train ? 2 : 1);
  sl->busy = true;
  flat = p->resident ? u->weight : sl->flat;
  TRI_TRY(pack_unit(p, u, sl, flat, use, s));
  for (int i = 0; i < u->spec->n_param; i++) {
    const tri_param_spec *f = &u->spec->param[i];
    out->t[i] = tri_view2(flat + (size_t)f->offset * tri_params_weight_bytes(p), p->opt.dtype, f->dim[0],
                          f->ndim > 1 ? f->dim[1] : 1);
    out->t[i].ndim = f->ndim;
  }
  for (int j = 0; j < u->spec->n_linear; j++) {
    void *w = out->t[u->spec->linear[j].first].data;
    out->packed_fwd[j] = sl->packed[0][j] ? sl->packed[0][j] : w;
    out->packed_bwd[j] = sl->packed[1][j] ? sl->packed[1][j] : w;
  }
  return tri_params_prefetch(p, next, s);
}

tri_status tri_params_release(tri_params *p, int index, tri_stream *s) {
  slot *sl = find_slot(p, index);

  TRI_ASSERT(sl && sl->busy);
  sl->busy = false;
  if (p->resident || p->held) return TRI_OK;
  /* Nobody else uses its room but generation, which hold() comes before: good until the next update. */
  if (sl == p->unit[index].own && p->opt.train) return TRI_OK;
  sl->unit = -1;
#if TRI_DEBUG /* a use after release shows in the next loss: NaN */
  TRI_TRY(
      p->device->ops->fill(s, sl->flat, 0xff, (size_t)p->unit[index].padded * tri_params_weight_bytes(p)));
#else
  (void)s;
#endif
  return TRI_OK;
}

tri_status tri_params_hold(tri_params *p, bool hold, tri_stream *s) {
  tri_comm *c = tri_params_comm(p, p->opt.plan.params);

  if (p->resident || p->held == hold) return TRI_OK;
  for (int k = 0; k < TRI_PARAM_RING; k++) TRI_TRY(tri_params_forget(p, &p->ring[k], s));
  for (int i = 0; i < p->opt.n_unit; i++)
    if (p->unit[i].own) TRI_TRY(tri_params_forget(p, p->unit[i].own, s));
  p->held = hold;
  if (!hold) return TRI_OK;
  TRI_ASSERT(p->opt.rollout);
  for (int i = 0; i < p->opt.n_unit; i++) {
    unit *u = &p->unit[i];
    tri_params_carry(p, u, "weights");
    TRI_TRY(c->ops->all_gather(c, u->held.flat, u->weight, u->rp.count, p->opt.dtype, s, NULL));
    carve(u, &u->held, 1);
    u->held.have[0] = false;
    u->held.have[1] = true; /* no backward forms here */
    TRI_TRY(pack_unit(p, u, &u->held, u->held.flat, TRI_USE_FWD, s));
  }
  return TRI_OK;
}
