/* timeline.c - writes a run's first steps to a file for chrome://tracing or ui.perfetto.dev, and computes how
 * much of the communication overlaps compute.
 *
 * The format is the "Trace Event Format" of the Chromium project, in JSON object form, with X (complete), C
 * (counter) and M (names) events. A rank is a process, and each of its lanes is a thread. Times are
 * microseconds of the machine's monotonic clock, so files from ranks on one machine fit together. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "timeline.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/notice.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const lane_name[] = {"phases", "compute", "gather", "reduce", "fetch", "flush"};

struct tri_timeline {
  tri_trace         *trace; /* owned, or NULL once all steps are traced */
  int                rank;
  int64_t            left, step, dropped; /* steps left to trace, current step, dropped spans of all steps */
  double             begin_s;             /* begin of the current step */
  tri_text           folder, path, text;
  tri_timeline_share share[TRI_LANE_COUNT]; /* over all traced steps, used from gather on */
  bool               written;
};

/* ---- overlap with compute ---- */

typedef struct interval {
  double begin_s, end_s;
} interval;

static int compare_begins(const void *a, const void *b) {
  double x = ((const interval *)a)->begin_s, y = ((const interval *)b)->begin_s;
  return (x > y) - (x < y);
}

/* Merges the lane's overlapping or touching spans, in order of time, into *out [*n_out], freed with
 * TRI_FREE. */
static tri_status merge(const tri_trace_span *span, int n, tri_lane lane, interval **out, int *n_out) {
  interval *v;
  int       m = 0, k = 0;

  *n_out = 0;
  TRI_TRY(TRI_ALLOC(v, n));
  *out = v;
  for (int i = 0; i < n; i++)
    if (span[i].lane == lane && span[i].end_s > span[i].begin_s)
      v[m++] = (interval){span[i].begin_s, span[i].end_s};
  qsort(v, (size_t)m, sizeof *v, compare_begins);
  for (int i = 0; i < m; i++) {
    if (k && v[i].begin_s <= v[k - 1].end_s)
      v[k - 1].end_s = fmax(v[k - 1].end_s, v[i].end_s);
    else
      v[k++] = v[i];
  }
  *n_out = k;
  return TRI_OK;
}

tri_status tri_timeline_share_add(const tri_trace_span *span, int n, tri_lane lane, tri_timeline_share *sum) {
  tri_status st = TRI_OK;
  interval  *a = NULL, *c = NULL;
  int        n_a, n_c, j = 0;

  TRI_TRY_DONE(merge(span, n, lane, &a, &n_a));
  TRI_TRY_DONE(merge(span, n, TRI_LANE_COMPUTE, &c, &n_c));
  for (int i = 0; i < n_a; i++) {
    sum->total_s += a[i].end_s - a[i].begin_s;
    while (j < n_c && c[j].end_s <= a[i].begin_s) j++;
    for (int k = j; k < n_c && c[k].begin_s < a[i].end_s; k++)
      sum->beside_s += fmin(a[i].end_s, c[k].end_s) - fmax(a[i].begin_s, c[k].begin_s);
  }
done:
  TRI_FREE(a);
  TRI_FREE(c);
  return st;
}

static double share_of(tri_timeline_share s) { return s.total_s > 0 ? s.beside_s / s.total_s : NAN; }

/* ---- the file ---- */

static tri_status put_text(tri_text *o, const char *name, const char *value) {
  TRI_TRY(tri_text_printf(o, "\"%s\":", name));
  return tri_json_put_string(o, value, strlen(value));
}

/* Gives a process or a thread its name and its place in the list. */
static tri_status put_row(tri_timeline *t, const char *what, int lane, const char *name, int place) {
  tri_text *o = &t->text;

  TRI_TRY(tri_text_printf(o, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_name\",\"args\":{", t->rank,
                          lane, what));
  TRI_TRY(put_text(o, "name", name));
  return tri_text_printf(o,
                         "}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_sort_index\",\"args\":{"
                         "\"sort_index\":%d}}",
                         t->rank, lane, what, place);
}

