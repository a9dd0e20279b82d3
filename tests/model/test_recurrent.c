/* test_recurrent.c - tests models with recurrent layers (make_qwen3_5_golden.py). Bits do not depend on
 * packing or recomputation. Gradients and steps agree with the goldens on all ranks, shard plans and with
 * offload. NaN is found. Run with 1, 2 and 4 ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "model_case.h"

#include "model/decoder.h"
#include "staging/batch.h"
#include "state/optim.h"

enum { MOST_SEQUENCES = 8 };

static const float INV_TEMPERATURE = 1.25f; /* rows of logp, ent and the gradients in the golden files */

/* How a model is opened. */
typedef struct way {
  tri_dtype      dtype;
  tri_shard_plan plan;
  int            ranks_per_node; /* that a node pretends to have, or 0 */
  int64_t        offload;
  bool           recompute;
  tri_lora       lora;
} way;

static const tri_shard_plan shared = {TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD};

typedef struct bench {
  tri_session  se;
  golden       g;
  tri_model   *m;
  tri_staging *staging;
  tri_rollout  r;
} bench;

static tri_rollout sequences(const golden *g, const char *tokens, const char *lengths, int64_t first) {
  int32_t    *token = golden_get_int(g, tokens), *length = golden_get_int(g, lengths);
  int         n = (int)golden_count(g, lengths);
  int64_t     n_tok = 0;
  tri_rollout r = {0};

  for (int q = 0; q < n; q++) n_tok += length[q];
  OK(tri_rollout_make(n, n_tok, 1, 0, &r));
  for (int q = 0; q < n; q++) r.start[q + 1] = r.start[q] + length[q];
  memcpy(r.token, token + first, (size_t)n_tok * 4);
  free(token);
  free(length);
  return r;
}

/* Weights of the golden folder. New adapters get A as in a sine, and B of zeros. */
static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  const fill_from *from = ctx;
  const bool       is_a = strstr(from->unit[u].param[i].name, ".lora_A.");

  if (tri_safetensors_find(from->g->weights, from->unit[u].param[i].name))
    return fill_golden(ctx, kind, u, i, begin, count, out);
  for (int64_t k = 0; k < count; k++) out[k] = is_a ? 0.1f * sinf((float)(begin + k) + 0.5f) : 0;
  return TRI_OK;
}

static void open_bench(bench *b, const char *name, const way *w) {
  tri_model_opt opt;
  int64_t       tokens;

  memset(b, 0, sizeof *b);
  session_open(&b->se, w->ranks_per_node);
  golden_open_model(&b->g, name);
  tokens = golden_count(&b->g, "tokens");
  opt = model_options(&b->g, &b->se, w->dtype, tokens);
  opt.plan = w->plan;
  opt.offload = w->offload;
  opt.recompute = w->recompute;
  opt.lora = w->lora;
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m));
  OK(tri_staging_open(b->se.device, b->se.ledger, &(tri_staging_opt){tokens, tokens, 0, TRI_PHASE_LEARN},
                      &b->staging));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->m, b->se.stream));
  tri_params *p[] = {tri_model_params(b->m), tri_model_trained(b->m)};
  for (int k = 0; k <= (p[1] != p[0]); k++) {
    fill_from from = {&b->g, tri_params_options(p[k])->unit};
    OK(tri_params_fill(p[k], TRI_STATE_WEIGHT, fill, &from, b->se.stream));
  }
  b->r = sequences(&b->g, "tokens", "lengths", 0);
  CHECK(b->r.n_seq <= MOST_SEQUENCES);
}

