/* model.c - the decoder-only transformer: its memory, and the order of its blocks. */
#include "model.h"
#include "decoder.h"

#include <math.h>
#include <stdio.h>

tri_params            *tri_model_params(tri_model *m) { return m->params; }
const tri_model_shape *tri_model_get_shape(const tri_model *m) { return &m->shape; }

/* ---- memory ---- */

static tri_status open_linears(tri_model *m, tri_ledger *ledger) {
  int64_t C = m->shape.C, F = m->shape.F, HD = (int64_t)m->shape.H * m->shape.D;
  int64_t dims[TRI_SLOT_PRODUCTS][2] = {{m->E, C}, {C, HD}, {2 * F, C}, {C, F}, {m->head.ops->n_out(m), C}};

  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++) {
    tri_linear_spec  spec = {dims[i][0], dims[i][1], m->opt.dtype, m->opt.train};
    tri_linear_bytes bytes;
    TRI_TRY(m->k->linear_open(m->device, &spec, &m->linear[i]));
    TRI_TRY(m->k->linear_size(m->linear[i], &bytes));
    if (bytes.workspace > m->workspace_bytes) m->workspace_bytes = bytes.workspace;
  }
  return tri_ledger_add(ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "product workspace",
                        m->workspace_bytes, &m->workspace);
}

typedef struct room {
  void     *where;
  int64_t   elements;
  tri_dtype dtype;
  tri_phase phase;
} room;

static tri_status plan_rooms(tri_model *m, tri_ledger *l, const room *r, int n) {
  char name[48];

  snprintf(name, sizeof name, "%s activations", m->opt.label);
  for (int i = 0; i < n; i++)
    TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, r[i].phase, false, name,
                           (size_t)r[i].elements * tri_dtype_bytes(r[i].dtype), r[i].where));
  return TRI_OK;
}

static tri_status plan_kept(tri_model *m, tri_ledger *l) {
  int64_t   N = m->opt.max_learn_tokens, C = m->shape.C, HD = (int64_t)m->shape.H * m->shape.D;
  tri_dtype A = m->opt.dtype;

  TRI_TRY(TRI_ALLOC(m->acts, m->shape.L));
  for (int i = 0; i < m->shape.L; i++) {
    tri_layer_acts *a = &m->acts[i];
    room            r[] = {{&a->x, N * C, TRI_F32, TRI_PHASE_LEARN},
                           {&a->mid, N * C, TRI_F32, TRI_PHASE_LEARN},
                           {&a->qkv, N * m->E, A, TRI_PHASE_LEARN},
                           {&a->o, N * HD, A, TRI_PHASE_LEARN},
                           {&a->lse, N * m->shape.H, TRI_F32, TRI_PHASE_LEARN},
                           {&a->gate_up, N * 2 * m->shape.F, A, TRI_PHASE_LEARN}};
    TRI_TRY(plan_rooms(m, l, r, m->opt.recompute ? 1 : 6));
  }
  return TRI_OK;
}

static tri_status plan_activations(tri_model *m, tri_ledger *l) {
  int64_t N = m->opt.max_tokens, T = m->opt.train ? m->opt.max_learn_tokens : 0, C = m->shape.C,
          F = m->shape.F;
  int64_t   HD = (int64_t)m->shape.H * m->shape.D;
  tri_dtype A = m->opt.dtype;
  bool      half = A != TRI_F32;
  room      r[] = {{&m->x, N * C, TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->h, N * C, A, TRI_PHASE_ALWAYS},
                   {&m->rstd, N, TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->y, N * F, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.qkv, N * m->E, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.o, N * HD, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.lse, N * m->shape.H, TRI_F32, TRI_PHASE_ALWAYS},
                   {&m->scratch.gate_up, N * 2 * F, A, TRI_PHASE_ALWAYS},
                   {&m->scratch.mid, m->opt.recompute ? T * C : 0, TRI_F32, TRI_PHASE_LEARN},
                   {&m->back.dx, T * C, TRI_F32, TRI_PHASE_LEARN},
                   {&m->back.dxa, half ? T * C : 0, A, TRI_PHASE_LEARN},
                   {&m->back.dy, T * F, A, TRI_PHASE_LEARN},
                   {&m->back.dgu, T * 2 * F, A, TRI_PHASE_LEARN},
                   {&m->back.dh, T * C, A, TRI_PHASE_LEARN},
                   {&m->back.dqkv, T * m->E, A, TRI_PHASE_LEARN},
                   {&m->back.dattn, T * HD, A, TRI_PHASE_LEARN},
                   {&m->back.work, tri_attn_work(&m->rule.heads, T), TRI_F32, TRI_PHASE_LEARN}};

  TRI_TRY(plan_rooms(m, l, r, (int)(sizeof r / sizeof *r)));
  if (m->opt.train) TRI_TRY(plan_kept(m, l));
  return tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "rotary table",
                        (size_t)(m->opt.max_positions * m->shape.D) * 4, (void **)&m->rope);
}