static tri_status put_head(tri_timeline *t, const char *host) {
  char name[256];

  snprintf(name, sizeof name, "rank %d on %s", t->rank, host);
  TRI_TRY(tri_text_printf(&t->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"));
  TRI_TRY(put_row(t, "process", 0, name, t->rank));
  for (int i = 0; i < TRI_LANE_COUNT; i++) {
    TRI_TRY(tri_text_put(&t->text, ",\n", 2));
    TRI_TRY(put_row(t, "thread", i, lane_name[i], i));
  }
  return TRI_OK;
}

/* Writes microseconds with three digits, from whole nanoseconds, so that equal ends stay equal. */
static tri_status put_times(tri_timeline *t, tri_lane lane, double begin_s, double end_s) {
  long long begin = llround(1e9 * begin_s), spent = llround(1e9 * end_s) - begin;

  return tri_text_printf(&t->text,
                         ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,",
                         t->rank, (int)lane, begin / 1000, begin % 1000, spent / 1000, spent % 1000);
}

static tri_status put_span(tri_timeline *t, const tri_trace_span *span) {
  const tri_trace_note *note = &span->note;
  tri_text             *o = &t->text;
  char                  name[128];

  snprintf(name, sizeof name, "%s%s%s", note->what, note->how ? " " : "", note->how ? note->how : "");
  TRI_TRY(put_times(t, span->lane, span->begin_s, span->end_s));
  TRI_TRY(put_text(o, "name", name));
  TRI_TRY(tri_text_printf(o, ",\"args\":{"));
  if (note->owner) TRI_TRY(put_text(o, "model", note->owner));
  if (note->bytes)
    TRI_TRY(tri_text_printf(o, "%s\"bytes\":%lld", note->owner ? "," : "", (long long)note->bytes));
  return tri_text_printf(o, "}}");
}

/* Writes the step around its phases with its numbers, and the shares as counters too. */
static tri_status put_step(tri_timeline *t, double end_s, const tri_timeline_share share[TRI_LANE_COUNT],
                           int64_t dropped) {
  tri_text *o = &t->text;

  TRI_TRY(put_times(t, TRI_LANE_PHASES, t->begin_s, end_s));
  TRI_TRY(tri_text_printf(o, "\"name\":\"step %lld\",\"args\":{\"dropped_spans\":%lld", (long long)t->step,
                          (long long)dropped));
  for (int i = TRI_LANE_GATHER; i < TRI_LANE_COUNT; i++) {
    TRI_TRY(tri_text_printf(o, ",\"%s_ms\":", lane_name[i]));
    TRI_TRY(tri_json_put_double(o, 1e3 * share[i].total_s));
    TRI_TRY(tri_text_printf(o, ",\"%s_beside_compute\":", lane_name[i]));
    TRI_TRY(tri_json_put_double(o, share_of(share[i]))); /* null without such spans */
  }
  TRI_TRY(tri_text_printf(o, "}}"));
  for (int i = TRI_LANE_GATHER; i < TRI_LANE_COUNT; i++)
    if (share[i].total_s > 0)
      TRI_TRY(tri_text_printf(
          o, ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":%lld,\"name\":\"%s beside compute\",\"args\":{\"%%\":%.1f}}",
          t->rank, llround(1e6 * t->begin_s), lane_name[i], 100 * share_of(share[i])));
  return TRI_OK;
}

/* Writes the file. A trace that cannot be written does not end a run. */
static tri_status write_file(tri_timeline *t) {
  tri_status st;

  TRI_TRY(tri_text_printf(
      &t->text, "\n],\"otherData\":{\"program\":\"trireme " TRI_VERSION "\",\"dropped_spans\":%lld}}\n",
      (long long)t->dropped));
  st = tri_folder_make(t->folder.data);
  if (st == TRI_OK) st = tri_file_write(t->path.data, t->text.data, t->text.len);
  tri_text_free(&t->text);
  t->written = st == TRI_OK;
  if (st != TRI_EFILE) return st;
  tri_warn("no_trace", "run.trace_steps: the run continues without a trace of rank %d: %s", t->rank,
           tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

/* ---- open, close, steps ---- */

tri_status tri_timeline_open(tri_device *d, const tri_timeline_opt *opt, tri_timeline **out) {
  tri_status    st = TRI_OK;
  tri_timeline *t = NULL;

  *out = NULL;
  TRI_ASSERT(opt->steps > 0);
  TRI_TRY_DONE(TRI_ALLOC(t, 1));
  t->rank = opt->rank;
  t->left = opt->steps;
  TRI_TRY_DONE(tri_text_printf(&t->folder, "%s", opt->folder));
  TRI_TRY_DONE(tri_text_printf(&t->path, "%s/rank-%d.json", opt->folder, opt->rank));
  TRI_TRY_DONE(put_head(t, opt->host));
  TRI_TRY_DONE(tri_trace_open(d, opt->most_spans, &t->trace));
  *out = t;
  t = NULL;
done:
  tri_timeline_close(&t);
  return st;
}

void tri_timeline_close(tri_timeline **t) {
  if (!*t) return;
  tri_trace_close(&(*t)->trace);
  tri_text_free(&(*t)->folder);
  tri_text_free(&(*t)->path);
  tri_text_free(&(*t)->text);
  TRI_FREE(*t);
}

tri_status tri_timeline_begin(tri_timeline *t, int64_t step, tri_stream *s) {
  if (!t || !t->trace) return TRI_OK;
  t->step = step;
  TRI_TRY(tri_trace_start(t->trace, s));
  t->begin_s = tri_now_s();
  return TRI_OK;
}

tri_status tri_timeline_end(tri_timeline *t, bool last) {
  const tri_trace_span *span;
  tri_timeline_share    share[TRI_LANE_COUNT] = {{0, 0}};
  double                end_s = tri_now_s();
  int64_t               dropped;
  int                   n;

  if (!t || !t->trace) return TRI_OK;
  TRI_TRY(tri_trace_stop(t->trace, &span, &n, &dropped));
  for (int i = 0; i < n; i++) TRI_TRY(put_span(t, &span[i]));
  for (int i = TRI_LANE_GATHER; i < TRI_LANE_COUNT; i++) {
    TRI_TRY(tri_timeline_share_add(span, n, (tri_lane)i, &share[i]));
    t->share[i].beside_s += share[i].beside_s;
    t->share[i].total_s += share[i].total_s;
  }
  TRI_TRY(put_step(t, end_s, share, dropped));
  t->dropped += dropped;
  if (--t->left > 0 && !last) return TRI_OK;
  tri_trace_close(&t->trace);
  return write_file(t);
}

tri_status tri_timeline_words(const tri_timeline *t, tri_text *out) {
  static const char *const name[TRI_LANE_COUNT] = {
      [TRI_LANE_GATHER] = "gathers",
      [TRI_LANE_REDUCE] = "reductions",
      [TRI_LANE_FETCH] = "fetches",
      [TRI_LANE_FLUSH] = "flushes",
  };
  int last = -1;

  if (!t->written) return TRI_OK;
  for (int i = TRI_LANE_GATHER; i < TRI_LANE_COUNT; i++)
    if (t->share[i].total_s > 0) last = i;
  for (int i = TRI_LANE_GATHER; i <= last; i++) {
    if (t->share[i].total_s <= 0) continue;
    TRI_TRY(tri_text_printf(out, "%s%.0f %% of %s",
                            !out->len   ? ""
                            : i == last ? " and "
                                        : ", ",
                            100 * share_of(t->share[i]), name[i]));
  }
  TRI_TRY(tri_text_printf(out, "%s", last >= 0 ? " ran beside compute, " : "no gathers or reductions, "));
  if (t->dropped) TRI_TRY(tri_text_printf(out, "spans left out, as too many: %lld, ", (long long)t->dropped));
  return tri_text_printf(out, "%s", t->path.data);
}
