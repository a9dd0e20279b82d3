/* peers.h - the monitor over the ranks of a run: a thread of each, that sends heartbeats beside the data
 * path and ends all ranks, with a message that names one, when it died, is silent or comes too late.
 *
 * The ranks of a machine see each other on a status page in shared memory (node.h). The first of them that
 * shows life reports for all of them, a few times a second, by UDP to rank 0's machine, whose first one
 * judges (detector.h) and answers. Where it is not heard, each machine judges by itself, one after the
 * other. A machine that was never heard is not watched, which is said once, and its ranks are not ended
 * for silence. One that was heard, and then is not, is asked by TCP (ask.h) before it is called silent.
 * One that answers neither and still takes part in collectives is not watched from then on: what carries
 * MPI lives. Only where UDP and TCP end while others wait for it does it look as a cut link does: 15 s of
 * waiting end the run. A rank that is silent while its process runs gets no core: the others of its
 * machine see that by /proc, one of them says that it is slow, and only run.timeout_s ends the run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_H
#define TRI_PEERS_H

#include "mac.h"
#include "rank_status.h"
#include "rank_info.h"
#include "node.h"

typedef struct tri_peers_opt {
  double timeout_s; /* run.timeout_s: so long a rank may be waited for; > 0 */
  int    rank;      /* as the launcher's environment has it, for messages until join */
  bool   speaks;    /* the first of its machine: it says what may be wrong with this node */
  /* From the thread of the monitor. Ends every rank; it does not return. */
  void (*end)(int code);
  /* Ends this process, should it live on for seconds after another rank ends all. */
  void (*end_late)(int code);
} tri_peers_opt;

/* Not collective, before MPI is up. From here on the wait of this rank in the start of MPI has an end, and
 * before that a warning that says what it may wait for. */
TRI_CHECKED tri_status tri_peers_open(const tri_peers_opt *opt);
/* Not collective. What this rank tells of itself: its socket, addresses and process; the rest is the
 * caller's. */
void tri_peers_describe(tri_rank_info *mine);
/* Not collective, once all ranks' rank infos are known: info [n], copied; *node: of those of this one's
 * group, place: its number among them; it is taken, and NULL, also where this fails. key: of this run
 * alone. */
TRI_CHECKED tri_status tri_peers_join(const tri_rank_info *info, int n, int rank,
                                      const unsigned char key[TRI_KEY_BYTES], tri_node **node, int place);
/* Not collective. Ends the monitor of this rank; the others are told that it ends by its own will. */
void tri_peers_close(void);
/* Not collective. The same where the process ends in haste: nobody is to call it dead. A signal handler may
 * call it. */
void tri_peers_leave(void);
/* Not collective. Has this rank, or another, said why the run ends, and is ending it? */
bool tri_peers_end(void);
/* Not collective. run.timeout_s while there is a monitor, else 0. */
double tri_peers_timeout_s(void);

#endif