static void close_bench(bench *b) {
  tri_rollout_free(&b->r);
  tri_staging_close(&b->staging);
  tri_model_close(&b->m);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

/* ---- passes ---- */

/* Returns the first row of a sequence among the rows of the golden logp. */
static int64_t row_of(const bench *b, int seq) { return b->r.start[seq] - seq; }

/* Runs sequences seq[0..n) and sets logp, at the rows of each sequence. With `learn` also backward, from the
 * golden derivatives. */
static void pass(bench *b, const int *seq, int n, bool learn, bool last, float *logp) {
  float       *dlogp = golden_get(&b->g, "dlogp"), *dent = golden_get(&b->g, "dent");
  int64_t      at = 0;
  tri_batch    batch;
  tri_rows_out given, d;
  tri_loss_in  in;
  tri_loss_out out;

  OK(tri_batch_load(b->staging, &b->r, seq, n, b->se.stream, &batch));
  OK(tri_model_forward(b->m, &batch, learn, INV_TEMPERATURE, &given, b->se.stream));
  OK(tri_batch_fetch(b->staging, &given, NULL, b->se.stream, &in, &out));
  for (int q = 0; q < n; q++) {
    int64_t rows = b->r.start[seq[q] + 1] - b->r.start[seq[q]] - 1, to = row_of(b, seq[q]);
    memcpy(logp + to, in.logp + at, (size_t)rows * 4);
    if (learn) memcpy(out.dlogp + at, dlogp + to, (size_t)rows * 4);
    if (learn) memcpy(out.dent + at, dent + to, (size_t)rows * 4);
    at += rows;
  }
  CHECK(at == in.n);
  if (learn) {
    OK(tri_batch_send(b->staging, &out, 1, b->se.stream, &d));
    OK(tri_model_backward(b->m, &batch, &d, INV_TEMPERATURE, last, b->se.stream));
  }
  free(dlogp);
  free(dent);
}

/* Gives the rank's shares of all gradients, one behind the other. */
static float *gradients_of(bench *b, int64_t *n) {
  tri_params           *p = tri_model_trained(b->m);
  const tri_params_opt *o = tri_params_options(p);
  float                *all = NULL;

  OK(tri_params_grad_settle(p, b->se.stream));
  *n = 0;
  for (int u = 0; u < o->n_unit; u++) {
    tri_grad_view v = tri_params_grad_view(p, u, 0);
    float        *grad = device_get(b->se.stream, v.grad, (size_t)v.range.count * sizeof *grad);
    all = realloc(all, (size_t)(*n + v.range.count + 1) * sizeof *all);
    CHECK(all);
    memcpy(all + *n, grad, (size_t)v.range.count * sizeof *grad);
    *n += v.range.count;
    free(grad);
  }
  return all;
}

/* ---- bits ---- */

static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};

/* Several ranks, and the brief run, take one case of `step`. All cases pass through one rank. */
static int some(int step) { return rt.world_size > 1 ? step : test_step(step); }

/* Several ranks take f32 and fp16, the brief run one type of each model in turns. */
static int first_type(int i) { return i % test_step(3); }
static int type_step(void) { return test_step(3) > 1 ? 3 : some(2); }

/* A sequence has the same bits alone, packed, and packed in another order. No state passes from one sequence
 * to the next. Brief: two of the three orders. */
