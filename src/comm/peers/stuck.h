/* stuck.h - why the start of MPI may hang on this node: addresses of its networks that do not answer. Private
 * to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_STUCK_H
#define TRI_PEERS_STUCK_H

#include "base/text_buffer.h"

enum { TRI_STUCK_NAME_BYTES = 32, TRI_STUCK_ADDRESS_BYTES = 16, TRI_STUCK_MOST = 8 };

/* A neighbour of this node that was asked for and is silent. */
typedef struct tri_stuck {
  char net[TRI_STUCK_NAME_BYTES];        /* the interface */
  char address[TRI_STUCK_ADDRESS_BYTES]; /* of IPv4, as MPI takes them */
} tri_stuck;

/* Not collective, both. Neighbours that did not say their hardware address, as `arp` (/proc/net/arp) lists
 * them, each interface once. Returns how many. */
int tri_stuck_find(const char *arp, tri_stuck out[TRI_STUCK_MOST]);
/* Appends a sentence on them, or where there are none on the interfaces of this node, and what to do. */
TRI_CHECKED tri_status tri_stuck_words(const tri_stuck *stuck, int n, tri_text *out);
/* Not collective. Says so on the screen at once, after `before`: of rank 0 always, of other ranks that speak
 * for their node where there is something to be said. */
void tri_stuck_say(const char *before, int rank, bool speaks);

#endif
