/* cores.h - the cores of this process, and how its threads wait for each other on them. Not collective, all
 * that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CORES_H
#define TRI_CORES_H

#include <stdbool.h>
#include <stddef.h>

/* Marks the hardware threads that this process may use in `set`, a cpu_set_t of `bytes` bytes. With
 * OMP_PROC_BIND, the OpenMP library binds the first thread to one place before main(). The set is then the
 * union of all places. False: the system does not tell. */
bool tri_cores_mine(void *set, size_t bytes);
/* Not collective, early in main(). Restarts the program once, with the wait policy of its threads in the
 * environment, because the OpenMP library reads the policy before main(). Threads then spin for some 20
 * microseconds and sleep, instead of spinning for milliseconds. Returns if the user has set OMP_WAIT_POLICY,
 * GOMP_SPINCOUNT or KMP_BLOCKTIME, or if the program cannot be restarted. */
void tri_cores_set_wait(char **argv);

#endif
