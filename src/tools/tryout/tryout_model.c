/* tryout_model.c - loads the reward model of a deck to score saved answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tryout_model.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 2048 }; /* chosen: matrix products run at full speed */

/* Number of tokens without padding at the end. The head is read at the last of them (src/train/judge.c). */
static int64_t length_of(const tri_tryout_model *m, const tri_answer *a) {
  int32_t pad = tri_source_eos(m->infer.source)->pad;
  int64_t n = a->n_prompt + a->n_token;

  while (n > 1 && a->token[n - 1] == pad) n--;
  return n;
}

static tri_status check_model(const tri_tryout_model *m, const tri_answer *a, int n, int64_t *longest) {
  int64_t context = tri_source_shape(m->infer.source)->max_pos;

  *longest = 1;
  if (!tri_source_shape(m->infer.source)->scored)
    TRI_FAIL(TRI_EINPUT,
             "%s: this model has no scalar head. Its config.json names no ...ForSequenceClassification",
             tri_source_name(m->infer.source));
  for (int q = 0; q < n; q++) {
    if (!a[q].token)
      TRI_FAIL(TRI_EINPUT,
               "a reward model needs the tokenizer of the deck's own model, but model.path cannot be read");
    if (length_of(m, &a[q]) > *longest) *longest = length_of(m, &a[q]);
  }
  if (*longest > context)
    TRI_FAIL(TRI_EINPUT,
             "%s: the longest answer with its prompt has %lld tokens, but the model's context is %lld",
             tri_source_name(m->infer.source), (long long)*longest, (long long)context);
  return TRI_OK;
}

tri_status tri_tryout_model_open(tri_tryout_model *m, const tri_config *c, const char *path,
                                 const tri_answer *a, int n) {
  char           dtype[TRI_CONFIG_WORD_BYTES];
  int            all, here;
  int64_t        longest;
  tri_infer_size size = {.dtype = dtype, .max_prompt = 1};

  tri_runtime_env_ranks(&all, &here);
  if (all > 1)
    TRI_FAIL(TRI_EARG, "a reward model runs on one rank here. Start trireme reward without mpirun or srun");
  tri_config_word("model.dtype", (int)c->model.dtype, dtype);
  m->open = true;
  TRI_TRY(tri_infer_open(path, NULL, true, c->run.threads, 1, &m->infer));
  TRI_TRY(tri_error_about(check_model(m, a, n, &longest), "reward.path"));
  m->max_tokens = longest > BATCH_TOKENS ? longest : BATCH_TOKENS;
  size.max_score = m->max_tokens;
  size.longest_score = longest;
  return tri_infer_ready(&m->infer, &size);
}

void tri_tryout_model_close(tri_tryout_model *m, tri_status st) {
  if (m->open) tri_infer_leave(&m->infer, st);
  *m = (tri_tryout_model){.open = false};
}

/* Puts prompts and answers into one rollout. A token beyond the reward model's vocabulary becomes its last
 * token, because the policy pads its vocabulary. */
static tri_status gather(const tri_tryout_model *m, const tri_answer *a, int n, tri_rollout *r) {
  int32_t V = tri_source_shape(m->infer.source)->V;
  int64_t n_tok = 0;

  for (int q = 0; q < n; q++) n_tok += length_of(m, &a[q]);
  TRI_TRY(tri_rollout_make(n, n_tok, 1, 0, r));
  for (int q = 0; q < n; q++) {
    int64_t len = length_of(m, &a[q]);
    for (int64_t i = 0; i < len; i++) r->token[r->start[q] + i] = a[q].token[i] < V ? a[q].token[i] : V - 1;
    r->start[q + 1] = r->start[q] + len;
  }
  return TRI_OK;
}

static tri_status score_batch(tri_infer *f, const tri_rollout *r, const int *seq, int n, float *score) {
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_in  in;
  tri_loss_out unused;

  TRI_TRY(tri_batch_load(f->staging, r, seq, n, f->se.stream, &b));
  TRI_TRY(tri_model_forward(f->model, &b, false, 1.0f, &rows, f->se.stream));
  TRI_TRY(tri_batch_fetch(f->staging, &rows, NULL, f->se.stream, &in, &unused));
  for (int64_t k = 0; k < in.n; k++) /* one row for each sequence, of its last token */
    for (int q = 0; q < n; q++)
      if (in.origin[k] == r->start[seq[q] + 1] - 1) score[seq[q]] = in.value[k];
  return TRI_OK;
}

/* Normalizes scores by the mean and the standard deviation measured when the model was made. Without these it
 * leaves them. */
static void normalize(const tri_model_shape *sh, int n, float *score) {
  if (isnan(sh->score_mean) || isnan(sh->score_std)) return;
  for (int q = 0; q < n; q++) score[q] = (float)(((double)score[q] - sh->score_mean) / sh->score_std);
}

tri_status tri_tryout_model_score(void *model, const tri_answer *a, int n, float *score) {
  tri_tryout_model *m = model;
  tri_rollout       r = {0};
  tri_split         sp = {0};
  tri_split_opt     opt = {.n = n, .together = 1, .rank = 0, .size = 1, .max_tokens = m->max_tokens};
  tri_status        st = TRI_OK;

  TRI_TRY_DONE(gather(m, a, n, &r));
  TRI_TRY_DONE(tri_split_make(&r, &opt, &sp));
  for (int i = 0; i < sp.n_micro; i++)
    TRI_TRY_DONE(score_batch(&m->infer, &r, sp.seq + sp.first[i], sp.first[i + 1] - sp.first[i], score));
  normalize(tri_source_shape(m->infer.source), n, score);
done:
  tri_split_free(&sp);
  tri_rollout_free(&r);
  return st;
}
