/* test_algo.c - advantages, losses, token weights. Judges: numbers worked by hand in the comment above each
 * case, central differences of the loss, the loss of the whole batch against its parts, TRL's own loss
 * (make_algo_golden.py). */
#include "algo/algo.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ENTROPY = TRI_CLIP_ENTROPY, KL = TRI_CLIP_KL, CLIPPED = TRI_CLIP_CLIPPED };

enum { MAX_SEQ = 8, MAX_TOK = 64 };

static const tri_algo_opt PLAIN = {.clip_eps = 0.2,
                                   .clip_eps_high = 0.2,
                                   .kl_estimator = TRI_KL_K3,
                                   .scale_rewards = TRI_SCALE_GROUP,
                                   .loss_agg_mode = TRI_TOKEN_MEAN};

/* One micro-batch with room for the results. */
typedef struct micro {
  int64_t      start[MAX_SEQ + 1];
  float        logp[MAX_TOK], ent[MAX_TOK], old[MAX_TOK], ref[MAX_TOK], adv[MAX_TOK];
  double       weight[MAX_SEQ];
  float        dlogp[MAX_TOK], dent[MAX_TOK];
  tri_loss_in  in;
  tri_loss_out out;
} micro;

static void micro_make(micro *m, const int64_t *length, int n_seq, bool with_ref) {
  memset(m, 0, sizeof *m);
  for (int q = 0; q < n_seq; q++) m->start[q + 1] = m->start[q] + length[q];
  m->in = (tri_loss_in){.n = m->start[n_seq],
                        .n_seq = n_seq,
                        .start = m->start,
                        .logp = m->logp,
                        .ent = m->ent,
                        .old_logp = m->old,
                        .ref_logp = with_ref ? m->ref : NULL,
                        .adv = m->adv,
                        .weight = m->weight};
  m->out.dlogp = m->dlogp;
  m->out.dent = m->dent;
}

/* Numbers on a grid of 2^-10, so that a step of 2^-10 is exact; the same for every caller. */
static void micro_fill(micro *m) {
  uint32_t s = 12345;
  for (int64_t i = 0; i < m->in.n; i++) {
    int v[4];
    for (int k = 0; k < 4; k++) v[k] = (int)((s = s * 1664525u + 1013904223u) >> 22) - 512; /* -512 .. 511 */
    m->old[i] = -1.0f + (float)v[0] / 1024;
    m->logp[i] = m->old[i] + (float)(v[1] | 1) / 1024; /* odd: no tie with a boundary of the clip below */
    m->ref[i] = m->old[i] + (float)v[2] / 1024;
    m->ent[i] = 1.0f + (float)v[3] / 1024;
    m->adv[i] = (float)(v[2] ^ v[3]) / 256;
  }
}

/* Prompts of 1 token; answers of length[q], or of 2 tokens where it is NULL. */
static void rollout_make(tri_rollout *r, const float *reward, const int64_t *length, int n_seq, int group) {
  int64_t n_tok = 0;

  for (int q = 0; q < n_seq; q++) n_tok += 1 + (length ? length[q] : 2);
  assert_int_equal(tri_rollout_make(n_seq, n_tok, group, 0, r), TRI_OK);
  for (int q = 0; q < n_seq; q++) {
    r->start[q + 1] = r->start[q] + 1 + (length ? length[q] : 2);
    r->prompt_len[q] = 1;
    r->prompt_id[q] = 40 + q / group;
    r->sample[q] = q % group;
    r->reward[q] = reward[q];
  }
}

/* Advantage `want[q]` at every answer token of sequence q, 0 before them. */
static void check_advantage(const tri_algo *a, const tri_algo_opt *o, tri_rollout *r, const double *want) {
  for (int64_t i = 0; i < r->n_tok; i++) r->adv[i] = 99;
  assert_int_equal(a->advantage(o, r), TRI_OK);
  for (int q = 0; q < r->n_seq; q++)
    for (int64_t i = r->start[q]; i < r->start[q + 1]; i++) {
      double x = i < tri_rollout_first_row(r, q) ? 0 : want[q];
      assert_true(fabs((double)r->adv[i] - x) <= 1e-6 * fabs(x)); /* one rounding to f32 */
    }
}

