/* gauge.h - reads a GPU's utilization, power, energy, clock and throttling through NVML, if it is
 * installed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GAUGE_H
#define TRI_GAUGE_H

#include "base/error.h"

typedef struct tri_gauge tri_gauge;

/* NaN means this GPU or its driver does not report the value. */
typedef struct tri_gauge_reading {
  double busy_ratio; /* share of the driver's last sample period (up to a second) with a kernel running */
  double power_w;    /* now */
  double energy_j;   /* since the driver was loaded */
  double clock_hz;   /* multiprocessor clock now */
  double slowed_s;   /* time since the driver was loaded with clocks lowered by the power limit or by heat */
} tri_gauge_reading;

/* Not collective, all that follow. Opens the GPU with this UUID [16 bytes]. *out is NULL, without a message,
 * if NVML is missing or does not know the GPU. NVML is loaded at run time, so no build needs it. */
TRI_CHECKED tri_status tri_gauge_open(const unsigned char *uuid, tri_gauge **out);
void                   tri_gauge_close(tri_gauge **g);
/* Takes some microseconds to milliseconds. All values are NaN if g is NULL. */
tri_gauge_reading tri_gauge_read(const tri_gauge *g);

#endif
