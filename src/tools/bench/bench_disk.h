/* bench_disk.h - a checkpoint of what learns, beside a plain file of as many bytes in the same folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_DISK_H
#define TRI_BENCH_DISK_H

#include "comm/session.h"
#include "series.h"
#include "state/params.h"

enum { TRI_DISK_WHY_BYTES = 256 };

/* Medians, of the slowest rank. */
typedef struct tri_disk_times {
  char    folder[TRI_DISK_WHY_BYTES]; /* where; of a long path its end */
  char    why[TRI_DISK_WHY_BYTES];    /* it cannot be written, and nothing else here counts; "": it can */
  int64_t bytes, all_bytes;           /* that were written, of those that a checkpoint has */
  double  write_s, plain_s;           /* with what it takes to be on the disk, both */
  int     n;
} tri_disk_times;

/* Collective over world. folder: where checkpoints are to be written, or the first above it that is there.
 * What is written lies in a folder of its own in there, which is removed, also where SIGINT, SIGTERM or
 * SIGHUP end this process meanwhile. At most 4 GiB are written at a time, whole tensors of a checkpoint. */
TRI_CHECKED tri_status tri_disk_time(tri_session *se, tri_params *trained, const char *folder,
                                     const tri_effort *e, tri_disk_times *out);

#endif
