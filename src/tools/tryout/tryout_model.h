/* tryout_model.h - loads the reward model of a deck to score saved answers. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRYOUT_MODEL_H
#define TRI_TRYOUT_MODEL_H

#include "config/config.h"
#include "tools/infer/infer.h"

/* Zero-initialise it. */
typedef struct tri_tryout_model {
  tri_infer infer;
  bool      open;
  int64_t   max_tokens; /* tokens of one forward pass */
} tri_tryout_model;

/* This process must be the only rank, else TRI_EARG. Loads the model at `path` for the answers a [n], in the
 * deck's type. The model must have a scalar head. Returns TRI_EINPUT if the model's context is too short, or
 * if an answer has no tokens because the deck's own model cannot be read. */
TRI_CHECKED tri_status tri_tryout_model_open(tri_tryout_model *m, const tri_config *c, const char *path,
                                             const tri_answer *a, int n);
/* Not collective, may not return (tri_infer_leave). `st` is the status of the work. */
void tri_tryout_model_close(tri_tryout_model *m, tri_status st);
/* Serves as tri_reward_env.judge, with the model as ctx. Scores answers as in a run (src/train/judge.c). */
TRI_CHECKED tri_status tri_tryout_model_score(void *model, const tri_answer *a, int n, float *score);

#endif
