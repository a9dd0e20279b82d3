/* figures.c - sums of figures of k answers to each prompt, and equal results among them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "figures.h"

#include "base/host_memory.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  bool        of_prompts, of_k;
} rows[TRI_FIGURE_COUNT] = {
    [TRI_FIGURE_REWARD] = {"reward_mean", false, false},
    [TRI_FIGURE_PASS_1] = {"pass_at_1", false, false},
    [TRI_FIGURE_PASS_K] = {"pass_at_k", true, true},
    [TRI_FIGURE_BEST_K] = {"best_at_k", true, true},
    [TRI_FIGURE_MAJORITY_K] = {"majority_at_k", true, true},
    [TRI_FIGURE_LENGTH] = {"response_length_mean_tokens", false, false},
    [TRI_FIGURE_TRUNCATED] = {"truncated_ratio", false, false},
};

const char *tri_figure_name(tri_figure which) { return rows[which].name; }

bool tri_figure_is_of_k(tri_figure which) { return rows[which].of_k; }

bool tri_figure_is_had(tri_figure which, const tri_reward_set *set) {
  if (which == TRI_FIGURE_PASS_1 || which == TRI_FIGURE_PASS_K) return tri_reward_set_is_bounded(set);
  return which != TRI_FIGURE_MAJORITY_K || tri_reward_set_voter(set);
}

double tri_figure_mean(const tri_figures *f, tri_figure which) {
  int64_t of = rows[which].of_prompts ? f->prompts : f->answers;

  return of ? f->sum[which] / (double)of : NAN;
}

/* ---- results ---- */

/* Results of all answers, one after another. */
typedef struct results {
  tri_text text;
  size_t  *begin; /* [n_seq+1] */
} results;

static tri_part result_of(const results *x, int q) {
  size_t n = x->begin[q + 1] - x->begin[q];

  return (tri_part){n ? x->text.data + x->begin[q] : NULL, n};
}

/* Reads the result of an answer. An answer that cannot be decoded has none, and its rewards are 0. */
static tri_status read_result(const tri_rollout *r, const tri_answers_opt *o, int q, tri_text *response,
                              tri_text *out) {
  const int32_t *answer = r->token + r->start[q] + r->prompt_len[q];
  int64_t        n = r->start[q + 1] - r->start[q] - r->prompt_len[q];
  tri_status     st;

  response->len = 0;
  if (isnan(r->reward[q])) return TRI_OK;
  st = tri_answers_decode(o->tokenizer, answer, tri_answers_text_tokens(o, answer, n), true, response);
  if (st == TRI_EINPUT) {
    tri_error_clear();
    return TRI_OK;
  }
  TRI_TRY(st);
  return response->len ? tri_reward_set_voter(o->set)->result(response->data, response->len, out) : TRI_OK;
}

static tri_status read_results(const tri_rollout *r, const tri_answers_opt *o, results *x) {
  tri_text   response = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(x->begin, (int64_t)r->n_seq + 1));
  for (int q = 0; q < r->n_seq; q++) {
    TRI_TRY_DONE(read_result(r, o, q, &response, &x->text));
    x->begin[q + 1] = x->text.len;
  }
done:
  tri_text_free(&response);
  return st;
}

static tri_status is_same(const tri_reward *voter, tri_part a, tri_part b, bool *same) {
  if (voter->same) return voter->same(a, b, same);
  *same = a.n == b.n && !memcmp(a.at, b.at, a.n);
  return TRI_OK;
}

/* Finds the first answer in q's group with the same result. Each result is compared only with the first of
 * its kind. */
static tri_status find_first(const results *x, const tri_reward *voter, int begin, int q, int *vote) {
  bool same = false;

  vote[q] = -1;
  if (!result_of(x, q).n) return TRI_OK;
  for (int i = begin; i < q && !same; i++) {
    if (vote[i] != i) continue;
    TRI_TRY(is_same(voter, result_of(x, i), result_of(x, q), &same));
    if (same) vote[q] = i;
  }
  if (!same) vote[q] = q;
  return TRI_OK;
}

tri_status tri_figures_vote(const tri_rollout *r, const tri_answers_opt *o, int *vote) {
  const tri_reward *voter = tri_reward_set_voter(o->set);
  results           x = {0};
  tri_status        st = TRI_OK;

  for (int q = 0; q < r->n_seq; q++) vote[q] = -1;
  if (!voter) return TRI_OK;
  TRI_TRY_DONE(read_results(r, o, &x));
  for (int q = 0; q < r->n_seq; q++) TRI_TRY_DONE(find_first(&x, voter, q / r->group * r->group, q, vote));
done:
  TRI_FREE(x.begin);
  tri_text_free(&x.text);
  return st;
}

/* ---- sums ---- */

static int count_votes(const int *vote, int begin, int end, int of) {
  int n = 0;

  for (int q = begin; q < end; q++) n += vote[q] == of;
  return n;
}

/* Returns the answer with the most frequent result, or the first rewarded answer if no answer has a
 * result. */
static int find_majority(const tri_rollout *r, const int *vote, int begin, int end) {
  int most = 0, at = begin;

  while (isnan(r->reward[at])) at++;
  for (int q = begin; q < end; q++) {
    int n = vote[q] == q ? count_votes(vote, begin, end, q) : 0;
    if (n <= most) continue;
    most = n;
    at = q;
  }
  return at;
}

static void add_answer(const tri_rollout *r, bool right, int q, tri_figures *to) {
  to->answers++;
  to->sum[TRI_FIGURE_REWARD] += (double)r->reward[q];
  to->sum[TRI_FIGURE_PASS_1] += right;
  to->sum[TRI_FIGURE_LENGTH] += (double)tri_rollout_drawn_tokens(r, q);
  to->sum[TRI_FIGURE_TRUNCATED] += r->stop[q] == TRI_STOP_LENGTH;
}

static void add_prompt(const tri_rollout *r, const tri_reward_set *set, const int *vote, int begin,
                       tri_figures *to) {
  int   end = begin + r->group;
  bool  any = false;
  float best = NAN;

  for (int q = begin; q < end; q++) {
    if (isnan(r->reward[q])) continue; /* dropped */
    bool right = tri_reward_set_is_full(set, r->part + (int64_t)q * r->n_reward);
    add_answer(r, right, q, to);
    any |= right;
    best = fmaxf(best, r->reward[q]);
  }
  if (isnan(best)) return;
  to->prompts++;
  to->sum[TRI_FIGURE_PASS_K] += any;
  to->sum[TRI_FIGURE_BEST_K] += (double)best;
  to->sum[TRI_FIGURE_MAJORITY_K] += (double)r->reward[find_majority(r, vote, begin, end)];
}

void tri_figures_add(const tri_rollout *r, const tri_reward_set *set, const int *vote, tri_figures *to) {
  for (int q = 0; q < r->n_seq; q += r->group) add_prompt(r, set, vote, q, to);
}
