/* cost.c - holds the formulas of a step's seconds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cost.h"

#include <math.h>

static tri_cost_recurrent recurrent_of(const tri_model_shape *s) {
  const tri_delta_shape *d = &s->delta;
  int                    layers = tri_recurrent_layers(s);
  int64_t                out = (int64_t)d->Hv * d->Dv;

  if (!layers) return (tri_cost_recurrent){.layers = 0};
  return (tri_cost_recurrent){.layers = layers,
                              .mix = 2 * (int64_t)d->Hk * d->Dk + out,
                              .out = out,
                              .heads = d->Hv,
                              .state = (int64_t)d->Dk * out};
}

tri_cost_model tri_cost_of_shape(const tri_model_shape *s) {
  int64_t q = (int64_t)s->H * s->D;

  return (tri_cost_model){.L = s->L,
                          .C = s->C,
                          .F = s->F,
                          .q = q,
                          .kv = (int64_t)s->G * s->D,
                          .gate = s->attn_gate ? q : 0,
                          .recurrent = recurrent_of(s),
                          .head = s->V};
}

/* Returns the number of layers with attention. */
static double attending(const tri_cost_model *m) { return (double)(m->L - m->recurrent.layers); }

double tri_cost_layer_weights(const tri_cost_model *m) {
  const tri_cost_recurrent *r = &m->recurrent;
  double                    C = (double)m->C;

  return attending(m) * C * (double)(2 * m->q + m->gate + 2 * m->kv) +
         (double)r->layers * C * (double)(r->mix + 2 * r->out + 2 * r->heads) +
         3 * (double)m->L * C * (double)m->F;
}

double tri_cost_head_weights(const tri_cost_model *m) { return (double)m->C * (double)m->head; }

/* Scores, and their sums over values. Two products with each key, of 2 flops each. */
static double attention_flops(const tri_cost_model *m, double tokens, double context) {
  return 4 * attending(m) * (double)m->q * tokens * context;
}

double tri_cost_forward_flops(const tri_cost_model *m, double tokens, double rows, double context) {
  return 2 * tri_cost_layer_weights(m) * tokens + 2 * tri_cost_head_weights(m) * rows +
         attention_flops(m, tokens, context);
}

/* Every product counts twice, for the gradients of x and of w. Attention has 5 products instead of 2 (Dao
 * 2023, FlashAttention-2). */
double tri_cost_backward_flops(const tri_cost_model *m, double tokens, double rows, double context) {
  return 4 * tri_cost_layer_weights(m) * tokens + 4 * tri_cost_head_weights(m) * rows +
         2.5 * attention_flops(m, tokens, context);
}

/* ---- states of recurrent layers ---- */

/* A GPU's figures are estimates from the kernel's instructions, until one is measured. A thread block holds
 * BLOCK_COLUMNS columns of a head's state in registers, and so many blocks run at the same time. */
static const double gpu_row_s = 0.3e-6;
enum { BLOCK_COLUMNS = 32, GPU_BLOCKS = 500 };
/* An update has 7 flops per number of the state. It decays, and it takes part in two products with a vector
 * and in one sum of an outer product. A CPU reaches this share of the rate of its products, with the
 * convolution and the norm (measured with trireme bench). */
enum { STATE_FLOPS = 7 };
static const double cpu_share = 0.25;

double tri_cost_recurrence_s(const tri_machine *m, const tri_cost_model *model, bool gpu, double sequences) {
  const tri_cost_recurrent *r = &model->recurrent;
  double                    at_once;

  if (!r->layers) return 0;
  if (!gpu) return (double)r->layers * STATE_FLOPS * (double)r->state / (cpu_share * m->flops_f32);
  at_once = fmin(sequences, (double)GPU_BLOCKS * BLOCK_COLUMNS / (double)r->out);
  return (double)r->layers * gpu_row_s / fmax(at_once, 1);
}

