/* comm.h - scopes, collectives on device memory, control plane on host memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_H
#define TRI_COMM_H

#include "base/tensor.h"
#include "device/device.h"

struct tri_runtime;

/* Scopes: all ranks; the ranks of this node; the ranks with my local rank on every node.
 * World ranks are numbered local_rank * nodes + node, so that a node's share of a unit is one contiguous
 * piece and a world share is a piece of that (shard.h). runtime.c re-orders MPI_COMM_WORLD once. */
typedef enum { TRI_WORLD, TRI_NODE, TRI_CROSS, TRI_SCOPE_COUNT } tri_scope;
typedef enum { TRI_SUM, TRI_MAX } tri_redop;
/* How a communicator carries out collectives on device memory, chosen when it is opened:
 *   SHM     host memory that the ranks of one machine share; MPI where ranks are on several
 *   MPI     host memory
 *   STAGED  any device's memory, through page-locked host memory and MPI: for builds without NCCL, and for
 *           tests in which ranks share a GPU
 *   NCCL    device memory */
typedef enum { TRI_BY_SHM, TRI_BY_MPI, TRI_BY_STAGED, TRI_BY_NCCL, TRI_COMM_WAYS } tri_comm_way;
typedef struct tri_comm tri_comm;

/* A pending collective; all zero when there is none. */
typedef struct tri_req {
  void    *impl;
  uint64_t number; /* of its scope's collectives (peers/rank_status.h) */
} tri_req;

typedef enum { TRI_ALL_GATHER, TRI_REDUCE_SCATTER, TRI_ALL_REDUCE, TRI_COLL_KINDS } tri_coll_kind;

/* One collective. count: elements per rank for the first two kinds, else of the whole buffer, which is
 * recv. */
typedef struct tri_coll {
  tri_coll_kind kind;
  void         *recv;
  const void   *send;
  int64_t       count;
  tri_dtype     dtype;
  tri_redop     op;
  tri_stream   *stream; /* it runs after the work in this stream */
} tri_coll;

/* This rank's memory for tri_comm_start; it must live until the communicators are closed. */
typedef struct tri_comm_memory {
  void    *base, *gathered;       /* TRI_MEM_DEVICE block; the part of it that gathers read and write */
  size_t   bytes, gathered_bytes; /* of them */
  uint64_t layout;                /* says what lies where in the block */
  void    *stage;                 /* tri_comm_stage_bytes of them, TRI_MEM_PINNED */
} tri_comm_memory;

/* The communicator back end: of host memory (SHM, MPI, STAGED), or NCCL's. Collective over c but for close;
 * start: over world. What the doors below promise is kept by it. */
typedef struct tri_comm_ops {
  /* Device memory that its library takes beside the plan where there is more than one rank: at least, and
   * for each scope and direction that is used. */
  size_t beside_bytes, beside_each;
  /* The world's is called for all scopes; as tri_comm_start. */
  tri_status (*start)(const struct tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                      const tri_comm_memory *m);
  /* What the doors below pass on: c has several ranks and k->count is not 0. req->impl is NULL before. */
  tri_status (*submit)(tri_comm *c, const tri_coll *k, tri_req *req);
  /* s waits, any stream of the device. A zero req is legal. */
  tri_status (*wait)(tri_comm *c, tri_req *req, tri_stream *s);
  void (*close)(tri_comm **c);
} tri_comm_ops;

/* A collective as it was timed: bytes that a rank gives in rings, in one of X bytes in all X (size - 1) /
 * size, in an all_reduce two of them (Thakur et al. 2005), in so many seconds. All zero: none. */
typedef struct tri_flow {
  double bytes, s;
  int    rings;
} tri_flow;

/* What this rank gave in a communicator's collectives on device memory: since it was opened, and since a step
 * began (tri_comm_traffic_begin). best: the fastest of the timed ones that carried at least half of what the
 * largest did. Timed is what moves data: in "shm" this rank's reading once all ranks' data lies there; in
 * "mpi" a gather from its start, a reduction from where this rank is free for it; in "staged" from where this
 * rank's data is there. So a rank that comes late and compute beside only make it longer, and the fastest is
 * nearest to what the link can do. Small ones may come from a cache, or before they are asked for. "nccl" is
 * not timed: its streams would have to be waited for. */
typedef struct tri_traffic {
  double   bytes, step_bytes;
  double   most; /* bytes of the largest that was timed; 0: none was */
  tri_flow best, step_best;
} tri_traffic;

