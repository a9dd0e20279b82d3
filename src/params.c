/* params.c - the parameter store: shards, gradients, and the gathering of one unit at a time. */
#include "params.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>

enum {
  PAD_ELEMENTS = 64,      /* chosen: every share starts on a 256-byte boundary in f32, 128 in bf16 */
  RING = 2,               /* a unit computes while the next is gathered */
  FILL_ELEMENTS = 1 << 20 /* chosen: 4 MiB of host memory while loading */
};

/* Room for one gathered unit. */
typedef struct slot {
  void   *flat;                        /* A [padded] */
  void   *packed[2][TRI_UNIT_LINEARS]; /* fwd, bwd; carved from packed_room */
  void   *packed_room;
  float  *grad; /* f32 [padded]: the unit's full gradient in one micro-batch; NULL when it goes to the
                   accumulator */
  int     unit; /* whose weights are here, or coming; -1: none */
  int     grad_unit;
  bool    busy;      /* acquired */
  bool    gathering; /* a request is pending */
  bool    have[2];   /* packed forms made */
  tri_req req, grad_req;
} slot;

typedef struct unit {
  const tri_unit_spec *spec;
  int64_t              padded;
  tri_range            rp, rg, ro, rw; /* params, gradients, optimizer, and the world piece that files see */
  void                *weight;         /* A [rp.count] */
  float               *master;         /* f32 [ro.count]; NULL in f32, where it is a part of `weight` */
  float               *exp_avg, *exp_avg_sq, *acc; /* f32 [ro.count], [ro.count], [rg.count] */
  size_t               linear_bytes[2][TRI_UNIT_LINEARS];
  slot                *own;  /* a unit that is not in the ring, or one that is never gathered */
  slot                 held; /* gathered for generation */
  bool                 grad_open;
  bool                 fresh; /* acc holds nothing yet: the next gradient is written, not added */
} unit;

struct tri_params {
  tri_params_opt opt;
  tri_device    *device;                /* borrowed */
  tri_comm      *comm[TRI_SCOPE_COUNT]; /* borrowed */
  bool           resident, grad_direct; /* nothing to gather; gradients go straight to the accumulator */
  bool           held;
  unit          *unit;
  slot           ring[RING];
  slot          *pending;        /* a gradient reduction under way */
  double        *sum, *host_sum; /* f64 [1]: device, pinned */
};

int64_t tri_param_count(const tri_param_spec *s) {
  int64_t n = 1;

  for (int i = 0; i < s->ndim; i++) n *= s->dim[i];
  return n;
}

void tri_unit_layout(tri_unit_spec *u) {
  int64_t at = 0;

  for (int i = 0; i < u->n_param; i++) {
    bool inside = false;
    for (int j = 0; j < u->n_linear; j++)
      if (i > u->linear[j].first && i < u->linear[j].first + u->linear[j].n) inside = true;
    /* A fused bias lies like its fused rows: vectors of one dimension behind each other too. */
    if (i > 0 && u->param[i].ndim == 1 && u->param[i - 1].ndim == 1 && strstr(u->param[i].name, ".bias") &&
        strstr(u->param[i - 1].name, ".bias"))
      inside = true;
    if (!inside) at = (at + PAD_ELEMENTS - 1) / PAD_ELEMENTS * PAD_ELEMENTS;
    u->param[i].offset = at;
    at += tri_param_count(&u->param[i]);
  }
  u->count = at;
}

/* For a trace: the collective that starts next carries u's weights, say. */
static void carry(const tri_params *p, const unit *u, const char *what) {
  tri_trace_carry(p->device->trace, p->opt.label, u->spec->name, what);
}

static const tri_kernels *kernels(const tri_params *p) { return p->device->ops->kernels; }

static tri_comm *comm_of(const tri_params *p, tri_shard_scope s) {
  return s == TRI_SHARD_NONE ? NULL : p->comm[s == TRI_SHARD_NODE ? TRI_NODE : TRI_WORLD];
}

static bool splits(const tri_params *p, tri_shard_scope s) {
  tri_comm *c = comm_of(p, s);
  return c && c->size > 1;
}

