/* detector.c - finds dead, silent, late and slow ranks from heartbeats and their times. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "detector.h"

#include "base/host_memory.h"

#include <stdlib.h>

/* Chosen: the longest chain of ranks that wait for each other. It also ends a circle. */
enum { MOST_LINKS = 16 };

bool tri_peers_share(const tri_rank_info *info, int scope, int rank, int other) {
  int at = scope % TRI_RANK_STATUS_ROUNDS;

  return info[rank].which[at] == info[other].which[at];
}

bool tri_peers_raise(tri_heartbeat *b, uint64_t number) {
  return tri_come_get(&b->come, TRI_RANK_STATUS_WORLD) < number &&
         tri_come_put(&b->come, TRI_RANK_STATUS_WORLD, number);
}

static uint64_t count_come(const tri_come *c) {
  uint64_t n = 0;

  for (int i = 0; i < c->n; i++) n += c->number[i];
  return n;
}

void tri_peers_hear(tri_seen *s, const tri_heartbeat *b, double now_s) {
  uint64_t world = tri_come_get(&s->heartbeat.come, TRI_RANK_STATUS_WORLD);
  uint64_t before = count_come(&s->heartbeat.come);

  s->heartbeat = *b;
  tri_peers_raise(&s->heartbeat, world); /* tri_peers_meet may have raised it */
  if (!s->known || count_come(&s->heartbeat.come) != before) s->came_s = now_s;
  s->known = true;
}

void tri_peers_meet(tri_seen *seen, int n, double now_s) {
  uint64_t met = 0;

  for (int r = 0; r < n; r++)
    if (seen[r].heartbeat.met > met) met = seen[r].heartbeat.met;
  for (int r = 0; r < n; r++)
    if (tri_peers_raise(&seen[r].heartbeat, met) && seen[r].news_s < now_s) seen[r].news_s = now_s;
}

static bool works(const tri_seen *s) {
  return s->known && s->heartbeat.life == TRI_LIFE_WORKS && s->dead_s < 0;
}
static bool is_dead(const tri_seen *s, const tri_limits *l, double now_s) {
  return s->dead_s >= 0 && s->heartbeat.life != TRI_LIFE_ENDS && now_s - s->dead_s >= l->dead_s;
}
static bool is_silent(const tri_seen *s, const tri_limits *l, double now_s) {
  return works(s) && !s->mute && now_s - s->news_s >= l->silent_s;
}
/* By its last heartbeat it waits. */
static bool waits(const tri_seen *s) { return works(s) && s->heartbeat.scope != TRI_RANK_STATUS_NOWHERE; }

static bool has_come(const tri_seen *s, const tri_heartbeat *waiter) {
  return tri_come_get(&s->heartbeat.come, waiter->scope) >= waiter->number;
}

/* Returns the rank with the longest wait in a collective shared with `for_whom`, among ranks with signs of
 * life. With for_whom below 0, any collective counts. */
static int find_waiter(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *l,
                       double now_s, int for_whom) {
  int found = TRI_RANK_INFO_NOTHING;

  for (int r = 0; r < n; r++) {
    if (r == for_whom || !waits(&seen[r]) || is_silent(&seen[r], l, now_s)) continue;
    if (for_whom >= 0 && !tri_peers_share(info, seen[r].heartbeat.scope, r, for_whom)) continue;
    if (found < 0 || seen[r].heartbeat.waited_s > seen[found].heartbeat.waited_s) found = r;
  }
  return found;
}

/* Among the ranks awaited by `waiter`, returns the lowest one without a wait of its own, else the lowest. */
static int find_late(const tri_rank_info *info, const tri_seen *seen, int n, int waiter) {
  const tri_heartbeat *w = &seen[waiter].heartbeat;
  int                  first = TRI_RANK_INFO_NOTHING;

  for (int r = 0; r < n; r++) {
    if (r == waiter || !tri_peers_share(info, w->scope, waiter, r) || has_come(&seen[r], w)) continue;
    if (first < 0) first = r;
    if (!waits(&seen[r])) return r;
  }
  return first;
}

/* Returns the rank with the oldest sign of life. */
static int find_quiet(const tri_seen *seen, int n) {
  int found = TRI_RANK_INFO_NOTHING;

  for (int r = 0; r < n; r++)
    if (works(&seen[r]) && !seen[r].mute && (found < 0 || seen[r].news_s < seen[found].news_s)) found = r;
  return found;
}

/* If run.timeout_s is at most the limit for silence, a silent rank becomes late at the same time. The verdict
 * is then silent. */
