/* wire.h - the format of heartbeats as datagrams: little-endian, fixed length. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_WIRE_H
#define TRI_PEERS_WIRE_H

#include "mac.h"
#include "rank_info.h"

#include <stddef.h>

/* A datagram is a head and at most TRI_WIRE_HEARTBEATS heartbeats. Every network carries it in one piece. */
enum {
  TRI_WIRE_HEAD_BYTES = 40,
  TRI_WIRE_HEARTBEAT_BYTES = 104 + 9 * TRI_RANK_STATUS_MOST,
  TRI_WIRE_HEARTBEATS = 8,
  TRI_WIRE_BYTES = TRI_WIRE_HEAD_BYTES + TRI_WIRE_HEARTBEATS * TRI_WIRE_HEARTBEAT_BYTES
};

_Static_assert(TRI_WIRE_BYTES <= 1500 - 40 - 8, "fits a packet of Ethernet, by IPv6 and UDP");

/* REPORT  the ranks of a group, sent to the root group
 * HEARD   the root's answer to each group
 * END     the run ends, and a rank has reported why
 * ASK     a request for REPORT or HEARD, by TCP only */
typedef enum { TRI_WIRE_REPORT, TRI_WIRE_HEARD, TRI_WIRE_END, TRI_WIRE_ASK, TRI_WIRE_KINDS } tri_wire_kind;

typedef struct tri_wire {
  tri_wire_kind kind;
  int32_t       sender;   /* rank */
  int32_t       to;       /* ASK: the asked rank, else 0 */
  uint64_t      sequence; /* grows with each datagram of the sender */
  int           n;
  tri_heartbeat heartbeat[TRI_WIRE_HEARTBEATS];
} tri_wire;

/* Not collective, all that follow. Writes a datagram and returns its bytes. `key` belongs to this run alone
 * and is never sent. The datagram carries an authentication code of all its bytes under the key. */
size_t tri_wire_write(const tri_wire *w, const unsigned char key[TRI_KEY_BYTES],
                      unsigned char out[TRI_WIRE_BYTES]);
/* Returns the size of the whole datagram according to its head. 0: more than allowed. */
size_t tri_wire_bytes(const unsigned char head[TRI_WIRE_HEAD_BYTES]);
/* False: this is not a datagram of this run with n_ranks ranks. */
bool tri_wire_read(const unsigned char *bytes, size_t n, const unsigned char key[TRI_KEY_BYTES], int n_ranks,
                   tri_wire *out);

#endif
