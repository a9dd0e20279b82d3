/* passes.c - opens a model with random weights and times its passes, updates and decode steps. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "passes.h"

#include "base/host_memory.h"
#include "tools/timer/timed.h"

#include <math.h>
#include <string.h>

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- a model ---- */

static int64_t answers_of(const tri_passes *p) {
  return p->what & TRI_PASS_GENERATE ? p->c->size.prompts * p->c->size.group : 0;
}

static tri_status open_sampler(tri_passes *p, int64_t prefill) {
  const tri_bench_size *z = &p->c->size;
  int64_t               answers = answers_of(p);
  tri_sampler_opt       so = {.max_sequences = (int)answers,
                              .max_prompt = tri_bench_prompt(z),
                              .max_new = tri_bench_steps(z),
                              .max_prefill = prefill,
                              .max_answers = answers};

  return tri_sampler_open(p->se->device, p->se->ledger, p->model, p->c->dtype, &so, &p->sampler);
}

/* Returns the elements of a batch's arrays, 4 bytes each: token, pos, cu, row, target, and the loss's
 * gradients. */
static int64_t batch_elements(const tri_bench_size *z) {
  return 2 * tri_bench_tokens(z) + z->sequences + 1 + 4 * tri_bench_rows(z);
}

tri_status tri_passes_open(tri_session *se, const tri_bench_case *c, int layers, unsigned what,
                           tri_passes *out) {
  tri_passes           *p = out;
  const tri_bench_size *z = &c->size;
  tri_model_shape       shape = c->shape;
  bool                  learns = what & TRI_PASS_LEARN;
  int64_t               N = tri_bench_tokens(z), K = tri_bench_rows(z), answers, prefill;

  *p = (tri_passes){.se = se, .c = c, .what = what};
  answers = answers_of(p);
  prefill = answers ? tri_sampler_prefill(answers, tri_bench_prompt(z)) : 0;
  tri_model_opt mo = {.shape = &shape,
                      .dtype = c->dtype,
                      .plan = c->plan,
                      .place = se->place,
                      .tensor_name = se->tensor_name,
                      .head = c->head,
                      .train = learns || c->lora.rank,
                      .offload = c->offload,
                      .any_order = c->any_order,
                      .ema_beta = c->ema_beta,
                      .lora = c->lora,
                      .rollout = answers > 0,
                      .recompute = c->recompute,
                      .max_tokens = most(N, most(prefill, answers)),
                      .max_learn_tokens = N,
                      .max_rows = most(K, answers),
                      .max_positions = z->length,
                      .label = "policy"};

  if (answers) {
    mo.max_positions = most(z->length, tri_bench_prompt(z) + tri_bench_steps(z));
    mo.max_held_tokens = most(prefill, most(answers, tri_bench_prompt(z) + tri_bench_steps(z)));
    mo.max_tokens = most(mo.max_tokens, mo.max_held_tokens);
  }
  if (layers < shape.L) shape.L = layers;
  TRI_TRY(tri_model_open(se->device, se->comm, se->ledger, &mo, &p->model));
  TRI_TRY(tri_ledger_add(se->ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "a batch",
                         (size_t)batch_elements(z) * 4, &p->memory));
  return answers ? open_sampler(p, prefill) : TRI_OK;
}

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  (void)ctx, (void)kind, (void)u, (void)i;
  for (int64_t k = 0; k < count; k++) out[k] = tri_noise((uint64_t)(begin + k));
  return TRI_OK;
}

/* Writes sequences one after the other, each with its last tokens learned. Ids spread over the whole
 * vocabulary. */
static void write_batch(const tri_passes *p, int32_t *i32) {
  const tri_bench_size *z = &p->c->size;
  int64_t               N = tri_bench_tokens(z), K = tri_bench_rows(z), at = 0, V = p->c->shape.V;
  int32_t *token = i32, *pos = token + N, *cu = pos + N, *row = cu + z->sequences + 1, *target = row + K;

  for (int64_t i = 0; i < N; i++) token[i] = (int32_t)(i * 7919 % V);
  for (int64_t i = 0; i < K; i++) {
    float x = tri_noise((uint64_t)i);
    target[i] = (int32_t)(i * 7919 % V);
    memcpy(&target[K + i], &x, sizeof x);
  }
  for (int64_t q = 0; q < z->sequences; q++) {
    for (int64_t i = 0; i < z->length; i++) pos[q * z->length + i] = (int32_t)i;
    for (int64_t i = 0; i < z->rows; i++) row[at++] = (int32_t)((q + 1) * z->length - 1 - z->rows + i);
    cu[q + 1] = (int32_t)((q + 1) * z->length);
  }
}

