/* probe.h - which of several machines answer, asked all at once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REACH_H
#define TRI_REACH_H

#include "comm/peers/mac.h"
#include "tools/doctor/doctor_facts.h"

/* One machine that listens (channel.h). from: the address of this machine to go out by; "": any. */
typedef struct tri_target {
  int32_t node, port;
  char    host[TRI_FACTS_NAME_BYTES], from[TRI_FACTS_ADDRESS_BYTES];
} tri_target;

enum { TRI_PROBE_PARTS = 5 }; /* the way there, the greeting, three larger messages */
/* Not collective. error [n]: 0, errno, or TRI_REACH_LARGE (checks.h) where a small message is answered and a
 * larger one, up to 256 KiB, is not; EPROTO: who listens there does not have the secret. At most patience_s
 * for each part. */
TRI_CHECKED tri_status tri_probe(const unsigned char secret[TRI_KEY_BYTES], int task,
                                 const tri_target *target, int n, double patience_s, int32_t *error);
/* Pure. Ends texts that came over a network; false: they are no targets. */
bool tri_target_check(tri_target *t);

#endif