static tri_verdict detect_late(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *l,
                               double now_s) {
  tri_verdict v = {TRI_VERDICT_NOTHING, TRI_RANK_INFO_NOTHING, find_waiter(info, seen, n, l, now_s, -1), 0};
  int         quiet;

  if (v.waiter < 0 || seen[v.waiter].heartbeat.waited_s < l->late_s) return v;
  v.kind = TRI_VERDICT_LATE;
  v.since_s = seen[v.waiter].heartbeat.waited_s;
  v.culprit = find_late(info, seen, n, v.waiter);
  for (int i = 0; i < MOST_LINKS && v.culprit >= 0 && waits(&seen[v.culprit]); i++) {
    int next = find_late(info, seen, n, v.culprit); /* a waiting rank may itself wait for the cause */
    if (next < 0) break;
    v.waiter = v.culprit;
    v.culprit = next;
  }
  quiet = find_quiet(seen, n);
  if (quiet < 0 || now_s - seen[quiet].news_s < l->silent_s / 2) return v;
  return (tri_verdict){TRI_VERDICT_SILENT, quiet, v.waiter, now_s - seen[quiet].news_s};
}

/* Returns a rank without a sign of life for run.timeout_s. In that time no other rank came to a collective.
 * The others may wait inside a library, and then no wait is recorded. */
static int find_stopped(const tri_seen *seen, int n, const tri_limits *l, double now_s) {
  int  stopped = TRI_RANK_INFO_NOTHING;
  bool lives = false;

  for (int r = n - 1; r >= 0; r--) {
    if (!works(&seen[r]) || seen[r].mute) continue;
    if (is_silent(&seen[r], l, now_s)) {
      if (now_s - seen[r].news_s >= l->late_s) stopped = r;
      continue;
    }
    if (now_s - seen[r].came_s < l->late_s) return TRI_RANK_INFO_NOTHING;
    lives = true;
  }
  return lives ? stopped : TRI_RANK_INFO_NOTHING;
}

tri_verdict tri_peers_detect(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *l,
                             double now_s) {
  int longest, stopped;

  for (int r = 0; r < n; r++)
    if (is_dead(&seen[r], l, now_s))
      return (tri_verdict){TRI_VERDICT_DEAD, r, find_waiter(info, seen, n, l, now_s, r),
                           now_s - seen[r].dead_s};
  longest = find_waiter(info, seen, n, l, now_s, -1);
  for (int r = 0; longest >= 0 && seen[longest].heartbeat.waited_s >= l->silent_s && r < n; r++) {
    int w = is_silent(&seen[r], l, now_s) ? find_waiter(info, seen, n, l, now_s, r) : TRI_RANK_INFO_NOTHING;
    if (w >= 0 && seen[w].heartbeat.waited_s >= l->silent_s)
      return (tri_verdict){TRI_VERDICT_SILENT, r, w, now_s - seen[r].news_s};
  }
  stopped = find_stopped(seen, n, l, now_s);
  if (stopped >= 0)
    return (tri_verdict){TRI_VERDICT_SILENT, stopped, TRI_RANK_INFO_NOTHING, now_s - seen[stopped].news_s};
  return detect_late(info, seen, n, l, now_s);
}

bool tri_peers_means(const tri_rank_info *info, const tri_seen *seen, const tri_limits *l, double now_s,
                     const tri_verdict *v, int rank) {
  const tri_seen *s = &seen[rank];

  if (v->kind == TRI_VERDICT_DEAD) return is_dead(s, l, now_s);
  if (v->kind == TRI_VERDICT_SILENT)
    return rank == v->culprit ||
           (is_silent(s, l, now_s) && (v->waiter >= 0 || now_s - s->news_s >= l->late_s));
  if (v->kind == TRI_VERDICT_NOTHING || v->culprit < 0 || rank == v->waiter) return false;
  return tri_peers_share(info, seen[v->waiter].heartbeat.scope, v->waiter, rank) &&
         !has_come(s, &seen[v->waiter].heartbeat) && waits(s) == waits(&seen[v->culprit]);
}

static const double least_s = 0.05; /* chosen: with less work in a window there is nothing to compare */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* With two values the smaller one is the median. Otherwise neither could be twice the median. */
static double find_median(double *work, int n) {
  qsort(work, (size_t)n, sizeof *work, by_size);
  return work[(n - 1) / 2];
}

int tri_peers_slow(tri_seen *seen, int n, double *times) {
  int     slowest = TRI_RANK_INFO_NOTHING, m = 0;
  double *work = NULL, median;

  if (TRI_ALLOC(work, n) != TRI_OK) {
    tri_error_clear();
    return TRI_RANK_INFO_NOTHING;
  }
  for (int r = 0; r < n; r++)
    if (works(&seen[r]) && seen[r].heartbeat.window > 0) work[m++] = seen[r].heartbeat.work_s;
  median = m > 1 ? find_median(work, m) : 0;
  for (int r = 0; r < n; r++) {
    tri_seen *s = &seen[r];
    if (m < 2 || !works(s) || s->heartbeat.window == s->judged) continue;
    s->judged = s->heartbeat.window;
    if (s->heartbeat.work_s <= 2 * median || s->heartbeat.work_s < TRI_SLOW_WINDOW_S / 2) continue;
    if (slowest < 0 || s->heartbeat.work_s > seen[slowest].heartbeat.work_s) slowest = r;
  }
  if (slowest >= 0) *times = seen[slowest].heartbeat.work_s / (median > least_s ? median : least_s);
  TRI_FREE(work);
  return slowest;
}
