/* replay_case.h - gives the tests of replayed steps the golden rollout and reads metrics. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_REPLAY_CASE_H
#define TRI_TESTS_REPLAY_CASE_H

#include "model_case.h"
#include "rollout/rollout.h"

enum { GROUP = 3 };

/* Makes the golden sequences of make_grpo_golden.py with their rewards and log-probabilities. */
static inline tri_rollout golden_rollout(const golden *g) {
  int32_t    *prompt = golden_get_int(g, "prompts"), *answer = golden_get_int(g, "answers");
  int32_t    *n_prompt = golden_get_int(g, "prompt_lengths"), *n_answer = golden_get_int(g, "answer_lengths");
  float      *old = golden_get(g, "old"), *ref = golden_get(g, "ref"), *reward = golden_get(g, "rewards");
  int         n = (int)golden_count(g, "answer_lengths");
  int64_t     n_tok = 0, from = 0, at = 0, first = 0;
  tri_rollout r = {0};

  for (int q = 0; q < n; q++) n_tok += n_prompt[q / GROUP] + n_answer[q];
  OK(tri_rollout_make(n, n_tok, GROUP, 0, &r));
  for (int q = 0; q < n; q++) {
    if (q && q % GROUP == 0) first += n_prompt[q / GROUP - 1];
    r.prompt_id[q] = q / GROUP;
    r.sample[q] = q % GROUP;
    r.prompt_len[q] = n_prompt[q / GROUP];
    r.reward[q] = reward[q];
    memcpy(r.token + at, prompt + first, (size_t)r.prompt_len[q] * 4);
    at += r.prompt_len[q];
    memcpy(r.token + at, answer + from, (size_t)n_answer[q] * 4);
    memcpy(r.old_logp + at, old + from, (size_t)n_answer[q] * 4);
    memcpy(r.ref_logp + at, ref + from, (size_t)n_answer[q] * 4);
    at += n_answer[q];
    from += n_answer[q];
    r.start[q + 1] = at;
  }
  r.has_logp = r.has_reward = true;
  free(prompt);
  free(answer);
  free(n_prompt);
  free(n_answer);
  free(old);
  free(ref);
  free(reward);
  return r;
}

/* Returns a metric of a line. key is written like "\"loss\": ". */
static inline double metric(const char *text, const char *key) {
  const char *found = strstr(text, key);

  CHECK(found, "metrics have no %s", key);
  return atof(found + strlen(key));
}

#endif
