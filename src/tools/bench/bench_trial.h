/* bench_trial.h - a folder for a trial, gone afterwards even where a signal ends the process. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_TRIAL_H
#define TRI_BENCH_TRIAL_H

#include "io/checkpoint/checkpoint.h"

/* Collective over world. Makes a new folder in `parent`, the same text on every rank, for a checkpoint and
 * files. *path: its path. TRI_EFILE: it cannot be made. Until the end, SIGINT, SIGTERM and SIGHUP remove it
 * first, if they would end this process. */
TRI_CHECKED tri_status tri_trial_begin(tri_comm *world, const char *parent, char path[TRI_CKPT_PATH_BYTES]);
/* Collective over world. Removes the folder. st: status of the trial, which is returned. After a successful
 * trial, TRI_EFILE: the folder cannot be removed. */
TRI_CHECKED tri_status tri_trial_end(tri_comm *world, tri_status st);
/* Not collective, on rank 0. Removes the contents of the folder. */
TRI_CHECKED tri_status tri_trial_clear(void);

#endif
