/* bench.c - a model of the policy's shape, whose tokens and weights are all 0, and the time that its passes
 * take. */
#include "bench.h"

#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
  tri_session  se;
  tri_model   *model;
  tri_sampler *sampler;
  tri_batch    batch;
  tri_rows_out d;
  void        *memory; /* what batch and d lie in */
  tri_prompt  *prompt; /* [prompts] */
} bench;

/* Chosen. Each pass once unseen and then TURNS times at least; more while they take less than part_s in all,
 * for short ones vary most. The same of decode steps. */
enum { TURNS = 1, MOST_TURNS = 9, MOST_STEPS = 64 };
static const double part_s = 0.2;
/* Chosen: nobody gives a plan more memory. */
static const int64_t most_bytes = (int64_t)1 << 30;

/* ---- times ---- */

typedef struct series {
  double x[MOST_STEPS];
  int    n, most;
  double began_s, last_s; /* of all; of the one under way */
} series;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

static double median(series *s) {
  qsort(s->x, (size_t)s->n, sizeof *s->x, compare);
  return s->n ? (s->x[(s->n - 1) / 2] + s->x[s->n / 2]) / 2 : 0;
}

/* The first is not counted. */
static void begin(series *s) {
  s->last_s = tri_now_s();
  if (s->began_s == 0) s->began_s = s->last_s, s->n = -1;
}

static void end(series *s) {
  double now_s = tri_now_s();

  if (s->n < 0)
    s->n = 0, s->began_s = now_s;
  else if (s->n < s->most)
    s->x[s->n++] = now_s - s->last_s;
}

static bool enough(const series *s) {
  return s->n == s->most || (s->n >= TURNS && s->last_s - s->began_s > part_s);
}

/* ---- a model ---- */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Decode steps that are timed, and what a prompt has then: half of them lie before half of the answer. */
static int64_t steps_of(const tri_bench_size *z) {
  int64_t n = z->answer_tokens < MOST_STEPS ? z->answer_tokens : MOST_STEPS;

  return most(n, TURNS + 4);
}

static int64_t long_prompt(const tri_bench_size *z) {
  return z->prompt_tokens + most(z->answer_tokens - steps_of(z), 0) / 2;
}

static tri_status open_sampler(bench *b, const tri_plan *p, const tri_bench_size *z, int64_t prefill) {
  int64_t         answers = z->prompts * z->group;
  tri_sampler_opt so = {(int)answers, long_prompt(z), steps_of(z), prefill, answers};

  return tri_sampler_open(b->se.device, b->se.ledger, b->model, p->cfg.model.dtype, &so, &b->sampler);
}

/* What generates need not learn; but adapters are opened to learn. */
static tri_status open_model(bench *b, const tri_plan *p, const tri_bench_size *z, int layers,
                             bool generates) {
  const tri_learner *l = &p->t.learner[TRI_POLICY];
  tri_model_shape    shape = *tri_source_shape(l->source);
  bool               adapted = tri_learner_has_adapters(&p->t, l);
  int64_t            N = z->sequences * z->length, answers = generates ? z->prompts * z->group : 0,
          prefill = answers ? tri_sampler_prefill(answers, long_prompt(z)) : 0;
  tri_model_opt mo = {.shape = &shape,
                      .dtype = p->cfg.model.dtype,
                      .place = b->se.place,
                      .head = l->head,
                      .train = !generates || adapted,
                      .rollout = generates,
                      .recompute = p->cfg.model.recompute == TRI_CONFIG_RECOMPUTE_LAYER,
                      .max_tokens = most(N, most(prefill, answers)),
                      .max_learn_tokens = N,
                      .max_rows = most(z->sequences * z->rows, answers),
                      .max_positions = most(z->length, long_prompt(z) + steps_of(z)),
                      .label = "policy"};

  if (layers < shape.L) shape.L = layers;
  if (adapted) mo.lora = *tri_source_lora(l->source);
  TRI_TRY(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &mo, &b->model));
  return generates ? open_sampler(b, p, z, prefill) : TRI_OK;
}

