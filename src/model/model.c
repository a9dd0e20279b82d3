/* model.c - the decoder-only transformer: its units, its memory, and the order of its blocks. */
#include "model.h"
#include "decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int tri_unit_of_layer(int layer) { return layer + 1; }
int tri_unit_of_head(const tri_model *m) { return m->shape.L + 1; }

tri_params            *tri_model_params(tri_model *m) { return m->params; }
const tri_model_shape *tri_model_get_shape(const tri_model *m) { return &m->shape; }

/* ---- units ---- */

static int add_param(tri_unit_spec *u, tri_init init, int64_t d0, int64_t d1, const char *fmt, int layer) {
  tri_param_spec *p = &u->param[u->n_param];

  TRI_ASSERT(u->n_param < TRI_UNIT_PARAMS);
  snprintf(p->name, sizeof p->name, fmt, layer); /* NOLINT: fmt is one of the literals below */
  p->ndim = d1 ? 2 : 1;
  p->dim[0] = d0;
  p->dim[1] = d1;
  p->init = init;
  return u->n_param++;
}

static void add_linear(tri_unit_spec *u, int first, int n, tri_linear *l) {
  tri_linear_use use = {first, n, l};
  u->linear[u->n_linear++] = use;
}

#define LAYER(what) "model.layers.%d." what
static void layer_unit(tri_model *m, tri_unit_spec *u, int layer) {
  const tri_model_shape *sh = &m->shape;
  tri_layer_index       *ix = &m->index;
  int64_t                C = sh->C, F = sh->F, HD = (int64_t)sh->H * sh->D, GD = (int64_t)sh->G * sh->D;

  snprintf(u->name, sizeof u->name, "layer %d", layer);
  u->in_ring = true;
  ix->q_bias = ix->o_bias = ix->gate_bias = ix->down_bias = -1;
  ix->norm1 = add_param(u, TRI_INIT_ONES, C, 0, LAYER("input_layernorm.weight"), layer);
  ix->q = add_param(u, TRI_INIT_NORMAL, HD, C, LAYER("self_attn.q_proj.weight"), layer);
  add_param(u, TRI_INIT_NORMAL, GD, C, LAYER("self_attn.k_proj.weight"), layer);
  add_param(u, TRI_INIT_NORMAL, GD, C, LAYER("self_attn.v_proj.weight"), layer);
  if (sh->qkv_bias) {
    ix->q_bias = add_param(u, TRI_INIT_ZEROS, HD, 0, LAYER("self_attn.q_proj.bias"), layer);
    add_param(u, TRI_INIT_ZEROS, GD, 0, LAYER("self_attn.k_proj.bias"), layer);
    add_param(u, TRI_INIT_ZEROS, GD, 0, LAYER("self_attn.v_proj.bias"), layer);
  }
  ix->o = add_param(u, TRI_INIT_NORMAL, C, HD, LAYER("self_attn.o_proj.weight"), layer);
  if (sh->o_bias) ix->o_bias = add_param(u, TRI_INIT_ZEROS, C, 0, LAYER("self_attn.o_proj.bias"), layer);
  ix->norm2 = add_param(u, TRI_INIT_ONES, C, 0, LAYER("post_attention_layernorm.weight"), layer);
  ix->gate = add_param(u, TRI_INIT_NORMAL, F, C, LAYER("mlp.gate_proj.weight"), layer);
  add_param(u, TRI_INIT_NORMAL, F, C, LAYER("mlp.up_proj.weight"), layer);
  if (sh->mlp_bias) {
    ix->gate_bias = add_param(u, TRI_INIT_ZEROS, F, 0, LAYER("mlp.gate_proj.bias"), layer);
    add_param(u, TRI_INIT_ZEROS, F, 0, LAYER("mlp.up_proj.bias"), layer);
  }
  ix->down = add_param(u, TRI_INIT_NORMAL, C, F, LAYER("mlp.down_proj.weight"), layer);
  if (sh->mlp_bias) ix->down_bias = add_param(u, TRI_INIT_ZEROS, C, 0, LAYER("mlp.down_proj.bias"), layer);
  add_linear(u, ix->q, 3, m->linear[TRI_LIN_QKV]);
  add_linear(u, ix->o, 1, m->linear[TRI_LIN_O]);
  add_linear(u, ix->gate, 2, m->linear[TRI_LIN_GATE_UP]);
  add_linear(u, ix->down, 1, m->linear[TRI_LIN_DOWN]);
}

