/* cost.h - estimates the seconds of a training step (rollout, learn, update) from flops, bytes and latencies.
 * All functions are pure.
 *
 * Sources: Kaplan et al. 2020 (2 flops per weight and token forward, 4 backward). A decode step reads the
 * weights and the cache once. It reads and writes the states of recurrent layers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COST_H
#define TRI_COST_H

#include "family/model_shape.h"
#include "machine/machine.h"

/* Recurrent layers (gated delta nets) in place of attention. All are 0 in a model without them. */
typedef struct tri_cost_recurrent {
  int64_t layers;   /* as many of the model's L layers */
  int64_t mix, out; /* widths of q, k and v together, and of all value heads */
  int64_t heads;    /* value heads, each with one number of decay and one of the step */
  int64_t state;    /* f32 numbers in the state of one sequence in one layer */
} tri_cost_recurrent;

/* One model as the kernels see it. */
typedef struct tri_cost_model {
  int64_t L, C, F, q, kv; /* layers, and the widths of hidden, MLP, all query heads, all key/value heads */
  int64_t gate;           /* width of the gate of attention's output, q or 0 */
  tri_cost_recurrent recurrent;
  int64_t            head;  /* outputs of the head, either the vocabulary or 1 */
  int64_t            n;     /* number of weights */
  int                bytes; /* per weight in the compute type */
} tri_cost_model;

/* How ranks share a model. Scopes have the values of tri_shard_scope (none 0, node 1, world 2). */
typedef struct tri_cost_share {
  int  ranks, per_node;
  int  params, grads, optim;
  bool overlap;  /* gathers and reductions run beside compute */
  bool together; /* the ranks of a node pack gathered weights once for all of them */
  bool in_place; /* and read them in place, so nothing is gathered */
} tri_cost_share;

/* One rank's passes through a model in a step, `times` times. */
typedef struct tri_cost_pass {
  tri_cost_model model;
  tri_cost_share share;
  double         tokens, rows; /* each time: all tokens, and those that reach the head */
  double         context;      /* mean tokens that a token attends to */
  double         batches;      /* each time: forward passes, each gathering all weights */
  double         times;
  double         trained; /* numbers changed by an update. 0: forward only */
  double         updates; /* all times together */
  bool frozen; /* the weights are frozen and adapters learn, so backward computes only gradients of inputs */
  bool recompute, offload; /* repeat forward before backward, and keep optimizer state in host memory */
} tri_cost_pass;

/* Generation of one model in a step. One rank has the model, or several ranks of a node do. */
typedef struct tri_cost_rollout {
  tri_cost_model model;
  tri_cost_share share;
  int            tensor;                 /* ranks of a node that generate as this model. 0 counts as 1 */
  double         prompts, prompt_tokens; /* prompts, and tokens of one */
  double         answers, answer_tokens; /* answers, and tokens of one */
  double         at_once;                /* answers decoded together */
} tri_cost_rollout;

/* Time of compute, by figures or measured: seconds = fixed_s + each_s x n. */
typedef struct tri_cost_line {
  double fixed_s, each_s;
} tri_cost_line;

/* Times of one model at one size of batch. */
typedef struct tri_cost_compute {
  tri_cost_line forward, backward; /* fixed_s per batch, each_s per token */
  tri_cost_line decode;            /* fixed_s per decode step, each_s per row */
  double        prefill_s;         /* per token of a prompt */
  double        update_s;          /* per updated number */
  double pack_s; /* per number, to pack gathered or new weights for the products of forward and backward */
} tri_cost_compute;

typedef struct tri_cost_time {
  double rollout, learn, update, all; /* seconds */
} tri_cost_time;

/* Returns the widths of a model with a head of tokens. n and bytes are 0. */
tri_cost_model tri_cost_of_shape(const tri_model_shape *s);
/* Return the numbers in the products of the layers and of the head. */
double tri_cost_layer_weights(const tri_cost_model *m);
double tri_cost_head_weights(const tri_cost_model *m);
/* Return the floating point operations of a pass over so many tokens and rows, without the updates of
 * states. `context` as in tri_cost_pass. */
double tri_cost_forward_flops(const tri_cost_model *m, double tokens, double rows, double context);
double tri_cost_backward_flops(const tri_cost_model *m, double tokens, double rows, double context);

/* Returns the seconds per token to update the states of all recurrent layers forward, on a GPU or on a CPU.
 * The tokens of one sequence are updated one after the other, so a GPU is faster with several sequences. */
/* Backward takes so many times as long (measured on CPUs). It runs forward again and goes back row by row. */
enum { TRI_COST_STATES_BACKWARD = 5 };
double tri_cost_recurrence_s(const tri_machine *m, const tri_cost_model *model, bool gpu, double sequences);

/* Returns the seconds of a ring (tri_machine_ring) within this scope. */
double tri_cost_scope(const tri_machine *m, const tri_cost_share *s, int scope, double bytes);

/* Computes times from the machine's figures. `p` gives the size of a batch. r may be NULL if nothing is
 * generated. */
tri_cost_compute tri_cost_compute_of(const tri_machine *m, const tri_cost_pass *p, const tri_cost_rollout *r);

/* Changes the times of generation by one rank with the whole model to those of r->tensor ranks. Each rank has
 * its rows of every matrix and its heads, so it reads and computes a part. In each layer the ranks gather the
 * outputs of attention, the output projection, the activation and the down projection, then the logits. Small
 * gathers cost their latency. */
void tri_cost_divide(const tri_machine *m, const tri_cost_rollout *r, tri_cost_compute *c);

/* Return the seconds of the parts of a step. A training pass has both learn and update. */
double tri_cost_of_rollout(const tri_machine *m, const tri_cost_compute *c, const tri_cost_rollout *r);
double tri_cost_of_learn(const tri_machine *m, const tri_cost_compute *c, const tri_cost_pass *p);
double tri_cost_of_update(const tri_machine *m, const tri_cost_compute *c, const tri_cost_pass *p);

/* Returns how many whole steps fit in the walltime, less beside_s for the start and the last checkpoint. 0:
 * none. */
int64_t tri_cost_steps(double walltime_s, double step_s, double beside_s);

#endif
