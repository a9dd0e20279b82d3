/* ping.c - messages between two ranks, timed. */
#include "ping.h"
#include "comm_host.h"

#include <mpi.h>

enum { TAG = 1 }; /* any: nothing else of this communicator is point to point */

tri_status tri_ping(tri_comm *c, int peer, void *buf, size_t bytes, int times, double *best_s) {
  MPI_Comm comm = *(MPI_Comm *)c->mpi;
  int      n = (int)bytes;

  TRI_ASSERT(bytes <= INT32_MAX && peer != c->rank);
  *best_s = 0;
  for (int i = 0; i <= times; i++) {
    double from_s = tri_now_s();
    if (c->rank < peer) TRI_MPI(MPI_Send(buf, n, MPI_BYTE, peer, TAG, comm));
    TRI_MPI(MPI_Recv(buf, n, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE));
    if (c->rank > peer) TRI_MPI(MPI_Send(buf, n, MPI_BYTE, peer, TAG, comm));
    double one_way_s = (tri_now_s() - from_s) / 2;
    if (i == 1 || (i > 1 && one_way_s < *best_s)) *best_s = one_way_s;
  }
  return TRI_OK;
}