/* Numbers as those of a new model, for products of zeros may be faster; ids all over the vocabulary. */
static float noise(uint64_t i) { return (float)((i * 2654435761u >> 7) % 1001) / 10000.0f - 0.05f; }

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  (void)ctx, (void)kind, (void)u, (void)i;
  for (int64_t k = 0; k < count; k++) out[k] = noise((uint64_t)(begin + k));
  return TRI_OK;
}

/* Sequences one behind the other, each with its last tokens learned. */
static tri_status make_batch(bench *b, const tri_bench_size *z) {
  int64_t N = z->sequences * z->length, K = z->sequences * z->rows, at = 0,
          V = tri_model_get_shape(b->model)->V;
  int32_t *i32, *token, *pos, *cu, *row, *target;
  float   *zero;

  TRI_TRY(tri_host_alloc((size_t)(2 * N + z->sequences + 1 + 4 * K), sizeof *i32, &b->memory));
  i32 = b->memory;
  token = i32, pos = token + N, cu = pos + N, row = cu + z->sequences + 1, target = row + K;
  zero = (float *)(void *)(target + K);
  for (int64_t i = 0; i < N; i++) token[i] = (int32_t)(i * 7919 % V);
  for (int64_t i = 0; i < K; i++) target[i] = (int32_t)(i * 7919 % V), zero[i] = noise((uint64_t)i);
  for (int64_t q = 0; q < z->sequences; q++) {
    for (int64_t i = 0; i < z->length; i++) pos[q * z->length + i] = (int32_t)i;
    for (int64_t i = 0; i < z->rows; i++) row[at++] = (int32_t)((q + 1) * z->length - 1 - z->rows + i);
    cu[q + 1] = (int32_t)((q + 1) * z->length);
  }
  b->batch = (tri_batch){.token = tri_view1(token, TRI_I32, N),
                         .pos = tri_view1(pos, TRI_I32, N),
                         .cu = tri_view1(cu, TRI_I32, z->sequences + 1),
                         .row = tri_view1(row, TRI_I32, K),
                         .target = tri_view1(target, TRI_I32, K)};
  b->d.logp = tri_view1(zero, TRI_F32, K);
  b->d.ent = b->d.value = tri_view1(zero + K, TRI_F32, K);
  return TRI_OK;
}

static tri_status make_prompts(bench *b, const tri_bench_size *z, int32_t **token) {
  TRI_TRY(TRI_ALLOC(*token, long_prompt(z) + 1));
  TRI_TRY(TRI_ALLOC(b->prompt, z->prompts + 1));
  for (int64_t i = 0; i < z->prompts; i++) b->prompt[i] = (tri_prompt){i, *token, (int)z->prompt_tokens};
  return TRI_OK;
}

/* ---- passes ---- */

static tri_status score(bench *b, double *pass_s) {
  series s = {.most = MOST_TURNS};

  while (!enough(&s)) {
    tri_rows_out rows;
    begin(&s);
    TRI_TRY(tri_model_forward(b->model, &b->batch, false, 1, &rows, b->se.stream));
    end(&s);
  }
  *pass_s = median(&s);
  return TRI_OK;
}

static tri_status pass(bench *b, bool last, series *s) {
  tri_rows_out rows;

  begin(s);
  TRI_TRY(tri_model_forward(b->model, &b->batch, true, 1, &rows, b->se.stream));
  TRI_TRY(tri_model_backward(b->model, &b->batch, &b->d, 1, last, b->se.stream));
  end(s);
  return TRI_OK;
}

/* Of two passes to an update the first finds new weights, which it packs. */
static tri_status learn(bench *b, const tri_plan *p, tri_bench_times *t) {
  series first = {.most = MOST_TURNS}, second = {.most = MOST_TURNS}, update = {.most = MOST_TURNS};

  while (!enough(&second)) {
    tri_optim_now now = {0, most(second.n, 0) + 1, 1, false};
    double        norm;
    bool          applied;
    TRI_TRY(pass(b, false, &first));
    TRI_TRY(pass(b, true, &second));
    begin(&update);
    TRI_TRY(tri_optim_step(tri_model_trained(b->model), &p->cfg.train.optim, &now, b->se.stream, &norm,
                           &applied));
    end(&update);
  }
  t->learn = median(&second);
  t->pack = fmax(median(&first) - t->learn, 0);
  t->update = median(&update);
  return TRI_OK;
}

