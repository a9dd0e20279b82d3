/* rendezvous_impl.h - declares the common parts of the rendezvous_*.c files. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RENDEZVOUS_IMPL_H
#define TRI_RENDEZVOUS_IMPL_H

#include "rendezvous.h"
#include "secret.h"
#include "channel.h"

#include <pthread.h>

enum { TRI_RENDEZVOUS_PORTS = 4, TRI_RENDEZVOUS_STAGE_BYTES = 32, TRI_RENDEZVOUS_PROCESS_BYTES = 16 };

/* First message of a rank. */
typedef struct tri_rendezvous_hello {
  unsigned char
            process[TRI_RENDEZVOUS_PROCESS_BYTES]; /* random, to tell apart two processes of the same task */
  tri_facts facts;
} tri_rendezvous_hello;

/* Facts of rank 0 about a rank. */
typedef struct tri_member {
  tri_channel   *channel; /* its guest's. NULL: none (rank 0 itself), or gone */
  bool           came, gone, answered;
  bool           without; /* it cannot get the secret, by a claim of anybody. Cleared when it comes */
  unsigned char  process[TRI_RENDEZVOUS_PROCESS_BYTES];
  tri_channel_in answer;   /* the last one */
  double         answer_s; /* when it came, seconds since 1970 */
  int            stage;    /* counted from 1. INT32_MAX: all is done */
  char           name[TRI_RENDEZVOUS_STAGE_BYTES];
  char          *failed; /* owned */
} tri_member;

/* An accepted connection. */
typedef struct tri_guest {
  tri_channel    channel;
  int            task; /* task of a member. -1: not a member */
  double         since_s;
  tri_channel_in in;
} tri_guest;

/* The secret, and the decision of rank 0. */
typedef struct tri_rendezvous_trust {
  tri_secret          secret;
  bool                off; /* ranks do not connect, because not all have the secret */
  unsigned char       process[TRI_RENDEZVOUS_PROCESS_BYTES]; /* identifies this rank's process */
  bool                decided;                               /* rank 0 has decided */
  tri_channel_verdict verdict;                               /* its decision */
  int                 twice;                                 /* task of two processes. -1: none */
  char                twice_host[2][TRI_FACTS_NAME_BYTES];
  int                 sealed; /* number of sealed secrets */
} tri_rendezvous_trust;

struct tri_rendezvous {
  const tri_launch    *launch;
  double               patience_s;
  tri_facts           *facts;  /* [tasks] on rank 0, [1] on others, its own */
  tri_member          *member; /* [tasks] on rank 0, else NULL */
  int                  listen, wake[2];
  tri_channel          hub; /* connection to rank 0. fd -1: none */
  tri_rendezvous_trust trust;
  tri_guest          **guest; /* [n_guest] */
  int64_t              n_guest, guest_cap;
  pthread_t            keeper, voice;
  bool                 speaks; /* the thread `voice` runs. It answers rank 0 while MPI has the main thread */
  pthread_mutex_t      lock;   /* guards member, facts and the members below */
  pthread_cond_t       news;
  bool                 kept, ending; /* kept: the keeper thread runs */
  struct {
    bool full, told;
  } files;                           /* full: the system gives no socket for another guest. told: this was
                                 * logged */
  int                    stage;      /* stage of this rank */
  double                 progress_s; /* when any rank last made progress */
  double                 asked_s;    /* when the others were asked. 0: not yet */
  tri_rendezvous_on_hang on_hang;    /* NULL: not monitored */
  void                  *ctx;
};

/* Returns the seconds to wait for an answer over a network. Chosen, far more than one needs. */
static inline double tri_rendezvous_probe_s(const tri_rendezvous *m) {
  return m->patience_s < 6 ? m->patience_s / 2 : 3;
}
/* rendezvous_hub.c, on rank 0. Sends a message to a member. Returns whether it was sent. */
bool tri_rendezvous_send(tri_rendezvous *m, int task, tri_channel_kind kind, const void *bytes, size_t n);
/* rendezvous_hub.c, on rank 0. Waits for an answer of this kind to the last message. The caller drops it.
 * *when_s: when it came, seconds since 1970. Returns false if none came. */
bool tri_rendezvous_answer(tri_rendezvous *m, int task, tri_channel_kind kind, double until_s,
                           tri_channel_in *out, double *when_s);
/* rendezvous_member.c. Ends the thread with this rank's answers. */
void tri_rendezvous_silence(tri_rendezvous *m);
/* rendezvous_monitor.c. Sends a message from another rank to rank 0. After a failure nothing more is sent or
 * received. */
void tri_rendezvous_tell(tri_rendezvous *m, tri_channel_kind kind, const void *bytes, size_t n);
/* rendezvous_monitor.c. The keeper calls it without the lock, several times a second. */
void tri_rendezvous_poll(tri_rendezvous *m);
/* rendezvous_monitor.c. Handles a member's message of stage or failure, with the lock held. */
void tri_rendezvous_hear(tri_rendezvous *m, int task, const tri_channel_in *in);

#endif
