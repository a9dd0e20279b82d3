/* exam_folder.h - tests whether every node can write, read and lock files in the folder of checkpoints. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAM_FOLDER_H
#define TRI_EXAM_FOLDER_H

#include "comm/session.h"
#include "tools/doctor/checks.h"

/* Collective over world. folder: the folder of run.output, or its nearest existing parent (tri_folder_there),
 * the same text on every rank. key: random, the same everywhere, for names of files. The files are removed
 * afterwards. out: results of the first rank of a node, zero on others. *whole: all nodes can write, see and
 * lock files there. Without locks MPI's parallel files may wait forever. */
TRI_CHECKED tri_status tri_folder_try(const tri_session *se, const char *folder, uint64_t key,
                                      tri_folder_facts *out, bool *whole);

/* The calls of a checkpoint, then one parallel file. Zero: it was not tried. */
typedef struct tri_folder_trial {
  char    hdf5[512]; /* message of HDF5. "": it works */
  int64_t bytes;     /* all ranks together */
  double  write_s, read_s;
} tri_folder_trial;
/* Collective over world. The folder must be whole. */
TRI_CHECKED tri_status tri_folder_write(const tri_session *se, const char *folder, uint64_t key,
                                        tri_folder_trial *out);

/* Writes the folder, or its nearest existing parent. Not collective. */
void tri_folder_there(const char *path, char *out, size_t cap);

#endif
