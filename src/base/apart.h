/* apart.h - runs work in a child process. The crash of a library becomes an error. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_APART_H
#define TRI_APART_H

#include "text_buffer.h"

enum { TRI_APART_HOW_BYTES = 64 };

/* Limits of the child. With 0 the caller's own limits hold, and they always hold as a maximum. */
typedef struct tri_apart_limit {
  /* Address space beyond the caller's own. Larger allocations fail. If the system does not tell the
   * caller's own (no /proc), a warning says that there is no limit. */
  int64_t memory_bytes;
  int     cpu_s; /* processor time. The system ends a child that uses more */
} tri_apart_limit;

/* The work. It appends its result to *out. ctx belongs to the caller. */
typedef tri_status (*tri_apart_work)(void *ctx, tri_text *out);

/* Not collective. Call it before MPI, HDF5 or threads are up, because they would not survive in a copy of the
 * process. Runs `work` in a child process. Its result is appended to *out, and its error becomes the
 * caller's. All other changes in the child are lost. Its logs go to the same places as the caller's.
 *
 * If the child ended in another way, *how says so and there is no message, else *how is "". TRI_EFORMAT: it
 * crashed ("signal 11"). TRI_EFILE: it was ended ("it took over 600 s of processor time"). TRI_ENOMEM: no
 * child can be created. */
TRI_CHECKED tri_status tri_apart(tri_apart_work work, void *ctx, const tri_apart_limit *limit, tri_text *out,
                                 char how[TRI_APART_HOW_BYTES]);

#endif
