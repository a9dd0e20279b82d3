/* params.h - the parameter store, with sharded weights, gradients and optimizer state, gathered one unit at a
 * time. comm.h defines the parameter scope and the gradient scope. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PARAMS_H
#define TRI_PARAMS_H

#include "comm/comm.h"
#include "device/memory.h"
#include "layout.h"

/* A gathered unit, or its gradient without packed forms. Borrowed as tri_params_acquire and tri_params_grad
 * say. */
typedef struct tri_weights {
  const tri_tensor  *t;                              /* [n_param] param[i] at full size */
  const void *const *packed_fwd, *const *packed_bwd; /* [n_linear] arguments for the calls of linear[j] */
  bool fresh; /* only in a gradient. The matrices of its products hold nothing yet */
} tri_weights;

enum { TRI_OFFLOAD_ELEMENTS = 2 << 20 }; /* chosen, 8 MiB, a third of a millisecond over PCIe */

typedef struct tri_params tri_params;
typedef struct tri_params_opt {
  tri_dtype      dtype; /* compute type A of the gathered weights */
  tri_shard_plan plan;
  tri_place      place;
  bool           train;    /* also keeps gradients, master weights and moments */
  bool           backward; /* TRI_USE_BWD will be asked for, for trained or frozen weights */
  bool           rollout;  /* tri_params_hold will be called */
  double         ema_beta; /* decay of a trained store's moving average of its weights, or 0 for none */
  /* If not 0, a trained store keeps the optimizer state in host memory, and a frozen store the weights. This
   * many elements of an array are on the device at once. */
  int64_t              offload;
  int                  member; /* the ledger's (tri_ledger_set_member), of its slots and workspaces */
  const tri_unit_spec *unit;   /* borrowed for the life of the store */
  /* [n_unit] borrowed, or NULL. The units as this rank holds them to generate, in place of whole units. They
   * have the same params and products, but some params have only so many rows, as many on each rank of
   * TRI_TENSOR. The last rank has the last rows, so it may share some with the rank before. */
  const tri_unit_spec *slice;
  int                  n_unit;
  const char          *label; /* in the memory table, "policy" or "reference" */
} tri_params_opt;

/* The kinds of state to fill or read. */
typedef enum {
  TRI_STATE_WEIGHT,
  TRI_STATE_EXP_AVG,
  TRI_STATE_EXP_AVG_SQ,
  TRI_STATE_AVERAGE, /* average of the weights over updates, if the store keeps it */
  TRI_STATE_COUNT
} tri_state_kind;
/* Fills f32 elements [begin, begin + count) of the flattened unit[u].param[i]. */
typedef tri_status (*tri_fill_fn)(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                                  float *out);

/* Not collective. Plans all memory in the ledger. For a store that offloads, also plans the memory it would
 * need without offload. Use nothing before the ledger is taken. */
TRI_CHECKED tri_status tri_params_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT],
                                       tri_ledger *ledger, const tri_params_opt *opt, tri_params **out);
void                   tri_params_close(tri_params **p);
/* Collective over world. Asks for each element of the whole model on exactly one rank, then gathers it to the
 * ranks of the plan. Fill weights first. Moments (train only) stay zero if never filled. */
TRI_CHECKED tri_status tri_params_fill(tri_params *p, tri_state_kind kind, tri_fill_fn fill, void *ctx,
                                       tri_stream *s);
/* Not collective. Returns this rank's elements of unit[u].param[i] in files. The pieces of all ranks cover
 * the param without overlap. */
tri_range tri_params_piece(const tri_params *p, int u, int i);
/* Not collective. Copies [begin, begin + count) of that piece to host memory as f32 master weights or
 * moments. A store without master weights widens its compute type to f32. */
TRI_CHECKED tri_status tri_params_read(tri_params *p, tri_state_kind kind, int u, int i, int64_t begin,
                                       int64_t count, float *host, tri_stream *s);

enum { TRI_USE_FWD = 1, TRI_USE_BWD = 2 };
/* Collective over the parameter scope. Starts gathering a unit and returns. A second call costs nothing. unit
 * < 0 means none. */
TRI_CHECKED tri_status tri_params_prefetch(tri_params *p, int unit, tri_stream *s);
/* Collective over the parameter scope (comm.h). *out is valid for work in s until release, once per acquire.
 * `use` selects the packed forms. `next` is the unit acquired after this one, or -1, and is prefetched
 * meanwhile. A unit has one holder at a time, because the unit owns the views in *out. The next acquire or
 * tri_params_grad of the unit overwrites them. */
