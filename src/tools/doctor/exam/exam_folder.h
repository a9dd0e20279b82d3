/* exam_folder.h - whether every node can write, read and lock in the folder of checkpoints. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAM_FOLDER_H
#define TRI_EXAM_FOLDER_H

#include "comm/session.h"
#include "tools/doctor/checks.h"

/* Collective over world. folder: where run.output is, or will be (tri_folder_there), the same text on every
 * rank. key: random, the same everywhere, for names of files, which are gone afterwards. out: of the first
 * rank of a node, else zero. *whole: all nodes can write, see and lock what is there; MPI's parallel files
 * may wait for ever for locks that there are none of. */
TRI_CHECKED tri_status tri_folder_try(const tri_session *se, const char *folder, uint64_t key,
                                      tri_folder_facts *out, bool *whole);

/* A checkpoint's calls, then one parallel file; zero: it was not tried. */
typedef struct tri_folder_trial {
  char    hdf5[512]; /* what HDF5 said; "": all is well */
  int64_t bytes;     /* of all ranks */
  double  write_s, read_s;
} tri_folder_trial;
/* Collective over world, in a folder that is whole. */
TRI_CHECKED tri_status tri_folder_write(const tri_session *se, const char *folder, uint64_t key,
                                        tri_folder_trial *out);

/* Pure. The folder, or the first above it that is there. */
void tri_folder_there(const char *path, char *out, size_t cap);

#endif