static size_t weight_bytes(const tri_params *p) { return tri_dtype_bytes(p->opt.dtype); }

static void *weight_at(const tri_params *p, const unit *u, int64_t element) {
  return (char *)u->weight + (size_t)(element - u->rp.begin) * weight_bytes(p);
}

/* f32 weights of the optimizer share: the master copy, or the weights themselves. */
static float *master_of(const tri_params *p, const unit *u) {
  return u->master ? u->master : weight_at(p, u, u->ro.begin);
}

static tri_status plan(tri_ledger *l, const tri_params *p, tri_phase phase, bool state, const char *what,
                       size_t bytes, void *where) {
  char name[48];

  snprintf(name, sizeof name, "%s %s", p->opt.label, what);
  return tri_ledger_add(l, TRI_MEM_DEVICE, phase, state, name, bytes, where);
}

static tri_status linear_bytes_of(tri_params *p, unit *u) {
  for (int j = 0; j < u->spec->n_linear; j++) {
    tri_linear_bytes b;
    TRI_TRY(kernels(p)->linear_size(u->spec->linear[j].linear, &b));
    u->linear_bytes[0][j] = (b.fwd + 255) / 256 * 256;
    u->linear_bytes[1][j] = p->opt.train ? (b.bwd + 255) / 256 * 256 : 0;
  }
  return TRI_OK;
}

static size_t packed_bytes(const unit *u, int n_use) {
  size_t bytes = 0;

  for (int use = 0; use < n_use; use++)
    for (int j = 0; j < u->spec->n_linear; j++) bytes += u->linear_bytes[use][j];
  return bytes;
}

static tri_status plan_state(tri_params *p, tri_ledger *l, unit *u) {
  TRI_TRY(plan(l, p, TRI_PHASE_ALWAYS, true, "weights", (size_t)u->rp.count * weight_bytes(p), &u->weight));
  if (!p->opt.train) return TRI_OK;
  if (p->opt.dtype != TRI_F32)
    TRI_TRY(plan(l, p, TRI_PHASE_ALWAYS, true, "master weights", (size_t)u->ro.count * 4, &u->master));
  TRI_TRY(plan(l, p, TRI_PHASE_ALWAYS, true, "gradients", (size_t)u->rg.count * 4, &u->acc));
  TRI_TRY(plan(l, p, TRI_PHASE_ALWAYS, true, "moments", (size_t)u->ro.count * 4, &u->exp_avg));
  TRI_TRY(plan(l, p, TRI_PHASE_ALWAYS, true, "moments", (size_t)u->ro.count * 4, &u->exp_avg_sq));
  return TRI_OK;
}

/* Room for a gathered unit of at most `flat` elements and `packed` bytes. */
static tri_status plan_slot(tri_params *p, tri_ledger *l, tri_phase phase, slot *s, int64_t flat,
                            size_t packed, bool grad) {
  s->unit = s->grad_unit = -1;
  if (!p->resident)
    TRI_TRY(plan(l, p, phase, false, "gathered weights", (size_t)flat * weight_bytes(p), &s->flat));
  TRI_TRY(plan(l, p, phase, false, "packed weights", packed, &s->packed_room));
  if (grad && p->opt.train && !p->grad_direct)
    TRI_TRY(plan(l, p, TRI_PHASE_LEARN, false, "unreduced gradients", (size_t)flat * 4, &s->grad));
  return TRI_OK;
}

static tri_status plan_slots(tri_params *p, tri_ledger *l) {
  int64_t ring_flat = 0;
  size_t  ring_packed = 0;
  int     n_use = p->opt.train ? 2 : 1;

  for (int i = 0; i < p->opt.n_unit; i++) {
    unit  *u = &p->unit[i];
    size_t packed = packed_bytes(u, n_use);
    if (u->spec->in_ring && u->padded > ring_flat) ring_flat = u->padded;
    if (u->spec->in_ring && packed > ring_packed) ring_packed = packed;
    if (p->resident || !u->spec->in_ring) {
      TRI_TRY(TRI_ALLOC(u->own, 1));
      TRI_TRY(plan_slot(p, l, p->resident ? TRI_PHASE_ALWAYS : TRI_PHASE_LEARN, u->own, u->padded, packed,
                        !u->spec->in_ring));
    }
    if (p->opt.rollout && !p->resident)
      TRI_TRY(plan_slot(p, l, TRI_PHASE_ROLLOUT, &u->held, u->padded, packed_bytes(u, 1), false));
  }
  for (int k = 0; k < RING; k++)
    TRI_TRY(plan_slot(p, l, TRI_PHASE_LEARN, &p->ring[k], ring_flat, p->resident ? 0 : ring_packed, true));
  return TRI_OK;
}

