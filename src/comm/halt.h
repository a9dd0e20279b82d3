/* halt.h - stops a run early: on a signal, before the allocation ends, or by a file. Tells every rank. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HALT_H
#define TRI_HALT_H

#include "base/error.h"
#include "comm.h"

/* The largest cause known to any rank wins. */
typedef enum {
  TRI_HALT_NOT,
  TRI_HALT_FILE,
  TRI_HALT_TIME,
  TRI_HALT_SIGNAL,
  TRI_HALT_FAILED /* a rank failed. Only tri_halt_watch uses it */
} tri_halt_cause;

/* Not collective. From here on SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGINT, SIGHUP and SIGPIPE ask the run to
 * stop. The last three are left alone if they were ignored before. If `answer` is true, each signal except
 * SIGPIPE is answered on stderr at once.
 *
 * A further SIGTERM, SIGUSR1, SIGUSR2 or SIGINT ends the process if it comes more than a second after the
 * first of these four. SIGXCPU does not, because the kernel sends it each second once the limit is reached
 * (ulimit -t). mpirun sends SIGTERM and then SIGKILL. Its SIGTERM is answered only after tri_halt_open, with
 * the commands that stop a run cleanly. clock_s returns seconds and must be callable from a signal handler,
 * as tri_now_s is. */
void tri_halt_catch_signals(bool answer, double (*clock_s)(void));
/* Not collective. Declares the phase of the run, on which the answer depends. It starts as LOADING. The
 * handlers stay during LEAVING. Other ranks' signals may arrive after rank 0 has obeyed its own, and without
 * a handler they would make the job fail. */
typedef enum { TRI_HALT_LOADING, TRI_HALT_STEPS, TRI_HALT_LEAVING } tri_halt_phase;
void tri_halt_enter(tri_halt_phase now);

/* Not collective, any thread. Stops answering signals, because the reason for the end has been reported. */
void tri_halt_hush(void);

typedef struct tri_halt_opt {
  double      end_unix_s; /* end of the allocation, seconds since 1970. 0: unknown */
  const char *file;       /* creating this file asks the run to stop. Copied, at most 4095 bytes */
} tri_halt_opt;

typedef struct tri_halt tri_halt;

/* Collective over world, which is borrowed. Rank 0 alone decides. It checks for signals, its clock and, at
 * most once a second, the file. The file may be of any kind except a folder, and links are not followed. Rank
 * 0 deletes the file when it obeys. A file left from an earlier run is deleted with a warning. TRI_EFILE: it
 * cannot be deleted. */
TRI_CHECKED tri_status tri_halt_open(tri_comm *world, const tri_halt_opt *opt, tri_halt **out);
/* Not collective. */
void tri_halt_close(tri_halt **h);
/* Not collective. Only rank 0's call counts. Sets how many seconds before the allocation's end the run stops,
 * at tri_halt_ask and during a watch. Both are 0 until it is called. */
void tri_halt_keep(tri_halt *h, double ask_s, double watch_s);
/* Collective over world. Returns the decision, the same on every rank. Once made, it stays. */
TRI_CHECKED tri_status tri_halt_ask(tri_halt *h, tri_halt_cause *out);
/* Not collective. The decision known to all ranks, and rank 0's words for it, such as "SIGUSR1" or the file's
 * path. */
tri_halt_cause tri_halt_decided(const tri_halt *h);
const char    *tri_halt_words(const tri_halt *h);

/* Not collective. Only rank 0's value counts. Seconds until the allocation ends, INFINITY if the end is
 * unknown. */
double tri_halt_left_s(const tri_halt *h);
/* Not collective, rank 0 only. True if anyone asked the run to stop since tri_halt_mark, by a signal or the
 * file. Deletes the file. After a signal before the mark, the next signal ends the process. */
void tri_halt_mark(tri_halt *h);
bool tri_halt_is_asked_again(tri_halt *h);

/* Between begin and end each rank works alone. Ranks may run different numbers of rounds, and none waits for
 * another. Not collective: call tri_halt_watch in each round. When it returns true this rank's work ends, and
 * so will the work of every other rank. ctx is the tri_halt. */
bool tri_halt_watch(void *ctx);
/* Not collective. */
void tri_halt_watch_begin(tri_halt *h);
/* Collective over world. `st` tells how this rank's work ended. A rank that failed makes the others end their
 * work, and all return as tri_agree does. If the others do not arrive within seconds, the failed rank returns
 * alone. *out receives the decision. */
TRI_CHECKED tri_status tri_halt_watch_end(tri_halt *h, tri_status st, tri_halt_cause *out);

#endif
