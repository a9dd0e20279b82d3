/* train.h - a training run: what it has open, and who of this room does what with it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_H
#define TRI_TRAIN_H

#include "algo/algo.h"
#include "comm/session.h"
#include "config/batch_plan.h"
#include "config/config.h"
#include "feed/batch.h"
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

struct tri_gap;
struct tri_halt;
struct tri_longest;
struct tri_supply;
struct tri_timeline;

/* save.c's: a checkpoint that is written beside the steps (checkpoint.async), and old ones that go. */
typedef struct tri_saving {
  void            *room;  /* planned host memory for a copy of this rank's part of the state */
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
  tri_pace pace;                   /* rank 0's counts */
  tri_usage  usage;
  tri_saving saving;
  bool       eval_due;   /* an evaluation was given up, and its line waits for it */
  bool       torn;       /* some of a step's updates are done, and not all: the state is no step's */
  bool       unwritten;  /* the evaluation of step `step` failed before its line was written */
  tri_best   best, seen; /* by checkpoint.keep_best: what checkpoints/BEST is of; the newest evaluation */
} tri_progress;

/* Neighbours of a data set: positions in the order of the files. */
typedef struct tri_eval_range {
  int64_t begin, n;
} tri_eval_range;

/* Held-out lines that are reported together. name: the deck's (data.eval_names, which it outlives); NULL: it
 * gives none, and all lines are one set. prompts: of t->eval_data; lines: of t->eval_lines; n 0: none. */
typedef struct tri_eval_set {
  const char    *name;
  tri_eval_range prompts, lines;
} tri_eval_set;

/* The sums of an evaluation, over all lines or a set's, the same on every rank. figures, failures: by
 * answers; loss, metric: by the loss, whose metrics they are. */
typedef struct tri_eval_sum {
  tri_figures figures;
  int         failures;
  double      loss;
  tri_mean    metric[TRI_ALGO_METRICS];
} tri_eval_sum;

/* Host memory of an evaluation by the loss, in the ledger: results of lines, each sequence's tokens with
 * loss, and the weight of each of these among all lines and in its set. */
typedef struct tri_eval_room {
  double  *row;             /* [eval_lines_at_once, numbers of a line] */
  int64_t *count;           /* [sequences of an evaluation] */
  double  *of_all, *of_set; /* [sequences of an evaluation] */
} tri_eval_room;

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

/* How answers are made, and log-probabilities with them; and judged by a model. */
typedef struct tri_sampling {
  tri_sampler      *sampler; /* NULL: this run generates nothing */
  tri_generate_opt  step, eval;
  tri_stop_rule     stop_rule;
  int               mode;            /* run.sampler; TRI_CONFIG_RESCORE where exact is not possible */
  float             inv_temperature; /* of log-probabilities, in sampling and in the loss */
  tri_rollout_store kept; /* for a step that is selected (rollout/select.h) from what t->whole has */
  int64_t   failed;      /* answers of a selected step, and of those it was selected from, without a reward */
  bool      said_filled; /* that a step had too few groups to select from */
  tri_judge judge;
  tri_answers_file eval_file; /* rank 0: of the evaluation that is under way, with eval.save */
  const char      *eval_path; /* borrowed: where it goes in place of OUTPUT/eval, wanted or not; or NULL */
} tri_sampling;

/* What one step adds up over its micro-batches, for each learner. */
typedef struct tri_tally {
  double   began_s; /* the step */
  int64_t  updates; /* of each learner; without those of mini-batches that have no token with loss */
  int64_t  lost;    /* updates skipped for want of answers, of all learners */
  tri_mean entropy; /* of the update that goes on, nats; where a coefficient follows it */
  struct {
    double   loss;
    tri_mean metric[TRI_ALGO_METRICS];
  } of[TRI_ROLE_COUNT];
} tri_tally;

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
  const tri_config        *cfg;
  tri_session             *se;
  tri_run                  run;
  tri_progress             progress;
  tri_step_plan            plan;
  tri_learner              learner[TRI_ROLE_COUNT];
  const tri_algo          *algo;
  tri_algo_opt             opt; /* the deck's; coefficients that adapt are as they are now */
  const struct tri_supply *supply;
  tri_sampling             sampling;
  tri_feed                *feed;
  tri_dataset             *data;       /* NULL: the deck names none */
  tri_dataset             *eval_data;  /* prompts to be answered; NULL: no evaluation makes answers */
  tri_dataset             *eval_lines; /* lines that the loss judges; NULL: it judges none */
  tri_eval_room            eval_room;
  tri_reward_set          *reward;    /* NULL: the deck names none */
  tri_rollout_store        whole;     /* for a step's sequences or an evaluation's, never both */
  tri_rollout_store        mine;      /* for this rank's answers before the exchange */
  double                  *token_sum; /* host [tokens of a step], of a sum over ranks; NULL: none is made */
  tri_carried              carried;   /* rank 0 has the bytes */
  tri_source_talk          talk;      /* how conversations are written; date NULL until a template says it */
  tri_metrics             *metrics;
  struct tri_timeline     *timeline; /* NULL unless run.trace_steps > 0 */
  struct tri_runlog       *runlog;   /* borrowed; NULL: no event is written */
  tri_spans                spans;
  tri_health               health;
  struct tri_halt         *halt;
  tri_screen               screen;
} tri_trainer;

