/* halt.c - when a run ends early: a signal, the end of the allocation, a file; and how every rank hears of
 * it. In a watch the ranks carry on a chain of small sums that nobody waits for: each takes part in the next
 * one when it has heard of the last, so that all hear the same decision from the same sum. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "halt.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/live.h"
#include "base/notice.h"
#include "comm_host.h"
#include "pause.h"
#include "comm/peers/rank_status.h"
#include "peers/peers.h"
#include "runtime.h"

#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, FAILED_WAIT_S = 3 }; /* chosen: a round of the others takes less */
static const double again_s = 1; /* chosen: timeout(1) and some launchers send one wish twice at once */
static const double look_s = 1;  /* chosen: a file system shared by many is asked no oftener */

/* ---- signals ---- */

static const struct {
  int         number;
  const char *name;
  bool        can_be_ignored; /* by whoever starts the program */
} signals[] = {
    {SIGTERM, "SIGTERM", false}, {SIGUSR1, "SIGUSR1", false},
    {SIGUSR2, "SIGUSR2", false}, /* LSF and Grid Engine warn by it */
    {SIGXCPU, "SIGXCPU", false}, /* ulimit -t; Grid Engine */
    {SIGINT, "SIGINT", true},    /* a script's `trireme train DECK &` goes on when the script gets Ctrl-C */
    {SIGHUP, "SIGHUP", true},    /* nohup */
    {SIGPIPE, "SIGPIPE", true}};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

/* Threads of OpenMP may be in the handler at the same time. */
static atomic_int   caught; /* the signal that came first, or took SIGPIPE's or a told one's place; 0: none */
static atomic_llong caught_us; /* when one came that was none of these; 0: none did */
static atomic_int   told;      /* 1: SIGHUP or SIGXCPU came */
static atomic_int   phase;
static atomic_int   hushed;                       /* 1: no signal is answered any more */
static volatile bool answers, by_mpirun, is_open; /* is_open: there is a run */
static double (*now_s)(void);
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "a handler must not wait for a lock");

static const char *const words_of[] = {[TRI_HALT_LOADING] =
                                           "stopping as soon as the run can be resumed, again to end now\n",
                                       [TRI_HALT_STEPS] = "stopping after this step, again to end now\n",
                                       [TRI_HALT_LEAVING] = "the run is ending, again to end now\n"};

static char words_of_mpirun[160];

/* mpirun's SIGTERM, which SIGKILL follows, comes when another rank failed too. */
static const char *words_for(int number) {
  if (!answers || hushed) return NULL;
  if (number != SIGTERM || !by_mpirun) return words_of[phase];
  return is_open ? words_of_mpirun : NULL;
}

/* What would have ended the run after a step: rank 0's parent is mpirun, where they are on one machine. */
static void name_mpirun(void) {
  char  path[64], parent[32] = "";
  FILE *f;

  snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
  f = fopen(path, "r");
  if (f && !fgets(parent, sizeof parent, f)) parent[0] = 0;
  if (f) fclose(f);
  snprintf(path, sizeof path, "kill -USR1 %ld, or ", (long)getppid());
  snprintf(words_of_mpirun, sizeof words_of_mpirun,
           "told to end by mpirun (Ctrl-C, or another rank failed); %sOUTPUT/STOP, ends a run after a step\n",
           !strncmp(parent, "mpirun", 6) || !strncmp(parent, "mpiexec", 7) ? path : "");
}

/* With every line that is written. Not answered: there is nobody to read it. */
static void on_sigpipe(int number) {
  int none = 0;

  atomic_compare_exchange_strong(&caught, &none, number);
}

/* What comes by itself more than once is no second wish. A lost terminal is told of by the kernel and by the
 * shell, at times that nobody bounds, and the end of a login adds its SIGTERM: that one is the first. A limit
 * of processor time is told of each second. */
static void on_told(int number) {
  int         kept = errno;
  const char *words = words_for(number);

  if (!caught_us && !atomic_exchange(&told, 1)) {
    caught = number;
    if (words) tri_live_interrupt(words);
  }
  errno = kept;
}

/* Only what may be called in a handler (POSIX, signal-safety). */
static void on_signal(int number) {
  int         kept = errno;
  long long   none = 0, now_us = (long long)(now_s() * 1e6) + 1;
  const char *words;

  if (atomic_compare_exchange_strong(&caught_us, &none, now_us)) {
    caught = number;
    words = words_for(number);
    if (words) tri_live_interrupt(words);
  } else if ((double)(now_us - none) > again_s * 1e6) {
    tri_live_interrupt(!answers                    ? ""
                       : phase == TRI_HALT_LEAVING ? "ended now\n" /* all is saved, or could not be */
                                                   : "ended now; what was not saved is lost\n");
    tri_peers_leave();
    tri_child_kill_all();
    signal(number, SIG_DFL);
    raise(number);
  }
  errno = kept;
}

