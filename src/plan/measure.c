/* measure.c - the policy's compute on this machine's cores: models of its shape with one and with two
 * layers pass batches of the deck's size, and each further layer costs what the second did. */
#include "measure.h"

#include "plan.h"

#include <math.h>
#include <string.h>

/* What is passed, of the deck's sizes. */
typedef struct size {
  int64_t sequences, length, rows;  /* of a pass of learning: sequences, tokens and learned tokens of each */
  int64_t answers, prompt, context; /* decoded at once; tokens of a prompt, and of half an answer behind it */
} size;

/* Seconds. */
typedef struct times {
  double forward, learn, update; /* of a pass without and with backward; of an update of all numbers */
  double prefill, decode;        /* of all prompts; of one decode step */
  double numbers;
} times;

typedef struct bench {
  tri_session  se;
  tri_model   *model;
  tri_sampler *sampler;
  tri_batch    batch;
  tri_rows_out d;
  void        *memory; /* what batch and d lie in */
  tri_prompt  *prompt; /* [answers] */
} bench;

enum { NEW_TOKENS = 5, TURNS = 3 }; /* chosen: the shortest of three; a step is a fourth of four more */
/* Chosen: nobody waits longer for a plan, nor gives it more memory. */
static const double  most_s = 1.5;
static const int64_t most_bytes = (int64_t)1 << 30;

/* ---- a small model ---- */

static tri_status open_model(bench *b, const tri_plan *p, const size *z, int layers) {
  const tri_learner *l = &p->t.learner[TRI_POLICY];
  tri_model_shape    shape = *tri_source_shape(l->source);
  int64_t            N = z->sequences * z->length, K = z->sequences * z->rows, prefill = 0;
  tri_model_opt      mo = {.shape = &shape,
                           .dtype = p->cfg.model.dtype,
                           .place = b->se.place,
                           .head = l->head,
                           .train = true,
                           .rollout = z->answers > 0,
                           .recompute = p->cfg.model.recompute == TRI_CONFIG_RECOMPUTE_LAYER,
                           .max_learn_tokens = N,
                           .max_positions = z->length + z->prompt + z->context + NEW_TOKENS,
                           .label = "policy"};

  if (layers < shape.L) shape.L = layers;
  if (z->answers) prefill = tri_sampler_prefill(z->answers, z->prompt + z->context);
  mo.max_tokens = N > prefill ? N : prefill;
  if (mo.max_tokens < z->answers) mo.max_tokens = z->answers;
  mo.max_rows = K > z->answers ? K : z->answers;
  TRI_TRY(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &mo, &b->model));
  if (!z->answers) return TRI_OK;
  tri_sampler_opt so = {(int)z->answers, z->prompt + z->context, NEW_TOKENS, prefill, z->answers};
  return tri_sampler_open(b->se.device, b->se.ledger, b->model, p->cfg.model.dtype, &so, &b->sampler);
}

