/* train.h - holds the state of a training run, and declares its loop. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_H
#define TRI_TRAIN_H

#include "algo/algo.h"
#include "comm/session.h"
#include "config/batch_plan.h"
#include "config/config.h"
#include "staging/batch.h"
#include "generate/sampler.h"
#include "judge.h"
#include "learner.h"
#include "report/best.h"
#include "report/health.h"
#include "report/span.h"
#include "report/usage.h"
#include "reward/answers_file.h"
#include "reward/figures.h"
#include "run/pace.h"
#include "run/run.h"

struct tri_halt;
struct tri_batch_source;
struct tri_timeline;

/* A checkpoint written in the background while steps go on (checkpoint.async), and the removal of old
 * checkpoints. Used by save.c. */
typedef struct tri_saving {
  void            *space;    /* planned host memory for a copy of this rank's part of the state */
  size_t           bytes;    /* size of `space` */
  tri_ckpt_writer *w;        /* NULL if no checkpoint is being written */
  int64_t          step;     /* step of the checkpoint being written */
  tri_best         best;     /* its evaluation, if it is the best so far, else step -1 */
  double           copy_s;   /* seconds of copying */
  tri_ckpt_sweep  *sweep;    /* NULL if nothing is being removed */
  bool             given_up; /* every try to write a required checkpoint failed */
} tri_saving;

/* How far the run is. A checkpoint keeps the first five members, and a resumed run continues with them. */
typedef struct tri_progress {
  int64_t   step; /* last finished step */
  int64_t   failed_saves;
  int64_t   tokens;      /* tokens trained */
  int64_t   cursor;      /* data lines taken over all epochs, so the position of the next line */
  tri_adapt adapt;       /* state of the adaptive coefficients of t->opt */
  int64_t   first_step;  /* this process continues after this step */
  int64_t   saved_step;  /* step of the newest valid checkpoint in the run's folder, or -1 */
  double    start_s;     /* time of the start, by tri_now_s */
  double    last_save_s; /* time of the last save, by tri_now_s */
  double    waited_s;    /* seconds waited for other ranks, before the current step began */
  bool      eval_due;    /* an evaluation was interrupted, and the next start repeats it */
  bool      torn;        /* weights or update counters moved in a step that is not finished, so they belong to
                        * no step */
  bool      unwritten;   /* the evaluation after `step` has begun, and its metrics line is not written yet */
  tri_best  best;        /* evaluation of the checkpoint in checkpoints/BEST, by checkpoint.keep_best */
  tri_best  seen;        /* newest evaluation, by the same metric */
} tri_progress;

/* Consecutive lines of a data set, in the order of its files. */
typedef struct tri_eval_range {
  int64_t begin, n;
} tri_eval_range;

/* Held-out lines reported together. n is 0 in a range without lines. */
typedef struct tri_eval_set {
  const char    *name; /* borrowed from data.eval_names, or NULL if the deck names no sets and has only one */
  tri_eval_range prompts; /* lines in t->eval.data */
  tri_eval_range lines;   /* lines in t->eval.lines */
} tri_eval_set;

/* Inputs and memory of evaluations. */
typedef struct tri_evaluation {
  tri_dataset *data;  /* prompts to answer, or NULL if evaluations generate no answers */
  tri_dataset *lines; /* lines for the loss, or NULL if evaluations compute no loss */
  /* Host memory for the loss of lines, in the ledger. */
  double          *row;    /* [eval_lines_at_once, numbers of a line] results of lines */
  int64_t         *count;  /* [sequences of an evaluation] tokens with loss of each sequence */
  double          *of_all; /* [sequences of an evaluation] weight of each such token among all lines */
  double          *of_set; /* [sequences of an evaluation] weight of each such token in its set */
  tri_answers_file file;   /* on rank 0, answers of the current evaluation, with eval.save */
  const char      *path;   /* borrowed. Unless NULL, answers go to this file instead of OUTPUT/eval. */
} tri_evaluation;