static void packing_changes_no_bit(void **state) {
  static const int orders[][7] = {{0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {3, 6, 0, 5, 1, 4, 2}};

  (void)state;
  for (int i = 0; i < N_RECURRENT; i += some(2))
    for (int t = first_type(i); t < 3; t += type_step()) {
      bench   b;
      float  *alone, *packed;
      int64_t rows;
      open_bench(&b, golden_recurrent[i], &(way){types[t], shared, 0, 0, false, {0}});
      CHECK(b.r.n_seq == 7);
      rows = golden_count(&b.g, "logp");
      alone = test_alloc(rows, sizeof *alone);
      packed = test_alloc(rows, sizeof *packed);
      for (int q = 0; q < b.r.n_seq; q++) pass(&b, &q, 1, false, false, alone);
      for (int k = 0; k < 3; k += test_step(2)) {
        memset(packed, 0, (size_t)rows * sizeof *packed);
        pass(&b, orders[k], 7, false, false, packed);
        CHECK(!memcmp(alone, packed, (size_t)rows * sizeof *packed), "%s, type %d, order %d: other bits",
              b.g.folder, (int)types[t], k);
      }
      free(alone);
      free(packed);
      close_bench(&b);
    }
}

static void recomputation_changes_no_bit(void **state) {
  static const int all[] = {0, 1, 2, 3, 4, 5, 6};

  (void)state;
  for (int i = 0; i < N_RECURRENT; i += some(2))
    for (int t = first_type(i); t < 3; t += type_step()) {
      float  *grad[2], *logp[2];
      int64_t n[2], rows = 0;
      for (int again = 0; again < 2; again++) {
        bench b;
        open_bench(&b, golden_recurrent[i], &(way){types[t], shared, 0, 0, again, {0}});
        rows = golden_count(&b.g, "logp");
        logp[again] = test_alloc(rows, sizeof(float));
        pass(&b, all, 7, true, true, logp[again]);
        grad[again] = gradients_of(&b, &n[again]);
        close_bench(&b);
      }
      CHECK(!memcmp(logp[0], logp[1], (size_t)rows * sizeof(float)));
      CHECK(n[0] == n[1] && !memcmp(grad[0], grad[1], (size_t)n[0] * sizeof(float)));
      for (int k = 0; k < 2; k++) free(grad[k]), free(logp[k]);
    }
}

/* ---- ranks and plans ---- */

enum { N_PLANS = 6 };
static way plan_of(int k, tri_dtype dtype) {
  static const tri_shard_scope N = TRI_SHARD_NONE, L = TRI_SHARD_NODE, W = TRI_SHARD_WORLD;
  const way plans[N_PLANS] = {{dtype, {N, N, N}, 0, 0, false, {0}}, {dtype, {N, L, W}, 1, 0, true, {0}},
                              {dtype, {L, L, W}, 0, 0, false, {0}}, {dtype, {W, W, W}, 1, 64, true, {0}},
                              {dtype, {W, W, W}, 0, 0, true, {0}},  {dtype, {L, L, L}, 2, 64, false, {0}}};

  return plans[k];
}

static bool fits(const way *w) { return w->ranks_per_node <= 1 || rt.world_size % w->ranks_per_node == 0; }

/* Compares this rank's part of each gradient with the golden one. A part of few numbers may be small beside
 * its tensor, so the difference counts by the norm of the tensor. */
static void compare_gradients(bench *b, double most) {
  tri_params           *p = tri_model_trained(b->m);
  const tri_params_opt *o = tri_params_options(p);

  OK(tri_params_grad_settle(p, b->se.stream));
  for (int u = 0; u < o->n_unit; u++) {
    tri_grad_view v = tri_params_grad_view(p, u, 0);
    float        *grad = device_get(b->se.stream, v.grad, (size_t)v.range.count * sizeof *grad);
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *s = &o->unit[u].param[i];
      tri_range             part = tri_range_meet((tri_range){s->offset, tri_param_count(s)}, v.range);
      char                  name[128];
      double                d = 0, whole = 0;
      float                *want;
      snprintf(name, sizeof name, "grad.%s", s->name);
      want = golden_get(&b->g, name);
      for (int64_t k = 0; k < tri_param_count(s); k++) whole += (double)want[k] * (double)want[k];
      for (int64_t k = 0; k < part.count; k++) {
        double e = (double)grad[part.begin - v.range.begin + k] - (double)want[part.begin - s->offset + k];
        d += e * e;
      }
      CHECK(sqrt(d) <= most * sqrt(whole), "%s: %s is %.3g away", b->g.folder, name, sqrt(d / whole));
      free(want);
    }
    free(grad);
  }
}

/* The sequences are dealt to the ranks, each in its own micro-batch. A rank without one runs an empty
 * batch. */
