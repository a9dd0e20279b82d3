/* comm_host.h - communicators over host memory: their queue of pending collectives and the ways to run them.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_HOST_H
#define TRI_COMM_HOST_H

#include "comm_maker.h"

/* The number of spans of one communicator that may be pending. Chosen: two gathers and two reductions of
 * eight spans. */
enum { TRI_RING = 32 };

typedef struct tri_host_comm tri_host_comm;

/* How collectives are carried out, span by span. Sequence numbers start at 1. Number n uses
 * ring[n % TRI_RING]. Every rank of the communicator starts every number and then finishes it, in order. In
 * both calls k has one span. By default a collective is timed from the start of its first span to the end of
 * its last (tri_traffic). `finish` sets h->from_s when it knows better, unless it is set already, and h->to_s
 * with every span. */
typedef struct tri_coll_way {
  tri_status (*start)(tri_host_comm *h, const tri_coll *k, uint64_t number);
  tri_status (*finish)(tri_host_comm *h, const tri_coll *k, uint64_t number);
} tri_coll_way;

/* A span in the queue. */
typedef struct tri_pending_span {
  tri_coll       k;       /* its collective, with this span alone */
  tri_comm_span  span;    /* k.span points here */
  int            left;    /* spans of its collective that follow */
  int64_t        count;   /* elements of all its spans */
  double         begun_s; /* when its collective began, by tri_now_s */
  tri_trace_note about;   /* empty in a run without a trace */
} tri_pending_span;

struct tri_host_comm {
  tri_comm               base;
  const tri_coll_way    *way;
  tri_device            *device; /* borrowed */
  int                    threads;
  bool                   direct; /* opened as TRI_BY_SHM */
  uint64_t               started, finished;
  tri_pending_span       ring[TRI_RING];
  double                 from_s, to_s; /* when the data of the collective being finished moved */
  struct tri_mpi_way    *mpi;          /* owned, comm_mpi.c */
  struct tri_shm_way    *shm;          /* owned, comm_shm.c. NULL if not attached */
  struct tri_staged_way *staged;       /* owned, comm_staged.c. NULL for other ways */
};

/* Collective over the communicator's ranks. Duplicates its MPI communicator. */
TRI_CHECKED tri_status tri_mpi_way_open(tri_host_comm *h);
void                   tri_mpi_way_close(struct tri_mpi_way **w);
/* Pure. Bytes of host memory that reductions among `size` ranks take, from the first reduction on. */
size_t                    tri_mpi_way_bytes(int size);
extern const tri_coll_way tri_mpi_way_ops;
/* Collective. Starts and finishes one collective of one span. */
TRI_CHECKED tri_status tri_mpi_way_run(tri_host_comm *h, const tri_coll *k);

/* Collective over world. If every rank could map its neighbours' blocks, *attached is true, and each h with
 * all its ranks on one machine gets its `shm`. Otherwise *attached is false on every rank. If shared memory
 * was wanted and a machine has several ranks, a warning names the obstacle. */
TRI_CHECKED tri_status    tri_shm_way_attach(const struct tri_runtime *rt,
                                             tri_host_comm *const h[TRI_SCOPE_COUNT], tri_device *d,
                                             const void *base, size_t bytes, bool wanted, bool *attached);
void                      tri_shm_way_close(struct tri_shm_way **w);
extern const tri_coll_way tri_shm_way_ops;

/* The way for memory that the host cannot reach. Not collective: open, attach, close. */
enum { TRI_STAGE_BYTES = 4 << 20 }; /* chosen: large enough to reach the full speed of a bus or a network */
TRI_CHECKED tri_status tri_staged_way_open(tri_host_comm *h);
void                   tri_staged_way_attach(tri_host_comm *h, void *stage); /* TRI_STAGE_BYTES, borrowed */
void                   tri_staged_way_close(tri_host_comm *h);
extern const tri_coll_way tri_staged_way_ops;

/* Reports a failed MPI call as TRI_ECOMM with MPI's own text. MPI_SUCCESS is 0 (MPI 3.1, section 8.4). */
tri_status tri_mpi_fail(const char *file, int line, const char *func, int code, const char *call);
#define TRI_MPI(call)                                                                                        \
  do {                                                                                                       \
    int code_ = (call);                                                                                      \
    if (code_) return tri_mpi_fail(__FILE__, __LINE__, __func__, code_, #call);                              \
  } while (0)
/* As TRI_MPI, but sets the local `st` and jumps to `done:`. */
#define TRI_MPI_DONE(call)                                                                                   \
  do {                                                                                                       \
    int code_ = (call);                                                                                      \
    if (code_) {                                                                                             \
      st = tri_mpi_fail(__FILE__, __LINE__, __func__, code_, #call);                                         \
      goto done;                                                                                             \
    }                                                                                                        \
  } while (0)

#endif
