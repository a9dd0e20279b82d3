/* stuck.h - finds why the start of MPI may hang on this node: network addresses that do not answer. Private
 * to its room. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_STUCK_H
#define TRI_PEERS_STUCK_H

#include "base/text_buffer.h"

enum { TRI_STUCK_NAME_BYTES = 32, TRI_STUCK_ADDRESS_BYTES = 16, TRI_STUCK_MOST = 8 };

/* A neighbour of this node that does not answer. */
typedef struct tri_stuck {
  char net[TRI_STUCK_NAME_BYTES];        /* the interface */
  char address[TRI_STUCK_ADDRESS_BYTES]; /* IPv4, as MPI uses it */
} tri_stuck;

/* Finds neighbours without a known hardware address in the table `arp` (/proc/net/arp), at most one per
 * interface. Returns their number. */
int tri_stuck_find(const char *arp, tri_stuck out[TRI_STUCK_MOST]);
/* Appends a sentence on them and the cure. If there are none, it is about the interfaces of this node. */
TRI_CHECKED tri_status tri_stuck_words(const tri_stuck *stuck, int n, tri_text *out);
/* Prints this sentence at once, after `before`. Rank 0 always prints it. Another rank with `speaks` prints it
 * only if it found such neighbours. */
void tri_stuck_say(const char *before, int rank, bool speaks);

#endif