static void learn_dealt(bench *b) {
  int    size = rt.world_size, rounds = (b->r.n_seq + size - 1) / size;
  float *logp = test_alloc(golden_count(&b->g, "logp"), sizeof *logp);
  float *want = golden_get(&b->g, "logp");

  tri_params_grad_clear(tri_model_trained(b->m));
  for (int k = 0; k < rounds; k++) {
    int     seq = k * size + rt.world_rank, n = seq < b->r.n_seq;
    int64_t rows = n ? b->r.start[seq + 1] - b->r.start[seq] - 1 : 0;
    pass(b, &seq, n, true, k == rounds - 1, logp);
    for (int64_t j = 0; j < rows && b->m->opt.dtype == TRI_F32; j++)
      CHECK(fabs((double)logp[row_of(b, seq) + j] - (double)want[row_of(b, seq) + j]) <= 4e-5);
  }
  free(logp);
  free(want);
}

/* f32: as in test_model.c. In 16 bits an entry of A_log or dt_bias sums over all rows, and measured 0.3. */
static void gradients_on_all_plans(void **state) {
  (void)state;
  for (int i = 0; i < N_RECURRENT; i += test_step(2))
    for (int t = i % some(3); t < 3; t += some(3))
      for (int k = 0; k < N_PLANS; k += test_step(3)) {
        way   w = plan_of(k, types[t]);
        bench b;
        if (!fits(&w)) continue;
        open_bench(&b, golden_recurrent[i], &w);
        learn_dealt(&b);
        compare_gradients(&b, types[t] == TRI_F32 ? 1e-4 : types[t] == TRI_BF16 ? 0.5 : 0.1);
        close_bench(&b);
      }
}

/* The loss of step t over all ranks, and its backward. The first sequence is the first rank's, the second the
 * last rank's. */
static double learn_step(bench *b, int t) {
  int64_t      n_tok = golden_count(&b->g, "steps.tokens") / golden_count(&b->g, "steps.losses");
  tri_rollout  r = sequences(&b->g, "steps.tokens", "steps.lengths", t * n_tok);
  int          seq[2], n = 0;
  double       loss = 0, rows = (double)(n_tok - r.n_seq);
  tri_batch    batch;
  tri_rows_out given, d;
  tri_loss_in  in;
  tri_loss_out out;

  if (rt.world_rank == 0) seq[n++] = 0;
  if (rt.world_rank == rt.world_size - 1) seq[n++] = 1;
  OK(tri_batch_load(b->staging, &r, seq, n, b->se.stream, &batch));
  OK(tri_model_forward(b->m, &batch, true, 1.0f, &given, b->se.stream));
  OK(tri_batch_fetch(b->staging, &given, NULL, b->se.stream, &in, &out));
  for (int64_t k = 0; k < in.n; k++) {
    loss -= (double)in.logp[k] / rows;
    out.dlogp[k] = (float)(-1.0 / rows);
    out.dent[k] = 0;
  }
  OK(tri_batch_send(b->staging, &out, 1, b->se.stream, &d));
  OK(tri_model_backward(b->m, &batch, &d, 1.0f, true, b->se.stream));
  OK(tri_host_sum(b->se.comm[TRI_WORLD], &loss, 1));
  tri_rollout_free(&r);
  return loss;
}

/* Matrices decay, and the convolution, A_log, dt_bias and norms do not. Brief: half of the steps. */
static void steps_on_all_plans(void **state) {
  const tri_optim_opt opt = {0.9, 0.999, 1e-8, 0.1, 1.0, {0, 0, 0, 0}};

  (void)state;
  for (int i = 0; i < N_RECURRENT; i += some(2))
    for (int k = i % test_step(3); k < N_PLANS; k += test_step(3)) {
      way    w = plan_of(k, TRI_F32);
      bench  b;
      float *losses, *norms;
      if (!fits(&w)) continue;
      open_bench(&b, golden_recurrent[i], &w);
      losses = golden_get(&b.g, "steps.losses");
      norms = golden_get(&b.g, "steps.norms");
      for (int t = 0; t < golden_count(&b.g, "steps.losses") / test_step(2); t++) {
        double norm, loss = learn_step(&b, t);
        bool   applied;
        OK(tri_optim_step(tri_model_params(b.m), &opt, &(tri_optim_now){3e-3, t + 1, 1, false}, b.se.stream,
                          &norm, &applied));
        CHECK(applied && fabs(loss - (double)losses[t]) <= 1e-5 * (double)losses[t],
              "%s, plan %d, step %d: loss %.8g, want %.8g", b.g.folder, k, t + 1, loss, (double)losses[t]);
        CHECK(fabs(norm - (double)norms[t]) <= 2e-4 * norm, "%s, plan %d, step %d: norm %.8g, want %.8g",
              b.g.folder, k, t + 1, norm, (double)norms[t]);
      }
      free(losses);
      free(norms);
      close_bench(&b);
    }
}

