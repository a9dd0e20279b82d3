/* best.h - finds the best step of a run by one metric. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BEST_H
#define TRI_BEST_H

#include "base/error.h"

typedef struct tri_best {
  int64_t step; /* -1 for none */
  double  value;
} tri_best;

/* Pure. True if less of the metric is better, which holds for names that end in loss or perplexity. */
bool tri_best_is_least(const char *metric);
/* Pure. True if the value is better than `than`. NaN never is. Every number is better than none. */
bool tri_best_beats(const char *metric, double value, const tri_best *than);
/* Not collective. Finds the best value in a metrics file (metrics.h), among steps up to `last_step` accepted
 * by `counts`. The first of equal values wins. A missing file has none. TRI_EINPUT, with the place, for a
 * line that is not ours. */
TRI_CHECKED tri_status tri_best_find(const char *path, const char *metric, int64_t last_step,
                                     bool (*counts)(const void *ctx, int64_t step), const void *ctx,
                                     tri_best *out);

#endif
