/* pause.h - how a rank waits for another: it spins briefly, gives its core away, then sleeps. Private to
 * its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAUSE_H
#define TRI_PAUSE_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One wait. Zeros are its beginning. */
typedef struct tri_pause {
  double from_s;  /* when it began to give its core away; 0: not yet */
  double yield_s; /* the longest time for which the core was gone */
  bool   sleeps;
} tri_pause;

/* Pure. Whether a rank that has given its core away for waited_s should sleep. yield_s: the longest time
 * until it got the core back. */
bool tri_pause_sleeps(double waited_s, double yield_s);
/* Pure. For how long it sleeps where nobody wakes it. */
double tri_pause_nap_s(double waited_s);

/* Not collective, all that follow. One round of a wait: gives the core away. False: it is time to sleep. */
bool tri_pause_yield(tri_pause *p);
/* One round of a wait in which nobody wakes this rank: gives the core away or sleeps. */
void tri_pause_idle(tri_pause *p);
/* Sleeps until tri_pause_wake, a signal, or for most_s, unless *flag is at least number already. The flag
 * may lie in memory that this process can only read. */
void tri_pause_sleep(const _Atomic uint64_t *flag, uint64_t number, double most_s);
/* Wakes all who sleep on the flag, in all processes. */
void tri_pause_wake(_Atomic uint64_t *flag);

/* Waits for the request. moves_data: parts of the data move only while the rank looks, so it does not
 * sleep. Returns MPI's code, as MPI_Wait does. */
int tri_pause_mpi(MPI_Request *request, bool moves_data);
/* As the MPI calls of these names. A rank does not sleep in those of more bytes than MPI sends at once. */
int tri_pause_bcast(void *buf, int n, MPI_Datatype t, int root, MPI_Comm comm);
int tri_pause_all_reduce(void *x, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm);
int tri_pause_all_gather(const void *x, int n, MPI_Datatype t, void *all, MPI_Comm comm);
int tri_pause_barrier(MPI_Comm comm);

#endif
