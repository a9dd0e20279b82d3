/* wire.h - heartbeats as datagrams, byte for byte: little-endian, of fixed length. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_WIRE_H
#define TRI_PEERS_WIRE_H

#include "mac.h"
#include "rank_info.h"

#include <stddef.h>

/* A head and at most so many heartbeats: less than what every network carries in one piece. */
enum {
  TRI_WIRE_HEAD_BYTES = 40,
  TRI_WIRE_HEARTBEAT_BYTES = 128,
  TRI_WIRE_HEARTBEATS = 10,
  TRI_WIRE_BYTES = TRI_WIRE_HEAD_BYTES + TRI_WIRE_HEARTBEATS * TRI_WIRE_HEARTBEAT_BYTES
};

/* REPORT: of the ranks of a group, to the root's group. HEARD: the root's answer to each group. END: the run
 * ends, somebody has said why. ASK: by TCP alone, for one of the first two. */
typedef enum { TRI_WIRE_REPORT, TRI_WIRE_HEARD, TRI_WIRE_END, TRI_WIRE_ASK, TRI_WIRE_KINDS } tri_wire_kind;

typedef struct tri_wire {
  tri_wire_kind kind;
  int32_t       sender;   /* rank */
  int32_t       to;       /* ASK: the rank that is asked; else 0 */
  uint64_t      sequence; /* of the sender's datagrams, growing */
  int           n;
  tri_heartbeat heartbeat[TRI_WIRE_HEARTBEATS];
} tri_wire;

/* Not collective, all that follow. key: of this run alone; it is not sent, only an authentication code of all
 * bytes under it. Returns the number of bytes. */
size_t tri_wire_write(const tri_wire *w, const unsigned char key[TRI_KEY_BYTES],
                      unsigned char out[TRI_WIRE_BYTES]);
/* How many bytes this head says that it and its heartbeats have; 0: more than there may be. */
size_t tri_wire_bytes(const unsigned char head[TRI_WIRE_HEAD_BYTES]);
/* False for everything that is not a datagram of this run, of n_ranks ranks, written as above. */
bool tri_wire_read(const unsigned char *bytes, size_t n, const unsigned char key[TRI_KEY_BYTES], int n_ranks,
                   tri_wire *out);

#endif