/* First member of each back end's own struct. */
struct tri_comm {
  const tri_comm_ops *ops;
  tri_comm_way        way;
  tri_scope           scope;
  int                 rank, size;
  bool  near; /* several ranks, all on one machine, that may share memory of CPUs: of TRI_NODE, else false */
  void *mpi;  /* MPI_Comm *: control plane and HDF5; owned. NULL: pretended, rank 0 is alone (session.h) */
  tri_traffic traffic;
  unsigned    expected; /* tri_coll_kind as bits: tri_comm_expect */
};

/* Collective over world. One scope, served by the back end of d: "shm" or "mpi" for the CPU; for a GPU
 * "nccl" where it is built in, else "staged". run.collectives, rank 0's, chooses another (base/choice.h):
 * mpi, staged, nccl. TRI_ECONFIG if it names one that does not serve d, TRI_EABSENT if it is not in this
 * build. TRI_EDEVICE where ranks have the same GPU and run.collectives is auto: sharing one is for tests and
 * slow. Every rank fails alike. */
TRI_CHECKED tri_status tri_comm_open(const struct tri_runtime *rt, tri_scope scope, tri_device *d,
                                     tri_comm **out);
void                   tri_comm_close(tri_comm **c);
/* Not collective. Whether tri_comm_open would take what run.collectives says, for a device of this name. */
TRI_CHECKED tri_status tri_comm_check(const char *device);
/* Not collective. A scope of so many ranks on CPUs or, where d is a GPU, on GPUs, of which only rank 0 is
 * there, for plans (session.h); *out by TRI_FREE. */
