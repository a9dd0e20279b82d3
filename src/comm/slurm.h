/* slurm.h - what Slurm knows of the job this process is part of. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SLURM_H
#define TRI_SLURM_H

/* How much of the allocation is over and how much is left, in seconds; left_s 0: nothing is known of an
 * end. */
typedef struct tri_slurm_time {
  double used_s, left_s;
} tri_slurm_time;

/* Not collective: one rank asks, once. Zeros outside a job of Slurm, and where it has no end. From
 * SLURM_JOB_START_TIME and SLURM_JOB_END_TIME where they are set and the end is to come (a shell keeps those
 * of a job that is over), else from squeue, which is waited for at most patience_s; where that does not
 * answer the reason is a warning. Without the job's start used_s is 0. */
tri_slurm_time tri_slurm_ask(double patience_s);

enum { TRI_SLURM_WORD_BYTES = 16 };
/* Not collective: one rank asks. How the ranks of a step that srun started by PMIx wait for those of other
 * nodes as MPI starts: "ring", "tree", "mixed" (slurm.conf's mpi.conf, PMIxCollFence; SLURM_PMIX_FENCE goes
 * before it), "unset"; "": there is no such step, or Slurm, which is waited for at most patience_s, does not
 * tell. */
void tri_slurm_fence(double patience_s, char out[TRI_SLURM_WORD_BYTES]);

/* Pure. Seconds of a duration as Slurm writes it, or as sbatch reads it: "90" minutes, "5:30" minutes and
 * seconds, "4:00:00", "1-12", "1-12:30", "3-02:01:00"; 0 of "infinite" and "UNLIMITED"; -1: it is none. */
double tri_slurm_seconds(const char *text);

#endif
