/* plan_json.c - writes a plan as one JSON object for scripts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/text/json_text.h"
#include "plan.h"

#include <string.h>

static const char *const phase_word[] = {
    [TRI_PHASE_ALWAYS] = "always", [TRI_PHASE_ROLLOUT] = "rollout", [TRI_PHASE_LEARN] = "learn"};
static const char *const where_word[] = {
    [TRI_MEM_DEVICE] = "device", [TRI_MEM_PINNED] = "pinned", [TRI_MEM_HOST] = "host"};

static tri_status put_memory(const tri_plan *p, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"memory\": ["));
  for (int i = 0; i < p->n_row; i++) {
    const tri_ledger_row *r = &p->row[i];
    TRI_TRY(tri_text_printf(t, "%s{\"name\": ", i ? ", " : ""));
    TRI_TRY(tri_json_put_string(t, r->name, strlen(r->name)));
    TRI_TRY(tri_text_printf(t, ", \"phase\": \"%s\", \"where\": \"%s\", \"bytes\": %lld, \"shared\": %s}",
                            phase_word[r->phase], where_word[r->kind], (long long)r->bytes,
                            r->shared ? "true" : "false"));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_batch(const tri_plan *p, tri_text *t) {
  const tri_batch_plan *b = &p->t.plan.batch;

  return tri_text_printf(
      t,
      ", \"batch\": {\"train_batch_size\": %lld, \"micro_batch_size\": %lld, "
      "\"gradient_accumulation_steps\": %lld, \"data_parallel_size\": %d, \"max_tokens_per_gpu\": %lld}",
      (long long)b->train_batch_size, (long long)b->micro_batch_size,
      (long long)b->gradient_accumulation_steps, p->se.rt.world_size,
      (long long)(b->micro_batch_size ? 0 : p->t.plan.packed));
}

/* Writes null if the run generates nothing. rows, cached_tokens and states are those of one model. */
static tri_status put_rollout(const tri_plan *p, tri_text *t) {
  if (!p->t.sampling.sampler) return tri_text_printf(t, ", \"rollout\": null");
  return tri_text_printf(t,
                         ", \"rollout\": {\"models_per_node\": %d, \"rows\": %lld, \"cached_tokens\": %lld, "
                         "\"states\": %lld, \"state_bytes\": %lld}",
                         p->job.per_node / tri_ranks_of_model(&p->t), (long long)p->t.plan.decode,
                         (long long)p->t.plan.cached, (long long)p->t.plan.states,
                         (long long)p->t.plan.state_bytes);
}

/* Writes null if the value is not known. */
static tri_status put_known(tri_text *t, const char *key, int64_t n, bool known) {
  return known ? tri_text_printf(t, ", \"%s\": %lld", key, (long long)n)
               : tri_text_printf(t, ", \"%s\": null", key);
}

static tri_status put_times(const tri_plan *p, tri_text *t) {
  const struct {
    const char *name;
    double      s;
  } part[] = {{"rollout", p->time.rollout},
              {"learn", p->time.learn},
              {"update", p->time.update},
              {"all", p->time.all}};

  TRI_TRY(tri_text_printf(t, ", \"time_step_s\": {"));
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    TRI_TRY(tri_text_printf(t, "%s\"%s\": ", i ? ", " : "", part[i].name));
    TRI_TRY(tri_json_put_double(t, part[i].s));
  }
  TRI_TRY(tri_text_printf(t, "}, \"time_run_s\": "));
  if (p->t.plan.steps)
    TRI_TRY(tri_json_put_double(t, tri_plan_whole_s(p)));
  else
    TRI_TRY(tri_text_put(t, "null", 4));
  TRI_TRY(tri_text_printf(t, ", \"machine\": "));
  TRI_TRY(tri_json_put_string(t, p->job.machine.name, strlen(p->job.machine.name)));
  return put_known(t, "steps_in_walltime", tri_plan_steps(p), p->job.walltime_s > 0);
}

static tri_status put_advice(const tri_advice *advice, int n, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"advice\": ["));
  for (int i = 0; i < n; i++) {
    TRI_TRY(tri_text_printf(t, "%s{\"change\": [", i ? ", " : ""));
    for (int k = 0; k < advice[i].n; k++) {
      if (k) TRI_TRY(tri_text_put(t, ", ", 2));
      TRI_TRY(tri_json_put_string(t, advice[i].change[k], strlen(advice[i].change[k])));
    }
    TRI_TRY(tri_text_printf(t, "], \"device_bytes\": %lld", (long long)advice[i].device_bytes));
    if (advice[i].step_s > 0) TRI_TRY(tri_text_printf(t, ", \"time_step_s\": "));
    if (advice[i].step_s > 0) TRI_TRY(tri_json_put_double(t, advice[i].step_s));
    TRI_TRY(tri_text_put(t, "}", 1));
  }
  return tri_text_put(t, "]", 1);
}

tri_status tri_plan_print_json(const tri_plan *p, const tri_advice *advice, int n, tri_text *out) {
  TRI_TRY(tri_text_printf(
      out,
      "{\"ranks\": %d, \"nodes\": %d, \"fits\": %s, \"mem_planned_bytes\": %lld, "
      "\"device_bytes\": %lld, \"host_bytes_per_node\": %lld, \"host_beside_bytes\": %lld",
      p->se.rt.world_size, p->job.nodes, p->fits ? "true" : "false", (long long)p->sum.planned,
      (long long)p->sum.device, (long long)p->host_bytes_per_node, (long long)p->host_beside_bytes));
  TRI_TRY(put_known(out, "device_room_bytes", p->space_bytes, p->job.gpu));
  TRI_TRY(put_known(out, "host_room_bytes", p->host_space_bytes, p->host_space_bytes > 0));
  TRI_TRY(put_memory(p, out));
  TRI_TRY(put_batch(p, out));
  TRI_TRY(put_rollout(p, out));
  TRI_TRY(tri_text_printf(out, ", \"checkpoint_bytes\": %lld", (long long)p->checkpoint_bytes));
  TRI_TRY(put_known(out, "free_bytes", p->disk.free, p->disk.free >= 0));
  TRI_TRY(put_known(out, "quota_bytes", p->disk.quota, p->disk.quota >= 0));
  TRI_TRY(put_times(p, out));
  TRI_TRY(put_advice(advice, n, out));
  return tri_text_put(out, "}\n", 2);
}
