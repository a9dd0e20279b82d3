/* net.h - the socket of a rank's beats: UDP over IPv4, beside all that MPI does. Private to its room. */
#ifndef TRI_PEERS_NET_H
#define TRI_PEERS_NET_H

#include "base/base.h"
#include "card.h"

/* Not collective, all that follow. Addresses and ports in network order. */
typedef struct tri_net_end {
  uint32_t address, port;
} tri_net_end;

/* A socket that does not block, at a free port. TRI_ECOMM: the system gives none. */
TRI_CHECKED tri_status tri_net_open(int *fd, uint32_t *port);
/* Of this machine's networks that are up; the machine's own, 127.0.0.1, where there is no other. */
void tri_net_addresses(uint32_t out[TRI_CARD_ADDRESSES]);
/* Lost is as good as sent: the next one follows. */
void tri_net_send(int fd, const tri_net_end *to, const void *bytes, size_t n);
/* The next datagram: its bytes, at most n of them; 0: there is none. */
size_t tri_net_receive(int fd, void *bytes, size_t n, tri_net_end *from);
/* The next of those sent to whose port nobody listens at; false: there is none. */
bool tri_net_refused(int fd, tri_net_end *by);

#endif
