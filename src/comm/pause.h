/* pause.h - how a rank waits for another: it spins briefly, yields its core, then sleeps. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAUSE_H
#define TRI_PAUSE_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The state of one wait. Start with zeros. */
typedef struct tri_pause {
  double from_s;  /* when it first yielded its core. 0: not yet */
  double yield_s; /* the longest time until it got the core back */
  bool   sleeps;
} tri_pause;

/* Pure. True if a rank that has been yielding its core for waited_s should sleep. yield_s is the longest time
 * until it got the core back. */
bool tri_pause_sleeps(double waited_s, double yield_s);
/* Pure. The length of one sleep when nobody wakes the rank. */
double tri_pause_nap_s(double waited_s);

/* Not collective, all that follow. Runs one round of a wait by yielding the core. False: it is time to
 * sleep. */
bool tri_pause_yield(tri_pause *p);
/* Runs one round of a wait when nobody wakes this rank: yields the core or sleeps. */
void tri_pause_idle(tri_pause *p);
/* Sleeps until tri_pause_wake, a signal, or at most most_s. Returns at once if *flag is at least `number`
 * already. The flag may lie in memory that is read-only for this process. */
void tri_pause_sleep(const _Atomic uint64_t *flag, uint64_t number, double most_s);
/* Wakes all sleepers on the flag, in all processes. */
void tri_pause_wake(_Atomic uint64_t *flag);

/* Waits for the request. With moves_data it does not sleep, because MPI moves parts of the data only while
 * the rank calls it. Returns MPI's code, as MPI_Wait does. */
int tri_pause_mpi(MPI_Request *request, bool moves_data);
/* Collective over comm. These act as the MPI calls of the same names. A rank does not sleep if the message is
 * larger than MPI sends at once. */
int tri_pause_bcast(void *buf, int n, MPI_Datatype t, int root, MPI_Comm comm);
int tri_pause_all_reduce(void *x, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm);
int tri_pause_all_gather(const void *x, int n, MPI_Datatype t, void *all, MPI_Comm comm);
int tri_pause_barrier(MPI_Comm comm);
/* Collective over comm, the communicator of a scope. Calls MPI_Comm_dup, which waits in MPI. For the monitor
 * it is a collective of the scope. `kind` is its label. */
int tri_pause_dup(int scope, const char *kind, MPI_Comm comm, MPI_Comm *out);

#endif
