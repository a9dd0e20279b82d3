/* fuzz_rollout.c - rollout files for replay (io/data/rollout_file.c), from three bytes of options and a
 * file.
 *
 * Two ranks must read the same as one. The rollouts, written and read again, must be the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "fuzz_case.h"
#include "rollout_case.h"

static const char *const reward_name[] = {"regex", "exact", "number"};

FUZZ_QUIET_START

static bool same_rollout(const tri_rollout *a, const tri_rollout *b) {
  size_t n = (size_t)a->n_seq;

  if (a->n_seq != b->n_seq || a->n_tok != b->n_tok) return false;
  for (int64_t i = 0; a->has_logp && i < a->n_tok; i++)
    if (a->old_logp[i] != b->old_logp[i] && !(isnan(a->old_logp[i]) && isnan(b->old_logp[i]))) return false;
  return fuzz_same(a->token, b->token, (size_t)a->n_tok * sizeof *a->token) &&
         fuzz_same(a->stop, b->stop, n * sizeof *a->stop) &&
         fuzz_same(a->masked, b->masked, n * sizeof *a->masked) &&
         fuzz_same(a->prompt_len, b->prompt_len, n * sizeof *a->prompt_len) &&
         fuzz_same(a->prompt_id, b->prompt_id, n * sizeof *a->prompt_id);
}

static void check_rollout(const tri_rollout *r, const tri_replay_opt *o) {
  tri_rollout again = {0};
  int         n_seq = 0;

  FUZZ_CHECK(r->n_seq > 0 && r->n_seq % o->group == 0);
  for (int q = 0; q < r->n_seq; q++)
    FUZZ_CHECK(r->prompt_len[q] >= 1 && r->start[q] + r->prompt_len[q] < r->start[q + 1]);
  for (int rank = 0; rank < 2; rank++) {
    tri_rollout part = {0};
    FUZZ_CHECK(tri_rollout_file_read(fuzz_folder(), 1, o, rank, 2, &part) == TRI_OK);
    n_seq += part.n_seq;
    tri_rollout_free(&part);
  }
  FUZZ_CHECK(n_seq == r->n_seq);
  FUZZ_CHECK(case_write_rollout(fuzz_folder(), 2, r, reward_name, NULL) == TRI_OK);
  FUZZ_CHECK(tri_rollout_file_read(fuzz_folder(), 2, o, 0, 1, &again) == TRI_OK);
  FUZZ_CHECK(same_rollout(r, &again));
  tri_rollout_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tri_rollout    r = {0};
  tri_replay_opt o = {.vocab = 300, .reward_name = reward_name};
  char           path[128];

  if (n < 3 || n > 1 << 16) return -1;
  o.group = 1 + (data[0] & 3);
  o.n_reward = (data[0] >> 2) & 3;
  o.max_prompt = data[1] & 31;
  o.max_response = data[2] & 63;
  snprintf(path, sizeof path, "%s/step-00000001.jsonl", fuzz_folder());
  fuzz_write(path, data + 3, n - 3);
  fuzz_begin();
  if (tri_rollout_file_read(fuzz_folder(), 1, &o, 0, 1, &r) == TRI_OK) check_rollout(&r, &o);
  tri_rollout_free(&r);
  fuzz_end();
  return 0;
}