/* Rewards 1, 0, 1/2: mean 1/2, squares 1/4 + 1/4, over G - 1 = 2: std 1/2. The second group is all equal:
 * exactly 0. Whole batch 1 0 .5 2 2 2: mean 1.25, squares .0625 + 1.5625 + .5625 + 3 * .5625 = 3.875, over 5:
 * variance 0.775. */
static void test_advantage(void **state) {
  const float  reward[] = {1, 0, 0.5f, 2, 2, 2};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 6, 3);
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){1, -1, 0, 0, 0, 0});
  o.advantage_eps = 0.5; /* 0.5 / (0.5 + 0.5) */
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){0.5, -0.5, 0, 0, 0, 0});
  o.scale_rewards = TRI_SCALE_NONE;
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){0.5, -0.5, 0, 0, 0, 0});
  o.scale_rewards = TRI_SCALE_BATCH;
  double a = 0.5 / (sqrt(0.775) + 0.5);
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){a, -a, 0, 0, 0, 0});
  tri_rollout_free(&r);
}

/* Equal rewards give exactly 0, with eps 0 too; also ten equal scores whose mean in f64 is none of
 * them. */
static void test_equal_rewards(void **state) {
  const float  reward[] = {0.1f, 0.1f, 0.1f, 0.7f, 0.7f, 0.7f};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 6, 3);
  for (int s = TRI_SCALE_GROUP; s <= TRI_SCALE_NONE; s++) {
    o.scale_rewards = (tri_scale_rewards)s;
    check_advantage(&tri_algo_grpo, &o, &r, (double[]){0, 0, 0, 0, 0, 0});
  }
  tri_rollout_free(&r);
  rollout_make(&r, (float[10]){0}, NULL, 10, 10);
  o.kl_where = TRI_KL_IN_REWARD;
  o.kl_coef = 0.1;
  for (int i = 0; i < 30; i++) r.old_logp[i] = -1, r.ref_logp[i] = -1.3f;
  for (int s = TRI_SCALE_GROUP; s <= TRI_SCALE_NONE; s++) {
    o.scale_rewards = (tri_scale_rewards)s;
    check_advantage(&tri_algo_grpo, &o, &r, (double[10]){0});
  }
  tri_rollout_free(&r);
}

/* Answers of 3, 0, 1 and 2 tokens; one without a prompt, whose first token nothing predicts; and none. */
static void test_advantage_rows(void **state) {
  static const int64_t length[] = {3, 0, 1, 2};
  const float          reward[] = {1, 0, 0, 1};
  tri_algo_opt         o = PLAIN;
  tri_rollout          r = {0};

  (void)state;
  o.scale_rewards = TRI_SCALE_NONE;
  rollout_make(&r, reward, length, 4, 2);
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){0.5, -0.5, -0.5, 0.5});
  r.prompt_len[3] = 0;
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){0.5, -0.5, -0.5, 0.5});
  assert_int_equal(tri_rollout_loss_tokens(&r, 0), 3);
  assert_int_equal(tri_rollout_loss_tokens(&r, 1), 0);
  assert_int_equal(tri_rollout_loss_tokens(&r, 3), 2);
  tri_rollout_free(&r);
  assert_int_equal(tri_rollout_make(0, 0, 3, 0, &r), TRI_OK);
  check_advantage(&tri_algo_grpo, &o, &r, NULL);
  tri_rollout_free(&r);
}

/* Two answers, reward 1 each. old - ref: 0.5 at both tokens of the first, -0.5 and 0.25 in the second;
 * kl_coef 2. k1: scores 1 - 2 (0.5 + 0.5) = -1 and 1 - 2 (-0.25) = 1.5; mean 0.25; differences -1.25, 1.25.
 * k2: 1 - 2 (0.125 + 0.125) = 0.5 and 1 - 2 (0.125 + 0.03125) = 0.6875; mean 0.59375; differences -+ 0.09375.
 * The prompt token's difference (8) must not count; rewards stay as they are. */
