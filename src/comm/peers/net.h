/* net.h - the sockets of a rank's heartbeats: UDP, and TCP where those are lost, over IPv6 and IPv4,
 * beside all that MPI does. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_NET_H
#define TRI_PEERS_NET_H

#include "base/error.h"
#include "rank_info.h"

/* Not collective, all that follow. Addresses (rank_info.h) and ports in network order. */
typedef struct tri_net_end {
  uint8_t  address[TRI_RANK_INFO_ADDRESS_BYTES];
  uint32_t port;
} tri_net_end;

/* Not zeros. */
bool tri_net_is_address(const uint8_t address[TRI_RANK_INFO_ADDRESS_BYTES]);
/* A socket for heartbeats that does not block, at a free port, and one that listens at the same port of
 * TCP, -1: none could be had. TRI_ECOMM: the system gives none. */
TRI_CHECKED tri_status tri_net_open(int *fd, int *listen, uint32_t *port);
/* Of this machine's networks that are up, IPv4's first; the machine's own, 127.0.0.1 and ::1, where there is
 * no other. Addresses of a link alone (fe80::) are left out: they mean nothing without an interface. */
void tri_net_addresses(uint8_t out[TRI_RANK_INFO_ADDRESSES][TRI_RANK_INFO_ADDRESS_BYTES]);
/* Lost is as good as sent: the next one follows. */
void tri_net_send(int fd, const tri_net_end *to, const void *bytes, size_t n);
/* The next datagram: its bytes, at most n of them; 0: there is none. */
size_t tri_net_receive(int fd, void *bytes, size_t n, tri_net_end *from);
/* The next of those sent to whose port nobody listens at; false: there is none. */
bool tri_net_refused(int fd, tri_net_end *by);
/* Connections that do not block: one on its way, one that has come; -1: none. The caller closes. */
int tri_net_connect(const tri_net_end *to);
int tri_net_accept(int listen);

#endif
