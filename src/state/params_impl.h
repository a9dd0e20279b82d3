/* params_impl.h - what the files of the parameter store share: its structs, and who holds which part. Private
 * to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PARAMS_IMPL_H
#define TRI_PARAMS_IMPL_H

#include "comm/peers/rank_status.h"
#include "device/trace.h"
#include "params.h"

enum {
  TRI_PARAM_RING = 2, /* slots: a unit computes while the next is gathered */
  TRI_PARAM_STAGES = 2
};

/* Space for one gathered unit. */
typedef struct tri_param_slot {
  void    *flat;           /* A [padded] */
  void    *packed_buffers; /* the unit's packed forms, see tri_param_unit */
  float   *grad; /* f32 [padded]: the unit's full gradient in one micro-batch; NULL when it goes to the
                   accumulator */
  int      unit; /* whose weights are here, or coming; -1: none */
  int      grad_unit;
  bool     busy;      /* acquired */
  bool     gathering; /* a request is pending */
  bool     last;      /* of the gradient being reduced: no micro-batch follows before the update */
  bool     have[2];   /* packed forms made */
  uint64_t freed;     /* of a store that shares: the shared segment's pass in which it was released */
  tri_req  req, grad_req;
} tri_param_slot;

/* Where the store offloads, `weight` of a frozen one, and master, moments and average of a trained one, are
 * in pinned host memory. */
typedef struct tri_param_unit {
  const tri_unit_spec *spec;
  int64_t              padded;
  tri_range            rp, rg, ro, rw; /* params, gradients, optimizer, and the world piece that files see */
  void                *weight;         /* A [rp.count] */
  void                *whole;  /* A [padded], where weight lies in its place; NULL: none, see workspace */
  float               *master; /* f32 [ro.count]; NULL in f32, where it is a part of `weight` */
  float               *exp_avg, *exp_avg_sq, *acc; /* f32 [ro.count], [ro.count], [rg.count] */
  float               *average;                    /* f32 [ro.count]; NULL: not kept */
  size_t         *packed_bytes[2];  /* [n_linear] of packed_room for fwd, then for bwd; 0: w itself serves */
  const void    **packed[2];        /* [n_linear] of the acquired unit */
  tri_tensor     *view, *grad_view; /* [n_param] of the acquired unit, and of its gradient */
  tri_param_slot *own;              /* a unit that is not in the ring, or one that is never gathered */
  tri_param_slot  held;             /* gathered for generation */
  bool            grad_open;
  bool            fresh; /* acc holds nothing yet: the next gradient is written, not added */
} tri_param_unit;

/* A unit whose collective is under way beside compute. */
typedef struct tri_param_flight {
  tri_param_unit *unit; /* NULL: none */
  tri_req         req;
} tri_param_flight;

/* Of a store whose ranks share: what they have in common in one phase. Where they cannot, after all, a rank's
 * own memory. */
typedef struct tri_param_buffers {
  size_t       bytes;
  bool         state;
  void        *piece;   /* this rank's of the shared segment: of the ledger */
  tri_segment *segment; /* owned, or NULL */
  void        *own;     /* owned, or NULL */
  struct tri_param_part {
    void **where;
    size_t at;
  } * part; /* [n_part]; owned */
  int64_t cap;
  int     n_part;
} tri_param_buffers;

typedef struct tri_offload tri_offload; /* offload.c */

struct tri_params {
  tri_params_opt opt;
  tri_device    *device;                /* borrowed */
  tri_comm      *comm[TRI_SCOPE_COUNT]; /* borrowed */
  bool           resident, grad_direct; /* nothing to gather or fetch; gradients go straight to the
                                          * accumulator */
  bool           held;
  bool           shares;   /* packed forms are there once for the ranks of the node */
  bool           in_place; /* so are the weights, all of them: nothing is gathered */
  bool           bound;    /* and have their place */
  void          *passes; /* nothing lies there; so that the ranks have a shared segment where all is packed */
  tri_param_buffers buffers[TRI_PHASE_ALWAYS + 1]; /* of each phase */
  tri_param_unit   *unit;
  tri_param_slot    ring[TRI_PARAM_RING];
  tri_param_slot   *pending;                /* a micro-batch's reduction under way */
  tri_param_flight  last[TRI_PARAM_STAGES]; /* an accumulator's last reductions, see params_grad.c */
  tri_param_flight  news;                   /* new weights on their way to who holds them */
  double           *sum, *host_sum;         /* f64 [1]: device, pinned */
  void             *matrix;  /* A: space for the largest matrix that is made of blocks; NULL: there is none */
  tri_offload      *offload; /* owned; NULL: nothing rests in host memory */
};