static void test_kl_in_reward(void **state) {
  const float  reward[] = {1, 1};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 2, 2);
  memcpy(r.old_logp, (float[]){0, -1, -1, 0, -2, -1}, 6 * sizeof(float));
  memcpy(r.ref_logp, (float[]){-8, -1.5f, -1.5f, -8, -1.5f, -1.25f}, 6 * sizeof(float));
  o.kl_where = TRI_KL_IN_REWARD;
  o.kl_coef = 2;
  o.scale_rewards = TRI_SCALE_NONE;
  o.kl_estimator = TRI_KL_K1;
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){-1.25, 1.25});
  o.kl_estimator = TRI_KL_K2;
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){-0.09375, 0.09375});
  assert_true(r.reward[0] == 1 && r.reward[1] == 1);
  o.kl_where = TRI_KL_IN_LOSS;
  check_advantage(&tri_algo_grpo, &o, &r, (double[]){0, 0});
  tri_rollout_free(&r);
}

static void test_advantage_refuses(void **state) {
  const float  reward[] = {1, NAN, 3, 4};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 4, 2);
  assert_int_equal(tri_algo_grpo.advantage(&o, &r), TRI_ENUMERIC);
  assert_non_null(strstr(tri_error_message(), "answer 1 to prompt_id 40"));
  tri_error_clear();
  r.reward[1] = 0;
  o.kl_where = TRI_KL_IN_REWARD; /* the reference is unknown: NaN */
  o.kl_coef = 0.1;
  assert_int_equal(tri_algo_grpo.advantage(&o, &r), TRI_ENUMERIC);
  tri_error_clear();
  tri_rollout_free(&r);
}

/* One token each, weight 1, old = 0, clip 0.2 down and 0.28 up, ratio = exp(logp):
 *   ratio 2, A 1:    clipped at 1.28, loss -1.28, slope 0       ratio 2, A -1:   loss 2, slope 2
 *   ratio 1/2, A 1:  loss -1/2, slope -1/2                      ratio 1/2, A -1: clipped at 0.8, loss 0.8,
 * slope 0 ratio 1, A 3:    loss -3, slope -3                          ratio 1.25, A 1: inside, loss -1.25,
 * slope -1.25 */
static void test_clip(void **state) {
  static const double  ratio[] = {2, 2, 0.5, 0.5, 1, 1.25}, adv[] = {1, -1, 1, -1, 3, 1};
  static const double  loss[] = {-1.28, 2, -0.5, 0.8, -3, -1.25}, slope[] = {0, 2, -0.5, 0, -3, -1.25};
  static const double  clipped[] = {1, 0, 0, 1, 0, 0};
  static const int64_t one = 1;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.clip_eps_high = 0.28;
  for (int k = 0; k < 6; k++) {
    micro_make(&m, &one, 1, false);
    m.weight[0] = 1;
    m.logp[0] = (float)log(ratio[k]);
    m.adv[0] = (float)adv[k];
    m.ent[0] = 0.5f;
    assert_int_equal(tri_algo_grpo.loss(&o, &m.in, &m.out), TRI_OK);
    assert_true(fabs(m.out.loss - loss[k]) < 1e-6 &&
                fabs((double)m.dlogp[0] - slope[k]) < 1e-6); /* log in f32 */
    assert_true(m.out.metric[CLIPPED].sum == clipped[k]);
    assert_true(m.out.metric[ENTROPY].sum == 0.5 && m.out.metric[KL].sum == 0 && m.dent[0] == 0);
  }
}

/* Ratio 1, A 0, weight 1/2, kl_coef 0.1, entropy_coef 0.01, H = 3, logp - ref = 1/2: k1 = 0.5, slope 1; k2 =
 * 0.125, slope 0.5; k3 = exp(-0.5) - 1 + 0.5, slope 1 - exp(-0.5). loss = (0.1 k - 0.03) / 2; d/dlogp = 0.05
 * slope; d/dent = -0.005. In the reward, the KL is reported but no loss. */
static void test_kl_and_entropy(void **state) {
  const double         e = exp(-0.5);
  const double         kl[] = {0.5, 0.125, e - 0.5}, slope[] = {1, 0.5, 1 - e};
  static const int64_t one = 1;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.kl_coef = 0.1;
  o.entropy_coef = 0.01;
  for (int k = 0; k < 6; k++) {
    double in_loss = k < 3;
    o.kl_estimator = (tri_kl_estimator)(k % 3);
    o.kl_where = k >= 3;
    micro_make(&m, &one, 1, true);
    m.weight[0] = 0.5;
    m.logp[0] = m.old[0] = -1;
    m.ref[0] = -1.5f;
    m.ent[0] = 3;
    assert_int_equal(tri_algo_grpo.loss(&o, &m.in, &m.out), TRI_OK);
    assert_true(fabs(m.out.loss - (in_loss * 0.1 * kl[k % 3] - 0.03) / 2) < 1e-15);
    assert_true(fabs(m.out.metric[KL].sum - kl[k % 3]) < 1e-15);
    assert_true(fabs((double)m.dlogp[0] - in_loss * 0.05 * slope[k % 3]) < 1e-8); /* f32 */
    assert_true(fabs((double)m.dent[0] + 0.005) < 1e-9);
  }
}

