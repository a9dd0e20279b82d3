/* session.h - what every command opens first: MPI, the device, its stream, the three communicators. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SESSION_H
#define TRI_SESSION_H

#include "comm.h"
#include "device/memory.h"
#include "place.h"
#include "runtime.h"

typedef struct tri_session {
  tri_runtime rt;
  tri_device *device;
  tri_stream *stream;
  tri_comm   *comm[TRI_SCOPE_COUNT];
  tri_ledger *ledger;
  void       *stage; /* in the ledger's memory, what staged collectives go through; or NULL */
  tri_place   place;
  int         threads;         /* of this rank */
  char        threads_why[64]; /* what decided their number: "OMP_NUM_THREADS=1" */
  size_t      buffer_bytes; /* host memory that modules take for a while, beside the plan; they add to it */
  bool        pretended;
} tri_session;

typedef struct tri_session_opt {
  const char *device;         /* "auto", "cpu", "cuda" */
  int         ranks_per_node; /* 0: real nodes */
  int         threads;        /* per rank; 0: tri_session_threads */
  double      timeout_s;      /* a rank that others wait for so long ends the run (peers/peers.h); 0: never */
  const char *threads_name;   /* what the user calls `threads`; NULL: run.threads */
} tri_session_opt;

/* Collective over MPI_COMM_WORLD. On failure leave with tri_session_leave. */
TRI_CHECKED tri_status tri_session_open(const tri_session_opt *opt, tri_session *out);
/* Not collective, without MPI. A session of rank 0 of so many ranks, of which the others are not there, on
 * the CPU whatever opt->device says: for plans. machine_ranks: those of this machine. Nothing can be run in
 * it. */
TRI_CHECKED tri_status tri_session_pretend(const tri_session_opt *opt, int ranks, int machine_ranks,
                                           tri_session *out);
/* Not collective. The same with a GPU on paper for each rank, of so much memory, that opt->device, borrowed,
 * is the name of; gpu_bytes 0: on the CPU. */
TRI_CHECKED tri_status tri_session_pretend_gpu(const tri_session_opt *opt, int ranks, int machine_ranks,
                                               size_t gpu_bytes, tri_session *out);
/* Not collective. Threads for a rank that was not told how many: its share of the machine's cores, or
 * fewer where its control groups, OMP_NUM_THREADS or OMP_THREAD_LIMIT allow fewer. why: what decided. */
int tri_session_threads(const tri_runtime *rt, char why[64]);
/* Not collective. Rank 0 says how many threads it has, where neither the share of the cores nor the user's
 * choice decided. */
void tri_session_say_threads(const tri_session *s);
/* Not collective. Whether this machine has the cores for the threads of its ranks. */
TRI_CHECKED tri_status tri_session_check_threads(const tri_session *s);
/* Not collective, once, of a pretended session. What staged collectives take; the plan is whole then. */
TRI_CHECKED tri_status tri_session_plan_stage(tri_session *s);
/* Not collective, once. Whether this machine has the planned memory, for its ranks; the plan is whole
 * then. */
TRI_CHECKED tri_status tri_session_check_memory(tri_session *s);
/* Collective over world; of a pretended session not collective. Whether the plan so far fits on every rank,
 * as tri_session_take_memory will judge it; with a GPU on paper, there alone. */
TRI_CHECKED tri_status tri_session_fits(const tri_session *s, bool *fits);
/* Not collective. Of a GPU's memory: what its libraries take after the plan is checked; else 0. */
size_t tri_session_beside_bytes(const tri_session *s);
/* Not collective, once the plan is whole. Host memory that a rank takes beside its plan, by cause
 * (session.c): libraries, threads, page tables, staged collectives, buffer_bytes. */
size_t tri_session_host_beside_bytes(const tri_session *s);
/* Collective over world. Takes the planned memory and makes it known to the communicators. */
TRI_CHECKED tri_status tri_session_take_memory(tri_session *s);
/* Collective over world, where no rank failed; of a pretended session not collective. */
void tri_session_close(tri_session *s);
/* Collective over world. How a command ends: with what became of its work. Where this rank failed and others
 * are somewhere else, it says so and does not return: it ends all ranks with the exit code of st, because
 * nothing can be cleaned up together. Else closes. */
void tri_session_leave(tri_session *s, tri_status st);
/* Of a failure inside something collective, before the ranks agree on anything else: unless all ranks failed
 * so, ends them all, as tri_session_leave. */
void tri_session_fail(const tri_session *s, tri_status st);
/* Not collective. Has a rank of this process or another said why the run ends, and is ending it? */
bool tri_session_is_ended(void);

#endif
