/* rendezvous_impl.h - what the meet_*.c files share. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RENDEZVOUS_IMPL_H
#define TRI_RENDEZVOUS_IMPL_H

#include "rendezvous.h"
#include "secret.h"
#include "channel.h"

#include <pthread.h>

enum { TRI_RENDEZVOUS_PORTS = 4, TRI_RENDEZVOUS_STAGE_BYTES = 32, TRI_RENDEZVOUS_PROCESS_BYTES = 16 };

/* What a rank says first. */
typedef struct tri_rendezvous_hello {
  unsigned char
            process[TRI_RENDEZVOUS_PROCESS_BYTES]; /* random: tells a process from another of the same task */
  tri_facts facts;
} tri_rendezvous_hello;

/* What rank 0 knows of a rank. */
typedef struct tri_member {
  tri_channel   *channel; /* its guest's; NULL: none (rank 0 itself), or gone */
  bool           came, gone, answered;
  bool           without; /* it can have no secret, somebody says; until it comes */
  unsigned char  process[TRI_RENDEZVOUS_PROCESS_BYTES];
  tri_channel_in answer;   /* the last */
  double         answer_s; /* when it came, seconds since 1970 */
  int            stage;    /* counted from 1; INT32_MAX: all is done */
  char           name[TRI_RENDEZVOUS_STAGE_BYTES];
  char          *failed; /* owned */
} tri_member;

/* A connection that somebody made. */
typedef struct tri_guest {
  tri_channel    channel;
  int            task; /* of a member, -1: not one */
  double         since_s;
  tri_channel_in in;
} tri_guest;

/* Who comes, and what they are told. */
typedef struct tri_rendezvous_trust {
  tri_secret          secret;
  bool                off; /* ranks do not meet: there is no secret that all have */
  unsigned char       process[TRI_RENDEZVOUS_PROCESS_BYTES]; /* of this rank */
  bool                decided;                               /* rank 0 has told who came... */
  tri_channel_verdict verdict;                               /* ...this */
  int                 twice;                                 /* task that two processes came as; -1: none */
  char                twice_host[2][TRI_FACTS_NAME_BYTES];
  int                 sealed; /* secrets that were sealed */
} tri_rendezvous_trust;

struct tri_rendezvous {
  const tri_launch    *launch;
  double               patience_s;
  tri_facts           *facts;  /* [tasks] of rank 0, [1] of others: its own */
  tri_member          *member; /* [tasks] of rank 0, else NULL */
  int                  listen, wake[2];
  tri_channel          hub; /* to rank 0; fd -1: none */
  tri_rendezvous_trust trust;
  tri_guest          **guest; /* [n_guest] */
  int64_t              n_guest, guest_cap;
  pthread_t            keeper, voice;
  bool                 speaks; /* voice runs: it answers rank 0 while MPI has this rank's main thread */
  pthread_mutex_t      lock;   /* of member, facts and what follows */
  pthread_cond_t       news;
  bool                 kept, ending; /* kept: the keeper runs */
  struct {
    bool full, told;
  } files;                      /* the system gives this process no socket for another guest; that was said */
  int                    stage; /* of this rank */
  double                 progress_s; /* when any rank last went on */
  double                 asked_s;    /* when those that do not were asked; 0: not yet */
  tri_rendezvous_on_hang on_hang;    /* NULL: not watched */
  void                  *ctx;
};

/* Seconds that a network's answer is waited for. Chosen: far more than one needs. */
static inline double tri_rendezvous_probe_s(const tri_rendezvous *m) {
  return m->patience_s < 6 ? m->patience_s / 2 : 3;
}
/* rendezvous_hub.c: of rank 0. A message to a member; whether it was sent. */
bool tri_rendezvous_send(tri_rendezvous *m, int task, tri_channel_kind kind, const void *bytes, size_t n);
/* rendezvous_hub.c: of rank 0. The answer of this kind to the last message, to be dropped by the caller;
 * *when_s: when it came, seconds since 1970. False: none came. */
bool tri_rendezvous_answer(tri_rendezvous *m, int task, tri_channel_kind kind, double until_s,
                           tri_channel_in *out, double *when_s);
/* rendezvous_member.c. Ends the thread that answers for this rank. */
void tri_rendezvous_silence(tri_rendezvous *m);
/* rendezvous_monitor.c: to rank 0, of another rank. Where that fails nothing more is sent or heard. */
void tri_rendezvous_tell(tri_rendezvous *m, tri_channel_kind kind, const void *bytes, size_t n);
/* rendezvous_monitor.c: called by the keeper, unlocked, several times a second. */
void tri_rendezvous_poll(tri_rendezvous *m);
/* rendezvous_monitor.c: a member's message of this kind; locked. */
void tri_rendezvous_hear(tri_rendezvous *m, int task, const tri_channel_in *in);

#endif
