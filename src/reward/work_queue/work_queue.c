/* work_queue.c - a queue of jobs and its worker thread, which answers them while the main thread does other
 * work. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "work_queue.h"

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "base/visible.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Chosen: limits of a program's log lines. One line, one screen at a time, and some screens in all. */
enum { SAID_LINE_BYTES = 1024, SAID_BYTES = 4096, SAID_BYTES_IN_ALL = 65536 };
enum { SAID_BYTES_OF_TRIAL = 1 << 26, REPLY_BYTES = 1 << 16 }; /* chosen: more is a flood */

/* A job with the queue's own fields. */
typedef struct slip {
  tri_job     q; /* must come first, because the worker sees only this part */
  bool        is_done, is_first;
  float       score;
  double      put_s, seconds;
  char       *why;    /* cause of failure. NULL without a failure, or if memory was short */
  tri_extras *extras; /* NULL without any */
  tri_text    reply;
} slip;

/* Deaths of the worker's program before the queue closes. */
typedef struct worker_ends {
  int64_t n, n_in_all;                       /* restarts not yet reported, and all */
  char    died[TRI_WORK_QUEUE_WHY_BYTES];    /* first cause of death, "" once logged */
  char    service[TRI_WORK_QUEUE_WHY_BYTES]; /* why the service ended, "" if it did not */
} worker_ends;

/* Lines that a program repeats after a restart. */
typedef struct repeats {
  tri_text shown;    /* all lines in the log so far, each with its newline */
  size_t   n_before; /* bytes of `shown` from programs before the last restart */
  int64_t  again;    /* lines of the current program that one of these said */
  int64_t  n, times; /* such lines of the last program that had any, and the number of these programs */
  int64_t  told;     /* times when the log last reported them */
  bool     is_due;   /* the log has to report them */
} repeats;

struct tri_work_queue {
  tri_work_queue_opt opt;
  pthread_mutex_t    lock;
  pthread_cond_t     news; /* wakes the main thread */
  pthread_t          worker;
  bool               is_running; /* there is a worker thread to join */
  int                wakeup[2];
  int64_t            next_id;
  /* The lock guards all fields below. */
  slip               **slip; /* [n] */
  int64_t              n, cap, n_taken, n_done, n_failed;
  tri_work_queue_order order;
  bool                 is_told;    /* the worker has the order to forget */
  bool                 is_awaited; /* the main thread waits */
  double               settled_s;  /* time of the last finished job */
  bool                 has_begun;
  tri_status           begun; /* its message is in `message` */
  char                 message[TRI_MESSAGE_BYTES];
  tri_text             said;
  size_t               n_said_in_all;
  int64_t              unsaid; /* lines */
  repeats              repeats;
  worker_ends          ends;
};

static void lock(tri_work_queue *d) { pthread_mutex_lock(&d->lock); }
static void unlock(tri_work_queue *d) { pthread_mutex_unlock(&d->lock); }

static void ring(tri_work_queue *d) {
  ssize_t n;

  do n = write(d->wakeup[1], "", 1); /* a full pipe is fine, it wakes the worker anyway */
  while (n < 0 && errno == EINTR);
}

/* ---- log lines of the worker ---- */

/* Call it under the lock. Tells whether n more bytes fit into the limits. */
static bool has_space(const tri_work_queue *d, size_t n) {
  size_t at_once = d->opt.trial ? SAID_BYTES_OF_TRIAL : SAID_BYTES;
  size_t in_all = d->opt.trial ? SAID_BYTES_OF_TRIAL : SAID_BYTES_IN_ALL;

  return d->said.len + n + 1 <= at_once && d->n_said_in_all + n + 1 <= in_all;
}

/* Tells whether a program before the last restart said this line [n], which ends with a newline. */
static bool is_repeated(const repeats *r, const char *line, size_t n) {
  for (size_t at = 0, len; at < r->n_before; at += len) {
    const char *first = r->shown.data + at;
    len = (size_t)((const char *)memchr(first, '\n', r->n_before - at) + 1 - first);
    if (len == n && !memcmp(first, line, n)) return true;
  }
  return false;
}

