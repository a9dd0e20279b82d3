/* halt.c - stops a run early: on a signal, before the allocation ends, or by a file. Tells every rank. During
 * a watch, the ranks run a chain of small sums, and nobody blocks on them. A rank joins the next sum once it
 * has the result of the last one. So all ranks get the same decision from the same sum. */
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
/* chosen: timeout(1) and some launchers send one request twice at once */
static const double again_s = 1;
static const double look_s = 1; /* chosen: spares a shared file system more frequent queries */

/* ---- signals ---- */

static const struct {
  int         number;
  const char *name;
  bool        can_be_ignored; /* by the program's parent */
} signals[] = {{SIGTERM, "SIGTERM", false},
               {SIGUSR1, "SIGUSR1", false},
               {SIGUSR2, "SIGUSR2", false}, /* warning of LSF and Grid Engine */
               {SIGXCPU, "SIGXCPU", false}, /* ulimit -t and Grid Engine */
               /* Ctrl-C in a script must not stop its `trireme train DECK &` */
               {SIGINT, "SIGINT", true},
               {SIGHUP, "SIGHUP", true}, /* nohup */
               {SIGPIPE, "SIGPIPE", true}};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

/* Several OpenMP threads may run the handler at the same time. */
/* The first signal. A later one replaces SIGPIPE, SIGHUP and SIGXCPU. 0: none came. */
static atomic_int caught;
/* The time of the first other signal. 0: none came. */
static atomic_llong  caught_us;
static atomic_int    told; /* 1: SIGHUP or SIGXCPU came */
static atomic_int    phase;
static atomic_int    hushed;                      /* 1: no signal is answered any more */
static volatile bool answers, by_mpirun, is_open; /* is_open: a run exists */
static double (*now_s)(void);
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "a handler must not wait for a lock");

static const char *const words_of[] = {[TRI_HALT_LOADING] =
                                           "stopping as soon as the run can be resumed, again to end now\n",
                                       [TRI_HALT_STEPS] = "stopping after this step, again to end now\n",
                                       [TRI_HALT_LEAVING] = "the run is ending, again to end now\n"};

static char words_of_mpirun[160];

/* mpirun's SIGTERM, followed by SIGKILL, also comes when another rank fails. */
static const char *words_for(int number) {
  if (!answers || hushed) return NULL;
  if (number != SIGTERM || !by_mpirun) return words_of[phase];
  return is_open ? words_of_mpirun : NULL;
}

/* Makes the answer to mpirun's SIGTERM. It names the commands that end a run after a step. Rank 0's parent is
 * mpirun if both are on one machine. */
static void name_mpirun(void) {
  char  path[64], parent[32] = "";
  FILE *f;

  snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
  f = fopen(path, "r");
  if (f && !fgets(parent, sizeof parent, f)) parent[0] = 0;
  if (f) fclose(f);
  snprintf(path, sizeof path, "kill -USR1 %ld, or ", (long)getppid());
  snprintf(words_of_mpirun, sizeof words_of_mpirun,
           "told to end by mpirun (Ctrl-C, or another rank failed). "
           "To end a run after a step: %screate OUTPUT/STOP\n",
           !strncmp(parent, "mpirun", 6) || !strncmp(parent, "mpiexec", 7) ? path : "");
}

/* SIGPIPE comes with every line written. It gets no answer because nobody could read it. */
static void on_sigpipe(int number) {
  int none = 0;

  atomic_compare_exchange_strong(&caught, &none, number);
}

/* Signals that the system may repeat do not count as a second request. The kernel and the shell both send
 * SIGHUP for a lost terminal, at unpredictable times. The end of a login adds a SIGTERM, which then counts as
 * the first. SIGXCPU comes each second. */
static void on_told(int number) {
  int         kept = errno;
  const char *words = words_for(number);

  if (!caught_us && !atomic_exchange(&told, 1)) {
    caught = number;
    if (words) tri_live_interrupt(words);
  }
  errno = kept;
}

/* Calls only functions that are allowed in a handler (POSIX, signal-safety). */
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
                       : phase == TRI_HALT_LEAVING ? "ended now\n" /* the saves are done or have failed */
                                                   : "ended now. Unsaved work is lost\n");
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

