/* words.c - describes a verdict: the culprits and their places, the collective, the ranks in it and the
 * missing ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "detector.h"

enum { MOST_RANGES = 8, MOST_NAMES = 4 }; /* chosen: as many as a reader takes in. The rest is counted */

tri_status tri_peers_name(const tri_rank_info *c, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "rank %d", c->rank));
  if (c->task != TRI_RANK_INFO_NOTHING && c->task != c->rank)
    TRI_TRY(tri_text_printf(out, " (task %d)", c->task));
  return tri_text_printf(out, " on %s, %s", c->host, c->device);
}

tri_status tri_peers_ranks(int n, bool (*is)(const void *ctx, int rank), const void *ctx, tri_text *out) {
  int ranges = 0, more = 0;

  for (int r = 0, end; r < n; r = end) {
    for (end = r; end < n && is(ctx, end);) end++;
    if (end == r) {
      end++;
      continue;
    }
    if (ranges++ >= MOST_RANGES)
      more += end - r;
    else
      TRI_TRY(tri_text_printf(out, end - r > 1 ? "%s%d-%d" : "%s%d", ranges > 1 ? ", " : "", r, end - 1));
  }
  if (more) TRI_TRY(tri_text_printf(out, " and %d more", more));
  return ranges ? TRI_OK : tri_text_printf(out, "none");
}

/* The arguments of all sentences. */
typedef struct about {
  const tri_rank_info *info;
  const tri_seen      *seen;
  int                  n;
  const tri_limits    *limit;
  double               now_s;
  const tri_verdict   *v;
} about;

static bool is_meant(const about *a, int rank) {
  return tri_peers_means(a->info, a->seen, a->limit, a->now_s, a->v, rank);
}

/* Appends the culprits with their places. */
static tri_status put_names(const about *a, tri_text *out) {
  int named = 0, more = 0;

  for (int r = 0; r < a->n; r++) {
    if (!is_meant(a, r) && r != a->v->culprit) continue;
    if (named++ >= MOST_NAMES) {
      more++;
      continue;
    }
    TRI_TRY(tri_text_printf(out, "%s", named > 1 ? "; " : ""));
    TRI_TRY(tri_peers_name(&a->info[r], out));
  }
  return more ? tri_text_printf(out, "; and %d more rank%s", more, more == 1 ? "" : "s") : TRI_OK;
}

static const char *plural(const about *a, const char *one, const char *many) {
  for (int r = 0; r < a->n; r++)
    if (r != a->v->culprit && is_meant(a, r)) return many;
  return one;
}

static bool is_here(const void *ctx, int rank) {
  const about         *a = ctx;
  const tri_heartbeat *w = &a->seen[a->v->waiter].heartbeat;

  return tri_peers_share(a->info, w->scope, a->v->waiter, rank) && a->seen[rank].known &&
         tri_come_get(&a->seen[rank].heartbeat.come, w->scope) >= w->number;
}

static bool is_missing(const void *ctx, int rank) {
  const about *a = ctx;

  return tri_peers_share(a->info, a->seen[a->v->waiter].heartbeat.scope, a->v->waiter, rank) &&
         !is_here(ctx, rank);
}

/* Appends the collective, who has come and who is missing. */
static tri_status put_collective(const about *a, tri_text *out) {
  const tri_heartbeat *w;

  if (a->v->waiter < 0 && a->v->kind == TRI_VERDICT_SILENT)
    return tri_text_printf(out, "\n  no other rank has come to a collective since then. The others may wait\n"
                                "  for it inside MPI or another library");
  if (a->v->waiter < 0) return tri_text_printf(out, "\n  no rank waits for it yet");
  w = &a->seen[a->v->waiter].heartbeat;
  TRI_TRY(tri_text_printf(
      out, "\n  rank %d waits in phase %s, %s,\n  number %llu of scope %s. Arrived: ", a->v->waiter, w->phase,
      w->label, (unsigned long long)w->number, tri_rank_status_scope(w->scope)));
  TRI_TRY(tri_peers_ranks(a->n, is_here, a, out));
  TRI_TRY(tri_text_printf(out, ". Missing: "));
  return tri_peers_ranks(a->n, is_missing, a, out);
}