/* Sequences one behind the other, each with its last tokens learned. All tokens are 0. */
static tri_status make_batch(bench *b, const size *z) {
  int64_t  N = z->sequences * z->length, K = z->sequences * z->rows, at = 0;
  int32_t *i32, *token, *pos, *cu, *row, *target;
  float   *zero;

  TRI_TRY(tri_host_alloc((size_t)(2 * N + z->sequences + 1 + 4 * K), sizeof *i32, &b->memory));
  i32 = b->memory;
  token = i32, pos = token + N, cu = pos + N, row = cu + z->sequences + 1, target = row + K;
  zero = (float *)(void *)(target + K);
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

static tri_status make_prompts(bench *b, const size *z) {
  int32_t *token = b->batch.token.data;

  TRI_TRY(TRI_ALLOC(b->prompt, z->answers + 1));
  for (int64_t i = 0; i < z->answers; i++) b->prompt[i] = (tri_prompt){i, token, (int)z->prompt};
  return TRI_OK;
}

/* ---- passes ---- */

/* Turn 0 warms up. */
static void keep_best(int turn, double began_s, double *best_s) {
  double s = tri_now_s() - began_s;

  if (turn == 1 || (turn && s < *best_s)) *best_s = s;
}

static tri_status score(bench *b, double *best_s) {
  for (int turn = 0; turn <= TURNS; turn++) {
    double       began_s = tri_now_s();
    tri_rows_out rows;
    TRI_TRY(tri_model_forward(b->model, &b->batch, false, 1, &rows, b->se.stream));
    keep_best(turn, began_s, best_s);
  }
  return TRI_OK;
}

/* A pass of learning, and the update that must follow it. */
static tri_status learn(bench *b, const tri_plan *p, double *pass_s, double *update_s) {
  for (int turn = 0; turn <= TURNS; turn++) {
    tri_optim_now now = {0, turn + 1, 1, false};
    double        began_s = tri_now_s(), norm;
    bool          applied;
    tri_rows_out  rows;
    TRI_TRY(tri_model_forward(b->model, &b->batch, true, 1, &rows, b->se.stream));
    TRI_TRY(tri_model_backward(b->model, &b->batch, &b->d, 1, true, b->se.stream));
    keep_best(turn, began_s, pass_s);
    began_s = tri_now_s();
    TRI_TRY(
        tri_optim_step(tri_model_params(b->model), &p->cfg.train.optim, &now, b->se.stream, &norm, &applied));
    keep_best(turn, began_s, update_s);
  }
  return TRI_OK;
}

static tri_status generate(bench *b, const tri_plan *p, int64_t n, int64_t prompt, int64_t max_new,
                           double *best_s) {
  tri_generate_opt gen = p->t.sampling.step;

  gen.max_new = max_new;
  gen.group = 1;
  gen.n_eos = 0;
  gen.stop = NULL;
  for (int64_t i = 0; i < n; i++) b->prompt[i].n_token = (int)prompt;
  for (int turn = 0; turn <= TURNS; turn++) {
    tri_rollout r = {0};
    double      began_s = tri_now_s();
    tri_status  st = tri_sampler_generate(b->sampler, b->prompt, (int)n, &gen, b->se.stream, &r);
    tri_rollout_free(&r);
    TRI_TRY(st);
    keep_best(turn, began_s, best_s);
  }
  return TRI_OK;
}

static int64_t numbers_of(const tri_params *p) {
  const tri_params_opt *o = tri_params_options(p);
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++) n += o->unit[u].count;
  return n;
}

static tri_status run_all(bench *b, const tri_plan *p, const size *z, times *t) {
  double few, many;

  t->numbers = (double)numbers_of(tri_model_params(b->model));
  TRI_TRY(score(b, &t->forward));
  TRI_TRY(learn(b, p, &t->learn, &t->update));
  if (!z->answers) return TRI_OK;
  TRI_TRY(generate(b, p, z->answers, z->prompt, 1, &t->prefill));
  TRI_TRY(generate(b, p, z->answers, z->prompt + z->context, 1, &few));
  TRI_TRY(generate(b, p, z->answers, z->prompt + z->context, NEW_TOKENS, &many));
  t->decode = fmax(many - few, 0) / (NEW_TOKENS - 1);
  return TRI_OK;
}

/* *done false: it would take more memory than a plan may. */
static tri_status bench_model(const tri_plan *p, const size *z, int layers, times *t, bool *done) {
  tri_session_opt opt = {.device = tri_device_host(), .threads = p->se.threads};
  bench           b = {0};
  tri_status      st = TRI_OK;

  *done = false;
  TRI_TRY_DONE(tri_session_pretend(&opt, 1, 1, &b.se));
  TRI_TRY_DONE(open_model(&b, p, z, layers));
  *done = tri_ledger_total(b.se.ledger).planned <= most_bytes;
  if (!*done) goto done;
  TRI_TRY_DONE(tri_ledger_take(b.se.ledger, b.se.device));
  TRI_TRY_DONE(tri_model_start(b.model, b.se.stream));
  TRI_TRY_DONE(make_batch(&b, z));
  TRI_TRY_DONE(make_prompts(&b, z));
  TRI_TRY_DONE(run_all(&b, p, z, t));
done:
  TRI_FREE(b.prompt);
  tri_host_free(&b.memory);
  tri_sampler_close(&b.sampler);
  tri_model_close(&b.model);
  tri_session_leave(&b.se, TRI_OK);
  return st;
}

