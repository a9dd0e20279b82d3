/* tryout_model.h - the reward model of a deck, loaded to score saved answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRYOUT_MODEL_H
#define TRI_TRYOUT_MODEL_H

#include "config/config.h"
#include "tools/infer/infer.h"

/* Zero-initialise. */
typedef struct tri_tryout_model {
  tri_infer infer;
  bool      open;
  int64_t   max_tokens; /* of one forward */
} tri_tryout_model;

/* Not collective: this process is the only rank; under a launcher of several TRI_EARG. Loads the model at
 * path, which has a scalar head, in the deck's type, for these answers [n]. TRI_EINPUT: an answer has no
 * tokens, because the deck's own model is not there, or the model's context is shorter. */
TRI_CHECKED tri_status tri_tryout_model_open(tri_tryout_model *m, const tri_config *c, const char *path,
                                             const tri_answer *a, int n);
/* Not collective; may not return (tri_infer_leave). st: how the work ended. */
void tri_tryout_model_close(tri_tryout_model *m, tri_status st);
/* Not collective. tri_reward_env.judge, ctx: the model. As the run scores them (src/train/judge.c). */
TRI_CHECKED tri_status tri_tryout_model_score(void *model, const tri_answer *a, int n, float *score);

#endif
