/* desk.c - questions to a thread of their own, which answers them while the caller does other work. */
#include "desk.h"

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

/* Chosen: of what a program says on the side, a line, a screen at a time and some screens in all. */
enum { SAID_LINE_BYTES = 1024, SAID_BYTES = 4096, SAID_BYTES_IN_ALL = 65536 };

/* A question as the desk keeps it. */
typedef struct slip {
  tri_question q; /* first: what the clerk sees */
  bool         is_done;
  float        score;
  char        *why; /* NULL: no failure */
} slip;

/* Ends of who answers, before the desk closes. */
typedef struct clerk_ends {
  int64_t n, n_in_all;                 /* after which it was started again: not told yet, ever */
  char    died[TRI_DESK_WHY_BYTES];    /* why the first time; "": it was said */
  char    service[TRI_DESK_WHY_BYTES]; /* why there are no answers any more; "": there are */
} clerk_ends;

struct tri_desk {
  tri_desk_opt    opt;
  pthread_mutex_t lock;
  pthread_cond_t  news; /* for the main thread */
  pthread_t       clerk;
  bool            is_running; /* there is a clerk to be joined */
  int             bell[2];
  int64_t         next_id;
  /* all below under the lock */
  slip         **slip; /* [n] */
  int64_t        n, cap, n_taken, n_done, n_failed;
  tri_desk_order order;
  bool           is_told; /* to forget */
  bool           has_begun;
  tri_status     begun; /* with its message */
  char           message[TRI_MESSAGE_BYTES];
  char           said[SAID_BYTES];
  size_t         n_said, n_said_in_all;
  int64_t        unsaid; /* lines */
  clerk_ends     ends;
};

static void lock(tri_desk *d) { pthread_mutex_lock(&d->lock); }
static void unlock(tri_desk *d) { pthread_mutex_unlock(&d->lock); }

static void ring(tri_desk *d) {
  ssize_t n;

  do n = write(d->bell[1], "", 1); /* full: it has not been heard yet */
  while (n < 0 && errno == EINTR);
}

/* ---- what it says on the side ---- */

void tri_desk_say(tri_desk *d, const char *line, size_t bytes) {
  char   shown[SAID_LINE_BYTES + 1];
  size_t n = tri_secrets_copy(d->opt.secrets, line, bytes, shown, sizeof shown);

  lock(d);
  if (d->n_said + n + 1 <= sizeof d->said && d->n_said_in_all + n <= SAID_BYTES_IN_ALL) {
    memcpy(d->said + d->n_said, shown, n);
    d->n_said += n;
    d->said[d->n_said++] = '\n';
    d->n_said_in_all += n;
  } else {
    d->unsaid++;
  }
  unlock(d);
}

/* Of the main thread, without the lock. */
static void log_said(tri_desk *d) {
  char    said[SAID_BYTES], died[TRI_DESK_WHY_BYTES];
  size_t  n;
  int64_t unsaid;

  lock(d);
  memcpy(died, d->ends.died, sizeof died);
  d->ends.died[0] = 0;
  n = d->n_said;
  memcpy(said, d->said, n);
  unsaid = d->unsaid;
  d->n_said = 0;
  d->unsaid = 0;
  unlock(d);
  for (size_t at = 0; at < n;) {
    size_t len = (size_t)((char *)memchr(said + at, '\n', n - at) - (said + at));
    tri_log(TRI_LOG_WARN, "reward %s says: %.*s", d->opt.name, (int)len, said + at);
    at += len + 1;
  }
  if (died[0])
    tri_log(TRI_LOG_WARN, "reward %s is started again: %s (said once; reward_restarts counts)", d->opt.name,
            died);
  if (unsaid)
    tri_log(TRI_LOG_WARN, "reward %s says %lld more lines, which are not shown", d->opt.name,
            (long long)unsaid);
}

/* ---- questions ---- */

static void free_slip(tri_desk *d, slip *s) {
  if (s->q.text) d->opt.free_text(s->q.text);
  TRI_FREE(s->why);
  TRI_FREE(s);
}

/* Under the lock, with nothing at the clerk's. */
static void clear(tri_desk *d) {
  for (int64_t i = 0; i < d->n; i++) free_slip(d, d->slip[i]);
  d->n = d->n_taken = d->n_done = d->n_failed = 0;
}

int64_t tri_desk_next_id(const tri_desk *d) { return d->next_id; }

