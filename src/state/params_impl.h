/* params_impl.h - structs of the parameter store and the scopes of its shares. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PARAMS_IMPL_H
#define TRI_PARAMS_IMPL_H

#include "comm/peers/rank_status.h"
#include "device/trace.h"
#include "params.h"

enum {
  TRI_PARAM_RING = 2, /* slots, as one unit computes while the next is gathered */
  TRI_PARAM_STAGES = 2
};

/* Memory for one gathered unit. */
typedef struct tri_param_slot {
  void *flat;           /* A [padded] */
  void *packed_buffers; /* the unit's packed forms (tri_param_unit) */
  /* f32 [padded], the unit's full gradient in one micro-batch, or NULL if gradients go straight to the
   * accumulator. */
  float   *grad;
  int      unit; /* unit of the weights here or on their way, or -1 */
  int      grad_unit;
  bool     busy;      /* acquired */
  bool     gathering; /* a gather is pending */
  bool     last;      /* the gradient being reduced is from the last micro-batch before the update */
  bool     have[2];   /* packed forms made, forward and backward */
  uint64_t freed;     /* in a store that shares, the generation of the shared segment at its release */
  tri_req  req, grad_req;
} tri_param_slot;

/* With offload, pinned host memory holds `weight` of a frozen store, and master, moments and average of a
 * trained one. */
typedef struct tri_param_unit {
  const tri_unit_spec *spec;
  int64_t              padded;
  /* Ranges of params, gradients, optimizer, and this rank's piece in files. */
  tri_range rp, rg, ro, rw;
  void     *weight; /* A [rp.count] */
  void     *whole;  /* A [padded] around `weight` if the store works in place, else NULL */
  /* f32 [ro.count], or NULL if the compute type is f32 and `weight` includes it. */
  float *master;
  float *exp_avg, *exp_avg_sq, *acc; /* f32 [ro.count], [ro.count], [rg.count] */
  float *average;                    /* f32 [ro.count], or NULL if not kept */
  /* [n_linear] bytes of the packed forms for fwd, then for bwd. 0 if the weight itself serves. */
  size_t         *packed_bytes[2];
  const void    **packed[2];        /* [n_linear] of the acquired unit */
  tri_tensor     *view, *grad_view; /* [n_param] of the acquired unit, and of its gradient */
  tri_param_slot *own;              /* slot of a unit outside the ring, or of a resident unit */
  tri_param_slot  held;             /* slot for generation */
  bool            grad_open;
  bool            fresh; /* acc holds nothing yet, so the next gradient is written, not added */
} tri_param_unit;

/* A unit with a collective that runs beside compute. */
typedef struct tri_param_flight {
  tri_param_unit *unit; /* NULL for none */
  tri_req         req;
} tri_param_flight;

/* Memory shared by the ranks of a store in one phase. If sharing fails, a rank uses memory of its own. */
typedef struct tri_param_buffers {
  size_t       bytes;
  bool         state;
  void        *piece;   /* this rank's piece of the shared segment, from the ledger */
  tri_segment *segment; /* owned, or NULL */
  void        *own;     /* owned, or NULL */
  struct tri_param_part {
    void **where;
    size_t at;
  } * part; /* [n_part], owned */
  int64_t cap;
  int     n_part;
} tri_param_buffers;

typedef struct tri_offload tri_offload; /* offload.c */

struct tri_params {
  tri_params_opt opt;
  tri_device    *device;                /* borrowed */
  tri_comm      *comm[TRI_SCOPE_COUNT]; /* borrowed */
  /* A resident store gathers and fetches nothing. With grad_direct, gradients go straight to the
   * accumulator. */
  bool resident, grad_direct;
  bool held;
  bool shares;   /* the ranks of a node have packed forms only once */
  bool in_place; /* they have all weights only once too, so nothing is gathered */
  bool bound;    /* tri_params_share_bind has placed the shared memory */
  /* Unused bytes of TRI_PHASE_ALWAYS. With them its shared segment, which all phases use for barriers, always
   * exists. */
  void             *passes;
  tri_param_buffers buffers[TRI_PHASE_ALWAYS + 1]; /* one for each phase */
  tri_param_unit   *unit;
  tri_param_slot    ring[TRI_PARAM_RING];
  tri_param_slot   *pending;                /* slot of a micro-batch's running reduction */
  tri_param_flight  last[TRI_PARAM_STAGES]; /* an accumulator's last reductions (params_grad.c) */
  tri_param_flight  news;                   /* new weights on their way to their holders */
  double           *sum, *host_sum;         /* f64 [1], on the device and pinned */
  void             *matrix;  /* A, space for the largest matrix made of blocks, or NULL if there is none */
  tri_offload      *offload; /* owned, or NULL without offload */
};

