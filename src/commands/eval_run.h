/* eval_run.h - trireme eval of a run: runs the evaluation of its deck, with flags in place of keys. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EVAL_RUN_H
#define TRI_EVAL_RUN_H

#include "config/config.h"
#include "tools/infer/infer.h"

/* The flags. One that was not given is NULL or TRI_EVAL_NOT_GIVEN, max_new, threads and tensor are 0. */
enum { TRI_EVAL_NOT_GIVEN = -1 };
typedef struct tri_eval_request {
  const char            *data, *reward, *dtype, *base, *prompt_key, *answer_key, *output;
  int64_t                max_new, top_k, num, seed, max_prompts, threads, tensor;
  double                 temperature, top_p;
  bool                   json, help;
  tri_infer_conversation conversation;
} tri_eval_request;

/* A run to evaluate. Zero-initialise it, and free its deck with tri_config_free. */
typedef struct tri_eval_run {
  bool       found;
  tri_config cfg; /* the deck saved in the checkpoint `folder` */
  char       folder[TRI_CKPT_PATH_BYTES];
} tri_eval_run;

/* Not collective. Sets out->found if `model` is a checkpoint or the output of a run, its deck can be read,
 * and the flags fit its evaluations. With both --data and --reward an unreadable deck is no error, because
 * these flags suffice for any model. */
TRI_CHECKED tri_status tri_eval_find_run(const char *model, const tri_eval_request *q, tri_eval_run *out);
/* Collective over MPI_COMM_WORLD. `reward` replaces the deck's rewards and is borrowed. NULL keeps those of
 * the deck. */
TRI_CHECKED tri_status tri_eval_of_run(const char *model, const tri_eval_request *q,
                                       const tri_reward_opt *reward, tri_eval_run *run);

#endif
