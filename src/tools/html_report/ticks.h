/* ticks.h - the marks of an axis at round numbers, and how they are written. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_TICKS_H
#define TRI_PAGE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_TICKS_MOST = 16, TRI_TICK_BYTES = 32 };

typedef enum { TRI_AXIS_NUMBER, TRI_AXIS_BYTES } tri_axis_kind;

/* An axis of values from low to high, low < high. */
typedef struct tri_axis {
  tri_axis_kind kind;
  bool          log;
  double        low, high;
  double        at[TRI_TICKS_MOST]; /* ascending, within low .. high */
  int           n;
  double        step; /* between two of them; log: unused */
  double        unit; /* of bytes, a power of 1024 in which marks are written; else 1 */
} tri_axis;

/* Pure, all that follow. */

/* An axis on which low <= high, finite, have space, about four steps of 1, 2 or 5 times a power of ten (of
 * bytes: of units that are powers of 1024) long; it begins and ends at marks, at 0 where that is near. log,
 * with low > 0: whole powers of ten, at most `about` of them written; where there are few, also 2 and 5
 * times those. */
tri_axis tri_axis_make(double low, double high, tri_axis_kind kind, bool log);
/* Marks at whole steps of first .. last; the axis is just as long, and one step wide where first is last. */
tri_axis tri_axis_steps(int64_t first, int64_t last);
/* Where a value lies: 0 at low, 1 at high. */
double tri_axis_place(const tri_axis *a, double value);
/* The unit in which marks of bytes are written, "GiB"; of numbers "". */
const char *tri_axis_unit(const tri_axis *a);
/* A mark as it is written: with the digits that tell it from the next, 0.25, 12k, 2.5e-4; bytes in their
 * unit. */
void tri_axis_text(const tri_axis *a, double at, char out[TRI_TICK_BYTES]);

#endif
