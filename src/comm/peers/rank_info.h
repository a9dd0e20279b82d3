/* rank_info.h - who a rank is to the others, and what it last said of itself: what they tell each other at
 * the start and in heartbeats. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RANK_INFO_H
#define TRI_RANK_INFO_H

#include "rank_status.h"

/* Chosen: networks of a machine on which a heartbeat is tried. An address is one of IPv6, or of IPv4 as IPv6
 * writes it (RFC 4291, 2.5.5.2). */
enum { TRI_RANK_INFO_ADDRESSES = 8, TRI_RANK_INFO_ADDRESS_BYTES = 16, TRI_RANK_INFO_NOTHING = -1 };

/* Told once, over MPI. Ranks are numbered as on the screen: runtime.h's world_rank. */
typedef struct tri_rank_info {
  int32_t  rank, task;       /* task: Slurm's number; TRI_RANK_INFO_NOTHING without Slurm */
  int32_t  node, local_rank; /* which make up scopes, pretended or not */
  int32_t  group;            /* lowest rank of those that share this one's status page (node.h) */
  int32_t  pid;
  uint64_t pid_space;          /* process numbers mean the same where this is equal; 0: unknown */
  uint64_t memory_limit_bytes; /* of its control groups (base/memory_group.h); 0: none */
  uint64_t start;              /* of the process (proc_state.h): a number is given again; 0: unknown */
  uint8_t  address[TRI_RANK_INFO_ADDRESSES][TRI_RANK_INFO_ADDRESS_BYTES]; /* in network order; zeros: none */
  uint32_t port; /* of UDP and of TCP, in network order; 0: none */
  char     host[64], device[48];
} tri_rank_info;

/* ENDS: by its own will, with or without an error. */
/* STARVED: dead, and since the monitor began the kernel killed a process of its control group for want of
 * memory. */
typedef enum { TRI_LIFE_WORKS, TRI_LIFE_ENDS, TRI_LIFE_DEAD, TRI_LIFE_STARVED, TRI_LIFE_COUNT } tri_life;

/* What is known of a rank at a time. */
typedef struct tri_heartbeat {
  int32_t  rank;
  tri_life life;
  int      scope; /* as tri_rank_status's, as all that follow */
  uint64_t number, come[TRI_RANK_STATUS_SCOPES], met;
  double   waited_s; /* in this collective */
  double   silent_s; /* since it last moved, as its neighbours see it */
  double   work_s;   /* of the last window, outside collectives; detector.h */
  uint32_t window;   /* which one; 0: none yet */
  char     phase[TRI_RANK_STATUS_PHASE_BYTES], label[TRI_RANK_STATUS_LABEL_BYTES];
} tri_heartbeat;

#endif
