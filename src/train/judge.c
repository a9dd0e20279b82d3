/* judge.c - scores a rank's answers with the run's reward model, in packed batches. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "judge.h"

#include "base/host_memory.h"
#include "train.h"

#include <math.h>
#include <string.h>

tri_status tri_judge_open(tri_trainer *t, int64_t max_tokens) {
  /* This memory lies beside the gathered weights of the model, not in their place. Generation is over by
   * then. */
  tri_staging_opt o = {max_tokens, TRI_JUDGE_ROWS, TRI_LOSS_VALUE | TRI_LOSS_LAST, TRI_PHASE_LEARN};

  if (!t->learner[TRI_REWARD_MODEL].source) return TRI_OK;
  t->judge.max_tokens = max_tokens;
  return tri_staging_open(t->se->device, t->se->ledger, &o, &t->judge.staging);
}

void tri_judge_close(tri_judge *j) { tri_staging_close(&j->staging); }

/* Returns the number of tokens up to the scored one. It is the last token except the model's padding. The
 * padding may be the end token (transformers, modeling_layers.py, GenericForSequenceClassification). */
static int64_t length_of(const tri_trainer *t, const tri_answer *a) {
  int32_t pad = tri_source_eos(t->learner[TRI_REWARD_MODEL].source)->pad;
  int64_t n = a->n_prompt + a->n_token;

  while (n > 1 && a->token[n - 1] == pad) n--;
  return n;
}

/* Replaces an id beyond the vocabulary by the last id. Such ids are only padding of the policy (learner.c)
 * and have no text. */
static int32_t known(int32_t id, int V) { return id < V ? id : V - 1; }

/* Makes a sequence of each answer with its prompt. */
static tri_status gather(const tri_trainer *t, const tri_answer *a, int n, tri_rollout *r) {
  int     V = tri_source_shape(t->learner[TRI_REWARD_MODEL].source)->V;
  int64_t n_tok = 0;

  for (int q = 0; q < n; q++) n_tok += length_of(t, &a[q]);
  TRI_TRY(tri_rollout_make(n, n_tok, 1, 0, r));
  for (int q = 0; q < n; q++) {
    int64_t len = length_of(t, &a[q]);
    for (int64_t i = 0; i < len; i++) r->token[r->start[q] + i] = known(a[q].token[i], V);
    r->start[q + 1] = r->start[q] + len;
  }
  return TRI_OK;
}

/* Returns the number of sequences from q on that fit a batch. */
static int fill(const tri_judge *j, const tri_rollout *r, int q) {
  int n = 0;

  while (n < TRI_JUDGE_ROWS && q + n < r->n_seq && r->start[q + n + 1] - r->start[q] <= j->max_tokens) n++;
  return n;
}

/* Collective over the parameter scope of the model. Every rank has a batch of its own size, possibly
 * empty. */
static tri_status score_batch(tri_trainer *t, const tri_rollout *r, const int *seq, int n, float *score) {
  tri_learner *l = &t->learner[TRI_REWARD_MODEL];
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_in  in;
  tri_loss_out unused;

  TRI_TRY(tri_batch_load(t->judge.staging, r, seq, n, t->se->stream, &b));
  TRI_TRY(tri_model_forward(l->model, &b, false, 1.0f, &rows, t->se->stream));
  TRI_TRY(tri_batch_fetch(t->judge.staging, &rows, NULL, t->se->stream, &in, &unused));
  memcpy(score, in.value, (size_t)n * sizeof *score);
  return TRI_OK;
}

/* Subtracts the mean of the scores that the model stores and divides by their deviation. Changes nothing if
 * it stores none. */
static void normalize(const tri_trainer *t, int n, float *score) {
  const tri_model_shape *sh = tri_source_shape(t->learner[TRI_REWARD_MODEL].source);

  if (isnan(sh->score_mean) || isnan(sh->score_std)) return;
  for (int q = 0; q < n; q++) score[q] = (float)(((double)score[q] - sh->score_mean) / sh->score_std);
}

/* Refuses NaN. Other rewards may fail now and then, but NaN means a broken model. */
static tri_status check_scores(const tri_answer *a, int n, const float *score) {
  for (int q = 0; q < n; q++)
    if (isnan(score[q]))
      TRI_FAIL(TRI_ENUMERIC,
               "the reward model gave nan to an answer to prompt_id %lld, so its weights are damaged",
               (long long)a[q].prompt_id);
  return TRI_OK;
}

/* Counts the batches of this rank. */
static tri_status count_batches(const tri_judge *j, const tri_rollout *r, int64_t *out) {
  *out = 0;
  for (int q = 0; q < r->n_seq; (*out)++) {
    int n = fill(j, r, q);
    if (!n)
      TRI_FAIL(TRI_EINTERNAL, "an answer has %lld tokens, but the reward model's memory was planned for %lld",
               (long long)(r->start[q + 1] - r->start[q]), (long long)j->max_tokens);
    q += n;
  }
  return TRI_OK;
}

/* Collective over world. Every rank takes part in as many batches as the rank with the most batches. */
static tri_status score_all(tri_trainer *t, const tri_rollout *r, int *seq, int64_t batches, float *score) {
  TRI_TRY(tri_host_max(tri_world_of(t), &batches, 1));
  for (int q = 0; q < r->n_seq; q++) seq[q] = q;
  for (int q = 0; batches > 0; batches--) {
    int n = fill(&t->judge, r, q);
    TRI_TRY(score_batch(t, r, seq + q, n, score + q));
    q += n;
  }
  return TRI_OK;
}

tri_status tri_judge_score(void *trainer, const tri_answer *a, int n, float *score) {
  tri_trainer *t = trainer;
  tri_rollout  r = {0};
  int         *seq = NULL;
  int64_t      batches = 0;
  tri_status   st = gather(t, a, n, &r);

  if (st == TRI_OK) st = TRI_ALLOC(seq, n + 1);
  if (st == TRI_OK) st = count_batches(&t->judge, &r, &batches);
  st = tri_agree(tri_world_of(t), st);
  if (st == TRI_OK) {
    st = score_all(t, &r, seq, batches, score);
    tri_session_fail(t->se, st);
  }
  if (st == TRI_OK) st = check_scores(a, n, score);
  if (st == TRI_OK) normalize(t, n, score);
  TRI_FREE(seq);
  tri_rollout_free(&r);
  return st;
}