tri_status tri_params_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger,
                           const tri_params_opt *opt, tri_params **out) {
  tri_params *p;

  TRI_TRY(tri_shard_plan_check(opt->plan));
  TRI_TRY(TRI_ALLOC(*out, 1));
  p = *out;
  p->opt = *opt;
  p->device = d;
  memcpy(p->comm, comm, sizeof p->comm);
  p->resident = !splits(p, opt->plan.params);
  p->grad_direct = !splits(p, opt->plan.grads);
  TRI_TRY(TRI_ALLOC(p->unit, opt->n_unit));
  for (int i = 0; i < opt->n_unit; i++) {
    unit *u = &p->unit[i];
    u->spec = &opt->unit[i];
    u->padded = tri_shard_pad(u->spec->count, comm[TRI_WORLD]->size, PAD_ELEMENTS);
    u->rp = tri_shard_range(opt->plan.params, u->padded, &opt->place);
    u->rg = tri_shard_range(opt->plan.grads, u->padded, &opt->place);
    u->ro = opt->train ? tri_shard_range(opt->plan.optim, u->padded, &opt->place) : u->rp;
    u->rw = tri_shard_range(TRI_SHARD_WORLD, u->padded, &opt->place);
    u->fresh = true;
    TRI_TRY(linear_bytes_of(p, u));
    TRI_TRY(plan_state(p, ledger, u));
  }
  if (opt->train) {
    TRI_TRY(plan(ledger, p, TRI_PHASE_LEARN, false, "gradient norm", sizeof *p->sum, &p->sum));
    TRI_TRY(tri_ledger_add(ledger, TRI_MEM_PINNED, TRI_PHASE_LEARN, false, "gradient norm",
                           sizeof *p->host_sum, (void **)&p->host_sum));
  }
  return plan_slots(p, ledger);
}

void tri_params_close(tri_params **p) {
  if (!*p) return;
  for (int i = 0; (*p)->unit && i < (*p)->opt.n_unit; i++) TRI_FREE((*p)->unit[i].own);
  TRI_FREE((*p)->unit);
  TRI_FREE(*p);
}

const tri_params_opt *tri_params_options(const tri_params *p) { return &p->opt; }

/* ---- filling and reading ---- */

static tri_status finish_gather(tri_params *p, slot *sl, tri_stream *s) {
  tri_comm *c = comm_of(p, p->opt.plan.params);

  if (!sl->gathering) return TRI_OK;
  sl->gathering = false;
  return c->ops->wait(c, &sl->req, s);
}

/* What the slot holds is out of date, or its room was lent. */
static tri_status forget(tri_params *p, slot *sl, tri_stream *s) {
  TRI_TRY(finish_gather(p, sl, s));
  sl->unit = -1;
  sl->have[0] = sl->have[1] = false;
  return TRI_OK;
}

/* The scope of a finer share `from` inside the coarser `to`; NULL when they are the same. */
static tri_comm *comm_between(const tri_params *p, tri_shard_scope to, tri_shard_scope from) {
  if (to == from) return NULL;
  if (from == TRI_SHARD_NODE) return p->comm[TRI_NODE];
  return p->comm[to == TRI_SHARD_NODE ? TRI_CROSS : TRI_WORLD];
}

