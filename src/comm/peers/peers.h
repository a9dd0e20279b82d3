/* peers.h - the monitor over the ranks of a run. A thread of each rank sends heartbeats, independently of
 * MPI. If a rank dies, falls silent or comes too late, the monitor names it in a message and ends all
 * ranks.
 *
 * The ranks of a machine see each other on a status page in shared memory (node.h). The first live rank of a
 * machine reports for all of them, a few times a second, by UDP to rank 0's machine. The first live rank
 * there runs the failure detector (detector.h) and answers. Machines without an answer judge by themselves,
 * one after the other.
 *
 * A machine without any heartbeat since the start is not monitored. One warning says so, and its ranks are
 * not ended for silence. A machine that falls silent later is asked by TCP (ask.h) before it counts as
 * silent. If it does not answer but still takes part in collectives, it lives, because MPI reaches it. It is
 * not monitored from then on. Loss of both UDP and TCP looks like a cut link only if others wait for the
 * machine. Then 15 s of waiting end the run.
 *
 * A silent rank with a running process gets no core. The others of its machine see this in /proc, and one of
 * them warns that it is slow. Only run.timeout_s ends the run in this case.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_H
#define TRI_PEERS_H

#include "mac.h"
#include "rank_status.h"
#include "rank_info.h"
#include "node.h"

typedef struct tri_peers_opt {
  double timeout_s; /* run.timeout_s: the longest wait for a rank. > 0 */
  int    rank;      /* from the launcher's environment, for messages before tri_peers_join */
  bool   speaks;    /* first rank of its machine. It reports problems of this node */
  /* Called by the monitor's thread. Ends every rank and does not return. */
  void (*end)(int code);
  /* Ends this process if it still lives seconds after another rank ended all. */
  void (*end_late)(int code);
} tri_peers_opt;

/* Not collective, before MPI is up. Limits this rank's wait in the start of MPI from here on. A warning
 * before the limit names possible causes. */
TRI_CHECKED tri_status tri_peers_open(const tri_peers_opt *opt);
/* Fills in this rank's socket, addresses and process. The caller fills in the rest. */
void tri_peers_describe(tri_rank_info *mine);
/* Call it once all rank infos are known. info [n] is copied. *node is the status page of this rank's group,
 * and place is its number there. The node is taken and set to NULL, even if this fails. key belongs to this
 * run alone. */
TRI_CHECKED tri_status tri_peers_join(const tri_rank_info *info, int n, int rank,
                                      const unsigned char key[TRI_KEY_BYTES], tri_node **node, int place);
/* Ends the monitor of this rank and tells the others that the rank ends deliberately. */
void tri_peers_close(void);
/* The same when the process ends in haste, so that nobody reports it as dead. Callable from a signal
 * handler. */
void tri_peers_leave(void);
/* True if this or another rank has reported why the run ends and is ending it. */
bool tri_peers_end(void);
/* Returns run.timeout_s while the monitor runs, else 0. */
double tri_peers_timeout_s(void);

#endif