/* Counts the repeated lines of a program that ended. The log reports them at powers of two. */
static void count_repeats(repeats *r) {
  if (r->again) {
    r->n = r->again;
    r->times++;
    r->is_due |= !(r->times & (r->times - 1));
  }
  r->again = 0;
  r->n_before = r->shown.len;
}

void tri_work_queue_say(tri_work_queue *d, const char *line, size_t bytes) {
  char   shown[SAID_LINE_BYTES + 1];
  size_t n = tri_secrets_copy(d->opt.secrets, line, bytes, shown, sizeof shown - 1);

  shown[n] = '\n';
  lock(d);
  if (is_repeated(&d->repeats, shown, n + 1)) {
    d->repeats.again++;
  } else if (has_space(d, n) && tri_text_put(&d->said, shown, n + 1) == TRI_OK) {
    d->n_said_in_all += n + 1; /* an empty line counts too */
    if (!d->opt.trial && tri_text_put(&d->repeats.shown, shown, n + 1) != TRI_OK) tri_error_clear();
  } else {
    tri_error_clear();
    d->unsaid++;
  }
  unlock(d);
}

/* The main thread calls it without the lock. */
static void log_said(tri_work_queue *d) {
  char     died[TRI_WORK_QUEUE_WHY_BYTES];
  tri_text said;
  int64_t  unsaid, again, times;

  lock(d);
  again = d->repeats.is_due ? d->repeats.n : 0;
  times = d->repeats.times;
  if (again) d->repeats.told = times;
  d->repeats.is_due = false;
  memcpy(died, d->ends.died, sizeof died);
  d->ends.died[0] = 0;
  said = d->said;
  unsaid = d->unsaid;
  d->said = (tri_text){0};
  d->unsaid = 0;
  unlock(d);
  for (size_t at = 0; at < said.len;) {
    size_t len = (size_t)((char *)memchr(said.data + at, '\n', said.len - at) - (said.data + at));
    tri_warn("reward_says", "reward %s says: %.*s", d->opt.name, (int)len, said.data + at);
    at += len + 1;
  }
  if (died[0])
    tri_warn("reward_restarted", "reward %s is started again: %s (logged once, reward_restarts counts)",
             d->opt.name, died);
  if (again)
    tri_warn("reward_says", "reward %s says the same %lld line%s again after a restart, %lld time%s so far",
             d->opt.name, (long long)again, again == 1 ? "" : "s", (long long)times, times == 1 ? "" : "s");
  if (unsaid)
    tri_warn("reward_says", "reward %s says %lld more line%s, not shown", d->opt.name, (long long)unsaid,
             unsaid == 1 ? "" : "s");
  tri_text_free(&said);
}

/* ---- jobs ---- */

static void free_slip(tri_work_queue *d, slip *s) {
  if (s->q.text) d->opt.free_text(s->q.text);
  TRI_FREE(s->why);
  TRI_FREE(s->extras);
  tri_text_free(&s->reply);
  TRI_FREE(s);
}

/* Call it under the lock, when the worker has no jobs. */
static void clear(tri_work_queue *d) {
  for (int64_t i = 0; i < d->n; i++) free_slip(d, d->slip[i]);
  d->n = d->n_taken = d->n_done = d->n_failed = 0;
  d->is_awaited = false;
}

int64_t tri_work_queue_next_id(const tri_work_queue *d) { return d->next_id; }

tri_status tri_work_queue_put(tri_work_queue *d, int number, void *text) {
  slip      *s = NULL;
  tri_status st = TRI_ALLOC(s, 1);

  if (st != TRI_OK) {
    d->opt.free_text(text);
    return st;
  }
  s->q = (tri_job){.id = d->next_id++, .number = number, .text = text};
  s->put_s = tri_now_s();
  lock(d);
  st = TRI_GROW(d->slip, d->cap, d->n + 1);
  if (st == TRI_OK) d->slip[d->n++] = s;
  unlock(d);
  if (st != TRI_OK) free_slip(d, s);
  if (st == TRI_OK) ring(d);
  log_said(d);
  return st;
}