void tri_halt_catch_signals(bool answer, double (*clock_s)(void)) {
  struct sigaction action = {.sa_flags = SA_RESTART}, before;

  answers = answer;
  by_mpirun = tri_runtime_by_mpirun();
  if (by_mpirun) name_mpirun();
  now_s = clock_s;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < N_SIGNALS; i++) sigaddset(&action.sa_mask, signals[i].number);
  for (int i = 0; i < N_SIGNALS; i++) {
    int number = signals[i].number;
    if (signals[i].can_be_ignored && !sigaction(number, NULL, &before) && before.sa_handler == SIG_IGN)
      continue;
    action.sa_handler = number == SIGPIPE                       ? on_sigpipe
                        : number == SIGHUP || number == SIGXCPU ? on_told
                                                                : on_signal;
    sigaction(number, &action, NULL);
  }
}

void tri_halt_hush(void) { hushed = 1; }

void tri_halt_enter(tri_halt_phase now) { phase = (int)now; }

static const char *signal_name(int number) {
  for (int i = 0; i < N_SIGNALS; i++)
    if (signals[i].number == number) return signals[i].name;
  return "a signal";
}

/* ---- the decision ---- */

enum { CAUSE, BUSY, N_WORDS }; /* of a sum: the largest cause, and whether any rank still works */

struct tri_halt {
  tri_comm      *world;                /* borrowed */
  double         end_unix_s, looked_s; /* looked_s: for the file, the last time */
  double         ask_s, watch_s;       /* the run stops so long before the end */
  char           file[PATH_BYTES];
  char           words[PATH_BYTES + 16];
  tri_halt_cause wish;    /* rank 0's, before all know */
  tri_halt_cause decided; /* as all know */
  long long      mark_us; /* caught_us at tri_halt_mark */
  /* the watch */
  MPI_Comm    comm; /* for its sums alone: a rank that failed may leave one, and go on to other collectives */
  MPI_Request request; /* of the sum this rank takes part in; MPI_REQUEST_NULL: of none */
  uint64_t    number;  /* of that sum among the world's collectives */
  int         mine[N_WORDS], all[N_WORDS];
  bool        over;   /* every rank knows how it ended */
  tri_status  broken; /* MPI's refusal of a sum */
  tri_halt   *next;   /* of those that are kept; else NULL */
};

static bool is_there(const char *file) {
  struct stat sb;

  return !lstat(file, &sb) && !S_ISDIR(sb.st_mode);
}

static bool is_wished_by_file(tri_halt *h) {
  double at_s = tri_now_s();

  if (at_s - h->looked_s < look_s) return false;
  h->looked_s = at_s;
  if (!is_there(h->file)) return false;
  if (unlink(h->file))
    tri_warn("stop_file_stays", "%s: is obeyed but cannot be deleted: %s", h->file, strerror(errno));
  snprintf(h->words, sizeof h->words, "%s", h->file);
  return true;
}

/* Connections of MPI break too, where a process ends that is at their other end. */
static bool is_output_unread(void) {
  struct pollfd end[2] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

  return poll(end, 2, 0) > 0 && ((end[0].revents | end[1].revents) & (POLLERR | POLLHUP));
}

static const char *words_about(int number) {
  if (number != SIGPIPE) return signal_name(number);
  return is_output_unread() ? "SIGPIPE: what reads the output is gone" : "SIGPIPE: a connection broke";
}

/* What this rank knows. Rank 0 alone decides. */
static tri_halt_cause look(tri_halt *h, double kept_s) {
  double left_s = h->end_unix_s - (double)time(NULL);

  if (h->wish || h->world->rank != 0) return h->wish;
  if (caught) {
    snprintf(h->words, sizeof h->words, "%s", words_about(caught));
    h->wish = TRI_HALT_SIGNAL;
  } else if (h->end_unix_s > 0 && left_s <= kept_s) {
    snprintf(h->words, sizeof h->words, "the allocation ends in %.0f s", left_s);
    h->wish = TRI_HALT_TIME;
  } else if (is_wished_by_file(h)) {
    h->wish = TRI_HALT_FILE;
  }
  return h->wish;
}

/* Rank 0. */
static tri_status forget_old_file(const char *file) {
  if (!is_there(file)) return TRI_OK;
  if (unlink(file))
    TRI_FAIL(TRI_EFILE, "%s: asks a run before this one to stop, and cannot be deleted: %s", file,
             strerror(errno));
  tri_warn("stop_file_old", "%s: was there before this run began: deleted; make it again to stop this one",
           file);
  return TRI_OK;
}

