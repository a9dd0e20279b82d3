/* work_queue.h - a queue of jobs and its worker thread, which answers them while the main thread does other
 * work. The main thread puts jobs and collects their answers. The worker takes the jobs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_WORK_QUEUE_H
#define TRI_WORK_QUEUE_H

#include "base/mask.h"

enum { TRI_WORK_QUEUE_WHY_BYTES = 1024 }; /* chosen: a few sentences */

/* Chosen: a line has space for the metrics of sixteen rewards (report/metrics.h), and for each name with its
 * prefix. */
enum { TRI_EXTRAS_MOST = 16, TRI_EXTRA_NAME_BYTES = 33 };
/* An extra number in a reply. */
typedef struct tri_extra {
  char   name[TRI_EXTRA_NAME_BYTES];
  double value;
} tri_extra;
/* The extra numbers of one answer, sorted by name. */
typedef struct tri_extras {
  int       n;
  tri_extra at[TRI_EXTRAS_MOST];
} tri_extras;

typedef struct tri_work_queue tri_work_queue;

/* One job. The worker may use it from tri_work_queue_take until it answers, and may write only tries and
 * when_s. */
typedef struct tri_job {
  int64_t id;     /* unique in the queue */
  int     number; /* number of the answer, given by the caller */
  void   *text;   /* request of the caller, freed by tri_work_queue_opt.free_text */
  int     tries;  /* for the worker, 0 at first */
  double  when_s; /* for the worker, 0 at first */
} tri_job;

typedef struct tri_work_queue_opt {
  const char *name; /* name of the reward, for the log */
  /* Called once in the worker thread, before all else. May be NULL. tri_work_queue_open returns its status
   * and message. */
  tri_status (*begin)(void *ctx);
  /* Called in the worker thread. Answers jobs until tri_work_queue_take returns TRI_WORK_QUEUE_CLOSE. */
  void (*work)(void *ctx, tri_work_queue *d);
  /* Called once in the worker thread at its end, if begin succeeded. May be NULL. */
  void (*end)(void *ctx);
  void (*free_text)(void *text);
  void              *ctx;
  const tri_secrets *secrets; /* masked in the worker's lines and in causes of failures. NULL without any */
  bool               hasty;   /* the first failure ends tri_work_queue_collect, and other jobs are given up */
  /* For trireme reward. No failure ends tri_work_queue_collect, replies of failures are kept, and all lines
   * of the worker are shown. */
  bool trial;
} tri_work_queue_opt;

/* The result of a job. All pointers are borrowed. */
typedef struct tri_work_queue_result {
  int               number;
  float             score;    /* NAN if it failed */
  double            seconds;  /* since the job was put, or since the previous answer, whichever is later */
  bool              is_first; /* first job of the queue. Its seconds include the start of a program */
  const char       *why;      /* cause of failure, NULL if it did not fail */
  const tri_extras *extras;   /* NULL without any */
  const void       *text;     /* tri_job.text */
  const char       *reply;    /* [reply_bytes] reply of a failed job in a trial, secrets masked, else NULL */
  size_t            reply_bytes;
} tri_work_queue_result;
/* Gets the result of each finished job, in ascending order of numbers. It must not call the queue. */
typedef struct tri_work_queue_listener {
  void (*told)(void *ctx, const tri_work_queue_result *r);
  void *ctx;
} tri_work_queue_listener;

/* Not collective, as all that follow. Opens a queue and starts its worker thread with signals blocked. */
TRI_CHECKED tri_status tri_work_queue_open(const tri_work_queue_opt *o, tri_work_queue **out);
/* Gives up open jobs and waits for the end of the worker. */
void tri_work_queue_close(tri_work_queue **d);
/* Returns the id of the next job. */
int64_t tri_work_queue_next_id(const tri_work_queue *d);
/* Puts a job. Takes over text, even if it fails. Does not wait. */
TRI_CHECKED tri_status tri_work_queue_put(tri_work_queue *d, int number, void *text);
/* Waits at most most_s seconds for all answers. Returns false if collect would still have to wait. */
bool tri_work_queue_await(tri_work_queue *d, double most_s);
/* Waits until all jobs are answered, then forgets them. Fills score [n] at the numbers of the jobs. A failed
 * job gets NAN. *failed and `why` describe the failed job with the lowest number, and *failed < 0 means no
 * failure. `listener` may be NULL. Returns TRI_EREWARD if the worker ended its service. In a trial all open
 * jobs fail instead. */
TRI_CHECKED tri_status tri_work_queue_collect(tri_work_queue *d, int n, float *score, int *failed,
                                              char                           why[TRI_WORK_QUEUE_WHY_BYTES],
                                              const tri_work_queue_listener *listener);
/* Returns the number of restarts since the last call. */
int64_t tri_work_queue_restarts(tri_work_queue *d);
/* Gives up open jobs, and returns when the worker has dropped them. */
void tri_work_queue_forget(tri_work_queue *d);

/* For the worker. Returns its next order, and in *next the next job or NULL. */
typedef enum {
  TRI_WORK_QUEUE_WORK,
  TRI_WORK_QUEUE_FORGET, /* drop every job taken so far. They are freed after the next take */
  TRI_WORK_QUEUE_CLOSE   /* drop every job and end */
} tri_work_queue_order;
tri_work_queue_order tri_work_queue_take(tri_work_queue *d, tri_job **next);
/* Tells whether the main thread waits for answers and all jobs are taken. No more jobs come until it has
 * them. */
bool tri_work_queue_is_awaited(tri_work_queue *d);
/* A file descriptor that becomes readable when there is a new job or order, or when the main thread begins to
 * wait. take empties it. */
int tri_work_queue_wakeup(const tri_work_queue *d);
/* Answers a job. The worker must not use it afterwards. A score that is not finite counts as a failure. */
void tri_work_queue_answer(tri_work_queue *d, tri_job *q, double score);
/* Answers a job with extra numbers of its reply. */
void tri_work_queue_answer_more(tri_work_queue *d, tri_job *q, double score, const tri_extras *extras);
/* Keeps the reply of a job in a trial. Call it before the job fails. */
void tri_work_queue_keep_reply(tri_work_queue *d, tri_job *q, const char *reply, size_t n);
void tri_work_queue_fail(tri_work_queue *d, tri_job *q, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts a restart of a program that died. It warns with the reason the first time, and with the number at
 * the end if there were several. */
void tri_work_queue_restarted(tri_work_queue *d, const char *why);
/* Ends the service, whatever on_error says. tri_work_queue_collect then fails with this message. */
void tri_work_queue_end_service(tri_work_queue *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Gives lines to the log. The next call of the main thread writes them there. Their number of bytes is
 * limited, in a trial generously. Further lines are counted and dropped. Lines that a program said before it
 * was started again are not written again, but counted. In a trial they are. */
void tri_work_queue_say(tri_work_queue *d, const char *line, size_t n);

#endif