/* Returns the seconds to update the states of a decode step, per row. A step reads and writes them. */
static double decode_states_s(const tri_machine *m, const tri_cost_rollout *r, double rows) {
  const tri_cost_recurrent *x = &r->model.recurrent;
  double                    bytes = 2 * (double)x->layers * (double)x->state * (double)sizeof(float);

  return fmax(bytes / m->mem_bytes_per_s, tri_cost_recurrence_s(m, &r->model, r->share.overlap, rows));
}

/* ---- collectives ---- */

static int nodes_of(const tri_cost_share *s) { return s->ranks / s->per_node; }

double tri_cost_scope(const tri_machine *m, const tri_cost_share *s, int scope, double bytes) {
  if (scope == 0) return 0;
  return scope == 1 ? tri_machine_ring(m, s->per_node, 1, bytes)
                    : tri_machine_ring(m, s->ranks, nodes_of(s), bytes);
}

/* Returns the units gathered one by one: each layer, the embedding and the head. */
static double units(const tri_cost_model *m) { return (double)m->L + 2; }

/* Seconds of a ring for so many bytes of the whole model, unit by unit. */
static double by_units(const tri_machine *m, const tri_cost_pass *p, int scope, double bytes) {
  double n = units(&p->model);

  return n * tri_cost_scope(m, &p->share, scope, bytes / n);
}

/* Returns the number of ranks in a scope. */
static double sharers(const tri_cost_share *s, int scope) {
  return scope == 0 ? 1 : scope == 1 ? s->per_node : s->ranks;
}

/* Seconds to gather so many bytes of weights to a rank, unit by unit. */
static double gather_units(const tri_machine *m, const tri_cost_pass *p, double bytes) {
  return p->share.in_place ? 0 : by_units(m, p, p->share.params, bytes);
}

/* Seconds to pack a gathered model for both directions. */
static double pack_all(const tri_cost_compute *c, const tri_cost_share *s, const tri_cost_model *m) {
  return (double)m->n * c->pack_s / (s->together ? s->per_node : 1);
}

/* ---- compute ---- */

static double rate_of(const tri_machine *m, const tri_cost_model *model) {
  return model->bytes == 4 ? m->flops_f32 : m->flops_bf16;
}

static double weight_bytes(const tri_cost_model *m) {
  return (tri_cost_layer_weights(m) + tri_cost_head_weights(m)) * m->bytes;
}

/* Bytes that AdamW reads and writes per number. The f32 weight and moments are read and written. The gradient
 * is read, and the weight in the compute type is written. */
enum { ADAM_BYTES = 30 };

/* Returns the sequences of one forward pass. */
static double sequences_of(const tri_cost_pass *p) {
  return p->batches > 0 && p->context > 0 ? p->tokens / p->batches / (2 * p->context) : 1;
}

