/* params_impl.h - structs of the parameter store and the scopes of its shares. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PARAMS_IMPL_H
#define TRI_PARAMS_IMPL_H

#include "comm/peers/rank_status.h"
#include "device/trace.h"
#include "params.h"

#include <stdio.h>

enum {
  TRI_PARAM_RING = 2, /* slots, as one unit computes while the next is gathered */
  TRI_PARAM_STAGES = 2
};

/* Memory for one gathered unit. */
typedef struct tri_param_slot {
  void    *flat;           /* A [padded], or NULL if a unit's weights lie elsewhere (tri_param_unit.whole) */
  void    *packed_buffers; /* the unit's packed forms (tri_param_unit) */
  int      unit;           /* unit of the weights here or on their way, or -1 */
  bool     busy;           /* acquired */
  bool     gathering;      /* weights are on their way */
  bool     have[2];        /* packed forms made, forward and backward */
  uint64_t freed;          /* in a store that shares, the generation of the shared segment at its release */
  tri_req  req;
} tri_param_slot;

/* Memory for one unit's full gradient in one micro-batch. */
typedef struct tri_grad_slot {
  float  *grad; /* f32 [padded], or NULL if gradients go straight to the accumulator */
  int     unit; /* or -1 */
  bool    last; /* the gradient being reduced is from the last micro-batch before the update */
  tri_req req;
} tri_grad_slot;

typedef struct tri_param_unit {
  const tri_unit_spec *spec;
  void                *weight; /* A, this rank's share by plan.params */
  void                *whole;  /* A [padded] around `weight` if all weights lie in one place, else NULL */
  /* f32, the optimizer share, or NULL for kinds not kept. Master weights are not kept if the compute type is
   * f32, as `weight` includes the share. */
  float *state[TRI_STATE_COUNT];
  float *acc; /* f32, the gradient share */
  /* [n_linear] bytes of the packed forms for fwd, then for bwd. 0 if the weight itself serves. */
  size_t         *packed_bytes[2];
  const void    **packed[2];        /* [n_linear] of the acquired unit */
  tri_tensor     *view, *grad_view; /* [n_param] of the acquired unit, and of its gradient */
  tri_param_slot *own;              /* slot of a unit that uses no slot of the ring, or NULL */
  tri_param_slot  alone, held;      /* `own` unless units share it, and the slot for generation */
  tri_grad_slot   grad;             /* slot of a unit outside the ring, unless units share it */
  int64_t        *kept; /* [n_param] of a slice, the param's offset in held.flat, or -1 (residence_slice.c) */
  bool            grad_open;
  bool            fresh; /* acc holds nothing yet, so the next gradient is written, not added */
} tri_param_unit;

/* A unit with a collective that runs beside compute. */
typedef struct tri_param_flight {
  tri_param_unit *unit; /* NULL for none */
  tri_req         req;
} tri_param_flight;

typedef struct tri_shared  tri_shared;  /* params_share.c */
typedef struct tri_offload tri_offload; /* offload.c */
typedef struct tri_pieces  tri_pieces;  /* offload.c */

struct tri_params {
  tri_params_opt              opt;
  tri_layout                  layout;
  tri_device                 *device;                /* borrowed */
  tri_comm                   *comm[TRI_SCOPE_COUNT]; /* borrowed */
  const struct tri_residence *residence;             /* the place of weights while they are used */
  struct tri_residence       *with_slices;           /* owned, or NULL. Then it is the residence */
  tri_param_unit             *slice;                 /* [n_unit] owned, or NULL (residence_slice.c) */
  tri_param_slot              transit;               /* for the unit whose slice is being made */
  tri_mem                     optim_memory;          /* place of the optimizer state, except gradients */
  tri_param_unit             *unit;
  int64_t        ring_elements, apart_elements; /* the largest unit of the ring, and of those apart, padded */
  tri_param_slot ring[TRI_PARAM_RING], apart;
  bool           held; /* all units are gathered for generation (residence_ring.c) */
  tri_grad_slot  grad_ring[TRI_PARAM_RING], grad_apart;
  tri_grad_slot *pending;                  /* slot of a micro-batch's running reduction */
  tri_param_flight last[TRI_PARAM_STAGES]; /* an accumulator's last reductions */
  tri_param_flight news;                   /* new weights on their way to their holders */
  tri_dd          *sum, *host_sum;         /* [1], on the device and pinned */
  void            *matrix; /* A, space for the largest matrix made of blocks or joined rows, or NULL */
  size_t           matrix_bytes;
  tri_shared      *shared;  /* owned, or NULL if the ranks of a node share nothing */
  tri_offload     *offload; /* owned, or NULL if nothing lies in host memory */
  tri_pieces      *pieces;  /* owned, or NULL if the optimizer state is on the device */
};

