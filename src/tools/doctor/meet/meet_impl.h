/* meet_impl.h - what the meet_*.c files share. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEET_IMPL_H
#define TRI_MEET_IMPL_H

#include "meet.h"
#include "secret.h"
#include "talk.h"

#include <pthread.h>

enum { TRI_MEET_PORTS = 4, TRI_MEET_STAGE_BYTES = 32, TRI_MEET_PROCESS_BYTES = 16 };

/* What a rank says first. */
typedef struct tri_meet_hello {
  unsigned char process[TRI_MEET_PROCESS_BYTES]; /* random: tells a process from another of the same task */
  tri_facts     facts;
} tri_meet_hello;

/* What rank 0 knows of a rank. */
typedef struct tri_member {
  tri_talk     *talk; /* its guest's; NULL: none (rank 0 itself), or gone */
  bool          came, gone, answered;
  bool          without; /* it can have no secret, somebody says; until it comes */
  unsigned char process[TRI_MEET_PROCESS_BYTES];
  tri_talk_in   answer;   /* the last */
  double        answer_s; /* when it came, seconds since 1970 */
  int           stage;    /* counted from 1; INT32_MAX: all is done */
  char          name[TRI_MEET_STAGE_BYTES];
  char         *failed; /* owned */
} tri_member;

/* A connection that somebody made. */
typedef struct tri_guest {
  tri_talk    talk;
  int         task; /* of a member, -1: not one */
  double      since_s;
  tri_talk_in in;
} tri_guest;

/* Who comes, and what they are told. */
typedef struct tri_meet_trust {
  tri_secret       secret;
  bool             off;                             /* ranks do not meet: there is no secret that all have */
  unsigned char    process[TRI_MEET_PROCESS_BYTES]; /* of this rank */
  bool             decided;                         /* rank 0 has told who came... */
  tri_talk_verdict verdict;                         /* ...this */
  int              twice;                           /* task that two processes came as; -1: none */
  char             twice_host[2][TRI_FACTS_NAME_BYTES];
  int              sealed; /* secrets that were sealed */
} tri_meet_trust;

struct tri_meet {
  const tri_launch *launch;
  double            patience_s;
  tri_facts        *facts;  /* [tasks] of rank 0, [1] of others: its own */
  tri_member       *member; /* [tasks] of rank 0, else NULL */
  int               listen, wake[2];
  tri_talk          hub; /* to rank 0; fd -1: none */
  tri_meet_trust    trust;
  tri_guest       **guest; /* [n_guest] */
  int64_t           n_guest, guest_cap;
  pthread_t         keeper, voice;
  bool              speaks; /* voice runs: it answers rank 0 while MPI has this rank's main thread */
  pthread_mutex_t   lock;   /* of member, facts and what follows */
  pthread_cond_t    news;
  bool              kept, ending; /* kept: the keeper runs */
  struct {
    bool full, told;
  } files;                     /* the system gives this process no socket for another guest; that was said */
  int              stage;      /* of this rank */
  double           progress_s; /* when any rank last went on */
  double           asked_s;    /* when those that do not were asked; 0: not yet */
  tri_meet_on_hang on_hang;    /* NULL: not watched */
  void            *ctx;
};

/* Seconds that a network's answer is waited for. Chosen: far more than one needs. */
static inline double tri_meet_knock_s(const tri_meet *m) { return m->patience_s < 6 ? m->patience_s / 2 : 3; }
/* meet_hub.c: of rank 0. A message to a member; whether it was sent. */
bool tri_meet_send(tri_meet *m, int task, tri_talk_kind kind, const void *bytes, size_t n);
/* meet_hub.c: of rank 0. The answer of this kind to the last message, to be dropped by the caller; *when_s:
 * when it came, seconds since 1970. False: none came. */
bool tri_meet_answer(tri_meet *m, int task, tri_talk_kind kind, double until_s, tri_talk_in *out,
                     double *when_s);
/* meet_member.c. Ends the thread that answers for this rank. */
void tri_meet_silence(tri_meet *m);
/* meet_watch.c: to rank 0, of another rank. Where that fails nothing more is sent or heard. */
void tri_meet_tell(tri_meet *m, tri_talk_kind kind, const void *bytes, size_t n);
/* meet_watch.c: called by the keeper, unlocked, several times a second. */
void tri_meet_look(tri_meet *m);
/* meet_watch.c: a member's message of this kind; locked. */
void tri_meet_hear(tri_meet *m, int task, const tri_talk_in *in);

#endif
