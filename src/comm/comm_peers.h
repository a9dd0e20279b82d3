/* comm_peers.h - the monitor over the ranks (peers/peers.h), begun and ended with MPI. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_PEERS_H
#define TRI_COMM_PEERS_H

#include "device/device.h"
#include "runtime.h"

/* Not collective, before MPI is up. Nothing where the launcher says that this rank is alone, or timeout_s is
 * 0. A watch that cannot begin is a warning. */
void tri_comm_peers_open(double timeout_s);
/* Collective over MPI_COMM_WORLD. Ranks tell each other where they are, and watch from here on. Without a
 * watch on this rank the others watch over it as far as they can. */
TRI_CHECKED tri_status tri_comm_peers_join(const tri_runtime *rt, const tri_device *d);

#endif
