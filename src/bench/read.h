/* read.h - how fast the ranks of a machine read memory, all at once: the limit of decoding. */
#ifndef TRI_BENCH_READ_H
#define TRI_BENCH_READ_H

#include "comm/session.h"
#include "series.h"

/* Pure. Bytes that a rank reads: more than caches hold. */
size_t tri_read_room(const tri_session *se);
/* Collective over world. Bytes per second of each rank, by the slowest; room: so many of the device. */
TRI_CHECKED tri_status tri_read_time(tri_session *se, void *room, const tri_effort *e, double *bytes_per_s);

#endif
