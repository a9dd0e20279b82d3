/* ask.h - a second way to hear of a machine: where its heartbeats, by UDP, come no more, it is asked by TCP.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_ASK_H
#define TRI_PEERS_ASK_H

#include "mac.h"
#include "members.h"

typedef struct tri_ask tri_ask;

typedef struct tri_ask_opt {
  tri_members         *members;  /* borrowed */
  const unsigned char *key;      /* [TRI_KEY_BYTES] of the run; borrowed */
  uint64_t            *sequence; /* of this rank's datagrams; borrowed, and grows */
  int                  listen;   /* of tri_net_open; borrowed; -1: nobody can ask this rank */
  double               quiet_s;  /* a machine that was heard, and then not for so long, is asked */
  double               answer_s; /* so long an answer is waited for, then another of its ranks is asked */
} tri_ask_opt;

/* Not collective, all that follow. */
TRI_CHECKED tri_status tri_ask_open(const tri_ask_opt *opt, tri_ask **out);
void                   tri_ask_close(tri_ask **a);
/* Goes on with all that is under way, and waits for nothing: who asks is answered, answers are taken into the
 * member table, questions without one are counted (tri_group). begin: machines that are quiet are asked. */
void tri_ask_look(tri_ask *a, double now_s, bool begin);

#endif
