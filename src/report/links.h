/* links.h - what the communicators carried and how fast, beside what a plan says of this machine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LINKS_H
#define TRI_LINKS_H

#include "comm/comm.h"
#include "comm/runtime.h"
#include "machine/machine.h"
#include "metrics.h"

/* Not collective. A step begins. */
void tri_links_begin(tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective, but every rank calls it: since then, into the metrics of the step, of each communicator of
 * several ranks that has carried anything in this run (node, cross, world):
 *   mem_moved_node_bytes    what a rank gave (tri_traffic)
 *   comm_node_bytes_per_s   in the fastest of its large collectives, of the rank that waited least; null
 *                           where the step had no large one; not there where they are not timed */
void tri_links_report(tri_comm *const comm[TRI_SCOPE_COUNT], tri_metrics *m);
/* Not collective. What trireme plan would take for this device: doctor's figures (*measured), else those of
 * such machines, which stand there too, with a warning, where doctor's cannot be read. */
TRI_CHECKED tri_status tri_links_machine(tri_device *d, int threads, tri_machine *out, bool *measured);

/* A rank's, of each scope. */
typedef struct tri_link_seen {
  double   bytes;
  tri_flow best;
} tri_link_seen;
/* Collective over world. Every rank's, in rank order: *out [ranks * TRI_SCOPE_COUNT] by tri_host_free. */
TRI_CHECKED tri_status tri_links_gather(tri_comm *const comm[TRI_SCOPE_COUNT], tri_link_seen **out);

/* One scope of a run. */
typedef struct tri_link_row {
  tri_scope scope;
  int       ranks, which;  /* of a communicator; the slowest one's node, or local rank (cross) */
  double    bytes;         /* that a rank gave in the whole run */
  double    rate, planned; /* per second, of one collective: the slowest communicator's fastest, NaN where
                              they are not timed; and of the same by tri_machine_ring */
  bool      large;         /* latency makes less than a tenth of the planned one's time */
} tri_link_row;
/* Pure. all [ranks, TRI_SCOPE_COUNT] in rank order. Rows for scopes of several ranks that carried anything:
 * node, cross, world. Returns how many. */
int tri_links_rows(const tri_link_seen *all, int ranks, int nodes, const tri_machine *m,
                   tri_link_row row[TRI_SCOPE_COUNT]);
/* Pure. Appends a table of the rows, its second line on indented by 15; measured: the plan's figures are
 * doctor's. How far a link is above the plan is not told: doctor's figures are of whole calls, waits and all,
 * those of a run of the transfer alone. */
TRI_CHECKED tri_status tri_links_words(const tri_link_row *row, int n, bool measured, tri_text *out);
/* Pure. The row that is furthest below a third of what was planned, of the large ones; NULL: none is. */
const tri_link_row *tri_links_slow(const tri_link_row *row, int n);
/* Pure. Appends a warning of it. */
TRI_CHECKED tri_status tri_links_warning(const tri_link_row *slow, bool measured, tri_text *out);

#endif
