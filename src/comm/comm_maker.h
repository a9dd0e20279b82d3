/* comm_maker.h - for those who make communicators: what a back end brings, and a collective in words. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMM_MAKER_H
#define TRI_COMM_MAKER_H

#include "comm.h"
#include "device/trace.h"

/* A communicator of another library, as a back end brings it (device.h, tri_backend). */
typedef struct tri_comm_maker {
  /* Not collective. The back end's own struct with ops set and the rest of its first member zero. */
  tri_status (*open)(tri_device *d, tri_comm **out);
} tri_comm_maker;

/* comm_coll.c. Not collective. The kinds that are expected of a scope's ranks, as bits of tri_coll_kind:
 * where these are all ranks they are the world's, and the scope's are none. */
unsigned    tri_comm_kinds(tri_comm *const comm[TRI_SCOPE_COUNT], tri_scope s);
const char *tri_scope_text(tri_scope s);
const char *tri_coll_text(tri_coll_kind k);
/* Not collective. What a trace says of k, which begins: what its caller said it carries, else its kind; and
 * its bytes. t NULL: nothing. */
tri_trace_note tri_coll_note(tri_trace *t, const tri_comm *c, const tri_coll *k);
tri_lane       tri_coll_lane(tri_coll_kind k);
/* Not collective. k's data moved in so many seconds. */
void tri_coll_timed(tri_comm *c, const tri_coll *k, double s);

#endif
