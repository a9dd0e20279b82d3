/* recorded.h - recorded work for a few numbers of rows. The device records the work at its second run and
 * replays it afterwards. Private to its room. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RECORDED_H
#define TRI_RECORDED_H

#include "comm/comm.h"

typedef struct tri_recorded tri_recorded;
/* The ways to do work on the same number of rows. Each way has a recording of its own. */
enum { TRI_RECORDED_WAYS = 2 };
/* Opens recordings for up to max_rows rows. The device is borrowed, and it need not be able to record. comm
 * is borrowed, or NULL. The work may start collectives on it, in the stream (tri_collective). With comm,
 * every call that runs work is collective over it. */
TRI_CHECKED tri_status tri_recorded_open(tri_device *d, tri_comm *comm, int64_t max_rows, tri_recorded **out);
void                   tri_recorded_close(tri_recorded **r);
/* Pure. Returns the rows of the work that serves n rows. On a device that records, it may be a few more, so
 * that few recordings serve all numbers. */
int64_t tri_recorded_rows(const tri_recorded *r, int64_t n);
/* Work in the form of tri_device_ops.graph_record, at the same addresses each time. */
typedef tri_status tri_recorded_work(void *ctx, tri_stream *s);
/* Launches the work on this many rows, in its way, by a recording or by work(ctx, s). The first run always
 * calls work. If the device refuses to record, it warns and goes on without. */
TRI_CHECKED tri_status tri_recorded_run(tri_recorded *r, int way, int64_t rows, tri_recorded_work *work,
                                        void *ctx, tri_stream *s);
/* Drops all recordings. Their runs must have been waited for. */
void tri_recorded_forget(tri_recorded *r);

#endif
