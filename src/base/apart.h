/* apart.h - work in a process of its own, so that a library that crashes is an answer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_APART_H
#define TRI_APART_H

#include "text_buffer.h"

enum { TRI_APART_HOW_BYTES = 64 };

/* What the child may take; 0, and at most: whatever its caller may. */
typedef struct tri_apart_limit {
  int64_t memory_bytes; /* address space beyond the caller's own; what asks for more gets none. Where the
                         * system does not tell the caller's own (no /proc), a warning says that there is no
                         * bound */
  int     cpu_s;        /* processor time; who takes more is ended */
} tri_apart_limit;

/* What it appends to *out is its result; ctx is the caller's. */
typedef tri_status (*tri_apart_work)(void *ctx, tri_text *out);

/* Not collective; before MPI, HDF5 or threads are up, which a copy of the process would not survive. Runs
 * `work` in a child process: its result is appended to *out, its error is the caller's, what else it changes
 * is lost, its logs go where the caller's go. Where it ended otherwise *how says so, without a message:
 * TRI_EFORMAT, it crashed ("signal 11"); TRI_EFILE, it was ended ("it took over 600 s of processor time");
 * else how is "". TRI_ENOMEM: no child can be made. */
TRI_CHECKED tri_status tri_apart(tri_apart_work work, void *ctx, const tri_apart_limit *limit, tri_text *out,
                                 char how[TRI_APART_HOW_BYTES]);

#endif
