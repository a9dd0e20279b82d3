/* test_grpo.c - GRPO's loss and gradients through a model. Judge: TRL's GRPOTrainer.compute_loss in f64 on
 * the same tokens, old log-probabilities and advantages (make_grpo_golden.py). They are compared directly,
 * parameter by parameter, and by a replay of a saved rollout, as a user would. Run with 1 and 2 ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo/policy.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "model_case.h"
#include "replay_case.h"

#include "rollout_case.h"
#include "train/train.h"

#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = 64 };
static const float TEMPERATURE = 0.9f;

/* loss_type and beta of TRL, loss_agg_mode and kl_coef here. */
typedef struct trl_case {
  const char  *name;
  tri_loss_agg mode;
  const char  *word;
  double       kl_coef;
} trl_case;
static const trl_case cases[] = {
    {"grpo.0.0", TRI_SEQ_MEAN_TOKEN_MEAN, "seq-mean-token-mean", 0},
    {"grpo.0.05", TRI_SEQ_MEAN_TOKEN_MEAN, "seq-mean-token-mean", 0.05},
    {"bnpo.0.0", TRI_TOKEN_MEAN, "token-mean", 0},
    {"bnpo.0.05", TRI_TOKEN_MEAN, "token-mean", 0.05},
    {"dapo.0.05", TRI_TOKEN_MEAN, "token-mean", 0.05},
    {"dr_grpo.0.0", TRI_SEQ_MEAN_TOKEN_SUM_NORM, "seq-mean-token-sum-norm", 0},
    {"dr_grpo.0.05", TRI_SEQ_MEAN_TOKEN_SUM_NORM, "seq-mean-token-sum-norm", 0.05}};
enum { N_CASES = sizeof cases / sizeof *cases };

static char folder[256];

/* ---- direct calls of model, algorithm, model ---- */

typedef struct bench {
  tri_session  se;
  golden       g;
  tri_model   *m;
  tri_staging *staging;
  tri_rollout  r;
} bench;

static void open_bench(bench *b) {
  tri_model_opt opt;

  memset(b, 0, sizeof *b);
  session_open(&b->se, 0);
  golden_open_model(&b->g, "grpo");
  opt = model_options(&b->g, &b->se, TRI_F32, TOKENS);
  opt.plan = (tri_shard_plan){TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_NONE};
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m));
  OK(tri_staging_open(b->se.device, b->se.ledger,
                      &(tri_staging_opt){TOKENS, TOKENS,
                                         TRI_LOSS_OLD_LOGP | TRI_LOSS_REFERENCE | TRI_LOSS_ADV,
                                         TRI_PHASE_LEARN},
                      &b->staging));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->m, b->se.stream));
  fill_model(b->m, &b->g, b->se.stream);
  b->r = golden_rollout(&b->g);
}

