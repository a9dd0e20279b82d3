/* params.c - opens, fills and reads the shards of the parameter store. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "params_impl.h"

#include <stdio.h>
#include <string.h>

typedef tri_param_slot slot;
typedef tri_param_unit unit;

enum {
  PAD_ELEMENTS = 64,      /* chosen. Every share starts on a 256-byte boundary in f32, 128 in bf16 */
  FILL_ELEMENTS = 1 << 20 /* chosen, at most 4 MiB of host memory while loading */
};

int64_t tri_param_count(const tri_param_spec *s) {
  int64_t n = 1;

  for (int i = 0; i < s->ndim; i++) n *= s->dim[i];
  return n;
}

void tri_unit_layout(tri_unit_spec *u) {
  int64_t at = 0;

  for (int i = 0; i < u->n_param; i++) {
    if (!u->param[i].joined) at = (at + PAD_ELEMENTS - 1) / PAD_ELEMENTS * PAD_ELEMENTS;
    u->param[i].offset = at;
    at += tri_param_count(&u->param[i]);
  }
  u->count = at;
}

static tri_status plan_in(tri_ledger *l, tri_mem kind, const tri_params *p, tri_phase phase, bool state,
                          const char *what, size_t bytes, void *where) {
  char name[48];

  snprintf(name, sizeof name, "%s %s", p->opt.label, what);
  return tri_ledger_add(l, kind, phase, state, name, bytes, where);
}

static tri_status plan(tri_ledger *l, const tri_params *p, tri_phase phase, bool state, const char *what,
                       size_t bytes, void *where) {
  return plan_in(l, TRI_MEM_DEVICE, p, phase, state, what, bytes, where);
}

/* Returns the bytes of a product's matrix made of blocks. */
static size_t matrix_bytes(const tri_params *p, const tri_blocks *b) {
  return (size_t)(b->n_out * b->n_in) * tri_params_weight_bytes(p);
}

/* Allocates the views for acquire and grad, which belong to the unit, and computes the sizes of its packed
 * forms. If the weight itself serves, a matrix made of blocks is a form too. */
static tri_status open_views(tri_params *p, unit *u) {
  int n_linear = u->spec->n_linear;

  TRI_TRY(TRI_ALLOC(u->view, u->spec->n_param));
  TRI_TRY(TRI_ALLOC(u->grad_view, u->spec->n_param));
  for (int use = 0; use < 2; use++) {
    TRI_TRY(TRI_ALLOC(u->packed[use], n_linear));
    TRI_TRY(TRI_ALLOC(u->packed_bytes[use], n_linear));
  }
  for (int j = 0; j < n_linear; j++) {
    size_t           matrix = matrix_bytes(p, &u->spec->linear[j].blocks);
    tri_linear_bytes b;
    TRI_TRY(tri_params_kernels(p)->linear_size(u->spec->linear[j].linear, &b));
    u->packed_bytes[0][j] = ((b.fwd ? b.fwd : matrix) + 255) / 256 * 256;
    u->packed_bytes[1][j] = ((b.bwd ? b.bwd : matrix) + 255) / 256 * 256;
  }
  return TRI_OK;
}

static void close_views(unit *u) {
  TRI_FREE(u->view);
  TRI_FREE(u->grad_view);
  for (int use = 0; use < 2; use++) {
    TRI_FREE(u->packed[use]);
    TRI_FREE(u->packed_bytes[use]);
  }
}

static size_t packed_bytes(const unit *u, int n_use) {
  size_t bytes = 0;

  for (int use = 0; use < n_use; use++)
    for (int j = 0; j < u->spec->n_linear; j++) bytes += u->packed_bytes[use][j];
  return bytes;
}

/* Plans the state of the update. */
static tri_status plan_optim(tri_params *p, tri_ledger *l, unit *u) {
  tri_mem kind = p->opt.offload ? TRI_MEM_PINNED : TRI_MEM_DEVICE;
  const struct {
    const char *what;
    bool        kept;
    float     **where;
  } row[] = {{"master weights", p->opt.dtype != TRI_F32, &u->master},
             {"moments", true, &u->exp_avg},
             {"moments", true, &u->exp_avg_sq},
             {"average", p->opt.ema_beta > 0, &u->average}};

  TRI_TRY(plan(l, p, TRI_PHASE_ALWAYS, true, "gradients", (size_t)u->rg.count * 4, &u->acc));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].kept)
      TRI_TRY(
          plan_in(l, kind, p, TRI_PHASE_ALWAYS, true, row[i].what, (size_t)u->ro.count * 4, row[i].where));
  return TRI_OK;
}

