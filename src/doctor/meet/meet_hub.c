/* meet_hub.c - what rank 0 asks the others before MPI is up: facts, clocks; and what it tells them. */
#include "meet_impl.h"

#include <string.h>
#include <time.h>

enum { PINGS = 5, SAY_S = 3 };                /* chosen */
static const double ping_s = 2, clocks_s = 5; /* chosen: far more than a network needs; of all nodes */

static double unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for news, locked, at most a second. */
static void wait_news(tri_meet *m) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += 1;
  pthread_cond_timedwait(&m->news, &m->lock, &t);
}

static int count_missing(const tri_meet *m, int *first) {
  int n = 0;

  for (int t = m->launch->tasks - 1; t >= 0; t--)
    if (!m->member[t].came) {
      *first = t;
      n++;
    }
  return n;
}

void tri_meet_gather(tri_meet *m, tri_facts *f) {
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
  pthread_mutex_unlock(&m->lock);
}

bool tri_meet_send(tri_meet *m, int task, tri_talk_kind kind, const void *bytes, size_t n) {
  tri_talk_head head = tri_meet_head(m, kind, n);
  tri_member   *one = &m->member[task];
  bool          sent;

  pthread_mutex_lock(&m->lock);
  tri_talk_drop(&one->answer);
  one->answered = false;
  sent = one->fd >= 0 && tri_talk_send(one->fd, &head, bytes, tri_now_s() + ping_s);
  pthread_mutex_unlock(&m->lock);
  return sent;
}

bool tri_meet_answer(tri_meet *m, int task, tri_talk_kind kind, double until_s, tri_talk_in *out,
                     double *when_s) {
  tri_member *one = &m->member[task];
  bool        got;

  pthread_mutex_lock(&m->lock);
  while (!one->answered && !one->gone && tri_now_s() < until_s) wait_news(m);
  got = one->answered && one->answer.head.kind == kind;
  if (got) {
    *out = one->answer;
    *when_s = one->answer_s;
    one->answer = (tri_talk_in){0};
  }
  pthread_mutex_unlock(&m->lock);
  return got;
}

/* The fastest of a few questions bounds the error by half of its way. */
static void ask_clock(tri_meet *m, int task, tri_facts_clock *out) {
  for (int i = 0; i < PINGS; i++) {
    tri_talk_in in = {0};
    double      sent_s = unix_s(), back_s, theirs;
    if (!tri_meet_send(m, task, TRI_TALK_CLOCK, NULL, 0) ||
        !tri_meet_answer(m, task, TRI_TALK_CLOCK, tri_now_s() + ping_s, &in, &back_s))
      return;
    if (in.head.bytes == sizeof theirs && back_s >= sent_s) {
      memcpy(&theirs, in.bytes, sizeof theirs);
      double within = (back_s - sent_s) / 2;
      if (!out->known || within < out->within_s)
        *out = (tri_facts_clock){true, theirs - (sent_s + back_s) / 2, within};
    }
    tri_talk_drop(&in);
  }
}

void tri_meet_clocks(tri_meet *m, const tri_case *c, tri_facts_clock *clock) {
  double until_s = tri_now_s() + clocks_s;

  for (int t = 1, node = c->facts[0].seat.node; t < c->tasks && tri_now_s() < until_s; t++) {
    if (!c->facts[t].seat.host[0] || c->facts[t].seat.local || c->facts[t].seat.node == node) continue;
    if (strcmp(c->facts[t].seat.host, c->facts[0].seat.host)) ask_clock(m, t, &clock[t]);
  }
}

void tri_meet_decide(tri_meet *m, bool go) {
  char verdict = go;

  for (int t = 1; t < m->launch->tasks; t++) tri_meet_send(m, t, TRI_TALK_VERDICT, &verdict, 1);
}