static void close_bench(bench *b) {
  tri_rollout_free(&b->r);
  tri_staging_close(&b->staging);
  tri_model_close(&b->m);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

/* Computes one optimizer step's loss with sequences [first, first + n) and the weights of the whole step.
 * Returns its part. */
static double learn(bench *b, const trl_case *c, const tri_algo_opt *o, const double *weight, int first,
                    int n) {
  int          seq[] = {0, 1, 2, 3, 4, 5};
  tri_batch    batch;
  tri_rows_out given, d;
  tri_loss_in  in;
  tri_loss_out out;

  OK(tri_batch_load(b->staging, &b->r, seq + first, n, b->se.stream, &batch));
  OK(tri_model_forward(b->m, &batch, true, 1.0f / TEMPERATURE, &given, b->se.stream));
  OK(tri_batch_fetch(b->staging, &given, weight, b->se.stream, &in, &out));
  if (c->kl_coef == 0) in.ref_logp = NULL;
  OK(tri_loss_clip.compute(o, &in, &out));
  OK(tri_batch_send(b->staging, &out, 1, b->se.stream, &d));
  OK(tri_model_backward(b->m, &batch, &d, 1.0f / TEMPERATURE, first + n == b->r.n_seq, b->se.stream));
  return out.loss;
}

static double golden_value(const golden *g, const char *name, const char *what) {
  char full[64];

  snprintf(full, sizeof full, "%s.%s", name, what);
  return golden_number(g, full);
}

/* Compares all parameters together by their norm, and each parameter in the golden file by itself. */
static void compare_gradients(bench *b, const trl_case *c, double ranks) {
  const tri_params_opt *o = tri_params_options(tri_model_params(b->m));
  double                square = 0, norm = golden_value(&b->g, c->name, "norm");

  OK(tri_params_grad_settle(tri_model_params(b->m), b->se.stream));
  for (int u = 0; u < o->n_unit; u++) {
    tri_grad_view v = tri_params_grad_view(tri_model_params(b->m), u, 0);
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *p = &o->unit[u].param[i];
      int64_t               n = tri_param_count(p);
      char                  name[128];
      float                *want, *got = test_alloc(n, sizeof *got);
      snprintf(name, sizeof name, "%s.grad.%s", c->name, p->name);
      for (int64_t k = 0; k < n; k++) {
        got[k] = (float)((double)v.grad[p->offset + k] / ranks);
        square += (double)got[k] * (double)got[k];
      }
      if (tri_safetensors_find(b->g.numbers, name)) {
        want = golden_get(&b->g, name);
        CHECK(distance(got, want, n) <= 1e-5, "%s is %.3g away", name, distance(got, want, n));
        free(want);
      }
      free(got);
    }
  }
  CHECK(fabs(sqrt(square) - norm) <= 1e-5 * norm, "%s: gradient norm %.9g, TRL %.9g", c->name, sqrt(square),
        norm);
}

/* Every rank does the same work, so reduced gradients are `ranks` times TRL's. */
static void loss_and_gradients(void **state) {
  bench    b;
  int32_t *n_answer;
  float   *adv;

  (void)state;
  open_bench(&b);
  n_answer = golden_get_int(&b.g, "answer_lengths");
  adv = golden_get(&b.g, "advantages");
  for (int k = 0; k < N_CASES; k++) {
    const trl_case *c = &cases[k];
    tri_algo_opt    o = {.clip_eps = 0.2,
                         .clip_eps_high = 0.28,
                         .kl_coef = c->kl_coef,
                         .advantage_eps = 1e-4,
                         .kl_estimator = TRI_KL_K3,
                         .scale_rewards = TRI_SCALE_GROUP,
                         .loss_agg_mode = c->mode,
                         .top_entropy_quantile = 1};
    double          weight[6], want = golden_value(&b.g, c->name, "loss");
    int64_t         n[6];
    for (int q = 0; q < 6; q++) n[q] = n_answer[q];
    tri_loss_weights(c->mode, 12, n, 6, weight);
    OK(tri_advantage_group.fill(&o, &b.r));
    for (int q = 0; q < 6; q++)
      CHECK(fabs((double)b.r.adv[b.r.start[q + 1] - 1] - (double)adv[q]) <= 1e-6,
            "advantage %d is %g, not %g", q, (double)b.r.adv[b.r.start[q + 1] - 1], (double)adv[q]);
    for (int pieces = 1; pieces <= 3; pieces++) { /* micro-batches of 6, 3, 2 sequences */
      double loss = 0;
      tri_params_grad_clear(tri_model_params(b.m));
      for (int first = 0; first < 6; first += 6 / pieces) loss += learn(&b, c, &o, weight, first, 6 / pieces);
      CHECK(fabs(loss - want) <= 1e-5 * fabs(want), "%s: loss %.9g, TRL %.9g", c->name, loss, want);
      compare_gradients(&b, c, rt.world_size);
    }
  }
  free(n_answer);
  free(adv);
  close_bench(&b);
}

/* ---- by a replay, as a user would ---- */