tri_status tri_halt_open(tri_comm *world, const tri_halt_opt *opt, tri_halt **out) {
  tri_halt *h;

  TRI_TRY(TRI_ALLOC(*out, 1));
  h = *out;
  h->world = world;
  h->end_unix_s = opt->end_unix_s;
  h->looked_s = tri_now_s() - look_s;
  h->request = MPI_REQUEST_NULL;
  h->comm = MPI_COMM_NULL;
  TRI_MPI(MPI_Comm_dup(*(MPI_Comm *)world->mpi, &h->comm));
  is_open = true;
  TRI_ASSERT((size_t)snprintf(h->file, sizeof h->file, "%s", opt->file) < sizeof h->file);
  return tri_agree(world, world->rank == 0 ? forget_old_file(h->file) : TRI_OK);
}

/* A rank that failed may have left a sum, into which MPI still writes: that one stays, as long as the
 * process. */
static tri_halt *kept;

void tri_halt_close(tri_halt **h) {
  if (*h && (*h)->request != MPI_REQUEST_NULL) {
    (*h)->next = kept;
    kept = *h;
    *h = NULL;
  }
  if (*h && (*h)->comm != MPI_COMM_NULL) MPI_Comm_free(&(*h)->comm);
  TRI_FREE(*h);
}

void tri_halt_keep(tri_halt *h, double ask_s, double watch_s) {
  h->ask_s = ask_s;
  h->watch_s = watch_s;
}

tri_status tri_halt_ask(tri_halt *h, tri_halt_cause *out) {
  if (!h->decided) {
    tri_halt_cause wish = look(h, h->ask_s);
    TRI_TRY(tri_host_bcast(h->world, &wish, sizeof wish, 0));
    h->decided = wish;
  }
  *out = h->decided;
  return TRI_OK;
}

tri_halt_cause tri_halt_decided(const tri_halt *h) { return h->decided; }
const char    *tri_halt_words(const tri_halt *h) { return h->words; }

double tri_halt_left_s(const tri_halt *h) {
  return h->end_unix_s > 0 ? h->end_unix_s - (double)time(NULL) : INFINITY;
}

void tri_halt_mark(tri_halt *h) { h->mark_us = caught_us; }

bool tri_halt_is_asked_again(tri_halt *h) {
  h->looked_s = -INFINITY; /* who waits asks no oftener than twice a second */
  return caught_us != h->mark_us || is_wished_by_file(h);
}

/* ---- the watch ---- */

/* Takes part in the next sum. Others see it when all have. */
static tri_status join(tri_halt *h, tri_halt_cause cause, bool busy) {
  h->mine[CAUSE] = (int)cause;
  h->mine[BUSY] = busy;
  h->number = tri_rank_status_come(TRI_WORLD, "sum: does any rank still work");
  TRI_MPI(MPI_Iallreduce(h->mine, h->all, N_WORDS, MPI_INT, MPI_MAX, h->comm, &h->request));
  return TRI_OK;
}

/* Has this rank heard of the sum it takes part in? Then the watch may be over: for all ranks, since all hear
 * the same. */
static tri_status hear(tri_halt *h) {
  int heard = 0;

  TRI_MPI(MPI_Test(&h->request, &heard, MPI_STATUS_IGNORE));
  if (!heard) return TRI_OK;
  tri_rank_status_met(h->number);
  h->decided = (tri_halt_cause)h->all[CAUSE];
  h->over = h->decided || !h->all[BUSY];
  return TRI_OK;
}

/* One look at the chain, of a rank that knows of this cause. */
static tri_status take_part(tri_halt *h, tri_halt_cause cause, bool busy) {
  if (h->request == MPI_REQUEST_NULL) TRI_TRY(join(h, cause, busy));
  return hear(h);
}

void tri_halt_watch_begin(tri_halt *h) {
  TRI_ASSERT(h->request == MPI_REQUEST_NULL);
  h->broken = TRI_OK;
  h->over = h->decided != TRI_HALT_NOT;
}

bool tri_halt_watch(void *ctx) {
  tri_halt *h = ctx;

  if (!h->over && h->broken == TRI_OK) h->broken = take_part(h, look(h, h->watch_s), true);
  return h->over || h->broken != TRI_OK;
}

tri_status tri_halt_watch_end(tri_halt *h, tri_status st, tri_halt_cause *out) {
  double    began_s = tri_now_s();
  uint64_t  waits = 0; /* in this sum */
  tri_pause pause = {0};

  if (st == TRI_OK) st = h->broken;
  while (!h->over && h->broken == TRI_OK) {
    h->broken = take_part(h, st == TRI_OK ? look(h, h->watch_s) : TRI_HALT_FAILED, false);
    if (h->number != waits) {
      if (waits) tri_rank_status_leave(false);
      tri_rank_status_wait(TRI_WORLD, waits = h->number);
    }
    if (st != TRI_OK && tri_now_s() - began_s > FAILED_WAIT_S) break;
    if (!h->over) tri_pause_idle(&pause);
  }
  if (waits) tri_rank_status_leave(false);
  if (!h->over && h->broken == TRI_OK) return st;
  TRI_TRY(h->broken);
  *out = h->decided;
  return tri_agree(h->world, st);
}