/* The result of a job. */
static tri_work_queue_result result_of(const tri_work_queue *d, const slip *s) {
  const char *open = d->ends.service[0] ? d->ends.service : "it was not sent";

  return (tri_work_queue_result){.number = s->q.number,
                                 .score = s->is_done ? s->score : NAN,
                                 .seconds = s->seconds,
                                 .is_first = s->is_first,
                                 .why = !s->is_done       ? open
                                        : isnan(s->score) ? (s->why ? s->why : "")
                                                          : NULL,
                                 .extras = s->extras,
                                 .text = s->q.text,
                                 .reply = s->reply.data,
                                 .reply_bytes = s->reply.len};
}

/* Call it under the lock. Reads results in order of numbers, of finished jobs and in a trial of all jobs. */
static tri_status read_out(const tri_work_queue *d, int n, float *score, int *failed,
                           char why[TRI_WORK_QUEUE_WHY_BYTES], const tri_work_queue_listener *listener) {
  const slip **by = NULL; /* [n] */

  TRI_TRY(TRI_ALLOC(by, n));
  for (int64_t i = 0; i < d->n; i++) {
    TRI_ASSERT(d->slip[i]->q.number >= 0 && d->slip[i]->q.number < n);
    if (d->slip[i]->is_done || d->opt.trial) by[d->slip[i]->q.number] = d->slip[i];
  }
  for (int k = 0; k < n; k++) {
    if (!by[k]) continue;
    tri_work_queue_result r = result_of(d, by[k]);
    score[k] = r.score;
    if (r.why && *failed < 0) {
      *failed = k;
      snprintf(why, TRI_WORK_QUEUE_WHY_BYTES, "%s", r.why);
    }
    if (listener) listener->told(listener->ctx, &r);
  }
  TRI_FREE(by);
  return TRI_OK;
}

/* Call it under the lock. */
static bool is_ready(const tri_work_queue *d) {
  return d->n_done == d->n || d->ends.service[0] || (d->opt.hasty && d->n_failed);
}

/* Call it under the lock. Tells the worker that the main thread waits. */
static void begin_waiting(tri_work_queue *d) {
  if (d->is_awaited || is_ready(d)) return;
  d->is_awaited = true;
  ring(d);
}

bool tri_work_queue_is_awaited(tri_work_queue *d) {
  bool is;

  lock(d);
  is = d->is_awaited && d->n_taken == d->n;
  unlock(d);
  return is;
}

bool tri_work_queue_await(tri_work_queue *d, double most_s) {
  struct timespec until;
  double          until_s;
  bool            ready, late = false;

  clock_gettime(CLOCK_MONOTONIC, &until);
  until_s = (double)until.tv_nsec * 1e-9 + most_s;
  until.tv_sec += (time_t)until_s;
  until.tv_nsec = (long)((until_s - (double)(time_t)until_s) * 1e9);
  lock(d);
  begin_waiting(d);
  while (!is_ready(d) && !late) late = pthread_cond_timedwait(&d->news, &d->lock, &until) != 0;
  ready = is_ready(d);
  unlock(d);
  log_said(d);
  return ready;
}

tri_status tri_work_queue_collect(tri_work_queue *d, int n, float *score, int *failed,
                                  char                           why[TRI_WORK_QUEUE_WHY_BYTES],
                                  const tri_work_queue_listener *listener) {
  char       ended[TRI_WORK_QUEUE_WHY_BYTES];
  tri_status st;

  *failed = -1;
  why[0] = 0;
  lock(d);
  begin_waiting(d);
  while (!is_ready(d)) pthread_cond_wait(&d->news, &d->lock);
  st = read_out(d, n, score, failed, why, listener);
  memcpy(ended, d->ends.service, sizeof ended);
  unlock(d);
  tri_work_queue_forget(d);
  if (st == TRI_OK && ended[0] && !d->opt.trial) TRI_FAIL(TRI_EREWARD, "reward %s: %s", d->opt.name, ended);
  return st;
}

int64_t tri_work_queue_restarts(tri_work_queue *d) {
  int64_t n;

  lock(d);
  n = d->ends.n;
  d->ends.n = 0;
  unlock(d);
  return n;
}