static void replay(const trl_case *c, int number) {
  enum { ARGS = 24 };
  char          text[ARGS][640], *arg[ARGS], path[600], *metrics;
  tri_config    cfg = {0};
  tri_session   se;
  tri_trainer   t = {0};
  tri_train_end end;
  int           n = 0;
  size_t        bytes;

  snprintf(text[n++], sizeof *text, "run.output=%s/%d", folder, number);
  snprintf(text[n++], sizeof *text, "run.sampler=trust");
  snprintf(text[n++], sizeof *text, "run.threads=1");
  snprintf(text[n++], sizeof *text, "model.path=%s/grpo", TRI_TEST_DATA);
  if (c->kl_coef > 0) snprintf(text[n++], sizeof *text, "model.ref_path=%s/grpo/ref", TRI_TEST_DATA);
  snprintf(text[n++], sizeof *text, "algo.num_generations=3");
  snprintf(text[n++], sizeof *text, "algo.loss_agg_mode=%s", c->word);
  snprintf(text[n++], sizeof *text, "algo.clip_eps=0.2");
  snprintf(text[n++], sizeof *text, "algo.clip_eps_high=0.28");
  snprintf(text[n++], sizeof *text, "algo.kl_coef=%g", c->kl_coef);
  snprintf(text[n++], sizeof *text, "rollout.replay=%s", folder);
  snprintf(text[n++], sizeof *text, "rollout.rollout_batch_size=2");
  snprintf(text[n++], sizeof *text, "rollout.max_response_length=12");
  snprintf(text[n++], sizeof *text, "rollout.temperature=0.9");
  snprintf(text[n++], sizeof *text, "train.steps=1");
  snprintf(text[n++], sizeof *text, "train.max_tokens_per_gpu=%d", 20 + 10 * number);
  snprintf(text[n++], sizeof *text, "checkpoint.save_final=false");
  for (int i = 0; i < n; i++) arg[i] = text[i];
  OK(tri_config_load(TRI_TEST_DATA "/grpo/deck.yaml", arg, n, &cfg, NULL));
  session_open(&se, 0);
  OK(tri_trainer_open(&cfg, &se, NULL, &t));
  OK(tri_train(&t, &end));
  tri_trainer_close(&t);
  tri_session_close(&se);
  tri_config_free(&cfg);
  if (rt.world_rank) return;
  snprintf(path, sizeof path, "%s/%d/metrics.jsonl", folder, number);
  OK(tri_file_read(path, 1 << 20, &metrics, &bytes));
  golden g;
  golden_open(&g, "grpo");
  double loss = golden_value(&g, c->name, "loss"), norm = golden_value(&g, c->name, "norm");
  CHECK(fabs(metric(metrics, "\"loss\": ") - loss) <= 1e-5 * fabs(loss), "%s: loss %.9g, TRL %.9g", c->name,
        metric(metrics, "\"loss\": "), loss);
  CHECK(fabs(metric(metrics, "\"grad_norm\": ") - norm) <= 1e-5 * norm, "%s: gradient norm %.9g, TRL %.9g",
        c->name, metric(metrics, "\"grad_norm\": "), norm);
  golden_close(&g);
  tri_host_free((void **)&metrics);
  for (const char *const *file = (const char *const[]){"metrics.jsonl", "deck.yaml", "log.txt", "", NULL};
       *file; file++) {
    snprintf(path, sizeof path, "%s/%d/%s", folder, number, *file);
    remove(path);
  }
}

/* Log-probabilities of the reference are computed here, old ones and rewards come from the file. */
static void replayed_rollout(void **state) {
  char path[600];

  (void)state;
  if (rt.world_rank == 0) {
    const char *tmp = getenv("TMPDIR");
    golden      g;
    tri_rollout r = {0};
    snprintf(folder, sizeof folder, "%s/trireme-test-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(folder));
    golden_open(&g, "grpo");
    r = golden_rollout(&g);
    OK(case_write_rollout(folder, 1, &r, NULL, NULL));
    tri_rollout_free(&r);
    golden_close(&g);
  }
  OK(tri_host_bcast(world, folder, sizeof folder, 0));
  for (int k = 0; k < N_CASES; k++) replay(&cases[k], k);
  if (rt.world_rank) return;
  snprintf(path, sizeof path, "%s/step-00000001.jsonl", folder);
  remove(path);
  CHECK(rmdir(folder) == 0);
}

static int open_ranks(void **state) {
  ranks_open(state);
  tri_log_open(rt.world_rank, TRI_LOG_WARN);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loss_and_gradients),
                                     cmocka_unit_test(replayed_rollout)};

  return cmocka_run_group_tests(tests, open_ranks, ranks_close);
}
