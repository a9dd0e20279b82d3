/* rendezvous.c - runs the thread for connections of other ranks, and handles their messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "tools/doctor/doctor_facts.h"
#include "rendezvous_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Chosen. LOOK_MS is the period of the keeper. A neighbour takes a message within SEND_S and proves itself
 * within PROVE_S. SEALED_A_RANK limits the sealed secrets per rank. A rank asks again if it cannot open
 * one. */
enum { LOOK_MS = 200, SEND_S = 5, PROVE_S = 10, SEALED_A_RANK = 4 };

/* ---- incoming messages, with the lock held by the keeper ---- */

static double unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Makes facts of a rank with another build. Its message cannot be read, so only its place is known. */
static void welcome_stranger(tri_facts *f, int task, int tasks) {
  *f = (tri_facts){.seat = {.task = task, .tasks = tasks, .locals = 1, .slurm_task = TRI_FACTS_UNKNOWN}};
  f->cores.online = f->cores.mine = 1;
  f->limits = (tri_facts_limits){TRI_FACTS_UNKNOWN, TRI_FACTS_UNKNOWN, TRI_FACTS_UNKNOWN, TRI_FACTS_UNKNOWN};
  strcpy(f->seat.host, "(unread)");
  strcpy(f->version[TRI_VERSION_PROGRAM], "another build");
}

/* Returns whether the process may come. It may come again if it missed the first answer. Returns false if
 * another process has this task. */
static bool is_first(tri_rendezvous *m, int task, const tri_rendezvous_hello *hello, const char *host) {
  tri_member *one = &m->member[task];

  if (!one->came) return true;
  if (!memcmp(one->process, hello->process, sizeof one->process)) return !one->channel || !m->trust.decided;
  if (m->trust.twice < 0) {
    m->trust.twice = task;
    snprintf(m->trust.twice_host[0], TRI_FACTS_NAME_BYTES, "%s", m->facts[task].seat.host);
    snprintf(m->trust.twice_host[1], TRI_FACTS_NAME_BYTES, "%s", host);
  }
  return false;
}

/* Detaches the earlier connection of a returning rank. */
static void leave_old(tri_rendezvous *m, int task) {
  for (int64_t i = 0; i < m->n_guest; i++)
    if (m->guest[i]->task == task) m->guest[i]->task = -1;
}

static bool send_to(tri_guest *g, tri_channel_kind kind, const void *bytes, size_t n) {
  return tri_channel_send(&g->channel, kind, bytes, n, tri_now_s() + SEND_S);
}

/* Handles the facts of a rank. Returns false if it is no member. */
static bool welcome(tri_rendezvous *m, tri_guest *g) {
  int                  task = g->channel.task;
  tri_rendezvous_hello hello;
  char                 verdict = (char)m->trust.verdict;
  size_t               n = g->in.head.bytes;

  memset(&hello, 0, sizeof hello);
  if (!m->member || task <= 0 || task >= m->launch->tasks || g->channel.want != TRI_CHANNEL_MEMBER)
    return false;
  memcpy(&hello, g->in.bytes, n < sizeof hello ? n : sizeof hello);
  if (n != sizeof hello)
    welcome_stranger(&hello.facts, task, m->launch->tasks);
  else if (!tri_facts_check(&hello.facts, sizeof hello.facts, m->launch->tasks) ||
           hello.facts.seat.task != task)
    return false;
  if (!is_first(m, task, &hello, hello.facts.seat.host) || !send_to(g, TRI_CHANNEL_WELCOME, NULL, 0))
    return false;
  leave_old(m, task);
  g->task = task;
  m->member[task].channel = &g->channel;
  m->member[task].came = true;
  m->member[task].gone = m->member[task].without = false;
  memcpy(m->member[task].process, hello.process, sizeof hello.process);
  m->facts[task] = hello.facts;
  m->progress_s = tri_now_s();
  return !m->trust.decided || send_to(g, TRI_CHANNEL_VERDICT, &verdict, 1);
}

/* Handles a whole message. Returns false if the connection must be closed. */
static bool take(tri_rendezvous *m, tri_guest *g) {
  if (g->task < 0) {
    if (g->in.head.kind == TRI_CHANNEL_PROBE) return send_to(g, TRI_CHANNEL_PROBE, NULL, 0);
    return g->in.head.kind == TRI_CHANNEL_HELLO && welcome(m, g);
  }
  tri_member *one = &m->member[g->task];
  if (g->in.head.kind == TRI_CHANNEL_CLOCK || g->in.head.kind == TRI_CHANNEL_REACH) {
    tri_channel_drop(&one->answer);
    one->answer = g->in;
    one->answer_s = unix_s();
    one->answered = true;
    g->in = (tri_channel_in){0};
  } else
    tri_rendezvous_hear(m, g->task, &g->in);
  return true;
}

/* Serves a process without the secret. It may be anybody. A rank gets the secret sealed, so only this user
 * can read it. A rank may also go on without it. This is believed, because it only leaves rank 0 with fewer
 * facts. */
