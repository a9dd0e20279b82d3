/* comm.h - scopes, collectives on device memory, control plane on host memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_H
#define TRI_COMM_H

#include "base/dd.h"
#include "base/tensor.h"
#include "device/device.h"
#include "place.h"

struct tri_runtime;

/* TRI_WORLD holds all ranks. TRI_NODE holds the ranks of this node. TRI_CROSS holds the ranks with my local
 * rank, one on every node. World ranks are numbered local_rank * nodes + node. A rank's share of a unit in
 * its node is therefore one contiguous piece, and its share in the world is a part of that piece (shard.h).
 * runtime.c reorders MPI_COMM_WORLD once.
 *
 * A generating model may be divided among t ranks of a node (tri_place.tensor). Let the node have L ranks,
 * and let m = L / t. Local rank l has slice i = l / m of every matrix.
 *
 *   TRI_TENSOR  the t ranks of my node with my l % m. They hold one model, and my rank there is i.
 *   TRI_MATES   the m ranks of my node with my l / m. They hold the same slice, and my rank there is l % m.
 *
 * Local rank l stores piece l of L of a matrix. Slice i of t is the pieces i m to i m + m - 1, which are
 * the pieces of the mates in the order of their ranks. An all-gather over TRI_MATES therefore makes the
 * slice, in its natural order. With t = L a rank's piece is its slice, and nothing moves. If neighbours
 * held one model (i = l % t), the pieces of slice i would lie on ranks with other slices. Each rank would
 * then have to gather the pieces of all ranks of its node. With t = 1, TRI_TENSOR holds this rank alone,
 * and TRI_MATES the node. The parameter store stores such pieces (state/layout.h) and gathers slices of them
 * (state/residence_slice.c).
 *
 * Headers also speak of the parameter scope and the gradient scope. These are the ranks among which
 * shard.params and shard.grads divide a model: TRI_NODE for `node`, TRI_WORLD for `world`, and this rank
 * alone for `none`. A call that is collective over a scope of one rank does not wait for others.
 *
 * A new scope is a number here, a name in peers/rank_status.c, and a case of tri_scope_find. */
typedef enum { TRI_WORLD, TRI_NODE, TRI_CROSS, TRI_TENSOR, TRI_MATES, TRI_SCOPE_COUNT } tri_scope;

/* The place of a rank in a scope. */
typedef struct tri_scope_place {
  int         which, n;   /* number of its communicator in this scope, and of all of them */
  int         rank, size; /* its rank in the communicator, and the ranks there */
  int         nodes;      /* nodes that these ranks are on */
  const char *of;         /* the word for `which`: "node", "local rank", "group". "": there is only one */
} tri_scope_place;
/* Pure, all three. `at` is the place of the rank among all. */
tri_scope_place tri_scope_find(tri_scope s, const tri_place *at);
/* Returns TRI_NODE if s is TRI_TENSOR or TRI_MATES and holds the whole node. Returns s otherwise. */
tri_scope   tri_scope_same(tri_scope s, const tri_place *at);
const char *tri_scope_text(tri_scope s);
typedef enum { TRI_SUM, TRI_MAX } tri_redop;
/* How a communicator carries out collectives on device memory. The way is chosen when it is opened:
 *   SHM     through host memory shared by the ranks of one machine, and through MPI between machines
 *   MPI     on host memory, through MPI
 *   STAGED  on any device's memory, through page-locked host memory and MPI. It serves builds without NCCL,
 *           and tests with several ranks on one GPU.
 *   NCCL    on device memory */
typedef enum { TRI_BY_SHM, TRI_BY_MPI, TRI_BY_STAGED, TRI_BY_NCCL, TRI_COMM_WAYS } tri_comm_way;
typedef struct tri_comm tri_comm;

/* A pending collective. It is all zero when nothing is pending. */
typedef struct tri_req {
  void    *impl;
  uint64_t number; /* the collective's number in its scope (peers/rank_status.h) */
} tri_req;

typedef enum { TRI_ALL_GATHER, TRI_REDUCE_SCATTER, TRI_ALL_REDUCE, TRI_COLL_KINDS } tri_coll_kind;

