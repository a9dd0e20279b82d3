/* gauge.h - what a GPU says of itself: how busy it is, its energy, its clock, what slowed it; by NVML, where
 * there is one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GAUGE_H
#define TRI_GAUGE_H

#include "base/error.h"

typedef struct tri_gauge tri_gauge;

/* NaN: this GPU or its driver does not say. */
typedef struct tri_gauge_reading {
  double busy_ratio; /* of the driver's last sample period, up to a second: in which some kernel ran */
  double power_w;    /* now */
  double energy_j;   /* since the driver was loaded */
  double clock_hz;   /* of the multiprocessors, now */
  double slowed_s;   /* since the driver was loaded: below its clocks for want of power, or too hot */
} tri_gauge_reading;

/* Not collective, all that follow. Of the GPU with this UUID [16 bytes]. *out is NULL, and nothing is said,
 * where NVML is not there or does not know it: it is opened at run time, no build needs it. */
TRI_CHECKED tri_status tri_gauge_open(const unsigned char *uuid, tri_gauge **out);
void                   tri_gauge_close(tri_gauge **g);
/* Some microseconds to milliseconds. g NULL: all NaN. */
tri_gauge_reading tri_gauge_read(const tri_gauge *g);

#endif
