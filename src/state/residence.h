/* residence.h - a table of operations for each place of a store's weights. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RESIDENCE_H
#define TRI_RESIDENCE_H

#include "params_impl.h"

/* A residence is the place of weights while they are used. tri_params_open chooses one, and no other code
 * asks for its name. Each has a file:
 *
 *   whole    Every rank has all weights, so nothing moves.
 *   ring     A unit is gathered from the shares of all ranks into a slot.
 *   segment  The ranks of a node have all weights once, in shared memory, so nothing moves.
 *   host     A frozen store's share lies in host memory. It is copied into a slot and gathered there.
 *
 * A store with slices (tri_params_opt) has a table made from one of the last three. Its plan_slots adds the
 * slices in TRI_PHASE_ROLLOUT, in place of whole units. Its hold makes them. While the store is held, its
 * acquire gives them.
 *
 * Operations are collective over the parameter scope, except as said. A failure ends the run. */
typedef struct tri_residence {
  tri_mem memory;   /* place of this rank's share */
  bool    in_slots; /* start brings weights into a slot. Otherwise tri_param_unit.whole has them */
  /* Not collective, these two. They plan memory for this rank's share of u, and for the slots of all units
   * and their gradients. The ledger owns it. */
  tri_status (*plan_share)(tri_params *p, tri_ledger *l, tri_param_unit *u);
  tri_status (*plan_slots)(tri_params *p, tri_ledger *l);
  tri_status (*prefetch)(tri_params *p, int unit, tri_stream *s); /* or NULL, as tri_params_prefetch */
  /* Brings a unit's weights to tri_params_flat for work in s until release. The caller makes packed forms. */
  tri_status (*acquire)(tri_params *p, int unit, int use, tri_stream *s, tri_param_slot **out);
  /* Not collective. Debug builds fill a slot that is free now with NaN. */
  tri_status (*release)(tri_params *p, int unit, tri_stream *s);
  tri_status (*hold)(tri_params *p, bool hold, tri_stream *s); /* or NULL, as tri_params_hold */
  /* Ends all gathers and drops the units of the ring, with `all` the others too. Or NULL. */
  tri_status (*forget)(tri_params *p, bool all, tri_stream *s);
  /* Only the ring's functions call these two. start begins to bring weights into the slot. If it sets
   * sl->gathering, arrive makes s wait for them. */
  tri_status (*start)(tri_params *p, tri_param_unit *u, tri_param_slot *sl, tri_stream *s);
  tri_status (*arrive)(tri_params *p, tri_param_slot *sl, tri_stream *s);
} tri_residence;
extern const tri_residence tri_residence_whole, tri_residence_ring, tri_residence_segment, tri_residence_host;

/* residence_slice.c. Not collective. The first makes the table of a store with slices from its residence. */
TRI_CHECKED tri_status tri_slices_open(tri_params *p);
void                   tri_slices_close(tri_params *p);

/* residence_ring.c. Not collective, these two. The operations of all implementations that use slots. */
TRI_CHECKED tri_status tri_ring_plan_share(tri_params *p, tri_ledger *l, tri_param_unit *u);
TRI_CHECKED tri_status tri_ring_plan_slots(tri_params *p, tri_ledger *l);
/* Collective, all that follow, as above. */
#define TRI_RING_OPERATIONS                                                                                  \
  .plan_slots = tri_ring_plan_slots, .prefetch = tri_ring_prefetch, .acquire = tri_ring_acquire,             \
  .release = tri_ring_release, .hold = tri_ring_hold, .forget = tri_ring_forget
