/* work_queue.h - jobs to a thread of their own, which answers them while the caller does other work. The main
 * thread puts jobs and waits for their answers; the worker, a thread of the queue, takes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_WORK_QUEUE_H
#define TRI_WORK_QUEUE_H

#include "base/mask.h"

enum { TRI_WORK_QUEUE_WHY_BYTES = 1024 }; /* chosen: a few sentences */

/* Chosen: metrics of some sixteen rewards fit into a line (report/metrics.h), and so does each name with what
 * stands around it. */
enum { TRI_EXTRAS_MOST = 16, TRI_EXTRA_NAME_BYTES = 33 };
/* A further number of an answer's reply. */
typedef struct tri_extra {
  char   name[TRI_EXTRA_NAME_BYTES];
  double value;
} tri_extra;
/* All of them, in the order of their names. */
typedef struct tri_extras {
  int       n;
  tri_extra at[TRI_EXTRAS_MOST];
} tri_extras;

typedef struct tri_work_queue tri_work_queue;

/* One job. All but the last two is only read, from tri_work_queue_take to its answer. */
typedef struct tri_job {
  int64_t id;     /* of no other job of the queue */
  int     number; /* the answer's, as the caller counts */
  void   *text;   /* what is asked, by the caller; freed by tri_work_queue_opt.free_text */
  int     tries;  /* the worker's own, 0 at first */
  double  when_s; /* the same */
} tri_job;

typedef struct tri_work_queue_opt {
  const char *name; /* of the reward, for the log */
  /* In the worker's thread: once, before all else; may be NULL. What it returns, with its message,
   * tri_work_queue_open returns. */
  tri_status (*begin)(void *ctx);
  /* In the worker's thread: answers jobs until tri_work_queue_take says that the queue closes. */
  void (*work)(void *ctx, tri_work_queue *d);
  /* In the worker's thread: once, at the end, where begin succeeded. */
  void (*end)(void *ctx);
  void (*free_text)(void *text);
  void              *ctx;
  const tri_secrets *secrets; /* masked in what the worker says and in causes of failures; NULL: none */
  bool               hasty;   /* one failure ends tri_work_queue_collect: the others are given up */
  /* The rewards are tried: no failure ends tri_work_queue_collect, replies of failures are kept, and all
   * that is said on the side is shown. */
  bool trial;
} tri_work_queue_opt;

/* What became of a job; all is borrowed. */
typedef struct tri_work_queue_result {
  int         number;
  float       score;    /* NAN: it failed */
  double      seconds;  /* since the job was put, or the answer before it came */
  bool        is_first; /* of all that the queue was asked: its seconds have the start of whoever answers */
  const char *why;      /* it failed; NULL: it did not */
  const tri_extras *extras; /* NULL: none */
  const void       *text;   /* the job's */
  const char       *reply;  /* [reply_bytes] secrets masked; in a trial, of a failure; NULL: there was none */
  size_t            reply_bytes;
} tri_work_queue_result;
/* Who is told of each job that ended, in the order of their numbers. It must not call the queue. */
typedef struct tri_work_queue_listener {
  void (*told)(void *ctx, const tri_work_queue_result *r);
  void *ctx;
} tri_work_queue_listener;

/* Not collective, as all that follow. The worker begins; it gets no signals. */
TRI_CHECKED tri_status tri_work_queue_open(const tri_work_queue_opt *o, tri_work_queue **out);
/* Open jobs are given up. Waits for the worker's end. */
void tri_work_queue_close(tri_work_queue **d);
/* That of the next job. */
int64_t tri_work_queue_next_id(const tri_work_queue *d);
/* Takes over text, also where it fails. Does not wait. */
TRI_CHECKED tri_status tri_work_queue_put(tri_work_queue *d, int number, void *text);
/* Waits until collect would not, at most so long; false: it still would. */
bool tri_work_queue_await(tri_work_queue *d, double most_s);
/* Waits until all are answered, and forgets them. TRI_EREWARD: the worker ended the service; in a trial all
 * that is open has failed then. score [n]: of those put, by number; NAN: it failed, and of the lowest number
 * that did *failed and why tell; *failed < 0: none. listener: NULL: nobody listens. */
TRI_CHECKED tri_status tri_work_queue_collect(tri_work_queue *d, int n, float *score, int *failed,
                                              char                           why[TRI_WORK_QUEUE_WHY_BYTES],
                                              const tri_work_queue_listener *listener);
/* Not collective. How often the worker began anew since the last call. */
int64_t tri_work_queue_restarts(tri_work_queue *d);
/* Gives up what is open; returns when the worker has heard of it. */
void tri_work_queue_forget(tri_work_queue *d);

/* The worker's. What there is to do now: the next job, NULL where there is none. */
typedef enum {
  TRI_WORK_QUEUE_WORK,
  TRI_WORK_QUEUE_FORGET, /* drop every job that was taken: they are gone with the next call of take */
  TRI_WORK_QUEUE_CLOSE   /* the same, and end */
} tri_work_queue_order;
tri_work_queue_order tri_work_queue_take(tri_work_queue *d, tri_job **next);
/* Whether the main thread waits for answers and all jobs were taken: no more come before then. */
bool tri_work_queue_is_awaited(tri_work_queue *d);
/* A file that can be read when take has something new or the main thread begins to wait; take empties it. */
int tri_work_queue_wakeup(const tri_work_queue *d);
/* The answer to a job that was taken, which is the worker's no more. Not finite: a failure, which says
 * that. */
void tri_work_queue_answer(tri_work_queue *d, tri_job *q, double score);
/* The same with the further numbers of its reply. */
void tri_work_queue_answer_more(tri_work_queue *d, tri_job *q, double score, const tri_extras *extras);
/* Before its failure: what came in reply, kept in a trial. */
void tri_work_queue_keep_reply(tri_work_queue *d, tri_job *q, const char *reply, size_t n);
void tri_work_queue_fail(tri_work_queue *d, tri_job *q, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Who answers died, and was started again: counted, and the first time, and at the end if it was several
 * times, a warning with the reason. */
void tri_work_queue_restarted(tri_work_queue *d, const char *why);
/* There will be no answers any more, whatever on_error says: tri_work_queue_collect fails with this
 * message. */
void tri_work_queue_end_service(tri_work_queue *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Lines for the log, which the next call of the main thread writes there; bounded, what is more is dropped
 * and counted, but in a trial. */
void tri_work_queue_say(tri_work_queue *d, const char *line, size_t n);

#endif
