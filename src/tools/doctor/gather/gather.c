/* gather.c - collects the facts of this rank: its seat, its variables, and the facts from the other files
 * here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tri_gather_facts(const tri_launch *l, tri_facts *out) {
  *out = (tri_facts){.seat = {.task = l->task,
                              .tasks = l->tasks,
                              .local = l->local,
                              .locals = l->locals,
                              .slurm_task = l->slurm_task < 0 ? TRI_FACTS_UNKNOWN : l->slurm_task}};
  if (gethostname(out->seat.host, sizeof out->seat.host - 1) || !out->seat.host[0])
    strcpy(out->seat.host, "localhost");
  for (int i = 0; i < TRI_CHOICE_COUNT; i++) {
    const char *text = getenv(tri_facts_choice_name(i));
    snprintf(out->choice[i], sizeof out->choice[i], "%s", text ? text : "");
  }
  tri_gather_host(out);
  tri_gather_nets(out);
  tri_gather_gpu(l->local, out);
  tri_gather_versions(out);
  if (!tri_facts_check(out, sizeof *out, l->tasks))
    out->seat.locals = out->seat.local + 1; /* the launcher gives no valid number */
}