TRI_CHECKED tri_status tri_ring_prefetch(tri_params *p, int i, tri_stream *s);
TRI_CHECKED tri_status tri_ring_acquire(tri_params *p, int i, int use, tri_stream *s, tri_param_slot **out);
TRI_CHECKED tri_status tri_ring_release(tri_params *p, int i, tri_stream *s);
TRI_CHECKED tri_status tri_ring_hold(tri_params *p, bool hold, tri_stream *s);
TRI_CHECKED tri_status tri_ring_forget(tri_params *p, bool all, tri_stream *s);
TRI_CHECKED tri_status tri_ring_start(tri_params *p, tri_param_unit *u, tri_param_slot *sl, tri_stream *s);
TRI_CHECKED tri_status tri_ring_arrive(tri_params *p, tri_param_slot *sl, tri_stream *s);

/* params_share.c. Not collective, these five. In a store that shares nothing, they do nothing except as said.
 * open sets *all if the ranks that share packed forms are those that divide the weights. plan_part plans
 * bytes of shared memory, and bind sets *where. plan_forms plans packed forms, in the ledger if they are not
 * shared. After the last one, plan puts this rank's pieces of all that into the ledger. */
TRI_CHECKED tri_status tri_shared_open(tri_params *p, bool *all);
void                   tri_shared_close(tri_params *p);
TRI_CHECKED tri_status tri_shared_plan_part(tri_params *p, tri_phase phase, bool state, size_t bytes,
                                            void **where);
TRI_CHECKED tri_status tri_shared_plan_forms(tri_params *p, tri_ledger *l, tri_phase phase, size_t bytes,
                                             void **where);
TRI_CHECKED tri_status tri_shared_plan(tri_params *p, tri_ledger *l);
/* Returns the segment shared by the ranks, or NULL if they share none or cannot. */
tri_segment *tri_shared_segment(const tri_params *p);
/* Not collective. Tells the other ranks that this one has released u in the slot. */
void tri_shared_freed(tri_params *p, const tri_param_unit *u, tri_param_slot *sl);
/* Collective over world, after tri_comm_start. Places the shared memory. A second call costs nothing. */
TRI_CHECKED tri_status tri_shared_bind(tri_params *p);
/* Collective over the parameter scope, these three. A barrier of the ranks that share. The second waits until
 * all have released the slot's previous content, the third until all have packed their parts of u's forms. */
TRI_CHECKED tri_status tri_shared_barrier(tri_params *p);
TRI_CHECKED tri_status tri_shared_wait(tri_params *p, const tri_param_unit *u, const tri_param_slot *sl);
TRI_CHECKED tri_status tri_shared_packed(tri_params *p, const tri_param_unit *u, int use);

/* offload.c. The optimizer state, in host memory if the store offloads it, and copies between host memory and
 * the device. */
struct tri_offload {
  tri_event  *ready;         /* the caller's stream has reached the next copies */
  tri_event  *copied;        /* the last unit of a frozen store is copied */
  tri_stream *fetch, *flush; /* to the device, and back */
};
/* Not collective, up to copy. plan is for u's state of the update, gradients too. open and close do nothing
 * in a store without offload. settle makes s wait until the optimizer state is in its place. follow makes
 * `fetch` wait for the present work in s. copy runs in the stream of this lane, with a span of its own in the
 * trace. */
TRI_CHECKED tri_status tri_offload_plan(tri_params *p, tri_ledger *l, tri_param_unit *u);
TRI_CHECKED tri_status tri_offload_open(tri_params *p, tri_ledger *l);
void                   tri_offload_close(tri_params *p);
TRI_CHECKED tri_status tri_offload_settle(tri_params *p, tri_stream *s);
TRI_CHECKED tri_status tri_offload_follow(tri_params *p, tri_stream *s);
TRI_CHECKED tri_status tri_offload_copy(tri_params *p, const tri_param_unit *u, tri_lane lane, void *to,
                                        const void *from, size_t bytes);
/* Collective over world. Spreads the filled part of an array in this kind of memory over the share of
 * plan.optim. */
TRI_CHECKED tri_status tri_offload_spread(tri_params *p, const tri_param_unit *u, void *array, tri_dtype t,
                                          tri_mem kind, tri_stream *s);

#endif
