/* train.h - the loop: generate, score, learn. */
#ifndef TRI_TRAIN_H
#define TRI_TRAIN_H

#include "algo/algo.h"
#include "batch.h"
#include "comm/halt.h"
#include "comm/session.h"
#include "config/batch_plan.h"
#include "config/config.h"
#include "generate/sampler.h"
#include "io/model/source.h"
#include "report/health.h"
#include "report/metrics.h"
#include "report/timeline.h"
#include "reward/answers.h"
#include "state/optim.h"

/* All there is to carry over to a resumed run. */
typedef struct tri_counters {
  int64_t step;          /* finished */
  int64_t update;        /* optimizer steps taken or skipped */
  int64_t skipped_steps; /* optimizer steps left out because the gradient was not finite */
  int64_t failed_saves;
  int64_t tokens; /* trained */
  int64_t cursor; /* lines of data taken, over all passes: the next one's position */
} tri_counters;

/* What screen.c keeps between rows. */
typedef struct tri_screen {
  double  score, rate; /* of the step before, for the live line; NaN: none yet */
  double  loop_s;      /* when the first step began; 0: not known */
  int64_t answers;     /* finished, as the live line has it; -1: it does not */
  int     rows;        /* since the header */
  bool    gap;         /* the gap has a column: it was not 0 once */
  char    row[160];    /* of the last finished step, until it is shown; then "" */
} tri_screen;

/* Everything trainer.c opened. The loop borrows all of it and closes none of it. */
typedef struct tri_trainer {
  const tri_config *cfg;
  tri_session      *se;
  tri_source       *source, *ref_source; /* the starting policy; the reference, NULL unless kl_coef > 0 */
  tri_model        *policy, *ref;
  tri_sampler      *sampler;
  tri_feed         *feed;
  tri_dataset      *data, *eval_data;
  const tri_algo   *algo;
  bool              ref_resumed; /* ref_source is the checkpoint resumed from, whose /reference counts */
  tri_reward_set   *reward;
  tri_metrics      *metrics;
  tri_timeline     *timeline; /* NULL unless run.trace_steps > 0 */
  tri_batch_plan    batch;
  tri_lr_opt        lr;
  tri_generate_opt  gen, eval_gen;
  tri_stop_rule     stop_rule;
  int64_t steps, samples, mini_batches; /* samples: of one step, all ranks; updates of one pass over them */
  int64_t max_tokens;                   /* of one sequence, as planned */
  int64_t eval_prompts, eval_at_once;   /* prompts of an evaluation; of them generated together, all ranks */
  tri_rollout_store whole; /* for a step's sequences, or an evaluation's answers, which comes between steps */
  tri_rollout_store mine;  /* for this rank's answers before the exchange */
  double           *token_sum; /* host; where log-probabilities of tokens are added up over ranks, or NULL */
  int               sampler_mode;    /* run.sampler; TRI_CONFIG_RESCORE where exact is not possible */
  float             inv_temperature; /* of log-probabilities, in sampling and in the loss */
  tri_health        health;
  tri_counters      count;
  tri_halt         *halt;
  tri_carried       carried; /* rank 0 has the bytes */
  double            start_s, last_save_s;
  int64_t           saved_step; /* of the newest checkpoint in folder; -1: none that counts */
  int64_t           first_step; /* the step this process began after */
  char              folder[TRI_CKPT_PATH_BYTES]; /* OUTPUT/checkpoints */
  char              resume[TRI_CKPT_PATH_BYTES]; /* the checkpoint this run goes on from; "": none */
  char        model[TRI_CKPT_PATH_BYTES]; /* what model.path and model.ref_path mean; "": not asked for */
  char        ref_model[TRI_CKPT_PATH_BYTES];
  tri_text    deck;        /* as used */
  tri_text    deck_before; /* rank 0: that of the checkpoint, where the one as used differs; else empty */
  int64_t     data_lines, data_hash; /* of data.train, 0 without it */
  int         lock;                  /* rank 0: descriptor of the locked output folder, or -1 */
  tri_faults *faults;                /* borrowed; of a check, else NULL */
  bool        eval_due;              /* an evaluation was given up, and its line waits for it */
  tri_screen  screen;                /* what it remembers */
} tri_trainer;

/* Exit code 0; 75: requeue me; 75, and whoever made OUTPUT/STOP does not want it requeued. */
typedef enum { TRI_TRAIN_FINISHED, TRI_TRAIN_STOPPED, TRI_TRAIN_STOPPED_BY_FILE } tri_train_end;
/* Collective over world. Runs steps count.step + 1 .. steps. */
TRI_CHECKED tri_status tri_train(tri_trainer *t, tri_train_end *end);

extern const char *const tri_train_devices[]; /* trainer.c: the words of tri_config_device */

/* inputs.c. The longest sequence that is learned from and the longest prompt answered, in tokens. */
typedef struct tri_longest {
  int64_t learn, prompt;
} tri_longest;
/* Collective over world. Opens rewards, model, reference and data, and plans steps and batches. With
 * t->faults each fault is added there, the rest is looked at too, and *l is set where none was added. */