static tri_status plan_state(tri_params *p, tri_ledger *l, unit *u) {
  tri_mem kind = p->opt.offload && !p->opt.train ? TRI_MEM_PINNED : TRI_MEM_DEVICE;

  tri_ledger_set_gathered(l, true);
  if (p->in_place)
    TRI_TRY(tri_params_share(p, TRI_PHASE_ALWAYS, true, (size_t)u->padded * tri_params_weight_bytes(p),
                             &u->whole));
  else
    TRI_TRY(plan_in(l, kind, p, TRI_PHASE_ALWAYS, true, "weights",
                    (size_t)u->rp.count * tri_params_weight_bytes(p), &u->weight));
  tri_ledger_set_gathered(l, false);
  return p->opt.train ? plan_optim(p, l, u) : TRI_OK;
}

/* Plans memory for a gathered unit of at most `flat` elements and `packed` bytes. */
static tri_status plan_slot(tri_params *p, tri_ledger *l, tri_phase phase, slot *s, int64_t flat,
                            size_t packed, bool grad) {
  s->unit = s->grad_unit = -1;
  tri_ledger_set_gathered(l, true);
  if (!p->resident && !p->in_place)
    TRI_TRY(
        plan(l, p, phase, false, "gathered weights", (size_t)flat * tri_params_weight_bytes(p), &s->flat));
  tri_ledger_set_gathered(l, false);
  if (p->shares)
    TRI_TRY(tri_params_share(p, phase, false, packed, &s->packed_buffers));
  else
    TRI_TRY(plan(l, p, phase, false, "packed weights", packed, &s->packed_buffers));
  if (grad && p->opt.train && !p->grad_direct)
    TRI_TRY(plan(l, p, TRI_PHASE_LEARN, false, "unreduced gradients", (size_t)flat * 4, &s->grad));
  return TRI_OK;
}

/* Plans memory for one matrix of blocks before it is packed. */
static tri_status plan_matrix(tri_params *p, tri_ledger *l) {
  size_t most = 0;

  for (int i = 0; i < p->opt.n_unit; i++)
    for (int j = 0; j < p->opt.unit[i].n_linear; j++) {
      size_t bytes = matrix_bytes(p, &p->opt.unit[i].linear[j].blocks);
      if (bytes > most) most = bytes;
    }
  return plan(l, p, TRI_PHASE_ALWAYS, false, "packed weights", most, &p->matrix);
}