/* k3 near 0 is delta^2 / 2 - delta^3 / 6; at 1e-6 exp(-delta) - 1 + delta by itself has no digit right. */
static void test_kl_small(void **state) {
  double slope;

  (void)state;
  assert_true(fabs(tri_kl_value(TRI_KL_K3, 1e-6, &slope) / 5e-13 - 1) < 1e-3);
  assert_true(fabs(slope / 1e-6 - 1) < 1e-5);
  assert_true(tri_kl_value(TRI_KL_K3, 0, NULL) == 0);
}

/* Lengths 2, 0, 6, 4, largest answer 10. 12 tokens: 1/12 each. 3 answers that have any: 1/3; 1/3 over the own
 * length; 1 / (3 * 10). */
static void test_weights(void **state) {
  static const int64_t n[] = {2, 0, 6, 4}, none[] = {0, 0};
  double               w[4];

  (void)state;
  tri_loss_weights(TRI_TOKEN_MEAN, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 12 && w[1] == 0 && w[2] == 1.0 / 12 && w[3] == 1.0 / 12);
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_SUM, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 3 && w[1] == 0 && w[2] == 1.0 / 3 && w[3] == 1.0 / 3);
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_MEAN, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 6 && w[1] == 0 && w[2] == 1.0 / 18 && w[3] == 1.0 / 12);
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_SUM_NORM, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 30 && w[1] == 0 && w[2] == 1.0 / 30 && w[3] == 1.0 / 30);
  tri_algo_opt o = PLAIN;
  o.loss_agg_mode = TRI_SEQ_MEAN_TOKEN_SUM; /* GRPO's is an option, SFT's is not */
  tri_algo_grpo.weigh(&o, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 3 && w[1] == 0 && w[3] == 1.0 / 3);
  tri_algo_sft.weigh(&o, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 12 && w[1] == 0 && w[3] == 1.0 / 12);
  for (int mode = 0; mode < 4; mode++) {
    w[0] = w[1] = 5;
    tri_loss_weights((tri_loss_agg)mode, 10, none, 2, w);
    assert_true(w[0] == 0 && w[1] == 0);
  }
}

static double loss_of(const tri_algo *a, const tri_algo_opt *o, const micro *m) {
  float        dlogp[MAX_TOK], dent[MAX_TOK];
  tri_loss_out out = {.dlogp = dlogp, .dent = dent};

  assert_int_equal(a->loss(o, &m->in, &out), TRI_OK);
  return out.loss;
}

/* Central differences with step h = 2^-10, exact in f32: their error is h^2 / 6 times the third derivative,
 * which here is at most weight * ratio * |A| < 1/12 * 1.65 * 4 (and less for the KL), so 1e-7; the gradient
 * is rounded to f32. */
static void check_differences(const tri_algo *a, const tri_algo_opt *o, micro *m) {
  const float h = 1.0f / 1024;

  assert_int_equal(a->loss(o, &m->in, &m->out), TRI_OK);
  for (int64_t i = 0; i < m->in.n; i++) {
    float *const x[] = {&m->logp[i], &m->ent[i]};
    const float  slope[] = {m->dlogp[i], m->dent[i]};
    for (int k = 0; k < 2; k++) {
      float  was = *x[k];
      double up, down;
      *x[k] = was + h;
      up = loss_of(a, o, m);
      *x[k] = was - h;
      down = loss_of(a, o, m);
      *x[k] = was;
      assert_true(fabs((up - down) / (2 * (double)h) - (double)slope[k]) < 2e-7);
    }
  }
}

