/* reward.c - gives a step's answers to the rewards of a deck and computes their weighted sum. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "reward_set.h"

#include "base/notice.h"

#include <math.h>

static tri_status check_truths(const tri_reward *kind, const tri_answer *a, int n) {
  for (int q = 0; q < n && (kind->needs & TRI_REWARD_TRUTH); q++)
    if (!a[q].truth)
      TRI_FAIL(TRI_EINPUT, "prompt_id %lld has no right answer for reward %s. Check data.answer_key",
               (long long)a[q].prompt_id, kind->name);
  return TRI_OK;
}

/* Puts the scores of reward i into its column of part [n,s->n] and adds them to the sum. */
static tri_status add_scores(const tri_reward_set *s, int i, const tri_reward_call *c, const float *score,
                             double *sum) {
  const tri_reward_row *row = &s->row[i];

  for (int q = 0; q < c->n; q++) {
    float x = score[q];
    if (isnan(x)) {
      c->failed[q] |= 1 << i;
      x = s->trial || row->on_error == TRI_ON_ERROR_DROP ? NAN : 0;
    }
    if (isinf(x))
      TRI_FAIL(TRI_ENUMERIC, "reward %s gave %g to an answer to prompt_id %lld", row->name, (double)x,
               (long long)c->a[q].prompt_id);
    c->part[(int64_t)q * s->n + i] = x;
    sum[q] += row->weight * (double)x;
  }
  return TRI_OK;
}

static tri_status put_totals(const tri_reward_call *c, const double *sum) {
  for (int q = 0; q < c->n; q++) {
    c->total[q] = (float)sum[q];
    if (isinf(c->total[q]))
      TRI_FAIL(TRI_ENUMERIC,
               "the weighted sum of rewards is %g for an answer to prompt_id %lld. Check reward.weight",
               sum[q], (long long)c->a[q].prompt_id);
  }
  return TRI_OK;
}

/* ---- rewards that work beside generation ---- */

tri_status tri_reward_set_submit(tri_reward_set *s, const tri_answer *a, int number) {
  for (int i = 0; i < s->n; i++)
    if (s->row[i].kind->submit) {
      TRI_TRY(check_truths(s->row[i].kind, a, 1));
      TRI_TRY(s->row[i].kind->submit(s->row[i].state, a, number));
    }
  return TRI_OK;
}

void tri_reward_set_forget(tri_reward_set *s) {
  for (int i = 0; i < s->n; i++)
    if (s->row[i].kind->forget) s->row[i].kind->forget(s->row[i].state);
}

static int64_t prompt_of(const tri_reward_call *c, int number) {
  for (int q = 0; q < c->n; q++)
    if (c->number[q] == number) return c->a[q].prompt_id;
  return -1;
}

/* Reports the first failed answer. Only the rank that asked knows the cause, so it reports. */
static tri_status judge_error(tri_reward_row *row, const tri_reward_call *c, const tri_reward_error *error) {
  static const char *const becomes[] = {"", "it leaves the step", "it gets 0"};
  long long                prompt = (long long)prompt_of(c, error->number);

  if (row->on_error == TRI_ON_ERROR_ABORT)
    TRI_FAIL(TRI_EREWARD, "reward %s failed on an answer to prompt_id %lld: %s (on_error: abort)", row->name,
             prompt, error->why);
  if (!row->warned)
    tri_warn(
        "reward_failed",
        "reward %s failed on an answer to prompt_id %lld, so %s: %s (logged once, reward_failures counts "
        "such answers)",
        row->name, prompt, becomes[row->on_error], error->why);
  row->warned = true;
  return TRI_OK;
}

/* Collective over c->share. Gives every rank the scores of all. Only the rank that asked has a score, and the
 * others have INFINITY. */
static tri_status spread(const tri_reward_call *c, float *score) {
  double    *x = NULL; /* [2n] scores or 0, then 1 for each failed answer */
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_agree(c->share, TRI_ALLOC(x, 2 * (int64_t)c->n)));
  for (int q = 0; q < c->n; q++) {
    x[q] = isfinite(score[q]) ? (double)score[q] : 0;
    x[c->n + q] = isnan(score[q]);
  }
  TRI_TRY_DONE(tri_host_sum(c->share, x, 2 * (int64_t)c->n));
  for (int q = 0; q < c->n; q++) score[q] = x[c->n + q] > 0 ? NAN : (float)x[q];
done:
  TRI_FREE(x);
  return st;
}

