/* nccl_impl.h - what the files of the communicator "nccl" share: the NCCL communicators of a process, and
 * the watchdog. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_NCCL_IMPL_H
#define TRI_GPU_NCCL_IMPL_H

#include "comm/comm_maker.h"
#include "gpu/base/cuda_impl.h"

#include <nccl.h>
#include <pthread.h>
#include <semaphore.h>

enum { TRI_NCCL_GATHER, TRI_NCCL_REDUCE, TRI_NCCL_LANES };
enum {
  TRI_NCCL_MADE = TRI_SCOPE_COUNT * TRI_NCCL_LANES,
  TRI_NCCL_PENDING = 32 /* chosen: more than two models have under way */
};

/* What ranks tell each other, so that a death on this machine shows at once. */
typedef struct tri_nccl_info {
  char     boot[40];  /* the kernel's name for this start of the machine; empty if unknown */
  uint64_t pid_space; /* process numbers mean the same where this is equal */
  int64_t  pid;
  char     host[64];
  struct {
    uint64_t bytes, layout, in_page; /* tri_comm_start; bytes from the start of a page */
  } arena;
} tri_nccl_info;

typedef struct tri_nccl_pending {
  uint64_t      number;      /* 0: never used */
  uint64_t      come;        /* its number in the scope (comm/peers/rank_status.h) */
  cudaEvent_t   ready, done; /* the caller's work before it; itself */
  tri_scope     scope;
  tri_coll_kind kind;
  int64_t       count;
} tri_nccl_pending;

/* One per process, shared by the scopes. */
typedef struct tri_nccl_hub {
  int              users, rank, size;         /* of the world */
  int              device;                    /* CUDA ordinal */
  pthread_mutex_t  lock;                      /* held around all that NCCL does */
  ncclComm_t       made[TRI_NCCL_MADE];       /* owned, in the order made */
  void            *registered[TRI_NCCL_MADE]; /* the arena's handles; NULL: it is not */
  int              n_made;
  bool             spare;                                /* made[0] serves no lane, and is never connected */
  int              use[TRI_SCOPE_COUNT][TRI_NCCL_LANES]; /* indices of made; -1: unused */
  tri_cuda_stream  lane[TRI_NCCL_LANES];                 /* without scratch: no kernel of ours runs there */
  tri_nccl_pending at[TRI_NCCL_PENDING];
  uint64_t         started;
  bool             failed;
  double           wait_s;
  tri_nccl_info   *info; /* [size] */
  /* the watchdog's */
  pthread_t watch;
  bool      watching;
  sem_t     stop;
  uint64_t  oldest;  /* the collective it waits for */
  double    since_s; /* since when it runs */
  int       missing; /* the rank that was gone at the last look, or -1 */
} tri_nccl_hub;

tri_status tri_nccl_failed(const char *file, int line, const char *func, ncclResult_t r, const char *what);
/* For calls that are done when they return. */
#define TRI_NCCL_TRY(call)                                                                                   \
  do {                                                                                                       \
    ncclResult_t try_ = (call);                                                                              \
    if (try_ != ncclSuccess) return tri_nccl_failed(__FILE__, __LINE__, __func__, try_, #call);              \
  } while (0)

/* The lock is held, or nobody else is there yet, in the calls that follow. */
/* Asks everything that runs to quit, and frees all communicators at once, as one may wait for another. Not
 * collective. */
void tri_nccl_abort(tri_nccl_hub *h);
/* Collective over comm's ranks. Until comm is done with what returned r (of ncclCommSplit: the parent). A
 * call that fails, a rank that is gone or wait_s of silence abort all. */
TRI_CHECKED tri_status tri_nccl_settle(tri_nccl_hub *h, ncclComm_t comm, ncclResult_t r, const char *what);
/* Collective over comm's ranks. Finalizes and frees it; waits some seconds for the others. False if that
 * failed. */
bool tri_nccl_leave(ncclComm_t comm);

/* Not collective. From start to stop a thread ends the run, with a message and exit code 76, where NCCL
 * reports an error, or a collective runs on while a rank of this machine is gone, or for more than wait_s. */
TRI_CHECKED tri_status tri_nccl_watch_start(tri_nccl_hub *h);
void                   tri_nccl_watch_stop(tri_nccl_hub *h);

#endif
