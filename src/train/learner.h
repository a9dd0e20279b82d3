/* learner.h - the models of a run, each with its role, its training options and its parts of a checkpoint. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LEARNER_H
#define TRI_LEARNER_H

#include "algo/algo.h"
#include "io/model/source_chat.h"
#include "model/model.h"
#include "state/optim.h"

struct tri_config;
struct tri_trainer;

/* Roles of models. The POLICY generates and is trained, and commands use it when they are given a checkpoint.
 * A KL term or a preference loss compares the policy with the REFERENCE. The CRITIC predicts rewards and is
 * trained beside the policy. The REWARD_MODEL scores answers. */
typedef enum { TRI_POLICY, TRI_REFERENCE, TRI_CRITIC, TRI_REWARD_MODEL, TRI_ROLE_COUNT } tri_role;

typedef struct tri_learner {
  const char     *name;                   /* "policy", in the memory table and the trace */
  const char     *key;                    /* key of the deck for `path`, such as "model.path" */
  const char     *group[TRI_STATE_COUNT]; /* checkpoint group of each kind of state, or NULL if not kept */
  const char     *prefix;                 /* begins names of its metrics and counters, "" or "critic_" */
  tri_shard_plan  plan;                   /* sharing of its weights, gradients and moments among ranks */
  tri_head_kind   head;
  bool            train, generates; /* generates: this model writes the answers */
  const tri_loss *loss;             /* training loss, or NULL if the model does not learn */
  const char     *loss_name;        /* name of the loss as a metric, such as "loss" */
  /* Not collective. Opens `source`, or leaves it NULL if this run has no such model. */
  tri_status (*open)(struct tri_trainer *t, struct tri_learner *l);
  char          path[TRI_CKPT_PATH_BYTES]; /* resolved value of the deck's key, or "" if not given */
  tri_source   *source;                    /* owned, as is model. NULL if this run has no such model */
  const char   *from;                      /* group of `source` with its weights, such as "/model" */
  tri_model    *model;                     /* exists if `source` does, once memory is planned */
  tri_optim_opt optim;
  tri_lr_opt    lr;
  int64_t       warmup_steps; /* in these first steps its loss is computed, but it does not learn */
  struct {                    /* counted over all starts of a resumed run */
    int64_t        update;    /* optimizer steps, including skipped ones */
    int64_t        skipped; /* steps skipped because the gradient was not finite or no answer had a reward */
    tri_loss_scale scale;   /* scale for the next update */
  } counters;
  double grad_norm, learning_rate; /* from the last update */
  bool   first_update_seen;        /* an update of this process was checked (state/first_update.h) */
} tri_learner;

/* True if this run has the model and trains it. */
static inline bool tri_learner_trains(const tri_learner *l) { return l->model && l->train; }
/* True if the model learns in this step of the run. */
static inline bool tri_learner_learns(const tri_learner *l, int64_t step) {
  return tri_learner_trains(l) && step > l->warmup_steps;
}
/* Returns the trained parameters, also kept by checkpoints. These are the adapters if the model has any, else
 * its weights. */
static inline tri_params *tri_learner_params(const tri_learner *l) { return tri_model_trained(l->model); }
/* True if the model keeps an average of its weights. */
static inline bool tri_learner_averages(const tri_learner *l) {
  return tri_params_options(tri_learner_params(l))->ema_beta > 0;
}

/* Return the number of the model's weights without adapters, and the number of trained parameters. */
int64_t tri_learner_size(const tri_learner *l);
int64_t tri_learner_trained_size(const tri_learner *l);
/* Not collective. True if low-rank adapters are trained instead of the model's weights. */
bool tri_learner_has_adapters(const struct tri_trainer *t, const tri_learner *l);
/* Not collective. Initializes every role of t->learner with its constants, and with the loss, learning rate
 * and shard plan of t->algo and the deck. */
void tri_learner_begin(struct tri_trainer *t);
/* Collective over world. Resolves the paths in the deck's keys. A resumed run continues without
 * model.ref_path if that path is gone. Errors go to t->run.errors. */
TRI_CHECKED tri_status tri_learner_resolve(struct tri_trainer *t);
/* Not collective. Opens the sources of this run's models, but reads no weights. */
TRI_CHECKED tri_status tri_learner_open_sources(struct tri_trainer *t);
/* Not collective. Computes the weights of a learner's loss, from counts over each sequence's whole mini-batch
 * on all ranks. *weight has r->n_seq elements, and the caller frees it with TRI_FREE. */
TRI_CHECKED tri_status tri_learner_weigh(const struct tri_trainer *t, tri_role role, const tri_rollout *r,
                                         double **weight);
/* Closes the model and the source. A zeroed learner is legal. */
void tri_learner_close(tri_learner *l);

#endif