static tri_status plan_slots(tri_params *p, tri_ledger *l) {
  int64_t ring_flat = 0;
  size_t  ring_packed = 0;

  for (int i = 0; i < p->opt.n_unit; i++) {
    unit  *u = &p->unit[i];
    size_t packed = packed_bytes(u, p->opt.backward ? 2 : 1); /* for fwd alone, or for bwd too */
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
  for (int k = 0; k < TRI_PARAM_RING; k++)
    TRI_TRY(plan_slot(p, l, TRI_PHASE_LEARN, &p->ring[k], ring_flat, p->resident ? 0 : ring_packed, true));
  return TRI_OK;
}

/* Announces the collectives of params_gather.c and params_grad.c to the communicators. The third one is for
 * filling. */
static void expect(const tri_params *p) {
  tri_shard_scope fine = tri_params_fine(p);

  tri_comm_expect(tri_params_comm(p, p->opt.plan.params), TRI_ALL_GATHER);
  tri_comm_expect(tri_params_comm_between(p, p->opt.plan.params, fine), TRI_ALL_GATHER);
  tri_comm_expect(tri_params_comm_between(p, fine, TRI_SHARD_WORLD), TRI_ALL_GATHER);
  if (!p->opt.train) return;
  tri_comm_expect(tri_params_comm(p, p->opt.plan.grads), TRI_REDUCE_SCATTER);
  tri_comm_expect(tri_params_stage(p, 0), TRI_REDUCE_SCATTER);
  tri_comm_expect(tri_params_stage(p, 1), TRI_ALL_REDUCE);
}

/* Decides what the ranks of a node have only once (params_share.c). */
static void choose_shares(tri_params *p) {
  const tri_comm *node = p->comm[TRI_NODE];

  p->shares = node->near && tri_params_splits(p, p->opt.plan.params);
  p->in_place = p->shares && tri_params_comm(p, p->opt.plan.params)->size == node->size &&
                (p->opt.train || !p->opt.offload);
}

/* Plans the same store without offload in the ledger, and closes it again. */
static tri_status plan_resident(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger,
                                const tri_params_opt *opt) {
  tri_params    *twin = NULL;
  tri_params_opt resident = *opt;
  tri_status     st;

  resident.offload = 0;
  tri_ledger_set_case(ledger, TRI_CASE_RESIDENT);
  st = tri_params_open(d, comm, ledger, &resident, &twin);
  tri_ledger_set_case(ledger, TRI_CASE_ANY);
  tri_params_close(&twin);
  return st;
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
  p->resident = !tri_params_splits(p, opt->plan.params) && (opt->train || !opt->offload);
  p->grad_direct = !tri_params_splits(p, opt->plan.grads);
  choose_shares(p);
  if (opt->offload) TRI_TRY(plan_resident(d, comm, ledger, opt));
  if (opt->offload) tri_ledger_set_case(ledger, TRI_CASE_OFFLOADED);
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
    TRI_TRY(open_views(p, u));
    TRI_TRY(plan_state(p, ledger, u));
  }
  if (opt->train) {
    TRI_TRY(plan(ledger, p, TRI_PHASE_LEARN, false, "gradient norm", sizeof *p->sum, &p->sum));
    TRI_TRY(tri_ledger_add(ledger, TRI_MEM_PINNED, TRI_PHASE_LEARN, false, "gradient norm",
                           sizeof *p->host_sum, (void **)&p->host_sum));
  }
  TRI_TRY(plan_slots(p, ledger));
  TRI_TRY(tri_params_share_plan(p, ledger));
  TRI_TRY(plan_matrix(p, ledger));
  expect(p);
  if (opt->offload) TRI_TRY(tri_offload_open(p, ledger));
  if (opt->offload) tri_ledger_set_case(ledger, TRI_CASE_ANY);
  return TRI_OK;
}

void tri_params_close(tri_params **p) {
  if (!*p) return;
  tri_offload_close(*p);
  tri_params_share_close(*p);
  for (int i = 0; (*p)->unit && i < (*p)->opt.n_unit; i++) {
    close_views(&(*p)->unit[i]);
    TRI_FREE((*p)->unit[i].own);
  }
  TRI_FREE((*p)->unit);
  TRI_FREE(*p);
}

const tri_params_opt *tri_params_options(const tri_params *p) { return &p->opt; }

/* ---- filling and reading ---- */

static tri_status cast_part(void *dtype, const tri_optim_view *v, tri_stream *s) {
  tri_tensor to = tri_view1(v->half, *(const tri_dtype *)dtype, v->range.count),
             from = tri_view1(v->weight, TRI_F32, v->range.count);

  return s->device->ops->kernels->cast(s, &to, &from);
}

static tri_status cast_master(tri_params *p, int index, tri_stream *s) {
  if (!p->unit[index].master) return TRI_OK;
  return tri_params_optim_each(p, index, 1u << TRI_STATE_WEIGHT, 0, cast_part, &p->opt.dtype, s);
}

/* Copies f32 `from` in host memory to flat element `at` of the unit's state of this kind, in the state's
 * type. */
static tri_status put(tri_params *p, unit *u, tri_state_kind kind, int64_t at, float *from, int64_t n,
                      tri_stream *s) {
  if (kind == TRI_STATE_WEIGHT && !u->master && p->opt.dtype != TRI_F32) {
    for (int64_t k = 0; k < n; k++) { /* a half never lies behind its f32, so the loop may overwrite */
      uint16_t half = tri_f32_to_half(p->opt.dtype, from[k]);
      memcpy((char *)from + (size_t)k * sizeof half, &half, sizeof half);
    }
    return p->device->ops->copy(s, tri_params_weight_at(p, u, at), from, (size_t)n * sizeof(uint16_t));
  }
  return p->device->ops->copy(s, tri_params_state(p, u, kind) + (at - u->ro.begin), from, (size_t)n * 4);
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
      TRI_TRY(p->device->ops->stream_sync(s)); /* scratch is reused */
    }
  }
  return TRI_OK;
}

