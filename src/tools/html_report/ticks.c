/* ticks.c - puts the marks of an axis at round numbers and writes their text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ABOUT      4.0   /* steps of an axis, chosen for a chart 150 pixels high */
#define ABOUT_WIDE 5.0   /* the same for its width, twice as long */
#define NEAR_ZERO  0.4   /* share of high, chosen, an axis includes 0 if low is below it */
#define STEADY     1e-12 /* share of high, chosen, smaller differences count as none */
#define SLACK      1e-9  /* share of a step, chosen far above rounding errors */

/* Returns the least of 1, 2 and 5 times a power of ten that is not below x > 0. */
static double round_up(double x) {
  double power = pow(10, floor(log10(x)));

  return x <= power * (1 + SLACK) ? power
         : x <= 2 * power         ? 2 * power
         : x <= 5 * power         ? 5 * power
                                  : 10 * power;
}

/* Returns the power of 1024 in which `high` is below 1024. */
static double unit_of(double high) {
  double unit = 1;

  while (high >= 1024 * unit && unit < 0x1p60) unit *= 1024;
  return unit;
}

static void mark(tri_axis *a) {
  double first = ceil(a->low / a->step - SLACK), last = floor(a->high / a->step + SLACK);

  for (double i = first; i <= last && a->n < TRI_TICKS_MOST; i++) a->at[a->n++] = i == 0 ? 0 : i * a->step;
}

/* Widens the range of a constant value, so that it lies inside the axis and not at its edge. */
static void widen(double *low, double *high) {
  double size = fmax(fabs(*low), fabs(*high));

  if (*high - *low > STEADY * size) return;
  if (size == 0)
    *high = 1;
  else if (*low > 0)
    *low = 0, *high *= 1.25;
  else
    *high = 0, *low *= 1.25;
}

static void make_linear(tri_axis *a, double low, double high) {
  widen(&low, &high);
  if (low > 0 && low <= NEAR_ZERO * high) low = 0;
  if (high < 0 && high >= NEAR_ZERO * low) high = 0;
  if (a->kind == TRI_AXIS_BYTES) a->unit = unit_of(fmax(fabs(low), fabs(high)));
  a->step = round_up((high / ABOUT - low / ABOUT) / a->unit) * a->unit;
  a->low = floor(low / a->step + SLACK) * a->step;
  a->high = ceil(high / a->step - SLACK) * a->step;
  mark(a);
}

static void make_log(tri_axis *a, double low, double high) {
  static const double part[] = {1, 2, 5};
  int first = (int)floor(log10(low) + SLACK), last = (int)ceil(log10(high) - SLACK), every, n_part;

  if (last == first) last++;
  every = (last - first + 4) / 5;
  n_part = last - first <= 2 ? 3 : 1;
  a->low = pow(10, first);
  a->high = pow(10, last);
  for (int e = first; e <= last; e += every)
    for (int p = 0; p < n_part && (p == 0 || e < last); p++)
      if (a->n < TRI_TICKS_MOST) a->at[a->n++] = part[p] * pow(10, e);
}

tri_axis tri_axis_make(double low, double high, tri_axis_kind kind, bool log) {
  tri_axis a = {.kind = kind, .log = log, .unit = 1};

  if (log)
    make_log(&a, low, high);
  else
    make_linear(&a, low, high);
  return a;
}

tri_axis tri_axis_steps(int64_t first, int64_t last) {
  tri_axis a = {.low = (double)first, .high = (double)last, .unit = 1};

  if (first == last) {
    a.at[a.n++] = a.low;
    a.step = 1;
    a.low -= 0.5;
    a.high += 0.5;
    return a;
  }
  a.step = fmax(1, round_up((a.high - a.low) / ABOUT_WIDE));
  mark(&a);
  return a;
}

double tri_axis_place(const tri_axis *a, double value) {
  if (a->log) return (log10(value) - log10(a->low)) / (log10(a->high) - log10(a->low));
  return value / (a->high - a->low) - a->low / (a->high - a->low);
}

/* Returns the number of decimals needed to tell multiples of step apart. */
static int decimals(double step) {
  int n = (int)-floor(log10(step) + SLACK);

  return n > 0 ? n : 0;
}

/* Writes x as m times ten to the e, without the zeros of "e-04". */
static void put_power(double x, int digits, char out[TRI_TICK_BYTES]) {
  char *e, text[TRI_TICK_BYTES];

  snprintf(text, sizeof text, "%.*e", digits, x);
  e = strchr(text, 'e');
  while (strchr(text, '.') && e[-1] == '0') e--;
  if (e[-1] == '.') e--;
  snprintf(out, TRI_TICK_BYTES, "%.*se%d", (int)(e - text), text, (int)floor(log10(fabs(x)) + SLACK));
}

const char *tri_axis_unit(const tri_axis *a) {
  static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int                      k = 0;

  if (a->kind != TRI_AXIS_BYTES) return "";
  for (double u = a->unit; u > 1; u /= 1024) k++;
  return binary[k];
}

void tri_axis_text(const tri_axis *a, double at, char out[TRI_TICK_BYTES]) {
  static const char *const thousands[] = {"", "k", "M", "G", "T"};
  double size = fmax(fabs(a->low), fabs(a->high)), step = a->log ? at : a->step, unit = a->unit;
  int    k = 0;

  if (at == 0) {
    snprintf(out, TRI_TICK_BYTES, "0");
  } else if (a->kind == TRI_AXIS_BYTES) {
    snprintf(out, TRI_TICK_BYTES, "%.*f", decimals(step / unit), at / unit);
  } else if (a->log ? at < 1e-3 || at >= 1e4 : size < 1e-3 * (1 - SLACK) || size >= 1e15) {
    int digits = a->log ? 0 : (int)floor(log10(fabs(at)) + SLACK) - (int)floor(log10(step) + SLACK);
    put_power(at, digits > 0 ? digits : 0, out);
  } else {
    for (unit = 1; size >= 1e4 && size >= 1000 * unit && !a->log && k < 4; k++) unit *= 1000;
    snprintf(out, TRI_TICK_BYTES, "%.*f%s", decimals(step / unit), at / unit, thousands[k]);
  }
}
