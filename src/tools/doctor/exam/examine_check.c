/* examine_check.c - checks the facts of all ranks and prints the report, on rank 0. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/print.h"
#include "tools/doctor/doctor_report.h"
#include "examine_impl.h"

#include <stdio.h>

tri_status tri_exam_print(tri_exam *x, const char *unmeasured) {
  tri_report r = {&x->c, &x->found, x->rate, (int)x->n_rate, unmeasured};
  tri_text   text = {0};
  tri_status st = x->opt->json ? tri_report_json(&r, &text) : tri_report_screen(&r, &text);

  if (st == TRI_OK) st = tri_print(text.data, text.len);
  tri_text_free(&text);
  fflush(stdout);
  return st;
}

static const double SLURM_S = 5; /* chosen. Doctor does not wait for a busier controller */

/* Asks Slurm for the PMIx fence, unless a rank is missing. Then MPI is not started, and lost ranks wait for
 * this report. */
static void ask_fence(tri_exam *x) {
  bool all = x->c.nodes > 1;

  for (int t = 0; t < x->c.tasks; t++) all = all && x->facts[t].seat.host[0];
  x->fence[0] = '\0';
  if (all) tri_slurm_fence(x->opt->patience_s < SLURM_S ? x->opt->patience_s : SLURM_S, x->fence);
  x->c.fence = x->fence;
}

tri_status tri_exam_check(tri_exam *x) {
  tri_case *c = &x->c;

  tri_case_free(c);
  *c = (tri_case){.launch = &x->launch,
                  .tasks = x->launch.tasks,
                  .device = x->opt->device,
                  .gpu_build = tri_device_at(1) != NULL,
                  .waited_s = x->opt->patience_s,
                  .clock = x->clock};
  TRI_TRY(tri_case_number(c, x->facts, x->opt->ranks_per_node));
  if (x->rendezvous && tri_rendezvous_can(x->rendezvous)) {
    tri_rendezvous_clocks(x->rendezvous, c, x->clock);
    TRI_TRY(tri_rendezvous_reach(x->rendezvous, c, &x->reach, &c->n_reach));
    c->reach = x->reach;
  }
  ask_fence(x);
  return tri_check_all(c, &x->found);
}
