/* ask.h - asks a machine over TCP when its UDP heartbeats stop. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_ASK_H
#define TRI_PEERS_ASK_H

#include "mac.h"
#include "members.h"

typedef struct tri_ask tri_ask;

typedef struct tri_ask_opt {
  tri_members         *members;  /* borrowed */
  const unsigned char *key;      /* [TRI_KEY_BYTES] the run's key, borrowed */
  uint64_t            *sequence; /* counter of this rank's datagrams, borrowed and incremented */
  int                  listen;   /* socket of tri_net_open, borrowed. -1: this rank cannot be asked */
  double               quiet_s;  /* seconds after a machine's last heartbeat until it is asked */
  double               answer_s; /* seconds to wait for an answer before asking another of its ranks */
} tri_ask_opt;

/* Not collective, all that follow. */
TRI_CHECKED tri_status tri_ask_open(const tri_ask_opt *opt, tri_ask **out);
void                   tri_ask_close(tri_ask **a);
/* Continues all open requests without blocking. Answers incoming requests, enters received answers into the
 * member table, and counts requests without an answer (tri_group). With `begin` it also asks the machines
 * that have become silent. */
void tri_ask_look(tri_ask *a, double now_s, bool begin);

#endif
