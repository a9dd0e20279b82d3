/* links.c - reports traffic and speed of the communicators, beside the planned speeds of this machine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "links.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "comm/comm_maker.h"

#include <math.h>
#include <stdio.h>

/* The order of the rows: the world is the last. */
static tri_scope shown(int i) { return (tri_scope)((i + 1) % TRI_SCOPE_COUNT); }

/* ---- a step ---- */

void tri_links_begin(tri_comm *const comm[TRI_SCOPE_COUNT]) {
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) tri_comm_traffic_begin(comm[i]);
}

void tri_links_report(tri_comm *const comm[TRI_SCOPE_COUNT], tri_metrics *m) {
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) {
    const tri_comm    *c = comm[shown(i)];
    const tri_traffic *t = &c->traffic;
    char               name[TRI_METRIC_NAME_BYTES];
    if (c->size == 1 || t->bytes <= 0) continue;
    snprintf(name, sizeof name, "mem_moved_%s_bytes", tri_scope_text(c->scope));
    tri_metric_add(m, name, TRI_METRIC_RANK0, t->step_bytes);
    if (t->most <= 0) continue;
    snprintf(name, sizeof name, "comm_%s_bytes_per_s", tri_scope_text(c->scope));
    tri_metric_add(m, name, TRI_METRIC_MAX, t->step_best.s > 0 ? t->step_best.bytes / t->step_best.s : NAN);
  }
}

/* ---- the run ---- */

