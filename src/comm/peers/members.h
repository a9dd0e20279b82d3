/* members.h - the member table: all ranks as seen by one of them, their machines, and their last heartbeats.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEMBERS_H
#define TRI_MEMBERS_H

#include "base/memory_group.h"
#include "detector.h"
#include "net.h"
#include "node.h"
#include "wire.h"

/* The ranks that share a status page, in order [n]. */
typedef struct tri_group {
  int        *member; /* [n] ranks, ascending, borrowed from the member table */
  int         n;
  tri_net_end at;      /* source address of its last datagram */
  double      heard_s; /* time of that datagram, or the monitor's start before the first one */
  bool        heard, warned, refused;
  /* for a group that was heard once and has become silent: */
  int  turn;       /* the rank to ask next */
  int  unanswered; /* TCP requests without an answer (ask.h) */
  bool is_asked, by_tcp, told;
  int  meets; /* collectives of the world since its last heartbeat */
  /* Its heartbeats are lost, but it takes part in collectives, so it lives. */
  bool lost;
  bool mute; /* `mute` of its ranks (detector.h) */
} tri_group;

/* The file in which a rank's control group counts processes killed for lack of memory, and the count when the
 * monitor began. "": there is no such file. */
typedef struct tri_kills {
  char    file[TRI_GROUP_PATH_BYTES];
  int64_t before;
} tri_kills;

typedef struct tri_members {
  int            n, n_groups, rank;
  int            mine, place; /* this rank's group, and its place there */
  tri_rank_info *info;        /* [n] by rank, like all that follow except group */
  tri_seen      *seen;
  uint64_t      *sequence; /* newest datagram of each sender */
  uint64_t       met;      /* newest collective of the world that all ranks have reached */
  int           *group_of, *members;
  tri_group     *group;   /* [n_groups], the first is rank 0's, the root group */
  tri_node      *node;    /* owned */
  uint64_t      *count;   /* [n of my group] number of stores at the last look */
  tri_kills     *kills;   /* [n of my group] */
  double        *moved_s; /* [n of my group] time of its last store */
  /* [n of my group] Last time its process was seen running without a new store. Below 0: never. */
  double *asked_s;
} tri_members;

/* Not collective, all that follow. The table takes ownership of the node, even if this fails. */
TRI_CHECKED tri_status tri_members_open(const tri_rank_info *info, int n, int rank, tri_node *node, int place,
                                        tri_members **out);
/* Starts the clock. Nobody has been heard yet. */
void tri_members_begin(tri_members *r, double now_s);
void tri_members_close(tri_members **r);
/* Reads the status page of this machine and detects dead processes. A rank with a heartbeat overdue by
 * overdue_s still counts as alive while its process runs, because other programs may hold its cores. True:
 * there is urgent news, a death. */
bool tri_members_look(tri_members *r, double now_s, double overdue_s);
/* Returns the first rank of this machine with a running process but without a store for silent_s, or
 * TRI_RANK_INFO_NOTHING. */
int tri_members_overdue(const tri_members *r, double now_s, double silent_s);
/* True if this rank is the first of its machine with a store within fresh_s. */
bool tri_members_speaks(const tri_members *r, double now_s, double fresh_s);
/* Writes ranks of this machine into `out`, from place *next on, as many as fit. Advances *next. */
void tri_members_fill(const tri_members *r, int *next, tri_wire *out);
/* Enters a received datagram. False: the sender may not say this or has said something newer, and nothing is
 * changed. */
bool tri_members_take(tri_members *r, const tri_wire *in, const tri_net_end *from, double now_s);
/* Calls tri_peers_meet. A machine may send no heartbeats for lost_s and still take part in collectives. It is
 * then marked as lost to heartbeats, not as dead. */
void tri_members_meet(tri_members *r, double now_s, double lost_s);
/* Marks ranks as mute if their silence proves nothing. Their machine is lost to heartbeats, or it is silent
 * for quiet_s and has not missed a TCP request yet. */
void tri_members_mute(tri_members *r, double now_s, double quiet_s);
/* True if all ranks of the group ended deliberately. */
bool tri_members_has_ended(const tri_group *g, const tri_seen *seen);
/* Returns the group at this address and port, or -1. */
int tri_members_find(const tri_members *r, const tri_net_end *at);

#endif