/* The buffers of a collective. For TRI_ALL_REDUCE, recv is the whole buffer, per_rank its elements, and send
 * is NULL. */
typedef struct tri_comm_span {
  void       *recv;
  const void *send;
  int64_t     per_rank; /* elements */
} tri_comm_span;

/* One collective, over one span or more. */
typedef struct tri_coll {
  tri_coll_kind        kind;
  const tri_comm_span *span; /* [n_span], borrowed during the call */
  int                  n_span;
  tri_dtype            dtype;
  tri_redop            op;
  tri_stream          *stream;    /* it runs after the work in this stream */
  bool                 in_stream; /* it runs in this stream itself (tri_collective) */
} tri_coll;

/* This rank's memory for tri_comm_start. It must live until the communicators are closed. */
typedef struct tri_comm_memory {
  void    *base, *gathered;       /* TRI_MEM_DEVICE block, and the part used by gathers */
  size_t   bytes, gathered_bytes; /* their sizes */
  uint64_t layout;                /* fingerprint of the block's layout */
  void    *stage;                 /* TRI_MEM_PINNED, tri_comm_stage_bytes long */
} tri_comm_memory;

/* A step recorded once and run many times, with its collectives (tri_comm_record). All zero: none. */
typedef struct tri_comm_step {
  tri_graph *graph; /* owned */
  int        n;     /* its collectives */
  double     bytes; /* bytes that a rank sends in them, as in tri_traffic */
} tri_comm_step;

/* The operations of a communicator back end. One serves host memory (SHM, MPI, STAGED), the other is NCCL's.
 * Collective over c, except `close`. `start` is collective over world. The back end keeps the promises of the
 * functions below. */
typedef struct tri_comm_ops {
  /* Device memory that the back end's library takes outside the plan when there is more than one rank.
   * beside_bytes is the minimum. beside_each is the amount for each scope and direction in use. */
  size_t beside_bytes, beside_each;
  /* The world's operation is called for all scopes, with the arguments of tri_comm_start. */
  tri_status (*start)(const struct tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                      const tri_comm_memory *m);
  /* Called by the functions below when c has several ranks and any span of k has elements. req->impl is NULL
   * before the call. */
  tri_status (*submit)(tri_comm *c, const tri_coll *k, tri_req *req);
  /* Makes s wait. s may be any stream of the device. A zero req is legal. */
  tri_status (*wait)(tri_comm *c, tri_req *req, tri_stream *s);
  void (*close)(tri_comm **c);
  /* Runs a recorded step with collectives of c. NULL: submit cannot be recorded. Otherwise submit is also
   * called while c->recording is set. */
  tri_status (*replay)(tri_comm *c, tri_graph *g, tri_stream *s);
} tri_comm_ops;

/* One timed collective: its seconds, and the bytes sent by a rank in ring algorithms. With a buffer of X
 * bytes, a ring sends X (size - 1) / size bytes. An all_reduce needs two rings (Thakur et al. 2005). All
 * members are zero when nothing was timed. */
typedef struct tri_flow {
  double bytes, s;
  int    rings;
} tri_flow;

/* Bytes sent by this rank in a communicator's collectives on device memory: since it was opened, and since
 * the step began (tri_comm_traffic_begin). `best` is the fastest timed collective among those with at least
 * half the bytes of the largest.
 *
 * Only the movement of data is timed. In "shm" the time runs while this rank reads, after all ranks' data is
 * there. In "mpi" a gather is timed from its start, and a reduction from the moment this rank begins it. In
 * "staged" the time starts when this rank's data is on the host. Late ranks and concurrent compute only
 * lengthen these times, so the fastest one is nearest to the speed of the link. Small collectives are left
 * out because a cache may serve them, or they may end before anyone waits for them. "nccl" is not timed
 * because timing would have to wait for its streams. */
typedef struct tri_traffic {
  double   bytes, step_bytes;
  double   most; /* bytes of the largest timed collective. 0: none was timed */
  tri_flow best, step_best;
} tri_traffic;

