/* output.h - functions on the output folder, shared by the files of this room. Private to its room. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_OUTPUT_H
#define TRI_OUTPUT_H

#include "run.h"

/* Returns whether a new start in run.output would set the path aside. */
bool tri_output_would_move(const tri_config *c, const char *path);

/* later.c. Returns whether the path lies in the folder, also through links. False if either does not
 * exist. */
bool tri_output_is_within(const char *path, const char *folder);

/* later.c. Not collective, on rank 0, for a run resuming from its own checkpoint of `step`. Removes its
 * answers of later steps from rollouts and eval. It spares a folder if the deck reads files there. TRI_EFILE
 * on failure. */
TRI_CHECKED tri_status tri_output_cut(const tri_run *r, int64_t step);

/* start.c. Not collective, on rank 0, for an existing folder, locked as far as the file system has locks.
 * Claims the folder for this start. An older start may still run, for example on a disconnected node. It can
 * then publish no checkpoint there. TRI_EFILE on failure. */
TRI_CHECKED tri_status tri_start_claim(tri_run *r);
enum { TRI_START_HOLDER_BYTES = 160 }; /* chosen: a job, a process and a host */
/* Not collective. Writes the start that claimed the folder, as " (process 7 on node3, Slurm job 12)", or ""
 * if it is unknown. */
void tri_start_holder(const tri_run *r, char out[TRI_START_HOLDER_BYTES]);
/* Releases the folder, unless another start has claimed it meanwhile. */
void tri_start_release(tri_run *r);
/* Not collective, on rank 0. Removes the previous start's OUTPUT/OUTAGE. A failure is a warning. */
void tri_start_forget_outage(const tri_run *r);

#endif
