/* net.h - the sockets of a rank's heartbeats: UDP, and TCP if UDP is lost, over IPv6 and IPv4. They are
 * independent of MPI. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_NET_H
#define TRI_PEERS_NET_H

#include "base/error.h"
#include "rank_info.h"

/* Not collective, all that follow. Addresses (rank_info.h) and ports are in network order. */
typedef struct tri_net_end {
  uint8_t  address[TRI_RANK_INFO_ADDRESS_BYTES];
  uint32_t port;
} tri_net_end;

/* True unless all bytes are zero. */
bool tri_net_is_address(const uint8_t address[TRI_RANK_INFO_ADDRESS_BYTES]);
/* Opens a non-blocking UDP socket for heartbeats at a free port, and a TCP socket that listens at the same
 * port. *listen is -1 if the TCP socket could not be opened. TRI_ECOMM: the system gives no UDP socket. */
TRI_CHECKED tri_status tri_net_open(int *fd, int *listen, uint32_t *port);
/* Lists the addresses of this machine's active networks, IPv4 first. If there is none, it lists 127.0.0.1 and
 * ::1. Link-local addresses (fe80::) are left out, because they need an interface. */
void tri_net_addresses(uint8_t out[TRI_RANK_INFO_ADDRESSES][TRI_RANK_INFO_ADDRESS_BYTES]);
/* Sends a datagram. A loss is not reported, because the next heartbeat follows. */
void tri_net_send(int fd, const tri_net_end *to, const void *bytes, size_t n);
/* Receives the next datagram, at most n bytes, and returns its size. 0: there is none. A longer one gives n +
 * 1. */
size_t tri_net_receive(int fd, void *bytes, size_t n, tri_net_end *from);
/* Takes the next report of a closed port at a receiver. False: there is none. */
bool tri_net_refused(int fd, tri_net_end *by);
/* Open non-blocking connections: an outgoing one, or the next incoming one. -1: none. The caller closes
 * them. */
int tri_net_connect(const tri_net_end *to);
int tri_net_accept(int listen);

#endif
