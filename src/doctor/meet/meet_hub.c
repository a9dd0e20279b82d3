/* meet_hub.c - what rank 0 asks the others before MPI is up: facts, clocks, whom they reach. */
#include "knock.h"
#include "meet_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ALL_PAIRS_NODES = 64, PINGS = 5, SAY_S = 3 }; /* chosen */
static const double ping_s = 2;                      /* chosen: far more than a network needs */

static double unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for news, locked; at most to until_s and not much longer than a keeper's look. */
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

/* Sends a message to a member and waits for its answer, which is the caller's to drop. False: none came. */
static bool ask(tri_meet *m, int task, tri_talk_kind kind, const void *bytes, size_t n, double patience_s,
                tri_talk_in *out, double *when_s) {
  tri_talk_head head = tri_meet_head(m, kind, n);
  tri_member   *one = &m->member[task];
  double        until_s = tri_now_s() + patience_s;
  bool          got;

  pthread_mutex_lock(&m->lock);
  tri_talk_drop(&one->answer);
  one->answered = false;
  got = one->fd >= 0 && tri_talk_send(one->fd, &head, bytes, until_s);
  while (got && out && !one->answered && !one->gone && tri_now_s() < until_s) wait_news(m);
  got = got && (!out || (one->answered && one->answer.head.kind == kind));
  if (got && out) {
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
    if (!ask(m, task, TRI_TALK_CLOCK, NULL, 0, ping_s, &in, &back_s)) return;
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
  for (int n = 0; n < c->nodes; n++) {
    int t = tri_check_first_of(c, n);
    if (t > 0 && strcmp(c->facts[t].seat.host, c->facts[0].seat.host)) ask_clock(m, t, &clock[t]);
  }
}

/* ---- whom they reach ---- */

/* The interface by which a node is asked: the one that MPI or NCCL is told to take. */
static int net_of(const tri_facts *f, const char **chosen) {
  static const tri_facts_choice order[] = {TRI_CHOICE_MPI, TRI_CHOICE_NCCL};

  *chosen = NULL;
  for (int i = 0; i < 2; i++)
    if (f->choice[order[i]][0] && tri_facts_net_chosen(f, order[i]) >= 0) {
      *chosen = f->choice[order[i]];
      return tri_facts_net_chosen(f, order[i]);
    }
  return tri_facts_net_chosen(f, TRI_CHOICE_MPI);
}

static bool is_neighbour(int nodes, int i, int k) {
  int d = k > i ? k - i : k - i + nodes;

  return i != k && (nodes <= ALL_PAIRS_NODES || !(d & (d - 1)) || !((nodes - d) & (nodes - d - 1)));
}

/* Targets of a node's first rank; at most `most`. */
static int list_targets(const tri_case *c, int node, int from_task, tri_target *out, int most) {
  const tri_facts *f = &c->facts[from_task];
  const char      *chosen;
  int              mine = net_of(f, &chosen), n = 0;

  for (int k = 0; k < c->nodes && n < most; k++) {
    int t = tri_check_first_of(c, k), theirs;
    if (!is_neighbour(c->nodes, node, k) || t < 0 || !c->facts[t].seat.port ||
        !strcmp(c->facts[t].seat.host, f->seat.host))
      continue;
    theirs = net_of(&c->facts[t], &(const char *){NULL});
    if (theirs < 0 || mine < 0) continue;
    tri_target *x = &out[n++];
    *x = (tri_target){.node = k, .port = c->facts[t].seat.port};
    snprintf(x->host, sizeof x->host, "%s", c->facts[t].net[theirs].address);
    if (chosen) snprintf(x->from, sizeof x->from, "%s", f->net[mine].address);
  }
  return n;
}

typedef struct reaches {
  tri_reach *item;
  int64_t    n, cap;
} reaches;

static tri_status add(reaches *r, const tri_case *c, int from, int task, const tri_target *target, int n,
                      const int32_t *error) {
  const char *chosen;
  int         net = net_of(&c->facts[task], &chosen);

  for (int i = 0; i < n; i++) {
    TRI_TRY(TRI_GROW(r->item, r->cap, r->n + 1));
    tri_reach *x = &r->item[r->n++];
    *x = (tri_reach){.from = from, .to = target[i].node, .asked = true, .error = error[i]};
    snprintf(x->net, sizeof x->net, "%s", net < 0 ? "its network" : c->facts[task].net[net].name);
    snprintf(x->address, sizeof x->address, "%.47s", target[i].host);
  }
  return TRI_OK;
}

/* Nodes of the launcher's list from which nobody came, by name. */
static tri_status reach_silent(tri_meet *m, const tri_case *c, reaches *r) {
  const tri_launch *l = m->launch;

  for (int i = 0; i < l->n_node; i++) {
    tri_target t = {.node = -1, .port = l->port};
    int32_t    error;
    bool       heard = false;
    for (int k = 0; k < c->tasks && !heard; k++) heard = !strcmp(c->facts[k].seat.host, l->node[i]);
    if (heard || strlen(l->node[i]) >= sizeof t.host) continue;
    strcpy(t.host, l->node[i]);
    TRI_TRY(tri_knock(l->key, 0, &t, 1, tri_meet_knock_s(m), &error));
    if (tri_launch_node_of(l, 0) != i) TRI_TRY(add(r, c, 0, 0, &t, 1, &error));
  }
  return TRI_OK;
}

static tri_status reach_from(tri_meet *m, const tri_case *c, int node, tri_target *target, int32_t *error,
                             reaches *r) {
  int task = tri_check_first_of(c, node), n = task < 0 ? 0 : list_targets(c, node, task, target, c->nodes);
  tri_talk_in in = {0};
  double      when_s;
  bool        told;

  if (!n) return TRI_OK;
  if (task == 0) {
    TRI_TRY(tri_knock(m->launch->key, 0, target, n, tri_meet_knock_s(m), error));
    return add(r, c, node, task, target, n, error);
  }
  told = ask(m, task, TRI_TALK_PROBE, target, (size_t)n * sizeof *target, 4 * tri_meet_knock_s(m), &in,
             &when_s) &&
         in.head.bytes == (size_t)n * sizeof *error;
  if (told) memcpy(error, in.bytes, (size_t)n * sizeof *error);
  tri_talk_drop(&in);
  return told ? add(r, c, node, task, target, n, error) : TRI_OK;
}

tri_status tri_meet_reach(tri_meet *m, const tri_case *c, tri_reach **out, int *n) {
  reaches     r = {0};
  tri_target *target = NULL;
  int32_t    *error = NULL;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(target, c->nodes + 1));
  TRI_TRY_DONE(TRI_ALLOC(error, c->nodes + 1));
  TRI_TRY_DONE(reach_silent(m, c, &r));
  for (int i = 0; i < c->nodes; i++) TRI_TRY_DONE(reach_from(m, c, i, target, error, &r));
  *out = r.item;
  *n = (int)r.n;
  r.item = NULL;
done:
  TRI_FREE(r.item);
  TRI_FREE(target);
  TRI_FREE(error);
  return st;
}

void tri_meet_decide(tri_meet *m, bool go) {
  char verdict = go;

  for (int t = 1; t < m->launch->tasks; t++) ask(m, t, TRI_TALK_VERDICT, &verdict, 1, ping_s, NULL, NULL);
}