static void test_differences(void **state) {
  static const int64_t length[] = {3, 1, 5, 0, 4, 2};
  micro                m;

  (void)state;
  for (int mode = 0; mode < 4; mode++)
    for (int bits = 0; bits < 3 * 2 * 2 * 2 * 2; bits++) {
      tri_algo_opt o = PLAIN;
      o.kl_estimator = (tri_kl_estimator)(bits % 3);
      o.kl_where = bits / 3 & 1;
      o.kl_coef = bits / 6 & 1 ? 0.3 : 0;
      o.entropy_coef = bits / 12 & 1 ? 0.2 : 0;
      o.clip_eps_high = bits / 24 & 1 ? 0.28 : 0.2;
      micro_make(&m, length, 6, true);
      micro_fill(&m);
      tri_loss_weights((tri_loss_agg)mode, 7, length, 6, m.weight);
      if (mode == TRI_SEQ_MEAN_TOKEN_SUM) /* keep to the weights that the bound above is for */
        for (int q = 0; q < 6; q++) m.weight[q] /= 4;
      for (int i = 0; tri_algo_at(i); i++) check_differences(tri_algo_at(i), &o, &m);
    }
  assert_int_equal(tri_algo_grpo.loss(&PLAIN, &m.in, &m.out), TRI_OK);
  assert_true(m.out.metric[CLIPPED].sum > 0 &&
              m.out.metric[CLIPPED].sum < (double)m.in.n); /* both sides of the clip were seen */
}

/* Sequences [first, end) of `all`. */
static void micro_cut(micro *part, const micro *all, const int64_t *length, int first, int end) {
  int64_t at = all->start[first];
  size_t  bytes;

  micro_make(part, length + first, end - first, true);
  bytes = (size_t)part->in.n * sizeof(float);
  memcpy(part->logp, all->logp + at, bytes);
  memcpy(part->ent, all->ent + at, bytes);
  memcpy(part->old, all->old + at, bytes);
  memcpy(part->ref, all->ref + at, bytes);
  memcpy(part->adv, all->adv + at, bytes);
  memcpy(part->weight, all->weight + first, (size_t)(end - first) * sizeof(double));
}

/* All of the micro-batch at once, then cut behind the sequences whose bit is set, in each of 32 ways. */
static void check_split(const tri_algo *a, const tri_algo_opt *o, micro *all, const int64_t *length) {
  static micro part;

  assert_int_equal(a->loss(o, &all->in, &all->out), TRI_OK);
  for (unsigned cuts = 0; cuts < 32; cuts++) {
    double loss = 0, sum[TRI_ALGO_METRICS] = {0}, of[TRI_ALGO_METRICS] = {0};
    for (int first = 0, q = 0; q < 6; q++) {
      if (q < 5 && !(cuts >> q & 1)) continue;
      micro_cut(&part, all, length, first, q + 1);
      assert_int_equal(a->loss(o, &part.in, &part.out), TRI_OK);
      assert_memory_equal(part.dlogp, all->dlogp + all->start[first], (size_t)part.in.n * sizeof(float));
      assert_memory_equal(part.dent, all->dent + all->start[first], (size_t)part.in.n * sizeof(float));
      loss += part.out.loss;
      for (int k = 0; a->metric[k]; k++) {
        sum[k] += part.out.metric[k].sum;
        of[k] += part.out.metric[k].of;
      }
      first = q + 1;
    }
    assert_true(fabs(loss - all->out.loss) < 1e-13);
    for (int k = 0; a->metric[k]; k++)
      assert_true(fabs(sum[k] - all->out.metric[k].sum) < 1e-13 && of[k] == all->out.metric[k].of);
  }
}

/* Any way to cut the sequences into micro-batches gives the same bits of gradient; loss and metrics up to the
 * order of the sum. */
static void test_split(void **state) {
  static const int64_t length[] = {3, 1, 5, 0, 4, 2};
  static micro         all;
  tri_algo_opt         o = PLAIN;

  (void)state;
  o.kl_coef = 0.1;
  o.entropy_coef = 0.01;
  for (int mode = 0; mode < 4; mode++)
    for (int i = 0; tri_algo_at(i); i++) {
      if (!(tri_algo_at(i)->needs & TRI_NEEDS_ANSWERS)) continue;
      micro_make(&all, length, 6, true);
      micro_fill(&all);
      tri_loss_weights((tri_loss_agg)mode, 7, length, 6, all.weight);
      check_split(tri_algo_at(i), &o, &all, length);
    }
}

