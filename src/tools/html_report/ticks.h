/* ticks.h - the marks of an axis at round numbers and their text. Private to its room. */
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
  double        step; /* distance of two marks, unused if log */
  double        unit; /* for bytes, the power of 1024 in which marks are written, else 1 */
} tri_axis;

/* All functions here are pure. */

/* Makes an axis for values from low to high, both finite, low <= high. It has about four steps of 1, 2 or 5
 * times a power of ten (for bytes, in units of a power of 1024). It begins and ends at marks, and at 0 if 0
 * is near. With `log`, where low > 0, marks are whole powers of ten, some left out if there are many. If
 * there are few, marks at 2 and 5 times these are added. */
tri_axis tri_axis_make(double low, double high, tri_axis_kind kind, bool log);
/* Makes an axis of exactly first .. last with marks at whole steps. If first equals last, it is one step
 * wide. */
tri_axis tri_axis_steps(int64_t first, int64_t last);
/* Returns the position of a value, 0 at low and 1 at high. */
double tri_axis_place(const tri_axis *a, double value);
/* Returns the unit of bytes in the marks, such as "GiB", or "" for numbers. */
const char *tri_axis_unit(const tri_axis *a);
/* Writes the text of a mark, with enough digits to tell it from the next, such as 0.25, 12k or 2.5e-4. Bytes
 * are written in their unit. */
void tri_axis_text(const tri_axis *a, double at, char out[TRI_TICK_BYTES]);

#endif