tri_status tri_links_machine(tri_device *d, int threads, tri_machine *out, bool *measured) {
  bool   gpu = tri_device_is_gpu(d);
  size_t bytes_free, bytes;

  *measured = false;
  TRI_TRY(d->ops->mem_info(d, &bytes_free, &bytes));
  if (!gpu)
    tri_machine_host(threads, (int64_t)bytes, out);
  else if (!tri_machine_guess(d->model, (int64_t)bytes, out))
    TRI_TRY(tri_machine_find("a100-40", out)); /* as trireme plan does */
  if (tri_machine_measured(d->ops->name, gpu ? 1 : threads, out, measured) == TRI_OK) return TRI_OK;
  tri_log(TRI_LOG_WARN, "the measurements of trireme doctor cannot be used: %s", tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

tri_status tri_links_gather(tri_comm *const comm[TRI_SCOPE_COUNT], tri_link_seen **out) {
  tri_comm     *world = comm[TRI_WORLD];
  tri_link_seen mine[TRI_SCOPE_COUNT];
  size_t       *counts = NULL;
  void         *got = NULL;
  tri_status    st = TRI_OK;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    mine[i] = (tri_link_seen){comm[i]->traffic.bytes, comm[i]->traffic.best};
  TRI_TRY_DONE(tri_agree(world, TRI_ALLOC(counts, world->size)));
  TRI_TRY_DONE(tri_host_gather_all(world, mine, sizeof mine, &got, counts));
done:
  TRI_FREE(counts);
  *out = got;
  return st;
}

static double rate_of(const tri_flow *f) { return f->s > 0 ? f->bytes / f->s : NAN; }

/* World ranks are local rank * nodes + node (comm.h). */
static tri_scope_place place_of(tri_scope scope, int rank, int ranks, int nodes, int tensor) {
  return tri_scope_find(scope, &(tri_place){rank / nodes, ranks / nodes, rank % nodes, nodes, tensor});
}

/* Returns the slowest communicator of the scope, and its number in *which. Each communicator counts by the
 * rank that waited least. */
static tri_flow find_slowest(const tri_link_seen *all, int ranks, int nodes, int tensor, tri_scope scope,
                             int *which) {
  int      n = place_of(scope, 0, ranks, nodes, tensor).n;
  tri_flow slowest = {0, 0, 0};

  *which = 0;
  for (int k = 0; k < n; k++) {
    tri_flow fastest = {0, 0, 0};
    for (int r = 0; r < ranks; r++) {
      const tri_flow *f = &all[r * TRI_SCOPE_COUNT + scope].best;
      if (place_of(scope, r, ranks, nodes, tensor).which == k && f->s > 0 &&
          !(rate_of(f) <= rate_of(&fastest)))
        fastest = *f;
    }
    if (fastest.s <= 0 || rate_of(&fastest) >= rate_of(&slowest)) continue;
    slowest = fastest;
    *which = k;
  }
  return slowest;
}

/* across: nodes that the ranks of a communicator are on. */
static void plan_row(tri_link_row *row, const tri_flow *f, int across, const tri_machine *m) {
  int      size = row->ranks;
  tri_flow one = f->s > 0 ? *f : (tri_flow){1e15, 1, 1}; /* enough bytes to make latency irrelevant */
  double   all = one.bytes / one.rings * size / (size - 1);
  double   s = one.rings * tri_machine_ring(m, size, across, all);

  row->rate = rate_of(f);
  row->planned = one.bytes / s;
  row->large = s > 10 * one.rings * tri_machine_ring(m, size, across, 0);
}

int tri_links_rows(const tri_link_seen *all, int ranks, int nodes, int tensor, const tri_machine *m,
                   tri_link_row row[TRI_SCOPE_COUNT]) {
  int n = 0;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++) {
    tri_scope       scope = shown(i);
    tri_scope_place place = place_of(scope, 0, ranks, nodes, tensor);
    tri_flow        slowest;
    if (place.size == 1 || all[scope].bytes <= 0) continue;
    row[n] = (tri_link_row){.scope = scope, .ranks = place.size, .bytes = all[scope].bytes};
    slowest = find_slowest(all, ranks, nodes, tensor, scope, &row[n].which);
    plan_row(&row[n], &slowest, place.nodes, m);
    n++;
  }
  return n;
}

/* ---- in words ---- */

static const char *figures(bool measured) {
  return measured ? "trireme doctor's figures" : "the table of machines";
}

/* Formats units of 10^9 bytes in a few digits. */
static const char *giga(double bytes, char out[24]) {
  double x = bytes / 1e9;

  snprintf(out, 24, isnan(x) ? "-" : x >= 100 ? "%.0f" : "%.3g", x);
  return out;
}

static bool is_slow(const tri_link_row *r) { return r->large && 3 * r->rate < r->planned; }

static const char *verdict(const tri_link_row *r) {
  return isnan(r->rate) || !r->large ? "-" : is_slow(r) ? "slow" : "ok";
}

tri_status tri_links_words(const tri_link_row *row, int n, bool measured, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "communicator ranks  GB moved measured GB/s planned GB/s  link"));
  for (int i = 0; i < n; i++) {
    const tri_link_row *r = &row[i];
    char                moved[24], rate[24], planned[24];
    TRI_TRY(tri_text_printf(out, "\n%15s%-12s %5d %9s %13s %12s %5s", "", tri_scope_text(r->scope), r->ranks,
                            giga(r->bytes, moved), giga(r->rate, rate), giga(r->planned, planned),
                            verdict(r)));
  }
  return tri_text_printf(out,
                         "\n%15smoved: sent by each rank. planned: by %s"
                         "\n%15smeasured: speed of the fastest collective"
                         "\n%15slink: slow below a third of planned, - if too small to tell",
                         "", figures(measured), "", "");
}

const tri_link_row *tri_links_slow(const tri_link_row *row, int n) {
  const tri_link_row *slow = NULL;

  for (const tri_link_row *r = row; r < row + n; r++)
    if (is_slow(r) && (!slow || r->rate / r->planned < slow->rate / slow->planned)) slow = r;
  return slow;
}

tri_status tri_links_warning(const tri_link_row *slow, bool measured, tri_text *out) {
  char        rate[24], planned[24];
  const char *of;

  TRI_TRY(tri_text_printf(out, "the %s communicator", tri_scope_text(slow->scope)));
  of = tri_scope_find(slow->scope, &(tri_place){0, 1, 0, 1, 1}).of;
  if (of[0]) TRI_TRY(tri_text_printf(out, " of %s %d", of, slow->which));
  return tri_text_printf(
      out,
      " carried at most %s GB/s, but %s were planned (by %s). Run `srun trireme doctor` to measure each "
      "link and find the slow one.",
      giga(slow->rate, rate), giga(slow->planned, planned), figures(measured));
}
