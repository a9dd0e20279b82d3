/* params.h - the parameter store: shards, gradients, and the gathering of one unit at a time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PARAMS_H
#define TRI_PARAMS_H

#include "comm/comm.h"
#include "device/kernels.h"
#include "device/memory.h"
#include "shard.h"

/* SCORE: normal with standard deviation 1 / (dim[1] + 1). UNIFORM: between -1 / sqrt(dim[1]) and its
 * opposite. */
typedef enum { TRI_INIT_NORMAL, TRI_INIT_ONES, TRI_INIT_ZEROS, TRI_INIT_SCORE, TRI_INIT_UNIFORM } tri_init;
typedef struct tri_param_spec {
  char     name[96]; /* as in the safetensors file */
  int      ndim;
  int64_t  dim[3];
  tri_init init;   /* how a model without a weight file starts */
  bool     added;  /* of a scalar head: a language model's files lack it, and it may start by init */
  bool     joined; /* directly behind the param before it: rows of one fused matrix, or of its bias */
  bool     waits;  /* its gradient is 0 as long as another param is */
  int64_t  offset; /* of its first element in the unit's flat buffer; filled by tri_unit_layout */
} tri_param_spec;

enum { TRI_MOST_BLOCKS = 3 }; /* q, k, v */
/* How params [rows,w] of a product lie in its matrix [n_out,n_in], which is 0 beside them: param i times
 * `scale`, from row row[i] and column i w on. */
typedef struct tri_blocks {
  int64_t n_out, n_in; /* 0: they are the matrix, one below the other */
  float   scale;
  int64_t row[TRI_MOST_BLOCKS];
} tri_blocks;

/* A product of a unit: params [first, first + n), all but the first joined, are one matrix [n_out,n_in], or
 * blocks of it. */
typedef struct tri_linear_use {
  int         first, n;
  tri_linear *linear; /* borrowed */
  tri_blocks  blocks;
} tri_linear_use;

/* A unit is what is gathered and released together: the embedding, one layer, the head. */
typedef struct tri_unit_spec {
  char            name[24];
  bool            in_ring; /* one of many alike (a layer): shares gather slots with the others */
  int             n_param, n_linear;
  tri_param_spec *param;  /* [n_param], of whoever made the unit */
  tri_linear_use *linear; /* [n_linear], the same; in the order of their params */
  int64_t         count;  /* flat elements before padding; filled by tri_unit_layout */
} tri_unit_spec;

/* Gives every param its offset: a joined one right behind the one before, the others 64-element aligned. */
void    tri_unit_layout(tri_unit_spec *u);
int64_t tri_param_count(const tri_param_spec *s);

/* A gathered unit, or its gradient, which has no packed forms. Borrowed; see acquire and grad. */
typedef struct tri_weights {
  const tri_tensor  *t;                              /* [n_param]: param[i] at full size */
  const void *const *packed_fwd, *const *packed_bwd; /* [n_linear]: what the calls of linear[j] take */
  bool fresh; /* of a gradient: the matrices of its products hold nothing yet */
} tri_weights;

enum { TRI_OFFLOAD_ELEMENTS = 2 << 20 }; /* chosen: 8 MiB, a third of a millisecond over PCIe */

typedef struct tri_params tri_params;
typedef struct tri_params_opt {
  tri_dtype      dtype; /* compute type A of the gathered weights */
  tri_shard_plan plan;
  tri_place      place;
  bool           train;      /* gradients, master weights and moments too */
  bool           backward;   /* TRI_USE_BWD will be asked for, of trained weights or of frozen ones */
  bool           rollout;    /* tri_params_hold will be called */
  double         ema_beta;   /* a trained store keeps an exponential moving average of its weights; 0: none */
  int64_t        offload;    /* not 0: of a trained store the optimizer's state, of a frozen one the weights
                              * rest in host memory; so many elements of an array are on the device at once */
  const tri_unit_spec *unit; /* borrowed for the life of the store */
  int                  n_unit;
  const char          *label; /* in the memory table: "policy", "reference" */
} tri_params_opt;

/* What a fill or a read is about. */
typedef enum {
  TRI_STATE_WEIGHT,
  TRI_STATE_EXP_AVG,
  TRI_STATE_EXP_AVG_SQ,
  TRI_STATE_AVERAGE, /* of the weights over updates, where the store keeps it */
  TRI_STATE_COUNT
} tri_state_kind;
/* Elements [begin, begin + count) of unit[u].param[i], flattened, f32. */
typedef tri_status (*tri_fill_fn)(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                                  float *out);

/* Not collective. Plans all memory in the ledger, for a store that offloads also what it would take if it did
 * not; nothing may be used before the ledger is taken. */
TRI_CHECKED tri_status tri_params_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT],
                                       tri_ledger *ledger, const tri_params_opt *opt, tri_params **out);
void                   tri_params_close(tri_params **p);
/* Collective over world. Each element of the whole model is asked for on exactly one rank, then gathered to
 * where the plan wants it. Weights first; moments (train only) are left zero if never filled. */
TRI_CHECKED tri_status tri_params_fill(tri_params *p, tri_state_kind kind, tri_fill_fn fill, void *ctx,
                                       tri_stream *s);
/* Not collective. The elements of unit[u].param[i] this rank answers for in files (a tiling over all
 * ranks). */
