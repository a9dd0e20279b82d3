/* train.h - a training run: its state, the loop, and how it is opened and closed. */
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

/* save.c's: a checkpoint that is written beside the steps (checkpoint.async), and old ones that go. */
typedef struct tri_saving {
  void            *space; /* planned host memory for a copy of this rank's part of the state */
  size_t           bytes; /* of it */
  tri_ckpt_writer *w;     /* NULL: none is under way */
  int64_t          step;  /* it is of */
  tri_best         best;  /* the evaluation for which it is written; step -1: for none */
  double           copy_s;
  tri_ckpt_sweep  *sweep;    /* NULL: nothing is being removed */
  bool             given_up; /* one that had to be written was tried as long as could be */
} tri_saving;

/* How far the run is. The first five are carried over to a resumed one. */
typedef struct tri_progress {
  int64_t   step; /* finished */
  int64_t   failed_saves;
  int64_t   tokens;                /* trained */
  int64_t   cursor;                /* lines of data taken, over all passes: the next one's position */
  tri_adapt adapt;                 /* of t->opt */
  int64_t  first_step, saved_step; /* the step this process began after; of the newest checkpoint in the run's
                                   * folder, -1: none that counts */
  double   start_s, last_save_s;   /* when, as tri_now_s */
  double   waited_s;               /* for other ranks, before the step that is under way */
  bool     eval_due;               /* an evaluation was given up, and its line waits for it */
  bool     torn;       /* some of a step's updates are done, and not all: the state is no step's */
  bool     unwritten;  /* the evaluation of step `step` failed before its line was written */
  tri_best best, seen; /* by checkpoint.keep_best: what checkpoints/BEST is of; the newest evaluation */
} tri_progress;

/* Neighbours of a data set: positions in the order of the files. */
typedef struct tri_eval_range {
  int64_t begin, n;
} tri_eval_range;

/* Held-out lines that are reported together. name: the deck's (data.eval_names, which it outlives); NULL: it
 * gives none, and all lines are one set. prompts: of t->eval.data; lines: of t->eval.lines; n 0: none. */
typedef struct tri_eval_set {
  const char    *name;
  tri_eval_range prompts, lines;
} tri_eval_set;

/* What evaluations read and write. */
typedef struct tri_evaluation {
  tri_dataset *data;  /* prompts to be answered; NULL: no evaluation makes answers */
  tri_dataset *lines; /* lines that the loss judges; NULL: it judges none */
  /* Host memory for the loss of lines, in the ledger: results of lines [eval_lines_at_once, numbers of a
   * line], each sequence's tokens with loss [sequences of an evaluation], and the weight of each of these
   * tokens among all lines and in its set [sequences of an evaluation]. */
  double          *row;
  int64_t         *count;
  double          *of_all, *of_set;
  tri_answers_file file; /* rank 0: the evaluation under way, with eval.save */
  const char      *path; /* borrowed: the file that replaces OUTPUT/eval, wanted or not; or NULL */
} tri_evaluation;

/* How many: settled when the inputs are known. */
typedef struct tri_step_plan {
  tri_batch_plan batch;
  int64_t steps, samples, mini_batches; /* samples: of one step, all ranks; updates of one pass over them */
  int64_t max_tokens;                   /* of one sequence */
  tri_rope_factors rope_factors; /* of all models with longrope; AUTO: the policy has none, each by itself */
  int64_t eval_prompts, eval_at_once; /* prompts of an evaluation; of them generated together, all ranks */
  int64_t eval_lines, eval_lines_at_once; /* lines that the loss judges; of them in one piece, all ranks */
  int     n_eval;                         /* sets that these are of, each asked about by itself */
  tri_eval_set  eval[TRI_CONFIG_EVAL_SETS];
  int64_t       packed;              /* tokens of a pass, by which samples are packed; 0: they are counted */
  bool          by_default;          /* packed is no number of the deck's: what memory holds */
  int64_t       pass_tokens, decode; /* of a rank, at most: tokens of a pass; answers decoded at once */
  tri_split_opt split;               /* of a step's first mini-batch, for this rank */
  bool          on_paper; /* in a pretended session: prompts and weights that are not there do not matter */
  bool evaluates; /* a checkpoint, and takes no step: nothing learns, nothing is written to run.output */
  const struct tri_trainer *like; /* borrowed: whose data and rewards this plan has too; NULL: its own */
} tri_step_plan;

/* How answers are made, and log-probabilities with them. */
typedef struct tri_sampling {
  tri_sampler      *sampler; /* NULL: this run generates nothing */
  tri_generate_opt  step, eval;
  tri_stop_rule     stop_rule;
  int               mode;            /* run.sampler; TRI_CONFIG_RESCORE where exact is not possible */
  float             inv_temperature; /* of log-probabilities, in sampling and in the loss */
  tri_rollout_store kept; /* for a step that is selected (rollout/select.h) from what t->whole has */
  int64_t failed;      /* answers of a selected step, and of those it was selected from, without a reward */
  bool    said_filled; /* that a step had too few groups to select from */
} tri_sampling;

/* What screen.c keeps between rows. */
typedef struct tri_screen {
  double  score, rate; /* of the step before, for the live line; NaN: none yet */
  double  loop_s;      /* when the first step began; 0: not known */
  int64_t answers;     /* finished, as the live line has it; -1: it does not */
  int     rows;        /* since the header */
  bool    gap;         /* the gap has a column: it was not 0 once */
  char    row[160];    /* of the last finished step, until it is shown; then "" */
} tri_screen;

/* Everything trainer.c opened. The loop borrows all of it and closes none of it. A role that this run does
 * without has no source and no model. */
