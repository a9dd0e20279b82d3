/* reward_length.c - length: a penalty for answers near the longest possible length. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
  int64_t longest, buffer; /* tokens */
  double  factor;
} shape;

static tri_status read_buffer(const tri_reward_opt *o, const tri_reward_env *env, int64_t *out) {
  const char *text = tri_reward_get(o, "buffer");
  bool        digits = text[0] && strspn(text, "0123456789") == strlen(text);

  errno = 0;
  *out = strtoll(text, NULL, 10);
  if (!digits || errno || *out < 1) TRI_FAIL(TRI_ECONFIG, "must be a whole number > 0, of tokens");
  if (!env || env->longest <= 0)
    TRI_FAIL(TRI_ECONFIG, "reward length needs the longest possible answer. Give %s",
             env && env->longest_key ? env->longest_key : "it");
  if (*out > env->longest)
    TRI_FAIL(TRI_ECONFIG, "must be at most %s = %lld", env->longest_key, (long long)env->longest);
  return TRI_OK;
}

static tri_status read_shape(const tri_reward_opt *o, const tri_reward_env *env, const char **field,
                             shape *out) {
  *field = "factor";
  if (!tri_reward_read_number(o, "factor", 1, &out->factor) || out->factor <= 0)
    TRI_FAIL(TRI_ECONFIG, "must be a number > 0");
  *field = "buffer";
  TRI_TRY(read_buffer(o, env, &out->buffer));
  out->longest = env->longest;
  return TRI_OK;
}

static tri_status length_check(const tri_reward_opt *o, const tri_reward_env *env, const char **field) {
  shape x;

  return read_shape(o, env, field, &x);
}

static tri_status length_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  const char *field;
  shape      *x;

  *state = NULL;
  TRI_TRY(TRI_ALLOC(x, 1));
  *state = x;
  return read_shape(o, env, &field, x);
}

/* Source: Yu et al. 2025, DAPO, eq. 13, and trl, rewards, get_soft_overlong_punishment. */
static tri_status length_score(void *state, const tri_answer *a, int n, float *score) {
  const shape *x = state;

  for (int q = 0; q < n; q++) {
    int    length = a[q].n_token - a[q].n_given;
    double over = (double)(length - (x->longest - x->buffer)) / (double)x->buffer;
    score[q] = over <= 0 ? 0 : (float)(-x->factor * fmin(over, 1));
  }
  return TRI_OK;
}

static void length_close(void **state) { tri_host_free(state); }

static const tri_reward_field length_field[] = {
    {.name = "buffer",
     .unit = "tokens",
     .help = "Tokens before the longest possible answer. An answer loses for each token in them.",
     .value = "B",
     .what = "tokens before the longest possible answer (needs --max-new)",
     .must = true},
    {.name = "factor",
     .unit = "1",
     .help = "Penalty of the longest possible answer. Default 1.",
     .value = "X",
     .what = "penalty of the longest possible answer (default 1)"},
    {.name = NULL}};

const tri_reward tri_reward_length = {.name = "length",
                                      .help = "DAPO's overlong shaping, a penalty near the longest answer",
                                      .values = "0 to -factor",
                                      .best = 0,
                                      .field = length_field,
                                      .check = length_check,
                                      .open = length_open,
                                      .score = length_score,
                                      .close = length_close};
