/* members.h - all ranks as one of them knows them: who shares a machine, what each last said, where its
 * machine is heard from. Private to its room. */
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
  int        *member; /* [n] ranks, ascending; borrowed from the member table */
  int         n;
  tri_net_end at;      /* where its last datagram came from */
  double      heard_s; /* when; of one that was never heard, when the monitor began */
  bool        heard, warned, refused;
  /* of one that was heard, and is not any more */
  int  turn;       /* which of its ranks is asked next */
  int  unanswered; /* questions by TCP (ask.h), as the two that follow */
  bool is_asked, by_tcp, told;
  int  meets; /* of the world's collectives */
  bool lost;  /* it takes part in them, so it lives: no heartbeat can be expected of it */
  bool mute;  /* as its ranks' (detector.h) */
} tri_group;

/* Where a rank's control group counts processes that the kernel killed for want of memory, and how many they
 * were when the monitor began; "": nowhere. */
typedef struct tri_kills {
  char    file[TRI_GROUP_PATH_BYTES];
  int64_t before;
} tri_kills;

typedef struct tri_members {
  int            n, n_groups, rank;
  int            mine, place; /* index of this rank's group; its place there */
  tri_rank_info *info;        /* [n] by rank, as all that follow but group */
  tri_seen      *seen;
  uint64_t      *sequence; /* newest datagram of each sender */
  uint64_t       met;      /* newest collective of the world that all have come to */
  int           *group_of, *members;
  tri_group     *group;   /* [n_groups]; 0 is rank 0's: the root's */
  tri_node      *node;    /* owned */
  uint64_t      *count;   /* [n of my group] stores at the last look */
  tri_kills     *kills;   /* [n of my group] in their control groups */
  double        *moved_s; /* when that grew */
  double *asked_s; /* when its process was last seen to run, though that did not grow; below 0: never */
} tri_members;

/* Not collective, all that follow. The node is the member table's from here on, also where this fails. */
TRI_CHECKED tri_status tri_members_open(const tri_rank_info *info, int n, int rank, tri_node *node, int place,
                                        tri_members **out);
/* Nobody has been heard of yet: the clock begins. */
void tri_members_begin(tri_members *r, double now_s);
void tri_members_close(tri_members **r);
/* Reads the status page of this machine. A process that is gone is noticed. A rank whose heartbeat is
 * overdue for overdue_s shows life as long as its process runs: other programs have its cores. True if
 * there is news that cannot wait: a death. */
bool tri_members_look(tri_members *r, double now_s, double overdue_s);
/* The first rank of this machine that runs, but has not moved for silent_s; or TRI_RANK_INFO_NOTHING. */
int tri_members_overdue(const tri_members *r, double now_s, double silent_s);
/* Is this rank the first of its machine that moved within fresh_s? */
bool tri_members_speaks(const tri_members *r, double now_s, double fresh_s);
/* The ranks of this machine from place *next on, as many as fit; *next grows by those. */
void tri_members_fill(const tri_members *r, int *next, tri_wire *out);
/* A datagram that arrived. False, and nothing is changed, if its sender may not say this, or said something
 * newer already. */
bool tri_members_take(tri_members *r, const tri_wire *in, const tri_net_end *from, double now_s);
/* tri_peers_meet; and a machine that goes on taking part though no heartbeat came for lost_s is lost to
 * heartbeats, not gone. */
void tri_members_meet(tri_members *r, double now_s, double lost_s);
/* Whose silence says nothing: of a machine that is lost, or quiet for quiet_s and did not leave a question
 * unanswered yet. */
void tri_members_mute(tri_members *r, double now_s, double quiet_s);
/* All its ranks ended by their own will. */
bool tri_members_has_ended(const tri_group *g, const tri_seen *seen);
/* The group that a refusing port belongs to, or -1. */
int tri_members_find(const tri_members *r, const tri_net_end *at);

#endif
