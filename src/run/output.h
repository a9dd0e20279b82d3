/* output.h - what the output folder tells the other files of this room. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_OUTPUT_H
#define TRI_OUTPUT_H

#include "run.h"

/* Not collective. Does the path lie in what a run that starts anew in run.output sets aside? */
bool tri_output_would_move(const tri_config *c, const char *path);

/* later.c. Not collective. Does the path lie in the folder, by whatever links? false where either is not
 * there. */
bool tri_output_is_within(const char *path, const char *folder);

/* later.c. Not collective; rank 0, of a run that goes on from its own checkpoint of `step`. Removes the
 * answers that it kept of later steps, in rollouts and eval, but where the deck reads files there.
 * TRI_EFILE. */
TRI_CHECKED tri_status tri_output_cut(const tri_run *r, int64_t step);

/* start.c. Not collective; rank 0, of a folder that is there and locked as far as it can be. From here on an
 * older start that still lives, on a node that is cut off, say, publishes no checkpoint there. TRI_EFILE. */
TRI_CHECKED tri_status tri_start_claim(tri_run *r);
/* Not collective. The folder is nobody's, unless another start has taken it meanwhile. */
void tri_start_release(tri_run *r);
/* Not collective; rank 0. OUTPUT/OUTAGE of the start before goes; what stays is a warning. */
void tri_start_forget_outage(const tri_run *r);

#endif
