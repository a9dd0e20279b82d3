/* comm_host.h - the communicators over host memory: the queue of pending collectives, the ways to carry them
 * out. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_HOST_H
#define TRI_COMM_HOST_H

#include "comm_maker.h"

/* Collectives of one communicator that may be pending. Chosen: two gathers and two reductions, and as many
 * again. */
enum { TRI_RING = 8 };

typedef struct tri_host_comm tri_host_comm;

/* How collectives are carried out. Sequence numbers count from 1; number n lives in ring[n % TRI_RING].
 * Every number is started, then finished, in order, on every rank of the communicator. finish sets h->from_s
 * and to_s, unless they are set, where it knows better than from its start to its end (tri_traffic). */
typedef struct tri_coll_way {
  tri_status (*start)(tri_host_comm *h, const tri_coll *k, uint64_t number);
  tri_status (*finish)(tri_host_comm *h, const tri_coll *k, uint64_t number);
} tri_coll_way;

struct tri_host_comm {
  tri_comm               base;
  const tri_coll_way    *way;
  tri_device            *device; /* borrowed */
  int                    threads;
  bool                   direct; /* it was opened as TRI_BY_SHM */
  uint64_t               started, finished;
  tri_coll               ring[TRI_RING];
  tri_trace_note         about[TRI_RING];   /* of each; nothing in a run without a trace */
  double                 begun_s[TRI_RING]; /* when each was started, as tri_now_s */
  double                 from_s, to_s;      /* of the one being finished: from when to when its data moved */
  struct tri_mpi_way    *mpi;               /* owned, comm_mpi.c */
  struct tri_shm_way    *shm;               /* owned, comm_shm.c; NULL if not attached */
  struct tri_staged_way *staged;            /* owned, comm_staged.c; NULL if this is another way */
};

/* Collective over the communicator's ranks. c is duplicated. */
TRI_CHECKED tri_status tri_mpi_way_open(tri_host_comm *h);
void                   tri_mpi_way_close(struct tri_mpi_way **w);
/* Pure. Host memory that reductions among so many ranks take, once there is one. */
size_t                    tri_mpi_way_bytes(int size);
extern const tri_coll_way tri_mpi_way_ops;
/* Collective. Start and finish in one. */
TRI_CHECKED tri_status tri_mpi_way_run(tri_host_comm *h, const tri_coll *k);

/* Collective over world. *attached: every rank could map its neighbours' blocks; then each h whose ranks are
 * all on one machine has its shm set. Else *attached is false on every rank; a warning says what was missing
 * where shared memory was wanted and a machine has several ranks. */
TRI_CHECKED tri_status    tri_shm_way_attach(const struct tri_runtime *rt,
                                             tri_host_comm *const h[TRI_SCOPE_COUNT], tri_device *d,
                                             const void *base, size_t bytes, bool wanted, bool *attached);
void                      tri_shm_way_close(struct tri_shm_way **w);
extern const tri_coll_way tri_shm_way_ops;

/* The way for memory the host cannot reach. Not collective: open, attach, close. */
enum { TRI_STAGE_BYTES = 4 << 20 }; /* chosen: large enough for the speed of a bus or a network */
TRI_CHECKED tri_status tri_staged_way_open(tri_host_comm *h);
void                   tri_staged_way_attach(tri_host_comm *h, void *stage); /* TRI_STAGE_BYTES, borrowed */
void                   tri_staged_way_close(tri_host_comm *h);
extern const tri_coll_way tri_staged_way_ops;

/* An MPI call that failed: TRI_ECOMM with MPI's own words. MPI_SUCCESS is 0 (MPI 3.1, section 8.4). */
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
