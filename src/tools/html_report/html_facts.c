/* html_facts.c - computes a run's facts and results for the HTML report, the text screen and JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "html_facts.h"

#include "base/host_memory.h"
#include "base/median.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LAST_ROWS = 10 }; /* rows in the mean of a noisy number, chosen */
const char *tri_html_algo(const tri_html_run *r) {
  const char *algo = tri_history_text(r->h, "algo");

  if (!algo) algo = tri_history_deck(r->h, "algo.name");
  return algo ? algo : "";
}

const char *tri_html_model(const tri_html_run *r) {
  const char *path = tri_history_deck(r->h, "model.path");

  if (!path || !strcmp(path, "null")) path = tri_history_deck(r->h, "model.config");
  return path ? path : "";
}

/* Returns no points if the metric is missing. */
static tri_history_points numbers(const tri_html_run *r, const char *name) {
  int at = tri_history_find(r->h, name);

  return at < 0 ? (tri_history_points){NULL, NULL, 0} : tri_history_points_of(r->h, at);
}

/* ---- sums over rows ---- */

static double sum_of(const tri_html_run *r, const char *name) {
  const tri_history_points p = numbers(r, name);
  int64_t                  n = 0;
  double                   sum = 0;

  for (int64_t i = 0; i < p.n; i++)
    if (isfinite(p.value[i])) sum += p.value[i], n++;
  return n ? sum : (double)NAN;
}

static tri_status median_of(const tri_html_run *r, const char *name, double *out) {
  const tri_history_points p = numbers(r, name);
  double                  *sorted = NULL;
  int64_t                  n = 0;

  TRI_TRY(TRI_ALLOC(sorted, p.n + 1));
  for (int64_t i = 0; i < p.n; i++)
    if (isfinite(p.value[i]) && tri_history_step(r->h)[p.row[i]] > 0)
      sorted[n++] = p.value[i]; /* step 0 trains nothing */
  *out = tri_median(sorted, n, (double)NAN);
  TRI_FREE(sorted);
  return TRI_OK;
}

/* Finds the means over the first and the last LAST_ROWS rows with the number, and the best of all such
 * means. */
static void score_means(const tri_html_run *r, const char *name, bool less, tri_html_score *s) {
  const tri_history_points p = numbers(r, name);
  const int64_t           *step = tri_history_step(r->h);
  double                   window[LAST_ROWS];
  int64_t                  n = 0;

  for (int64_t i = 0; i < p.n; i++) {
    double  mean = 0;
    int64_t have;
    if (!isfinite(p.value[i])) continue;
    window[n++ % LAST_ROWS] = p.value[i];
    have = n < LAST_ROWS ? n : LAST_ROWS;
    for (int64_t k = 0; k < have; k++) mean += window[k] / (double)have;
    if (n <= LAST_ROWS) s->first = s->best = mean, s->first_step = s->best_step = step[p.row[i]];
    if (less ? mean < s->best : mean > s->best) s->best = mean, s->best_step = step[p.row[i]];
    s->last = mean;
    s->last_step = step[p.row[i]];
  }
  if (n) s->name = name;
}

/* Finds the first, the last and the best value without a mean, since each value already covers many
 * answers. */
static void score_points(const tri_html_run *r, const char *name, bool less, tri_html_score *s) {
  const tri_history_points p = numbers(r, name);
  const int64_t           *step = tri_history_step(r->h);

  for (int64_t i = 0; i < p.n; i++) {
    if (!isfinite(p.value[i])) continue;
    if (!s->name) s->first = s->best = p.value[i], s->first_step = s->best_step = step[p.row[i]];
    if (less ? p.value[i] < s->best : p.value[i] > s->best)
      s->best = p.value[i], s->best_step = step[p.row[i]];
    s->last = p.value[i];
    s->last_step = step[p.row[i]];
    s->name = name;
  }
}

static void score(tri_html_run *r) {
  static const char *const reward[] = {"reward_mean", "accuracy", "margin_mean"};
  static const char *const eval[] = {"eval_pass_at_1", "eval_reward_mean", "eval_accuracy",
                                     "eval_margin_mean"};
  tri_html_score           cut = {0};

  for (size_t i = 0; !r->reward.name && i < sizeof reward / sizeof *reward; i++)
    score_means(r, reward[i], false, &r->reward);
  if (!r->reward.name) score_means(r, "loss", true, &r->reward);
  for (size_t i = 0; !r->eval.name && i < sizeof eval / sizeof *eval; i++)
    score_points(r, eval[i], false, &r->eval);
  if (!r->eval.name) score_points(r, "eval_loss", true, &r->eval);
  score_points(r, "eval_truncated_ratio", true, &cut);
  r->eval_cut = cut.name ? cut.last : (double)NAN;
}

