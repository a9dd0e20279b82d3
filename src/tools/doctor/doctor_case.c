/* doctor_case.c - numbers the facts of a launch and lists them by node and by rank. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "checks.h"

void tri_case_free(tri_case *c) {
  TRI_FREE(c->first);
  TRI_FREE(c->next);
  TRI_FREE(c->task);
}

tri_status tri_case_number(tri_case *c, tri_facts *facts, int ranks_per_node) {
  bool even;
  int  nodes;

  tri_case_free(c);
  c->nodes = 0;
  TRI_TRY(TRI_ALLOC(c->next, c->tasks));
  TRI_TRY(TRI_ALLOC(c->task, c->tasks));
  TRI_TRY(tri_facts_number(facts, c->tasks, ranks_per_node, &even, &nodes));
  TRI_TRY(TRI_ALLOC(c->first, nodes + 1));
  for (int n = 0; n < nodes; n++) c->first[n] = -1;
  for (int t = 0; t < c->tasks; t++) c->task[t] = -1;
  for (int t = c->tasks - 1; t >= 0; t--) {
    const tri_facts_seat *s = &facts[t].seat;
    if (!s->host[0]) continue;
    c->next[t] = c->first[s->node];
    c->first[s->node] = c->task[s->rank] = t;
  }
  c->facts = facts;
  c->even = even;
  c->nodes = nodes;
  return TRI_OK;
}

int tri_check_first_of(const tri_case *c, int node) {
  return node >= 0 && node < c->nodes ? c->first[node] : -1;
}

int tri_check_next_of(const tri_case *c, int task) { return c->next[task]; }

int tri_check_task_of(const tri_case *c, int rank) { return c->task ? c->task[rank] : -1; }