static tri_status generate(bench *b, const tri_bench_size *z, tri_generate_opt *gen) {
  tri_rollout r = {0};
  tri_status  st = tri_sampler_generate(b->sampler, b->prompt, (int)z->prompts, gen, b->se.stream, &r);

  tri_rollout_free(&r);
  return st;
}

/* Asked before each decode step, and so after the one before. */
static bool step_is_over(void *ctx) {
  series *s = ctx;

  if (s->last_s > 0) end(s);
  begin(s);
  return s->n > 0 && enough(s);
}

/* The first step has the prompts' prefill and is not counted. */
static tri_status decode(bench *b, const tri_bench_size *z, tri_generate_opt gen, double *step_s) {
  series s = {.most = MOST_STEPS};

  for (int64_t i = 0; i < z->prompts; i++) b->prompt[i].n_token = (int)long_prompt(z);
  gen.max_new = steps_of(z);
  gen.halt = step_is_over;
  gen.halt_ctx = &s;
  TRI_TRY(generate(b, z, &gen));
  *step_s = median(&s);
  return TRI_OK;
}

/* Each with one decode step behind it. */
static tri_status prefill(bench *b, const tri_bench_size *z, tri_generate_opt gen, double step_s,
                          double *prompts_s) {
  series s = {.most = MOST_TURNS};

  for (int64_t i = 0; i < z->prompts; i++) b->prompt[i].n_token = (int)z->prompt_tokens;
  gen.max_new = 1;
  while (!enough(&s)) {
    begin(&s);
    TRI_TRY(generate(b, z, &gen));
    end(&s);
  }
  *prompts_s = fmax(median(&s) - step_s, 0);
  return TRI_OK;
}

/* ---- the whole ---- */

static int64_t numbers_of(const tri_params *p) {
  const tri_params_opt *o = tri_params_options(p);
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++) n += o->unit[u].count;
  return n;
}

static tri_status time_learning(bench *b, const tri_plan *p, tri_bench_times *t) {
  t->numbers = (double)numbers_of(tri_model_trained(b->model));
  TRI_TRY(score(b, &t->forward));
  return learn(b, p, t);
}

static tri_status time_generating(bench *b, const tri_plan *p, const tri_bench_size *z, tri_bench_times *t) {
  tri_generate_opt gen = p->t.sampling.step;

  gen.group = (int)z->group;
  gen.n_eos = 0;
  gen.stop = NULL;
  TRI_TRY(decode(b, z, gen, &t->decode));
  return prefill(b, z, gen, t->decode, &t->prefill);
}

tri_status tri_bench_model(const tri_plan *p, const tri_bench_size *z, int layers, bool generates,
                           tri_bench_times *out, bool *done) {
  tri_session_opt opt = {.device = tri_device_host(), .threads = p->se.threads};
  bench           b = {0};
  int32_t        *token = NULL;
  tri_status      st = TRI_OK;

  *done = false;
  TRI_TRY_DONE(tri_session_pretend(&opt, 1, 1, &b.se));
  TRI_TRY_DONE(open_model(&b, p, z, layers, generates));
  *done = tri_ledger_total(b.se.ledger).planned <= most_bytes;
  if (!*done) goto done;
  TRI_TRY_DONE(tri_ledger_take(b.se.ledger, b.se.device));
  TRI_TRY_DONE(tri_model_start(b.model, b.se.stream));
  TRI_TRY_DONE(tri_params_fill(tri_model_params(b.model), TRI_STATE_WEIGHT, fill, NULL, b.se.stream));
  if (tri_model_trained(b.model) != tri_model_params(b.model))
    TRI_TRY_DONE(tri_params_fill(tri_model_trained(b.model), TRI_STATE_WEIGHT, fill, NULL, b.se.stream));
  TRI_TRY_DONE(make_batch(&b, z));
  TRI_TRY_DONE(make_prompts(&b, z, &token));
  TRI_TRY_DONE(generates ? time_generating(&b, p, z, out) : time_learning(&b, p, out));
done:
  TRI_FREE(token);
  TRI_FREE(b.prompt);
  tri_host_free(&b.memory);
  tri_sampler_close(&b.sampler);
  tri_model_close(&b.model);
  tri_session_leave(&b.se, TRI_OK);
  return st;
}
