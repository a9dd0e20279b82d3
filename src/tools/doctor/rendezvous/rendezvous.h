/* rendezvous.h - ranks meet beside MPI: who came, what they know, how far they are, and who hangs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RENDEZVOUS_H
#define TRI_RENDEZVOUS_H

#include "tools/doctor/checks.h"

typedef struct tri_rendezvous tri_rendezvous;

/* Who holds the others up. Valid during the call that gets it. */
typedef struct tri_rendezvous_hang {
  const int  *task; /* [n] ascending */
  int         n;
  const char *stage;  /* that they are in */
  const char *reason; /* what is known; NULL: they do not go on */
  bool        failed; /* reason is what the one rank said as it gave up */
} tri_rendezvous_hang;
/* Called in a thread of its own, once; it must end the process. */
typedef void (*tri_rendezvous_on_hang)(void *ctx, const tri_rendezvous_hang *hang);

/* Not collective. Of every rank, before MPI is up: a thread of rank 0, and of the first rank of each node,
 * listens. Only processes that have the launch's secret (secret.h) can be a rank, or rank 0. folder: where
 * the run writes, for that secret. patience_s: that anything is waited for. l: borrowed. mine->seat.port is
 * set. TRI_EDEVICE: no socket can be had. */
TRI_CHECKED tri_status tri_rendezvous_open(const tri_launch *l, const char *folder, tri_facts *mine,
                                           double patience_s, tri_rendezvous **out);
void                   tri_rendezvous_close(tri_rendezvous **m);
/* Whether ranks can meet: the launcher says where, and there is a secret that all of them have. */
bool tri_rendezvous_can(const tri_rendezvous *m);

/* Of rank 0, in this order. */
/* Facts of all who come in time, f [tasks] by task; of others zero. */
void tri_rendezvous_gather(tri_rendezvous *m, tri_facts *f);
/* Adds what was wrong with it: two processes that came as one task; ranks that can have no secret, after
 * which tri_rendezvous_can is false. */
TRI_CHECKED tri_status tri_rendezvous_check(tri_rendezvous *m, tri_findings *out);
/* Of each node's first rank; clock [tasks] is zero before. */
void tri_rendezvous_clocks(tri_rendezvous *m, const tri_case *c, tri_facts_clock *clock);
/* Every pair of nodes, of more than 64 nodes each with those 1, 2, 4, ... further on; and those from which
 * nobody came. *out [*n] by tri_host_free. */
TRI_CHECKED tri_status tri_rendezvous_reach(tri_rendezvous *m, const tri_case *c, tri_reach **out, int *n);
/* Tells the others to go on with MPI, or to end. */
void tri_rendezvous_decide(tri_rendezvous *m, bool go);

/* Of the others: answers rank 0 until it decides. Where this rank can have no secret it goes on at once.
 * False: to end; TRI_ECOMM: rank 0 cannot be reached, or does not decide in time. */
TRI_CHECKED tri_status tri_rendezvous_serve(tri_rendezvous *m, bool *go);

/* Of a rank that tri_rendezvous_serve failed for: waits so long that rank 0, if it lives, has asked all
 * others and said what it knows; a launcher ends all ranks as soon as one ends. */
void tri_rendezvous_wait_for_hub(const tri_rendezvous *m);

/* From then on, every rank: which stage begins; NULL: all is done. */
void tri_rendezvous_stage(tri_rendezvous *m, const char *stage);
/* This rank cannot go on. */
void tri_rendezvous_fail(tri_rendezvous *m, const char *message);
/* Of rank 0: from here on ranks that hang, fail or are gone are looked for. */
void tri_rendezvous_monitor(tri_rendezvous *m, tri_rendezvous_on_hang call, void *ctx);

#endif