/* A rank with nothing to do, without sequences and with two that have no token: no loss, of nothing. */
static void test_no_rows(void **state) {
  static const int64_t start[3];
  static const double  weight[2];

  (void)state;
  for (int i = 0; tri_algo_at(i); i++)
    for (int n_seq = 0; n_seq <= 2; n_seq += 2) {
      const tri_algo *a = tri_algo_at(i);
      tri_loss_in     in = {.n_seq = n_seq, .start = start, .weight = weight};
      tri_loss_out    out = {.loss = 9};
      tri_algo_opt    o = PLAIN;
      double          w[2] = {9, 9};
      tri_rollout     r = {.group = 2};
      o.kl_coef = 0.1;
      for (int k = 0; k < TRI_ALGO_METRICS; k++) out.metric[k] = (tri_mean){9, 9};
      assert_int_equal(a->loss(&o, &in, &out), TRI_OK);
      assert_true(out.loss == 0);
      for (int k = 0; a->metric[k]; k++) assert_true(out.metric[k].sum == 0 && out.metric[k].of == 0);
      a->weigh(&o, 7, (int64_t[]){0, 0}, n_seq, w);
      for (int q = 0; q < n_seq; q++) assert_true(w[q] == 0);
      if (a->advantage) assert_int_equal(a->advantage(&o, &r), TRI_OK);
    }
}

/* - ratio A: what tri_clip_loss is where no ratio reaches a clip. */
static tri_surrogate unclipped(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio) {
  (void)o;
  return (tri_surrogate){.loss = -ratio * (double)in->adv[i], .by_logp = -ratio * (double)in->adv[i]};
}

/* Judges: tri_clip_loss with a clip out of reach, to the bit; for a surrogate that is not finite, the
 * token. */
static void test_policy_loss(void **state) {
  static const int64_t length[] = {3, 1, 5, 0, 4, 2};
  static micro         want, got;
  tri_algo_opt         o = PLAIN;

  (void)state;
  o.clip_eps = 1;
  o.clip_eps_high = 1e9;
  o.kl_coef = 0.3;
  o.entropy_coef = 0.2;
  micro_make(&want, length, 6, true);
  micro_fill(&want);
  tri_loss_weights(TRI_TOKEN_MEAN, 7, length, 6, want.weight);
  micro_make(&got, length, 6, true);
  micro_fill(&got);
  memcpy(got.weight, want.weight, sizeof want.weight);
  assert_int_equal(tri_clip_loss(&o, &want.in, &want.out), TRI_OK);
  assert_int_equal(tri_policy_loss(&o, &got.in, unclipped, &got.out), TRI_OK);
  assert_memory_equal(got.dlogp, want.dlogp, sizeof want.dlogp);
  assert_memory_equal(got.dent, want.dent, sizeof want.dent);
  assert_memory_equal(got.out.metric, want.out.metric, sizeof want.out.metric);
  assert_true(got.out.loss == want.out.loss && got.out.metric[CLIPPED].sum == 0);
  got.adv[4] = INFINITY;
  assert_int_equal(tri_policy_loss(&o, &got.in, unclipped, &got.out), TRI_ENUMERIC);
  assert_non_null(strstr(tri_error_message(), "answer token 0 of sequence 2"));
  tri_error_clear();
}

/* Two answers of 2 and 1 tokens, token mean 1/3: -(-1 - 2 - 3) / 3 = 2. */
static void test_sft(void **state) {
  static const int64_t length[] = {2, 1};
  micro                m;

  (void)state;
  micro_make(&m, length, 2, false);
  memcpy(m.logp, (float[]){-1, -2, -3}, 3 * sizeof(float));
  memcpy(m.ent, (float[]){1, 2, 4}, 3 * sizeof(float));
  tri_loss_weights(TRI_TOKEN_MEAN, 0, length, 2, m.weight);
  m.in.old_logp = m.in.adv = NULL;
  assert_int_equal(tri_algo_sft.loss(&PLAIN, &m.in, &m.out), TRI_OK);
  assert_true(fabs(m.out.loss - 2) < 1e-15);
  assert_string_equal(tri_algo_sft.metric[0], "entropy_mean_nats");
  assert_null(tri_algo_sft.metric[1]);
  assert_true(m.out.metric[0].sum == 7 && m.out.metric[0].of == 3);
  for (int i = 0; i < 3; i++) assert_true(m.dlogp[i] == (float)(-1.0 / 3) && m.dent[i] == 0);
  m.logp[2] = -INFINITY;
  assert_int_equal(tri_algo_sft.loss(&PLAIN, &m.in, &m.out), TRI_ENUMERIC);
  assert_non_null(strstr(tri_error_message(), "token 0 with loss of sequence 1"));
  tri_error_clear();
}

