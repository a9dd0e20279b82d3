/* roster.h - all ranks as one of them knows them: who shares a machine, what each last said, where its
 * machine is heard from. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_ROSTER_H
#define TRI_PEERS_ROSTER_H

#include "base/memory_group.h"
#include "judge.h"
#include "net.h"
#include "node.h"
#include "wire.h"

/* The ranks that share a board, in order [n]. */
typedef struct tri_group {
  int        *member; /* [n] ranks, ascending; borrowed from the roster */
  int         n;
  tri_net_end at;      /* where its last datagram came from */
  double      heard_s; /* when; of one that was never heard, when the watch began */
  bool        heard, warned, refused;
  /* of one that was heard, and is not any more */
  int  turn;       /* which of its ranks is asked next */
  int  unanswered; /* questions by TCP (ask.h), as the two that follow */
  bool is_asked, by_tcp, told;
  int  meets; /* of the world's collectives */
  bool lost;  /* it takes part in them, so it lives: no beat can be expected of it */
  bool mute;  /* as its ranks' (judge.h) */
} tri_group;

/* Where a rank's control group counts processes that the kernel killed for want of memory, and how many they
 * were when the watch began; "": nowhere. */
typedef struct tri_kills {
  char    file[TRI_GROUP_PATH_BYTES];
  int64_t before;
} tri_kills;

typedef struct tri_roster {
  int        n, n_groups, rank;
  int        mine, place; /* index of this rank's group; its place there */
  tri_card  *card;        /* [n] by rank, as all that follow but group */
  tri_seen  *seen;
  uint64_t  *sequence; /* newest datagram of each sender */
  uint64_t   met;      /* newest collective of the world that all have come to */
  int       *group_of, *members;
  tri_group *group;   /* [n_groups]; 0 is rank 0's: the root's */
  tri_node  *node;    /* owned */
  uint64_t  *count;   /* [n of my group] stores at the last look */
  tri_kills *kills;   /* [n of my group] in their control groups */
  double    *moved_s; /* when that grew */
  double    *asked_s; /* when its process was last seen to run, though that did not grow; below 0: never */
} tri_roster;

/* Not collective, all that follow. The node is the roster's from here on, also where this fails. */
TRI_CHECKED tri_status tri_roster_open(const tri_card *card, int n, int rank, tri_node *node, int place,
                                       tri_roster **out);
/* Nobody has been heard of yet: the clock begins. */
void tri_roster_begin(tri_roster *r, double now_s);
void tri_roster_close(tri_roster **r);
/* Reads the board of this machine. A process that is gone is noticed. A rank whose heartbeat is overdue for
 * overdue_s shows life as long as its process runs: other programs have its cores. True if there is news that
 * cannot wait: a death. */
bool tri_roster_look(tri_roster *r, double now_s, double overdue_s);
/* The first rank of this machine that runs, but has not moved for silent_s; or TRI_CARD_NOTHING. */
int tri_roster_overdue(const tri_roster *r, double now_s, double silent_s);
/* Is this rank the first of its machine that moved within fresh_s? */
bool tri_roster_speaks(const tri_roster *r, double now_s, double fresh_s);
/* The ranks of this machine from place *next on, as many as fit; *next grows by those. */
void tri_roster_fill(const tri_roster *r, int *next, tri_wire *out);
/* A datagram that arrived. False, and nothing is changed, if its sender may not say this, or said something
 * newer already. */
bool tri_roster_take(tri_roster *r, const tri_wire *in, const tri_net_end *from, double now_s);
/* tri_peers_meet; and a machine that goes on taking part though no beat came for lost_s is lost to beats, not
 * gone. */
void tri_roster_meet(tri_roster *r, double now_s, double lost_s);
/* Whose silence says nothing: of a machine that is lost, or quiet for quiet_s and did not leave a question
 * unanswered yet. */
void tri_roster_mute(tri_roster *r, double now_s, double quiet_s);
/* All its ranks ended by their own will. */
bool tri_roster_has_ended(const tri_group *g, const tri_seen *seen);
/* The group that a refusing port belongs to, or -1. */
int tri_roster_find(const tri_roster *r, const tri_net_end *at);

#endif