/* Collective. Everyone's `from` share of buf [to.count] is spread to all who hold the `to` share. */
static tri_status spread(tri_params *p, const unit *u, void *buf, tri_dtype t, tri_shard_scope to,
                         tri_range to_range, tri_shard_scope from, tri_range from_range, tri_stream *s) {
  tri_comm *c = comm_between(p, to, from);
  char     *mine = (char *)buf + (size_t)(from_range.begin - to_range.begin) * tri_dtype_bytes(t);

  if (!c || c->size == 1) return TRI_OK;
  carry(p, u, "new weights"); /* moments are spread at the start only */
  return c->ops->all_gather(c, buf, mine, from_range.count, t, s, NULL);
}

/* Collective. New weights of the optimizer share, in the compute type, go to every holder. */
static tri_status publish_unit(tri_params *p, unit *u, tri_stream *s) {
  if (u->own) TRI_TRY(forget(p, u->own, s));
  return spread(p, u, u->weight, p->opt.dtype, p->opt.plan.params, u->rp,
                p->opt.train ? p->opt.plan.optim : p->opt.plan.params, u->ro, s);
}

static tri_status cast_master(tri_params *p, unit *u, tri_stream *s) {
  tri_tensor to, from;

  if (!u->master) return TRI_OK;
  to = tri_view1(weight_at(p, u, u->ro.begin), p->opt.dtype, u->ro.count);
  from = tri_view1(u->master, TRI_F32, u->ro.count);
  return kernels(p)->cast(s, &to, &from);
}

/* Copy f32 `from`, host memory, to flat element `at` of the unit's state of this kind, in that state's type. */
static tri_status put(tri_params *p, unit *u, tri_state_kind kind, int64_t at, float *from, int64_t n,
                      tri_stream *s) {
  float *base = kind == TRI_STATE_WEIGHT ? NULL : kind == TRI_STATE_EXP_AVG ? u->exp_avg : u->exp_avg_sq;

  if (kind == TRI_STATE_WEIGHT && !u->master && p->opt.dtype != TRI_F32) {
    for (int64_t k = 0; k < n; k++) { /* a half never lies behind its number */
      uint16_t half = tri_f32_to_bf16(from[k]);
      memcpy((char *)from + (size_t)k * sizeof half, &half, sizeof half);
    }
    return p->device->ops->copy(s, weight_at(p, u, at), from, (size_t)n * sizeof(uint16_t));
  }
  if (!base) base = master_of(p, u);
  return p->device->ops->copy(s, base + (at - u->ro.begin), from, (size_t)n * 4);
}

static tri_status fill_unit(tri_params *p, int index, tri_state_kind kind, tri_fill_fn fill, void *ctx,
                            float *scratch, tri_stream *s) {
  unit *u = &p->unit[index];

  for (int i = 0; i < u->spec->n_param; i++) {
    tri_range piece = tri_params_piece(p, index, i);
    for (int64_t done = 0; done < piece.count; done += FILL_ELEMENTS) {
      int64_t n = piece.count - done < FILL_ELEMENTS ? piece.count - done : FILL_ELEMENTS;
      TRI_TRY(fill(ctx, kind, index, i, piece.begin + done, n, scratch));
      TRI_TRY(put(p, u, kind, u->spec->param[i].offset + piece.begin + done, scratch, n, s));
      TRI_TRY(p->device->ops->stream_sync(s)); /* scratch is used again */
    }
  }
  return TRI_OK;
}