static void micro_three(micro *m) {
  static const int64_t length[] = {1, 2, 3};

  micro_make(m, length, 3, true);
  micro_fill(m);
  tri_loss_weights(TRI_TOKEN_MEAN, 7, length, 3, m->weight);
}

/* Token 1 of sequence 2 (the third) with a number that is not finite in one array, or too large for exp: the
 * algorithm names the token, or does not read the array. */
static void check_not_finite(const tri_algo *a, const tri_algo_opt *o, int array, float bad) {
  static micro m, well;
  float *const x[] = {m.logp, m.old, m.ref, m.ent, m.adv};

  micro_three(&well);
  assert_int_equal(a->loss(o, &well.in, &well.out), TRI_OK);
  micro_three(&m);
  x[array][4] = bad;
  if (a->loss(o, &m.in, &m.out) != TRI_OK) {
    assert_non_null(strstr(tri_error_message(), "token 1 of sequence 2"));
    tri_error_clear();
    return;
  }
  assert_true(a->loss != tri_clip_loss); /* which reads them all */
  assert_true(m.out.loss == well.out.loss);
  assert_memory_equal(m.dlogp, well.dlogp, sizeof m.dlogp);
  assert_memory_equal(m.dent, well.dent, sizeof m.dent);
}

static void test_not_finite(void **state) {
  static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
  tri_algo_opt       o = PLAIN;

  (void)state;
  o.kl_coef = 0.1;
  for (int i = 0; tri_algo_at(i); i++)
    for (int array = 0; array < 5; array++)
      for (int k = 0; k < 4; k++) /* a large finite number is only too large for exp */
        if ((tri_algo_at(i)->needs & TRI_NEEDS_ANSWERS) && (k < 3 || array == 0))
          check_not_finite(tri_algo_at(i), &o, array, bad[k]);
}

static void test_table(void **state) {
  (void)state;
  assert_ptr_equal(tri_algo_find("sft"), &tri_algo_sft);
  assert_ptr_equal(tri_algo_find("grpo"), &tri_algo_grpo);
  assert_null(tri_algo_find("GRPO"));
  assert_null(tri_algo_at(-1));
  for (int i = 0; tri_algo_at(i); i++) {
    const tri_algo *a = tri_algo_at(i);
    assert_ptr_equal(tri_algo_find(a->name), a);
    assert_non_null(a->loss);
    assert_non_null(a->weigh);
    assert_true(!a->advantage || (a->needs & TRI_NEEDS_ANSWERS)); /* only answers have rewards to compare */
    for (int n = 0; a->metric[n]; n++) assert_true(n < TRI_ALGO_METRICS && a->metric[n][0]);
  }
}

