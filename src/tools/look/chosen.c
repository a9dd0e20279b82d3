/* chosen.c - chooses the curves shown without --metric and the format of their numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "look_impl.h"
#include "metric/metric_names.h"

#include <math.h>
#include <string.h>

/* The rows stand in the order of display. A row is left out for a run that has the metric `unless`. A row
 * with `moves` is shown only once its value was not 0. */
static const struct {
  const char *name;
  void (*cell)(double x, int width, char out[TRI_CELL_BYTES]);
  const char *unless;
  bool        moves;
} table[] = {
    {"reward_mean", tri_cell_number, NULL, false},
    {"loss", tri_cell_number, "reward_mean", false},
    {"accuracy", tri_cell_number, NULL, false},
    {"margin_mean", tri_cell_number, NULL, false},
    {"eval_pass_at_1", tri_cell_number, NULL, false},
    {"eval_reward_mean", tri_cell_number, NULL, false},
    {"eval_truncated_ratio", tri_cell_share, NULL, true},
    {"eval_accuracy", tri_cell_number, NULL, false},
    {"eval_loss", tri_cell_number, "eval_accuracy", false},
    {"response_length_mean_tokens", tri_cell_count, NULL, false},
    {"truncated_ratio", tri_cell_share, NULL, true},
    {"kl_mean_nats", tri_cell_number, NULL, false},
    {"entropy_mean_nats", tri_cell_number, NULL, false},
    {"sampler_gap_max_nats", tri_cell_number, NULL, true},
    {"explained_variance", tri_cell_number, NULL, false},
    {"grad_norm", tri_cell_number, NULL, false},
};
enum { N_TABLE = sizeof table / sizeof *table, SETS_MOST = 8 }; /* a choice, --metric shows more */
_Static_assert((int)N_TABLE + SETS_MOST <= TRI_LOOK_METRICS_MOST, "all fit");

static bool has(const tri_history *h, const char *name, bool moves) {
  tri_history_points p = {NULL, NULL, 0};
  int                i = tri_history_find(h, name);

  if (i >= 0 && !moves) return true;
  if (i >= 0) p = tri_history_points_of(h, i);
  for (int64_t k = 0; k < p.n; k++)
    if (isfinite(p.value[k]) && p.value[k] != 0) return true;
  return false;
}

static bool one_has(const tri_look *l, int k) {
  for (int i = 0; i < l->n; i++) {
    const tri_history *h = l->run[i].h;
    if (has(h, table[k].name, table[k].moves) && !(table[k].unless && has(h, table[k].unless, false)))
      return true;
  }
  return false;
}

/* A metric of the table is written in the table's format. */
static tri_look_metric asked(const char *name) {
  tri_look_metric m = {name, name, tri_cell_number};

  for (int k = 0; k < N_TABLE; k++)
    if (!strcmp(table[k].name, name)) m.cell = table[k].cell;
  return m;
}

static bool is_set(const char *name) {
  static const char *const end[] = {"_reward_mean", "_accuracy"};
  size_t                   n = strlen(name);

  for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
    size_t k = strlen(end[i]);
    if (n > 5 + k && !strncmp(name, "eval_", 5) && !strcmp(name + n - k, end[i])) return true;
  }
  return false;
}

/* Adds the curves of data.eval_names (eval_<name>_reward_mean, eval_<name>_accuracy), at most SETS_MOST.
 * Returns the new count of out. */
static int add_sets(const tri_look *l, tri_look_metric out[TRI_LOOK_METRICS_MOST], int n) {
  int from = n;

  for (int i = 0; i < l->n; i++) {
    const tri_history *h = l->run[i].h;
    for (int k = 0; k < tri_history_n_series(h) && n - from < SETS_MOST; k++) {
      const char *name = tri_history_name(h, k);
      bool new = is_set(name);
      for (int m = from; m < n; m++) new &= strcmp(out[m].name, name) != 0;
      if (new) out[n++] = (tri_look_metric){name, name, tri_cell_number};
    }
  }
  return n;
}

int tri_look_choose(const tri_look *l, const tri_look_how *how, tri_look_metric out[TRI_LOOK_METRICS_MOST]) {
  int n = 0;

  for (int i = 0; i < how->n_metric && n < TRI_LOOK_METRICS_MOST; i++) out[n++] = asked(how->metric[i]);
  if (how->n_metric) return n;
  for (int k = 0; k < N_TABLE; k++) {
    if (one_has(l, k))
      out[n++] = (tri_look_metric){table[k].name, tri_metric_word(table[k].name), table[k].cell};
    if (!strcmp(table[k].name, "eval_accuracy")) n = add_sets(l, out, n);
  }
  return n;
}
