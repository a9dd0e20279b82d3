/* pair.h - two files of a folder that belong together: both of them or none, and over no other's unasked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAIR_H
#define TRI_PAIR_H

#include "base/error.h"

typedef struct tri_pair_file {
  const char *name; /* in the folder */
  const char *text; /* as all of this borrowed */
  size_t      n_bytes;
} tri_pair_file;

/* Not collective. Each is written under a name of its own and flushed, then both take their places. force: in
 * the place of what stands there, links themselves; without it whatever takes a place first keeps it,
 * TRI_EARG. Where the second cannot have its place, the first gives its own back: all is as it was.
 * TRI_EFILE: the folder takes no file, or a folder stands in a file's place. */
TRI_CHECKED tri_status tri_pair_write(const char *folder, const tri_pair_file file[2], bool force);

#endif