static tri_status make_units(tri_model *m) {
  tri_unit_spec *embed, *head;

  m->n_unit = m->shape.L + 2;
  TRI_TRY(TRI_ALLOC(m->unit, m->n_unit));
  embed = &m->unit[0];
  head = &m->unit[m->n_unit - 1];
  snprintf(embed->name, sizeof embed->name, "embedding");
  snprintf(head->name, sizeof head->name, "head");
  add_param(embed, TRI_INIT_NORMAL, m->shape.V, m->shape.C, "model.embed_tokens.weight", 0);
  for (int l = 0; l < m->shape.L; l++) layer_unit(m, &m->unit[1 + l], l);
  add_param(head, TRI_INIT_ONES, m->shape.C, 0, "model.norm.weight", 0);
  if (m->shape.tied_head)
    add_linear(embed, 0, 1, m->linear[TRI_LIN_HEAD]);
  else
    add_linear(head, add_param(head, TRI_INIT_NORMAL, m->shape.V, m->shape.C, "lm_head.weight", 0), 1,
               m->linear[TRI_LIN_HEAD]);
  for (int i = 0; i < m->n_unit; i++) tri_unit_layout(&m->unit[i]);
  return TRI_OK;
}

/* ---- memory ---- */

static tri_status open_linears(tri_model *m, tri_ledger *ledger) {
  int64_t C = m->shape.C, F = m->shape.F, HD = (int64_t)m->shape.H * m->shape.D;
  int64_t dims[TRI_LIN_COUNT][2] = {{m->E, C}, {C, HD}, {2 * F, C}, {C, F}, {m->shape.V, C}};

  for (int i = 0; i < TRI_LIN_COUNT; i++) {
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
                   {&m->dx, T * C, TRI_F32, TRI_PHASE_LEARN},
                   {&m->dxa, half ? T * C : 0, A, TRI_PHASE_LEARN},
                   {&m->dy, T * F, A, TRI_PHASE_LEARN},
                   {&m->dgu, T * 2 * F, A, TRI_PHASE_LEARN},
                   {&m->dh, T * C, A, TRI_PHASE_LEARN},
                   {&m->dqkv, T * m->E, A, TRI_PHASE_LEARN},
                   {&m->dout, T * HD, A, TRI_PHASE_LEARN},
                   {&m->work, tri_attn_work(&m->heads, T), TRI_F32, TRI_PHASE_LEARN}};

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
                       .rollout = opt->rollout,
                       .label = opt->label};

  TRI_TRY(TRI_ALLOC(*out, 1));
  m = *out;
  m->opt = *opt;
  m->shape = *opt->shape;
  m->heads = (tri_heads){m->shape.H, m->shape.G, m->shape.D};
  m->E = ((int64_t)m->shape.H + 2 * m->shape.G) * m->shape.D;
  m->device = d;
  m->k = d->ops->kernels;
  TRI_TRY(open_linears(m, ledger));
  TRI_TRY(make_units(m));
  po.unit = m->unit;
  po.n_unit = m->n_unit;
  TRI_TRY(tri_params_open(d, comm, ledger, &po, &m->params));
  TRI_TRY(plan_activations(m, ledger));
  return tri_head_plan(m, ledger);
}

