/* finished.c - the answers of one generation, kept as they end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "finished.h"

#include "base/host_memory.h"

#include <string.h>

typedef struct answer {
  int32_t        *token; /* exactly n tokens, once finished */
  float          *logp;
  int64_t         n;
  tri_stop_reason stop;
} answer;

struct tri_finished {
  int64_t max_answers, max_new;
  int64_t total;  /* answers of this generation */
  answer *answer; /* [total] */
  /* If max_answers is set, all answers lie here, one after the other. The ledger then owns these and
   * `answer`. */
  int32_t *token;
  float   *logp;
  int64_t  n_token;
};

tri_status tri_finished_open(tri_ledger *l, int64_t max_answers, int64_t max_new, tri_finished **out) {
  const char   *name = "finished answers";
  size_t        bytes = (size_t)max_answers * (size_t)max_new * 4;
  tri_finished *f;

  TRI_TRY(TRI_ALLOC(*out, 1));
  f = *out;
  f->max_answers = max_answers;
  f->max_new = max_new;
  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, bytes, (void **)&f->token));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, bytes, (void **)&f->logp));
  return tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name,
                        (size_t)max_answers * sizeof *f->answer, (void **)&f->answer);
}

void tri_finished_close(tri_finished **f) {
  if (*f) tri_finished_end(*f);
  TRI_FREE(*f);
}

tri_status tri_finished_begin(tri_finished *f, int64_t n) {
  if (f->max_answers && n > f->max_answers)
    TRI_FAIL(TRI_EINTERNAL, "a generation has %lld answers but %lld were planned", (long long)n,
             (long long)f->max_answers);
  f->total = n;
  f->n_token = 0;
  return f->max_answers ? TRI_OK : TRI_ALLOC(f->answer, n);
}

tri_status tri_finished_add(tri_finished *f, int64_t i, const int32_t *token, const float *logp, int64_t n,
                            tri_stop_reason why, const int32_t **kept) {
  answer *a = &f->answer[i];

  if (f->max_answers) {
    a->token = f->token + f->n_token;
    a->logp = f->logp + f->n_token;
    f->n_token += n;
  } else {
    TRI_TRY(TRI_ALLOC(a->token, n));
    TRI_TRY(TRI_ALLOC(a->logp, n));
  }
  memcpy(a->token, token, (size_t)n * 4);
  memcpy(a->logp, logp, (size_t)n * 4);
  a->n = n;
  a->stop = why;
  *kept = a->token;
  return TRI_OK;
}

tri_status tri_finished_collect(const tri_finished *f, const tri_prompt *prompt, int group,
                                tri_rollout *out) {
  int64_t n_tok = 0, at = 0;

  for (int64_t i = 0; i < f->total; i++) n_tok += prompt[i / group].n_token + f->answer[i].n;
  TRI_TRY(tri_rollout_make((int)f->total, n_tok, group, 0, out));
  for (int64_t i = 0; i < f->total; i++) {
    const tri_prompt *p = &prompt[i / group];
    const answer     *a = &f->answer[i];
    out->start[i] = at;
    out->prompt_id[i] = p->id;
    out->sample[i] = (int32_t)(i % group);
    out->prompt_len[i] = p->n_token;
    out->stop[i] = (int32_t)a->stop;
    memcpy(out->token + at, p->token, (size_t)p->n_token * 4);
    memcpy(out->token + at + p->n_token, a->token, (size_t)a->n * 4);
    memcpy(out->old_logp + at + p->n_token, a->logp, (size_t)a->n * 4);
    at += p->n_token + a->n;
  }
  out->start[f->total] = at;
  out->has_logp = true;
  return TRI_OK;
}

void tri_finished_end(tri_finished *f) {
  if (f->max_answers) return;
  for (int64_t i = 0; f->answer && i < f->total; i++) {
    TRI_FREE(f->answer[i].token);
    TRI_FREE(f->answer[i].logp);
  }
  TRI_FREE(f->answer);
}
