/* rendezvous_hub.c - collects facts and clocks on rank 0 before MPI is up, and tells the others its
 * decision. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "rendezvous_impl.h"

#include <string.h>
#include <time.h>

enum { PINGS = 5, SAY_S = 3 };                /* chosen */
static const double ping_s = 2, clocks_s = 5; /* chosen. ping_s is far more than a network needs. clocks_s is
                                               * for all nodes */

static double unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for news with the lock held, at most a second. */
static void wait_news(tri_rendezvous *m) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += 1;
  pthread_cond_timedwait(&m->news, &m->lock, &t);
}

static int count_missing(const tri_rendezvous *m, int *first) {
  int n = 0;

  for (int t = m->launch->tasks - 1; t >= 0; t--)
    if (!m->member[t].came && !m->member[t].without) {
      *first = t;
      n++;
    }
  return n;
}

void tri_rendezvous_gather(tri_rendezvous *m, tri_facts *f) {
  double began_s = tri_now_s();
  int    missing, first = 0;
  bool   said = false;

  pthread_mutex_lock(&m->lock);
  while ((missing = count_missing(m, &first)) > 0 && tri_now_s() - began_s < m->patience_s) {
    if (!said && tri_now_s() - began_s > SAY_S) {
      tri_log(TRI_LOG_INFO, "waiting for %d of %d ranks, at most %.0f s: task %d%s", missing,
              m->launch->tasks, m->patience_s, first, missing > 1 ? ", ..." : "");
      said = true;
    }
    wait_news(m);
  }
  memcpy(f, m->facts, (size_t)m->launch->tasks * sizeof *f);
  tri_secret_remove(&m->trust.secret); /* all present ranks have it */
  pthread_mutex_unlock(&m->lock);
}

static tri_status say_twice(const tri_rendezvous *m, tri_findings *out) {
  TRI_TRY(tri_findings_add(out, "ranks", TRI_LEVEL_ERROR, "task %d", m->trust.twice));
  out->blocks = true;
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                           "two processes came as this task, on %s and on %s. Both have this user's secret",
                           m->trust.twice_host[0], m->trust.twice_host[1]));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "end the processes of an earlier launch (pgrep -u $USER -a trireme on both nodes), and start each task "
      "once");
}

static tri_status say_without(const tri_rendezvous *m, int n, int first, tri_findings *out) {
  tri_text   where = {0};
  tri_status st = TRI_OK;

  for (int i = 0; i < m->trust.secret.n; i++)
    TRI_TRY_DONE(tri_text_printf(&where, "%s%.*s", i ? ", " : "",
                                 (int)(strrchr(m->trust.secret.path[i], '/') - m->trust.secret.path[i]),
                                 m->trust.secret.path[i]));
  TRI_TRY_DONE(tri_findings_add(out, "secret", TRI_LEVEL_WARNING, "task %d%s", first, n > 1 ? ", ..." : ""));
  TRI_TRY_DONE(tri_findings_say(
      out, TRI_PART_WHAT,
      "%d of %d ranks have no secret in common with rank 0, neither by a file in %s nor by munge. Without "
      "one anybody could join, so ranks do not connect before MPI. Not checked: missing ranks, connections "
      "between nodes, interfaces without a connection, clocks, ranks that hang",
      n, m->launch->tasks, where.data ? where.data : "no folder"));
  TRI_TRY_DONE(tri_findings_say(
      out, TRI_PART_CURE,
      "use a deck with run.output in a folder of this user that all nodes share, or start munged on all "
      "nodes"));
done:
  tri_text_free(&where);
  return st;
}

tri_status tri_rendezvous_check(tri_rendezvous *m, tri_findings *out) {
  int        n = 0, first = -1;
  tri_status st = TRI_OK;

  pthread_mutex_lock(&m->lock);
  for (int t = m->launch->tasks - 1; t >= 0; t--)
    if (!m->member[t].came && m->member[t].without) {
      first = t;
      n++;
    }
  m->trust.off = n > 0;
  if (m->trust.twice >= 0) st = say_twice(m, out);
  if (st == TRI_OK && n) st = say_without(m, n, first, out);
  pthread_mutex_unlock(&m->lock);
  return st;
}

bool tri_rendezvous_send(tri_rendezvous *m, int task, tri_channel_kind kind, const void *bytes, size_t n) {
  tri_member *one = &m->member[task];
  bool        sent;

  pthread_mutex_lock(&m->lock);
  tri_channel_drop(&one->answer);
  one->answered = false;
  sent = one->channel && tri_channel_send(one->channel, kind, bytes, n, tri_now_s() + ping_s);
  pthread_mutex_unlock(&m->lock);
  return sent;
}

bool tri_rendezvous_answer(tri_rendezvous *m, int task, tri_channel_kind kind, double until_s,
                           tri_channel_in *out, double *when_s) {
  tri_member *one = &m->member[task];
  bool        got;

  pthread_mutex_lock(&m->lock);
  while (!one->answered && !one->gone && tri_now_s() < until_s) wait_news(m);
  got = one->answered && one->answer.head.kind == kind;
  if (got) {
    *out = one->answer;
    *when_s = one->answer_s;
    one->answer = (tri_channel_in){0};
  }
  pthread_mutex_unlock(&m->lock);
  return got;
}

/* Asks a few times. Half of the fastest round trip bounds the error. */
static void ask_clock(tri_rendezvous *m, int task, tri_facts_clock *out) {
  for (int i = 0; i < PINGS; i++) {
    tri_channel_in in = {0};
    double         sent_s = unix_s(), back_s, theirs;
    if (!tri_rendezvous_send(m, task, TRI_CHANNEL_CLOCK, NULL, 0) ||
        !tri_rendezvous_answer(m, task, TRI_CHANNEL_CLOCK, tri_now_s() + ping_s, &in, &back_s))
      return;
    if (in.head.bytes == sizeof theirs && back_s >= sent_s) {
      memcpy(&theirs, in.bytes, sizeof theirs);
      double within = (back_s - sent_s) / 2;
      if (!out->known || within < out->within_s)
        *out = (tri_facts_clock){true, theirs - (sent_s + back_s) / 2, within};
    }
    tri_channel_drop(&in);
  }
}

void tri_rendezvous_clocks(tri_rendezvous *m, const tri_case *c, tri_facts_clock *clock) {
  double until_s = tri_now_s() + clocks_s;

  for (int t = 1, node = c->facts[0].seat.node; t < c->tasks && tri_now_s() < until_s; t++) {
    if (!c->facts[t].seat.host[0] || c->facts[t].seat.local || c->facts[t].seat.node == node) continue;
    if (strcmp(c->facts[t].seat.host, c->facts[0].seat.host)) ask_clock(m, t, &clock[t]);
  }
}

void tri_rendezvous_decide(tri_rendezvous *m, bool go) {
  char verdict;

  pthread_mutex_lock(&m->lock);
  m->trust.verdict = !go ? TRI_CHANNEL_STOP : m->trust.off ? TRI_CHANNEL_GO_UNWATCHED : TRI_CHANNEL_GO;
  m->trust.decided = true;
  verdict = (char)m->trust.verdict;
  pthread_mutex_unlock(&m->lock);
  for (int t = 1; t < m->launch->tasks; t++) tri_rendezvous_send(m, t, TRI_CHANNEL_VERDICT, &verdict, 1);
}
