/* curve.c - compresses many numbers into few columns. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "look_impl.h"

#include <math.h>
#include <string.h>

double tri_look_last(const double *value, int64_t n, int64_t *row) {
  for (*row = n - 1; *row >= 0; --*row)
    if (isfinite(value[*row])) return value[*row];
  return NAN;
}

int tri_look_compress(const double *value, int64_t n, int width, double *out) {
  int64_t finite = 0, at = 0;
  double  count[TRI_LOOK_CURVE_MOST] = {0};
  int     parts;

  TRI_ASSERT(width >= 0 && width <= TRI_LOOK_CURVE_MOST);
  for (int64_t i = 0; i < n; i++) finite += isfinite(value[i]) != 0;
  parts = finite < width ? (int)finite : width;
  for (int i = 0; i < parts; i++) out[i] = 0;
  for (int64_t i = 0; i < n && parts; i++) {
    if (!isfinite(value[i])) continue;
    int64_t part = at++ * parts / finite;
    out[part] += (value[i] - out[part]) / ++count[part]; /* a running mean, because a sum could overflow */
  }
  return parts;
}

/* Eight heights, the block elements U+2581 to U+2588 of Unicode 15. */
tri_status tri_look_spark(const double *value, int n, double low, double high, bool utf8, tri_text *out) {
  static const char ascii[] = "_.-:=+*#";
  static const char block[8][4] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
                                   "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88"};

  for (int i = 0; i < n; i++) {
    double part = high > low ? (value[i] / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
    int    height = part >= 1 ? 7 : part > 0 ? (int)(part * 8) : 0;
    if (utf8)
      TRI_TRY(tri_text_put(out, block[height], 3));
    else
      TRI_TRY(tri_text_put(out, &ascii[height], 1));
  }
  return TRI_OK;
}