tri_status tri_params_fill(tri_params *p, tri_state_kind kind, tri_fill_fn fill, void *ctx, tri_stream *s) {
  tri_status      st = TRI_OK;
  void           *scratch = NULL; /* page-locked, for quick copies to a GPU */
  tri_shard_scope optim = p->opt.train ? p->opt.plan.optim : p->opt.plan.params;

  TRI_ASSERT(kind == TRI_STATE_WEIGHT || p->opt.train);
  st = p->device->ops->alloc(p->device, TRI_MEM_PINNED, FILL_ELEMENTS * sizeof(float), &scratch);
  for (int i = 0; i < p->opt.n_unit && st == TRI_OK; i++) st = fill_unit(p, i, kind, fill, ctx, scratch, s);
  p->device->ops->free(p->device, TRI_MEM_PINNED, &scratch);
  TRI_TRY(tri_agree(p->comm[TRI_WORLD], st));
  for (int i = 0; i < p->opt.n_unit; i++) {
    unit *u = &p->unit[i];
    bool  compute = kind == TRI_STATE_WEIGHT && !u->master;
    void *base = kind == TRI_STATE_EXP_AVG      ? u->exp_avg
                 : kind == TRI_STATE_EXP_AVG_SQ ? u->exp_avg_sq
                 : u->master                    ? (void *)u->master
                                                : weight_at(p, u, u->ro.begin);
    TRI_TRY(spread(p, u, base, compute ? p->opt.dtype : TRI_F32, optim, u->ro, TRI_SHARD_WORLD, u->rw, s));
    if (kind == TRI_STATE_WEIGHT) TRI_TRY(cast_master(p, u, s));
    if (kind == TRI_STATE_WEIGHT) TRI_TRY(publish_unit(p, u, s));
  }
  return TRI_OK;
}

tri_range tri_params_piece(const tri_params *p, int u, int i) {
  const tri_param_spec *spec = &p->opt.unit[u].param[i];
  tri_range             whole = {spec->offset, tri_param_count(spec)};
  tri_range             r = tri_range_meet(whole, p->unit[u].rw);

  r.begin -= spec->offset;
  if (!r.count) r.begin = 0;
  return r;
}

tri_status tri_params_read(tri_params *p, tri_state_kind kind, int index, int i, int64_t begin, int64_t count,
                           float *host, tri_stream *s) {
  unit   *u = &p->unit[index];
  int64_t at = u->spec->param[i].offset + begin;

  if (kind == TRI_STATE_WEIGHT && !u->master && p->opt.dtype != TRI_F32) {
    /* A frozen bf16 store: the halves go to the upper half of the buffer, then are widened from the front. */
    uint16_t *half = (uint16_t *)host + count;
    TRI_TRY(p->device->ops->copy(s, half, weight_at(p, u, at), (size_t)count * 2));
    TRI_TRY(p->device->ops->stream_sync(s));
    for (int64_t k = 0; k < count; k++) {
      uint16_t h;
      memcpy(&h, half + k, sizeof h);
      host[k] = tri_bf16_to_f32(h);
    }
    return TRI_OK;
  }
  TRI_TRY(p->device->ops->copy(s, host,
                               (kind == TRI_STATE_WEIGHT    ? master_of(p, u)
                                : kind == TRI_STATE_EXP_AVG ? u->exp_avg
                                                            : u->exp_avg_sq) +
                                   (at - u->ro.begin),
                               (size_t)count * 4));
  return p->device->ops->stream_sync(s);
}

/* ---- gathering ---- */