/* ---- all layers ---- */

static double grow(double one, double two, double layers) { return one + fmax(two - one, 0) * (layers - 1); }

/* Measured with tests/bench/predict.sh, 4 ranks on 2 cores: what is lost where each waits for the turn of
 * others. */
static const double lost_in_turns = 1.25;

/* Ranks of a node that share fewer cores than they have threads take turns. */
static double turns(const tri_plan *p) {
  double want = (double)p->se.threads * p->job.per_node, have = p->se.rt.machine_cores;

  return want > have ? lost_in_turns * want / have : 1;
}

static int64_t at_least_1(double x) { return x < 1 ? 1 : (int64_t)(x + 0.5); }

static size size_of(const tri_cost_pass *learn, const tri_cost_rollout *r) {
  int64_t sequence = at_least_1(2 * learn->context),
          in_pass = at_least_1(learn->tokens / learn->batches / (double)sequence);
  size z = {.sequences = in_pass, .length = sequence};

  z.rows = at_least_1(learn->rows / learn->tokens * (double)sequence);
  if (z.rows > sequence - 1 && sequence > 1) z.rows = sequence - 1;
  if (!r) return z;
  z.answers = at_least_1(fmin(r->answers, r->at_once));
  z.prompt = at_least_1(r->prompt_tokens);
  z.context = at_least_1(r->answer_tokens / 2);
  return z;
}

/* Whether all of it takes no longer than a plan may, by what such cores do: what was measured of them once
 * may be of a busy hour. */
static bool is_short(const tri_plan *p, const size *z, const tri_cost_pass *learn) {
  tri_machine    m;
  tri_cost_model two = learn->model;
  double         N = (double)(z->sequences * z->length), flops;

  tri_machine_host(p->se.threads, 1, &m);
  two.L = two.L < 3 ? two.L : 3; /* both models together */
  flops =
      (TURNS + 1) * (2 * tri_cost_forward_flops(&two, N, (double)(z->sequences * z->rows), learn->context) +
                     tri_cost_backward_flops(&two, N, (double)(z->sequences * z->rows), learn->context) +
                     tri_cost_forward_flops(&two, (double)(z->answers * (3 * z->prompt + 2 * z->context)), 0,
                                            learn->context));
  return flops / (learn->model.bytes == 4 ? m.flops_f32 : m.flops_bf16) <= most_s;
}

tri_status tri_plan_measure(const tri_plan *p, const tri_cost_pass *learn, const tri_cost_rollout *r,
                            tri_cost_compute *out, bool *done) {
  size   z = size_of(learn, r);
  times  one, two;
  double L = (double)learn->model.L, more = turns(p), tokens = (double)(z.sequences * z.length), forward;

  *done = false;
  if (p->job.gpu || !is_short(p, &z, learn)) return TRI_OK;
  TRI_TRY(bench_model(p, &z, 1, &one, done));
  if (*done) TRI_TRY(bench_model(p, &z, 2, &two, done));
  if (!*done) return TRI_OK;
  if (learn->model.L < 2) two = one;
  forward = grow(one.forward, two.forward, L);
  out->forward = (tri_cost_line){0, more * forward / tokens};
  out->backward = (tri_cost_line){0, more * fmax(grow(one.learn, two.learn, L) - forward, 0) / tokens};
  out->update_s = more * two.update / two.numbers;
  if (!r) return TRI_OK;
  out->prefill_s = more * grow(one.prefill, two.prefill, L) / (double)(z.answers * z.prompt);
  out->decode = (tri_cost_line){more * grow(one.decode, two.decode, L), 0};
  return TRI_OK;
}
