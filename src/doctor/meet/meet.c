/* meet.c - ranks meet beside MPI: the thread that listens, and what comes in. */
#include "doctor/facts.h"
#include "meet_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  LOOK_MS = 200,
  SEND_S = 5
}; /* chosen: how often the keeper looks around; a neighbour takes a message in less */

/* ---- what comes in; the keeper holds the lock ---- */

static double unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A rank whose program is another one cannot be read: its place and that it is another is all that is
 * known. */
static void welcome_stranger(tri_facts *f, int task, int tasks) {
  *f = (tri_facts){.seat = {.task = task, .tasks = tasks, .locals = 1, .slurm_task = TRI_FACTS_UNKNOWN}};
  f->cores.online = f->cores.mine = 1;
  f->limits = (tri_facts_limits){TRI_FACTS_UNKNOWN, TRI_FACTS_UNKNOWN, TRI_FACTS_UNKNOWN, TRI_FACTS_UNKNOWN};
  strcpy(f->seat.host, "(unread)");
  strcpy(f->version[TRI_VERSION_PROGRAM], "another build");
}

/* Facts of a rank. False: this is no member. */
static bool welcome(tri_meet *m, tri_guest *g) {
  tri_talk_head head = tri_meet_head(m, TRI_TALK_WELCOME, 0);
  int           task = g->in.head.task;
  tri_facts     f;

  if (!m->member || task <= 0 || task >= m->launch->tasks || m->member[task].came) return false;
  if (g->in.head.bytes == sizeof f) memcpy(&f, g->in.bytes, sizeof f);
  if (g->in.head.bytes != sizeof f)
    welcome_stranger(&f, task, m->launch->tasks);
  else if (!tri_facts_check(&f, sizeof f, m->launch->tasks) || f.seat.task != task)
    return false;
  if (!tri_talk_send(g->fd, &head, NULL, tri_now_s() + SEND_S)) return false;
  g->task = task;
  m->member[task].fd = g->fd;
  m->member[task].came = true;
  m->facts[task] = f;
  m->progress_s = tri_now_s();
  return true;
}

/* A whole message. False: the connection is to be closed. */
static bool take(tri_meet *m, tri_guest *g) {
  tri_talk_head head = tri_meet_head(m, TRI_TALK_KNOCK, 0);

  if (g->task < 0) {
    if (g->in.head.kind == TRI_TALK_KNOCK) return tri_talk_send(g->fd, &head, NULL, tri_now_s() + SEND_S);
    return g->in.head.kind == TRI_TALK_HELLO && welcome(m, g);
  }
  tri_member *one = &m->member[g->task];
  if (g->in.head.kind == TRI_TALK_CLOCK || g->in.head.kind == TRI_TALK_PROBE) {
    tri_talk_drop(&one->answer);
    one->answer = g->in;
    one->answer_s = unix_s();
    one->answered = true;
    g->in = (tri_talk_in){0};
  } else
    tri_meet_hear(m, g->task, &g->in);
  return true;
}

static void dismiss(tri_meet *m, int64_t i) {
  tri_guest *g = &m->guest[i];

  tri_talk_drop(&g->in);
  close(g->fd);
  if (g->task >= 0) {
    m->member[g->task].fd = -1;
    m->member[g->task].gone = true;
  }
  *g = m->guest[--m->n_guest];
}

/* Ranks that are not heard would else be looked for where nothing is wrong. */
static void say_full(tri_meet *m) {
  m->full = true;
  if (!m->told)
    tri_log(
        TRI_LOG_WARN,
        "task %d can have no more files open (ulimit -n), and hears each of %d ranks by one: those that "
        "it does not hear cannot reach it; ulimit -n %d before srun, in limits.conf where that is refused",
        m->launch->task, m->launch->tasks, 2 * m->launch->tasks + 256);
  m->told = true;
}

static void accept_all(tri_meet *m) {
  int fd;

  m->full = false;
  while ((fd = accept(m->listen, NULL, NULL)) >= 0) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (TRI_GROW(m->guest, m->guest_cap, m->n_guest + 1) != TRI_OK) {
      tri_error_clear();
      close(fd);
      return;
    }
    m->guest[m->n_guest++] = (tri_guest){.fd = fd, .task = -1};
  }
  if (errno == EMFILE || errno == ENFILE) say_full(m);
}

static void read_all(tri_meet *m, const struct pollfd *p, int64_t n) {
  for (int64_t i = n - 1; i >= 0; i--) { /* a guest that goes is replaced by the last */
    tri_talk_got got = TRI_TALK_WHOLE;
    if (!p[i].revents) continue;
    while (got == TRI_TALK_WHOLE) {
      got = tri_talk_take(m->guest[i].fd, m->launch->key, &m->guest[i].in);
      if (got != TRI_TALK_WHOLE) break;
      if (!take(m, &m->guest[i])) got = TRI_TALK_LOST;
      tri_talk_drop(&m->guest[i].in);
    }
    if (got == TRI_TALK_LOST) dismiss(m, i);
  }
}