static inline const tri_kernels *tri_params_kernels(const tri_params *p) { return p->device->ops->kernels; }
static inline size_t tri_params_weight_bytes(const tri_params *p) { return tri_dtype_bytes(p->opt.dtype); }
/* The param of a unit whose flat buffer is `flat`. */
static inline tri_tensor tri_param_view(const tri_param_spec *f, void *flat, tri_dtype t) {
  tri_tensor v = {(char *)flat + (size_t)f->offset * tri_dtype_bytes(t), t, f->ndim, {1, 1, 1, 1}};
  for (int i = 0; i < f->ndim; i++) v.dim[i] = f->dim[i];
  return v;
}
/* Where flat element `element` of the unit lies in this rank's share of the weights. */
static inline void *tri_params_weight_at(const tri_params *p, const tri_param_unit *u, int64_t element) {
  return (char *)u->weight + (size_t)(element - u->rp.begin) * tri_params_weight_bytes(p);
}
/* f32 weights of the optimizer share: the master copy, or the weights themselves. */
static inline float *tri_params_master(const tri_params *p, const tri_param_unit *u) {
  return u->master ? u->master : tri_params_weight_at(p, u, u->ro.begin);
}
/* This kind of state of the optimizer share, f32; TRI_STATE_WEIGHT: not of a frozen 16-bit store. */
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
/* The ranks among which scope s divides; NULL for none. */
static inline tri_comm *tri_params_comm(const tri_params *p, tri_shard_scope s) {
  return s == TRI_SHARD_NONE ? NULL : p->comm[s == TRI_SHARD_NODE ? TRI_NODE : TRI_WORLD];
}
/* Whether scope s divides anything. */
static inline bool tri_params_splits(const tri_params *p, tri_shard_scope s) {
  tri_comm *c = tri_params_comm(p, s);
  return c && c->size > 1;
}
/* The scope of a finer share `from` inside the coarser `to`; NULL when they are the same. */
static inline tri_comm *tri_params_comm_between(const tri_params *p, tri_shard_scope to,
                                                tri_shard_scope from) {
  if (to == from) return NULL;
  if (from == TRI_SHARD_NODE) return p->comm[TRI_NODE];
  return p->comm[to == TRI_SHARD_NODE ? TRI_CROSS : TRI_WORLD];
}
/* Of the share that a rank has new weights of. */
static inline tri_shard_scope tri_params_fine(const tri_params *p) {
  return p->opt.train ? p->opt.plan.optim : p->opt.plan.params;
}
/* Stage k of an accumulator's last reduction: from the gradient share to the optimizer share, then over
 * replicas that hold the same share. NULL: the plan has none. */
static inline tri_comm *tri_params_stage(const tri_params *p, int k) {
  tri_shard_scope o = p->opt.plan.optim;
  tri_comm       *c = NULL;

  if (k == 0)
    c = tri_params_comm_between(p, p->opt.plan.grads, o);
  else if (o != TRI_SHARD_WORLD)
    c = p->comm[o == TRI_SHARD_NONE ? TRI_WORLD : TRI_CROSS];
  return c && c->size > 1 ? c : NULL;
}
/* The memory that the ranks share; NULL: none, or they cannot. */
static inline tri_segment *tri_params_segment(const tri_params *p) {
  return p->buffers[TRI_PHASE_ALWAYS].segment;
}
/* Whether weights must be gathered before they are used. */
static inline bool tri_params_gathers(const tri_params *p) {
  return !p->resident && !(p->in_place && tri_params_segment(p));
}
/* For messages and a trace: the collective that starts next carries u's weights, say. */
static inline void tri_params_carry(const tri_params *p, const tri_param_unit *u, const char *what) {
  tri_rank_status_carry(p->opt.label, u->spec->name, what);
  tri_trace_carry(p->device->trace, p->opt.label, u->spec->name, what);
}