TRI_CHECKED tri_status tri_comm_pretend(tri_scope scope, int size, const tri_device *d, tri_comm **out);
/* Not collective. Bytes of page-locked host memory that tri_comm_start wants from its caller; mostly 0. */
size_t tri_comm_stage_bytes(tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective; the same on every rank, before tri_comm_start. Collectives of this kind will come; c NULL
 * or of one rank: nothing. "nccl" connects for those, and no others may come. */
void tri_comm_expect(tri_comm *c, tri_coll_kind k);
/* Not collective. Of a GPU's memory: what the communicators take for what is expected. */
size_t tri_comm_beside_bytes(tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective, once the plan is whole. Host memory that reductions through MPI take beside the plan, where
 * machine_ranks ranks of the world are on this machine. */
size_t tri_comm_host_bytes(tri_comm *const comm[TRI_SCOPE_COUNT], int machine_ranks);
/* Collective over world, once, when every scope is open and the planned memory is taken: before the first
 * collective on device memory. What each way does with this rank's memory:
 *   SHM     maps the neighbours' blocks. Where a rank cannot, all ranks take MPI, with a warning; so does a
 *           scope whose ranks are on several machines. Its way is TRI_BY_MPI then. A collective whose buffer
 *           (send of all_gather and reduce_scatter, else buf) is outside m->base on any rank takes MPI.
 *   MPI     nothing
 *   STAGED  takes m->stage
 *   NCCL    connects the ranks, by collectives of each kind that is expected; TRI_ENOMEM where that leaves
 *           too little memory. Gathers inside m->gathered go directly between machines, where layout and
 *           bytes are the same on every rank. From then on a rank whose neighbour died, or whose collective
 *           does not end within run.timeout_s, says so and ends the run with exit code 76. */
TRI_CHECKED tri_status tri_comm_start(const struct tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT],
                                      tri_device *d, const tri_comm_memory *m);
/* The word for a way in run.collectives and in logs: "shm". */
const char *tri_comm_way_text(tri_comm_way way);
/* Collective over world. *n: the ranks, this one included, that share the memory of d: those of this machine
 * for the CPU, those with the same GPU for a GPU. */
TRI_CHECKED tri_status tri_comm_sharers(const struct tri_runtime *rt, tri_comm *world, const tri_device *d,
                                        int *n);

/* Collectives on device memory, comm_coll.c. Collective over c, all that follow. Counts are elements and may
 * exceed 2^31; 0 is legal. A collective runs after the work already in s. With req NULL its result is ready
 * for later work in s; with req given, for work queued after tri_comm_wait, and neither buffer may be touched
 * before that. Several requests may be pending; they are waited for in the order they were started.
 *
 * Sums of f32 and bf16 in "shm", "mpi" and "staged" are made in f32 in rank order, rounded once: their bits
 * are a function of the inputs alone. "nccl" adds in the type given, rounding after every addition (so sum
 * gradients in f32, as params_grad.c does), in an order it derives from ranks, machines and count. Repeated
 * on the same machines with the same NCCL a run should keep its bits, though NCCL's documentation does not
 * promise it; on other machines it need not. For this, sums that switches make (NVLS, SHARP), whose order is
 * not NCCL's, are off unless the user sets NCCL_ALGO. */

/* recv [size * per_rank]; send [per_rank], which may be its place inside recv. */
TRI_CHECKED tri_status tri_all_gather(tri_comm *c, void *recv, const void *send, int64_t per_rank,
                                      tri_dtype t, tri_stream *s, tri_req *req);
/* recv [per_rank]; send [size * per_rank]; recv may be its place inside send. */
TRI_CHECKED tri_status tri_reduce_scatter(tri_comm *c, void *recv, const void *send, int64_t per_rank,
                                          tri_dtype t, tri_redop op, tri_stream *s, tri_req *req);
TRI_CHECKED tri_status tri_all_reduce(tri_comm *c, void *buf, int64_t count, tri_dtype t, tri_redop op,
                                      tri_stream *s, tri_req *req);
/* s waits, any stream of the device. A zero req is legal. */
TRI_CHECKED tri_status tri_comm_wait(tri_comm *c, tri_req *req, tri_stream *s);
/* Not collective. A step begins: its traffic is none yet. */
void tri_comm_traffic_begin(tri_comm *c);

/* Control plane: always MPI, host memory, blocking. Collective over c, all that follow. Sums in rank
 * order. */
TRI_CHECKED tri_status tri_host_sum(tri_comm *c, double *x, int64_t n);
TRI_CHECKED tri_status tri_host_max(tri_comm *c, int64_t *x, int64_t n);
TRI_CHECKED tri_status tri_host_bcast(tri_comm *c, void *buf, size_t bytes, int root);
/* Every rank's `bytes` bytes, one after the other in rank order, on every rank. counts [size]: bytes per
 * rank, filled by the call; *out by tri_host_free. Totals may exceed 2^31. */
TRI_CHECKED tri_status tri_host_gather_all(tri_comm *c, const void *mine, size_t bytes, void **out,
                                           size_t *counts);
/* The same in two: the sizes, then the bytes into out [sum of counts], the caller's. */
TRI_CHECKED tri_status tri_host_gather_sizes(tri_comm *c, size_t bytes, size_t *counts);
TRI_CHECKED tri_status tri_host_gather_into(tri_comm *c, const void *mine, const size_t *counts, void *out);
TRI_CHECKED tri_status tri_host_barrier(tri_comm *c);
/* Every rank brings its own status; every rank leaves with that of the lowest rank whose status is not
 * TRI_OK, and with that rank's message. Collective over c. */
TRI_CHECKED tri_status tri_agree(tri_comm *c, tri_status mine);

/* Collective over two ranks of c, each of which gives the other's; no other rank is waited for. `bytes` of
 * host memory at buf go there and back, times + 1 times, the first not counted. *best_s: seconds of the
 * fastest one way. */
TRI_CHECKED tri_status tri_ping(tri_comm *c, int peer, void *buf, size_t bytes, int times, double *best_s);

/* A shared segment (comm_segment.c): memory that the ranks of a machine have in common, a piece of each,
 * one behind the other. Every rank reads and writes all of it; who may do so when is told by flags: a
 * number of each rank that only grows, one for each tri_segment_generation. */
typedef struct tri_segment tri_segment;

/* Pure. What a shared segment of `bytes` bytes takes of each of `size` ranks' memory (tri_segment_open). */
size_t tri_segment_piece_bytes(size_t bytes, int size);
/* Collective over c, whose `near` is set, after tri_comm_start. A shared segment of `bytes` bytes, zeroed
 * if the pieces are. piece: tri_segment_piece_bytes of memory inside the attached block, the same number
 * on every rank. *out stays NULL, with TRI_OK and a note, on every rank, where the ranks cannot map each
 * other's memory. What lies there lives as long as the block. */
TRI_CHECKED tri_status tri_segment_open(tri_comm *c, void *piece, size_t bytes, tri_segment **out);
void                   tri_segment_close(tri_segment **w);
/* At the same place for every rank of c, but at an address of this one; page-aligned. */
void *tri_segment_base(const tri_segment *w);

/* Not collective. All that this rank has read and written so far is done: the number of the generation.
 * what: a number of the caller's choice that says what it is, the same on every rank. */
uint64_t tri_segment_generation(tri_segment *w, uint32_t what);
/* Collective over c, these two, and so to the watch over the ranks. Waits until all ranks have come to that
 * pass; then what they wrote before is there. */
TRI_CHECKED tri_status tri_segment_wait(tri_segment *w, uint64_t generation);
/* Collective over c. A generation, and the wait for it: TRI_ECOMM where a rank says something else in it. */
TRI_CHECKED tri_status tri_segment_barrier(tri_segment *w, uint32_t what);

#endif
