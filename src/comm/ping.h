/* ping.h - messages between two ranks, timed. */
#ifndef TRI_PING_H
#define TRI_PING_H

#include "comm.h"

/* Collective over two ranks of c, each of which gives the other's; no other rank is waited for. `bytes` of
 * host memory at buf go there and back, times + 1 times, the first not counted. *best_s: seconds of the
 * fastest one way. */
TRI_CHECKED tri_status tri_ping(tri_comm *c, int peer, void *buf, size_t bytes, int times, double *best_s);

#endif