typedef struct tri_trainer {
  const tri_config *cfg;
  tri_session      *se;
  tri_run           run;
  tri_step_plan     plan;
  tri_progress      progress;

  /* What learns, and from what. */
  tri_learner                    learner[TRI_ROLE_COUNT];
  const tri_algo                *algo;
  tri_algo_opt                   opt; /* the deck's; coefficients that adapt are as they are now */
  const struct tri_batch_source *source;
  tri_dataset                   *data; /* NULL: the deck names none */
  tri_source_conversation
               conversation; /* how conversations are written; date NULL until a template says it */
  tri_staging *staging;

  /* Answers and their rewards. */
  tri_sampling      sampling;
  tri_judge         judge;
  tri_reward_set   *reward;    /* NULL: the deck names none */
  tri_rollout_store whole;     /* for a step's sequences or an evaluation's, never both */
  tri_rollout_store mine;      /* for this rank's answers before the exchange */
  double           *token_sum; /* host [tokens of a step], of a sum over ranks; NULL: none is made */
  tri_evaluation    eval;

  /* Checkpoints. */
  tri_saving  saving;
  tri_sidecar sidecar; /* rank 0 has the bytes */

  /* What the run reports, and when it ends. */
  tri_metrics         *metrics;
  tri_spans            spans;
  struct tri_timeline *timeline; /* NULL unless run.trace_steps > 0 */
  struct tri_runlog   *runlog;   /* borrowed; NULL: no event is written */
  tri_health           health;
  tri_usage            usage;
  tri_screen           screen;
  tri_pace             pace; /* rank 0's counts */
  struct tri_halt     *halt;
} tri_trainer;

static inline tri_comm *tri_world_of(const tri_trainer *t) { return t->se->comm[TRI_WORLD]; }
/* Not collective. This rank's part of mini-batch m of a step; m + mini_batches: of the sequences beside it
 * (tri_batch_source). */
TRI_CHECKED static inline tri_status tri_step_split(const tri_trainer *t, const tri_rollout *r, int64_t m,
                                                    tri_split *out) {
  tri_split_opt o = t->plan.split;

  o.begin = (int)m * o.n;
  return tri_split_make(r, &o, out);
}
/* Does this run learn from rewarded answers? Else from demonstrations. */
static inline bool tri_has_answers(const tri_trainer *t) { return t->algo->needs & TRI_NEEDS_ANSWERS; }

/* Does an evaluation of this run make answers, to be rewarded? */
static inline bool tri_evaluates_answers(const tri_trainer *t) {
  return tri_has_answers(t) || t->cfg->reward.n > 0;
}

/* Is the policy compared with anything? With a model of its own, or with itself less its adapters. From when
 * the sources are open. */
static inline bool tri_has_reference(const tri_trainer *t) {
  return t->learner[TRI_REFERENCE].source || tri_config_reference_is_base(t->cfg);
}

/* Are advantages made of a critic's values? From when the sources are open. */
static inline bool tri_has_critic(const tri_trainer *t) { return t->learner[TRI_CRITIC].source; }

/* Exit code 0; 75: requeue me; 75, and whoever made OUTPUT/STOP does not want it requeued; 69: the allocation
 * ended before a step did, and the next one of that length would be spent in vain too. */
typedef enum {
  TRI_TRAIN_FINISHED,
  TRI_TRAIN_STOPPED,
  TRI_TRAIN_STOPPED_BY_FILE,
  TRI_TRAIN_IN_VAIN
} tri_train_end;
/* Collective over world. Runs steps progress.step + 1 .. plan.steps. */
TRI_CHECKED tri_status tri_train(tri_trainer *t, tri_train_end *end);

/* Collective over world. Opens everything the deck asks for and loads or resumes. runlog (may be
 * NULL) is borrowed as out->runlog. After a failure close too. */
TRI_CHECKED tri_status tri_trainer_open(const tri_config *cfg, tri_session *se, struct tri_runlog *runlog,
                                        tri_trainer *out);
/* Collective over world. Opens what evaluations of a run read, and no more, with the weights of a checkpoint
 * of it, whose folder is given; nothing of run.output is touched. The deck has eval.steps above 0. On failure
 * close too. */
TRI_CHECKED tri_status tri_trainer_open_to_evaluate(const tri_config *cfg, tri_session *se,
                                                    const char *checkpoint, tri_trainer *out);
/* Closes all that was opened, be it half of it; the session and its memory stay. Zeroed is legal. */
void tri_trainer_close(tri_trainer *t);
/* Collective over world. Its first half: everything is opened and the memory planned, none taken. In a
 * pretended session nothing is written; with `errors` (else NULL) all that is wrong is added there, and only
 * without any is all of it opened. Close too. */
TRI_CHECKED tri_status tri_trainer_plan(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                        tri_trainer *out);

/* Not collective, in a pretended session. Of a deck whose keys have errors, which are in `errors`: those of
 * its rewards, models and data are added. *t is to be closed, and of no other use. */
TRI_CHECKED tri_status tri_trainer_look(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                        tri_trainer *t);

/* Not collective, in a pretended session. The same of a run whose weights, tokenizers and data need not be
 * there yet: lines are then as long as the deck and the models allow, and plan.steps is 0 where only the data
 * could say it. Errors as in a check. like: NULL, or one made so from a deck that differs in how it is run
 * alone; its data and rewards, which are not opened again, must outlive *out. */
TRI_CHECKED tri_status tri_trainer_plan_on_paper(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                                 const tri_trainer *like, tri_trainer *out);

#endif