/* Counts and lengths of the run. inputs.c and trainer.c set them once the inputs are open. */
typedef struct tri_step_plan {
  tri_batch_plan batch;
  int64_t        steps;
  int64_t        samples;      /* samples of one step, over all ranks */
  int64_t        mini_batches; /* optimizer steps in one pass over these samples */
  int64_t        max_tokens;   /* longest sequence */
  /* Factors of longrope, for all models that have it. AUTO if the policy has no
   * longrope. Then each model chooses for itself. */
  tri_rope_factors rope_factors;
  int64_t          eval_prompts;       /* prompts of an evaluation */
  int64_t          eval_at_once;       /* prompts answered together, over all ranks */
  int64_t          eval_lines;         /* lines for the loss in an evaluation */
  int64_t          eval_lines_at_once; /* lines evaluated together, over all ranks */
  int              n_eval;             /* number of evaluation sets */
  tri_eval_set     eval[TRI_CONFIG_EVAL_SETS];
  int64_t packed;     /* most tokens of a micro-batch, or 0 if micro-batches have a fixed number of samples */
  bool    by_default; /* the deck does not set `packed`, so available memory decides it */
  int64_t pass_tokens;       /* most tokens of one forward pass of a rank */
  int64_t decode;            /* most answers decoded at once on a rank */
  int64_t decode_full;       /* answers of full length that its cache holds, at most `decode` */
  int64_t cached;            /* tokens in its cache */
  int64_t states;            /* states of recurrent layers in its cache, or 0 */
  int64_t state_bytes;       /* bytes of one of them, in all layers */
  int64_t cache_spare_bytes; /* bytes of the cache beyond those of one answer with its prompt */
  bool    cache_is_least;    /* the cache takes more memory than is left, because it holds just one answer */
  tri_split_opt split;       /* how this rank splits the step's first mini-batch */
  bool          on_paper;    /* in a pretended session. Prompts and weights need not exist. */
  bool evaluates; /* only evaluates a checkpoint. Nothing learns, and nothing is written to run.output. */
  const struct tri_trainer *like; /* borrowed. This trainer lends data and rewards. NULL to open new ones. */
} tri_step_plan;

/* How the run samples answers and computes log-probabilities. */
typedef struct tri_sampling {
  tri_sampler      *sampler; /* NULL if this run generates nothing */
  tri_generate_opt  step, eval;
  tri_stop_rule     stop_rule;
  int               mode;            /* run.sampler, or TRI_CONFIG_RESCORE if exact is not possible */
  float             inv_temperature; /* scales logits in sampling and in the loss */
  tri_rollout_store kept;            /* a step selected from the answers in t->whole (rollout/select.h) */
  int64_t           failed;          /* unrewarded answers among all asked for in a selected step */
  tri_sampler_news  did;             /* sums of the step's generations on this rank: its counts alone */
  bool              said_filled;     /* the warning about a step with too few groups was given */
} tri_sampling;

/* State of screen.c between rows. */
typedef struct tri_screen {
  double  score, rate; /* last step's, for the live line. NaN before the first step. */
  double  loop_s;      /* start time of the first step, or 0 if unknown */
  int64_t answers;     /* finished answers shown by the live line, or -1 if it shows none */
  int     rows;        /* rows since the header */
  bool    gap;         /* shows the column of the sampler's gap, as the gap was not 0 once */
  char    row[160];    /* row of the last finished step until it is shown, then "" */
} tri_screen;

/* All parts of a run. trainer.c opens and closes them, and the loop borrows them. An unused role has neither
 * source nor model. */
typedef struct tri_trainer {
  const tri_config *cfg;
  tri_session      *se;
  tri_run           run;
  tri_step_plan     plan;
  tri_progress      progress;

  /* Models, losses and data. */
  tri_learner                    learner[TRI_ROLE_COUNT];
  tri_workspace                  workspace; /* of the models */
  const tri_algo                *algo;
  tri_algo_opt                   opt; /* the deck's options, with the current adaptive coefficients */
  const struct tri_batch_source *source;
  tri_dataset                   *data; /* NULL if the deck names no training data */
  tri_source_conversation
               conversation; /* chat template. Its date stays NULL unless the template writes it. */
  tri_staging *staging;

  /* Answers and their rewards. */
  tri_sampling      sampling;
  tri_judge         judge;
  tri_reward_set   *reward;    /* NULL if the deck names no rewards */
  tri_rollout_store whole;     /* sequences of a step or of an evaluation, never of both */
  tri_rollout_store mine;      /* answers of this rank before the exchange */
  double           *token_sum; /* host [tokens of a step], for sums over ranks, or NULL if not needed */
  tri_evaluation    eval;

  /* Checkpoints. */
  tri_saving  saving;
  tri_sidecar sidecar;    /* rank 0 has the bytes */
  tri_text    multimodal; /* TRI_SOURCE_MULTIMODAL_FILE, on rank 0; empty without a multimodal folder */

  /* Reports, and the end of the run. */
  tri_metrics         *metrics;
  tri_spans            spans;
  struct tri_timeline *timeline; /* NULL unless run.trace_steps > 0 */
  struct tri_runlog   *runlog;   /* borrowed, or NULL if no event is written */
  tri_health           health;
  tri_usage            usage;
  tri_screen           screen;
  tri_pace             pace; /* rank 0's measured durations count, all else is the same on every rank */
  struct tri_halt     *halt;
} tri_trainer;

