/* test_holes.c - answers with tokens between their drawn ones that were not drawn. Judge: the same answers
 * without these tokens have the same advantages, losses and derivatives, bit for bit, in every algorithm and
 * with every advantage. The numbers at the other tokens are the sampler's and the trainer's (NaN and 0), or
 * far off. Ages of tokens have no influence. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"
#include "base/error.h"

enum { N_SEQ = 6, GROUP = 2, PROMPT = 2, MAX_PIECES = 5, MAX_RESPONSE = 40, FILLS = 3 };

/* Lengths of pieces behind each prompt. Drawn tokens and others take turns, beginning with drawn ones. */
static const int piece[N_SEQ][MAX_PIECES] = {{2, 3, 3}, {4},       {1, 2, 2, 5, 1},
                                             {3, 4},    {0, 2, 5}, {2, 1, 1, 1}};

/* The numbers of one token. */
typedef struct token {
  float old, logp, ent, ref, roll, value, value_now, seen;
} token;

static token draw(uint32_t *s) {
  float x[7];

  for (int k = 0; k < 7; k++) x[k] = (float)((int)((*s = *s * 1664525u + 1013904223u) >> 22) - 512) / 1024;
  return (token){-1 + x[0], -1 + x[0] + x[1] / 2, 1 + x[2], -1 + x[0] + x[3] / 2, -1 + x[0] + x[4] / 4,
                 x[5],      x[5] + x[6],          1 + x[2]};
}

/* A step, with the numbers that a learning pass has for each of its rows. */
typedef struct step {
  tri_rollout r;
  float       logp[MAX_TOK], ent[MAX_TOK], value_now[MAX_TOK];
} step;

static void put(step *s, int64_t i, const token *t) {
  s->r.old_logp[i] = t->old;
  s->r.ref_logp[i] = t->ref;
  s->r.roll_logp[i] = t->roll;
  s->r.critic.value[i] = t->value;
  s->r.seen[i] = t->seen;
  s->logp[i] = t->logp;
  s->ent[i] = t->ent;
  s->value_now[i] = t->value_now;
}

/* Makes the step with the other tokens, or without them. */
static void make_step(step *s, bool holes, float fill) {
  static const float reward[N_SEQ] = {1, 0.25f, -1, 0.5f, 2, -0.125f}, baseline[] = {0.5f, -0.25f, 0.75f};
  const token        off = {fill, fill, fill, fill, fill, fill, fill, fill};
  uint32_t           seed = 7;
  int64_t            n_tok = 0, at = 0;

  *s = (step){.r = {0}};
  for (int q = 0; q < N_SEQ; q++) n_tok += PROMPT;
  for (int k = 0; k < N_SEQ * MAX_PIECES; k++)
    if (holes || k % MAX_PIECES % 2 == 0) n_tok += piece[k / MAX_PIECES][k % MAX_PIECES];
  assert_true(n_tok <= MAX_TOK);
  assert_int_equal(tri_rollout_make(N_SEQ, n_tok, GROUP, 0, &s->r), TRI_OK);
  for (int q = 0; q < N_SEQ; q++) {
    s->r.prompt_len[q] = PROMPT;
    s->r.prompt_id[q] = 40 + q / GROUP;
    s->r.sample[q] = q % GROUP;
    s->r.reward[q] = reward[q];
    s->r.baseline[q] = baseline[q / GROUP];
    s->r.stop[q] = q == 3 ? TRI_STOP_LENGTH : TRI_STOP_EOS;
    for (int i = 0; i < PROMPT; i++) put(s, at++, &off);
    for (int k = 0; k < MAX_PIECES; k++)
      for (int i = 0; i < piece[q][k]; i++) {
        token drawn = draw(&seed);
        if (k % 2 && !holes) continue;
        s->r.mark[at] = (uint8_t)((k % 2 ? TRI_MARK_GIVEN : 0) + (at * 29 + holes) % (TRI_MARK_AGE + 1));
        put(s, at++, k % 2 ? &off : &drawn);
      }
    s->r.start[q + 1] = at;
  }
}

/* Results of an update on the rows with loss. */
typedef struct update {
  int64_t      n, start[N_SEQ + 1], origin[MAX_TOK], n_answer[N_SEQ];
  float        adv[MAX_TOK], ret[MAX_TOK], dlogp[MAX_TOK], dent[MAX_TOK], dvalue[MAX_TOK];
  double       weight[N_SEQ], statistic, explained;
  tri_loss_out out;
} update;

