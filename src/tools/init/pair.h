/* pair.h - writes two files of a folder together or not at all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAIR_H
#define TRI_PAIR_H

#include "base/error.h"

typedef struct tri_pair_file {
  const char *name; /* in the folder */
  const char *text; /* borrowed, as all members */
  size_t      n_bytes;
} tri_pair_file;

/* Not collective. Writes and flushes each file under a temporary name, then puts both in place. With force it
 * replaces existing files, and links themselves. Without force an existing file stays, and the call fails
 * with TRI_EARG. If the second file cannot be put in place, the first is taken back and the folder is as
 * before. TRI_EFILE: the folder is not writable, or a folder has the name of a file. */
TRI_CHECKED tri_status tri_pair_write(const char *folder, const tri_pair_file file[2], bool force);

#endif