tri_cost_compute tri_cost_compute_of(const tri_machine *m, const tri_cost_pass *p,
                                     const tri_cost_rollout *r) {
  double           rate = rate_of(m, &p->model), tokens = p->tokens > 0 ? p->tokens : 1;
  double           layers = tri_cost_forward_flops(&p->model, tokens, 0, p->context);
  double           states = tri_cost_recurrence_s(m, &p->model, p->share.overlap, sequences_of(p));
  tri_cost_compute c = {
      .forward.each_s =
          tri_cost_forward_flops(&p->model, tokens, p->rows, p->context) / tokens / rate + states,
      .backward.each_s = tri_cost_backward_flops(&p->model, tokens, p->rows, p->context) / tokens / rate +
                         TRI_COST_STATES_BACKWARD * states,
      .update_s =
          ADAM_BYTES / (p->offload ? fmin(m->host_bytes_per_s, m->mem_bytes_per_s) : m->mem_bytes_per_s)};

  if (!p->share.overlap) /* GPUs read weights as they are. CPUs pack them for each direction */
    c.pack_s = 3.0 * p->model.bytes / m->mem_bytes_per_s;
  if (p->frozen)
    c.backward.each_s -=
        2 * (tri_cost_layer_weights(&p->model) + tri_cost_head_weights(&p->model) * p->rows / tokens) / rate;
  if (p->recompute) c.backward.each_s += layers / tokens / rate + states;
  if (!r) return c;
  double context = r->prompt_tokens + r->answer_tokens / 2, rows = fmin(r->at_once, r->answers),
         read = weight_bytes(&r->model) / m->mem_bytes_per_s;
  double work = 2 * (tri_cost_layer_weights(&r->model) + tri_cost_head_weights(&r->model)) / rate;
  double cache =
      2 * attending(&r->model) * (double)r->model.kv * context * r->model.bytes / m->mem_bytes_per_s +
      decode_states_s(m, r, rows);

  /* A decode step takes the longer of the time to read the weights and the time to compute. */
  c.decode = work * rows > read ? (tri_cost_line){0, work + cache} : (tri_cost_line){read, cache};
  c.prefill_s =
      tri_cost_forward_flops(&r->model, 1, 0, r->prompt_tokens / 2) / rate +
      tri_cost_recurrence_s(m, &r->model, r->share.overlap, rows * r->prompts / fmax(r->answers, 1));
  tri_cost_divide(m, r, &c);
  return c;
}

static double ranks_of_model(const tri_cost_rollout *r) { return r->tensor > 1 ? r->tensor : 1; }

enum { LAYER_GATHERS = 4 };

void tri_cost_divide(const tri_machine *m, const tri_cost_rollout *r, tri_cost_compute *c) {
  const tri_cost_model *w = &r->model;
  double                t = ranks_of_model(r), moved = (t - 1) / t / m->node.bytes_per_s;
  double                layers =
      (double)w->L * (double)(w->bytes * (w->q + w->F) + 8 * w->C); /* bytes of a row. Sums are f32 */

  if (t <= 1) return;
  c->prefill_s = c->prefill_s / t + layers * moved;
  c->decode.fixed_s = c->decode.fixed_s / t + LAYER_GATHERS * (double)w->L * m->node.alpha_s;
  c->decode.each_s = c->decode.each_s / t + (layers + 4 * (double)w->head) * moved;
}

/* ---- the parts of a step ---- */

/* Returns whether the ranks divide all matrices of the layers evenly (tri_unit_cut). */
static bool divides_evenly(const tri_cost_share *s, const tri_cost_model *m) {
  return m->C * m->q % s->ranks == 0 && m->C * m->kv % s->ranks == 0 && m->C * m->F % s->ranks == 0;
}

/* Seconds to gather the weights before generation. Ranks of one model have rows of their slices of the
 * layers' matrices, and lack only the rows of the other ranks with the same slice (comm.h). A tied head is
 * gathered, so any head counts as gathered. */
static double gather_all(const tri_machine *m, const tri_cost_rollout *r) {
  const tri_cost_share *s = &r->share;
  double                all = (double)r->model.n * r->model.bytes, t = ranks_of_model(r), cut, rest_s, near_s;

  if (s->in_place) return 0;
  if (t <= 1 || !divides_evenly(s, &r->model)) return tri_cost_scope(m, s, s->params, all);
  cut = fmin(tri_cost_layer_weights(&r->model) * r->model.bytes, all);
  rest_s = tri_cost_scope(m, s, s->params, all - cut);
  near_s = tri_machine_ring(m, (int)(s->per_node / t), 1, cut / t);
  return rest_s + near_s +
         (s->params == 2 ? tri_machine_ring(m, nodes_of(s), nodes_of(s), cut / s->per_node) : 0);
}

