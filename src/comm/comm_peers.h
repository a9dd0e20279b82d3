/* comm_peers.h - starts and ends the monitor over the ranks (peers/peers.h) together with MPI. Private to
 * its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_PEERS_H
#define TRI_COMM_PEERS_H

#include "device/device.h"
#include "runtime.h"

/* Not collective, before MPI is up. Starts the monitor. Does nothing if the launcher says that this rank is
 * alone, or if timeout_s is 0. A monitor that cannot start causes a warning. */
void tri_comm_peers_open(double timeout_s);
/* Collective over MPI_COMM_WORLD. The ranks exchange their addresses and monitor each other from here on. If
 * this rank has no monitor, the others watch it as far as they can. */
TRI_CHECKED tri_status tri_comm_peers_join(const tri_runtime *rt, const tri_device *d);

#endif