static inline const tri_kernels *tri_params_kernels(const tri_params *p) { return p->device->ops->kernels; }
static inline size_t tri_params_weight_bytes(const tri_params *p) { return tri_dtype_bytes(p->opt.dtype); }
/* Returns the param as a view of the unit's flat buffer `flat`. */
static inline tri_tensor tri_param_view(const tri_param_spec *f, void *flat, tri_dtype t) {
  tri_tensor v = {(char *)flat + (size_t)f->offset * tri_dtype_bytes(t), t, f->ndim, {1, 1, 1, 1}};
  for (int i = 0; i < f->ndim; i++) v.dim[i] = f->dim[i];
  return v;
}
/* Returns the address of the unit's flat element `element` in this rank's share of the weights. */
static inline void *tri_params_weight_at(const tri_params *p, const tri_param_unit *u, int64_t element) {
  return (char *)u->weight + (size_t)(element - u->rp.begin) * tri_params_weight_bytes(p);
}
/* Returns the f32 weights of the optimizer share, which are the master copy or the weights themselves. */
static inline float *tri_params_master(const tri_params *p, const tri_param_unit *u) {
  return u->master ? u->master : tri_params_weight_at(p, u, u->ro.begin);
}
/* Returns this kind of state of the optimizer share, f32. TRI_STATE_WEIGHT is not valid for a frozen 16-bit
 * store. */
static inline float *tri_params_state(const tri_params *p, const tri_param_unit *u, tri_state_kind kind) {
  switch (kind) {
  case TRI_STATE_EXP_AVG:
    return u->exp_avg;
  case TRI_STATE_EXP_AVG_SQ:
    return u->exp_avg_sq;
  case TRI_STATE_AVERAGE:
    return u->average;
  default:
    return tri_params_master(p, u);
  }
}
/* Returns the communicator of the ranks among which scope s divides, or NULL for none. */
static inline tri_comm *tri_params_comm(const tri_params *p, tri_shard_scope s) {
  return s == TRI_SHARD_NONE ? NULL : p->comm[s == TRI_SHARD_NODE ? TRI_NODE : TRI_WORLD];
}
/* True if scope s divides anything. */
static inline bool tri_params_splits(const tri_params *p, tri_shard_scope s) {
  tri_comm *c = tri_params_comm(p, s);
  return c && c->size > 1;
}
/* Returns the communicator of the finer shares `from` within the coarser share `to`, or NULL if both are
 * equal. */
static inline tri_comm *tri_params_comm_between(const tri_params *p, tri_shard_scope to,
                                                tri_shard_scope from) {
  if (to == from) return NULL;
  if (from == TRI_SHARD_NODE) return p->comm[TRI_NODE];
  return p->comm[to == TRI_SHARD_NODE ? TRI_CROSS : TRI_WORLD];
}
/* Returns the scope of the share in which a rank computes new weights. */
static inline tri_shard_scope tri_params_fine(const tri_params *p) {
  return p->opt.train ? p->opt.plan.optim : p->opt.plan.params;
}
/* Returns the communicator of stage k of an accumulator's last reduction. Stage 0 goes from the gradient
 * share to the optimizer share, and stage 1 over replicas of the same share. NULL if the plan has no such
 * stage. */
static inline tri_comm *tri_params_stage(const tri_params *p, int k) {
  tri_shard_scope o = p->opt.plan.optim;
  tri_comm       *c = NULL;

  if (k == 0)
    c = tri_params_comm_between(p, p->opt.plan.grads, o);
  else if (o != TRI_SHARD_WORLD)
    c = p->comm[o == TRI_SHARD_NONE ? TRI_WORLD : TRI_CROSS];
  return c && c->size > 1 ? c : NULL;
}
/* Returns the segment shared by the ranks, or NULL if they share none or cannot. */
static inline tri_segment *tri_params_segment(const tri_params *p) {
  return p->buffers[TRI_PHASE_ALWAYS].segment;
}
/* True if weights must be gathered before use. */
static inline bool tri_params_gathers(const tri_params *p) {
  return !p->resident && !(p->in_place && tri_params_segment(p));
}
/* Names the content of the next collective, such as u's weights, for messages and the trace. */
static inline void tri_params_carry(const tri_params *p, const tri_param_unit *u, const char *what) {
  tri_rank_status_carry(p->opt.label, u->spec->name, what);
  tri_trace_carry(p->device->trace, p->opt.label, u->spec->name, what);
}

