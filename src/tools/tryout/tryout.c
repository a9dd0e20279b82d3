/* tryout.c - tries a deck's rewards on saved answers, as in a run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tryout.h"

#include "base/host_memory.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the rewards ---- */

static tri_reward_env tryout_env(const tri_config *c, tri_tryout *t) {
  return (tri_reward_env){.longest = c->rollout.max_response_length,
                          .longest_key = "rollout.max_response_length",
                          .judge = tri_tryout_model_score,
                          .judge_ctx = &t->model,
                          .trial = true};
}

/* Logs the errors of all rewards before it fails. */
static tri_status check_rows(const tri_tryout *t, const tri_reward_env *env) {
  tri_errors errors = {0};
  tri_status st = TRI_OK;
  int64_t    n;

  for (int i = 0; i < t->n; i++) {
    char row[80];
    snprintf(row, sizeof row, "reward %d (%s)", i + 1, t->row[i].name);
    TRI_TRY_DONE(tri_error_note(tri_error_at(tri_reward_check(&t->row[i], env), row), &errors));
  }
  n = errors.n;
  if (n) errors.text.data[errors.text.len - 1] = 0;
  if (n) tri_log_lines(TRI_LOG_ERROR, errors.text.data);
  if (n)
    TRI_FAIL_DONE(TRI_ECONFIG, "%lld of the deck's rewards cannot be opened, listed above", (long long)n);
done:
  tri_errors_free(&errors);
  return st;
}

static tri_status open_rewards(const tri_config *c, tri_tryout *t) {
  tri_reward_env env = tryout_env(c, t);

  if (!c->reward.n) TRI_FAIL(TRI_ECONFIG, "the deck has no `reward` to try");
  memcpy(t->row, c->reward.item, (size_t)c->reward.n * sizeof *t->row);
  t->n = c->reward.n;
  TRI_TRY(check_rows(t, &env));
  TRI_TRY(tri_reward_set_open(t->row, t->n, &env, &t->set));
  for (int i = 0; i < t->n; i++) {
    snprintf(t->tried[i].name, sizeof t->tried[i].name, "%s", tri_reward_set_name(t->set, i));
    t->tried[i].weight = t->row[i].weight;
  }
  return TRI_OK;
}

/* ---- their results ---- */

/* Copies a text of a message. Returns NULL if memory is short, and the message goes without the text. */
static char *copy(const char *text, size_t n) {
  char *out = NULL;

  if (TRI_ALLOC(out, (int64_t)n + 1) != TRI_OK) {
    tri_error_clear();
    return NULL;
  }
  memcpy(out, text, n);
  return out;
}

static void keep_failure(const tri_reward *kind, const tri_work_queue_result *r, tri_verdict *v) {
  tri_text asked = {0};

  v->why = copy(r->why, strlen(r->why));
  if (r->reply) v->reply = copy(r->reply, r->reply_bytes);
  if (!kind->show || !r->text) return;
  if (kind->show(r->text, &asked) == TRI_OK)
    v->asked = copy(asked.data, asked.len);
  else
    tri_error_clear();
  tri_text_free(&asked);
}

static void hear(void *ctx, int i, const tri_work_queue_result *r) {
  tri_tryout  *t = ctx;
  tri_verdict *v = &t->tried[i].verdict[r->number];

  v->score = r->score;
  v->seconds = r->seconds;
  v->is_first = r->is_first;
  if (r->why) keep_failure(tri_reward_find(t->row[i].name), r, v);
  if (!r->extras) return;
  if (TRI_ALLOC(v->extras, 1) == TRI_OK)
    *v->extras = *r->extras;
  else
    tri_error_clear();
}

static tri_status ask(tri_tryout *t) {
  int             n = t->saved.n, *number = NULL;
  float          *part = NULL;
  int32_t        *failed = NULL;
  tri_reward_call c = {.a = t->saved.answer, .n = n, .told = hear, .ctx = t};
  tri_status      st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(number, n));
  TRI_TRY_DONE(TRI_ALLOC(part, (int64_t)n * t->n));
  TRI_TRY_DONE(TRI_ALLOC(failed, n));
  TRI_TRY_DONE(TRI_ALLOC(t->total, n));
  for (int i = 0; i < t->n; i++) TRI_TRY_DONE(TRI_ALLOC(t->tried[i].verdict, n));
  for (int i = 0; i < t->n; i++) t->tried[i].n = n;
  c.number = number;
  c.part = part;
  c.total = t->total;
  c.failed = failed;
  for (int q = 0; q < n; q++) {
    number[q] = q;
    TRI_TRY_DONE(tri_reward_set_submit(t->set, &t->saved.answer[q], q));
  }
  TRI_TRY_DONE(tri_reward_set_call(t->set, &c));
  for (int q = 0; q < n; q++) t->failed += isnan(t->total[q]);
done:
  TRI_FREE(number);
  TRI_FREE(part);
  TRI_FREE(failed);
  return st;
}

static void sum_up(tri_tried *x) {
  double sum = 0;
  int    n = 0;

  x->mean = x->least = x->most = NAN;
  for (int q = 0; q < x->n; q++) {
    const tri_verdict *v = &x->verdict[q];
    x->seconds += v->seconds;
    if (v->is_first) x->start_s = v->seconds;
    x->failed += isnan(v->score);
    if (isnan(v->score)) continue;
    sum += (double)v->score;
    if (!n++ || (double)v->score < x->least) x->least = (double)v->score;
    if (n == 1 || (double)v->score > x->most) x->most = (double)v->score;
  }
  if (n) x->mean = sum / n;
}

/* Loads the reward model before the first answer, so that its time counts for no reward. */
static tri_status load_model(const tri_config *c, tri_tryout *t) {
  for (int i = 0; i < t->n; i++)
    if (!strcmp(t->row[i].name, "model"))
      return tri_tryout_model_open(&t->model, c, tri_reward_get(&t->row[i], "path"), t->saved.answer,
                                   t->saved.n);
  return TRI_OK;
}

tri_status tri_tryout_run(const tri_config *c, const char *path, tri_tryout *out) {
  tri_status st = TRI_OK;

  *out = (tri_tryout){.path = path};
  TRI_TRY_DONE(open_rewards(c, out));
  TRI_TRY_DONE(tri_saved_read(c, path, out->set, &out->saved));
  TRI_TRY_DONE(load_model(c, out));
  TRI_TRY_DONE(ask(out));
  for (int i = 0; i < out->n; i++) {
    sum_up(&out->tried[i]);
    TRI_TRY_DONE(tri_reward_set_extras(out->set, i, NULL, out->tried[i].extra, &out->tried[i].n_extra));
  }
done:
  tri_tryout_model_close(&out->model, st);
  if (st != TRI_OK) tri_tryout_free(out);
  return st;
}

void tri_tryout_free(tri_tryout *t) {
  tri_reward_set_close(&t->set);
  for (int i = 0; i < t->n; i++) {
    for (int q = 0; q < t->tried[i].n; q++) {
      tri_verdict *v = &t->tried[i].verdict[q];
      TRI_FREE(v->why);
      TRI_FREE(v->asked);
      TRI_FREE(v->reply);
      TRI_FREE(v->extras);
    }
    TRI_FREE(t->tried[i].verdict);
  }
  TRI_FREE(t->total);
  tri_saved_free(&t->saved);
}
