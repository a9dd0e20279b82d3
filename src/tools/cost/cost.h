/* cost.h - seconds of a training step from flops, bytes and latencies: rollout, learn, update. Pure.
 * Sources: Kaplan et al. 2020 (2 flops per weight and token forward, 4 backward); decoding: weights and cache
 * are read once a step. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COST_H
#define TRI_COST_H

#include "machine/machine.h"

/* One model as the kernels see it. */
typedef struct tri_cost_model {
  int64_t L, C, F, q, kv; /* layers; widths: hidden, mlp, of all query heads, of all key/value heads */
  int64_t head;           /* outputs of the head: the vocabulary, or 1 */
  int64_t n;              /* all its numbers */
  int     bytes;          /* of one in the compute type */
} tri_cost_model;

/* Who shares: scopes as tri_shard_scope counts them, none 0, node 1, world 2. */
typedef struct tri_cost_share {
  int  ranks, per_node;
  int  params, grads, optim;
  bool overlap;  /* gathers and reductions run beside compute */
  bool together; /* a node's ranks pack what is gathered once for all of them; */
  bool in_place; /* and read it where it is: nothing is gathered */
} tri_cost_share;

/* What one rank puts through a model in a step, `times` times. */
typedef struct tri_cost_pass {
  tri_cost_model model;
  tri_cost_share share;
  double         tokens, rows; /* of one time: all of them, and those that reach the head */
  double         context;      /* tokens that a token attends to, on the mean */
  double         batches;      /* of one time: forwards, each of which gathers all weights */
  double         times;
  double         trained; /* numbers that an update changes; 0: forward only */
  double         updates; /* of all times together */
  bool frozen; /* its weights do not learn, what learns lies beside them: backward by inputs alone */
  bool recompute, offload; /* forward again before backward; the optimizer's state rests in host memory */
} tri_cost_pass;

/* What one rank generates in a step. */
typedef struct tri_cost_rollout {
  tri_cost_model model;
  tri_cost_share share;
  double         prompts, prompt_tokens; /* prompts, and tokens of one */
  double         answers, answer_tokens; /* answers, and tokens of one */
  double         at_once;                /* answers decoded together */
} tri_cost_rollout;

/* What compute takes, of a machine or as measured: seconds = fixed + each times how many. */
typedef struct tri_cost_line {
  double fixed_s, each_s;
} tri_cost_line;

/* For one model at one size of batch. */
typedef struct tri_cost_compute {
  tri_cost_line forward, backward; /* of a batch: fixed_s of each batch, each_s of a token */
  tri_cost_line decode;            /* of a decode step: fixed_s of a step, each_s of a row */
  double        prefill_s;         /* of a prompt's token */
  double        update_s;          /* of a number that is updated */
  double pack_s; /* of a number, from gathered or new weights to what products read, forward and back */
} tri_cost_compute;

typedef struct tri_cost_time {
  double rollout, learn, update, all; /* seconds */
} tri_cost_time;

/* All pure. Numbers of the layers' and the head's products. */
double tri_cost_layer_weights(const tri_cost_model *m);
double tri_cost_head_weights(const tri_cost_model *m);
/* Floating point operations of a forward of so many tokens and rows; `context` as in a pass. */
double tri_cost_forward_flops(const tri_cost_model *m, double tokens, double rows, double context);
double tri_cost_backward_flops(const tri_cost_model *m, double tokens, double rows, double context);

/* Seconds of a ring (tri_machine_ring) within this scope. */
double tri_cost_scope(const tri_machine *m, const tri_cost_share *s, int scope, double bytes);

/* By the machine's figures. `p` gives the size of a batch; r may be NULL: nothing is generated. */
tri_cost_compute tri_cost_compute_of(const tri_machine *m, const tri_cost_pass *p, const tri_cost_rollout *r);

/* Seconds of the parts of a step; a pass that trains has both learn and update. */
double tri_cost_of_rollout(const tri_machine *m, const tri_cost_compute *c, const tri_cost_rollout *r);
double tri_cost_of_learn(const tri_machine *m, const tri_cost_compute *c, const tri_cost_pass *p);
double tri_cost_of_update(const tri_machine *m, const tri_cost_compute *c, const tri_cost_pass *p);

/* Whole steps of so many seconds in a walltime, less what the start and the last checkpoint take; 0: none. */
int64_t tri_cost_steps(double walltime_s, double step_s, double beside_s);

#endif
