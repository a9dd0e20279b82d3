/* examine_impl.h - declares the common parts of the examine*.c files. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAMINE_IMPL_H
#define TRI_EXAMINE_IMPL_H

#include "comm/slurm.h"
#include "tools/doctor/checks.h"
#include "examine.h"
#include "exam_folder.h"
#include "tools/doctor/rendezvous/rendezvous.h"
#include "speed.h"

#include <pthread.h>

typedef struct tri_exam {
  const tri_examine_opt *opt;
  tri_launch             launch;
  tri_rendezvous        *rendezvous;
  tri_facts             *facts; /* [tasks] on rank 0, else only its own */
  tri_facts_clock       *clock; /* [tasks] on rank 0 */
  tri_reach             *reach; /* [c.n_reach] on rank 0 */
  tri_case               c;     /* on rank 0 */
  tri_findings           found; /* on rank 0 */
  tri_rate              *rate;  /* [n_rate] on rank 0 */
  int64_t                n_rate, rate_cap;
  char                   fence[TRI_SLURM_WORD_BYTES]; /* on rank 0 */
  pthread_mutex_t        lock;                        /* guards found and rate. The monitor's report reads
                                                       * them */
  tri_session            se;
} tri_exam;

/* examine_mpi.c. Collective over all ranks. Runs all measurements with MPI. If this rank fails, it tells rank
 * 0, and rank 0 ends all ranks. On return rank 0 has findings and rates. */
TRI_CHECKED tri_status tri_exam_measure(tri_exam *x);
/* examine_mpi.c. Collective over all ranks. Closes the session after all ranks have arrived. Rank 0 has
 * printed by then, because a launcher ends all ranks as soon as one exits with an error. */
TRI_CHECKED tri_status tri_exam_leave(tri_exam *x);
/* examine_check.c, on rank 0. Not collective, both. Prints the report so far. unmeasured may be NULL. */
TRI_CHECKED tri_status tri_exam_print(tri_exam *x, const char *unmeasured);
/* Numbers the facts of all ranks and checks them. Not collective. */
TRI_CHECKED tri_status tri_exam_check(tri_exam *x);
/* examine_mpi.c, on rank 0. Not collective. The monitor calls it. ctx: tri_exam. Does not return. */
void tri_exam_on_hang(void *ctx, const tri_rendezvous_hang *hang);

#endif
