/* gemm_cost.c - the cost of equal bits of rows: the serving algorithm compared with the library's free
 * choice.
 *
 * Each shape logs its most expensive product once, at the start of a run. A cost above a tenth is a warning,
 * because a run that does not need bit-equal sampling and training can save that time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "gemm_impl.h"

#include <stdio.h>
#include <string.h>

enum { WARN_PERCENT = 10 }; /* chosen */

tri_status tri_lt_compare(const tri_linear *l, const tri_lt *p, const tri_lt_workspace *r, int bucket,
                          tri_lt_cost *io) {
  const int64_t                   rows = tri_lt_rows[bucket] < r->rows ? tri_lt_rows[bucket] : r->rows;
  cublasLtMatmulHeuristicResult_t c = {.algo = p->algo[bucket]};
  int                             n;

  TRI_TRY(tri_lt_free_choice(l, p, bucket, &c, &n));
  if (!memcmp(&c.algo, &p->algo[bucket], sizeof c.algo)) {
    io->free_ms[bucket] = io->ms[bucket];
    return TRI_OK;
  }
  if (c.workspaceSize > r->lt_bytes) return TRI_OK;
  return tri_lt_time(l, p, &c.algo, r, rows, &io->free_ms[bucket]);
}

/* Returns the extra time in percent, or -1 if unknown. */
static double percent(const tri_lt_cost *c, int bucket) {
  if (c->ms[bucket] < 0 || c->free_ms[bucket] <= 0) return -1;
  return 100 * (c->ms[bucket] / c->free_ms[bucket] - 1);
}

/* Prints "up to 16 rows 0.0121 (0.0120), ...", for the buckets with known times. */
static void print_buckets(const tri_lt_cost *c, char *text, size_t size) {
  size_t used = 0;

  text[0] = 0;
  for (int b = 0; b < TRI_LT_BUCKETS && used < size; b++) {
    const bool last = b == TRI_LT_MANY;
    if (percent(c, b) < 0 && c->free_ms[b] < 0) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s %lld rows %.4f (%.4f)", used ? ", " : "",
                             last ? "above" : "up to", (long long)tri_lt_rows[last ? b - 1 : b], c->ms[b],
                             c->free_ms[b]);
  }
}

void tri_lt_report(const tri_linear *l, const tri_lt_cost *cost) {
  int           product = -1, bucket = 0;
  char          name[96], text[400];
  const tri_lt *p;

  for (int i = 0; i < TRI_LT_FWDS; i++)
    for (int b = 0; b < TRI_LT_BUCKETS; b++)
      if (cost[i].free_ms[b] > 0 && (product < 0 || percent(&cost[i], b) > percent(&cost[product], bucket)))
        product = i, bucket = b;
  if (product < 0) return;
  p = &l->fwd[product];
  print_buckets(&cost[product], text, sizeof text);
  snprintf(name, sizeof name, "product [%lld,%lld] %s to %s%s", (long long)l->n_out, (long long)l->n_in,
           tri_lt_type_name(l->dtype), tri_lt_type_name(p->out), p->bias ? " with bias" : "");
  tri_log(TRI_LOG_INFO, "%s, ms with equal bits of rows (with the library's free choice): %s", name, text);
  if (percent(&cost[product], bucket) <= WARN_PERCENT || !tri_log_is_first()) return;
  tri_log(TRI_LOG_WARN,
          "%s: equal bits of rows take %.0f %% more time (%s %lld rows). If sampler and trainer need not "
          "agree to the bit, set run.sampler: rescore or trust to use the library's free choice",
          name, percent(&cost[product], bucket), bucket == TRI_LT_MANY ? "above" : "up to",
          (long long)tri_lt_rows[bucket == TRI_LT_MANY ? bucket - 1 : bucket]);
}