TRI_CHECKED tri_status tri_inputs_open(tri_trainer *t, tri_longest *l);

/* trainer.c. Collective over world. Opens everything the deck asks for and loads or resumes. On failure close
 * too. */
TRI_CHECKED tri_status tri_trainer_open(const tri_config *cfg, tri_session *se, tri_trainer *out);
void                   tri_trainer_close(tri_trainer *t);
/* Collective over world. Its first half: everything is opened and the memory planned, none taken. In a
 * pretended session nothing is written; with `faults` (else NULL) all that is wrong is added there, and only
 * without any is all of it opened. Close too. */
TRI_CHECKED tri_status tri_trainer_plan(const tri_config *cfg, tri_session *se, tri_faults *faults,
                                        tri_trainer *out);

/* collect.c. Collective over world. One step's sequences on every rank: generated and rewarded, replayed, or
 * SFT's. Where the run is told to stop while it generates: none, and tri_halt_decided says so. */
TRI_CHECKED tri_status tri_collect(tri_trainer *t, int64_t step, tri_rollout *out);
/* Whether rollout.save_every wants this step's rollout; the same on every rank. */
bool tri_collect_due(const tri_trainer *t, int64_t step);
/* Collective over world. Rank 0 writes the step's rollout. */
TRI_CHECKED tri_status tri_collect_save(tri_trainer *t, int64_t step, const tri_rollout *r);
/* Collective over world. Held-out prompts: reward, pass@1 and length into the metrics. Where the run is told
 * to stop meanwhile, nothing, and t->eval_due says so. */
TRI_CHECKED tri_status tri_evaluate(tri_trainer *t);

/* report.c. Not collective: numbers of the whole rollout, which every rank holds, into the metrics. */
void tri_report_rollout(tri_trainer *t, const tri_rollout *r);
/* Not collective. Time since began_s, so many tokens, memory. mem_gpu_used_bytes is what the driver says: its
 * own context and other programs' memory are in it. */
TRI_CHECKED tri_status tri_report_resources(tri_trainer *t, double began_s, int64_t tokens);

/* state.c. Collective over world. A checkpoint of step count.step. Failure is reported and counted, *saved
 * false. */
TRI_CHECKED tri_status tri_state_save(tri_trainer *t, bool *saved);
/* Collective over world. Sets t->resume to the checkpoint that run.resume means, every byte of it verified.
 */
TRI_CHECKED tri_status tri_state_find(tri_trainer *t);
/* Not collective. The same without any change to the folder; and whether it could be written. Adds to
 * t->faults. */
TRI_CHECKED tri_status tri_state_look(tri_trainer *t);
/* Collective over world, after tri_inputs_open. TRI_ECONFIG where a model, a replay or data is one of the
 * files that a run which starts anew in an older one's folder sets aside first. */
TRI_CHECKED tri_status tri_state_check_aside(tri_trainer *t);
/* Not collective. Does the path lie in what a run that starts anew in run.output sets aside? */
bool tri_state_would_move(const tri_config *c, const char *path);
/* Collective over world. Weights from the source, and all other state where the source is the checkpoint to
 * resume. */
TRI_CHECKED tri_status tri_state_load(tri_trainer *t);

/* resume.c. Collective over world. Compares a resumed run with its checkpoint: the algorithm, the deck as
 * used `now`, the lines of data.train. TRI_ECONFIG with all that differs and must not; the rest is listed. */
TRI_CHECKED tri_status tri_resume_compare(tri_trainer *t, const tri_config *now);
/* Not collective. The deck.step-NNNNNNNN.yaml of steps above `after` in the folder get a suffix, or go
 * (NULL). */
TRI_CHECKED tri_status tri_resume_move_decks(const char *folder, int64_t after, const char *suffix);
/* Not collective. Whether there are any of them; none where there is no folder. TRI_EFILE: it cannot be
 * read. */
TRI_CHECKED tri_status tri_resume_has_decks(const char *folder, bool *has);

/* screen.c. Rank 0 prints, no line or row wider than TRI_SCREEN_COLUMNS but where a path is longer. */
TRI_CHECKED tri_status tri_screen_start(tri_trainer *t);      /* Collective over world */
TRI_CHECKED tri_status tri_screen_plan(const tri_trainer *t); /* its last part; not collective */
void                   tri_screen_phase(tri_trainer *t, const char *phase); /* the live line */
/* The same with the answers finished, redrawn for each hundredth of all. On several ranks how many are
 * finished is estimated from rank 0's share of them, and marked with ~. */
void tri_screen_answers(tri_trainer *t, const char *phase, int64_t done, int64_t all);
void tri_screen_step(tri_trainer *t, int64_t step); /* a row, if one is due */
void tri_screen_halt(tri_trainer *t, int64_t step); /* why step is the last; its row, if not yet shown */
void tri_screen_idle(const tri_trainer *t, int64_t done); /* no step is left to take */
void tri_screen_end(const tri_trainer *t, tri_train_end end);

#endif
