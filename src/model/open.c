/* open.c - opens a model: products, memory plan, constants, hold and check. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "decoder.h"

#include <math.h>
#include <stdio.h>

tri_params *tri_model_params(tri_model *m) { return m->params; }
tri_params *tri_model_trained(tri_model *m) { return m->adapters.params ? m->adapters.params : m->params; }
const tri_model_shape *tri_model_get_shape(const tri_model *m) { return &m->shape; }
tri_attn_rule          tri_model_attention(const tri_model *m, tri_layer_kind kind) {
           return m->divided.t > 1 ? m->divided.attn[kind] : m->rules.attn[kind];
}

tri_model_shape tri_model_cache_shape(const tri_model *m) {
  tri_model_shape s = m->shape;

  s.H /= m->divided.t;
  s.G /= m->divided.t;
  return s;
}

tri_comm *tri_model_tensor(const tri_model *m) { return m->divided.t > 1 ? m->divided.comm : NULL; }

static tri_status open_linears(tri_model *m) {
  const tri_delta_rule *r = &m->rules.delta;
  int64_t C = m->shape.C, F = m->shape.F, HD = (int64_t)m->shape.H * m->shape.D, Z = (int64_t)r->Hv * r->Dv;
  int     recurrent = tri_recurrent_layers(&m->shape);
  bool    attends = recurrent < m->shape.L;
  const int64_t dims[TRI_SLOT_PRODUCTS][2] = {[TRI_SLOT_QKV] = {m->E + (m->shape.attn_gate ? HD : 0), C},
                                              [TRI_SLOT_O] = {C, HD},
                                              [TRI_SLOT_GATE_UP] = {2 * F, C},
                                              [TRI_SLOT_DOWN] = {C, F},
                                              [TRI_SLOT_DELTA_QKV] = {tri_delta_width(r), C},
                                              [TRI_SLOT_DELTA_Z] = {Z, C},
                                              [TRI_SLOT_DELTA_BA] = {2 * (int64_t)r->Hv, C},
                                              [TRI_SLOT_DELTA_OUT] = {C, Z},
                                              [TRI_SLOT_HEAD] = {m->head.ops->n_out(m), C}};

  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++) {
    tri_linear_bytes bytes;
    if (i >= TRI_SLOT_DELTA_QKV && i <= TRI_SLOT_DELTA_OUT && !recurrent) continue;
    if ((i == TRI_SLOT_QKV || i == TRI_SLOT_O) && !attends) continue;
    m->spec[i] =
        (tri_linear_spec){dims[i][0], dims[i][1], m->opt.dtype, m->opt.train, m->opt.any_order, NULL};
    TRI_TRY(m->k->linear_open(m->device, &m->spec[i], &m->linear[i]));
    TRI_TRY(m->k->linear_size(m->linear[i], &bytes));
    if (bytes.workspace > m->workspace_bytes) m->workspace_bytes = bytes.workspace;
  }
  return TRI_OK;
}

typedef struct workspace {
  void     *where;
  int64_t   elements;
  tri_dtype dtype;
  tri_phase phase;
} workspace;

static tri_status plan_workspaces(tri_model *m, tri_ledger *l, const workspace *r, int n) {
  char name[48];

  snprintf(name, sizeof name, "%s activations", m->opt.label);
  tri_ledger_set_member(l, m->member);
  for (int i = 0; i < n; i++)
    TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, r[i].phase, false, name,
                           (size_t)r[i].elements * tri_dtype_bytes(r[i].dtype), r[i].where));
  tri_ledger_set_member(l, 0);
  return TRI_OK;
}

/* Elements of a row of the activations whose size depends on the kind of layer (decoder.h). */
typedef struct row_sizes {
  int64_t qkv, o, lse, gate, ba;
} row_sizes;