static void serve_asker(tri_rendezvous *m, const tri_guest *g) {
  char sealed[TRI_CHANNEL_SEALED_BYTES];
  int  task = g->channel.task;

  if (!m->member || task <= 0 || task >= m->launch->tasks || m->member[task].came) return;
  if (g->channel.want == TRI_CHANNEL_WITHOUT) m->member[task].without = true;
  if (g->channel.want != TRI_CHANNEL_ASKER || !m->trust.secret.known ||
      m->trust.sealed >= SEALED_A_RANK * m->launch->tasks)
    return;
  m->trust.sealed++; /* limits how often a stranger can keep rank 0 busy */
  if (tri_secret_seal(&m->trust.secret, sealed, sizeof sealed))
    tri_channel_send_raw(g->channel.fd, sealed, strlen(sealed),
                         tri_now_s() + SEND_S); /* after a failure it asks again */
}

static void dismiss(tri_rendezvous *m, int64_t i) {
  tri_guest *g = m->guest[i];

  tri_channel_drop(&g->in);
  close(g->channel.fd);
  if (g->task >= 0) {
    m->member[g->task].channel = NULL;
    m->member[g->task].gone = true;
  }
  tri_host_free((void **)&g);
  m->guest[i] = m->guest[--m->n_guest];
}

/* Warns of the limit. Otherwise somebody would look for the error at the ranks without a connection. */
static void say_full(tri_rendezvous *m) {
  m->files.full = true;
  if (!m->files.told)
    tri_log(TRI_LOG_WARN,
            "task %d reached its open-file limit (ulimit -n). It needs one connection for each of %d ranks. "
            "Ranks without one will be reported as unreachable. Run ulimit -n %d before srun, or set it in "
            "limits.conf if that is refused",
            m->launch->task, m->launch->tasks, 2 * m->launch->tasks + 256);
  m->files.told = true;
}

static void accept_all(tri_rendezvous *m) {
  int fd;

  m->files.full = false;
  while ((fd = accept(m->listen, NULL, NULL)) >= 0) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    tri_guest *g = NULL;
    if (TRI_GROW(m->guest, m->guest_cap, m->n_guest + 1) != TRI_OK || TRI_ALLOC(g, 1) != TRI_OK) {
      tri_error_clear();
      close(fd);
      return;
    }
    *g = (tri_guest){.task = -1, .since_s = tri_now_s()};
    tri_channel_accept(fd, m->launch->task, &g->channel);
    m->guest[m->n_guest++] = g;
  }
  if (errno == EMFILE || errno == ENFILE) say_full(m);
}

static void read_all(tri_rendezvous *m, const struct pollfd *p, int64_t n) {
  for (int64_t i = n - 1; i >= 0; i--) { /* dismiss puts the last guest in the place of another */
    tri_channel_got got = TRI_CHANNEL_WHOLE;
    if (!p[i].revents) continue;
    while (got == TRI_CHANNEL_WHOLE) {
      got = tri_channel_take(&m->guest[i]->channel, m->trust.secret.known ? m->trust.secret.key : NULL,
                             &m->guest[i]->in);
      if (got == TRI_CHANNEL_ASKED) serve_asker(m, m->guest[i]);
      if (got != TRI_CHANNEL_WHOLE) break;
      if (!take(m, m->guest[i])) got = TRI_CHANNEL_LOST;
      tri_channel_drop(&m->guest[i]->in);
    }
    if (got == TRI_CHANNEL_LOST || got == TRI_CHANNEL_ASKED) dismiss(m, i);
  }
}

/* Closes connections without a proof in time, to free their sockets. */
static void dismiss_silent(tri_rendezvous *m) {
  for (int64_t i = m->n_guest - 1; i >= 0; i--)
    if (m->guest[i]->channel.state != TRI_CHANNEL_PROVED && tri_now_s() - m->guest[i]->since_s > PROVE_S)
      dismiss(m, i);
}

static void *keep(void *arg) {
  tri_rendezvous *m = arg;
  struct pollfd  *p = NULL;
  int64_t         cap = 0;
  bool            ending = false;

  while (!ending) {
    pthread_mutex_lock(&m->lock);
    int64_t n = m->n_guest;
    if (TRI_GROW(p, cap, n + 2) != TRI_OK) break; /* no memory, so no more messages are received */
    for (int64_t i = 0; i < n; i++) p[i] = (struct pollfd){.fd = m->guest[i]->channel.fd, .events = POLLIN};
    bool full =
        m->files.full; /* poll would report a waiting connection all the time, so each round tries again */
    p[n] = (struct pollfd){.fd = full ? -1 : m->listen, .events = POLLIN};
    p[n + 1] = (struct pollfd){.fd = m->wake[0], .events = POLLIN};
    pthread_mutex_unlock(&m->lock);
    poll(p, (nfds_t)n + 2, LOOK_MS);
    pthread_mutex_lock(&m->lock);
    read_all(m, p, n);
    dismiss_silent(m);
    if (p[n].revents || full) accept_all(m);
    ending = m->ending;
    pthread_cond_broadcast(&m->news);
    pthread_mutex_unlock(&m->lock);
    if (!ending) tri_rendezvous_poll(m);
  }
  if (!ending) pthread_mutex_unlock(&m->lock);
  TRI_FREE(p);
  return NULL;
}