static void *keep(void *arg) {
  tri_meet      *m = arg;
  struct pollfd *p = NULL;
  int64_t        cap = 0;
  bool           ending = false;

  while (!ending) {
    pthread_mutex_lock(&m->lock);
    int64_t n = m->n_guest;
    if (TRI_GROW(p, cap, n + 2) != TRI_OK) break; /* no memory: nothing more is heard */
    for (int64_t i = 0; i < n; i++) p[i] = (struct pollfd){.fd = m->guest[i].fd, .events = POLLIN};
    bool full = m->full; /* whoever stands there would be shown without a pause: each look tries again */
    p[n] = (struct pollfd){.fd = full ? -1 : m->listen, .events = POLLIN};
    p[n + 1] = (struct pollfd){.fd = m->wake[0], .events = POLLIN};
    pthread_mutex_unlock(&m->lock);
    poll(p, (nfds_t)n + 2, LOOK_MS);
    pthread_mutex_lock(&m->lock);
    read_all(m, p, n);
    if (p[n].revents || full) accept_all(m);
    ending = m->ending;
    pthread_cond_broadcast(&m->news);
    pthread_mutex_unlock(&m->lock);
    if (!ending) tri_meet_look(m);
  }
  if (!ending) pthread_mutex_unlock(&m->lock);
  TRI_FREE(p);
  return NULL;
}

/* ---- open, close ---- */

/* Rank 0 hears all others: as many sockets as the system lets it have. */
static void want_files(void) {
  struct rlimit l;

  if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max) return;
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
}

static tri_status start_keeper(tri_meet *m) {
  pthread_condattr_t attr;

  if (pipe(m->wake)) TRI_FAIL(TRI_EDEVICE, "no pipe can be made: %s", strerror(errno));
  for (int i = 0; i < 2; i++) fcntl(m->wake[i], F_SETFD, FD_CLOEXEC);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&m->news, &attr);
  pthread_condattr_destroy(&attr);
  if (pthread_create(&m->keeper, NULL, keep, m)) TRI_FAIL(TRI_EDEVICE, "no thread can be started");
  m->kept = true;
  return TRI_OK;
}

static tri_status open_members(tri_meet *m) {
  int tasks = m->launch->tasks;

  TRI_TRY(TRI_ALLOC(m->member, tasks));
  for (int t = 0; t < tasks; t++) m->member[t] = (tri_member){.fd = -1};
  m->member[0].came = true;
  return TRI_OK;
}

tri_status tri_meet_open(const tri_launch *l, tri_facts *mine, double patience_s, tri_meet **out) {
  bool       first = l->task == 0;
  tri_meet  *m = NULL;
  tri_status st = TRI_OK;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(m, 1));
  *m = (tri_meet){.launch = l, .patience_s = patience_s, .listen = -1, .wake = {-1, -1}, .hub = -1};
  pthread_mutex_init(&m->lock, NULL);
  TRI_TRY_DONE(TRI_ALLOC(m->facts, first ? l->tasks : 1));
  if (first) TRI_TRY_DONE(open_members(m));
  if (first) want_files();
  for (int i = 0; i < TRI_MEET_PORTS && m->listen < 0 && l->hub[0] && (first || l->local == 0); i++) {
    m->listen = tri_talk_listen(l->port + i);
    if (m->listen >= 0) mine->seat.port = l->port + i;
  }
  if (m->listen >= 0) fcntl(m->listen, F_SETFL, O_NONBLOCK);
  if (first && l->hub[0] && m->listen < 0)
    TRI_FAIL_DONE(TRI_EDEVICE, "ports %d to %d are all taken: others cannot reach rank 0", l->port,
                  l->port + TRI_MEET_PORTS - 1);
  m->facts[0] = *mine;
  m->progress_s = tri_now_s();
  if (first || m->listen >= 0) TRI_TRY_DONE(start_keeper(m));
  *out = m;
  m = NULL;
done:
  tri_meet_close(&m);
  return st;
}

void tri_meet_close(tri_meet **out) {
  tri_meet *m = *out;

  if (!m) return;
  if (m->kept) {
    pthread_mutex_lock(&m->lock);
    m->ending = true;
    pthread_mutex_unlock(&m->lock);
    if (write(m->wake[1], "", 1) < 0) {
    } /* it looks around by itself too */
    pthread_join(m->keeper, NULL);
    pthread_cond_destroy(&m->news);
  }
  tri_meet_silence(m);
  while (m->n_guest) dismiss(m, 0);
  pthread_mutex_destroy(&m->lock);
  for (int t = 0; m->member && t < m->launch->tasks; t++) {
    tri_talk_drop(&m->member[t].answer);
    TRI_FREE(m->member[t].failed);
  }
  const int fd[] = {m->listen, m->wake[0], m->wake[1], m->hub};
  for (int i = 0; i < 4; i++)
    if (fd[i] >= 0) close(fd[i]);
  TRI_FREE(m->guest);
  TRI_FREE(m->member);
  TRI_FREE(m->facts);
  TRI_FREE(*out);
}

bool tri_meet_can(const tri_meet *m) { return m->launch->hub[0] != '\0'; }