static inline tri_comm *tri_world_of(const tri_trainer *t) { return t->se->comm[TRI_WORLD]; }
/* Not collective. This rank's part of mini-batch m of a step; m + mini_batches: of the sequences beside it
 * (tri_supply). */
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

/* inputs.c. Collective over world. Opens rewards, sources of models and data, and plans steps and batches.
 * With t->run.faults each fault is added there, the rest is looked at too, and *l is set where none was
 * added. */
TRI_CHECKED tri_status tri_inputs_open(tri_trainer *t, struct tri_longest *l);
/* inputs.c. Not collective, in a pretended session, of a deck whose keys have faults (t->run.faults): faults
 * of rewards, models and data are added, as far as the keys they stand on were read. */
TRI_CHECKED tri_status tri_inputs_look(tri_trainer *t);
/* inputs.c. Collective over world. The same of evaluations alone, with t->run.resume: rewards, models and
 * held-out data. */
TRI_CHECKED tri_status tri_inputs_open_to_evaluate(tri_trainer *t, struct tri_longest *l);
/* inputs.c. Not collective. The batches again with passes of at most so many tokens. */
TRI_CHECKED tri_status tri_inputs_pack(tri_trainer *t, int64_t tokens);
/* inputs.c. Not collective. So many samples in sequences (supply.h). */
int64_t tri_sequences(const tri_trainer *t, int64_t samples);

/* trainer.c. Collective over world. Opens everything the deck asks for and loads or resumes. runlog (may be
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
 * pretended session nothing is written; with `faults` (else NULL) all that is wrong is added there, and only
 * without any is all of it opened. Close too. */
TRI_CHECKED tri_status tri_trainer_plan(const tri_config *cfg, tri_session *se, tri_faults *faults,
                                        tri_trainer *out);

/* Not collective, in a pretended session. Of a deck whose keys have faults, which are in `faults`: those of
 * its rewards, models and data are added. *t is to be closed, and of no other use. */
TRI_CHECKED tri_status tri_trainer_look(const tri_config *cfg, tri_session *se, tri_faults *faults,
                                        tri_trainer *t);

/* Not collective, in a pretended session. The same of a run whose weights, tokenizers and data need not be
 * there yet: lines are then as long as the deck and the models allow, and plan.steps is 0 where only the data
 * could say it. Faults as in a check. like: NULL, or one made so from a deck that differs in how it is run
 * alone; its data and rewards, which are not opened again, must outlive *out. */
TRI_CHECKED tri_status tri_trainer_plan_on_paper(const tri_config *cfg, tri_session *se, tri_faults *faults,
                                                 const tri_trainer *like, tri_trainer *out);

/* evaluate.c. Not collective, when the data is open. The sets of t->plan. TRI_EINPUT: one has no lines.
 * TRI_ECONFIG: checkpoint.keep_best names what evaluations here do not have. */
TRI_CHECKED tri_status tri_evaluate_plan(tri_trainer *t);
/* evaluate.c. Collective over world. Sums over held-out lines: what the loss says of them, and the rewards
 * and lengths of answers to held-out prompts; *all, and of_set [t->plan.n_eval]. Neither ranks nor batches
 * nor packing change a bit of them where none changes a model's numbers. Where the run is told to stop
 * meanwhile they are not whole, and t->progress.eval_due says so. */
TRI_CHECKED tri_status tri_evaluate_sum(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set);
/* evaluate.c. Not collective. The i-th number of an evaluation by its name, without a prefix; NULL: there are
 * no more. */
const char *tri_evaluate_number(const tri_trainer *t, const tri_eval_sum *sum, int i, double *value);
/* evaluate.c. Collective over world. These numbers into the metrics, of all lines and of each set that has a
 * name; nothing where t->progress.eval_due. */
