/* best.h - which step was the best by one metric. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BEST_H
#define TRI_BEST_H

#include "base/error.h"

typedef struct tri_best {
  int64_t step; /* -1: none */
  double  value;
} tri_best;

/* Pure. Is less of the metric better? Of one whose name ends in loss or perplexity; of any other more is. */
bool tri_best_is_least(const char *metric);
/* Pure. Is this value better than that one? NaN never is; every number is better than none. */
bool tri_best_beats(const char *metric, double value, const tri_best *than);
/* Not collective. The best of a file of metrics (metrics.h), among steps up to `last_step` that `counts`
 * wants; of equal ones the first. A file that is not there has none. TRI_EINPUT, with its place, of a line
 * that is not one of ours. */
TRI_CHECKED tri_status tri_best_find(const char *path, const char *metric, int64_t last_step,
                                     bool (*counts)(const void *ctx, int64_t step), const void *ctx,
                                     tri_best *out);

#endif