static inline const tri_kernels *tri_params_kernels(const tri_params *p) { return p->device->ops->kernels; }
static inline size_t tri_params_weight_bytes(const tri_params *p) { return tri_dtype_bytes(p->opt.dtype); }
/* Returns the param as a view of the unit's flat buffer `flat`. */
static inline tri_tensor tri_param_view(const tri_param_spec *f, void *flat, tri_dtype t) {
  tri_tensor v = {(char *)flat + (size_t)f->offset * tri_dtype_bytes(t), t, f->ndim, {1, 1, 1, 1}};
  for (int i = 0; i < f->ndim; i++) v.dim[i] = f->dim[i];
  return v;
}
static inline int tri_params_index(const tri_params *p, const tri_param_unit *u) {
  return (int)(u - p->unit);
}
static inline int64_t tri_params_padded(const tri_params *p, const tri_param_unit *u) {
  return tri_layout_padded(&p->layout, tri_params_index(p, u));
}
/* Returns a gathered unit's weights, A [padded]. */
static inline void *tri_params_flat(const tri_param_unit *u, const tri_param_slot *sl) {
  return u->whole ? u->whole : sl->flat;
}
/* As tri_layout_count, tri_layout_fields, tri_layout_share and tri_layout_at. */
static inline int64_t tri_params_count(const tri_params *p, const tri_param_unit *u, tri_shard_scope s) {
  return tri_layout_count(&p->layout, tri_params_index(p, u), s);
}
static inline int tri_params_fields(const tri_params *p, const tri_param_unit *u) {
  return tri_layout_fields(&p->layout, tri_params_index(p, u));
}
static inline tri_range tri_params_share(const tri_params *p, const tri_param_unit *u, int field,
                                         tri_shard_scope s) {
  return tri_layout_share(&p->layout, tri_params_index(p, u), field, s);
}
static inline int64_t tri_params_at(const tri_params *p, const tri_param_unit *u, tri_shard_scope s,
                                    int64_t element) {
  return tri_layout_at(&p->layout, tri_params_index(p, u), s, element);
}
/* Return the address of a flat element of the unit in this rank's share, or NULL if the array is not kept.
 * The arrays are the weights, the accumulator and this kind of f32 state. The state of the weights is the
 * master copy or the weights themselves. TRI_STATE_WEIGHT is not valid for a frozen 16-bit store. */
static inline void *tri_params_weight_at(const tri_params *p, const tri_param_unit *u, int64_t element) {
  int64_t at = tri_params_at(p, u, p->layout.plan.params, element);
  return u->weight ? (char *)u->weight + (size_t)at * tri_params_weight_bytes(p) : NULL; /* or no params */
}
static inline float *tri_params_acc_at(const tri_params *p, const tri_param_unit *u, int64_t element) {
  int64_t at = tri_params_at(p, u, p->layout.plan.grads, element);
  return u->acc ? u->acc + at : NULL;
}
static inline float *tri_params_state_at(const tri_params *p, const tri_param_unit *u, tri_state_kind kind,
                                         int64_t element) {
  if (u->state[kind]) return u->state[kind] + tri_params_at(p, u, p->layout.plan.optim, element);
  return kind == TRI_STATE_WEIGHT ? tri_params_weight_at(p, u, element) : NULL;
}
/* Returns the communicator of the ranks among which the coarser share `to` divides into finer shares `from`,
 * or NULL if both are equal. */
static inline tri_comm *tri_params_comm_between(const tri_params *p, tri_shard_scope to,
                                                tri_shard_scope from) {
  if (to == from) return NULL;
  if (from == TRI_SHARD_NODE) return p->comm[TRI_NODE];
  return p->comm[to == TRI_SHARD_NODE ? TRI_CROSS : TRI_WORLD];
}
/* The same for a whole unit. The second is true if scope s divides anything. */
static inline tri_comm *tri_params_comm(const tri_params *p, tri_shard_scope s) {
  return tri_params_comm_between(p, TRI_SHARD_NONE, s);
}
static inline bool tri_params_splits(const tri_params *p, tri_shard_scope s) {
  tri_comm *c = tri_params_comm(p, s);
  return c && c->size > 1;
}
/* Returns the communicator of stage k of an accumulator's last reduction. Stage 0 goes from the gradient
 * share to the optimizer share, and stage 1 over replicas of the same share. NULL if the plan has no such
 * stage. */