/* The gradient of log-probabilities, or of a scalar head's outputs, is random. That of entropies is 0. */
static void view_batch(tri_passes *p) {
  const tri_bench_size *z = &p->c->size;
  int64_t               N = tri_bench_tokens(z), K = tri_bench_rows(z);
  int32_t              *token = p->memory, *pos = token + N, *cu = pos + N, *row = cu + z->sequences + 1,
          *target = row + K;
  float *noise = (float *)(void *)(target + K);

  p->batch = (tri_batch){.token = tri_view1(token, TRI_I32, N),
                         .pos = tri_view1(pos, TRI_I32, N),
                         .cu = tri_view1(cu, TRI_I32, z->sequences + 1),
                         .row = tri_view1(row, TRI_I32, K),
                         .target = tri_view1(target, TRI_I32, K)};
  p->d.logp = p->d.value = tri_view1(noise, TRI_F32, K);
  p->d.ent = tri_view1(noise + K, TRI_F32, K);
}

static tri_status make_batch(tri_passes *p) {
  const tri_device_ops *ops = p->se->device->ops;
  size_t                n = (size_t)batch_elements(&p->c->size);
  int32_t              *host = NULL;
  tri_status            st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(host, n));
  write_batch(p, host);
  TRI_TRY_DONE(ops->copy(p->se->stream, p->memory, host, n * sizeof *host));
  TRI_TRY_DONE(ops->stream_sync(p->se->stream));
  view_batch(p);
done:
  TRI_FREE(host);
  return st;
}

/* Makes equal prompts with ids spread over the whole vocabulary. */
static tri_status make_prompts(tri_passes *p) {
  int64_t n = tri_bench_prompt(&p->c->size), prompts = p->c->size.prompts;

  if (!p->sampler) return TRI_OK;
  TRI_TRY(TRI_ALLOC(p->token, n + 1));
  TRI_TRY(TRI_ALLOC(p->prompt, prompts + 1));
  for (int64_t i = 0; i < n; i++) p->token[i] = (int32_t)(i * 7919 % p->c->shape.V);
  for (int64_t i = 0; i < prompts; i++) p->prompt[i] = (tri_prompt){i, p->token, (int)n};
  return TRI_OK;
}

tri_status tri_passes_start(tri_passes *p) {
  tri_params *all = tri_model_params(p->model), *trained = tri_model_trained(p->model);
  tri_stream *s = p->se->stream;

  TRI_TRY(tri_model_start(p->model, s));
  TRI_TRY(tri_params_fill(all, TRI_STATE_WEIGHT, fill, NULL, s));
  if (trained != all) TRI_TRY(tri_params_fill(trained, TRI_STATE_WEIGHT, fill, NULL, s));
  TRI_TRY(make_batch(p));
  return make_prompts(p);
}

void tri_passes_close(tri_passes *p) {
  TRI_FREE(p->token);
  TRI_FREE(p->prompt);
  tri_sampler_close(&p->sampler);
  tri_model_close(&p->model);
}

int64_t tri_passes_numbers(const tri_passes *p) {
  const tri_params_opt *o = tri_params_options(tri_model_trained(p->model));
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) n += tri_param_count(&o->unit[u].param[i]);
  return n;
}

/* ---- passes ---- */

/* Ends a measurement when the device is done. */
static tri_status end(tri_passes *p, tri_series *s) {
  TRI_TRY(p->se->device->ops->stream_sync(p->se->stream));
  tri_series_end(s);
  return TRI_OK;
}

tri_status tri_passes_score(tri_passes *p, const tri_effort *e, double *score_s) {
  tri_series s = {.effort = *e};
  bool       enough = false;

  while (!enough) {
    tri_rows_out rows;
    tri_series_begin(&s);
    TRI_TRY(tri_model_forward(p->model, &p->batch, false, 1, &rows, p->se->stream));
    TRI_TRY(end(p, &s));
    TRI_TRY(tri_series_ask(p->se->comm[TRI_WORLD], &s, &enough));
  }
  *score_s = tri_series_median(&s);
  return TRI_OK;
}

/* Times of a pass and of its halves. */
typedef struct halves {
  tri_series all, forward, backward;
} halves;