/* ---- open, close ---- */

/* Raises the limit of open files, because rank 0 has a socket for each rank. */
static void want_files(void) {
  struct rlimit l;

  if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max) return;
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
}

static tri_status start_keeper(tri_rendezvous *m) {
  pthread_condattr_t attr;

  if (pipe(m->wake)) TRI_FAIL(TRI_EDEVICE, "cannot create a pipe: %s", strerror(errno));
  for (int i = 0; i < 2; i++) fcntl(m->wake[i], F_SETFD, FD_CLOEXEC);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&m->news, &attr);
  pthread_condattr_destroy(&attr);
  if (pthread_create(&m->keeper, NULL, keep, m)) TRI_FAIL(TRI_EDEVICE, "cannot start a thread");
  m->kept = true;
  return TRI_OK;
}

static tri_status open_members(tri_rendezvous *m) {
  int tasks = m->launch->tasks;

  TRI_TRY(TRI_ALLOC(m->member, tasks));
  m->member[0].came = true;
  return TRI_OK;
}

/* Listens on the first free port among those tried by others, else on any. The secret contains the port. */
static void listen_for_others(tri_rendezvous *m, tri_facts *mine) {
  const tri_launch *l = m->launch;

  if (!l->hub[0] || (l->task && l->local)) return;
  for (int i = 0; i <= TRI_RENDEZVOUS_PORTS && m->listen < 0; i++)
    m->listen = tri_channel_listen(i < TRI_RENDEZVOUS_PORTS ? l->port + i : 0, &mine->seat.port);
  if (m->listen >= 0) fcntl(m->listen, F_SETFL, O_NONBLOCK);
}

tri_status tri_rendezvous_open(const tri_launch *l, const char *folder, tri_facts *mine, double patience_s,
                               tri_rendezvous **out) {
  bool            first = l->task == 0;
  tri_rendezvous *m = NULL;
  tri_status      st = TRI_OK;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(m, 1));
  *m = (tri_rendezvous){.launch = l,
                        .patience_s = patience_s,
                        .listen = -1,
                        .wake = {-1, -1},
                        .hub = {.fd = -1},
                        .trust = {.twice = -1}};
  pthread_mutex_init(&m->lock, NULL);
  TRI_TRY_DONE(TRI_ALLOC(m->facts, first ? l->tasks : 1));
  if (first) TRI_TRY_DONE(open_members(m));
  if (first) want_files();
  TRI_TRY_DONE(tri_random_bytes(m->trust.process, sizeof m->trust.process));
  tri_secret_begin(l, folder, &m->trust.secret);
  listen_for_others(m, mine);
  if (first && l->hub[0] && m->listen < 0)
    TRI_FAIL_DONE(TRI_EDEVICE, "no port is free, so other ranks cannot reach rank 0");
  if (first && l->hub[0]) TRI_TRY_DONE(tri_secret_make(&m->trust.secret, mine->seat.port));
  m->facts[0] = *mine;
  m->progress_s = tri_now_s();
  if (first || m->listen >= 0) TRI_TRY_DONE(start_keeper(m));
  *out = m;
  m = NULL;
done:
  tri_rendezvous_close(&m);
  return st;
}

void tri_rendezvous_close(tri_rendezvous **out) {
  tri_rendezvous *m = *out;

  if (!m) return;
  if (m->kept) {
    pthread_mutex_lock(&m->lock);
    m->ending = true;
    pthread_mutex_unlock(&m->lock);
    if (write(m->wake[1], "", 1) < 0) {
    } /* the keeper also looks by itself */
    pthread_join(m->keeper, NULL);
    pthread_cond_destroy(&m->news);
  }
  tri_rendezvous_silence(m);
  tri_secret_remove(&m->trust.secret);
  while (m->n_guest) dismiss(m, 0);
  pthread_mutex_destroy(&m->lock);
  for (int t = 0; m->member && t < m->launch->tasks; t++) {
    tri_channel_drop(&m->member[t].answer);
    TRI_FREE(m->member[t].failed);
  }
  const int fd[] = {m->listen, m->wake[0], m->wake[1], m->hub.fd};
  for (int i = 0; i < 4; i++)
    if (fd[i] >= 0) close(fd[i]);
  TRI_FREE(m->guest);
  TRI_FREE(m->member);
  TRI_FREE(m->facts);
  TRI_FREE(*out);
}

bool tri_rendezvous_can(const tri_rendezvous *m) { return m->launch->hub[0] && !m->trust.off; }
