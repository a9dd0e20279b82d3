/* learner.h - the models of a run by role: where they come from, how they train, what checkpoints keep. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LEARNER_H
#define TRI_LEARNER_H

#include "algo/algo.h"
#include "io/model/source_chat.h"
#include "model/model.h"
#include "state/optim.h"

struct tri_config;
struct tri_trainer;

/* POLICY: what the run is about; it generates, and is what commands find in a checkpoint. REFERENCE: the
 * policy that a KL term or a preference compares with. CRITIC: says what rewards are to be expected; learned
 * beside the policy. REWARD_MODEL: scores answers. */
typedef enum { TRI_POLICY, TRI_REFERENCE, TRI_CRITIC, TRI_REWARD_MODEL, TRI_ROLE_COUNT } tri_role;

typedef struct tri_learner {
  const char     *name;                   /* "policy": in the memory table and the trace */
  const char     *key;                    /* of the deck, whose value `path` is: "model.path" */
  const char     *group[TRI_STATE_COUNT]; /* where a checkpoint keeps each kind of state; NULL: it does not */
  const char     *prefix; /* of its metrics, and of its counters in a checkpoint: "", "critic_" */
  tri_shard_plan  plan;   /* who shares its weights, gradients and moments */
  tri_head_kind   head;
  bool            train, generates; /* generates: it is who answers */
  const tri_loss *loss;             /* what it learns by; NULL: it does not learn */
  const char     *loss_name;        /* of its metric: "loss" */
  /* Not collective. Opens `source`; leaves it NULL where this run has no such model. */
  tri_status (*open)(struct tri_trainer *t, struct tri_learner *l);
  char          path[TRI_CKPT_PATH_BYTES]; /* what the deck's key means; "": not asked for */
  tri_source   *source;                    /* owned, as model; NULL: this run has no such model */
  const char   *from;                      /* group of `source` its weights come from, "/model" */
  tri_model    *model;                     /* as source, once memory is planned */
  tri_optim_opt optim;
  tri_lr_opt    lr;
  int64_t       warmup_steps; /* the first steps of the run, in which its loss is computed but not learned */
  struct {                    /* over all of a resumed run */
    int64_t update,
        skipped;          /* optimizer steps, and of them those that a gradient that was not finite forbade */
    tri_loss_scale scale; /* of the next one */
  } counters;
  double grad_norm, learning_rate; /* of the last one */
  bool   watched;                  /* one of this process was looked at (state/first_update.h) */
} tri_learner;

/* Has this run such a model, and does it learn? */
static inline bool tri_learner_trains(const tri_learner *l) { return l->model && l->train; }
/* Does it learn in this step of the run? */
static inline bool tri_learner_learns(const tri_learner *l, int64_t step) {
  return tri_learner_trains(l) && step > l->warmup_steps;
}
/* What the learner trains and checkpoints keep: its adapters, where it has them, else its weights. */
static inline tri_params *tri_learner_params(const tri_learner *l) { return tri_model_trained(l->model); }
/* Does it keep an average of its weights? */
static inline bool tri_learner_averages(const tri_learner *l) {
  return tri_params_options(tri_learner_params(l))->ema_beta > 0;
}

/* How many numbers its weights are, without adapters; and what it trains. */
int64_t tri_learner_size(const tri_learner *l);
int64_t tri_learner_trained_size(const tri_learner *l);
/* Not collective. Do low-rank adapters learn in place of its weights? */
bool tri_learner_has_adapters(const struct tri_trainer *t, const tri_learner *l);
/* Not collective. Sets each role of t->learner: its constants, and what t->algo and the deck say of its
 * loss, learning rate and shard plan. */
void tri_learner_begin(struct tri_trainer *t);
/* Collective over world. Sets the paths that the deck's keys mean. A resumed run goes on without
 * model.ref_path where that is gone. Errors go to t->run.faults. */
TRI_CHECKED tri_status tri_learner_resolve(struct tri_trainer *t);
/* Not collective. Opens the sources of the learners that this run has; no weight is read. */
TRI_CHECKED tri_status tri_learner_open_sources(struct tri_trainer *t);
/* Not collective. The weights of a learner's loss, from counts over each sequence's whole mini-batch, all
 * ranks: *weight [r->n_seq], the caller's to TRI_FREE. */
TRI_CHECKED tri_status tri_learner_weigh(const struct tri_trainer *t, tri_role role, const tri_rollout *r,
                                         double **weight);
/* Closes what it owns; a zeroed one is legal. */
void tri_learner_close(tri_learner *l);

#endif
