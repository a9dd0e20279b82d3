/* recorded.h - the same work for few numbers of rows, recorded by the device at its second time and run
 * again. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RECORDED_H
#define TRI_RECORDED_H

#include "device/device.h"

typedef struct tri_recorded tri_recorded;
/* Ways in which work on as many rows may be done, each with a recording of its own. */
enum { TRI_RECORDED_WAYS = 2 };
/* Not collective, nor are the others. For up to max_rows rows; the device is borrowed, and may be none that
 * records. */
TRI_CHECKED tri_status tri_recorded_open(tri_device *d, int64_t max_rows, tri_recorded **out);
void                   tri_recorded_close(tri_recorded **r);
/* Pure. Of the work that serves n rows: the rows that it has, on a device that records a few more, so that
 * few recordings serve all numbers. */
int64_t tri_recorded_rows(const tri_recorded *r, int64_t n);
/* Work as tri_device_ops.graph_record wants it, at the same addresses each time. */
typedef tri_status tri_recorded_work(void *ctx, tri_stream *s);
/* Not collective. The work on so many rows, in its way, goes to the stream: recorded, or by work(ctx, s)
 * itself, the first time always. A device that refuses to record is no reason to end: it is warned of. */
TRI_CHECKED tri_status tri_recorded_run(tri_recorded *r, int way, int64_t rows, tri_recorded_work *work,
                                        void *ctx, tri_stream *s);
/* Not collective. Gives all recordings up; their runs were waited for. */
void tri_recorded_forget(tri_recorded *r);

#endif
