/* comm_shm.h - shared memory of the ranks of a machine, as shared segments need it. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_SHM_H
#define TRI_COMM_SHM_H

#include "comm_host.h"

#include <stdatomic.h>

/* Not collective, all that follow. h->shm must be set. Returns the file descriptor of a rank's block,
 * borrowed. -1: it could not be opened. */
int tri_shm_way_file(const tri_host_comm *h, int rank);
/* Returns the offset of p in my block. `bytes` bytes from p on must lie in my arena. */
int64_t tri_shm_way_place(const tri_host_comm *h, const void *p, size_t bytes);
/* Waits until the rank's flag is at least `number`. TRI_ECOMM: the rank died during the wait. The error names
 * `what` and the number. */
TRI_CHECKED tri_status tri_shm_way_await(const tri_host_comm *h, int rank, const _Atomic uint64_t *flag,
                                         const char *what, uint64_t number);

/* Call it after this rank has changed its own flag. Wakes the ranks of this machine that sleep on the
 * flag. */
void tri_shm_way_wake(const tri_host_comm *h, _Atomic uint64_t *flag);

#endif