TRI_CHECKED tri_status tri_evaluate(tri_trainer *t);
/* evaluate_lines.c. Not collective, when the sets are known. Plans t->eval_room. */
TRI_CHECKED tri_status tri_evaluate_lines_plan(tri_trainer *t);
/* evaluate_lines.c. Collective over world. What the loss says of t->eval_lines, added to sums as of
 * tri_evaluate_sum; less where the run is told to stop. */
TRI_CHECKED tri_status tri_evaluate_lines(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set);

/* report_step.c. Collective over world. Into the metrics: what the finished step learned, its rollout, time
 * and memory. The rollout becomes a file where rollout.save_every wants it. */
TRI_CHECKED tri_status tri_report_step(tri_trainer *t, tri_rollout *r, const tri_tally *sum,
                                       const struct tri_gap *gap);
/* Collective over world, all three; nothing without eval.save. The answers of an evaluation become a file:
 * all those put between begin and end, each set of prompts under its name (NULL: there is but one). Where the
 * evaluation is given up, tri_answers_file_drop(&t->sampling.eval_file). */
TRI_CHECKED tri_status tri_report_eval_begin(tri_trainer *t);
TRI_CHECKED tri_status tri_report_eval_put(tri_trainer *t, const tri_rollout *r, const char *set);
TRI_CHECKED tri_status tri_report_eval_end(tri_trainer *t);
/* Not collective. A step begins, for what the next call reports: waits, what communicators carry. */
void tri_report_begin(tri_trainer *t);
/* Not collective. Time since began_s, so many tokens, memory, what communicators carried. mem_gpu_used_bytes
 * is what the driver says: its own context and other programs' memory are in it. */
TRI_CHECKED tri_status tri_report_resources(tri_trainer *t, double began_s, int64_t tokens);
/* Collective over world. The step's metrics as its line and on the screen, with what warnings are due; again:
 * what was missing from the line. On a full disk it waits, and the run goes on. */
TRI_CHECKED tri_status tri_report_line(tri_trainer *t, int64_t step, bool again);
/* Not collective; rank 0. The output folder, as tri_run_check_folder; metrics follow it. */
TRI_CHECKED tri_status tri_report_folder(tri_trainer *t);
/* Not collective. Hands st back. Where a learner's loss of the loaded sequences `seq` of r is
 * TRI_ENUMERIC, right after its forward, its message begins with the layer and the sample. */
TRI_CHECKED tri_status tri_report_fault(tri_trainer *t, const tri_learner *l, const tri_rollout *r,
                                        const int *seq, const tri_batch *b, tri_status st);
/* Not collective. Adds what a learner's loss gave to *sum. */
void tri_tally_add(const tri_trainer *t, tri_tally *sum, tri_role role, const tri_loss_out *out);
/* Collective over world. An update is done: it is counted, and moves coefficients of t->opt where the policy
 * learned. */
TRI_CHECKED tri_status tri_tally_update(tri_trainer *t, tri_tally *sum);
/* Collective over world. Means of the further numbers that rewards replied since the last call, as
 * reward_<name>_<field> under `prefix`. */
TRI_CHECKED tri_status tri_report_extras(tri_trainer *t, const char *prefix);

/* save.c. Not collective, once the models' memory is planned. With checkpoint.async, memory for a copy of
 * what this rank saves. */
TRI_CHECKED tri_status tri_save_plan(tri_trainer *t);
/* Not collective, once the memory is planned. Bytes of a checkpoint: its tensors, and files that are copied
 * into it. */
TRI_CHECKED tri_status tri_save_bytes(tri_trainer *t, int64_t *bytes);
/* Collective over world, once all is planned; in a pretended session not collective. Whether checkpoints can
 * be written where the run will, by a trial that leaves nothing, and whether the disk has room for those that
 * will come. Nothing of a run that has no step to take. TRI_EFILE, TRI_EDEVICE. */
TRI_CHECKED tri_status tri_save_rehearse(tri_trainer *t);
/* Collective over world, after each step. A checkpoint of step progress.step where it is due: by count, by
 * time (rank 0's clock), or because the run stops here. Failure is reported and counted. With
 * checkpoint.async one that was written beside the steps is published, when every rank has written its part;
 * a new one and the end of the run wait for it. This process's first one and the last one are tried again
 * (run/patience.h); TRI_EFILE: they cannot be written. */
TRI_CHECKED tri_status tri_save_if_due(tri_trainer *t, bool stop);
/* checkpoint.keep_best, without which these three do nothing. Collective over world, when the metrics are
 * open: the best of the evaluations so far of which there is a checkpoint, which BEST names from here on; a
 * warning where it cannot. */