tri_status tri_model_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger,
                          const tri_model_opt *opt, tri_model **out) {
  tri_model     *m;
  tri_params_opt po = {.dtype = opt->dtype,
                       .plan = opt->plan,
                       .place = opt->place,
                       .train = opt->train,
                       .ema_beta = opt->ema_beta,
                       .offload = opt->offload,
                       .backward = opt->train,
                       .rollout = opt->rollout,
                       .label = opt->label};

  TRI_TRY(TRI_ALLOC(*out, 1));
  m = *out;
  m->opt = *opt;
  m->shape = *opt->shape;
  m->tied = m->shape.tied_head && opt->head == TRI_HEAD_TOKENS;
  m->head.ops = opt->head == TRI_HEAD_TOKENS ? &tri_head_tokens : &tri_head_scalar;
  m->rule = (tri_attn_rule){{m->shape.H, m->shape.G, m->shape.D}, (float)(1.0 / sqrt((double)m->shape.D))};
  m->E = ((int64_t)m->shape.H + 2 * m->shape.G) * m->shape.D;
  m->device = d;
  m->k = d->ops->kernels;
  TRI_TRY(open_linears(m, ledger));
  TRI_TRY(tri_units_make(m));
  po.unit = m->unit;
  po.n_unit = m->n_unit;
  TRI_TRY(tri_params_open(d, comm, ledger, &po, &m->params));
  TRI_TRY(plan_activations(m, ledger));
  return tri_head_plan(m, ledger);
}

void tri_model_close(tri_model **m) {
  if (!*m) return;
  tri_params_close(&(*m)->params);
  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++)
    if ((*m)->linear[i]) (void)(*m)->k->linear_close(&(*m)->linear[i]);
  tri_units_free(*m);
  TRI_FREE((*m)->acts);
  TRI_FREE(*m);
}

tri_status tri_model_start(tri_model *m, tri_stream *s) {
  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++)
    TRI_TRY(m->k->linear_bind(m->linear[i], m->workspace, m->workspace_bytes));
  return tri_rope_fill(m, s);
}

tri_status tri_model_hold(tri_model *m, bool hold, tri_stream *s) {
  return tri_params_hold(m->params, hold, s);
}

/* Products [first, end) with the unit's weights, if *st is still good: a rank whose products fail takes part
 * in the gathers of the others. */
static tri_status check_products(tri_model *m, int unit, int first, int end, tri_status *st, tri_stream *s) {
  tri_block_call c = {.unit = unit};

  TRI_TRY(tri_unit_acquire(m, &c, TRI_USE_FWD, -1, s));
  for (int i = first; i < end && *st == TRI_OK; i++)
    *st = m->k->linear_check(s, m->linear[i], c.w.packed_fwd[m->slots[unit].product[i]]);
  return tri_unit_release(m, &c, s);
}

tri_status tri_model_check(tri_model *m, tri_stream *s) {
  tri_status st = TRI_OK;

  TRI_TRY(check_products(m, tri_unit_of_layer(0), 0, TRI_SLOT_HEAD, &st, s));
  if (m->head.ops->sample) /* a head that draws nothing owes nobody equal bits */
    TRI_TRY(check_products(m, m->tied ? 0 : tri_unit_of_head(m), TRI_SLOT_HEAD, TRI_SLOT_PRODUCTS, &st, s));
  return st;
}

/* ---- the order of the blocks ---- */

static tri_status embed(tri_model *m, const tri_batch *b, void *to, tri_block_mode mode, tri_stream *s) {
  tri_block_call c = {.mode = mode, .unit = 0, .batch = b};
  tri_tensor     x = tri_rows_f32(to, b->token.dim[0], m->shape.C);
  int            span;

  TRI_TRY(tri_unit_acquire(m, &c, 0, tri_unit_of_layer(0), s));
  span = tri_unit_span(m, &c, s);
  TRI_TRY(m->k->embed_fwd(s, &x, tri_weight_at(m, &c, TRI_SLOT_EMBED), &b->token));
  tri_trace_end(m->device->trace, span, s);
  return tri_unit_release(m, &c, s);
}

