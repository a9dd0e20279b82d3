/* algo_case.h - shared by the tests of advantages and losses: options, a micro-batch, a rollout, and numbers
 * of the goldens (make_algo_golden.py, make_preference_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_ALGO_CASE_H
#define TRI_TESTS_ALGO_CASE_H

#include "algo/policy.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_SEQ = 8, MAX_TOK = 64 };

static const tri_algo_opt PLAIN = {.clip_eps = 0.2,
                                   .clip_eps_high = 0.2,
                                   .kl_estimator = TRI_KL_K3,
                                   .scale_rewards = TRI_SCALE_GROUP,
                                   .loss_agg_mode = TRI_TOKEN_MEAN,
                                   .gamma = 1,
                                   .top_entropy_quantile = 1,
                                   .sapo_temperature_pos = 1,
                                   .sapo_temperature_neg = 1.05,
                                   .vespo_k_pos = 2,
                                   .vespo_lambda_pos = 3,
                                   .vespo_k_neg = 3,
                                   .vespo_lambda_neg = 2};

/* One micro-batch with space for the results. */
typedef struct micro {
  int64_t      start[MAX_SEQ + 1];
  float        logp[MAX_TOK], ent[MAX_TOK], old[MAX_TOK], ref[MAX_TOK], roll[MAX_TOK], adv[MAX_TOK];
  double       weight[MAX_SEQ];
  float        dlogp[MAX_TOK], dent[MAX_TOK];
  tri_loss_in  in;
  tri_loss_out out;
} micro;

static inline void micro_make(micro *m, const int64_t *length, int n_seq, bool with_ref) {
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

/* Numbers on a grid of 2^-10, so that a step of 2^-10 is exact. They are the same for every caller.
 *
 * A difference with this step is wrong if a kink of the loss, such as a clip boundary, lies within the step
 * of a row's logp - old or of a sequence's mean. logp - old is an odd multiple of 2^-10, so ratio 1 is safe.
 * For the 15 rows of the tests of differences, a clip boundary is safe at ratios 0.72 to 0.81, 1.19 to 1.24,
 * 1.26 to 1.29, and above 1.59. */
static inline void micro_fill(micro *m) {
  uint32_t s = 12345;
  for (int64_t i = 0; i < m->in.n; i++) {
    int v[4];
    for (int k = 0; k < 4; k++) v[k] = (int)((s = s * 1664525u + 1013904223u) >> 22) - 512; /* -512 .. 511 */
    m->old[i] = -1.0f + (float)v[0] / 1024;
    m->logp[i] = m->old[i] + (float)(v[1] | 1) / 1024;
    m->ref[i] = m->old[i] + (float)v[2] / 1024;
    m->ent[i] = 1.0f + (float)v[3] / 1024;
    m->adv[i] = (float)(v[2] ^ v[3]) / 256;
  }
}

/* Prompts of 1 token and answers of length[q] tokens. With length NULL the answers have 2 tokens. */
static inline void rollout_make(tri_rollout *r, const float *reward, const int64_t *length, int n_seq,
                                int group) {
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

static inline double number(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static inline int get_floats(const json_t *array, float *out) {
  int n = (int)json_array_size(array);
  assert_true(n > 0 && n <= MAX_TOK);
  for (int i = 0; i < n; i++) out[i] = (float)json_number_value(json_array_get(array, (size_t)i));
  return n;
}

/* Reads a file of goldens: any one, the one of policies, the one of preferences and critics. Release it with
 * json_decref. */
static inline json_t *open_goldens_at(const char *path) {
  json_error_t error;
  json_t      *file = json_load_file(path, 0, &error);

  if (!file) fail_msg("%s", error.text);
  return file;
}
static inline json_t *open_goldens(void) { return open_goldens_at(TRI_TEST_DATA "/algo/grpo.json"); }
static inline json_t *open_preferences(void) {
  return open_goldens_at(TRI_TEST_DATA "/algo/preference.json");
}

/* The numbers of an array of the file. */
static inline int floats_of(const json_t *file, const char *key, float *out) {
  return get_floats(json_object_get(file, key), out);
}

/* True if x is within `rel` of the wanted number, or within 1e-12. */
static inline void check_near(const char *what, double got, double want, double rel) {
  if (!(fabs(got - want) <= rel * fabs(want) + 1e-12)) fail_msg("%s: %.17g, not %.17g", what, got, want);
}

/* The same for an array. Our numbers are rounded to f32. */
static inline void check_array(const char *what, const float *got, const json_t *want, int64_t n) {
  assert_int_equal(json_array_size(want), n);
  for (int64_t i = 0; i < n; i++)
    check_near(what, (double)got[i], json_number_value(json_array_get(want, (size_t)i)), 1e-6);
}

#endif