/* Returns the most elements filled at once. */
static int64_t fill_most(const tri_params *p) {
  int64_t most = 1;

  for (int i = 0; i < p->opt.n_unit; i++)
    for (int k = 0; k < p->unit[i].spec->n_param; k++) {
      int64_t n = tri_params_piece(p, i, k).count;
      if (n > most) most = n;
    }
  return most < FILL_ELEMENTS ? most : FILL_ELEMENTS;
}

tri_status tri_params_fill(tri_params *p, tri_state_kind kind, tri_fill_fn fill, void *ctx, tri_stream *s) {
  tri_status      st = TRI_OK;
  void           *scratch = NULL; /* page-locked, for fast copies to a GPU */
  tri_shard_scope optim = tri_params_fine(p);

  TRI_ASSERT(kind == TRI_STATE_WEIGHT || p->opt.train);
  TRI_TRY(tri_params_share_bind(p));
  TRI_TRY(tri_params_forget_unused(p, s));
  TRI_TRY(tri_params_barrier(p));
  st = p->device->ops->alloc(p->device, TRI_MEM_PINNED, (size_t)fill_most(p) * sizeof(float), &scratch);
  for (int i = 0; i < p->opt.n_unit && st == TRI_OK; i++) st = fill_unit(p, i, kind, fill, ctx, scratch, s);
  p->device->ops->free(p->device, TRI_MEM_PINNED, &scratch);
  TRI_TRY(tri_agree(p->comm[TRI_WORLD], st));
  for (int i = 0; i < p->opt.n_unit; i++) {
    unit     *u = &p->unit[i];
    bool      compute = kind == TRI_STATE_WEIGHT && !u->master;
    void     *base = compute ? tri_params_weight_at(p, u, u->ro.begin) : (void *)tri_params_state(p, u, kind);
    tri_dtype t = compute ? p->opt.dtype : TRI_F32;
    if (tri_offload_holds(p, kind))
      TRI_TRY(tri_offload_spread(p, u, base, t, tri_params_comm_between(p, optim, TRI_SHARD_WORLD),
                                 u->rw.count, s));
    else
      TRI_TRY(tri_params_spread(p, u, base, t, optim, u->ro, TRI_SHARD_WORLD, u->rw, s, NULL));
    if (kind == TRI_STATE_WEIGHT) TRI_TRY(cast_master(p, i, s));
    if (kind == TRI_STATE_WEIGHT) TRI_TRY(tri_params_publish(p, i, s));
  }
  return tri_params_publish_end(p, s);
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
    /* In a frozen 16-bit store, the halves go to the upper half of the buffer and are widened from the
     * front. */
    uint16_t *half = (uint16_t *)host + count;
    TRI_TRY(p->device->ops->copy(s, half, tri_params_weight_at(p, u, at), (size_t)count * 2));
    TRI_TRY(p->device->ops->stream_sync(s));
    for (int64_t k = 0; k < count; k++) {
      uint16_t h;
      memcpy(&h, half + k, sizeof h);
      host[k] = tri_half_to_f32(p->opt.dtype, h);
    }
    return TRI_OK;
  }
  TRI_TRY(
      p->device->ops->copy(s, host, tri_params_state(p, u, kind) + (at - u->ro.begin), (size_t)count * 4));
  return p->device->ops->stream_sync(s);
}

static tri_status average_part(void *beta, const tri_optim_view *v, tri_stream *s) {
  double     b = *(const double *)beta;
  tri_tensor average = tri_view1(v->average, TRI_F32, v->range.count),
             weight = tri_view1(v->weight, TRI_F32, v->range.count);

  return s->device->ops->kernels->axpby(s, &average, (float)(1 - b), &weight, (float)b);
}

tri_status tri_params_average(tri_params *p, bool start, tri_stream *s) {
  const unsigned average = 1u << TRI_STATE_AVERAGE;
  double         beta = start ? 0 : p->opt.ema_beta;

  for (int i = 0; i < p->opt.n_unit; i++)
    TRI_TRY(tri_params_optim_each(p, i, 1u << TRI_STATE_WEIGHT | average, average, average_part, &beta, s));
  return tri_offload_settle(p, s);
}