static double number(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static int get_floats(const json_t *array, float *out) {
  int n = (int)json_array_size(array);
  assert_true(n > 0 && n <= MAX_TOK);
  for (int i = 0; i < n; i++) out[i] = (float)json_number_value(json_array_get(array, (size_t)i));
  return n;
}

static void check_trl_advantages(const json_t *file) {
  static const char *const word[] = {"group", "batch", "none"};
  float                    reward[MAX_TOK];
  int                      n = get_floats(json_object_get(file, "rewards"), reward);
  tri_algo_opt             o = PLAIN;
  tri_rollout              r = {0};

  o.advantage_eps = 1e-4;
  rollout_make(&r, reward, NULL, n, (int)number(file, "group"));
  for (int s = 0; s < 3; s++) {
    const json_t *want = json_object_get(json_object_get(file, "advantages"), word[s]);
    o.scale_rewards = (tri_scale_rewards)s;
    assert_int_equal(tri_algo_grpo.advantage(&o, &r), TRI_OK);
    for (int q = 0; q < n; q++) {
      double a = json_number_value(json_array_get(want, (size_t)q));
      assert_true(fabs((double)r.adv[3 * q + 1] - a) <= 1e-7 * fabs(a)); /* one rounding to f32 */
    }
  }
  tri_rollout_free(&r);
}

/* In one batch TRL's `bnpo` and `dapo` are the token mean, `grpo` the mean of means, `dr_grpo` the constant
 * length. */
static tri_loss_agg trl_mode(const char *loss_type) {
  if (!strcmp(loss_type, "grpo")) return TRI_SEQ_MEAN_TOKEN_MEAN;
  if (!strcmp(loss_type, "dr_grpo")) return TRI_SEQ_MEAN_TOKEN_SUM_NORM;
  return TRI_TOKEN_MEAN;
}

static void check_trl_case(const json_t *file, const json_t *c, micro *m, const int64_t *length) {
  const json_t *grad = json_object_get(c, "dlogp");
  tri_algo_opt  o = PLAIN;

  o.kl_coef = number(c, "beta");
  o.clip_eps = number(c, "low");
  o.clip_eps_high = number(c, "high");
  tri_loss_weights(trl_mode(json_string_value(json_object_get(c, "loss_type"))),
                   (int64_t)number(file, "max_length"), length, m->in.n_seq, m->weight);
  m->in.old_logp = json_is_true(json_object_get(c, "off_policy")) ? m->old : m->logp;
  assert_int_equal(tri_algo_grpo.loss(&o, &m->in, &m->out), TRI_OK);
  assert_true(fabs(m->out.loss - number(c, "loss")) < 1e-14); /* both sums in f64 */
  assert_true(fabs((double)m->out.metric[CLIPPED].sum / m->out.metric[CLIPPED].of - number(c, "clip_ratio")) <
              1e-7); /* TRL's in f32 */
  assert_int_equal(json_array_size(grad), m->in.n);
  for (int64_t i = 0; i < m->in.n; i++) {
    double want = json_number_value(json_array_get(grad, (size_t)i));
    assert_true(fabs((double)m->dlogp[i] - want) <= 1e-7 * fabs(want)); /* ours is rounded to f32 */
  }
  if (o.kl_coef > 0) assert_true(fabs(m->out.metric[KL].sum / m->out.metric[KL].of - number(c, "kl")) < 1e-7);
}

static void test_trl(void **state) {
  json_error_t error;
  json_t      *file = json_load_file(TRI_TEST_DATA "/algo/grpo.json", 0, &error), *cases;
  float        length_f[MAX_TOK], reward[MAX_TOK], adv[MAX_TOK];
  int64_t      length[MAX_SEQ];
  micro        m;

  (void)state;
  assert_non_null(file);
  check_trl_advantages(file);
  int n_seq = get_floats(json_object_get(file, "lengths"), length_f);
  for (int q = 0; q < n_seq; q++) length[q] = (int64_t)length_f[q];
  micro_make(&m, length, n_seq, true);
  assert_int_equal(get_floats(json_object_get(file, "logp"), m.logp), m.in.n);
  get_floats(json_object_get(file, "old_logp"), m.old);
  get_floats(json_object_get(file, "ref_logp"), m.ref);
  get_floats(json_object_get(file, "ent"), m.ent);
  get_floats(json_object_get(file, "rewards"), reward);
  get_floats(json_object_get(json_object_get(file, "advantages"), "group"), adv);
  for (int q = 0; q < n_seq; q++)
    for (int64_t i = m.start[q]; i < m.start[q + 1]; i++) m.adv[i] = adv[q];
  cases = json_object_get(file, "cases");
  assert_int_equal(json_array_size(cases), 32);
  for (size_t k = 0; k < json_array_size(cases); k++)
    check_trl_case(file, json_array_get(cases, k), &m, length);
  json_decref(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_advantage),
      cmocka_unit_test(test_equal_rewards),
      cmocka_unit_test(test_kl_in_reward),
      cmocka_unit_test(test_advantage_refuses),
      cmocka_unit_test(test_clip),
      cmocka_unit_test(test_kl_and_entropy),
      cmocka_unit_test(test_kl_small),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_differences),
      cmocka_unit_test(test_split),
      cmocka_unit_test(test_no_rows),
      cmocka_unit_test(test_policy_loss),
      cmocka_unit_test(test_sft),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_trl),
      cmocka_unit_test(test_advantage_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