static tri_status pass(tri_passes *p, bool last, halves *h) {
  tri_rows_out rows;

  tri_series_begin(&h->all);
  tri_series_begin(&h->forward);
  TRI_TRY(tri_model_forward(p->model, &p->batch, true, 1, &rows, p->se->stream));
  TRI_TRY(end(p, &h->forward));
  tri_series_begin(&h->backward);
  TRI_TRY(tri_model_backward(p->model, &p->batch, &p->d, 1, last, p->se->stream));
  TRI_TRY(end(p, &h->backward));
  tri_series_end(&h->all);
  return TRI_OK;
}

static tri_status update(tri_passes *p, int64_t number, tri_series *s) {
  tri_optim_now now = {0, number, 1, false};
  double        norm;
  bool          applied;

  tri_series_begin(s);
  TRI_TRY(tri_optim_step(tri_model_trained(p->model), &p->c->optim, &now, p->se->stream, &norm, &applied));
  return end(p, s);
}

/* The first of two passes per update finds new weights and packs them. */
tri_status tri_passes_learn(tri_passes *p, const tri_effort *e, tri_learn_times *out) {
  tri_series change = {.effort = *e};
  halves     first = {change, change, change}, second = first;
  bool       enough = false;

  *out = (tri_learn_times){0};
  for (int64_t number = 1; !enough; number++) {
    TRI_TRY(pass(p, false, &first));
    TRI_TRY(pass(p, true, &second));
    TRI_TRY(update(p, number, &change));
    TRI_TRY(tri_series_ask(p->se->comm[TRI_WORLD], &change, &enough));
  }
  out->forward = tri_series_median(&second.forward);
  out->backward = tri_series_median(&second.backward);
  out->learn = tri_series_median(&second.all);
  out->pack = fmax(tri_series_median(&first.all) - out->learn, 0);
  out->update = tri_series_median(&change);
  out->n = change.n;
  return TRI_OK;
}

/* ---- generation ---- */

static tri_generate_opt generate_opt(const tri_passes *p, int64_t group, int64_t max_new) {
  return (tri_generate_opt){.rule = p->c->rule, .max_new = max_new, .group = (int)group};
}

static tri_status generate(tri_passes *p, int64_t n, int64_t tokens, const tri_generate_opt *gen) {
  tri_rollout r = {0};
  tri_status  st;

  for (int64_t i = 0; i < n; i++) p->prompt[i].n_token = (int)tokens;
  st = tri_sampler_generate(p->sampler, p->prompt, (int)n, gen, p->se->stream, &r);
  tri_rollout_free(&r);
  return st;
}

/* Decode steps, timed by each rank. */
typedef struct steps {
  tri_series all;
  tri_comm  *tensor; /* the ranks that generate as one model and stop together, or NULL */
  tri_status st;
} steps;

/* The sampler calls it before each decode step, so it also ends the step before. */
static bool step_is_over(void *ctx) {
  steps      *x = ctx;
  tri_series *s = &x->all;
  bool        enough = false;

  if (s->from_s > 0) tri_series_end(s);
  if (x->tensor)
    x->st = tri_series_ask(x->tensor, s, &enough);
  else
    enough = tri_series_enough(s);
  tri_series_begin(s);
  return x->st != TRI_OK || (s->n > 0 && enough);
}

/* The first step includes the prefill of the prompts and is not counted. */
tri_status tri_passes_decode(tri_passes *p, int64_t n, int64_t tokens, const tri_effort *e, double *step_s,
                             int *times) {
  steps            s = {.all.effort = *e, .tensor = tri_model_tensor(p->model)};
  tri_generate_opt gen = generate_opt(p, p->c->size.group, tri_bench_steps(&p->c->size));

  gen.halt = step_is_over;
  gen.halt_ctx = &s;
  TRI_TRY(generate(p, n, tokens, &gen));
  *step_s = tri_series_median(&s.all);
  *times = s.all.n;
  return s.st;
}

/* Each prefill is followed by one decode step. */
tri_status tri_passes_prefill(tri_passes *p, const tri_effort *e, double step_s, double *out) {
  tri_series       s = {.effort = *e};
  tri_generate_opt gen = generate_opt(p, p->c->size.group, 1);
  bool             enough = false;

  while (!enough) {
    tri_series_begin(&s);
    TRI_TRY(generate(p, p->c->size.prompts, p->c->size.prompt_tokens, &gen));
    TRI_TRY(end(p, &s));
    TRI_TRY(tri_series_ask(p->se->comm[TRI_WORLD], &s, &enough));
  }
  *out = fmax(tri_series_median(&s) - step_s, 0);
  return TRI_OK;
}
