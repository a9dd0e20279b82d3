/* check.h - all that is wrong with a deck and what it names, at once: trireme train --check. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECK_H
#define TRI_CHECK_H

#include "base/error.h"
#include "check_learned.h"

/* Not collective: no MPI is started, and nothing is written. Reads the deck at `path` with `args` over it,
 * its model, data and rewards, and plans batches and memory as for `asked` ranks (0: as many as a run started
 * so would have) on the CPU. With `asked` what this machine lacks of cores and memory is a note: the job's
 * machines may have it. Logs a summary; or a line for each error, as the run would say it, and then an error
 * with their exit code, 64 where they differ. show: lines to print, be there errors or not. */
TRI_CHECKED tri_status tri_check(const char *path, char *const *args, int n_args, int64_t asked,
                                 const tri_show_learned *show);
/* Not collective. The same of a deck that is not written yet: of n_bytes, which `name` stands for in
 * messages, on so many ranks in all and per_node of them on each machine, of which this is none. */
TRI_CHECKED tri_status tri_check_text(const char *name, const char *bytes, size_t n_bytes, int all,
                                      int per_node);

#endif
