/* bench_trial.h - a folder for a trial, gone afterwards even where a signal ends the process. Private to its
 * workspace. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_TRIAL_H
#define TRI_BENCH_TRIAL_H

#include "io/checkpoint/checkpoint.h"

/* Collective over world. Makes a new folder in `parent`, the same text on every rank: *path of it,
 * where a checkpoint and files may be made. TRI_EFILE: it cannot be made. From here to the
 * end SIGINT, SIGTERM and SIGHUP, where they would end this process, remove it before they do. */
TRI_CHECKED tri_status tri_trial_begin(tri_comm *world, const char *parent, char path[TRI_CKPT_PATH_BYTES]);
/* Collective over world. Removes it. st: how the trial went, handed back; where it went well, a folder that
 * stays is TRI_EFILE. */
TRI_CHECKED tri_status tri_trial_end(tri_comm *world, tri_status st);
/* Not collective, rank 0: what is in it is removed, and it is as it was made. */
TRI_CHECKED tri_status tri_trial_clear(void);

#endif