/* Takes the rows with loss, as staging does, or with `last` the last row of each sequence. */
static void take_rows(const step *s, bool last, update *u) {
  const tri_rollout *r = &s->r;

  u->n = 0;
  for (int q = 0; q < N_SEQ; q++) {
    for (int64_t i = tri_rollout_first_row(r, q); !last && i < r->start[q + 1]; i++)
      if (!r->masked[q] && r->mark[i] < TRI_MARK_GIVEN) u->origin[u->n++] = i;
    if (last) u->origin[u->n++] = r->start[q + 1] - 1;
    u->start[q + 1] = u->n;
  }
}

static const float *rows_of(const update *u, const float *from, float *to) {
  for (int64_t k = 0; k < u->n; k++) to[k] = from[u->origin[k]];
  return to;
}

/* Computes one loss of the step. */
static void compute(const tri_loss *loss, const tri_algo_opt *o, const step *s, update *u) {
  static float x[8][MAX_TOK], score[N_SEQ];
  bool         last = loss->reads & TRI_LOSS_LAST, values = loss->reads & TRI_LOSS_VALUE;
  tri_loss_in  in = {.n_seq = N_SEQ, .start = u->start, .weight = u->weight, .score = score};

  take_rows(s, last, u);
  for (int q = 0; q < N_SEQ; q++) {
    score[q] = loss == &tri_loss_kto ? (float)(q % 2) : (float)q / 8;
    u->n_answer[q] = tri_rollout_loss_tokens(&s->r, q);
  }
  loss->weigh(o, MAX_RESPONSE, u->n_answer, N_SEQ, u->weight);
  if (loss->statistic && loss->statistic->wanted(o))
    u->statistic = loss->statistic->number(o, &s->r, 0, N_SEQ);
  in.n = u->n;
  in.origin = u->origin;
  in.statistic = u->statistic;
  if (values) {
    in.value = last ? memcpy(x[0], (float[N_SEQ]){1, 0.5f, -1, 2, 0, 0.25f}, sizeof(float[N_SEQ]))
                    : rows_of(u, s->value_now, x[0]);
    in.old_value = rows_of(u, s->r.critic.value, x[1]);
    in.ret = rows_of(u, s->r.critic.ret, u->ret);
    u->out.dvalue = u->dvalue;
  } else {
    in.logp = rows_of(u, s->logp, x[2]);
    in.ent = rows_of(u, s->ent, x[3]);
    in.old_logp = rows_of(u, s->r.old_logp, x[4]);
    in.ref_logp = rows_of(u, s->r.ref_logp, x[5]);
    in.roll_logp = rows_of(u, s->r.roll_logp, x[6]);
    in.adv = rows_of(u, s->r.adv, u->adv);
    u->out.dlogp = u->dlogp;
    u->out.dent = u->dent;
  }
  if (loss->compute(o, &in, &u->out) != TRI_OK) fail_msg("%s: %s", loss->name, tri_error_trace());
}

/* True if both are equal to the bit. `what` is printed otherwise. */
static bool same(const char *name, const char *what, const void *a, const void *b, size_t bytes) {
  if (!memcmp(a, b, bytes)) return true;
  print_error("%s: %s differs\n", name, what);
  return false;
}

static bool same_floats(const char *name, const char *what, const float *a, const float *b, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (memcmp(&a[k], &b[k], sizeof *a))
      print_error("%s: %s %lld is %g, without the other tokens %g\n", name, what, (long long)k, (double)a[k],
                  (double)b[k]);
  return !memcmp(a, b, (size_t)n * sizeof *a);
}

static void same_updates(const char *name, const update *a, const update *b) {
  bool good = a->n == b->n && same(name, "start", a->start, b->start, sizeof a->start) &&
              same(name, "lengths", a->n_answer, b->n_answer, sizeof a->n_answer);

  good = good && same(name, "weights", a->weight, b->weight, sizeof a->weight);
  good = good && same(name, "statistic", &a->statistic, &b->statistic, sizeof a->statistic);
  good = good && same_floats(name, "advantage", a->adv, b->adv, a->n);
  good = good && same_floats(name, "return", a->ret, b->ret, a->n);
  good = good && same_floats(name, "dlogp", a->dlogp, b->dlogp, a->n);
  good = good && same_floats(name, "dent", a->dent, b->dent, a->n);
  good = good && same_floats(name, "dvalue", a->dvalue, b->dvalue, a->n);
  good = good && same(name, "loss", &a->out.loss, &b->out.loss, sizeof a->out.loss);
  good = good && same(name, "metrics", a->out.metric, b->out.metric, sizeof a->out.metric);
  good = good && same(name, "explained variance", &a->explained, &b->explained, sizeof a->explained);
  assert_true(good);
}

/* Computes advantages, the policy's loss, and with a critic its loss, on the step with or without the other
 * tokens. */