/* ---- adapters of some modules ---- */

/* Adapters of modules that only one kind of layer has. New adapters change no bit, and B learns. Brief:
 * in_proj_b and gate_proj, on one plan. */
static void adapters_of_one_kind(void **state) {
  static const char *const targets[] = {"q_proj", "in_proj_b", "linear_attn.out_proj", "gate_proj"};
  static const int         all[] = {0, 1, 2, 3, 4, 5, 6};

  (void)state;
  for (int k = test_step(2) - 1; k < 4; k += test_step(2))
    for (int plan = k % test_step(2) * 3; plan < N_PLANS; plan += test_step(6)) {
      way     w = plan_of(plan, TRI_F32);
      bench   b;
      float  *logp[2], *grad;
      int64_t n, rows;
      double  sum = 0;
      if (!fits(&w)) continue;
      w.lora = (tri_lora){2, 4, false, tri_lora_find(&tri_family_qwen3_5, targets[k])};
      CHECK(w.lora.target);
      open_bench(&b, golden_recurrent[k % N_RECURRENT], &w);
      OK(tri_model_check(b.m, b.se.stream));
      rows = golden_count(&b.g, "logp");
      for (int on = 0; on < 2; on++) {
        logp[on] = test_alloc(rows, sizeof(float));
        tri_model_adapt(b.m, on);
        pass(&b, all, 7, on, true, logp[on]);
      }
      CHECK(!memcmp(logp[0], logp[1], (size_t)rows * sizeof(float)), "%s: other bits", targets[k]);
      grad = gradients_of(&b, &n);
      for (int64_t j = 0; j < n; j++) sum += (double)grad[j] * (double)grad[j];
      OK(tri_host_sum(b.se.comm[TRI_WORLD], &sum, 1));
      CHECK(isfinite(sum) && sum > 0, "%s: no gradient", targets[k]);
      free(grad);
      for (int on = 0; on < 2; on++) free(logp[on]);
      close_bench(&b);
    }
}

/* ---- NaN ---- */

static const char *broken; /* the tensor with a NaN as its first element, or NULL */

static tri_status fill_broken(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                              float *out) {
  const fill_from *from = ctx;

  TRI_TRY(fill_golden(ctx, kind, u, i, begin, count, out));
  if (!strcmp(from->unit[u].param[i].name, broken) && begin == 0 && count) out[0] = NAN;
  return TRI_OK;
}

static void refill(bench *b, const char *tensor) {
  fill_from f = {&b->g, tri_params_options(tri_model_params(b->m))->unit};

  broken = tensor;
  OK(tri_params_fill(tri_model_params(b->m), TRI_STATE_WEIGHT, fill_broken, &f, b->se.stream));
}

