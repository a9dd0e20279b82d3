/* verify.c - an example of a reward in a shared object. The reward is 1 if the response begins with the right answer.
 *
 *   cc -O2 -shared -fPIC -I src/reward jobs/rewards/verify.c -o verify.so     (from the root, or with -I PREFIX/include)
 *   reward: [{name: library, path: ./verify.so}] */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "trireme_reward.h"

#include <stdio.h>
#include <string.h>

static int score(void *state, const trireme_answer *answer, size_t n, double *score, char *error,
                 size_t error_bytes) {
  (void)state;
  for (size_t i = 0; i < n; i++) {
    const trireme_answer *a = &answer[i];
    if (!a->truth) {
      snprintf(error, error_bytes, "line %lld of the data has no right answer", (long long)a->prompt_id);
      return 1;
    }
    score[i] = a->response_bytes >= a->truth_bytes && !memcmp(a->response, a->truth, a->truth_bytes);
  }
  return 0;
}

const trireme_reward trireme_reward_object = {
    .version = TRIREME_REWARD_VERSION, .answer_bytes = sizeof(trireme_answer), .score = score};
