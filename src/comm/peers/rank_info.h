/* rank_info.h - the identity of a rank, exchanged at the start, and the contents of its heartbeats. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RANK_INFO_H
#define TRI_RANK_INFO_H

#include "rank_status.h"

/* Chosen: the number of a machine's networks on which heartbeats are tried. An address is IPv6, or IPv4
 * mapped into IPv6 (RFC 4291, 2.5.5.2). */
enum { TRI_RANK_INFO_ADDRESSES = 8, TRI_RANK_INFO_ADDRESS_BYTES = 16, TRI_RANK_INFO_NOTHING = -1 };

/* Exchanged once, over MPI. Ranks are numbered as on the screen, by world_rank of runtime.h. */
typedef struct tri_rank_info {
  int32_t rank, task; /* task: Slurm's number, or TRI_RANK_INFO_NOTHING */
  /* Which communicator of each scope it is in. Two ranks with the same number are in the same one. */
  int32_t  which[TRI_RANK_STATUS_ROUNDS];
  int32_t  group; /* lowest rank with the same status page (node.h) */
  int32_t  pid;
  uint64_t pid_space;          /* process numbers are comparable if this is equal. 0: unknown */
  uint64_t memory_limit_bytes; /* limit of its control groups (base/memory_group.h). 0: none */
  /* Start of the process (proc_state.h), because process numbers are reused. 0: unknown. */
  uint64_t start;
  uint8_t  address[TRI_RANK_INFO_ADDRESSES][TRI_RANK_INFO_ADDRESS_BYTES]; /* network order. Zeros: none */
  uint32_t port; /* the port of UDP and TCP, network order. 0: none */
  char     host[64], device[48];
} tri_rank_info;

/* ENDS: the rank ends deliberately, with or without an error. */
/* STARVED: the rank is dead, and since the monitor began the kernel killed a process of its control group for
 * lack of memory. */
typedef enum { TRI_LIFE_WORKS, TRI_LIFE_ENDS, TRI_LIFE_DEAD, TRI_LIFE_STARVED, TRI_LIFE_COUNT } tri_life;

/* The state of a rank at one time. */
typedef struct tri_heartbeat {
  int32_t  rank;
  tri_life life;
  int      scope; /* as in tri_rank_status, like all that follow */
  uint64_t number, met;
  tri_come come;
  double   waited_s; /* in this collective */
  double   silent_s; /* since its last store, as seen by its neighbours */
  double   work_s;   /* in the last window, outside collectives (detector.h) */
  uint32_t window;   /* number of this window. 0: none yet */
  char     phase[TRI_RANK_STATUS_PHASE_BYTES], label[TRI_RANK_STATUS_LABEL_BYTES];
} tri_heartbeat;

#endif
