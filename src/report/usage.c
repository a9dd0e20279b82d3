/* usage.c - measures the resources of a run, with time by phase, hours and energy. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "usage.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

tri_status tri_usage_open(tri_usage *u, const tri_device *d, tri_comm *world) {
  int64_t any;

  *u = (tri_usage){.began_s = tri_now_s()};
  if (tri_device_is_gpu(d)) TRI_TRY(tri_gauge_open(d->uuid, &u->gauge));
  any = u->gauge != NULL;
  TRI_TRY(tri_host_max(world, &any, 1));
  u->reads = any != 0;
  u->energy_j = u->reads ? 0 : NAN;
  u->last = tri_gauge_read(u->gauge);
  u->read_s = tri_now_s();
  return TRI_OK;
}

void tri_usage_close(tri_usage *u) { tri_gauge_close(&u->gauge); }

void tri_usage_spend(tri_usage *u, const char *phase, double s) {
  int i = 0;

  while (i < u->n_phase && strcmp(u->phase[i].name, phase)) i++;
  TRI_ASSERT(i < TRI_USAGE_PHASES);
  if (i == u->n_phase) u->phase[u->n_phase++].name = phase;
  u->phase[i].s += s;
}

void tri_usage_report(tri_usage *u, tri_metrics *m, int ranks) {
  tri_gauge_reading now;
  double            at_s, power_w;

  if (!u->reads) return;
  now = tri_gauge_read(u->gauge);
  at_s = tri_now_s();
  u->spent_s = at_s - u->read_s;
  power_w = (now.energy_j - u->last.energy_j) / u->spent_s;
  if (isnan(power_w)) power_w = now.power_w; /* GPUs before Volta do not count energy */
  tri_metric_add(m, "gpu_joules_per_s", TRI_METRIC_SUM, power_w / ranks);
  tri_metric_add(m, "gpu_cycles_per_s", TRI_METRIC_MIN, now.clock_hz);
  tri_metric_add(m, "gpu_busy_s_per_s", TRI_METRIC_SUM, now.busy_ratio / ranks);
  tri_metric_add(m, "time_gpu_slowed_s", TRI_METRIC_MAX, now.slowed_s - u->last.slowed_s);
  u->last = now;
  u->read_s = at_s;
}

void tri_usage_add(tri_usage *u, const tri_metrics *m, int ranks) {
  if (u->reads) u->energy_j += tri_metric_get(m, "gpu_joules_per_s") * u->spent_s * ranks;
}

/* Phases in the order of a step. The first phase of a run depends on where it starts. */
static const char *const in_order[] = {"rollout", "reference", "critic", "learn", "eval", "save"};
enum { N_IN_ORDER = sizeof in_order / sizeof *in_order };

static int place_of(const char *phase) {
  int i = 0;

  while (i < N_IN_ORDER && strcmp(in_order[i], phase)) i++;
  return i;
}

tri_status tri_usage_time_words(const tri_usage *u, double now_s, tri_text *out) {
  double all = now_s - u->began_s, other = all;

  for (int place = 0; place <= N_IN_ORDER; place++)
    for (int i = 0; i < u->n_phase; i++) {
      if (place_of(u->phase[i].name) != place) continue;
      other -= u->phase[i].s;
      TRI_TRY(tri_text_printf(out, "%s %.0f %%, ", u->phase[i].name, 100 * u->phase[i].s / all));
    }
  return tri_text_printf(out, "other %.0f %%", 100 * fmax(other, 0) / all);
}

tri_status tri_usage_words(const tri_usage *u, double now_s, int gpus, int cores, tri_text *out) {
  double hours = (now_s - u->began_s) / 3600;

  TRI_TRY(tri_text_printf(out, "%.3g %s hours", hours * (gpus ? gpus : cores), gpus ? "GPU" : "core"));
  if (u->energy_j > 0) TRI_TRY(tri_text_printf(out, ", %.3g kWh of the GPUs", u->energy_j / 3.6e6));
  return TRI_OK;
}