tri_range tri_params_piece(const tri_params *p, int u, int i);
/* Not collective. Copies [begin, begin + count) of that piece to host memory, f32 master weights or moments
 * (compute type widened to f32 for a store without master weights). */
TRI_CHECKED tri_status tri_params_read(tri_params *p, tri_state_kind kind, int u, int i, int64_t begin,
                                       int64_t count, float *host, tri_stream *s);

enum { TRI_USE_FWD = 1, TRI_USE_BWD = 2 };
/* Collective over the parameter scope. Starts gathering a unit and returns; asking twice costs nothing. unit
 * < 0: none. */
TRI_CHECKED tri_status tri_params_prefetch(tri_params *p, int unit, tri_stream *s);
/* Collective over the parameter scope. *out is valid for work in s until release; one release per acquire.
 * use: which packed forms are wanted. next: the unit that will be acquired after this one (-1: none),
 * prefetched meanwhile. A unit has one holder at a time: the views in *out lie with it, and what is acquired,
 * or asked for by tri_params_grad, again takes their place. */
TRI_CHECKED tri_status tri_params_acquire(tri_params *p, int unit, int use, int next, tri_stream *s,
                                          tri_weights *out);
TRI_CHECKED tri_status tri_params_release(tri_params *p, int unit, tri_stream *s);
/* Collective over the parameter scope. What is still gathered is forgotten: generation is about to use its
 * workspace, by another store; or it has used it, and nobody uses it any more. */
TRI_CHECKED tri_status tri_params_forget_all(tri_params *p, tri_stream *s);
/* Collective over the parameter scope. Keep every unit gathered (for generation), or let go again. */
TRI_CHECKED tri_status tri_params_hold(tri_params *p, bool hold, tri_stream *s);

/* Not collective. The unit's full-size gradient, f32. Add into it; but where out->fresh, the first who asks
 * writes the matrices of linear[j], all of them, instead. */
TRI_CHECKED tri_status tri_params_grad(tri_params *p, int unit, tri_stream *s, tri_weights *out);
/* Collective over the gradient scope; last: no more micro-batch before the update, over world. This
 * micro-batch is done with the unit: its reduction, as the plan says, starts and runs beside what follows
 * in s. */
TRI_CHECKED tri_status tri_params_grad_done(tri_params *p, int unit, tri_stream *s, bool last);

/* Collective over world. After the last unit of the last micro-batch: s waits for all reductions, which the
 * functions below want. Asking twice costs nothing. */
TRI_CHECKED tri_status tri_params_grad_settle(tri_params *p, tri_stream *s);

/* A part of this rank's optimizer share of a unit: arrays of range.count f32 elements, starting at flat
 * element range.begin, in device memory. Borrowed. */
typedef struct tri_optim_view {
  tri_range range;
  float    *weight, *exp_avg, *exp_avg_sq, *average, *grad; /* average: NULL where it is not kept */
  uint16_t *half; /* the weights in the compute type; NULL where that is f32 */
} tri_optim_view;
typedef tri_status (*tri_optim_work)(void *ctx, const tri_optim_view *part, tri_stream *s);
/* Not collective. Queues work for all of the share, part by part: one part, or, where the store offloads, as
 * many as its space on the device asks for, whose copies run beside the work. reads, writes: sets of
 * 1 << tri_state_kind; other arrays of a part, but half and the gradient, are not to be touched. */
TRI_CHECKED tri_status tri_params_optim_each(tri_params *p, int unit, unsigned reads, unsigned writes,
                                             tri_optim_work work, void *ctx, tri_stream *s);
/* This rank's optimizer share of a unit's reduced gradient, f32 [range.count], starting at flat element
 * range.begin. Borrowed. */
typedef struct tri_grad_view {
  tri_range range;
  float    *grad;
} tri_grad_view;
tri_grad_view tri_params_grad_view(tri_params *p, int unit);
/* Not collective. Sum of squares of this rank's optimizer share of the gradient. The host waits. */
TRI_CHECKED tri_status tri_params_grad_sumsq(tri_params *p, tri_stream *s, double *sum);
/* Collective over world. The tensor whose gradient has a number that is not finite,
 * of several the first on the way back, of that unit the first; NULL: there is none. */
TRI_CHECKED tri_status tri_params_grad_nonfinite(tri_params *p, tri_stream *s, const char **name);
/* Not collective. Of a store with an average, on this rank's optimizer share, in f32: average = ema_beta
 * average + (1 - ema_beta) weights; start: = weights. */
TRI_CHECKED tri_status tri_params_average(tri_params *p, bool start, tri_stream *s);
/* The communicator over which optimizer shares differ, or NULL when every rank holds all of them. */
tri_comm *tri_params_optim_comm(tri_params *p);
/* Collective over world. After the update of the unit's share, half included, has been queued in s: its new
 * weights start on their way to every rank that holds them, beside what follows in s. */
TRI_CHECKED tri_status tri_params_publish(tri_params *p, int unit, tri_stream *s);
/* Collective over world. After that of the last unit: s waits for all of them. */
TRI_CHECKED tri_status tri_params_publish_end(tri_params *p, tri_stream *s);
/* Not collective. Gradients count as zero again: after an update, or a skipped one. */
void                  tri_params_grad_clear(tri_params *p);
const tri_params_opt *tri_params_options(const tri_params *p);

#endif