TRI_CHECKED tri_status tri_params_acquire(tri_params *p, int unit, int use, int next, tri_stream *s,
                                          tri_weights *out);
TRI_CHECKED tri_status tri_params_release(tri_params *p, int unit, tri_stream *s);
/* Collective over the parameter scope, and over the gradient scope if a reduction runs. Drops all gathered
 * units and waits for the reduction of a micro-batch. Call it before another store uses this store's
 * workspace, and before this store uses it again. */
TRI_CHECKED tri_status tri_params_forget_all(tri_params *p, tri_stream *s);
/* Collective over the parameter scope (comm.h). Gathers every unit and keeps all of them for generation, or
 * their slices if the store has any, or ends this use. Their memory stays planned. */
TRI_CHECKED tri_status tri_params_hold(tri_params *p, bool hold, tri_stream *s);

/* Not collective. Returns the unit's full-size f32 gradient. Add to it. If out->fresh, the first caller must
 * write all elements of the matrices of linear[j] instead. */
TRI_CHECKED tri_status tri_params_grad(tri_params *p, int unit, tri_stream *s, tri_weights *out);
/* Collective over the gradient scope (comm.h), with `last` over world. `last` says that no further
 * micro-batch comes before the update. Ends the unit's part in this micro-batch. Its reduction, as the plan
 * says, starts and runs beside later work in s. */
TRI_CHECKED tri_status tri_params_grad_done(tri_params *p, int unit, tri_stream *s, bool last);

/* Collective over world, after the last unit of the last micro-batch. Makes s wait for all reductions. The
 * functions below need this. A second call costs nothing. */
TRI_CHECKED tri_status tri_params_grad_settle(tri_params *p, tri_stream *s);

/* A part of this rank's optimizer share of a unit. Each array holds range.count f32 elements in device
 * memory, from flat element range.begin on. Borrowed. */
typedef struct tri_optim_view {
  tri_range range;
  float    *weight, *exp_avg, *exp_avg_sq, *average, *grad; /* average is NULL if not kept */
  uint16_t *half; /* weights in the compute type, or NULL if that is f32 */
} tri_optim_view;
typedef tri_status (*tri_optim_work)(void *ctx, const tri_optim_view *part, tri_stream *s);
/* Not collective. Queues work for the whole share in parts. Without offload each field is one part
 * (layout.h). With offload, parts also have at most the size of the device buffers, and their copies run
 * beside the work. reads and writes are sets of 1 << tri_state_kind. `work` must not touch other arrays of a
 * part except half and the gradient. */
TRI_CHECKED tri_status tri_params_optim_each(tri_params *p, int unit, unsigned reads, unsigned writes,
                                             tri_optim_work work, void *ctx, tri_stream *s);
/* This rank's optimizer share of a field of a unit's reduced gradient, f32 [range.count], from flat element
 * range.begin on. Borrowed. A store without slices has one field a unit (layout.h). */
typedef struct tri_grad_view {
  tri_range range;
  float    *grad;
} tri_grad_view;
tri_grad_view tri_params_grad_view(tri_params *p, int unit, int field);
/* Collective over the scope that shard.optim divides. Computes the sum of squares of the whole gradient. It
 * practically never depends on the division into shares (base/dd.h). Padding is zero and adds nothing. The
 * host waits. */
TRI_CHECKED tri_status tri_params_grad_sumsq(tri_params *p, tri_stream *s, double *sum);
/* Collective over world. Sets *name to the first tensor in backward order whose gradient is not finite,
 * within a unit to the first one, or to NULL if there is none. */
TRI_CHECKED tri_status tri_params_grad_nonfinite(tri_params *p, tri_stream *s, const char **name);
/* Not collective. For a store with an average, computes average = ema_beta average + (1 - ema_beta) weights
 * on this rank's optimizer share, in f32. With `start` computes average = weights. */
TRI_CHECKED tri_status tri_params_average(tri_params *p, bool start, tri_stream *s);
/* Collective over world, after the update of the unit's share, including half, has been queued in s. Starts
 * sending the new weights to every rank that holds them, beside later work in s. */
TRI_CHECKED tri_status tri_params_publish(tri_params *p, int unit, tri_stream *s);
/* Collective over world, after publishing the last unit. Makes s wait for all of them. */
TRI_CHECKED tri_status tri_params_publish_end(tri_params *p, tri_stream *s);
/* Not collective. Resets the gradients to zero, after an update or a skipped one. */
void                  tri_params_grad_clear(tri_params *p);
const tri_params_opt *tri_params_options(const tri_params *p);

#endif