/* The first member of each back end's own struct. */
struct tri_comm {
  const tri_comm_ops *ops;
  tri_comm_way        way;
  tri_scope           scope;
  int                 rank, size;
  /* True for a TRI_NODE scope with several ranks that may share host memory. Then all ranks of each node are
   * on one machine. False for other scopes. */
  bool near;
  /* MPI_Comm *, owned, for the control plane and HDF5. NULL: a pretended communicator with rank 0 alone
   * (session.h). */
  void       *mpi;
  tri_traffic traffic;
  /* tri_coll_kind as bits, set by tri_comm_expect. Those of tri_comm_expect_in_stream are TRI_COLL_KINDS bits
   * higher. */
  unsigned       expected;
  tri_comm_step *recording; /* the step being recorded, else NULL */
};

/* Collective over world. Opens one scope on the back end for d. A CPU gets "shm" or "mpi". A GPU gets "nccl"
 * if it is built in, else "staged". Rank 0's run.collectives (base/choice.h) may choose another: mpi, staged,
 * nccl. Every rank fails alike. TRI_ECONFIG: run.collectives names a back end that does not serve d.
 * TRI_EABSENT: the back end is not in this build. TRI_EDEVICE: ranks have the same GPU and run.collectives is
 * auto. Sharing a GPU is slow and meant for tests. */
TRI_CHECKED tri_status tri_comm_open(const struct tri_runtime *rt, tri_scope scope, tri_device *d,
                                     tri_comm **out);
void                   tri_comm_close(tri_comm **c);
/* Not collective. Checks run.collectives for a device of this name, as tri_comm_open would. */
TRI_CHECKED tri_status tri_comm_check(const char *device);
/* Not collective. Makes a scope of `size` ranks for plans (session.h). Only rank 0 exists. The ranks are on
 * GPUs if d is a GPU, else on CPUs. Free *out with TRI_FREE. */