/* params_gather.c. Collective over the ranks among which a `to` share divides into `from` shares. Spreads the
 * `from` share of every rank in buf [to_range.count] to all of them. req is used as in tri_all_gather. */
TRI_CHECKED tri_status tri_params_spread(tri_params *p, const tri_param_unit *u, void *buf, tri_dtype t,
                                         tri_shard_scope to, tri_range to_range, tri_shard_scope from,
                                         tri_range from_range, tri_stream *s, tri_req *req);
/* params_gather.c. Collective over the parameter scope if a gather is running, and then makes s wait for it.
 * Drops the slot's content, because it is out of date or its memory was lent. */
TRI_CHECKED tri_status tri_params_forget(tri_params *p, tri_param_slot *sl, tri_stream *s);

/* params_gather.c. Collective over the parameter scope. Ends all gathers and drops the units of the ring,
 * before weights are written. */
TRI_CHECKED tri_status tri_params_forget_unused(tri_params *p, tri_stream *s);

/* Kinds of generation counters in a store's shared segment. TRI_USE_* is added to PACKED. */
enum {
  TRI_GENERATION_BARRIER,
  TRI_GENERATION_FREED,
  TRI_GENERATION_PACKED,
  TRI_GENERATION_KINDS = TRI_GENERATION_PACKED + 4
};
static inline uint32_t tri_params_generation(const tri_params *p, const tri_param_unit *u, int kind) {
  return (uint32_t)(u - p->unit) * TRI_GENERATION_KINDS + (uint32_t)kind;
}

/* params_share.c. Not collective. The first function plans bytes of shared memory in a phase, and bind sets
 * *where. After the last one, the second function puts this rank's pieces into the ledger. */
TRI_CHECKED tri_status tri_params_share(tri_params *p, tri_phase phase, bool state, size_t bytes,
                                        void **where);
TRI_CHECKED tri_status tri_params_share_plan(tri_params *p, tri_ledger *l);
/* params_share.c. Collective over world, after tri_comm_start. A second call costs nothing. */
TRI_CHECKED tri_status tri_params_share_bind(tri_params *p);
void                   tri_params_share_close(tri_params *p);
/* params_share.c. Collective over the parameter scope. A barrier of the ranks that share, and nothing for
 * others. */
TRI_CHECKED tri_status tri_params_barrier(tri_params *p);

/* offload.c. Not collective, these two. The first plans a trained store's buffers on the device. */
TRI_CHECKED tri_status tri_offload_open(tri_params *p, tri_ledger *l);
void                   tri_offload_close(tri_params *p);
/* offload.c. Not collective. Makes s wait until all results of tri_params_optim_each are back in host
 * memory. */
TRI_CHECKED tri_status tri_offload_settle(tri_params *p, tri_stream *s);
/* offload.c. Collective over the parameter scope, these two. The first starts copying a frozen unit's weights
 * into a slot, from this rank's host memory and then from the other ranks. The second makes s wait for it. */
TRI_CHECKED tri_status tri_offload_gather(tri_params *p, tri_param_unit *u, tri_param_slot *sl,
                                          tri_stream *s);
TRI_CHECKED tri_status tri_offload_wait(tri_params *p, tri_param_slot *sl, tri_stream *s);
/* offload.c. True if host memory holds this kind of the store's state. */
bool tri_offload_holds(const tri_params *p, tri_state_kind kind);
/* offload.c. Collective over c. Does the work of tri_params_spread for an array in host memory. buf has a
 * part of per_rank elements for each rank of c, and every rank contributes its own. */
TRI_CHECKED tri_status tri_offload_spread(tri_params *p, tri_param_unit *u, void *buf, tri_dtype t,
                                          tri_comm *c, int64_t per_rank, tri_stream *s);

#endif
