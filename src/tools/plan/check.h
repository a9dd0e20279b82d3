/* check.h - finds all errors in a deck and its files at once (trireme train --check). Not collective, all
 * that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECK_H
#define TRI_CHECK_H

#include "base/error.h"
#include "check_learned.h"

/* Starts no MPI and writes nothing. Reads the deck at `path` with `args` over it, its model, data and
 * rewards. Plans batches and memory on the CPU for `asked` ranks (0: the ranks a run started in the same way
 * would have). With `asked` a shortage of cores or memory on this machine is only a warning, because the
 * job's machines may have more. Logs a summary if all is well. Otherwise logs a line for each error in the
 * words of the run, then fails with their exit code, or with 64 if they differ. show: lines to print, with or
 * without errors. */
TRI_CHECKED tri_status tri_check(const char *path, char *const *args, int n_args, int64_t asked,
                                 const tri_show_learned *show);
/* Checks the text of a deck that is not written yet. `name` stands for the file in messages. The run has
 * `all` ranks, per_node of them on each machine, and this machine is none of those. */
TRI_CHECKED tri_status tri_check_text(const char *name, const char *bytes, size_t n_bytes, int all,
                                      int per_node);

#endif
