/* slurm.h - facts from Slurm about the job of this process. Not collective, all that follow, unless they say
 * Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SLURM_H
#define TRI_SLURM_H

/* The used and the remaining time of the allocation in seconds. left_s 0: no end is known. */
typedef struct tri_slurm_time {
  double used_s, left_s;
} tri_slurm_time;

/* One rank calls it once. Returns zeros outside a Slurm job, and for a job without an end. The times come
 * from SLURM_JOB_START_TIME and SLURM_JOB_END_TIME if they are set and the end lies ahead. A shell keeps the
 * variables of a finished job. Otherwise squeue tells, and the call waits for it at most patience_s. If
 * squeue does not answer, a warning gives the reason. used_s is 0 if the job's start is unknown. */
tri_slurm_time tri_slurm_ask(double patience_s);

enum { TRI_SLURM_WORD_BYTES = 16 };
/* One rank calls it. Tells how ranks of different nodes wait for each other during MPI's start in a step of
 * srun with PMIx: "ring", "tree" or "mixed". The value comes from PMIxCollFence of mpi.conf, unless
 * SLURM_PMIX_FENCE overrides it. "unset": neither is set. "": there is no such step, or Slurm does not tell
 * within patience_s. */
void tri_slurm_fence(double patience_s, char out[TRI_SLURM_WORD_BYTES]);

/* Pure. Seconds of a duration in the formats of Slurm and sbatch: "90" minutes, "5:30" minutes and seconds,
 * "4:00:00", "1-12", "1-12:30", "3-02:01:00". Returns 0 for "infinite" and "UNLIMITED", and -1 for any other
 * text. */
double tri_slurm_seconds(const char *text);

#endif