static row_sizes sizes_of(const tri_model *m, bool recurrent) {
  const tri_delta_rule *r = &m->rules.delta;
  int64_t               HD = (int64_t)m->shape.H * m->shape.D, Z = (int64_t)r->Hv * r->Dv;

  if (recurrent) return (row_sizes){tri_delta_width(r), Z, r->Hv, Z, 2 * (int64_t)r->Hv};
  return (row_sizes){m->E, HD, m->shape.H, m->shape.attn_gate ? HD : 0, 0};
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns the sizes of buffers for the layers of both kinds, as far as the model has both. */
static row_sizes sizes_of_all(const tri_model *m) {
  int       recurrent = tri_recurrent_layers(&m->shape);
  row_sizes a = sizes_of(m, false), r = sizes_of(m, true);

  if (!recurrent) return a;
  if (recurrent == m->shape.L) return r;
  return (row_sizes){larger(a.qkv, r.qkv), larger(a.o, r.o), larger(a.lse, r.lse), larger(a.gate, r.gate),
                     r.ba};
}

/* Returns the elements of a row of tri_wide_rows. */
static int64_t wide_elements(const tri_model *m) {
  int64_t raw = m->shape.attn_gate ? m->E + (int64_t)m->shape.H * m->shape.D : 0;

  return tri_recurrent_layers(&m->shape) ? larger(raw, tri_delta_width(&m->rules.delta)) : raw;
}

/* Returns the elements of the workspace of attn_bwd and delta_bwd for T tokens. */
static int64_t backward_elements(const tri_model *m, int64_t T) {
  int     recurrent = tri_recurrent_layers(&m->shape);
  int64_t n = 0;

  if (!T) return 0;
  if (recurrent < m->shape.L) n = tri_attn_workspace(&m->advice, tri_heads_of(m), m->opt.dtype, T);
  return recurrent ? larger(n, tri_delta_work(&m->rules.delta, T)) : n;
}

/* Elements of buffers that only some families need: the inputs of the head norms of q and k, and the input of
 * a post-norm. */
static int64_t of_heads(const tri_model *m, int64_t n) {
  return tri_layers_have(m, TRI_SLOT_Q_NORM) ? n * (m->shape.H + m->shape.G) * m->shape.D : 0;
}
static int64_t of_post(const tri_model *m, int64_t n) {
  return tri_layers_have(m, TRI_SLOT_POST_NORM1) ? n * m->shape.C : 0;
}
/* Elements of results that are scaled or normed before they join the residual stream. */
static int64_t of_joined(const tri_model *m, int64_t n) {
  return tri_scales_residual(m) ? n * m->shape.C : of_post(m, n);
}

static tri_status plan_kept(tri_model *m, tri_ledger *l) {
  int64_t   N = m->opt.max_learn_tokens, C = m->shape.C;
  tri_dtype A = m->opt.dtype;

  TRI_TRY(TRI_ALLOC(m->acts, m->shape.L));
  for (int i = 0; i < m->shape.L; i++) {
    tri_layer_acts *a = &m->acts[i];
    bool            recurs = tri_is_recurrent(&m->shape, i);
    row_sizes       each = sizes_of(m, recurs);
    int64_t         normed = recurs ? 0 : N; /* rows with norms of heads */
    workspace       r[] = {{&a->x, N * C, TRI_F32, TRI_PHASE_LEARN},
                           {&a->mid, N * C, TRI_F32, TRI_PHASE_LEARN},
                           {&a->qkv, N * each.qkv, A, TRI_PHASE_LEARN},
                           {&a->o, N * each.o, A, TRI_PHASE_LEARN},
                           {&a->lse, N * each.lse, TRI_F32, TRI_PHASE_LEARN},
                           {&a->gate, N * each.gate, A, TRI_PHASE_LEARN},
                           {&a->ba, N * each.ba, A, TRI_PHASE_LEARN},
                           {&a->gate_up, N * 2 * m->shape.F, A, TRI_PHASE_LEARN},
                           {&a->raw, of_heads(m, normed), A, TRI_PHASE_LEARN},
                           {&a->heads_rstd, normed * tri_heads_normed(m), TRI_F32, TRI_PHASE_LEARN},
                           {&a->attn, of_post(m, N), TRI_F32, TRI_PHASE_LEARN},
                           {&a->mlp, of_post(m, N), TRI_F32, TRI_PHASE_LEARN}};
    TRI_TRY(plan_workspaces(m, l, r, m->opt.recompute ? 1 : (int)(sizeof r / sizeof *r)));
  }
  return TRI_OK;
}

static tri_status plan_activations(tri_model *m, tri_ledger *l) {
  int64_t N = m->opt.max_tokens, T = m->opt.train ? m->opt.max_learn_tokens : 0, C = m->shape.C,
          F = m->shape.F;
  row_sizes each = sizes_of_all(m);
  tri_dtype A = m->opt.dtype;
  bool      half = A != TRI_F32;
  int64_t   again = m->opt.recompute ? T : 0; /* tokens of a recomputed layer */
  workspace r[] = {{&m->x, N * C, TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->h, N * C, A, TRI_PHASE_ALWAYS},
                   {&m->rstd, N, TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->y, N * larger(F, each.gate), A, TRI_PHASE_ALWAYS},
                   {&m->scratch.qkv, N * each.qkv, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.o, N * each.o, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.lse, N * each.lse, TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->scratch.gate, N * each.gate, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.ba, N * each.ba, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.gate_up, N * larger(2 * F, wide_elements(m)), A, TRI_PHASE_ALWAYS},
                   {&m->scratch.attn, of_joined(m, N), TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->scratch.mid, again * C, TRI_F32, TRI_PHASE_LEARN},
                   {&m->scratch.mlp, of_post(m, again), TRI_F32, TRI_PHASE_LEARN},
                   {&m->scratch.raw, of_heads(m, again), A, TRI_PHASE_LEARN},
                   {&m->scratch.heads_rstd, again * tri_heads_normed(m), TRI_F32, TRI_PHASE_LEARN},
                   {&m->back.dx, T * C, TRI_F32, TRI_PHASE_LEARN},
                   {&m->back.dxa, half ? T * C : 0, A, TRI_PHASE_LEARN},
                   {&m->back.dy, T * larger(F, each.ba), A, TRI_PHASE_LEARN},
                   {&m->back.dgu, T * larger(2 * F, each.gate), A, TRI_PHASE_LEARN},
                   {&m->back.dh, T * C, A, TRI_PHASE_LEARN},
                   {&m->back.dpost, of_joined(m, T), TRI_F32, TRI_PHASE_LEARN},
                   {&m->back.dqkv, T * each.qkv, A, TRI_PHASE_LEARN},
                   {&m->back.dattn, T * each.o, A, TRI_PHASE_LEARN},
                   {&m->back.work, backward_elements(m, T), TRI_F32, TRI_PHASE_LEARN}};

  TRI_TRY(plan_workspaces(m, l, r, (int)(sizeof r / sizeof *r)));
  if (m->opt.train) TRI_TRY(plan_kept(m, l));
  return tri_rope_plan(m, l);
}

/* Sets the constants of the kernels. A window larger than any position is no window. The factor of embeddings
 * is rounded to the compute type, as in transformers (Gemma2TextScaledWordEmbedding) and in Gemma's own
 * training. */
static void set_rules(tri_model *m) {
  const tri_model_shape *s = &m->shape;
  double                 scalar = s->attn.query_scalar > 0 ? s->attn.query_scalar : s->D;
  float                  root = sqrtf((float)s->C);
  double                 scale = s->attn.multiplier > 0 ? s->attn.multiplier : 1.0 / sqrt(scalar);

  for (int k = 0; k < TRI_KINDS; k++)
    m->rules.attn[k] = (tri_attn_rule){{s->H, s->G, s->D}, (float)scale, (float)s->attn.softcap, 0, 0};
  m->rules.delta =
      (tri_delta_rule){s->delta.Hk, s->delta.Hv, s->delta.Dk, s->delta.Dv, s->delta.conv, s->norm_eps};
  if (s->attn.window < m->opt.max_positions) m->rules.attn[TRI_LOCAL].window = s->attn.window;
  m->rules.norm = (tri_norm_rule){s->norm_eps, s->family->norm_plus};
  if (m->opt.dtype != TRI_F32) root = tri_half_to_f32(m->opt.dtype, tri_f32_to_half(m->opt.dtype, root));
  m->rules.embed_scale = s->embed_multiplier > 0   ? (float)s->embed_multiplier
                         : s->family->embed_scaled ? root
                                                   : 1.0f;
  m->rules.residual = s->residual_multiplier > 0 ? (float)s->residual_multiplier : 1.0f;
  m->rules.logits = s->logit_divisor > 0 ? (float)(1.0 / s->logit_divisor) : 1.0f;
}

tri_status tri_model_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger,
                          const tri_model_opt *opt, tri_model **out) {
  tri_model     *m;
  bool           frozen = opt->lora.rank; /* the adapters learn instead */
  tri_params_opt po = {.dtype = opt->dtype,
                       .plan = opt->plan,
                       .place = opt->place,
                       .train = opt->train && !frozen,
                       .ema_beta = frozen ? 0 : opt->ema_beta,
                       .offload = frozen ? 0 : opt->offload,
                       .backward = opt->train,
                       .rollout = opt->rollout,
                       .label = opt->label};

  TRI_TRY(TRI_ALLOC(*out, 1));
  m = *out;
  m->opt = *opt;
  m->shape = *opt->shape;
  if (opt->workspace) po.member = m->member = ++opt->workspace->models;
  m->tied = m->shape.tied_head && opt->head == TRI_HEAD_TOKENS;
  m->head.ops = opt->head == TRI_HEAD_TOKENS ? &tri_head_tokens : &tri_head_scalar;
  set_rules(m);
  m->E = ((int64_t)m->shape.H + 2 * m->shape.G) * m->shape.D;
  m->device = d;
  d->ops->advice(d, &m->advice);
  m->k = d->ops->kernels;
  TRI_TRY(open_linears(m));
  TRI_TRY(tri_units_make(m));
  TRI_TRY(tri_divided_open(m, comm));
  po.slice = m->divided.slice;
  po.unit = m->unit;
  po.n_unit = m->n_unit;
  TRI_TRY(tri_params_open(d, comm, ledger, &po, &m->params));
  TRI_TRY(tri_adapters_open(m, comm, ledger));
  tri_ledger_set_member(ledger, m->member);
  TRI_TRY(tri_ledger_add(ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "product workspace",
                         m->workspace_bytes, &m->workspace));
  tri_ledger_set_member(ledger, 0);
  TRI_TRY(plan_activations(m, ledger));
  TRI_TRY(tri_head_plan(m, ledger));
  return tri_divided_plan(m, ledger);
}