static inline tri_comm *tri_world_of(const tri_trainer *t) { return t->se->comm[TRI_WORLD]; }
/* Returns the ranks that generate as one model. 1 if the run does not generate. */
static inline int tri_ranks_of_model(const tri_trainer *t) {
  return t->sampling.sampler ? t->se->place.tensor : 1;
}
/* Not collective. Splits mini-batch m of a step into this rank's micro-batches. Numbers from mini_batches on
 * mean the sequences beside the step (tri_batch_source). */
TRI_CHECKED static inline tri_status tri_step_split(const tri_trainer *t, const tri_rollout *r, int64_t m,
                                                    tri_split *out) {
  tri_split_opt o = t->plan.split;

  o.begin = (int)m * o.n;
  return tri_split_make(r, &o, out);
}
/* True if this run learns from rewarded answers. Otherwise it learns from given lines. */
static inline bool tri_has_answers(const tri_trainer *t) { return t->algo->needs & TRI_NEEDS_ANSWERS; }

/* True if evaluations of this run generate answers and reward them. */
static inline bool tri_evaluates_answers(const tri_trainer *t) {
  return tri_has_answers(t) || t->cfg->reward.n > 0;
}

/* True if the run has a reference, either a model of its own or the policy without its adapters. Valid once
 * the sources are open. */
static inline bool tri_has_reference(const tri_trainer *t) {
  return t->learner[TRI_REFERENCE].source || tri_config_reference_is_base(t->cfg);
}

/* True if advantages come from a critic's values. Valid once the sources are open. */
static inline bool tri_has_critic(const tri_trainer *t) { return t->learner[TRI_CRITIC].source; }

/* How a run without an error ends, with its exit code. TRI_TRAIN_IN_VAIN: time ran out before this process
 * finished a step, although at least half of the allocation was left when the process began. Another
 * allocation of the same length would be wasted too, so the job must not be requeued. */
typedef enum {
  TRI_TRAIN_FINISHED,        /* exit code 0, all steps are done */
  TRI_TRAIN_STOPPED,         /* 75, unfinished, to be requeued */
  TRI_TRAIN_STOPPED_BY_FILE, /* 75, stopped by OUTPUT/STOP, not to be requeued */
  TRI_TRAIN_IN_VAIN          /* 69, the allocation is too short for one step */
} tri_train_end;
/* Collective over world. Runs steps progress.step + 1 .. plan.steps.
 *
 * After an error, the last whole step is saved if this process made it and it has no checkpoint although it
 * should have one (after_error.c). Saving is collective, so all ranks must have failed. No rank's error may
 * put the weights in doubt, as TRI_ECOMM, TRI_EDEVICE, TRI_ENUMERIC and TRI_EINTERNAL do. The failed step
 * must not be torn (progress.torn). The run must not end because a required checkpoint could not be written.
 * The error is returned in any case. */
TRI_CHECKED tri_status tri_train(tri_trainer *t, tri_train_end *end);

/* Collective over world. Opens all that the deck asks for, and loads or resumes the state. runlog may be NULL
 * and is borrowed as out->runlog. Close *out after a failure too. */
TRI_CHECKED tri_status tri_trainer_open(const tri_config *cfg, tri_session *se, struct tri_runlog *runlog,
                                        tri_trainer *out);
/* Collective over world. Opens only the inputs of evaluations, with the weights of `checkpoint`, a folder of
 * the same run. Touches nothing in run.output. The deck must have eval.steps above 0. Close *out after a
 * failure too. */
TRI_CHECKED tri_status tri_trainer_open_to_evaluate(const tri_config *cfg, tri_session *se,
                                                    const char *checkpoint, tri_trainer *out);
/* Closes all parts, also of a half-opened or zeroed trainer. The session and its memory stay open. */
void tri_trainer_close(tri_trainer *t);
/* Collective over world. Does the first half of tri_trainer_open: opens everything and plans the memory, but
 * takes none. In a pretended session it writes nothing. If `errors` is not NULL, all errors are added to it,
 * and the rest is only opened if there is none. Close *out too. */
TRI_CHECKED tri_status tri_trainer_plan(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                        tri_trainer *out);

/* Not collective, in a pretended session. For a deck whose keys already have errors, listed in `errors`. Adds
 * the errors of its rewards, models and data. *t can only be closed afterwards. */
TRI_CHECKED tri_status tri_trainer_look(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                        tri_trainer *t);

/* Not collective, in a pretended session. Plans as tri_trainer_plan does, but weights, tokenizers and data
 * need not exist yet. Missing lines count as long as the deck and models allow. plan.steps is 0 if only the
 * data could give it. Errors are reported as by --check. `like` is NULL or a trainer planned this way from a
 * deck with the same data and rewards. *out borrows them from `like`, so `like` must outlive *out. */
TRI_CHECKED tri_status tri_trainer_plan_on_paper(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                                 const tri_trainer *like, tri_trainer *out);

#endif