/* ---- times and opening ---- */

static void find_times(tri_html_run *r) {
  const tri_history_points p = numbers(r, "time_unix_s");

  for (int64_t i = 0; i < p.n; i++) {
    if (!isfinite(p.value[i]) || p.value[i] <= 0) continue;
    if (r->began_unix_s == 0) r->began_unix_s = p.value[i];
    r->last_unix_s = p.value[i];
  }
}

tri_status tri_html_run_open(const char *folder, double now_unix_s, tri_html_run *out) {
  tri_status st = TRI_OK;

  *out = (tri_html_run){.samples.step = -1};
  TRI_TRY_DONE(tri_history_open(folder, &out->h));
  TRI_TRY_DONE(tri_html_begun_read(out->h, &out->begun));
  TRI_TRY_DONE(tri_samples_read(folder, &out->samples));
  tri_marks_read(folder, &out->marks);
  tri_look_facts_make(out->h, now_unix_s, &out->seen);
  find_times(out);
  out->spent_s = sum_of(out, "time_step_s");
  out->tokens = sum_of(out, "tokens");
  TRI_TRY_DONE(median_of(out, "tokens_per_s", &out->rate));
  score(out);
done:
  if (st != TRI_OK) tri_html_run_close(out);
  return st;
}

void tri_html_run_close(tri_html_run *r) {
  tri_history_close(&r->h);
  tri_html_begun_free(&r->begun);
  tri_samples_free(&r->samples);
}

/* ---- decks ---- */

static bool is_same(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

bool tri_html_differs(const tri_html_report *p, const char *key) {
  const tri_history *first = NULL;

  if (!strcmp(key, "run.output")) return false;
  for (int i = 0; i < p->n; i++) {
    const tri_history *h = p->run[i].h;
    if (tri_history_deck_error(h)) continue;
    if (first && !is_same(tri_history_deck(first, key), tri_history_deck(h, key))) return true;
    if (!first) first = h;
  }
  return false;
}

/* Returns true if the deck of a run before `run` has the key. */
static bool came_before(const tri_html_report *p, int run, const char *key) {
  for (int i = 0; i < run; i++)
    if (tri_history_deck(p->run[i].h, key)) return true;
  return false;
}

const char *tri_html_next_key(const tri_html_report *p, int *run, int *key) {
  for (; *run < p->n; ++*run, *key = -1)
    while (++*key < tri_history_n_keys(p->run[*run].h)) {
      const char *name = tri_history_key(p->run[*run].h, *key);
      if (!came_before(p, *run, name)) return name;
    }
  return NULL;
}

/* ---- times in words ---- */

void tri_html_when(double unix_s, char out[TRI_WHEN_BYTES]) {
  time_t    t = (time_t)(unix_s > 0 && unix_s < 253402300800.0 ? unix_s : 0); /* the year 10000 */
  struct tm utc;

  if (t == 0 || !gmtime_r(&t, &utc))
    snprintf(out, TRI_WHEN_BYTES, "-");
  else
    snprintf(out, TRI_WHEN_BYTES, "%04d-%02d-%02d %02d:%02d UTC", utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min);
}

void tri_html_duration(double s, char out[TRI_WHEN_BYTES]) {
  int64_t n = s >= 0 && s < 1e15 ? llround(s) : -1, d, h, m;

  d = n / 86400, h = n / 3600 % 24, m = n / 60 % 60;
  if (n < 0)
    snprintf(out, TRI_WHEN_BYTES, "-");
  else if (d)
    snprintf(out, TRI_WHEN_BYTES, "%lld d %lld h", (long long)d, (long long)h);
  else if (h)
    snprintf(out, TRI_WHEN_BYTES, "%lld h %lld min", (long long)h, (long long)m);
  else if (m)
    snprintf(out, TRI_WHEN_BYTES, "%lld min %lld s", (long long)m, (long long)(n % 60));
  else
    snprintf(out, TRI_WHEN_BYTES, s < 10 ? "%.1f s" : "%.0f s", s);
}
