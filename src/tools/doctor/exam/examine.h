/* examine.h - runs the whole examination: connects ranks, checks facts, measures MPI, prints one report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAMINE_H
#define TRI_EXAMINE_H

#include "base/error.h"

typedef struct tri_examine_opt {
  const char        *device;         /* "auto", "cpu", "cuda" */
  int                ranks_per_node; /* 0: real nodes */
  int                threads;        /* per rank. 0: share of cores */
  int                tensor;         /* ranks of a node that generate as one model. 0 counts as 1 */
  const char        *folder;         /* folder of future checkpoints */
  const char *const *input;          /* [n_input] files and folders read by the run */
  int                n_input;
  bool               json;
  double             patience_s; /* wait for a rank, and for the next stage of all ranks */
} tri_examine_opt;

enum { TRI_EXAMINE_CODE = 69 }; /* exit code on errors (interface.md) */

/* Collective over all ranks of the launch. Rank 0 prints to standard output. *code becomes TRI_EXAMINE_CODE
 * if there is an error. It does not return if ranks are missing or hang. Rank 0 then reports them and ends
 * all ranks with that code. */
TRI_CHECKED tri_status tri_examine(const tri_examine_opt *opt, int *code);

#endif
