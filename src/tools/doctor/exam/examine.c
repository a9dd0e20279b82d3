/* examine.c - connects the ranks, checks their facts, measures MPI and prints one report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "examine.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "examine_impl.h"
#include "tools/doctor/gather/gather.h"

#include <stdio.h>
#include <string.h>

enum { END_S = 10 }; /* chosen, for ending all ranks */

/* Collects and checks the facts on rank 0, before MPI is up. *go: MPI may start. *all: every rank came. */
static tri_status receive(tri_exam *x, bool *go, bool *all) {
  *all = true;
  tri_rendezvous_gather(x->rendezvous, x->facts);
  TRI_TRY(tri_rendezvous_check(x->rendezvous, &x->found));
  *go = !x->found.blocks;
  if (*go && x->launch.tasks > 1 && !tri_rendezvous_can(x->rendezvous))
    return TRI_OK; /* MPI gathers the facts */
  for (int t = 0; t < x->launch.tasks; t++) *all = *all && x->facts[t].seat.host[0];
  TRI_TRY(tri_exam_check(x));
  *go = *all && !x->found.blocks;
  return TRI_OK;
}

/* Prints the report on rank 0 and ends all ranks, because MPI would not start. */
static tri_status refuse(tri_exam *x, bool all, int *code) {
  TRI_TRY(tri_exam_print(x, "an error above would end MPI, or make it hang"));
  *code = TRI_EXAMINE_CODE;
  tri_rendezvous_decide(x->rendezvous, false);
  if (all) return TRI_OK;
  tri_runtime_abort_within(END_S, TRI_EXAMINE_CODE);
  tri_runtime_abort(TRI_EXAMINE_CODE); /* nobody knows when the missing ranks would end */
}

static tri_status lead(tri_exam *x, int *code) {
  bool go = true, all = true, met = tri_rendezvous_can(x->rendezvous);

  if (met || x->launch.tasks == 1) TRI_TRY(receive(x, &go, &all));
  if (!go) return refuse(x, all, code);
  if (met) tri_rendezvous_decide(x->rendezvous, true);
  tri_rendezvous_stage(x->rendezvous, "MPI_Init");
  tri_rendezvous_monitor(x->rendezvous, tri_exam_on_hang, x);
  TRI_TRY(tri_exam_measure(x));
  tri_rendezvous_monitor(x->rendezvous, NULL, NULL);
  TRI_TRY(tri_exam_print(x, NULL));
  if (x->found.errors) *code = TRI_EXAMINE_CODE;
  return tri_exam_leave(x);
}

/* Ends a rank without a connection to rank 0. It logs the error, then waits, so rank 0 can report more. If
 * rank 0 is dead, this is the only report, and nobody else ends the launch. */
_Noreturn static void end_without(tri_exam *x) {
  if (x->launch.local == 0)
    tri_log(TRI_LOG_ERROR,
            "%s. If rank 0 reports nothing, it did not start, or a firewall or an interface blocks the "
            "connection. Check why it does not start, or leave the node out with --exclude",
            tri_error_message());
  tri_rendezvous_wait_for_hub(x->rendezvous);
  tri_runtime_abort_within(END_S, TRI_EXAMINE_CODE);
  tri_runtime_abort(TRI_EXAMINE_CODE);
}

static tri_status follow(tri_exam *x, int *code) {
  bool go = true;

  if (tri_rendezvous_can(x->rendezvous) && tri_rendezvous_serve(x->rendezvous, &go) != TRI_OK) end_without(x);
  if (!go) {
    *code = TRI_EXAMINE_CODE;
    return TRI_OK;
  }
  TRI_TRY(tri_exam_measure(x));
  if (x->found.errors > 0) *code = TRI_EXAMINE_CODE;
  return tri_exam_leave(x);
}

static void close_exam(tri_exam *x) {
  tri_rendezvous_close(&x->rendezvous);
  tri_findings_free(&x->found);
  tri_case_free(&x->c);
  TRI_FREE(x->rate);
  TRI_FREE(x->reach);
  TRI_FREE(x->clock);
  TRI_FREE(x->facts);
  tri_launch_free(&x->launch);
  pthread_mutex_destroy(&x->lock);
}

tri_status tri_examine(const tri_examine_opt *opt, int *code) {
  int        tasks, locals, task = tri_runtime_env_rank();
  char       folder[4096];
  tri_exam  *x = NULL;
  tri_status st = TRI_OK;

  tri_runtime_env_ranks(&tasks, &locals);
  TRI_TRY(TRI_ALLOC(x, 1));
  x->opt = opt;
  pthread_mutex_init(&x->lock, NULL);
  TRI_TRY_DONE(tri_launch_read(task, tasks, locals, &x->launch));
  TRI_TRY_DONE(TRI_ALLOC(x->facts, task ? 1 : tasks));
  TRI_TRY_DONE(TRI_ALLOC(x->clock, task ? 1 : tasks));
  tri_gather_facts(&x->launch, &x->facts[0]);
  tri_folder_there(opt->folder, folder, sizeof folder);
  TRI_TRY_DONE(tri_rendezvous_open(&x->launch, folder, &x->facts[0], opt->patience_s, &x->rendezvous));
  TRI_TRY_DONE(task ? follow(x, code) : lead(x, code));
done:
  close_exam(x);
  TRI_FREE(x);
  return st;
}
