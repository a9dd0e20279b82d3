/* usage.h - measures the resources of a run, with time by phase, GPU or core hours, energy, and the state of
 * each GPU. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_USAGE_H
#define TRI_USAGE_H

#include "device/device.h"
#include "device/gauge.h"
#include "metrics.h"

enum { TRI_USAGE_PHASES = 8 }; /* chosen, as a run has six */

/* Counts of this process since the opening. */
typedef struct tri_usage {
  double began_s, read_s; /* times of the opening and the last reading, by tri_now_s */
  int    n_phase;
  struct {
    const char *name; /* a literal */
    double      s;
  } phase[TRI_USAGE_PHASES]; /* rank 0's are reported */
  tri_gauge        *gauge;   /* owned, or NULL if this rank has no gauge */
  tri_gauge_reading last;
  double            spent_s;  /* seconds between the last two readings */
  bool              reads;    /* some rank has a gauge */
  int64_t           tokens;   /* tokens learned */
  double            energy_j; /* for all GPUs, on rank 0, NaN if unknown */
} tri_usage;

/* Collective over world. Finds out if any rank's device has a gauge. */
TRI_CHECKED tri_status tri_usage_open(tri_usage *u, const tri_device *d, tri_comm *world);
void                   tri_usage_close(tri_usage *u);
/* Not collective. Adds seconds to a phase (a literal). Phases are not nested. */
void tri_usage_spend(tri_usage *u, const char *phase, double s);
/* Not collective, but every rank calls it. Adds to the metrics of a step, since the last call:
 *   gpu_joules_per_s   mean power of a GPU, watts
 *   gpu_cycles_per_s   clock of the slowest GPU
 *   gpu_busy_s_per_s   mean share of time with a running kernel, by the driver's last sample
 *   time_gpu_slowed_s  longest time during which power or heat slowed a GPU
 * Each is null if a GPU does not report it. All are missing if no rank has a gauge. */
void tri_usage_report(tri_usage *u, tri_metrics *m, int ranks);
/* Not collective, on rank 0, after the metrics were reduced. Adds up the energy. */
void tri_usage_add(tri_usage *u, const tri_metrics *m, int ranks);
/* Not collective. Append rank 0's lines for the end, without indent and newline, such as "rollout 61 %, learn
 * 30 %, other 9 %" in the order of a step, and "3.2 GPU hours, 1.12 kWh of the GPUs". gpus is 0 for cores. */
TRI_CHECKED tri_status tri_usage_time_words(const tri_usage *u, double now_s, tri_text *out);
TRI_CHECKED tri_status tri_usage_words(const tri_usage *u, double now_s, int gpus, int cores, tri_text *out);

#endif
