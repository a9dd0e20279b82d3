/* arrays.c - the table of a rollout's arrays, and their allocation. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "arrays.h"

#include "base/host_memory.h"

#include <math.h>
#include <string.h>

#define ROW(name, per, sent, column)                                                                         \
  { offsetof(tri_rollout, name), sizeof *((tri_rollout *)0)->name, TRI_##per, sent, column }
const tri_array_row tri_array[TRI_ARRAYS] = {ROW(prompt_id, PER_SEQ, true, 0),
                                             ROW(place, PER_SEQ, true, 0),
                                             ROW(sample, PER_SEQ, true, 0),
                                             ROW(prompt_len, PER_SEQ, true, 0),
                                             ROW(stop, PER_SEQ, true, 0),
                                             ROW(reward, PER_SEQ, true, 0),
                                             ROW(part, PER_PART, true, 0),
                                             ROW(failed, PER_SEQ, true, 0),
                                             ROW(baseline, PER_SEQ, true, 0),
                                             ROW(token, PER_TOKEN, true, 0),
                                             ROW(old_logp, PER_TOKEN, true, 0),
                                             ROW(masked, PER_SEQ, false, 0),
                                             ROW(ref_logp, PER_TOKEN, false, 0),
                                             ROW(adv, PER_TOKEN, false, 0),
                                             ROW(critic.value, PER_TOKEN, false, TRI_COLUMN_CRITIC),
                                             ROW(critic.ret, PER_TOKEN, false, TRI_COLUMN_CRITIC),
                                             ROW(seen, PER_TOKEN, false, TRI_COLUMN_SEEN),
                                             ROW(roll_logp, PER_TOKEN, false, TRI_COLUMN_ROLL_LOGP),
                                             ROW(mark, PER_TOKEN, false, TRI_COLUMN_MARK)};

void *tri_array_get(const tri_rollout *r, int k) {
  void *p;
  memcpy(&p, (const char *)r + tri_array[k].member, sizeof p);
  return p;
}

static void array_set(tri_rollout *r, int k, void *p) {
  memcpy((char *)r + tri_array[k].member, &p, sizeof p);
}

size_t tri_array_width(int k, int64_t n_reward) {
  return tri_array[k].bytes * (tri_array[k].per == TRI_PER_PART ? (size_t)n_reward : 1);
}

size_t tri_array_rows(int k, int64_t n_seq, int64_t n_tok) {
  return (size_t)(tri_array[k].per == TRI_PER_TOKEN ? n_tok : n_seq);
}

tri_status tri_array_check_space(const tri_rollout *r, int n_seq, int64_t n_tok, int n_reward) {
  const tri_rollout_size *most = r->store ? &r->store->most : NULL;

  if (n_seq < 0 || n_tok < 0 || n_reward < 0 || n_reward > TRI_REWARDS_MAX)
    TRI_FAIL(TRI_EARG, "a rollout cannot have %d sequences, %lld tokens and %d rewards", n_seq,
             (long long)n_tok, n_reward);
  if (r->store && (n_seq > most->n_seq || n_tok > most->n_tok || n_reward > most->n_reward))
    TRI_FAIL(
        TRI_EINTERNAL,
        "a rollout has %d sequences, %lld tokens and %d rewards, but memory was planned for %d, %lld and %d",
        n_seq, (long long)n_tok, n_reward, most->n_seq, (long long)most->n_tok, most->n_reward);
  return TRI_OK;
}

/* Gives array k zeroed memory, from the store or its own. */
static tri_status array_take(tri_rollout *r, int k) {
  size_t rows = tri_array_rows(k, r->n_seq, r->n_tok), width = tri_array_width(k, r->n_reward);
  void  *p = NULL;

  if (r->store)
    p = tri_array_get(&r->store->arrays, k);
  else
    TRI_TRY(tri_host_alloc(rows, width, &p));
  array_set(r, k, p);
  if (r->store && p && rows > 0 && width > 0) memset(p, 0, rows * width);
  return TRI_OK;
}

tri_status tri_rollout_make(int n_seq, int64_t n_tok, int group, int n_reward, tri_rollout *out) {
  tri_status st = TRI_OK;

  TRI_TRY(tri_array_check_space(out, n_seq, n_tok, n_reward));
  if (group < 0) TRI_FAIL(TRI_EARG, "a rollout cannot have groups of %d", group);
  if (out->store && !out->store->arrays.start)
    TRI_FAIL(TRI_EINTERNAL, "the memory of this rollout was not planned, or not taken yet");
  if (out->store && out->store->lent) TRI_FAIL(TRI_EINTERNAL, "another rollout uses the memory of this one");
  out->n_seq = n_seq;
  out->group = group;
  out->n_reward = n_reward;
  out->n_tok = n_tok;
  out->has_logp = out->has_reward = false;
  if (out->store) {
    out->store->lent = true;
    out->start = out->store->arrays.start;
  } else {
    TRI_TRY_DONE(TRI_ALLOC(out->start, (size_t)n_seq + 1));
  }
  memset(out->start, 0, ((size_t)n_seq + 1) * sizeof *out->start);
  for (int k = 0; k < TRI_ARRAYS; k++) TRI_TRY_DONE(array_take(out, k));
  for (int q = 0; q < n_seq; q++) out->reward[q] = NAN;
  for (int64_t i = 0; i < n_tok; i++) out->old_logp[i] = out->ref_logp[i] = NAN;
done:
  if (st != TRI_OK) tri_rollout_clear(out);
  return st;
}

tri_status tri_rollout_set_rewards(tri_rollout *r, int n_reward) {
  TRI_TRY(tri_array_check_space(r, r->n_seq, r->n_tok, n_reward));
  r->n_reward = n_reward;
  if (!r->store) TRI_FREE(r->part);
  for (int k = 0; k < TRI_ARRAYS; k++)
    if (tri_array[k].per == TRI_PER_PART) TRI_TRY(array_take(r, k));
  return TRI_OK;
}

void tri_rollout_clear(tri_rollout *r) {
  tri_rollout_store *store = r->store;

  if (store && r->start) store->lent = false; /* an empty rollout has borrowed nothing */
  if (!store) TRI_FREE(r->start);
  for (int k = 0; !store && k < TRI_ARRAYS; k++) {
    void *p = tri_array_get(r, k);
    tri_host_free(&p);
  }
  *r = (tri_rollout){.store = store};
}

void tri_rollout_free(tri_rollout *r) {
  tri_rollout_clear(r);
  r->store = NULL;
}