void tri_model_close(tri_model **m) {
  if (!*m) return;
  tri_params_close(&(*m)->params);
  for (int i = 0; i < TRI_LIN_COUNT; i++)
    if ((*m)->linear[i]) (void)(*m)->k->linear_close(&(*m)->linear[i]);
  TRI_FREE((*m)->unit);
  TRI_FREE((*m)->acts);
  TRI_FREE(*m);
}

/* Inverse frequencies of the rotary embedding (Su et al. 2021), f32 as transformers computes them, with its
 * "linear" and "llama3" scalings (transformers, modeling_rope_utils.py, _compute_linear/llama3_parameters).
 */
static float inverse_frequency(const tri_model_shape *sh, int i) {
  float  power = (float)(2 * i) / (float)sh->D;
  float  f = 1.0f / powf((float)sh->rope_theta, power);
  double wave, low, high, smooth;

  if (sh->rope_type == TRI_ROPE_LINEAR) return f / (float)sh->rope_factor;
  if (sh->rope_type != TRI_ROPE_LLAMA3) return f;
  wave = 2 * 3.14159265358979323846 / (double)f;
  low = (double)sh->rope_original_max_pos / sh->rope_low_freq;
  high = (double)sh->rope_original_max_pos / sh->rope_high_freq;
  if (wave > low) return f / (float)sh->rope_factor;
  if (wave < high) return f;
  smooth = ((double)sh->rope_original_max_pos / wave - sh->rope_low_freq) /
           (sh->rope_high_freq - sh->rope_low_freq);
  return (float)((1 - smooth) * (double)(f / (float)sh->rope_factor) + smooth * (double)f);
}

tri_status tri_model_start(tri_model *m, tri_stream *s) {
  tri_status st = TRI_OK;
  int64_t    D = m->shape.D, half = D / 2;
  float     *table = NULL;

  for (int i = 0; i < TRI_LIN_COUNT; i++)
    TRI_TRY(m->k->linear_bind(m->linear[i], m->workspace, m->workspace_bytes));
  TRI_TRY(TRI_ALLOC(table, m->opt.max_positions * D));
  for (int64_t i = 0; i < half; i++) {
    float f = inverse_frequency(&m->shape, (int)i);
    for (int64_t pos = 0; pos < m->opt.max_positions; pos++) {
      table[pos * D + i] = cosf((float)pos * f);
      table[pos * D + half + i] = sinf((float)pos * f);
    }
  }
  TRI_TRY_DONE(m->device->ops->copy(s, m->rope, table, (size_t)(m->opt.max_positions * D) * 4));
  TRI_TRY_DONE(m->device->ops->stream_sync(s));
done:
  TRI_FREE(table);
  return st;
}

tri_status tri_model_check(tri_model *m, tri_stream *s) {
  tri_status  st = TRI_OK;
  tri_weights w;
  int         table = m->shape.tied_head ? 0 : tri_unit_of_head(m);

  /* A rank whose products fail takes part in the gathers of the others. */
  TRI_TRY(tri_params_acquire(m->params, tri_unit_of_layer(0), TRI_USE_FWD, -1, s, &w));
  for (int i = 0; i < TRI_LIN_HEAD && st == TRI_OK; i++)
    st = m->k->linear_check(s, m->linear[i], w.packed_fwd[i]);
  TRI_TRY(tri_params_release(m->params, tri_unit_of_layer(0), s));
  TRI_TRY(tri_params_acquire(m->params, table, TRI_USE_FWD, -1, s, &w));
  if (st == TRI_OK) st = m->k->linear_check(s, m->linear[TRI_LIN_HEAD], w.packed_fwd[0]);
  TRI_TRY(tri_params_release(m->params, table, s));
  return st;
}

/* ---- the order of the blocks ---- */

