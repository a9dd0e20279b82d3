/* best.c - compares steps by one metric, and finds the best one in the lines of a run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "best.h"

#include "base/file.h"
#include "io/text/jsonl.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

bool tri_best_is_least(const char *metric) {
  return tri_ends_with(metric, "loss") || tri_ends_with(metric, "perplexity");
}

bool tri_best_beats(const char *metric, double value, const tri_best *than) {
  if (isnan(value) || than->step < 0) return !isnan(value);
  return tri_best_is_least(metric) ? value < than->value : value > than->value;
}

tri_status tri_best_find(const char *path, const char *metric, int64_t last_step,
                         bool (*counts)(const void *ctx, int64_t step), const void *ctx, tri_best *out) {
  tri_jsonl *r = NULL;
  json_t    *line;
  tri_status st = TRI_OK;

  *out = (tri_best){-1, NAN};
  if (!tri_file_exists(path)) return TRI_OK;
  TRI_TRY(tri_jsonl_open(path, &r));
  for (;;) {
    int64_t before = tri_jsonl_line(r);
    st = tri_jsonl_next(r, &line);
    /* Not a metrics line, as tri_metrics_open has reported. */
    if (st == TRI_EINPUT && tri_jsonl_line(r) > before) {
      tri_error_clear();
      continue;
    }
    TRI_TRY_DONE(st);
    if (!line) break;
    const json_t *step = json_object_get(line, "step"), *value = json_object_get(line, metric);
    int64_t       at = json_is_integer(step) ? json_integer_value(step) : -1;
    if (!json_is_number(value) || at < 0 || at > last_step) continue;
    if (tri_best_beats(metric, json_number_value(value), out) && counts(ctx, at))
      *out = (tri_best){at, json_number_value(value)};
  }
done:
  tri_jsonl_close(&r);
  return st;
}
