/* report.c - what a step was like, as metrics: its rollout, its time and memory. */
#include "train.h"

#include <math.h>
#include <stdio.h>

/* With several rewards, what each gave by itself: reward_<name>_mean. */
static void report_parts(tri_trainer *t, const tri_rollout *r) {
  for (int i = 0; r->n_reward > 1 && i < r->n_reward; i++) {
    char   name[96];
    double mean = 0;
    for (int q = 0; q < r->n_seq; q++) mean += (double)r->part[(int64_t)q * r->n_reward + i];
    snprintf(name, sizeof name, "reward_%s_mean", tri_reward_set_name(t->reward, i));
    tri_metric_add(t->metrics, name, TRI_METRIC_RANK0, mean / r->n_seq);
  }
}

void tri_report_rollout(tri_trainer *t, const tri_rollout *r) {
  double  mean = 0, square = 0, length = 0;
  int64_t tokens = 0;

  for (int q = 0; q < r->n_seq; q++) {
    tokens += r->start[q + 1] - tri_rollout_first_row(r, q);
    if (!(t->algo->needs & TRI_NEEDS_ANSWERS)) continue;
    mean += (double)r->reward[q];
    length += (double)(r->start[q + 1] - r->start[q] - r->prompt_len[q]);
  }
  mean /= r->n_seq;
  for (int q = 0; (t->algo->needs & TRI_NEEDS_ANSWERS) && q < r->n_seq; q++)
    square += ((double)r->reward[q] - mean) * ((double)r->reward[q] - mean);
  t->progress.tokens += tokens;
  tri_metric_add(t->metrics, "tokens", TRI_METRIC_RANK0, (double)tokens);
  if (!(t->algo->needs & TRI_NEEDS_ANSWERS)) return;
  tri_metric_add(t->metrics, "reward_mean", TRI_METRIC_RANK0, mean);
  tri_metric_add(t->metrics, "reward_std", TRI_METRIC_RANK0,
                 r->n_seq > 1 ? sqrt(square / (r->n_seq - 1)) : 0);
  tri_metric_add(t->metrics, "zero_variance_ratio", TRI_METRIC_RANK0, tri_health_zero_variance(r));
  report_parts(t, r);
  tri_metric_add(t->metrics, "reward_failures", TRI_METRIC_RANK0,
                 tri_answers_failed(r, t->reward, t->se->comm[TRI_WORLD]->rank == 0));
  tri_metric_add(t->metrics, "response_length_mean_tokens", TRI_METRIC_RANK0, length / r->n_seq);
  tri_metric_add(t->metrics, "truncated_ratio", TRI_METRIC_RANK0, tri_health_truncated(r));
}

tri_status tri_report_resources(tri_trainer *t, double began_s, int64_t tokens) {
  tri_ledger_sum mem = tri_ledger_total(t->se->ledger);
  tri_device    *d = t->se->device;
  size_t         bytes_free, bytes_total;
  double         spent_s = tri_now_s() - began_s;

  tri_metric_add(t->metrics, "time_unix_s", TRI_METRIC_RANK0, tri_unix_s());
  tri_metric_add(t->metrics, "time_step_s", TRI_METRIC_MAX, spent_s);
  tri_metric_add(t->metrics, "tokens_per_s", TRI_METRIC_RANK0, (double)tokens / spent_s);
  tri_metric_add(t->metrics, "mem_planned_bytes", TRI_METRIC_MAX, (double)mem.planned);
  tri_metric_add(t->metrics, "mem_used_bytes", TRI_METRIC_MAX, (double)mem.used);
  tri_metric_add(t->metrics, "mem_state_bytes", TRI_METRIC_MAX, (double)mem.state);
  if (!tri_device_is_gpu(d)) return TRI_OK;
  TRI_TRY(d->ops->mem_info(d, &bytes_free, &bytes_total));
  tri_metric_add(t->metrics, "mem_gpu_planned_bytes", TRI_METRIC_MAX, (double)mem.device);
  tri_metric_add(t->metrics, "mem_gpu_used_bytes", TRI_METRIC_MAX, (double)(bytes_total - bytes_free));
  return TRI_OK;
}