tri_status tri_desk_put(tri_desk *d, int number, void *text) {
  slip      *s = NULL;
  tri_status st = TRI_ALLOC(s, 1);

  if (st != TRI_OK) {
    d->opt.free_text(text);
    return st;
  }
  s->q = (tri_question){.id = d->next_id++, .number = number, .text = text};
  lock(d);
  st = TRI_GROW(d->slip, d->cap, d->n + 1);
  if (st == TRI_OK) d->slip[d->n++] = s;
  unlock(d);
  if (st != TRI_OK) free_slip(d, s);
  if (st == TRI_OK) ring(d);
  log_said(d);
  return st;
}

/* Under the lock. */
static void read_out(const tri_desk *d, int n, float *score, int *failed, char why[TRI_DESK_WHY_BYTES]) {
  for (int64_t i = 0; i < d->n; i++) {
    const slip *s = d->slip[i];
    TRI_ASSERT(s->q.number >= 0 && s->q.number < n);
    if (!s->is_done) continue;
    score[s->q.number] = s->score;
    if (!isnan(s->score) || (*failed >= 0 && *failed < s->q.number)) continue;
    *failed = s->q.number;
    snprintf(why, TRI_DESK_WHY_BYTES, "%s", s->why ? s->why : "");
  }
}

/* Under the lock. */
static bool is_ready(const tri_desk *d) {
  return d->n_done == d->n || d->ends.service[0] || (d->opt.hasty && d->n_failed);
}

bool tri_desk_await(tri_desk *d, double most_s) {
  struct timespec until;
  double          until_s;
  bool            ready, late = false;

  clock_gettime(CLOCK_MONOTONIC, &until);
  until_s = (double)until.tv_nsec * 1e-9 + most_s;
  until.tv_sec += (time_t)until_s;
  until.tv_nsec = (long)((until_s - (double)(time_t)until_s) * 1e9);
  lock(d);
  while (!is_ready(d) && !late) late = pthread_cond_timedwait(&d->news, &d->lock, &until) != 0;
  ready = is_ready(d);
  unlock(d);
  log_said(d);
  return ready;
}

tri_status tri_desk_collect(tri_desk *d, int n, float *score, int *failed, char why[TRI_DESK_WHY_BYTES]) {
  char ended[TRI_DESK_WHY_BYTES];

  *failed = -1;
  why[0] = 0;
  lock(d);
  while (!is_ready(d)) pthread_cond_wait(&d->news, &d->lock);
  read_out(d, n, score, failed, why);
  memcpy(ended, d->ends.service, sizeof ended);
  unlock(d);
  tri_desk_forget(d);
  if (ended[0]) TRI_FAIL(TRI_EREWARD, "reward %s: %s", d->opt.name, ended);
  return TRI_OK;
}

int64_t tri_desk_restarts(tri_desk *d) {
  int64_t n;

  lock(d);
  n = d->ends.n;
  d->ends.n = 0;
  unlock(d);
  return n;
}

void tri_desk_forget(tri_desk *d) {
  lock(d);
  if (d->n_done < d->n) {
    d->order = TRI_DESK_FORGET;
    ring(d);
    while (d->order == TRI_DESK_FORGET) pthread_cond_wait(&d->news, &d->lock);
  }
  clear(d);
  unlock(d);
  log_said(d);
}

/* ---- the clerk's ---- */

int tri_desk_bell(const tri_desk *d) { return d->bell[0]; }

tri_desk_order tri_desk_take(tri_desk *d, tri_question **next) {
  char           heard[64];
  tri_desk_order order;

  *next = NULL;
  while (read(d->bell[0], heard, sizeof heard) > 0) continue;
  lock(d);
  order = d->order;
  if (order == TRI_DESK_FORGET && d->is_told) { /* it comes back, and has dropped all */
    order = d->order = TRI_DESK_WORK;
    d->is_told = false;
    pthread_cond_signal(&d->news);
  } else if (order == TRI_DESK_FORGET) {
    d->is_told = true;
    d->n_taken = d->n; /* what was not taken is forgotten too */
  } else if (order == TRI_DESK_WORK && d->n_taken < d->n) {
    *next = &d->slip[d->n_taken++]->q;
  }
  unlock(d);
  return order;
}

/* Under the lock. */
static void settle(tri_desk *d, slip *s, float score) {
  TRI_ASSERT(!s->is_done);
  s->is_done = true;
  s->score = score;
  d->n_done++;
  d->n_failed += isnan(score);
  if (d->n_done == d->n || d->n_failed) pthread_cond_signal(&d->news);
}