/* Listener for the results of one row. */
typedef struct hearing {
  tri_reward_row        *row;
  const tri_reward_call *call;
  int                    i; /* index of the row */
} hearing;

static void hear(void *ctx, const tri_work_queue_result *r) {
  hearing *h = ctx;

  if (r->extras) tri_reward_means_add(&h->row->means, r->extras);
  if (h->call->told) h->call->told(h->call->ctx, h->i, r);
}

/* Collective over c->share. `st` is the status so far. A rank that failed gives up its jobs. */
static tri_status collect(tri_reward_set *s, int i, const tri_reward_call *c, tri_status st, float *score) {
  tri_reward_row  *row = &s->row[i];
  hearing          h = {row, c, i};
  int              most = 0; /* the largest number, plus 1 */
  tri_reward_error error = {.number = -1};
  float           *got = NULL;

  for (int q = 0; q < c->n; q++) most = c->number[q] < most ? most : c->number[q] + 1;
  if (st == TRI_OK) st = TRI_ALLOC(got, most);
  if (st != TRI_OK) row->kind->forget(row->state);
  if (st != TRI_OK && !c->share) return st;
  for (int k = 0; st == TRI_OK && k < most; k++) got[k] = INFINITY;
  if (st == TRI_OK)
    st = row->kind->collect(row->state, most, got, &error, &(tri_work_queue_listener){hear, &h});
  for (int q = 0; q < c->n; q++) score[q] = st == TRI_OK ? got[c->number[q]] : 0;
  TRI_FREE(got);
  if (c->share) { /* a rank that failed takes part too */
    tri_status one = spread(c, score);
    if (st == TRI_OK) st = one;
  }
  return st == TRI_OK && error.number >= 0 && !s->trial ? judge_error(row, c, &error) : st;
}

/* Passes on scores that one call of score computed together. */
static void tell(const tri_reward_row *row, int i, const tri_reward_call *c, const float *score,
                 double spent_s) {
  for (int q = 0; q < c->n; q++) {
    tri_work_queue_result r = {.number = c->number[q], .score = score[q], .seconds = spent_s / c->n};
    if (isnan(score[q])) r.why = row->kind->failure ? row->kind->failure : "it returned no number";
    c->told(c->ctx, i, &r);
  }
}

/* Collective if the reward is. */
static tri_status score_by(tri_reward_set *s, int i, const tri_reward_call *c, tri_status st, float *score) {
  tri_reward_row *row = &s->row[i];
  int        here = st == TRI_OK ? c->n : 0; /* a rank that failed still takes part in collective calls */
  double     began_s = tri_now_s();
  tri_status one = TRI_OK;

  if (row->kind->collect) return collect(s, i, c, st, score);
  if (here || (row->kind->needs & TRI_REWARD_COLLECTIVE))
    one = row->kind->score(row->state, c->a, here, score);
  if (here && one == TRI_OK && c->told) tell(row, i, c, score, tri_now_s() - began_s);
  return st == TRI_OK ? one : st;
}

tri_status tri_reward_set_call(tri_reward_set *s, const tri_reward_call *c) {
  float     *score = NULL;
  double    *sum = NULL;
  tri_status st = TRI_ALLOC(score, c->n);

  if (st == TRI_OK) st = TRI_ALLOC(sum, c->n);
  if (c->share) TRI_TRY_DONE(tri_agree(c->share, st));
  for (int q = 0; q < c->n; q++) c->failed[q] = 0;
  for (int i = 0; i < s->n; i++) {
    if (st == TRI_OK) st = check_truths(s->row[i].kind, c->a, c->n);
    st = score_by(s, i, c, st, score);
    if (st == TRI_OK) st = add_scores(s, i, c, score, sum);
  }
  if (st == TRI_OK) st = put_totals(c, sum);
done:
  TRI_FREE(score);
  TRI_FREE(sum);
  return st;
}

tri_status tri_reward_set_score(tri_reward_set *s, const tri_answer *a, int n, float *part, float *total,
                                int32_t *failed) {
  tri_reward_call c = {.a = a, .n = n, .part = part, .total = total, .failed = failed};
  int            *number = NULL;
  tri_status      st = TRI_ALLOC(number, n);

  c.number = number;
  for (int q = 0; st == TRI_OK && q < n; q++) {
    number[q] = q;
    st = tri_reward_set_submit(s, &a[q], q);
  }
  if (st == TRI_OK) st = tri_reward_set_call(s, &c);
  TRI_FREE(number);
  return st;
}