static void update_step(const tri_algo *a, const tri_algo_opt *o, bool holes, float fill, update out[2]) {
  bool critic = a->advantage && a->advantage->reads & TRI_READS_CRITIC;
  step s;

  memset(out, 0, 2 * sizeof *out);
  make_step(&s, holes, fill);
  if (tri_algo_advantage(a, o, &s.r) != TRI_OK) fail_msg("%s: %s", a->name, tri_error_trace());
  for (int q = 0; q < N_SEQ; q++)
    for (int64_t i = s.r.start[q]; a->advantage && i < s.r.start[q + 1]; i++)
      if (i < tri_rollout_first_row(&s.r, q) || s.r.mark[i] >= TRI_MARK_GIVEN)
        assert_true(s.r.adv[i] == 0 && s.r.critic.ret[i] == 0);
  compute(a->loss, o, &s, &out[0]);
  if (critic) {
    compute(&tri_loss_value, o, &s, &out[1]);
    out[1].explained = tri_explained_variance(&s.r);
  }
  tri_rollout_free(&s.r);
}

/* Options that read more numbers of the tokens, by bits of `which`. */
static tri_algo_opt options(unsigned which) {
  tri_algo_opt o = PLAIN;

  o.gamma = 0.875;
  o.lam = 0.75;
  o.value_clip = 0.25;
  o.beta = 0.5;
  o.desirable_weight = 1;
  o.undesirable_weight = 1.5;
  o.sft_coef = 0.25;
  o.advantage_eps = 1e-4;
  o.entropy_coef = 0.01;
  o.kl_coef = 0.125;
  o.kl_where = which & 1 ? TRI_KL_IN_REWARD : TRI_KL_IN_LOSS;
  o.whiten_advantages = which & 2;
  o.top_entropy_quantile = which & 4 ? 0.5 : 1;
  o.is_cap = which & 8 ? 1.0625 : 0;
  o.length_normalize = which & 16;
  o.mask_truncated = which & 32;
  o.loss_agg_mode = (tri_loss_agg)((which ^ which >> 3) % 4);
  return o;
}

static const float FILL[FILLS] = {NAN, 0, 1e3f};

static void check_algo(const tri_algo *a) {
  for (unsigned which = 0; which < 1 << 6; which++) {
    tri_algo_opt o = options(which);
    update       want[2], got[2];
    update_step(a, &o, false, 0, want);
    for (int k = 0; k < FILLS; k++) {
      update_step(a, &o, true, FILL[k], got);
      same_updates(a->name, &got[0], &want[0]);
      same_updates(a->name, &got[1], &want[1]);
    }
  }
}

/* Every algorithm, and with rewards every advantage in place of its own. */
static void holes_change_nothing(void **state) {
  (void)state;
  for (int i = 0; tri_algo_at(i); i++) {
    check_algo(tri_algo_at(i));
    for (int k = 0; tri_algo_at(i)->advantage && tri_advantage_at(k); k++) {
      tri_algo a = *tri_algo_at(i);
      a.advantage = tri_advantage_at(k);
      check_algo(&a);
    }
  }
}

/* By hand. gamma 1/2, lam 1, reward 1, values 2 and 4 before and after a hole with the value 64. The last
 * delta is 1 - 4 = -3. The first is 1/2 4 - 2 = 0, plus 1/2 of -3. The hole's value would give 1/2 64 - 2.
 * Returns are -3 + 4 and -3/2 + 2. Without a critic the returns are 1/2 and 1. */
static void values_pass_over_a_hole(void **state) {
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  o.gamma = 0.5;
  o.lam = 1;
  rollout_make(&r, (float[]){1}, (int64_t[]){4}, 1, 1);
  memcpy(r.critic.value, (float[]){99, 2, 64, 64, 4}, 5 * sizeof(float));
  r.mark[2] = r.mark[3] = TRI_MARK_GIVEN;
  assert_int_equal(tri_rollout_loss_tokens(&r, 0), 2);
  assert_int_equal(tri_rollout_given_tokens(&r, 0), 2);
  assert_int_equal(tri_rollout_drawn_tokens(&r, 0), 2);
  assert_int_equal(tri_advantage_gae.fill(&o, &r), TRI_OK);
  assert_memory_equal(r.adv, ((float[]){0, -1.5f, 0, 0, -3}), 5 * sizeof(float));
  assert_memory_equal(r.critic.ret, ((float[]){0, 0.5f, 0, 0, 1}), 5 * sizeof(float));
  assert_int_equal(tri_advantage_return.fill(&o, &r), TRI_OK);
  assert_memory_equal(r.adv, ((float[]){0, 0.5f, 0, 0, 1}), 5 * sizeof(float));
  r.masked[0] = 1;
  assert_true(tri_rollout_loss_tokens(&r, 0) == 0 && tri_rollout_drawn_tokens(&r, 0) == 2);
  tri_rollout_free(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(holes_change_nothing),
                                     cmocka_unit_test(values_pass_over_a_hole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
