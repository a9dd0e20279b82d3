/* links.h - reports traffic and speed of the communicators, beside the planned speeds of this machine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LINKS_H
#define TRI_LINKS_H

#include "comm/comm.h"
#include "comm/runtime.h"
#include "machine/machine.h"
#include "metrics.h"

/* Not collective. Starts a step. */
void tri_links_begin(tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective, but every rank calls it. Adds to the step's metrics, since tri_links_begin, for each
 * communicator of several ranks that has carried anything in this run (node, cross, tensor, mates, world):
 *   mem_moved_node_bytes    bytes sent by a rank (tri_traffic)
 *   comm_node_bytes_per_s   rate of its fastest large collective, on the rank that waited least. null if the
 *                           step had no large one. Missing if collectives are not timed */
void tri_links_report(tri_comm *const comm[TRI_SCOPE_COUNT], tri_metrics *m);
/* Not collective. Returns the machine that trireme plan would assume for this device. *measured is true if
 * these are doctor's figures. Otherwise they are the table's figures for such machines, with a warning if
 * doctor's file cannot be read. */
TRI_CHECKED tri_status tri_links_machine(tri_device *d, int threads, tri_machine *out, bool *measured);

/* Traffic of one rank in one scope. */
typedef struct tri_link_seen {
  double   bytes;
  tri_flow best;
} tri_link_seen;
/* Collective over world. Gathers the traffic of every rank, in rank order, into *out [ranks *
 * TRI_SCOPE_COUNT]. Free it with tri_host_free. */
TRI_CHECKED tri_status tri_links_gather(tri_comm *const comm[TRI_SCOPE_COUNT], tri_link_seen **out);

/* One scope of a run. */
typedef struct tri_link_row {
  tri_scope scope;
  int       ranks, which; /* ranks of a communicator. which: node or local rank (cross) of the slowest one */
  double    bytes;        /* sent by a rank in the whole run */
  /* Bytes per second of one collective. rate is the fastest of the slowest communicator, or NaN if not timed.
   * planned is by tri_machine_ring. */
  double rate, planned;
  bool   large; /* latency is less than a tenth of the planned time */
} tri_link_row;
/* Pure. Makes rows from all [ranks, TRI_SCOPE_COUNT] in rank order, for the scopes with several ranks and any
 * traffic, the world last. tensor is that of tri_place. Returns their number. */
int tri_links_rows(const tri_link_seen *all, int ranks, int nodes, int tensor, const tri_machine *m,
                   tri_link_row row[TRI_SCOPE_COUNT]);
/* Pure. Appends a table of the rows, indented by 15 from its second line on. `measured` says that the planned
 * figures are doctor's. Speeds above the plan are not reported, because doctor's figures include waits and a
 * run's do not. */
TRI_CHECKED tri_status tri_links_words(const tri_link_row *row, int n, bool measured, tri_text *out);
/* Pure. Returns the large row furthest below a third of its planned rate, or NULL for none. */
const tri_link_row *tri_links_slow(const tri_link_row *row, int n);
/* Pure. Appends a warning about that row. */
TRI_CHECKED tri_status tri_links_warning(const tri_link_row *slow, bool measured, tri_text *out);

#endif