void tri_model_close(tri_model **m) {
  if (!*m) return;
  tri_adapters_close(&(*m)->adapters, (*m)->k);
  tri_divided_close(*m);
  tri_params_close(&(*m)->params);
  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++)
    if ((*m)->linear[i]) (void)(*m)->k->linear_close(&(*m)->linear[i]);
  tri_units_free(*m);
  TRI_FREE((*m)->acts);
  TRI_FREE(*m);
}

tri_status tri_model_start(tri_model *m, tri_stream *s) {
  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++) {
    if (!m->linear[i]) continue;
    TRI_TRY(m->k->linear_bind(m->linear[i], m->workspace, m->workspace_bytes));
    if (m->divided.linear[i])
      TRI_TRY(m->k->linear_bind(m->divided.linear[i], m->workspace, m->workspace_bytes));
  }
  TRI_TRY(tri_adapters_start(m));
  return tri_rope_start(m, s);
}

/* Collective over the parameter scope. Drops what m has in its workspace. */
static tri_status forget(tri_model *m, tri_stream *s) {
  m->head.kept_rows = 0;
  if (m->adapters.params) TRI_TRY(tri_params_forget_all(m->adapters.params, s));
  return tri_params_forget_all(m->params, s);
}

tri_status tri_workspace_take(tri_model *m, tri_stream *s) {
  tri_workspace *w = m->opt.workspace;

  if (!w || w->user == m) return TRI_OK;
  TRI_ASSERT(!w->user || !w->user->held);
  if (w->user) TRI_TRY(forget(w->user, s));
  w->user = m;
  /* Ranks that share packed forms write into each other's part of the workspace. So they meet here, where all
   * have left the model before, which may share with other ranks or with none. */
  return forget(m, s);
}