TRI_CHECKED tri_status tri_save_find_best(tri_trainer *t);
/* Not collective. The evaluation after step progress.step is done, and its metrics not yet written. */
void tri_save_see(tri_trainer *t);
/* Collective over world. A checkpoint of step progress.step if its evaluation is better than that of any
 * checkpoint; as tri_save_if_due, which does this too. */
TRI_CHECKED tri_status tri_save_if_best(tri_trainer *t);
/* Not collective. Waits until old checkpoints are removed; what stays is a warning. */
void tri_save_end_sweep(tri_trainer *t);
/* Collective over world. Publishes a checkpoint that is being written beside the steps, if there is one. */
TRI_CHECKED tri_status tri_save_settle(tri_trainer *t);
/* Not collective. What lets time pass between tries of a save, seconds: for tests; NULL: the clock. */
void tri_save_rest_by(void (*rest)(double s));

/* after_error.c. Collective over world, where every rank failed; of a rank that failed alone not collective.
 * The run ends with this error: where the weights are those of a finished step, its checkpoint is written
 * first. Where a reward failed, OUTPUT/OUTAGE says so. Hands st back, with its message. */
TRI_CHECKED tri_status tri_save_after_error(tri_trainer *t, tri_status st);

/* state.c. Collective over world. What a checkpoint has beside its tensors: counters and files. */
TRI_CHECKED tri_status tri_state_put(tri_trainer *t, tri_ckpt_writer *w);
/* Not collective. Bytes of these files at most; rank 0 knows. */
int64_t tri_state_side_bytes(const tri_trainer *t);
/* Pure. Has a checkpoint this kind of a learner's state? group: the learner's. */
bool tri_state_keeps(const tri_params *p, const char *const *group, int kind);
/* Collective over world. Every learner's weights from its source; where the run goes on from a checkpoint,
 * all other state from there. */
TRI_CHECKED tri_status tri_state_load(tri_trainer *t);

/* state.c. Collective over world. Every learner's weights alone, those of a checkpoint; t->progress.step is
 * the step it was written after. */
TRI_CHECKED tri_status tri_state_load_weights(tri_trainer *t);

/* train_record.c. Collective over world. Rank 0's record (record/record.h), borrowed while checkpoints are
 * written, is put into log.txt, and with the plan into t->runlog as its start; where the run goes on from a
 * checkpoint with another one, a warning says what differs. */
TRI_CHECKED tri_status tri_train_record(tri_trainer *t, const char *record);
/* train_record.c. Not collective: why the run is about to stop, into t->runlog. */
void tri_train_note_halt(const tri_trainer *t);
/* train_record.c. Not collective, of any rank: how the run ends, into t->runlog. st: its error, whose message
 * and trace stand, or TRI_OK. together: every rank ends so; else this one alone. */
void tri_train_note_end(const tri_trainer *t, tri_train_end end, tri_status st, int exit_code, bool together);

/* screen_start.c. Collective over world. Rank 0 prints, here and below, no line or row wider than
 * TRI_SCREEN_COLUMNS but where a path is longer. */
TRI_CHECKED tri_status tri_screen_start(tri_trainer *t);
/* Not collective. Its last part. */
TRI_CHECKED tri_status tri_screen_plan(const tri_trainer *t);
/* screen_start.c. Not collective. Appends what is minimised, in one line. */
TRI_CHECKED tri_status tri_screen_loss(const tri_trainer *t, tri_text *out);
/* screen_start.c. Not collective. Hands out back: the text visible, and at most `width` columns of it. */
const char *tri_screen_shown(const char *text, int width, char out[TRI_CKPT_PATH_BYTES]);
/* screen.c. Not collective, all that follow. The live line. */
void tri_screen_phase(tri_trainer *t, const char *phase);
/* The same with the answers finished, redrawn for each hundredth of all. On several ranks how many are
 * finished is estimated from rank 0's share of them, and marked with ~. */
void tri_screen_answers(tri_trainer *t, const char *phase, int64_t done, int64_t all);
void tri_screen_step(tri_trainer *t, int64_t step); /* a row, if one is due */
void tri_screen_halt(tri_trainer *t, int64_t step); /* why step is the last; its row, if not yet shown */
void tri_screen_idle(const tri_trainer *t, int64_t done); /* no step is left to take */
/* Collective over world. What became of the run, what it used and carried, where everything lies. */
TRI_CHECKED tri_status tri_screen_end(const tri_trainer *t, tri_train_end end);

#endif
