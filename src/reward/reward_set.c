/* reward_set.c - opens and closes the rewards of a deck, and tells their properties as a set. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "reward_set.h"

#include "base/host_memory.h"
#include "base/notice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOK_S 0.1 /* chosen: between checks for a stop of the run */

static tri_status row_open(tri_reward_set *s, const tri_reward_opt *o, const tri_reward_env *env) {
  tri_reward_row *row = &s->row[s->n];
  int             same = 1;

  TRI_TRY(tri_reward_check(o, env));
  row->kind = tri_reward_find(o->name);
  row->weight = o->weight;
  TRI_TRY(tri_reward_read_on_error(o, &row->on_error));
  for (int i = 0; i < s->n; i++) same += s->row[i].kind == row->kind;
  snprintf(row->name, sizeof row->name, same > 1 ? "%s_%d" : "%s", row->kind->name, same);
  row->state = NULL;
  if (row->kind->open) TRI_TRY(row->kind->open(o, env, &row->state));
  s->n++;
  return TRI_OK;
}

tri_status tri_reward_set_open(const tri_reward_opt *o, int n, const tri_reward_env *env,
                               tri_reward_set **out) {
  tri_status st = TRI_OK;

  *out = NULL;
  if (n < 1 || n > TRI_REWARDS_MAX)
    TRI_FAIL(TRI_ECONFIG, "reward: has %d entries: must be 1 to %d", n, TRI_REWARDS_MAX);
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->trial = env && env->trial;
  for (int i = 0; i < n; i++) TRI_TRY_DONE(row_open(*out, &o[i], env));
done:
  if (st != TRI_OK) tri_reward_set_close(out);
  return st;
}

void tri_reward_set_close(tri_reward_set **s) {
  if (!*s) return;
  for (int i = 0; i < (*s)->n; i++)
    if ((*s)->row[i].kind->close) (*s)->row[i].kind->close(&(*s)->row[i].state);
  TRI_FREE(*s);
}

const char *tri_reward_set_refuse(const tri_reward_set *s, const char *truth, size_t n) {
  const char *why = NULL;

  for (int i = 0; i < s->n && !why; i++)
    if (s->row[i].kind->refuse) why = s->row[i].kind->refuse(s->row[i].state, truth, n);
  return why;
}

void tri_reward_set_await(tri_reward_set *s, bool (*halt)(void *ctx), void *ctx) {
  for (int i = 0; i < s->n; i++)
    while (s->row[i].kind->await && !halt(ctx) && !s->row[i].kind->await(s->row[i].state, LOOK_S)) continue;
}

bool tri_reward_set_restarts(tri_reward_set *s, int64_t *n) {
  bool any = false;

  *n = 0;
  for (int i = 0; i < s->n; i++) {
    if (!s->row[i].kind->restarts) continue;
    *n += s->row[i].kind->restarts(s->row[i].state);
    any = true;
  }
  return any;
}

void tri_reward_set_warn(tri_reward_set *s, int i, int64_t prompt_id) {
  bool       *warned = i < 0 ? &s->warned_text : &s->row[i].warned;
  const char *name = i < 0 ? "" : s->row[i].name, *why = i < 0 ? NULL : s->row[i].kind->failure;

  if (i >= 0 && s->row[i].kind->collect) return; /* the rank that asked has warned */
  if (!why) why = i < 0 ? "the tokenizer's decoder fails on its tokens" : "it returned no number";
  if (*warned) return;
  *warned = true;
  tri_warn_like(
      &(tri_notice){.code = "reward_failed", .of = i < 0 ? NULL : name, .step = -1},
      "%s%s failed on an answer to prompt_id %lld, which gets 0: %s (logged once, reward_failures counts "
      "such answers)",
      i < 0 ? "the rewards" : "reward ", name, (long long)prompt_id, why);
}

double tri_reward_set_most(const tri_reward_set *s, int i) {
  TRI_ASSERT(i >= 0 && i < s->n);
  return s->row[i].weight > 0 ? s->row[i].weight * s->row[i].kind->best : 0;
}

bool tri_reward_set_is_bounded(const tri_reward_set *s) {
  for (int i = 0; i < s->n; i++)
    if (isinf(tri_reward_set_most(s, i))) return false;
  return true;
}

bool tri_reward_set_is_full(const tri_reward_set *s, const float *part) {
  double all = 0, got = 0, taken = 0;

  for (int i = 0; i < s->n; i++) {
    double x = s->row[i].weight * (double)part[i];
    all += tri_reward_set_most(s, i);
    *(s->row[i].kind->best == 0 ? &taken : &got) += x;
  }
  return all > 0 ? (float)got >= (float)(all * (1 - 1e-6))
                 : (float)(got + taken) >= 0; /* rewards are summed in f32 */
}

const tri_reward *tri_reward_set_voter(const tri_reward_set *s) {
  for (int i = 0; i < s->n; i++)
    if (s->row[i].kind->result) return s->row[i].kind;
  return NULL;
}

unsigned tri_reward_set_needs(const tri_reward_set *s) {
  unsigned needs = 0;

  for (int i = 0; i < s->n; i++) needs |= s->row[i].kind->needs;
  return needs;
}

bool tri_reward_set_works_beside(const tri_reward_set *s) {
  for (int i = 0; i < s->n; i++)
    if (s->row[i].kind->submit) return true;
  return false;
}

int tri_reward_set_count(const tri_reward_set *s) { return s->n; }

const char *tri_reward_set_name(const tri_reward_set *s, int i) {
  TRI_ASSERT(i >= 0 && i < s->n);
  return s->row[i].name;
}