TRI_CHECKED tri_status tri_comm_pretend(tri_scope scope, int size, const tri_device *d, tri_comm **out);
/* Not collective. Bytes of page-locked host memory that the caller must give to tri_comm_start. Usually 0. */
size_t tri_comm_stage_bytes(tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective. Announces collectives of kind k on c. Every rank makes the same calls before
 * tri_comm_start. Does nothing if c is NULL or has one rank. "nccl" connects ranks for the announced kinds
 * only, and no others may follow. */
void tri_comm_expect(tri_comm *c, tri_coll_kind k);
/* Not collective. The same for collectives with in_stream. */
void tri_comm_expect_in_stream(tri_comm *c, tri_coll_kind k);
/* Not collective. Bytes of GPU memory that the communicators take for the announced collectives. */
size_t tri_comm_beside_bytes(tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective. Call it once the plan is complete. Bytes of host memory that reductions through MPI take
 * outside the plan. machine_ranks ranks of the world are on this machine. */
size_t tri_comm_host_bytes(tri_comm *const comm[TRI_SCOPE_COUNT], int machine_ranks);
/* Collective over world. Call it once, after every scope is open and the planned memory is taken, before the
 * first collective on device memory. Each way uses this rank's memory differently:
 *   SHM     maps the neighbours' blocks. If any rank cannot, all ranks take MPI, with a warning. A scope with
 *           ranks on several machines takes MPI too. Its way becomes TRI_BY_MPI. A collective goes through
 *           MPI if its buffer is outside m->base on any rank (send of all_gather and reduce_scatter, else
 *           recv).
 *   MPI     does nothing
 *   STAGED  uses m->stage
 *   NCCL    connects the ranks by collectives of each announced kind. TRI_ENOMEM: too little memory is left
 *           afterwards. Gathers inside m->gathered go directly between machines if layout and bytes are the
 *           same on every rank. From then on, a rank reports a dead neighbour, or a collective that takes
 *           longer than run.timeout_s, and ends the run with exit code 76. */
TRI_CHECKED tri_status tri_comm_start(const struct tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT],
                                      tri_device *d, const tri_comm_memory *m);
/* The word for a way in run.collectives and in logs, such as "shm". */
const char *tri_comm_way_text(tri_comm_way way);
/* Collective over world. Sets *n to the number of ranks that share the memory of d, including this rank. For
 * a CPU these are the ranks of this machine. For a GPU they are the ranks with the same GPU. */
TRI_CHECKED tri_status tri_comm_sharers(const struct tri_runtime *rt, tri_comm *world, const tri_device *d,
                                        int *n);

/* Collectives on device memory (comm_coll.c). Collective over c, all that follow. Counts are elements. They
 * may exceed 2^31, and 0 is legal. A collective runs after the work already in s. With req NULL, later work
 * in s sees the result. With req given, work queued after tri_comm_wait sees it, and neither buffer may be
 * touched earlier. Several requests may be pending. Wait for them in the order they were started.
 *
 * "shm", "mpi" and "staged" sum f32 and bf16 in f32, in rank order, and round once. The bits of a sum depend
 * on the inputs alone. "nccl" adds in the given type and rounds after every addition, so sum gradients in
 * f32, as params_grad.c does. NCCL derives the order of its sums from ranks, machines and count. On the same
 * machines with the same NCCL, a repeated run should keep its bits, though NCCL's documentation does not
 * promise it. On other machines the bits may differ. Switches (NVLS, SHARP) sum in an order of their own, so
 * they are off unless the user sets NCCL_ALGO. */

/* recv is [size * per_rank] and send is [per_rank]. send may be this rank's slice of recv. */
TRI_CHECKED tri_status tri_all_gather(tri_comm *c, void *recv, const void *send, int64_t per_rank,
                                      tri_dtype t, tri_stream *s, tri_req *req);
/* recv is [per_rank] and send is [size * per_rank]. recv may be this rank's slice of send. */
TRI_CHECKED tri_status tri_reduce_scatter(tri_comm *c, void *recv, const void *send, int64_t per_rank,
                                          tri_dtype t, tri_redop op, tri_stream *s, tri_req *req);
TRI_CHECKED tri_status tri_all_reduce(tri_comm *c, void *buf, int64_t count, tri_dtype t, tri_redop op,
                                      tri_stream *s, tri_req *req);
/* The same for a list of n spans, as one collective with one request. Every rank gives as many spans of the
 * same sizes in the same order. A span may have 0 elements. No span may write what another one reads or
 * writes. The list itself is free after the call. The bits are those of n separate collectives, except for
 * sums by "nccl", which may choose another order for a list. */
TRI_CHECKED tri_status tri_all_gather_v(tri_comm *c, const tri_comm_span *span, int n, tri_dtype t,
                                        tri_stream *s, tri_req *req);
TRI_CHECKED tri_status tri_reduce_scatter_v(tri_comm *c, const tri_comm_span *span, int n, tri_dtype t,
                                            tri_redop op, tri_stream *s, tri_req *req);
/* Starts k. The functions above do so for one kind each. With k->in_stream it runs in k->stream itself, as a
 * kernel does, and req is NULL. "nccl" has communicators of their own for such collectives
 * (tri_comm_expect_in_stream). By "shm", "mpi" and "staged" it has ended when the call returns. */
TRI_CHECKED tri_status tri_collective(tri_comm *c, const tri_coll *k, tri_req *req);
/* Makes s wait. s may be any stream of the device. A zero req is legal. */
TRI_CHECKED tri_status tri_comm_wait(tri_comm *c, tri_req *req, tri_stream *s);

typedef tri_status tri_comm_work(void *ctx, tri_stream *s);
/* Collective over c. Records work(ctx, s) without running it, as graph_record does (device.h), which the
 * device must have. work may start collectives with in_stream on c, and on no other communicator. They are
 * counted when the step runs. If a rank cannot record, all ranks return an error, *out is all zero, and s
 * is as before. By "staged" that is TRI_EDEVICE. */
TRI_CHECKED tri_status tri_comm_record(tri_comm *c, tri_stream *s, tri_comm_work *work, void *ctx,
                                       tri_comm_step *out);
/* Collective over c. Runs the step in s. For the monitor over the ranks it is one collective. */
TRI_CHECKED tri_status tri_comm_replay(tri_comm *c, const tri_comm_step *step, tri_stream *s);
/* Not collective. Call it after waiting for all runs, before c is closed. */
void tri_comm_step_close(tri_device *d, tri_comm_step *step);
/* Not collective. Begins a step: resets the step's traffic to none. */
void tri_comm_traffic_begin(tri_comm *c);

/* The control plane. It always uses MPI on host memory and blocks. Collective over c, all that follow. Sums
 * are made in rank order. */
TRI_CHECKED tri_status tri_host_sum(tri_comm *c, double *x, int64_t n);
TRI_CHECKED tri_status tri_host_sum_dd(tri_comm *c, tri_dd *x);
TRI_CHECKED tri_status tri_host_max(tri_comm *c, int64_t *x, int64_t n);
TRI_CHECKED tri_status tri_host_bcast(tri_comm *c, void *buf, size_t bytes, int root);
/* Gives every rank the bytes of all ranks, one after the other in rank order. counts [size] receives the
 * bytes of each rank. Free *out with tri_host_free. Totals may exceed 2^31. */
TRI_CHECKED tri_status tri_host_gather_all(tri_comm *c, const void *mine, size_t bytes, void **out,
                                           size_t *counts);
/* The same in two calls: first the sizes, then the bytes into the caller's out [sum of counts]. */
TRI_CHECKED tri_status tri_host_gather_sizes(tri_comm *c, size_t bytes, size_t *counts);
TRI_CHECKED tri_status tri_host_gather_into(tri_comm *c, const void *mine, const size_t *counts, void *out);
TRI_CHECKED tri_status tri_host_barrier(tri_comm *c);
/* Collective over c. Every rank brings its own status. All ranks return the status and the message of the
 * lowest rank with an error, or TRI_OK. */
TRI_CHECKED tri_status tri_agree(tri_comm *c, tri_status mine);

/* Collective over two ranks of c. Each gives the other's number, and no other rank waits. `bytes` bytes of
 * host memory at buf go there and back times + 1 times. The first round is not counted. *best_s receives the
 * seconds of the fastest one-way trip. */
TRI_CHECKED tri_status tri_ping(tri_comm *c, int peer, void *buf, size_t bytes, int times, double *best_s);

/* A shared segment (comm_segment.c). Each rank of a machine contributes one piece of memory. The pieces are
 * mapped one behind the other, and every rank reads and writes all of them. Flags tell who may do so when.
 * Each rank's flag is a number that only grows, by one for each tri_segment_generation. */
typedef struct tri_segment tri_segment;

/* Pure. Bytes of memory that each of `size` ranks gives to a shared segment of `bytes` bytes
 * (tri_segment_open). */
size_t tri_segment_piece_bytes(size_t bytes, int size);
/* Collective over c, whose `near` must be true, after tri_comm_start. Opens a shared segment of `bytes`
 * bytes. It is zeroed if the pieces are. `piece` is tri_segment_piece_bytes of memory inside the attached
 * block, with the same size on every rank. If the ranks cannot map each other's memory, *out stays NULL on
 * every rank, with TRI_OK and a note in the log. The contents live as long as the block. */
TRI_CHECKED tri_status tri_segment_open(tri_comm *c, void *piece, size_t bytes, tri_segment **out);
void                   tri_segment_close(tri_segment **w);
/* The page-aligned start of the segment's data. Each rank of c sees the same data, at an address of its
 * own. */
void *tri_segment_base(const tri_segment *w);

/* Not collective. Declares all reads and writes of this rank so far as done. Returns the number of the
 * generation. `what` identifies the work by a number of the caller's choice, the same on every rank. */
uint64_t tri_segment_generation(tri_segment *w, uint32_t what);
/* Collective over c, this function and the next. The monitor over the ranks counts both as collectives. Waits
 * until all ranks have reached this generation. Their earlier writes are visible afterwards. */
TRI_CHECKED tri_status tri_segment_wait(tri_segment *w, uint64_t generation);
/* Collective over c. Starts a generation and waits for it. TRI_ECOMM: a rank gave another `what`. */
TRI_CHECKED tri_status tri_segment_barrier(tri_segment *w, uint32_t what);

#endif
