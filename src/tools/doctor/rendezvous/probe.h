/* probe.h - tests several machines at once for an answer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROBE_H
#define TRI_PROBE_H

#include "comm/peers/mac.h"
#include "tools/doctor/doctor_facts.h"

/* A listening machine (channel.h). from: the address of this machine to use. "": any. */
typedef struct tri_target {
  int32_t node, port;
  char    host[TRI_FACTS_NAME_BYTES], from[TRI_FACTS_ADDRESS_BYTES];
} tri_target;

enum { TRI_PROBE_PARTS = 5 }; /* the connection, the greeting, three larger messages */
/* Not collective. Takes at most patience_s for each part. error [n]: 0 or errno. TRI_REACH_LARGE (checks.h):
 * a small message is answered and a larger one, up to 256 KiB, is not. EPROTO: the listener does not have the
 * secret. */
TRI_CHECKED tri_status tri_probe(const unsigned char secret[TRI_KEY_BYTES], int task,
                                 const tri_target *target, int n, double patience_s, int32_t *error);
/* Pure. Terminates texts received over a network. Returns false if *t is no valid target. */
bool tri_target_check(tri_target *t);

#endif
