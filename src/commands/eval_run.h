/* eval_run.h - trireme eval of a run: the evaluation that its deck describes, with flags in place of keys. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EVAL_RUN_H
#define TRI_EVAL_RUN_H

#include "config/config.h"
#include "tools/infer/infer.h"

/* The flags. NULL, TRI_EVAL_NOT_GIVEN: not given; of max_new and threads 0. */
enum { TRI_EVAL_NOT_GIVEN = -1 };
typedef struct tri_eval_request {
  const char            *data, *reward, *dtype, *base, *prompt_key, *answer_key, *output;
  int64_t                max_new, top_k, num, seed, max_prompts, threads;
  double                 temperature, top_p;
  bool                   json, help;
  tri_infer_conversation conversation;
} tri_eval_request;

/* A run whose evaluation is asked for. Zero-initialise, and tri_config_free its deck. */
typedef struct tri_eval_run {
  bool       found;
  tri_config cfg; /* the deck as used of the checkpoint in `folder` */
  char       folder[TRI_CKPT_PATH_BYTES];
} tri_eval_run;

/* Not collective. Whether `model` is a checkpoint, or the output of a run, whose deck can be read, and whose
 * evaluations can be had with these flags; with --data and --reward any model can be asked without its
 * deck. */
TRI_CHECKED tri_status tri_eval_find_run(const char *model, const tri_eval_request *q, tri_eval_run *out);
/* Collective over MPI_COMM_WORLD. reward: in place of the deck's rewards, borrowed; NULL: the deck's. */
TRI_CHECKED tri_status tri_eval_of_run(const char *model, const tri_eval_request *q,
                                       const tri_reward_opt *reward, tri_eval_run *run);

#endif
