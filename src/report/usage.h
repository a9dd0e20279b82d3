/* usage.h - what a run used: the time of its phases, hours of GPUs or cores, energy; how each GPU fares. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_USAGE_H
#define TRI_USAGE_H

#include "device/device.h"
#include "device/gauge.h"
#include "metrics.h"

enum { TRI_USAGE_PHASES = 8 }; /* chosen: a run has six */

/* From its opening on, for this process. */
typedef struct tri_usage {
  double began_s, read_s; /* as tri_now_s: opened; the last reading */
  int    n_phase;
  struct {
    const char *name; /* a literal */
    double      s;
  } phase[TRI_USAGE_PHASES]; /* rank 0's are told */
  tri_gauge        *gauge;   /* owned; NULL: nothing to read on this rank */
  tri_gauge_reading last;
  double            spent_s;  /* between the last two readings */
  bool              reads;    /* some rank has a gauge */
  int64_t           tokens;   /* learned */
  double            energy_j; /* all GPUs', rank 0's count; NaN: not known */
} tri_usage;

/* Collective over world: whether any rank's device has a gauge. */
TRI_CHECKED tri_status tri_usage_open(tri_usage *u, const tri_device *d, tri_comm *world);
void                   tri_usage_close(tri_usage *u);
/* Not collective. So long in a phase (a literal); phases do not lie inside one another. */
void tri_usage_spend(tri_usage *u, const char *phase, double s);
/* Not collective, but every rank calls it: since the last call, into the metrics of a step,
 *   gpu_joules_per_s   mean power of a GPU, watts
 *   gpu_cycles_per_s   clock of the slowest
 *   gpu_busy_s_per_s   mean share of its time in which a GPU ran some kernel, as of the driver's last sample
 *   time_gpu_slowed_s  for which power or heat held back the GPU that was held back longest
 * each null where a GPU does not say; none of them where no rank has a gauge. */
void tri_usage_report(tri_usage *u, tri_metrics *m, int ranks);
/* Not collective. Rank 0, after the metrics were reduced: adds up the energy. */
void tri_usage_add(tri_usage *u, const tri_metrics *m, int ranks);
/* Not collective. Rank 0's lines for the end, without indent and newline: "rollout 61 %, learn 30 %, other
 * 9 %" in the order of a step, and "3.2 GPU hours, 1.12 kWh of the GPUs". gpus 0: cores. */
TRI_CHECKED tri_status tri_usage_time_words(const tri_usage *u, double now_s, tri_text *out);
TRI_CHECKED tri_status tri_usage_words(const tri_usage *u, double now_s, int gpus, int cores, tri_text *out);

#endif