enum { CAUSE, BUSY, N_WORDS }; /* words of a sum: the largest cause, and if any rank still works */

struct tri_halt {
  tri_comm      *world;                /* borrowed */
  double         end_unix_s, looked_s; /* looked_s: the last check for the file */
  double         ask_s, watch_s;       /* seconds before the allocation's end to stop */
  char           file[PATH_BYTES];
  char           words[PATH_BYTES + 16];
  tri_halt_cause wish;    /* rank 0's decision before all know it */
  tri_halt_cause decided; /* the decision all ranks know */
  long long      mark_us; /* caught_us at tri_halt_mark */
  /* the watch */
  /* For these sums alone. A rank that failed may leave a sum pending and go on to other collectives. */
  MPI_Comm    comm;
  MPI_Request request; /* the sum this rank has joined, or MPI_REQUEST_NULL */
  uint64_t    number;  /* number of this sum among the world's collectives */
  int         mine[N_WORDS], all[N_WORDS];
  bool        over;   /* every rank knows the outcome */
  tri_status  broken; /* error of MPI in a sum */
  tri_halt   *next;   /* next in the list `kept`, else NULL */
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
    tri_warn("stop_file_stays", "%s: the run stops as asked, but the file cannot be deleted: %s", h->file,
             strerror(errno));
  snprintf(h->words, sizeof h->words, "%s", h->file);
  return true;
}

/* SIGPIPE also comes from MPI's connections when the process at the other end dies. */
static bool is_output_unread(void) {
  struct pollfd end[2] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

  return poll(end, 2, 0) > 0 && ((end[0].revents | end[1].revents) & (POLLERR | POLLHUP));
}

static const char *words_about(int number) {
  if (number != SIGPIPE) return signal_name(number);
  return is_output_unread() ? "SIGPIPE: nobody reads the output any more" : "SIGPIPE: a connection broke";
}

/* Returns the cause known to this rank. Rank 0 alone decides. */
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

/* Rank 0 only. Deletes a stop file left from an earlier run. */
static tri_status forget_old_file(const char *file) {
  if (!is_there(file)) return TRI_OK;
  if (unlink(file))
    TRI_FAIL(TRI_EFILE, "%s: this stop file of an earlier run cannot be deleted: %s", file, strerror(errno));
  tri_warn("stop_file_old",
           "%s: deleted, because it was there before this run began. Create it again to stop this run", file);
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
  TRI_MPI(tri_pause_dup(TRI_WORLD, "communicator of stop requests", *(MPI_Comm *)world->mpi, &h->comm));
  is_open = true;
  TRI_ASSERT((size_t)snprintf(h->file, sizeof h->file, "%s", opt->file) < sizeof h->file);
  return tri_agree(world, world->rank == 0 ? forget_old_file(h->file) : TRI_OK);
}

/* A rank that failed may have left a sum pending. MPI still writes into it, so the object is kept as long as
 * the process lives. */
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
  h->looked_s = -INFINITY; /* its caller asks at most twice a second */
  return caught_us != h->mark_us || is_wished_by_file(h);
}

/* ---- the watch ---- */

/* Joins the next sum. Its result appears once all ranks have joined. */
static tri_status join(tri_halt *h, tri_halt_cause cause, bool busy) {
  h->mine[CAUSE] = (int)cause;
  h->mine[BUSY] = busy;
  h->number = tri_rank_status_come(TRI_WORLD, "sum: does any rank still work");
  TRI_MPI(MPI_Iallreduce(h->mine, h->all, N_WORDS, MPI_INT, MPI_MAX, h->comm, &h->request));
  return TRI_OK;
}

/* Tests whether the current sum has its result. The result may end the watch, for all ranks alike, since all
 * get the same result. */
static tri_status hear(tri_halt *h) {
  int heard = 0;

  TRI_MPI(MPI_Test(&h->request, &heard, MPI_STATUS_IGNORE));
  if (!heard) return TRI_OK;
  tri_rank_status_met(h->number);
  h->decided = (tri_halt_cause)h->all[CAUSE];
  h->over = h->decided || !h->all[BUSY];
  return TRI_OK;
}

/* Takes one step in the chain of sums, contributing this cause. */
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
  uint64_t  waits = 0; /* the sum it waits for */
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