static slot *find_slot(tri_params *p, int index) {
  unit *u = &p->unit[index];

  if (p->held) return &u->held;
  if (u->own) return u->own;
  for (int k = 0; k < RING; k++)
    if (p->ring[k].unit == index) return &p->ring[k];
  for (int k = 0; k < RING; k++)
    if (!p->ring[k].busy && !p->ring[k].gathering) return &p->ring[k];
  for (int k = 0; k < RING; k++)
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
  tri_comm *c = comm_of(p, p->opt.plan.params);

  TRI_TRY(forget(p, sl, s)); /* something prefetched and never used */
  sl->unit = index;
  carry(p, u, "weights");
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
    tri_tensor w =
        tri_view2((char *)flat + (size_t)first->offset * weight_bytes(p), p->opt.dtype, n_out, first->dim[1]);
    TRI_TRY(kernels(p)->linear_pack(s, l->linear, fwd ? sl->packed[0][j] : NULL,
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
    out->t[i] = tri_view2(flat + (size_t)f->offset * weight_bytes(p), p->opt.dtype, f->dim[0],
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
  TRI_TRY(p->device->ops->fill(s, sl->flat, 0xff, (size_t)p->unit[index].padded * weight_bytes(p)));
#else
  (void)s;
#endif
  return TRI_OK;
}

tri_status tri_params_hold(tri_params *p, bool hold, tri_stream *s) {
  tri_comm *c = comm_of(p, p->opt.plan.params);

  if (p->resident || p->held == hold) return TRI_OK;
  for (int k = 0; k < RING; k++) TRI_TRY(forget(p, &p->ring[k], s));
  for (int i = 0; i < p->opt.n_unit; i++)
    if (p->unit[i].own) TRI_TRY(forget(p, p->unit[i].own, s));
  p->held = hold;
  if (!hold) return TRI_OK;
  TRI_ASSERT(p->opt.rollout);
  for (int i = 0; i < p->opt.n_unit; i++) {
    unit *u = &p->unit[i];
    carry(p, u, "weights");
    TRI_TRY(c->ops->all_gather(c, u->held.flat, u->weight, u->rp.count, p->opt.dtype, s, NULL));
    carve(u, &u->held, 1);
    u->held.have[0] = false;
    u->held.have[1] = true; /* no backward forms here */
    TRI_TRY(pack_unit(p, u, &u->held, u->held.flat, TRI_USE_FWD, s));
  }
  return TRI_OK;
}

/* ---- gradients ---- */

static slot *grad_slot(tri_params *p, int index) {
  if (!p->unit[index].spec->in_ring) return p->unit[index].own;
  for (int k = 0; k < RING; k++)
    if (p->ring[k].grad_unit == index) return &p->ring[k];
  for (int k = 0; k < RING; k++)
    if (p->ring[k].grad_unit < 0) return &p->ring[k];
  return NULL;
}

/* Collective. Waits for the reduction under way and adds it to the accumulator. */
static tri_status finish_reduce(tri_params *p, tri_stream *s) {
  slot      *sl = p->pending;
  tri_comm  *c = comm_of(p, p->opt.plan.grads);
  unit      *u;
  tri_tensor acc, part;

  if (!sl) return TRI_OK;
  p->pending = NULL;
  u = &p->unit[sl->grad_unit];
  sl->grad_unit = -1;
  TRI_TRY(c->ops->wait(c, &sl->grad_req, s));
  acc = tri_view1(u->acc, TRI_F32, u->rg.count);
  part = tri_view1(sl->grad + u->rg.begin, TRI_F32, u->rg.count);
  TRI_TRY(kernels(p)->axpby(s, &acc, 1.0f, &part, u->fresh ? 0.0f : 1.0f));
  u->fresh = false;
  return TRI_OK;
}

/* A gradient's zeros: all but the matrices of products, which are written. */
static tri_status clear_rest(tri_params *p, const unit *u, float *grad, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  int64_t               at = 0;

  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    const tri_param_spec *first = &u->spec->param[l->first], *last = first + l->n - 1;
    TRI_ASSERT(first->offset >= at);
    TRI_TRY(ops->fill(s, grad + at, 0, (size_t)(first->offset - at) * sizeof *grad));
    at = last->offset + tri_param_count(last);
#if TRI_DEBUG /* one that is added to shows: NaN */
    TRI_TRY(ops->fill(s, grad + first->offset, 0xff, (size_t)(at - first->offset) * sizeof *grad));
#endif
  }
  return ops->fill(s, grad + at, 0, (size_t)(u->padded - at) * sizeof *grad);
}

tri_status tri_params_grad(tri_params *p, int index, tri_stream *s, tri_weights *out) {
  unit  *u = &p->unit[index];
  float *base = u->acc;

  out->fresh = p->grad_direct ? u->fresh : !u->grad_open;
  if (!p->grad_direct) {
    slot *sl = grad_slot(p, index);
    if (!sl || (p->pending && sl == p->pending)) {
      TRI_TRY(finish_reduce(p, s));
      sl = grad_slot(p, index);
    }
    TRI_ASSERT(sl);
    sl->grad_unit = index;
    base = sl->grad;
  }
  if (out->fresh) TRI_TRY(clear_rest(p, u, base, s));
  if (p->grad_direct) u->fresh = false;
  u->grad_open = true;
  for (int i = 0; i < u->spec->n_param; i++) {
    const tri_param_spec *f = &u->spec->param[i];
    out->t[i] = tri_view2(base + f->offset, TRI_F32, f->dim[0], f->ndim > 1 ? f->dim[1] : 1);
    out->t[i].ndim = f->ndim;
  }
  return TRI_OK;
}

/* Collective. The accumulator's last reduction, from the gradient share to the optimizer share (architecture
 * c.5, 6). */
static tri_status reduce_last(tri_params *p, unit *u, tri_stream *s) {
  tri_shard_scope g = p->opt.plan.grads, o = p->opt.plan.optim;
  float          *mine = u->acc + (u->ro.begin - u->rg.begin);
  tri_comm       *c = comm_between(p, g, o), *rest = NULL;

  if (c && c->size > 1) {
    carry(p, u, "gradients");
    TRI_TRY(c->ops->reduce_scatter(c, mine, u->acc, u->ro.count, TRI_F32, TRI_SUM, s, NULL));
  }
  /* Replicas that hold the same share. */
  if (o == TRI_SHARD_NONE) rest = p->comm[TRI_WORLD];
  if (o == TRI_SHARD_NODE) rest = p->comm[TRI_CROSS];
  if (!rest || rest->size == 1) return TRI_OK;
  carry(p, u, "gradients");
  return rest->ops->all_reduce(rest, mine, u->ro.count, TRI_F32, TRI_SUM, s, NULL);
}

tri_status tri_params_grad_done(tri_params *p, int index, tri_stream *s, bool last) {
  unit     *u = &p->unit[index];
  tri_comm *c = comm_of(p, p->opt.plan.grads);
  slot     *before = p->pending, *sl;

  TRI_ASSERT(u->grad_open);
  u->grad_open = false;
  if (p->grad_direct) return last ? reduce_last(p, u, s) : TRI_OK;
  sl = grad_slot(p, index);
  TRI_ASSERT(sl && sl->grad_unit == index && sl != before);
  TRI_TRY(finish_reduce(p, s));
  carry(p, u, "gradients");
  TRI_TRY(c->ops->reduce_scatter(c, sl->grad + u->rg.begin, sl->grad, u->rg.count, TRI_F32, TRI_SUM, s,
                                 &sl->grad_req));
  p->pending = sl;
  if (!last) return TRI_OK;
  TRI_TRY(finish_reduce(p, s));
  return reduce_last(p, u, s);
}

/* ---- the update ---- */

tri_optim_view tri_params_optim_view(tri_params *p, int index) {
  unit          *u = &p->unit[index];
  tri_optim_view v = {u->ro, master_of(p, u), u->exp_avg, u->exp_avg_sq, u->acc + (u->ro.begin - u->rg.begin),
                      NULL};

  TRI_ASSERT(!p->pending && !u->fresh && p->opt.train);
  if (u->master) v.half = weight_at(p, u, u->ro.begin);
  return v;
}

tri_status tri_params_grad_sumsq(tri_params *p, tri_stream *s, double *sum) {
  const tri_device_ops *ops = p->device->ops;

  TRI_TRY(ops->fill(s, p->sum, 0, sizeof *p->sum));
  for (int i = 0; i < p->opt.n_unit; i++) {
    tri_optim_view v = tri_params_optim_view(p, i);
    tri_tensor     g = tri_view1(v.grad, TRI_F32, v.range.count);
    TRI_TRY(kernels(p)->sumsq(s, p->sum, &g));
  }
  TRI_TRY(ops->copy(s, p->host_sum, p->sum, sizeof *p->sum));
  TRI_TRY(ops->stream_sync(s));
  *sum = *p->host_sum;
  return TRI_OK;
}

tri_comm *tri_params_optim_comm(tri_params *p) { return comm_of(p, p->opt.plan.optim); }

void tri_params_grad_clear(tri_params *p) {
  for (int i = 0; i < p->opt.n_unit; i++) p->unit[i].fresh = true;
}

tri_status tri_params_publish(tri_params *p, tri_stream *s) {
  for (int i = 0; i < p->opt.n_unit; i++) TRI_TRY(publish_unit(p, &p->unit[i], s));
  tri_params_grad_clear(p);
  return TRI_OK;
}
