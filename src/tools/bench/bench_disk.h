/* bench_disk.h - times a checkpoint of the trained weights and a plain file of the same size in the same
 * folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_DISK_H
#define TRI_BENCH_DISK_H

#include "comm/session.h"
#include "tools/timer/series.h"
#include "state/params.h"

enum { TRI_DISK_WHY_BYTES = 256 };

/* Medians, of the slowest rank. */
typedef struct tri_disk_times {
  char    folder[TRI_DISK_WHY_BYTES]; /* only the end of a long path */
  char    why[TRI_DISK_WHY_BYTES];    /* why it cannot be written, and then nothing else here counts. "": it
                                       * can */
  int64_t bytes, all_bytes;           /* bytes written, and bytes of a whole checkpoint */
  double  write_s, plain_s;           /* both until the bytes are on the disk */
  int     n;
} tri_disk_times;

/* Collective over world. folder: the future folder of checkpoints, or its nearest existing parent. Files are
 * written in a new folder there. It is removed at the end, even if SIGINT, SIGTERM or SIGHUP end this
 * process. Writes at most 4 GiB at a time, whole tensors of a checkpoint. */
TRI_CHECKED tri_status tri_disk_time(tri_session *se, tri_params *trained, const char *folder,
                                     const tri_effort *e, tri_disk_times *out);

#endif
