/* nccl_impl.h - the common base of the communicator "nccl": the NCCL communicators of a process, and the
 * watchdog. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_NCCL_IMPL_H
#define TRI_GPU_NCCL_IMPL_H

#include "comm/comm_maker.h"
#include "gpu/base/cuda_impl.h"

#include <nccl.h>
#include <pthread.h>
#include <semaphore.h>

enum { TRI_NCCL_GATHER = TRI_USE_GATHER, TRI_NCCL_REDUCE = TRI_USE_REDUCE, TRI_NCCL_LANES };
enum {
  TRI_NCCL_MADE = TRI_SCOPE_COUNT * TRI_COMM_USES,
  TRI_NCCL_PENDING = 32 /* chosen, more than two models have in flight */
};

/* Exchanged by the ranks, so that a death on this node shows at once. */
typedef struct tri_nccl_info {
  char     boot[40];  /* the kernel's boot id, empty if unknown */
  uint64_t pid_space; /* process ids are comparable if this is equal */
  int64_t  pid;
  char     host[64];
  struct {
    uint64_t bytes, layout, in_page; /* as in tri_comm_start, and bytes from the start of a page */
  } arena;
} tri_nccl_info;

typedef struct tri_nccl_pending {
  uint64_t    number;      /* 0 if never used */
  uint64_t    come;        /* its number in the scope (comm/peers/rank_status.h) */
  cudaEvent_t ready, done; /* the caller's work before it, and the collective itself */
  tri_scope   scope;
  const char *what;  /* its kind, in words */
  int64_t     count; /* elements */
} tri_nccl_pending;

/* The state of a process, shared by the scopes. */
typedef struct tri_nccl_hub {
  int              users, rank, size;         /* users of the hub, rank and size of the world */
  int              device;                    /* CUDA ordinal */
  pthread_mutex_t  lock;                      /* held around all work of NCCL */
  ncclComm_t       made[TRI_NCCL_MADE];       /* owned, in the order made */
  void            *registered[TRI_NCCL_MADE]; /* the arena's handles, NULL if not registered */
  int              n_made;
  bool             spare;                               /* made[0] serves nothing and is never connected */
  int              use[TRI_SCOPE_COUNT][TRI_COMM_USES]; /* indices of made, -1 if unused */
  tri_cuda_stream  lane[TRI_NCCL_LANES];                /* no scratch, no kernel of ours runs there */
  tri_nccl_pending at[TRI_NCCL_PENDING];
  uint64_t         started;
  bool             failed;
  double           wait_s;
  tri_nccl_info   *info; /* [size] */
  /* fields of the watchdog */
  pthread_t watch;
  bool      watching;
  sem_t     stop;
  uint64_t  oldest;  /* the collective it waits for */
  double    since_s; /* the time it began to run */
  int       missing; /* the rank found gone at the last look, or -1 */
} tri_nccl_hub;

tri_status tri_nccl_failed(const char *file, int line, const char *func, ncclResult_t r, const char *what);
/* For calls that are complete when they return. */
#define TRI_NCCL_TRY(call)                                                                                   \
  do {                                                                                                       \
    ncclResult_t try_ = (call);                                                                              \
    if (try_ != ncclSuccess) return tri_nccl_failed(__FILE__, __LINE__, __func__, try_, #call);              \
  } while (0)

/* In the calls that follow the lock is held, or no other thread runs yet. */
/* Asks all running work to quit and frees all communicators at once, because one may wait for another. Not
 * collective. */
void tri_nccl_abort(tri_nccl_hub *h);
/* Collective over comm's ranks. Waits until comm is done with the call that returned r. For ncclCommSplit,
 * comm is the parent. A failed call, a dead rank, or wait_s of silence aborts all communicators. */
TRI_CHECKED tri_status tri_nccl_settle(tri_nccl_hub *h, ncclComm_t comm, ncclResult_t r, const char *what);
/* Collective over comm's ranks. Finalizes and frees comm, and waits some seconds for the others. Returns
 * false if that failed. */
bool tri_nccl_leave(ncclComm_t comm);

/* Not collective. From start to stop a thread watches. It ends the run with a message and exit code 76 in
 * three cases: NCCL reports an error, a collective runs while a rank of this node is gone, or a collective
 * runs longer than wait_s. */
TRI_CHECKED tri_status tri_nccl_watch_start(tri_nccl_hub *h);
void                   tri_nccl_watch_stop(tri_nccl_hub *h);

#endif
