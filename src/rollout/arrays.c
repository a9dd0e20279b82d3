/* arrays.c - the table of a rollout's arrays. */
#include "arrays.h"

#include <string.h>

#define ROW(name, per, column)                                                                               \
  { offsetof(tri_rollout, name), sizeof *((tri_rollout *)0)->name, TRI_##per, column }
const tri_array_row tri_array[TRI_ARRAYS] = {ROW(prompt_id, PER_SEQ, 0),
                                             ROW(sample, PER_SEQ, 0),
                                             ROW(prompt_len, PER_SEQ, 0),
                                             ROW(stop, PER_SEQ, 0),
                                             ROW(reward, PER_SEQ, 0),
                                             ROW(part, PER_PART, 0),
                                             ROW(failed, PER_SEQ, 0),
                                             ROW(baseline, PER_SEQ, 0),
                                             ROW(token, PER_TOKEN, 0),
                                             ROW(old_logp, PER_TOKEN, 0),
                                             ROW(masked, PER_SEQ, 0),
                                             ROW(ref_logp, PER_TOKEN, 0),
                                             ROW(adv, PER_TOKEN, 0),
                                             ROW(critic.value, PER_TOKEN, TRI_COLUMN_CRITIC),
                                             ROW(critic.ret, PER_TOKEN, TRI_COLUMN_CRITIC),
                                             ROW(seen, PER_TOKEN, TRI_COLUMN_SEEN),
                                             ROW(roll_logp, PER_TOKEN, TRI_COLUMN_ROLL_LOGP)};

void *tri_array_get(const tri_rollout *r, int k) {
  void *p;
  memcpy(&p, (const char *)r + tri_array[k].member, sizeof p);
  return p;
}

void tri_array_set(tri_rollout *r, int k, void *p) { memcpy((char *)r + tri_array[k].member, &p, sizeof p); }

size_t tri_array_width(int k, int64_t n_reward) {
  return tri_array[k].bytes * (tri_array[k].per == TRI_PER_PART ? (size_t)n_reward : 1);
}

size_t tri_array_rows(int k, int64_t n_seq, int64_t n_tok) {
  return (size_t)(tri_array[k].per == TRI_PER_TOKEN ? n_tok : n_seq);
}

tri_status tri_array_check_room(const tri_rollout *r, int n_seq, int64_t n_tok, int n_reward) {
  const tri_rollout_size *most = r->store ? &r->store->most : NULL;

  if (n_seq < 0 || n_tok < 0 || n_reward < 0 || n_reward > TRI_REWARDS_MAX)
    TRI_FAIL(TRI_EARG, "a rollout of %d sequences, %lld tokens, %d rewards cannot be", n_seq,
             (long long)n_tok, n_reward);
  if (r->store && (n_seq > most->n_seq || n_tok > most->n_tok || n_reward > most->n_reward))
    TRI_FAIL(TRI_EINTERNAL,
             "a rollout of %d sequences, %lld tokens, %d rewards; room was planned for %d, %lld, %d", n_seq,
             (long long)n_tok, n_reward, most->n_seq, (long long)most->n_tok, most->n_reward);
  return TRI_OK;
}