/* Appends the culprit's state in its last heartbeat. */
static tri_status put_last(const about *a, tri_text *out) {
  const tri_seen *s = &a->seen[a->v->culprit];

  if (!s->known) return tri_text_printf(out, "\n  none of its heartbeats arrived, so its phase is unknown");
  TRI_TRY(tri_text_printf(out, "\n  it was in phase %s", s->heartbeat.phase));
  if (s->heartbeat.scope == TRI_RANK_STATUS_NOWHERE) return tri_text_printf(out, ", at work");
  return tri_text_printf(out, ", waiting in %s", s->heartbeat.label);
}

/* Returns the first culprit that was killed for lack of memory, or TRI_RANK_INFO_NOTHING. */
static int find_starved(const about *a) {
  for (int r = 0; r < a->n; r++)
    if ((is_meant(a, r) || r == a->v->culprit) && a->seen[r].starved) return r;
  return TRI_RANK_INFO_NOTHING;
}

const char *tri_peers_cause(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *limit,
                            double now_s, const tri_verdict *v) {
  static const char *const cause[] = {
      [TRI_VERDICT_LATE] = "late", [TRI_VERDICT_SILENT] = "silent", [TRI_VERDICT_DEAD] = "died"};
  about a = {info, seen, n, limit, now_s, v};

  if (v->culprit < 0) return "hangs";
  return v->kind == TRI_VERDICT_DEAD && find_starved(&a) >= 0 ? "out_of_memory" : cause[v->kind];
}

/* Appends the reason in the first line, and what to do about it. */
static tri_status put_death(const about *a, tri_text *out) {
  int    starved = find_starved(a);
  double limit;

  TRI_TRY(tri_text_printf(out, ": %s died (process %d)", plural(a, "it", "they"),
                          (int)a->info[a->v->culprit].pid));
  if (starved < 0) return TRI_OK;
  limit = (double)a->info[starved].memory_limit_bytes / 0x1p20;
  TRI_TRY(tri_text_printf(out, ": killed by the kernel, out of memory"));
  if (limit > 0) TRI_TRY(tri_text_printf(out, ". The memory limit of its control group is %.1f MiB", limit));
  return tri_text_printf(
      out, "\n  Ask for more memory (Slurm: --mem or --mem-per-cpu), or reduce the need: fewer ranks\n"
           "  per node, a smaller train.max_tokens_per_gpu or rollout.max_cached_tokens");
}

tri_status tri_peers_words(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *limit,
                           double now_s, const tri_verdict *v, tri_text *out) {
  about a = {info, seen, n, limit, now_s, v};

  if (v->culprit >= 0) TRI_TRY(put_names(&a, out));
  if (v->kind == TRI_VERDICT_DEAD)
    TRI_TRY(put_death(&a, out));
  else if (v->kind == TRI_VERDICT_SILENT)
    TRI_TRY(tri_text_printf(
        out, ": no sign of life for %.0f s\n  it is stopped, or the node or its link is down", v->since_s));
  else if (v->culprit >= 0)
    TRI_TRY(tri_text_printf(out, ": late: the others waited for %.0f s (run.timeout_s)", v->since_s));
  else
    TRI_TRY(tri_text_printf(
        out, "a collective hangs for %.0f s (run.timeout_s), although all ranks have come to it",
        v->since_s));
  if (v->culprit >= 0) TRI_TRY(put_last(&a, out));
  TRI_TRY(put_collective(&a, out));
  return tri_text_printf(out,
                         "\n  Every rank ends with exit code 76. The same command continues from the newest\n"
                         "  checkpoint, if there is one (run.resume: auto)");
}
