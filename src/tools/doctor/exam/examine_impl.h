/* examine_impl.h - what the examine*.c files share. Private to its room. */
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
  tri_facts             *facts; /* [tasks] of rank 0, else its own alone */
  tri_facts_clock       *clock; /* [tasks] of rank 0 */
  tri_reach             *reach; /* [c.n_reach] of rank 0 */
  tri_case               c;     /* of rank 0 */
  tri_findings           found; /* of rank 0 */
  tri_rate              *rate;  /* [n_rate] of rank 0 */
  int64_t                n_rate, rate_cap;
  char                   fence[TRI_SLURM_WORD_BYTES]; /* of rank 0 */
  pthread_mutex_t        lock;                        /* of found and rate, which the monitor reports from */
  tri_session            se;
} tri_exam;

/* examine_mpi.c, both. Collective over all ranks: what MPI carries. Where this rank fails it says so to
 * rank 0, which ends all. On return rank 0 has findings and rates. */
TRI_CHECKED tri_status tri_exam_measure(tri_exam *x);
/* Collective over all ranks. Closes the session when all have come: rank 0 has printed by then, for a
 * launcher ends all ranks as soon as one has ended with an error. */
TRI_CHECKED tri_status tri_exam_leave(tri_exam *x);
/* Not collective, both: examine_check.c, of rank 0. The report as it is. unmeasured may be NULL. */
TRI_CHECKED tri_status tri_exam_print(tri_exam *x, const char *unmeasured);
/* Once the facts of all are there: numbers them and looks for what is wrong. Not collective. */
TRI_CHECKED tri_status tri_exam_check(tri_exam *x);
/* Not collective: examine_mpi.c, of rank 0, what the monitor calls; ctx: tri_exam. Does not return. */
void tri_exam_on_hang(void *ctx, const tri_rendezvous_hang *hang);

#endif