static tri_status embed(tri_model *m, const tri_batch *b, void *to, bool decode, tri_stream *s) {
  tri_weights w;
  tri_tensor  x = tri_rows_f32(to, b->token.dim[0], m->shape.C);
  int         span;

  TRI_TRY(tri_params_acquire(m->params, 0, 0, tri_unit_of_layer(0), s, &w));
  span = decode ? -1 : tri_unit_span(m, 0, "forward", s);
  TRI_TRY(m->k->embed_fwd(s, &x, &w.t[0], &b->token));
  tri_trace_end(m->device->trace, span, s);
  return tri_params_release(m->params, 0, s);
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

static tri_status run_layers(tri_model *m, const tri_batch *b, bool keep, tri_kv *kv, bool decode,
                             tri_stream *s) {
  TRI_ASSERT(b->token.dim[0] <= (keep ? m->opt.max_learn_tokens : m->opt.max_tokens));
  TRI_TRY(embed(m, b, keep ? m->acts[0].x : m->x, decode, s));
  for (int layer = 0; layer < m->shape.L; layer++) {
    int            unit = tri_unit_of_layer(layer), span;
    void          *out;
    tri_layer_acts a = acts_of(m, layer, keep, &out);
    tri_weights    w;
    TRI_TRY(tri_params_acquire(m->params, unit, TRI_USE_FWD, unit + 1, s, &w));
    span =
        decode ? -1 : tri_unit_span(m, unit, "forward", s); /* a decode step is one span of the sampler's */
    TRI_TRY(tri_layer_forward(m, layer, &w, b, &a, out, kv, decode, false, s));
    tri_trace_end(m->device->trace, span, s);
    TRI_TRY(tri_params_release(m->params, unit, s));
  }
  return TRI_OK;
}

tri_status tri_model_forward(tri_model *m, const tri_batch *b, bool keep, float inv_temperature,
                             tri_rows_out *out, tri_stream *s) {
  TRI_TRY(run_layers(m, b, keep, NULL, false, s));
  return tri_head_forward(m, b, m->x, inv_temperature, out, s);
}

tri_status tri_model_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d, float inv_temperature,
                              bool last, tri_stream *s) {
  int         span;
  tri_weights w, dw;
  tri_tensor  dx = tri_rows_f32(m->dx, b->token.dim[0], m->shape.C);

  TRI_ASSERT(m->opt.train);
  TRI_TRY(tri_head_backward(m, b, d, inv_temperature, last, s));
  for (int layer = m->shape.L - 1; layer >= 0; layer--) {
    int            unit = tri_unit_of_layer(layer);
    void          *out;
    tri_layer_acts a = acts_of(m, layer, true, &out);
    TRI_TRY(tri_params_acquire(m->params, unit, TRI_USE_FWD | TRI_USE_BWD, layer > 0 ? unit - 1 : -1, s, &w));
    TRI_TRY(tri_params_grad(m->params, unit, s, &dw));
    span = tri_unit_span(m, unit, "backward", s);
    if (m->opt.recompute) TRI_TRY(tri_layer_forward(m, layer, &w, b, &a, NULL, NULL, false, true, s));
    TRI_TRY(tri_layer_backward(m, &w, &dw, b, &a, s));
    tri_trace_end(m->device->trace, span, s);
    TRI_TRY(tri_params_release(m->params, unit, s));
    TRI_TRY(tri_params_grad_done(m->params, unit, s, last));
  }
  TRI_TRY(tri_params_grad(m->params, 0, s, &dw));
  span = tri_unit_span(m, 0, "backward", s);
  TRI_TRY(m->k->embed_bwd(s, &dw.t[0], &dx, &b->token));
  tri_trace_end(m->device->trace, span, s);
  return tri_params_grad_done(m->params, 0, s, last);
}

tri_status tri_model_prefill(tri_model *m, const tri_batch *b, tri_kv *kv, tri_stream *s) {
  return run_layers(m, b, false, kv, false, s);
}

tri_status tri_model_decode(tri_model *m, const tri_batch *b, tri_kv *kv, const tri_tensor *key,
                            const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s) {
  TRI_TRY(run_layers(m, b, false, kv, true, s));
  return tri_head_sample(m, b, m->x, key, rule, token, logp, s);
}