void tri_work_queue_forget(tri_work_queue *d) {
  lock(d);
  if (d->n_done < d->n) {
    d->order = TRI_WORK_QUEUE_FORGET;
    ring(d);
    while (d->order == TRI_WORK_QUEUE_FORGET) pthread_cond_wait(&d->news, &d->lock);
  }
  clear(d);
  unlock(d);
  log_said(d);
}

/* ---- functions of the worker ---- */

int tri_work_queue_wakeup(const tri_work_queue *d) { return d->wakeup[0]; }

tri_work_queue_order tri_work_queue_take(tri_work_queue *d, tri_job **next) {
  char                 heard[64];
  tri_work_queue_order order;

  *next = NULL;
  while (read(d->wakeup[0], heard, sizeof heard) > 0) continue;
  lock(d);
  order = d->order;
  if (order == TRI_WORK_QUEUE_FORGET && d->is_told) { /* second call, so the worker has dropped all jobs */
    order = d->order = TRI_WORK_QUEUE_WORK;
    d->is_told = false;
    pthread_cond_signal(&d->news);
  } else if (order == TRI_WORK_QUEUE_FORGET) {
    d->is_told = true;
    d->n_taken = d->n; /* forgets also the jobs not taken */
  } else if (order == TRI_WORK_QUEUE_WORK && d->n_taken < d->n) {
    *next = &d->slip[d->n_taken++]->q;
  }
  unlock(d);
  return order;
}

/* Call it under the lock. */
static void settle(tri_work_queue *d, slip *s, float score) {
  double now_s = tri_now_s();

  TRI_ASSERT(!s->is_done);
  s->is_done = true;
  s->is_first = d->settled_s == 0;
  s->seconds = now_s - (s->put_s > d->settled_s ? s->put_s : d->settled_s);
  d->settled_s = now_s;
  s->score = score;
  d->n_done++;
  d->n_failed += isnan(score);
  if (d->n_done == d->n || d->n_failed) pthread_cond_signal(&d->news);
}

void tri_work_queue_fail(tri_work_queue *d, tri_job *q, const char *fmt, ...) {
  slip   *s = (slip *)(void *)q;
  char    why[TRI_WORK_QUEUE_WHY_BYTES];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  tri_secrets_hide(d->opt.secrets, why, strlen(why));
  lock(d);
  if (tri_copy_text(why, &s->why) != TRI_OK) tri_error_clear(); /* the failure goes without a cause */
  settle(d, s, NAN);
  unlock(d);
}

void tri_work_queue_restarted(tri_work_queue *d, const char *why) {
  lock(d);
  d->ends.n++;
  count_repeats(&d->repeats);
  if (!d->ends.n_in_all++) {
    snprintf(d->ends.died, sizeof d->ends.died, "%s", why);
    tri_secrets_hide(d->opt.secrets, d->ends.died, strlen(d->ends.died));
  }
  unlock(d);
}

void tri_work_queue_end_service(tri_work_queue *d, const char *fmt, ...) {
  va_list ap;

  lock(d);
  va_start(ap, fmt);
  vsnprintf(d->ends.service, sizeof d->ends.service, fmt, ap);
  va_end(ap);
  tri_secrets_hide(d->opt.secrets, d->ends.service, strlen(d->ends.service));
  pthread_cond_signal(&d->news);
  unlock(d);
}

void tri_work_queue_answer(tri_work_queue *d, tri_job *q, double score) {
  tri_work_queue_answer_more(d, q, score, NULL);
}

void tri_work_queue_answer_more(tri_work_queue *d, tri_job *q, double score, const tri_extras *extras) {
  slip       *s = (slip *)(void *)q;
  tri_extras *copy = NULL;

  if (!isfinite((float)score)) {
    tri_work_queue_fail(d, q, "it returned %g, but a reward must be finite", score);
    return;
  }
  if (extras && extras->n && TRI_ALLOC(copy, 1) != TRI_OK) {
    tri_error_clear();
    tri_work_queue_fail(d, q, "the host has no memory left for its reply");
    return;
  }
  if (copy) *copy = *extras;
  lock(d);
  s->extras = copy;
  settle(d, s, (float)score);
  unlock(d);
}

