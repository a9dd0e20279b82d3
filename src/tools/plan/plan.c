/* plan.c - plans a deck in a pretended session: opens its files, adds up memory and checks whether it
 * fits. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"
#include "base/host_memory.h"
#include "train/save.h"

#include <stdio.h>
#include <string.h>

int64_t tri_plan_bytes(const tri_plan *p, tri_mem kind, tri_phase phase) {
  int64_t bytes = 0;

  for (int i = 0; i < p->n_row; i++)
    if (p->row[i].kind == kind && p->row[i].phase == phase) bytes += p->row[i].bytes;
  return bytes;
}

static tri_status open_session(tri_plan *p) {
  const tri_plan_job *j = &p->job;
  tri_session_opt     opt = {.device = j->gpu ? "cuda" : tri_device_host(),
                             .ranks_per_node = (int)p->cfg.run.ranks_per_node,
                             .threads = (int)p->cfg.run.threads,
                             .tensor = (int)p->cfg.shard.tensor_parallel_size};

  return tri_session_pretend_gpu(&opt, j->nodes * j->per_node, j->per_node,
                                 j->gpu ? (size_t)j->machine.device_bytes : 0, &p->se);
}

/* Decides whether the plan fits. A GPU's memory is known. The memory of a node is known only if the run is on
 * this machine or on CPUs. */
static tri_status judge(tri_plan *p) {
  const tri_plan_job   *j = &p->job;
  const tri_device_ops *host = tri_device_find(tri_device_host());
  size_t                bytes_free = 0, bytes_total = 0;
  int64_t               mine;

  p->sum = tri_ledger_total(p->se.ledger);
  mine = j->gpu ? p->sum.planned - p->sum.device : p->sum.planned;
  p->host_bytes_per_node = mine * j->per_node;
  p->host_beside_bytes = (int64_t)tri_session_host_beside_bytes(&p->se) * j->per_node;
  if (j->here || !j->gpu) {
    TRI_TRY(host->mem_info(NULL, &bytes_free, &bytes_total));
    p->host_space_bytes = (int64_t)(j->here ? bytes_free : bytes_total);
  }
  if (j->gpu) {
    TRI_TRY(p->se.device->ops->mem_info(p->se.device, &bytes_free, &bytes_total));
    p->space_bytes = (int64_t)bytes_free - (int64_t)tri_session_beside_bytes(&p->se);
  }
  p->fits = (!j->gpu || p->sum.device <= p->space_bytes) &&
            (!p->host_space_bytes || p->host_bytes_per_node + p->host_beside_bytes <= p->host_space_bytes);
  return TRI_OK;
}

static void describe(tri_plan *p) {
  static const char *const over[] = {"whole on each rank", "over the ranks of a node", "over all ranks"};
  tri_shard_plan           s = p->cfg.shard.scope;
  char                     generation[48] = "";

  if (tri_ranks_of_model(&p->t) > 1)
    snprintf(generation, sizeof generation, "; generation: %d ranks a model", tri_ranks_of_model(&p->t));
  if (s.params == s.optim)
    snprintf(p->spread, sizeof p->spread, "weights, gradients, optimizer %s%s", over[s.params], generation);
  else
    snprintf(p->spread, sizeof p->spread, "weights %s, optimizer %s%s", over[s.params], over[s.optim],
             generation);
}

static tri_status make(tri_plan *p, const tri_plan *like, tri_errors *errors) {
  TRI_TRY(tri_error_note(open_session(p), errors));
  if (errors->n) return TRI_OK;
  TRI_TRY(tri_trainer_plan_on_paper(&p->cfg, &p->se, errors, like ? &like->t : NULL, &p->t));
  if (errors->n || !p->t.learner[TRI_POLICY].model) return tri_errors_miss(errors, "memory");
  TRI_TRY(tri_session_plan_stage(&p->se));
  TRI_TRY(tri_ledger_rows(p->se.ledger, &p->row, &p->n_row));
  TRI_TRY(judge(p));
  describe(p);
  TRI_TRY(tri_save_bytes(&p->t, &p->checkpoint_bytes));
  tri_plan_look_at_disk(p->cfg.run.output, &p->disk);
  return TRI_OK;
}

tri_status tri_plan_open(const char *path, char *const *args, int n_args, const tri_plan_job *job,
                         const tri_plan *like, tri_text *notes, tri_errors *errors, tri_plan *out) {
  tri_plan  *p = out;
  tri_status st;

  *p = (tri_plan){.job = *job};
  st = tri_error_note(tri_config_load_all(path, args, n_args, &p->cfg, notes, errors), errors);
  if (st == TRI_OK && errors->n) return tri_errors_miss(errors, "model, data, batches, memory");
  tri_config_choose(&p->cfg);
  if (st == TRI_OK) st = make(p, like, errors);
  return st;
}

void tri_plan_close(tri_plan *p) {
  TRI_FREE(p->row);
  tri_trainer_close(&p->t);
  tri_session_leave(&p->se, TRI_OK);
  tri_config_free(&p->cfg);
}