double tri_cost_of_rollout(const tri_machine *m, const tri_cost_compute *c, const tri_cost_rollout *r) {
  double rounds = r->at_once > 0 ? ceil(r->answers / r->at_once) : 0;
  double gather = gather_all(m, r);

  if (ranks_of_model(r) > 1) /* a rank packs its own rows */
    gather += (double)r->model.n * c->pack_s / 2 / ranks_of_model(r);
  else if (sharers(&r->share, r->share.params) > 1)
    gather += pack_all(c, &r->share, &r->model) / 2;
  if (r->answers <= 0) return gather;
  return gather + r->prompts * r->prompt_tokens * c->prefill_s +
         r->answer_tokens * (rounds * c->decode.fixed_s + r->answers * c->decode.each_s);
}

/* Seconds of communication of one batch. It gathers for forward and again for backward, and reduces the
 * gradients if they are shared. Adapters beside frozen weights are gathered with them. */
static double batch_comm(const tri_machine *m, const tri_cost_pass *p) {
  double gathers = gather_units(m, p, (double)p->model.n * p->model.bytes);

  if (p->frozen) gathers += gather_units(m, p, p->trained * p->model.bytes);
  if (p->trained <= 0) return gathers;
  return 2 * gathers + by_units(m, p, p->share.grads, p->trained * 4);
}

/* Seconds of packing in one time. Gathered weights are packed for every batch. Whole weights are packed after
 * an update. */
static double pack(const tri_cost_compute *c, const tri_cost_pass *p) {
  double learns = p->trained > 0 ? 1 : 0.5;

  if (sharers(&p->share, p->share.params) > 1) return p->batches * pack_all(c, &p->share, &p->model) * learns;
  return p->trained > 0 ? p->updates / p->times * p->trained * c->pack_s : 0;
}

double tri_cost_of_learn(const tri_machine *m, const tri_cost_compute *c, const tri_cost_pass *p) {
  double compute = p->tokens * c->forward.each_s + p->batches * c->forward.fixed_s;
  double comm = p->batches * batch_comm(m, p);

  compute += pack(c, p);
  if (p->trained > 0) compute += p->tokens * c->backward.each_s + p->batches * c->backward.fixed_s;
  return p->times * (p->share.overlap ? fmax(compute, comm) : compute + comm);
}

/* Seconds from the scope of the gradients' reduction to that of the optimizer. A share of a node is reduced
 * between nodes alone. Gradients that are not shared are summed over all ranks. Each rank needs the whole sum
 * if the optimizer is not shared. */
static double finish_gradients(const tri_machine *m, const tri_cost_pass *p) {
  const tri_cost_share *s = &p->share;
  double                bytes = p->trained * 4;
  int                   nodes = nodes_of(s);

  if (s->grads == 2) return 0;
  if (s->grads == 1) return (s->optim == 2 ? 1 : 2) * tri_machine_ring(m, nodes, nodes, bytes / s->per_node);
  return (s->optim == 0 ? 2 : 1) * tri_cost_scope(m, s, 2, bytes) +
         (s->optim == 1 ? tri_machine_ring(m, nodes, nodes, bytes / s->per_node) : 0);
}

/* Seconds to send new weights from the optimizer's scope to the ranks that hold them. */
static double publish(const tri_machine *m, const tri_cost_pass *p) {
  const tri_cost_share *s = &p->share;
  double                bytes = p->trained * p->model.bytes;
  int                   nodes = nodes_of(s);

  if (s->optim == s->params) return 0;
  if (s->optim == 2 && s->params == 1) return tri_machine_ring(m, nodes, nodes, bytes / s->per_node);
  return tri_cost_scope(m, s, s->optim, bytes);
}

double tri_cost_of_update(const tri_machine *m, const tri_cost_compute *c, const tri_cost_pass *p) {
  double own = p->trained / sharers(&p->share, p->share.optim);

  if (p->trained <= 0) return 0;
  return p->updates * (finish_gradients(m, p) + own * c->update_s + publish(m, p));
}

int64_t tri_cost_steps(double walltime_s, double step_s, double beside_s) {
  double n = step_s > 0 ? floor((walltime_s - beside_s) / step_s) : 0;

  return n > 0 ? (int64_t)fmin(n, 0x1p53) : 0;
}