tri_status tri_model_hold(tri_model *m, bool hold, tri_stream *s) {
  tri_status st = TRI_OK, own;

  TRI_TRY(tri_workspace_take(m, s));
  m->held = hold;
  if (m->adapters.params) st = tri_params_hold(m->adapters.params, hold, s);
  own = tri_params_hold(m->params, hold, s); /* after an error too, as the other ranks gather */
  return st == TRI_OK ? own : st;
}

void tri_model_adapt(tri_model *m, bool on) {
  TRI_ASSERT(on || m->opt.head == TRI_HEAD_TOKENS); /* a scalar head belongs to the adapters */
  m->adapters.off = !on;
}

/* Checks products [first, end) with the unit's weights, or in a divided mode with this rank's slice of them.
 * Does nothing if *st is not TRI_OK. A rank with a failed product still takes part in the gathers of the
 * others. */
static tri_status check_products(tri_model *m, tri_block_mode mode, int unit, int first, int end,
                                 tri_status *st, tri_stream *s) {
  tri_block_call     c = {.mode = mode, .unit = unit};
  tri_linear *const *linear = tri_is_divided(m, &c) ? m->divided.linear : m->linear;

  TRI_TRY(tri_unit_acquire(m, &c, TRI_USE_FWD, -1, s));
  for (int i = first; i < end && *st == TRI_OK; i++)
    if (m->slots[unit].param[i] >= 0)
      *st = m->k->linear_check(s, linear[i], c.w.packed_fwd[m->slots[unit].product[i]]);
  if (*st == TRI_OK && first == 0) *st = tri_adapters_check(m, &c, s);
  return tri_unit_release(m, &c, s);
}

