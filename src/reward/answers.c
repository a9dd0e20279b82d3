/* answers.c - hands answers to their rewards when they end, and collects all scores. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "answers.h"

#include "base/host_memory.h"

#include <string.h>

/* ---- each answer as it ends ---- */

/* Position of an answer's text in tri_answers.text. */
typedef struct position {
  size_t begin, bytes;
  bool   is_put;
  bool   has_none; /* the tokenizer cannot decode it within its bounds */
} position;

struct tri_answers {
  tri_answers_opt opt;
  bool            texts, open;          /* texts are needed, answers are not collected yet */
  position       *position;             /* [n] of each number in the step */
  tri_text        text, opening, whole; /* all responses. opening and whole belong to the current answer */
  int32_t        *token;                /* prompt and response of the current answer */
  int64_t         cap;
};

tri_status tri_answers_open(const tri_answers_opt *o, tri_answers **out) {
  unsigned     needs = tri_reward_set_needs(o->set);
  tri_answers *x;
  char         cure[TRI_TOKENIZER_CURE_BYTES];
  tri_status   st = TRI_OK;

  TRI_TRY(TRI_ALLOC(*out, 1));
  x = *out;
  x->opt = *o;
  x->open = true;
  x->texts = needs & (TRI_REWARD_TEXT | TRI_REWARD_FIELDS_OF_LINE | TRI_REWARD_WHOLE);
  if (x->texts && !o->tokenizer)
    TRI_FAIL_DONE(TRI_EINPUT, "rewards compare text, but %s has no tokenizer.json.\n  %s",
                  o->model ? o->model : "the model", tri_tokenizer_cure(o->model, cure));
  TRI_TRY_DONE(TRI_ALLOC(x->position, o->n));
done:
  if (st != TRI_OK) tri_answers_close(out);
  return st;
}

void tri_answers_close(tri_answers **answers) {
  tri_answers *x = *answers;

  if (!x) return;
  if (x->open) tri_reward_set_forget(x->opt.set);
  TRI_FREE(x->position);
  TRI_FREE(x->token);
  tri_text_free(&x->text);
  tri_text_free(&x->opening);
  tri_text_free(&x->whole);
  tri_host_free((void **)answers);
}

/* A finished answer with its prompt. */
typedef struct finished {
  int            number;
  const int32_t *prompt, *answer; /* [n_prompt], [n] */
  int            n_prompt;
  int64_t        n;
  bool           truncated;
} finished;

static const tri_example *example_of(const tri_answers *x, int number) {
  return x->opt.example[number / x->opt.group];
}

/* Decodes the texts that the rewards need. */
static tri_status decode_texts(tri_answers *x, const finished *f) {
  const tri_tokenizer *t = x->opt.tokenizer;

  TRI_TRY(
      tri_answers_decode(t, f->answer, tri_answers_text_tokens(&x->opt, f->answer, f->n), true, &x->text));
  x->position[f->number].bytes = x->text.len - x->position[f->number].begin;
  if (!tri_reward_set_works_beside(x->opt.set)) return TRI_OK;
  if (!example_of(x, f->number)->prompt || tri_reward_set_needs(x->opt.set) & TRI_REWARD_WHOLE)
    TRI_TRY(tri_answers_decode(t, f->prompt, f->n_prompt, false, &x->opening));
  if (!(tri_reward_set_needs(x->opt.set) & TRI_REWARD_WHOLE)) return TRI_OK;
  return tri_answers_decode(t, x->token, f->n_prompt + f->n, false, &x->whole);
}

/* Decodes the answer. An answer that cannot be decoded has no text, which is not a failure. */
static tri_status decode(tri_answers *x, const finished *f) {
  position  *p = &x->position[f->number];
  tri_status st;

  TRI_ASSERT(!p->is_put);
  *p = (position){.begin = x->text.len, .is_put = true};
  x->opening.len = x->whole.len = 0;
  TRI_TRY(TRI_GROW(x->token, x->cap, f->n_prompt + f->n));
  memcpy(x->token, f->prompt, (size_t)f->n_prompt * sizeof *x->token);
  if (f->n) memcpy(x->token + f->n_prompt, f->answer, (size_t)f->n * sizeof *x->token);
  if (!x->texts) return TRI_OK;
  st = decode_texts(x, f);
  if (st != TRI_EINPUT) return st;
  tri_error_clear();
  x->text.len = p->begin;
  *p = (position){.begin = p->begin, .is_put = true, .has_none = true};
  return TRI_OK;
}

static tri_answer make_answer(const tri_answers *x, int number, const int32_t *token, int n_prompt,
                              int n_token, bool truncated) {
  const tri_example *e = example_of(x, number);
  const position    *p = &x->position[number];

  return (tri_answer){.prompt_id = e->id,
                      .prompt = e->prompt ? e->prompt : "",
                      .response = p->bytes ? x->text.data + p->begin : "",
                      .prompt_bytes = e->prompt ? e->prompt_bytes : 0,
                      .response_bytes = p->bytes,
                      .truth = e->answer,
                      .truth_bytes = e->answer_bytes,
                      .fields = e->fields ? e->fields : "",
                      .fields_bytes = e->fields_bytes,
                      .opening = "",
                      .whole = "",
                      .token = token,
                      .n_prompt = n_prompt,
                      .n_token = n_token,
                      .truncated = truncated};
}

