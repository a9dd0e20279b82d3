/* reward_object.c - a reward's shared object for tests. It answers with the response's bytes unless the
 * response asks for worse. It is compiled in several ways. REWARD_VERSION, REWARD_SYMBOL, REWARD_SCORE and
 * REWARD_OPENS each select a defect. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "reward/trireme_reward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef REWARD_VERSION
#define REWARD_VERSION TRIREME_REWARD_VERSION
#endif
#ifndef REWARD_SYMBOL
#define REWARD_SYMBOL trireme_reward_object
#endif
#ifndef REWARD_SCORE
#define REWARD_SCORE score
#endif
#ifndef REWARD_OPENS
#define REWARD_OPENS 1
#endif

static int opened;

/* Runs when the object is loaded, and leaves a trace. */
__attribute__((constructor)) static void on_load(void) { setenv("TRI_TEST_OBJECT_RAN", "1", 1); }

static int open_it(void **state, char *error, size_t error_bytes) {
  *state = &opened;
  opened++;
  if (!REWARD_OPENS) memset(error, 'e', error_bytes); /* no NUL */
  return !REWARD_OPENS;
}

/* Returns the number in a line's field {"extra": {"n": 7}}, or -1. */
static double field_of(const trireme_answer *a) {
  int n = -1;

  if (a->fields_bytes != strlen(a->fields) || sscanf(a->fields, "{\"extra\": {\"n\": %d}}", &n) != 1)
    return -1;
  return n;
}

__attribute__((unused)) static int score(void *state, const trireme_answer *answer, size_t n, double *out,
                                         char *error, size_t error_bytes) {
  if (state != &opened || opened != 1) return 2;
  for (size_t i = 0; i < n; i++) {
    const trireme_answer *a = &answer[i];
    if (a->response[a->response_bytes] || a->prompt[a->prompt_bytes]) return 3;
    if (!strcmp(a->response, "error")) {
      snprintf(error, error_bytes, "answer %lld is an error", (long long)a->prompt_id);
      return 1;
    }
    out[i] = (double)a->response_bytes;
    if (!strcmp(a->response, "nan")) out[i] = NAN;
    if (!strcmp(a->response, "large")) out[i] = 1e300;
    if (!strcmp(a->response, "field")) out[i] = field_of(a);
    if (!strcmp(a->response, "truth")) out[i] = a->truth ? (double)a->truth_bytes : -1;
    if (!strcmp(a->response, "tokens"))
      out[i] = a->token[0] * 100 + a->token[a->n_prompt] * 10 + a->n_token + 1000 * a->is_cut;
  }
  return 0;
}

static void close_it(void *state) { --*(int *)state; }

__attribute__((unused)) static int (*const no_score)(void *, const trireme_answer *, size_t, double *, char *,
                                                     size_t) = NULL;

extern const trireme_reward REWARD_SYMBOL;
const trireme_reward        REWARD_SYMBOL = {.version = REWARD_VERSION,
                                             .answer_bytes = sizeof(trireme_answer),
                                             .open = open_it,
                                             .score = REWARD_SCORE,
                                             .close = close_it};
