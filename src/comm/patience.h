/* patience.h - how a rank waits for another: it spins briefly, gives its core away, then sleeps. Private to
 * its room. */
#ifndef TRI_PATIENCE_H
#define TRI_PATIENCE_H

#include "base/base.h"

#include <mpi.h>
#include <stdatomic.h>

/* One wait. Zeros are its beginning. */
typedef struct tri_patience {
  double from_s;  /* when it began to give its core away; 0: not yet */
  double yield_s; /* the longest time for which the core was gone */
  bool   sleeps;
} tri_patience;

/* Pure. Whether a rank that has given its core away for waited_s should sleep. yield_s: the longest time
 * until it got the core back. */
bool tri_patience_sleeps(double waited_s, double yield_s);
/* Pure. For how long it sleeps where nobody wakes it. */
double tri_patience_nap_s(double waited_s);

/* Not collective, all that follow. One round of a wait: gives the core away. False: it is time to sleep. */
bool tri_patience_yield(tri_patience *p);
/* One round of a wait in which nobody wakes this rank: gives the core away or sleeps. */
void tri_patience_rest(tri_patience *p);
/* Sleeps until tri_patience_wake, a signal, or for most_s, unless *flag is at least number already. The flag
 * may lie in memory that this process can only read. */
void tri_patience_sleep(const _Atomic uint64_t *flag, uint64_t number, double most_s);
/* Wakes all who sleep on the flag, in all processes. */
void tri_patience_wake(_Atomic uint64_t *flag);

/* Waits for the request. moves_data: parts of the data move only while the rank looks, so it does not
 * sleep. Returns MPI's code, as MPI_Wait does. */
int tri_patience_mpi(MPI_Request *request, bool moves_data);
/* As the MPI calls of these names. A rank does not sleep in those of more bytes than MPI sends at once. */
int tri_patient_bcast(void *buf, int n, MPI_Datatype t, int root, MPI_Comm comm);
int tri_patient_all_reduce(void *x, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm);
int tri_patient_all_gather(const void *x, int n, MPI_Datatype t, void *all, MPI_Comm comm);
int tri_patient_barrier(MPI_Comm comm);

#endif
