/* output.h - what the output folder tells the other files of this room. Private to its room. */
#ifndef TRI_OUTPUT_H
#define TRI_OUTPUT_H

#include "run.h"

/* Not collective. Does the path lie in what a run that starts anew in run.output sets aside? */
bool tri_output_would_move(const tri_config *c, const char *path);

#endif
