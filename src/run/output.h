/* output.h - what the output folder tells the other files of this room. Private to its room. */
#ifndef TRI_OUTPUT_H
#define TRI_OUTPUT_H

#include "run.h"

/* Not collective. Does the path lie in what a run that starts anew in run.output sets aside? */
bool tri_output_would_move(const tri_config *c, const char *path);

/* start.c. Not collective; rank 0, of a folder that is there and locked as far as it can be. From here on an
 * older start that still lives, on a node that is cut off, say, publishes no checkpoint there. TRI_EFILE. */
TRI_CHECKED tri_status tri_start_claim(tri_run *r);
/* Not collective. The folder is nobody's, unless another start has taken it meanwhile. */
void tri_start_release(tri_run *r);

#endif