void tri_desk_fail(tri_desk *d, tri_question *q, const char *fmt, ...) {
  slip   *s = (slip *)(void *)q;
  char    why[TRI_DESK_WHY_BYTES];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  tri_secrets_hide(d->opt.secrets, why, strlen(why));
  lock(d);
  if (tri_copy_text(why, &s->why) != TRI_OK) tri_error_clear(); /* it is a failure without words */
  settle(d, s, NAN);
  unlock(d);
}

void tri_desk_restarted(tri_desk *d, const char *why) {
  lock(d);
  d->ends.n++;
  if (!d->ends.n_in_all++) {
    snprintf(d->ends.died, sizeof d->ends.died, "%s", why);
    tri_secrets_hide(d->opt.secrets, d->ends.died, strlen(d->ends.died));
  }
  unlock(d);
}

void tri_desk_end_service(tri_desk *d, const char *fmt, ...) {
  va_list ap;

  lock(d);
  va_start(ap, fmt);
  vsnprintf(d->ends.service, sizeof d->ends.service, fmt, ap);
  va_end(ap);
  tri_secrets_hide(d->opt.secrets, d->ends.service, strlen(d->ends.service));
  pthread_cond_signal(&d->news);
  unlock(d);
}

void tri_desk_answer(tri_desk *d, tri_question *q, double score) {
  if (!isfinite((float)score)) {
    tri_desk_fail(d, q, "it gave %g, which is no number that can be learned from", score);
    return;
  }
  lock(d);
  settle(d, (slip *)(void *)q, (float)score);
  unlock(d);
}

static void *clerk(void *desk) {
  tri_desk  *d = desk;
  tri_status st = d->opt.begin ? d->opt.begin(d->opt.ctx) : TRI_OK;

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

/* All signals stay with the threads there were. */
static tri_status start_clerk(tri_desk *d) {
  sigset_t all, before;
  int      failed;

  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  failed = pthread_create(&d->clerk, NULL, clerk, d);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) TRI_FAIL(TRI_ENOMEM, "no thread can be made: %s", strerror(failed));
  d->is_running = true;
  lock(d);
  while (!d->has_begun) pthread_cond_wait(&d->news, &d->lock);
  unlock(d);
  if (d->begun != TRI_OK) tri_error_set(d->begun, d->message);
  return d->begun;
}

static tri_status open_bell(tri_desk *d) {
  if (pipe(d->bell)) TRI_FAIL(TRI_ENOMEM, "no pipe can be made: %s", strerror(errno));
  for (int i = 0; i < 2; i++) {
    fcntl(d->bell[i], F_SETFD, FD_CLOEXEC);
    fcntl(d->bell[i], F_SETFL, O_NONBLOCK);
  }
  return TRI_OK;
}

tri_status tri_desk_open(const tri_desk_opt *o, tri_desk **out) {
  pthread_condattr_t of_news;
  tri_status         st = TRI_OK;
  tri_desk          *d;

  TRI_TRY(TRI_ALLOC(*out, 1));
  d = *out;
  d->opt = *o;
  d->bell[0] = d->bell[1] = -1;
  pthread_mutex_init(&d->lock, NULL);
  pthread_condattr_init(&of_news);
  pthread_condattr_setclock(&of_news, CLOCK_MONOTONIC);
  pthread_cond_init(&d->news, &of_news);
  pthread_condattr_destroy(&of_news);
  TRI_TRY_DONE(open_bell(d));
  TRI_TRY_DONE(start_clerk(d));
done:
  if (st != TRI_OK) tri_desk_close(out);
  return st;
}

void tri_desk_close(tri_desk **desk) {
  tri_desk *d = *desk;

  if (!d) return;
  if (d->is_running) {
    lock(d);
    d->order = TRI_DESK_CLOSE;
    unlock(d);
    ring(d);
    pthread_join(d->clerk, NULL);
  }
  log_said(d);
  if (d->ends.n_in_all > 1)
    tri_log(TRI_LOG_WARN, "reward %s ended %lld times before its time, and was started again", d->opt.name,
            (long long)d->ends.n_in_all);
  clear(d);
  for (int i = 0; i < 2; i++)
    if (d->bell[i] >= 0) close(d->bell[i]);
  pthread_cond_destroy(&d->news);
  pthread_mutex_destroy(&d->lock);
  TRI_FREE(d->slip);
  tri_host_free((void **)desk);
}