static tri_status embed_backward(tri_model *m, const tri_batch *b, bool last, tri_stream *s) {
  tri_block_call c = {.mode = TRI_BLOCK_BACKWARD, .unit = 0, .batch = b};
  tri_tensor     dx = tri_rows_f32(m->back.dx, b->token.dim[0], m->shape.C), dtable;
  int            span;

  TRI_TRY(tri_params_grad(m->params, 0, s, &c.dw));
  dtable = *tri_grad_at(m, &c, TRI_SLOT_EMBED);
  span = tri_unit_span(m, &c, s);
  TRI_TRY(m->k->embed_bwd(s, &dtable, &dx, &b->token));
  tri_trace_end(m->device->trace, span, s);
  return tri_unit_learned(m, &c, last, s);
}

/* The buffers layer l works in, and where its output goes. */
static tri_layer_acts acts_of(const tri_model *m, int layer, bool keep, void **out) {
  tri_layer_acts a = m->scratch;

  *out = m->x;
  if (!keep) {
    a.x = a.mid = m->x;
    return a;
  }
  if (layer + 1 < m->shape.L) *out = m->acts[layer + 1].x;
  if (!m->opt.recompute) return m->acts[layer];
  a.x = m->acts[layer].x;
  return a;
}

static tri_status run_layers(tri_model *m, const tri_batch *b, bool keep, tri_kv *kv, tri_block_mode mode,
                             tri_stream *s) {
  TRI_ASSERT(b->token.dim[0] <= (keep ? m->opt.max_learn_tokens : m->opt.max_tokens));
  TRI_TRY(embed(m, b, keep ? m->acts[0].x : m->x, mode, s));
  for (int layer = 0; layer < m->shape.L; layer++) {
    tri_block_call c = {.mode = mode, .unit = tri_unit_of_layer(layer), .batch = b, .kv = kv};
    tri_layer_acts a = acts_of(m, layer, keep, &c.out);
    int            span;
    c.acts = &a;
    TRI_TRY(tri_unit_acquire(m, &c, TRI_USE_FWD, c.unit + 1, s));
    span = tri_unit_span(m, &c, s);
    TRI_TRY(tri_block_forward(m, &c, s));
    tri_trace_end(m->device->trace, span, s);
    TRI_TRY(tri_unit_release(m, &c, s));
  }
  return TRI_OK;
}

tri_status tri_model_forward(tri_model *m, const tri_batch *b, bool keep, float inv_temperature,
                             tri_rows_out *out, tri_stream *s) {
  TRI_TRY(run_layers(m, b, keep, NULL, TRI_BLOCK_FORWARD, s));
  return tri_head_forward(m, b, inv_temperature, out, s);
}

tri_status tri_model_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d, float inv_temperature,
                              bool last, tri_stream *s) {
  TRI_ASSERT(m->opt.train);
  TRI_TRY(tri_head_backward(m, b, d, inv_temperature, last, s));
  for (int layer = m->shape.L - 1; layer >= 0; layer--) {
    tri_block_call c = {.mode = TRI_BLOCK_BACKWARD, .unit = tri_unit_of_layer(layer), .batch = b}, again;
    tri_layer_acts a = acts_of(m, layer, true, &c.out);
    int            span;
    c.acts = &a;
    TRI_TRY(tri_unit_acquire(m, &c, TRI_USE_FWD | TRI_USE_BWD, layer > 0 ? c.unit - 1 : -1, s));
    span = tri_unit_span(m, &c, s);
    again = c;
    again.mode = TRI_BLOCK_AGAIN;
    if (m->opt.recompute) TRI_TRY(tri_block_forward(m, &again, s));
    TRI_TRY(tri_block_backward(m, &c, s));
    tri_trace_end(m->device->trace, span, s);
    TRI_TRY(tri_unit_release(m, &c, s));
    TRI_TRY(tri_unit_learned(m, &c, last, s));
  }
  return embed_backward(m, b, last, s);
}

tri_status tri_model_prefill(tri_model *m, const tri_batch *b, tri_kv *kv, tri_stream *s) {
  return run_layers(m, b, false, kv, TRI_BLOCK_PREFILL, s);
}

tri_status tri_model_decode(tri_model *m, const tri_batch *b, tri_kv *kv, const tri_tensor *key,
                            const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s) {
  TRI_TRY(run_layers(m, b, false, kv, TRI_BLOCK_DECODE, s));
  return tri_head_sample(m, b, key, rule, token, logp, s);
}