/* params_gather.c. Collective over the ranks among which a `to` share divides into `from` shares: everyone's
 * `from` share of buf [to_range.count] is spread to all of them; req as in tri_all_gather. */
TRI_CHECKED tri_status tri_params_spread(tri_params *p, const tri_param_unit *u, void *buf, tri_dtype t,
                                         tri_shard_scope to, tri_range to_range, tri_shard_scope from,
                                         tri_range from_range, tri_stream *s, tri_req *req);
/* params_gather.c. Collective over the parameter scope where a gather is on its way, and waits for it in s:
 * what the slot holds is out of date, or its room was lent. */
TRI_CHECKED tri_status tri_params_forget(tri_params *p, tri_param_slot *sl, tri_stream *s);

/* params_gather.c. Collective over the parameter scope. No gather is under way, and no unit of the ring is
 * there: weights are about to be written. */
TRI_CHECKED tri_status tri_params_forget_unused(tri_params *p, tri_stream *s);

/* What a pass of a store's shared segment says. */
enum {
  TRI_GENERATION_BARRIER,
  TRI_GENERATION_FREED,
  TRI_GENERATION_PACKED,
  TRI_GENERATION_KINDS = TRI_GENERATION_PACKED + 4
}; /* + TRI_USE_* */
static inline uint32_t tri_params_generation(const tri_params *p, const tri_param_unit *u, int kind) {
  return (uint32_t)(u - p->unit) * TRI_GENERATION_KINDS + (uint32_t)kind;
}

/* params_share.c. Not collective. So many bytes of what the ranks have in common in a phase; *where is set by
 * bind. After the last of them: their pieces in the ledger. */
TRI_CHECKED tri_status tri_params_share(tri_params *p, tri_phase phase, bool state, size_t bytes,
                                        void **where);
TRI_CHECKED tri_status tri_params_share_plan(tri_params *p, tri_ledger *l);
/* params_share.c. Collective over world, once tri_comm_start is done; again it costs nothing. */
TRI_CHECKED tri_status tri_params_share_bind(tri_params *p);
void                   tri_params_share_close(tri_params *p);
/* params_share.c. Collective over the parameter scope. Where ranks share: nobody goes on before all have
 * come. */
TRI_CHECKED tri_status tri_params_barrier(tri_params *p);

/* offload.c. Not collective, these two. Plans a trained store's space on the device. */
TRI_CHECKED tri_status tri_offload_open(tri_params *p, tri_ledger *l);
void                   tri_offload_close(tri_params *p);
/* offload.c. Not collective. s waits until all that tri_params_optim_each wrote is back. */
TRI_CHECKED tri_status tri_offload_settle(tri_params *p, tri_stream *s);
/* offload.c. Collective over the parameter scope, these two. Starts bringing a frozen unit's weights to a
 * slot, from this rank's host memory and then from all that share them; s waits for it. */
TRI_CHECKED tri_status tri_offload_gather(tri_params *p, tri_param_unit *u, tri_param_slot *sl,
                                          tri_stream *s);
TRI_CHECKED tri_status tri_offload_wait(tri_params *p, tri_param_slot *sl, tri_stream *s);
/* offload.c. Whether this kind of the store's state is in host memory. */
bool tri_offload_holds(const tri_params *p, tri_state_kind kind);
/* offload.c. Collective over c. As tri_params_spread, of an array in host memory: buf has a part of
 * per_rank elements for each rank of c, and every rank brings its own. */
TRI_CHECKED tri_status tri_offload_spread(tri_params *p, tri_param_unit *u, void *buf, tri_dtype t,
                                          tri_comm *c, int64_t per_rank, tri_stream *s);

#endif