void tri_work_queue_keep_reply(tri_work_queue *d, tri_job *q, const char *reply, size_t n) {
  slip *s = (slip *)(void *)q;
  char *shown = NULL;

  if (!d->opt.trial) return;
  if (n > REPLY_BYTES) n = REPLY_BYTES;
  if (TRI_ALLOC(shown, (int64_t)n + 1) == TRI_OK) {
    size_t kept = tri_secrets_copy(d->opt.secrets, reply, n, shown, n + 1);
    lock(d);
    s->reply.len = 0;
    if (tri_text_put(&s->reply, shown, kept) != TRI_OK) tri_error_clear();
    unlock(d);
  } else {
    tri_error_clear();
  }
  TRI_FREE(shown);
}

static void *worker(void *queue) {
  tri_work_queue *d = queue;
  tri_status      st = d->opt.begin ? d->opt.begin(d->opt.ctx) : TRI_OK;

  lock(d);
  d->has_begun = true;
  d->begun = st;
  snprintf(d->message, sizeof d->message, "%s", tri_error_message());
  pthread_cond_signal(&d->news);
  unlock(d);
  if (st != TRI_OK) return NULL;
  d->opt.work(d->opt.ctx, d);
  if (d->opt.end) d->opt.end(d->opt.ctx);
  return NULL;
}

/* ---- open and close ---- */

/* Starts the worker with all signals blocked, so that other threads get them. */
static tri_status start_worker(tri_work_queue *d) {
  sigset_t all, before;
  int      failed;

  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  failed = pthread_create(&d->worker, NULL, worker, d);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) TRI_FAIL(TRI_ENOMEM, "no thread can be made: %s", strerror(failed));
  d->is_running = true;
  lock(d);
  while (!d->has_begun) pthread_cond_wait(&d->news, &d->lock);
  unlock(d);
  if (d->begun != TRI_OK) tri_error_set(d->begun, d->message);
  return d->begun;
}

static tri_status open_wakeup(tri_work_queue *d) {
  if (pipe(d->wakeup)) TRI_FAIL(TRI_ENOMEM, "no pipe can be made: %s", strerror(errno));
  for (int i = 0; i < 2; i++) {
    fcntl(d->wakeup[i], F_SETFD, FD_CLOEXEC);
    fcntl(d->wakeup[i], F_SETFL, O_NONBLOCK);
  }
  return TRI_OK;
}

tri_status tri_work_queue_open(const tri_work_queue_opt *o, tri_work_queue **out) {
  pthread_condattr_t of_news;
  tri_status         st = TRI_OK;
  tri_work_queue    *d;

  TRI_TRY(TRI_ALLOC(*out, 1));
  d = *out;
  d->opt = *o;
  d->wakeup[0] = d->wakeup[1] = -1;
  pthread_mutex_init(&d->lock, NULL);
  pthread_condattr_init(&of_news);
  pthread_condattr_setclock(&of_news, CLOCK_MONOTONIC);
  pthread_cond_init(&d->news, &of_news);
  pthread_condattr_destroy(&of_news);
  TRI_TRY_DONE(open_wakeup(d));
  TRI_TRY_DONE(start_worker(d));
done:
  if (st != TRI_OK) tri_work_queue_close(out);
  return st;
}

void tri_work_queue_close(tri_work_queue **queue) {
  tri_work_queue *d = *queue;

  if (!d) return;
  if (d->is_running) {
    lock(d);
    d->order = TRI_WORK_QUEUE_CLOSE;
    unlock(d);
    ring(d);
    pthread_join(d->worker, NULL);
  }
  count_repeats(&d->repeats);
  d->repeats.is_due = d->repeats.times > d->repeats.told;
  log_said(d);
  if (d->ends.n_in_all > 1)
    tri_warn("reward_restarted", "reward %s ended early %lld times and was started again", d->opt.name,
             (long long)d->ends.n_in_all);
  clear(d);
  tri_text_free(&d->said);
  tri_text_free(&d->repeats.shown);
  for (int i = 0; i < 2; i++)
    if (d->wakeup[i] >= 0) close(d->wakeup[i]);
  pthread_cond_destroy(&d->news);
  pthread_mutex_destroy(&d->lock);
  TRI_FREE(d->slip);
  tri_host_free((void **)queue);
}