/* Checks the products of the first layer of each kind, which are those of all layers, and the head's. */
static tri_status check_units(tri_model *m, tri_block_mode mode, tri_status *st, tri_stream *s) {
  static const tri_slot of_kind[] = {TRI_SLOT_QKV, TRI_SLOT_DELTA_QKV};

  for (int k = 0; k < 2; k++)
    if (tri_layers_have(m, of_kind[k]))
      TRI_TRY(check_products(m, mode, tri_unit_of_layer(m->layer_with[of_kind[k]]), 0, TRI_SLOT_HEAD, st, s));
  if (!m->head.ops->sample) return TRI_OK; /* a head that draws no tokens need not promise equal bits */
  return check_products(m, mode, m->tied ? 0 : tri_unit_of_head(m), TRI_SLOT_HEAD, TRI_SLOT_PRODUCTS, st, s);
}

tri_status tri_model_check(tri_model *m, tri_stream *s) {
  tri_status st = TRI_OK, held, end;

  TRI_TRY(tri_workspace_take(m, s));
  TRI_TRY(check_units(m, TRI_BLOCK_FORWARD, &st, s));
  if (m->divided.t == 1) return st;
  held = tri_model_hold(m, true, s);
  if (held == TRI_OK) held = check_units(m, TRI_BLOCK_DECODE, &st, s);
  end = tri_model_hold(m, false, s); /* the other ranks come here too */
  return held != TRI_OK ? held : end != TRI_OK ? end : st;
}
