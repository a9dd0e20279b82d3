/* comm_shm.h - what windows need of the memory that ranks of a machine show each other. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_SHM_H
#define TRI_COMM_SHM_H

#include "comm_host.h"

#include <stdatomic.h>

/* Of an h whose shm is set. Not collective, all that follow. The file of a rank's block; -1: it could not be
 * opened. Borrowed. */
int tri_shm_way_file(const tri_host_comm *h, int rank);
/* Where p, of which so many bytes lie in my arena, is in my block. */
int64_t tri_shm_way_place(const tri_host_comm *h, const void *p, size_t bytes);
/* Waits until the rank's flag is at least `number`. TRI_ECOMM: the rank is gone while it waits for "what
 * number". */
TRI_CHECKED tri_status tri_shm_way_await(const tri_host_comm *h, int rank, const _Atomic uint64_t *flag,
                                         const char *what, uint64_t number);

/* After this rank has changed its own flag: wakes the ranks of the machine that sleep until it changes. */
void tri_shm_way_wake(const tri_host_comm *h, _Atomic uint64_t *flag);

#endif