static inline tri_comm *tri_params_stage(const tri_params *p, int k) {
  tri_shard_scope o = p->layout.plan.optim;
  tri_comm       *c = NULL;

  if (k == 0)
    c = tri_params_comm_between(p, p->layout.plan.grads, o);
  else if (o != TRI_SHARD_WORLD)
    c = p->comm[o == TRI_SHARD_NONE ? TRI_WORLD : TRI_CROSS];
  return c && c->size > 1 ? c : NULL;
}
/* Names the content of the next collective, such as u's weights, for messages and the trace. */
static inline void tri_params_carry(const tri_params *p, const tri_param_unit *u, const char *what) {
  tri_rank_status_carry(p->opt.label, u->spec->name, what);
  tri_trace_carry(p->device->trace, p->opt.label, u->spec->name, what);
}

/* Not collective, both. Add an entry named after the store to the ledger. The second is for memory whose
 * content is dropped before another store is used, unless it is always needed. */
static inline TRI_CHECKED tri_status tri_params_plan(const tri_params *p, tri_ledger *l, tri_mem kind,
                                                     tri_phase phase, bool state, const char *what,
                                                     size_t bytes, void *where) {
  char name[48];
  snprintf(name, sizeof name, "%s %s", p->opt.label, what);
  return tri_ledger_add(l, kind, phase, state, name, bytes, where);
}
static inline TRI_CHECKED tri_status tri_params_plan_work(const tri_params *p, tri_ledger *l, tri_phase phase,
                                                          const char *what, size_t bytes, void *where) {
  tri_status st;
  tri_ledger_set_member(l, phase == TRI_PHASE_ALWAYS ? 0 : p->opt.member);
  st = tri_params_plan(p, l, TRI_MEM_DEVICE, phase, false, what, bytes, where);
  tri_ledger_set_member(l, 0);
  return st;
}

/* Returns the unit as acquire shows it now, a slice if slices are held. */
static inline tri_param_unit *tri_params_shown(const tri_params *p, int index) {
  return p->held && p->slice ? &p->slice[index] : &p->unit[index];
}

/* A collective between the coarser share `to` of a unit in the array `whole`, and the finer shares `from` in
 * the array `share` of each rank. share NULL: this rank's share lies in its place in `whole`. */
typedef struct tri_exchange {
  const char     *what; /* for messages and the trace (tri_params_carry) */
  tri_coll_kind   kind; /* TRI_ALL_GATHER brings `share` to `whole`, TRI_REDUCE_SCATTER the reverse */
  tri_shard_scope to, from;
  void           *whole, *share;
  tri_dtype       dtype;
} tri_exchange;
/* offload.c. Collective over the ranks among which `to` divides into `from`. Starts it for all fields of u.
 * req is used as in tri_all_gather. */
TRI_CHECKED tri_status tri_params_exchange(const tri_params *p, const tri_param_unit *u,
                                           const tri_exchange *x, tri_stream *s, tri_req *req);
/* params_gather.c. Not collective. Allocates u's views, and computes the sizes of its packed forms. */
TRI_CHECKED tri_status tri_params_open_views(tri_params *p, tri_param_unit *u);
void                   tri_params_close_views(tri_param_unit *u);
/* params_gather.c. Not collective. Makes the matrix of a product from its blocks x [n], in p->matrix. */
TRI_CHECKED tri_status tri_params_put_blocks(tri_params *p, const tri_blocks *b, const tri_tensor *x, int n,
                                             tri_stream *s, tri_tensor *w);
/* params_gather.c. Pure. Returns the address of linear[j]'s form for this use in the slot, or NULL if the
 * weight itself serves. */
void *tri_params_packed_at(const tri_param_unit *u, const tri_param_slot *s, int use, int j);
/* params_gather.c. Pure. The bytes of u's packed forms, for fwd alone or for bwd too. */
size_t tri_params_packed_bytes(const tri_param_unit *u, bool backward);
/* params_gather.c. Not collective. Makes the packed forms of a gathered unit for this use, in a store that
 * shares this rank's part of them. */
TRI_CHECKED tri_status tri_params_pack(tri_params *p, tri_param_unit *u, tri_param_slot *sl, int use,
                                       tri_stream *s);
/* params_gather.c. Collective over the parameter scope, these three. The first ends all gathers and drops the
 * units of the ring, before weights are written. The second makes s wait for a slot's gather, if one runs.
 * The third then drops the content, because it is out of date or its memory was lent. */
TRI_CHECKED tri_status tri_params_forget_unused(tri_params *p, tri_stream *s);
TRI_CHECKED tri_status tri_slot_arrive(tri_params *p, tri_param_slot *sl, tri_stream *s);
TRI_CHECKED tri_status tri_slot_forget(tri_params *p, tri_param_slot *sl, tri_stream *s);

/* params_grad.c. Not collective. Plans the slots for gradients. A frozen store, and one whose gradients go
 * straight to the accumulator, needs no memory for them. */
TRI_CHECKED tri_status tri_grads_plan(tri_params *p, tri_ledger *l);

#endif
