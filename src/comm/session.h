/* session.h - the objects that every command opens first: MPI, the device, its stream, the
 * communicators. */
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
  void       *stage; /* buffer of staged collectives, in the ledger's memory, or NULL */
  tri_place   place;
  int         threads;         /* per rank */
  char        threads_why[64]; /* the reason for their number: "OMP_NUM_THREADS=1" */
  const char *tensor_name;     /* copy of tri_session_opt.tensor_name */
  /* Host memory that modules take temporarily, outside the plan. They add their share. */
  size_t buffer_bytes;
  bool   pretended;
} tri_session;

typedef struct tri_session_opt {
  const char *device;         /* "auto", "cpu", "cuda" */
  int         ranks_per_node; /* 0: real nodes */
  int         threads;        /* per rank. 0: tri_session_threads decides */
  /* A rank that others wait for this long ends the run (peers/peers.h). 0: never. */
  double      timeout_s;
  const char *threads_name; /* the user's name for `threads`. NULL: run.threads */
  int         tensor;       /* ranks of a node that generate as one model (comm.h). 0: 1 */
  const char *tensor_name;  /* the user's name for `tensor`. NULL: shard.tensor_parallel_size */
  /* If `tensor` does not divide the ranks of a node, take its largest divisor that does. No error then. */
  bool tensor_fits;
} tri_session_opt;

/* Collective over MPI_COMM_WORLD. After a failure leave with tri_session_leave. TRI_ECONFIG: opt->tensor does
 * not divide the ranks of a node. */
TRI_CHECKED tri_status tri_session_open(const tri_session_opt *opt, tri_session *out);
/* Not collective, without MPI. Opens a session of rank 0 for plans. The other ranks of `ranks` do not exist.
 * machine_ranks ranks are on this machine. The device is the CPU, whatever opt->device says. Nothing can run
 * in it. */
TRI_CHECKED tri_status tri_session_pretend(const tri_session_opt *opt, int ranks, int machine_ranks,
                                           tri_session *out);
/* Not collective. The same, with a simulated GPU of gpu_bytes of memory for each rank. opt->device, borrowed,
 * names it. gpu_bytes 0: on the CPU. */
TRI_CHECKED tri_status tri_session_pretend_gpu(const tri_session_opt *opt, int ranks, int machine_ranks,
                                               size_t gpu_bytes, tri_session *out);
/* Not collective. The number of threads for a rank without an explicit number. It is the rank's share of the
 * machine's cores, or fewer if its control groups, OMP_NUM_THREADS or OMP_THREAD_LIMIT allow fewer. `why`
 * receives the reason. */
int tri_session_threads(const tri_runtime *rt, char why[64]);
/* Not collective. Rank 0 logs its number of threads, unless the share of the cores or the user's choice
 * decided it. */
void tri_session_say_threads(const tri_session *s);
/* Not collective. Checks that this machine has enough cores for the threads of its ranks. */
TRI_CHECKED tri_status tri_session_check_threads(const tri_session *s);
/* Not collective. Call it once in a pretended session. Plans the buffer of staged collectives and so
 * completes the plan. */
TRI_CHECKED tri_status tri_session_plan_stage(tri_session *s);
/* Not collective. Call it once. Completes the plan and checks that this machine has the planned memory for
 * its ranks. */
TRI_CHECKED tri_status tri_session_check_memory(tri_session *s);
/* Collective over world. In a pretended session it is not collective. Tells whether the plan so far fits on
 * every rank, by the test of tri_session_take_memory. With a simulated GPU it tests the GPU's memory only. */
TRI_CHECKED tri_status tri_session_fits(const tri_session *s, bool *fits);
/* Not collective. Bytes of GPU memory that libraries take after the plan is checked. 0 for a CPU. */
size_t tri_session_beside_bytes(const tri_session *s);
/* Not collective. Call it once the plan is complete. Host memory that a rank takes outside its plan:
 * libraries, threads, page tables, staged collectives, buffer_bytes. session.c has the amount of each. */
size_t tri_session_host_beside_bytes(const tri_session *s);
/* Collective over world. Takes the planned memory and gives it to the communicators. */
TRI_CHECKED tri_status tri_session_take_memory(tri_session *s);
/* Collective over world if no rank failed. For a pretended session it is not collective. */
void tri_session_close(tri_session *s);
/* Collective over world. Every command ends with it and passes the status of its work. If this rank failed
 * and other ranks are elsewhere, no common cleanup is possible. Then it reports the error, ends all ranks
 * with the exit code of st, and does not return. Otherwise it closes the session. */
void tri_session_leave(tri_session *s, tri_status st);
/* For a failure inside a collective operation, before the ranks agree on anything else. Ends all ranks as
 * tri_session_leave does, unless all ranks failed in the same place. */
void tri_session_fail(const tri_session *s, tri_status st);
/* Not collective. True if this or another rank has reported why the run ends and is ending it. */
bool tri_session_is_ended(void);

#endif
