/* rendezvous.h - connects ranks beside MPI, collects their facts, and finds hanging ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RENDEZVOUS_H
#define TRI_RENDEZVOUS_H

#include "tools/doctor/checks.h"

typedef struct tri_rendezvous tri_rendezvous;

/* Ranks that hold up the others. Valid during the call with it. */
typedef struct tri_rendezvous_hang {
  const int  *task; /* [n] ascending */
  int         n;
  const char *stage;  /* their stage */
  const char *reason; /* known cause. NULL: they make no progress */
  bool        failed; /* reason is the last message of the one failed rank */
} tri_rendezvous_hang;
/* Called once, in a thread of its own. It must end the process. */
typedef void (*tri_rendezvous_on_hang)(void *ctx, const tri_rendezvous_hang *hang);

/* Not collective. Every rank calls it before MPI is up. On rank 0 and on the first rank of each node a thread
 * listens. Only processes with the launch's secret (secret.h) can be a rank, or rank 0. folder: folder of the
 * run, for the secret. patience_s: limit of any wait. l: borrowed. Sets mine->seat.port. TRI_EDEVICE: no
 * socket is available. */
TRI_CHECKED tri_status tri_rendezvous_open(const tri_launch *l, const char *folder, tri_facts *mine,
                                           double patience_s, tri_rendezvous **out);
void                   tri_rendezvous_close(tri_rendezvous **m);
/* Returns whether ranks can connect. The launcher must give the place, and all ranks must have the secret. */
bool tri_rendezvous_can(const tri_rendezvous *m);

/* For rank 0, in this order. */
/* Collects the facts of ranks that come in time, f [tasks] by task. Facts of others are zero. */
void tri_rendezvous_gather(tri_rendezvous *m, tri_facts *f);
/* Adds findings of the rendezvous. These are two processes with the same task, and ranks without access to
 * the secret. After the latter tri_rendezvous_can is false. */
TRI_CHECKED tri_status tri_rendezvous_check(tri_rendezvous *m, tri_findings *out);
/* Compares the clock of each node's first rank. clock [tasks] is zero before. */
void tri_rendezvous_clocks(tri_rendezvous *m, const tri_case *c, tri_facts_clock *clock);
/* Tests every pair of nodes. With more than 64 nodes, tests each with those 1, 2, 4, ... further on. Also
 * tests nodes without any rank so far. *out [*n] is freed with tri_host_free. */
TRI_CHECKED tri_status tri_rendezvous_reach(tri_rendezvous *m, const tri_case *c, tri_reach **out, int *n);
/* Tells the others to go on with MPI, or to end. */
void tri_rendezvous_decide(tri_rendezvous *m, bool go);

/* For the others. Answers rank 0 until it decides. A rank without access to the secret goes on at once. *go
 * false: the rank must end. TRI_ECOMM: rank 0 cannot be reached, or does not decide in time. */
TRI_CHECKED tri_status tri_rendezvous_serve(tri_rendezvous *m, bool *go);

/* For a rank after tri_rendezvous_serve failed. Waits until rank 0, if it lives, has asked all others and
 * printed its report. A launcher ends all ranks as soon as one ends. */
void tri_rendezvous_wait_for_hub(const tri_rendezvous *m);

/* For every rank, from then on. Tells rank 0 the next stage. NULL: all is done. */
void tri_rendezvous_stage(tri_rendezvous *m, const char *stage);
/* Tells rank 0 the error with which this rank gives up. */
void tri_rendezvous_fail(tri_rendezvous *m, const char *message);
/* For rank 0. From here on looks for hanging, failed and vanished ranks. */
void tri_rendezvous_monitor(tri_rendezvous *m, tri_rendezvous_on_hang call, void *ctx);

#endif
