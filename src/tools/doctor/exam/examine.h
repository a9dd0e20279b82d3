/* examine.h - all of it in order: ranks meet, facts are checked, what MPI carries is measured, one report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAMINE_H
#define TRI_EXAMINE_H

#include "base/error.h"

typedef struct tri_examine_opt {
  const char        *device;         /* "auto", "cpu", "cuda" */
  int                ranks_per_node; /* 0: real nodes */
  int                threads;        /* of a rank; 0: share of cores */
  const char        *folder;         /* where checkpoints are to be written */
  const char *const *input;          /* [n_input] files and folders that the run reads */
  int                n_input;
  bool               json;
  double             patience_s; /* that a rank, or the next stage of all, is waited for */
} tri_examine_opt;

enum { TRI_EXAMINE_CODE = 69 }; /* where there is an error (interface.md) */

/* Of every rank of a launch. Rank 0 prints to standard output. *code: TRI_EXAMINE_CODE where there is an
 * error. Where ranks are missing or hang it does not return: rank 0 reports and ends all of them with that
 * code. */
TRI_CHECKED tri_status tri_examine(const tri_examine_opt *opt, int *code);

#endif
