/* halt.h - when a run ends early: a signal, the end of the allocation, a file; and how every rank hears of
 * it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HALT_H
#define TRI_HALT_H

#include "base/error.h"
#include "comm.h"

/* The largest that a rank knows of wins. */
typedef enum {
  TRI_HALT_NOT,
  TRI_HALT_FILE,
  TRI_HALT_TIME,
  TRI_HALT_SIGNAL,
  TRI_HALT_FAILED /* a rank could not go on; of a watch alone */
} tri_halt_cause;

/* Not collective. From here on SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGINT, SIGHUP and SIGPIPE (the last three
 * unless ignored until now) ask the run to stop. Where `answer`, it is answered on stderr at once, SIGPIPE
 * never. Another SIGTERM, SIGUSR1, SIGUSR2 or SIGINT, more than a second after the first of these four, ends
 * the process; SIGXCPU, which the kernel sends each second from a limit (ulimit -t) on, does not. mpirun's
 * SIGTERM, which SIGKILL follows, is answered after tri_halt_open only, and with what would work. clock_s:
 * seconds, of a function that a handler may call: tri_now_s. */
void tri_halt_catch_signals(bool answer, double (*clock_s)(void));
/* Not collective. What the run does now, which the answer depends on; LOADING at first. Handlers stay while
 * it leaves: other ranks' signals may come when rank 0 has obeyed its own, and would end the job as one that
 * failed. */
typedef enum { TRI_HALT_LOADING, TRI_HALT_STEPS, TRI_HALT_LEAVING } tri_halt_phase;
void tri_halt_enter(tri_halt_phase now);

/* Not collective, of any thread. Signals are not answered from here on: all has been said of why the run
 * ends. */
void tri_halt_hush(void);

typedef struct tri_halt_opt {
  double      end_unix_s; /* when the allocation ends, seconds since 1970; 0: unknown */
  const char *file;       /* whoever makes it asks the run to stop; copied; at most 4095 bytes */
} tri_halt_opt;

typedef struct tri_halt tri_halt;

/* Collective over world, which is borrowed. Rank 0 alone decides: it looks for signals, at its clock and, at
 * most once a second, for the file (of any kind but a folder, never followed), which it deletes as it obeys.
 * One that is there before is no wish of this run: it is deleted with a warning; TRI_EFILE where that
 * fails. */
TRI_CHECKED tri_status tri_halt_open(tri_comm *world, const tri_halt_opt *opt, tri_halt **out);
/* Not collective. */
void tri_halt_close(tri_halt **h);
/* Not collective; rank 0's counts. How long before the allocation's end the run stops: at tri_halt_ask, and
 * in a watch. Until it is called at the end itself. */
void tri_halt_keep(tri_halt *h, double ask_s, double watch_s);
/* Collective over world. The decision, the same on every rank; once made it stays. */
TRI_CHECKED tri_status tri_halt_ask(tri_halt *h, tri_halt_cause *out);
/* Not collective. The decision as all ranks know it, and rank 0's words for it: "SIGUSR1", the file's path,
 * ... */
tri_halt_cause tri_halt_decided(const tri_halt *h);
const char    *tri_halt_words(const tri_halt *h);

/* Not collective; rank 0's count. Seconds until the allocation ends, INFINITY where that is not known. */
double tri_halt_left_s(const tri_halt *h);
/* Not collective; of rank 0. Has anyone asked the run to stop, by a signal or the file, since mark? The file
 * is deleted. Whoever asked by a signal before mark ends the process by the next one. */
void tri_halt_mark(tri_halt *h);
bool tri_halt_is_asked_again(tri_halt *h);

/* Between begin and end ranks work by themselves, each in rounds of its own number, and none waits for
 * another. Not collective: true ends this rank's work, as it will every other's. ctx: the tri_halt. */
bool tri_halt_watch(void *ctx);
/* Not collective. */
void tri_halt_watch_begin(tri_halt *h);
/* Collective over world. st: how this rank's work ended. A rank that failed makes the others end theirs, and
 * all return as tri_agree does; where they do not come within seconds it returns alone. *out: the
 * decision. */
TRI_CHECKED tri_status tri_halt_watch_end(tri_halt *h, tri_status st, tri_halt_cause *out);

#endif
