/* reward_model.c - model: the score of the run's reward model with a scalar head. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward.h"

#include <math.h>

/* The scoring function of the run. */
typedef struct model {
  tri_status (*judge)(void *ctx, const tri_answer *a, int n, float *score);
  void *ctx;
} model;

static tri_status model_check(const tri_reward_opt *o, const tri_reward_env *env, const char **field) {
  (void)o;
  *field = "path";
  if (env && env->judge) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "a reward model needs a deck, in its reward list. `trireme score` scores texts with it");
}

static tri_status model_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  const char *field;
  model      *m;

  TRI_TRY(model_check(o, env, &field));
  TRI_TRY(TRI_ALLOC(m, 1));
  *m = (model){env->judge, env->judge_ctx};
  *state = m;
  return TRI_OK;
}

static tri_status model_score(void *state, const tri_answer *a, int n, float *score) {
  const model *m = state;

  return m->judge(m->ctx, a, n, score);
}

static void model_close(void **state) { tri_host_free(state); }

static const tri_reward_field fields[] = {
    {.name = "path",
     .unit = "path",
     .help = "Model with a scalar head. A Hugging Face folder (...ForSequenceClassification), checkpoint or "
             "output folder.",
     .value = "FOLDER",
     .what = "a model with a scalar head",
     .must = true},
    {.name = NULL}};

const tri_reward tri_reward_model = {.name = "model",
                                     .help = "score of a reward model for prompt and answer",
                                     .values = "any number",
                                     .best = INFINITY,
                                     .needs = TRI_REWARD_COLLECTIVE,
                                     .field = fields,
                                     .check = model_check,
                                     .open = model_open,
                                     .score = model_score,
                                     .close = model_close};