/* Gives the answer to the rewards that work beside generation, unless it cannot be decoded. */
static tri_status submit(tri_answers *x, const finished *f) {
  tri_answer a;

  if (x->position[f->number].has_none || !tri_reward_set_works_beside(x->opt.set)) return TRI_OK;
  a = make_answer(x, f->number, x->token, f->n_prompt, (int)f->n, f->truncated);
  if (x->opening.len) {
    a.opening = x->opening.data;
    a.opening_bytes = x->opening.len;
    if (!example_of(x, f->number)->prompt) { /* the data line has tokens or messages instead */
      a.prompt = a.opening;
      a.prompt_bytes = a.opening_bytes;
    }
  }
  if (x->whole.len) {
    a.whole = x->whole.data;
    a.whole_bytes = x->whole.len;
  }
  return tri_reward_set_submit(x->opt.set, &a, f->number);
}

tri_status tri_answers_put(void *answers, int number, const int32_t *answer, int64_t n, tri_stop_reason why) {
  tri_answers       *x = answers;
  const tri_example *e = example_of(x, number);
  const finished     f = {number, e->token, answer, e->n_token, n, why == TRI_STOP_LENGTH};

  TRI_TRY(decode(x, &f));
  return submit(x, &f);
}

/* ---- all answers at the end ---- */

/* The answers with a text, and their scores. */
typedef struct judged {
  tri_answer *a;      /* [n] */
  int        *seq;    /* [n] index in the rollout */
  int        *number; /* [n] number in the step */
  float      *part;   /* [n,n_reward] */
  float      *total;  /* [n] */
  int32_t    *failed; /* [n] */
  int         n;
} judged;

static void free_judged(judged *j) {
  TRI_FREE(j->a);
  TRI_FREE(j->seq);
  TRI_FREE(j->number);
  TRI_FREE(j->part);
  TRI_FREE(j->total);
  TRI_FREE(j->failed);
}

/* Returns the number in the step of sequence q. With `whole` r has all answers in order, and a file may give
 * them any samples. */
static int number_of(const tri_answers *x, const tri_rollout *r, bool whole, int q) {
  int64_t number = whole ? q : (int64_t)r->place[q] * x->opt.group + r->sample[q];

  TRI_ASSERT(number >= 0 && number < x->opt.n && x->position[number].is_put);
  return (int)number;
}

/* Collects the answers with a text. An answer without one gets 0 from every reward. */
static tri_status gather(const tri_answers *x, tri_rollout *r, bool whole, judged *j) {
  TRI_TRY(tri_rollout_set_rewards(r, tri_reward_set_count(x->opt.set)));
  TRI_TRY(TRI_ALLOC(j->a, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->seq, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->number, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->part, (int64_t)r->n_seq * r->n_reward));
  TRI_TRY(TRI_ALLOC(j->total, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->failed, r->n_seq));
  for (int q = 0; q < r->n_seq; q++) {
    int n_token = (int)(r->start[q + 1] - r->start[q] - r->prompt_len[q]), number = number_of(x, r, whole, q);
    if (x->position[number].has_none) {
      r->reward[q] = 0; /* its parts are 0 already */
      r->failed[q] = TRI_FAILED_TEXT;
      continue;
    }
    j->seq[j->n] = q;
    j->number[j->n] = number;
    j->a[j->n] = make_answer(x, number, r->token + r->start[q], r->prompt_len[q], n_token,
                             r->stop[q] == TRI_STOP_LENGTH);
    j->a[j->n++].n_given = (int)tri_rollout_given_tokens(r, q);
  }
  return TRI_OK;
}

static void put_scores(const judged *j, tri_rollout *r) {
  for (int k = 0; k < j->n; k++) {
    int q = j->seq[k];
    memcpy(r->part + (int64_t)q * r->n_reward, j->part + (int64_t)k * r->n_reward,
           (size_t)r->n_reward * sizeof *j->part);
    r->reward[q] = j->total[k];
    r->failed[q] = j->failed[k];
  }
  r->has_reward = true;
}

/* Collective over world. With `whole` r has all answers of x in order. With `shared` every rank has the same
 * r. */
static tri_status collect(tri_answers *x, tri_rollout *r, tri_comm *world, bool whole, bool shared) {
  tri_status st = TRI_OK;
  judged     j = {0};

  TRI_TRY_DONE(tri_agree(world, gather(x, r, whole, &j)));
  x->open = false;
  const tri_reward_call c = {.a = j.a,
                             .number = j.number,
                             .n = j.n,
                             .share = shared && world->size > 1 ? world : NULL,
                             .part = j.part,
                             .total = j.total,
                             .failed = j.failed};
  TRI_TRY_DONE(tri_agree(world, tri_reward_set_call(x->opt.set, &c)));
  put_scores(&j, r);
done:
  free_judged(&j);
  return st;
}

tri_status tri_answers_collect(tri_answers *x, tri_rollout *r, tri_comm *world) {
  return collect(x, r, world, false, false);
}

/* Puts all answers of r. This rank submits groups rank, rank + size, ... only. */
static tri_status put_all(tri_answers *x, const tri_rollout *r, int rank, int size) {
  for (int q = 0; q < r->n_seq; q++) {
    const int32_t *prompt = r->token + r->start[q];
    const finished f = {q,
                        prompt,
                        prompt + r->prompt_len[q],
                        r->prompt_len[q],
                        r->start[q + 1] - r->start[q] - r->prompt_len[q],
                        r->stop[q] == TRI_STOP_LENGTH};
    TRI_TRY(decode(x, &f));
    if (q / x->opt.group % size == rank) TRI_TRY(submit(x, &f));
  }
  return TRI_OK;
}

tri_status tri_answers_reward(tri_rollout *r, const tri_answers_opt *o, tri_comm *world, bool shared) {
  tri_answers *x = NULL;
  tri_status   st = tri_answers_open(o, &x);

  if (st == TRI_OK) st = put_all(x, r, shared ? world->rank : 0, shared ? world->size : 1);
  st = tri_agree(world, st);
  if (st == TRI_OK) st = collect(x, r, world, true, shared);
  tri_answers_close(&x);
  return st;
}
