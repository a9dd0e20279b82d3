/* judge.c - the reward model of a run: scores of a rank's answers, in packed batches. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "judge.h"

#include "base/host_memory.h"
#include "train.h"

#include <math.h>
#include <string.h>

tri_status tri_judge_open(tri_trainer *t, int64_t max_tokens) {
  /* beside the gathered weights of its model, not in their room: the answers are made by then */
  tri_staging_opt o = {max_tokens, TRI_JUDGE_ROWS, TRI_LOSS_VALUE | TRI_LOSS_LAST, TRI_PHASE_LEARN};

  if (!t->learner[TRI_REWARD_MODEL].source) return TRI_OK;
  t->judge.max_tokens = max_tokens;
  return tri_staging_open(t->se->device, t->se->ledger, &o, &t->judge.staging);
}

void tri_judge_close(tri_judge *j) { tri_staging_close(&j->staging); }

/* Tokens up to the one that is scored: the last, but for the model's padding, which may be the end token
 * (transformers, modeling_layers.py, GenericForSequenceClassification). */
static int64_t length_of(const tri_trainer *t, const tri_answer *a) {
  int32_t pad = tri_source_eos(t->learner[TRI_REWARD_MODEL].source)->pad;
  int64_t n = a->n_prompt + a->n_token;

  while (n > 1 && a->token[n - 1] == pad) n--;
  return n;
}

/* Beyond the vocabulary there is only padding of the policy's (learner.c), which has no text: the last id. */
static int32_t known(int32_t id, int V) { return id < V ? id : V - 1; }

/* The answers with their prompts, as sequences. */
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

/* As many sequences from q on as fit a batch. */
static int fill(const tri_judge *j, const tri_rollout *r, int q) {
  int n = 0;

  while (n < TRI_JUDGE_ROWS && q + n < r->n_seq && r->start[q + n + 1] - r->start[q] <= j->max_tokens) n++;
  return n;
}

/* Collective over the parameter scope of the model: batches of this rank's own size, be it none. */
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

/* Less the mean of the scores the model gave when it was made, over their deviation; bare if it has none. */
static void normalize(const tri_trainer *t, int n, float *score) {
  const tri_model_shape *sh = tri_source_shape(t->learner[TRI_REWARD_MODEL].source);

  if (isnan(sh->score_mean) || isnan(sh->score_std)) return;
  for (int q = 0; q < n; q++) score[q] = (float)(((double)score[q] - sh->score_mean) / sh->score_std);
}

/* Not as a reward that fails now and then: no number is a model that is broken. */
static tri_status check_scores(const tri_answer *a, int n, const float *score) {
  for (int q = 0; q < n; q++)
    if (isnan(score[q]))
      TRI_FAIL(TRI_ENUMERIC,
               "the reward model says nan of an answer to prompt_id %lld: its weights are damaged",
               (long long)a[q].prompt_id);
  return TRI_OK;
}

/* How many batches this rank has. */
static tri_status count_batches(const tri_judge *j, const tri_rollout *r, int64_t *out) {
  *out = 0;
  for (int q = 0; q < r->n_seq; (*out)++) {
    int n = fill(j, r, q);
    if (!n)
      TRI_FAIL(TRI_EINTERNAL, "an answer of %lld tokens for the reward model, planned were %lld",
               (long long)(r->start[q + 1] - r->start[q]), (long long)j->max_tokens);
    q += n;
  }
  return TRI_OK;
}

/* Collective over world: every rank takes part in as many batches as the one with most has. */
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