/* The layer with a broken tensor is named. Brief: with recomputation some tensors, without it the others. */
static void nonfinite_layers_are_named(void **state) {
  static const struct {
    const char *tensor, *unit;
  } cases[] = {{"model.layers.0.linear_attn.A_log", "layer 0"},
               {"model.layers.2.linear_attn.conv1d.weight", "layer 2"},
               {"model.layers.2.linear_attn.dt_bias", "layer 2"},
               {"model.layers.0.linear_attn.norm.weight", "layer 0"},
               {"model.layers.1.self_attn.q_proj.weight", "layer 1"}};
  static const int all[] = {0, 1, 2, 3, 4, 5, 6};
  bench            b;
  float           *logp;

  (void)state;
  for (int again = 0; again < 2; again++) {
    open_bench(&b, "model/qwen3_5_wide", &(way){TRI_F32, shared, 0, 0, again, {0}});
    logp = test_alloc(golden_count(&b.g, "logp"), sizeof *logp);
    for (size_t k = (size_t)(again % test_step(2)); k < sizeof cases / sizeof *cases;
         k += (size_t)test_step(2)) {
      tri_model_nonfinite f;
      tri_batch           batch;
      tri_rows_out        given;
      refill(&b, cases[k].tensor);
      OK(tri_batch_load(b.staging, &b.r, all, 7, b.se.stream, &batch));
      OK(tri_model_forward(b.m, &batch, true, 1.0f, &given, b.se.stream));
      OK(tri_model_find_nonfinite(b.m, &batch, b.se.stream, &f));
      CHECK(f.unit && !strcmp(f.unit, cases[k].unit) && f.seq == 0 && f.token == 0,
            "%s: found in %s, sequence %d, token %lld", cases[k].tensor, f.unit ? f.unit : "nothing", f.seq,
            (long long)f.token);
    }
    free(logp);
    close_bench(&b);
  }
}

/* A NaN in one sequence stays there: its neighbours keep their bits, and the sequence is named. */
static void nonfinite_states_stay_in_their_sequence(void **state) {
  static const int all[] = {0, 1, 2, 3, 4, 5, 6};
  enum { BAD = 3 };
  bench               b;
  float              *logp[2];
  int64_t             rows;
  tri_model_nonfinite f;
  tri_batch           batch;
  tri_rows_out        given;

  (void)state;
  open_bench(&b, "model/qwen3_5_half", &(way){TRI_F32, shared, 0, 0, false, {0}});
  rows = golden_count(&b.g, "logp");
  for (int64_t k = 0; k < b.r.n_tok; k++) /* token 0 is only in the sequence BAD, after four others */
    if (b.r.token[k] == 0) b.r.token[k] = 1;
  b.r.token[b.r.start[BAD] + 4] = 0;
  for (int k = 0; k < 2; k++) {
    logp[k] = test_alloc(rows, sizeof(float));
    if (k) refill(&b, "model.embed_tokens.weight");
    pass(&b, all, 7, false, false, logp[k]);
  }
  for (int q = 0; q < b.r.n_seq; q++) {
    size_t bytes = (size_t)(b.r.start[q + 1] - b.r.start[q] - 1) * sizeof(float);
    bool   same = !memcmp(logp[0] + row_of(&b, q), logp[1] + row_of(&b, q), bytes);
    CHECK(same == (q != BAD), "sequence %d", q);
  }
  CHECK(!memcmp(logp[0] + row_of(&b, BAD), logp[1] + row_of(&b, BAD), 3 * sizeof(float)));
  for (int64_t k = row_of(&b, BAD) + 4; k < row_of(&b, BAD + 1); k++) CHECK(isnan(logp[1][k]));
  OK(tri_batch_load(b.staging, &b.r, all, 7, b.se.stream, &batch));
  OK(tri_model_forward(b.m, &batch, true, 1.0f, &given, b.se.stream));
  OK(tri_model_find_nonfinite(b.m, &batch, b.se.stream, &f));
  CHECK(f.unit && !strcmp(f.unit, "embedding") && f.seq == BAD && f.token == 4);
  for (int k = 0; k < 2; k++) free(logp[k]);
  close_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(packing_changes_no_bit),
                                     cmocka_unit_test(recomputation_changes_no_bit),
                                     cmocka_unit_test(gradients_on_all_plans),
                                     cmocka_unit_test(steps_on_all_plans),
                                     cmocka_unit_test(adapters_of_one_kind),
                                     cmocka_unit_test(nonfinite_layers_are_named),
                                     cmocka_unit_test(nonfinite_states_stay_in_their_sequence)};
  test_filter();
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
