/* halt.c - when a run ends early: a signal, the end of the allocation, a file; and how every rank hears of it.
 * In a watch the ranks carry on a chain of small sums that nobody waits for: each takes part in the next one when it has
 * heard of the last, so that all hear the same decision from the same sum. */
#include "halt.h"
#include "comm_host.h"
#include "live.h"
#include "runtime.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
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
} signals[] = {{SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGINT, "SIGINT"}};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

static volatile sig_atomic_t caught; /* the signal that came first; 0: none */
static double                caught_s;
static const char *volatile answer, *volatile term_answer; /* lines; NULL: nothing is said */

/* Only what may be called in a handler (POSIX, signal-safety). */
static void on_signal(int number) {
  int    kept = errno;
  double now_s = tri_now_s();

  if (!caught) {
    caught = number;
    caught_s = now_s;
    const char *text = number == SIGTERM ? term_answer : answer;
    if (text) tri_live_interrupt(text);
  } else if (now_s - caught_s > again_s) {
    tri_live_interrupt("");
    signal(number, SIG_DFL);
    raise(number);
  }
  errno = kept;
}

void tri_halt_catch_signals(bool answers) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

  answer = answers ? "stopping after this step, again to end now\n" : NULL;
  term_answer = tri_runtime_by_mpirun() ? NULL : answer;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < N_SIGNALS; i++) sigaddset(&action.sa_mask, signals[i].number);
  for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i].number, &action, NULL);
}

static const char *signal_name(int number) {
  for (int i = 0; i < N_SIGNALS; i++)
    if (signals[i].number == number) return signals[i].name;
  return "a signal";
}

/* ---- the decision ---- */

enum { CAUSE, BUSY, N_WORDS }; /* of a sum: the largest cause, and whether any rank still works */

struct tri_halt {
  tri_comm      *world;                          /* borrowed */
  double         end_unix_s, margin_s, looked_s; /* looked_s: for the file, the last time */
  char           file[PATH_BYTES];
  char           words[PATH_BYTES + 16];
  tri_halt_cause wish;    /* rank 0's, before all know */
  tri_halt_cause decided; /* as all know */
  /* the watch */
  MPI_Request request; /* of the sum this rank takes part in; MPI_REQUEST_NULL: of none */
  int         mine[N_WORDS], all[N_WORDS];
  bool        over;   /* every rank knows how it ended */
  tri_status  broken; /* MPI's refusal of a sum */
};

static bool is_there(const char *file) {
  struct stat sb;

  return !lstat(file, &sb) && !S_ISDIR(sb.st_mode);
}

static bool is_wished_by_file(tri_halt *h) {
  double now_s = tri_now_s();

  if (now_s - h->looked_s < look_s) return false;
  h->looked_s = now_s;
  if (!is_there(h->file)) return false;
  if (unlink(h->file))
    tri_log(TRI_LOG_WARN, "%s: is obeyed but cannot be deleted: %s", h->file, strerror(errno));
  snprintf(h->words, sizeof h->words, "%s", h->file);
  return true;
}

/* What this rank knows. Rank 0 alone decides. */
static tri_halt_cause look(tri_halt *h) {
  double left_s = h->end_unix_s - (double)time(NULL);

  if (h->wish || h->world->rank != 0) return h->wish;
  if (caught) {
    snprintf(h->words, sizeof h->words, "%s", signal_name(caught));
    h->wish = TRI_HALT_SIGNAL;
  } else if (h->end_unix_s > 0 && left_s <= h->margin_s) {
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
  tri_log(TRI_LOG_WARN, "%s: was there before this run began: deleted; make it again to stop this one", file);
  return TRI_OK;
}

tri_status tri_halt_open(tri_comm *world, const tri_halt_opt *opt, tri_halt **out) {
  tri_halt *h;

  TRI_TRY(TRI_ALLOC(*out, 1));
  h = *out;
  h->world = world;
  h->end_unix_s = opt->end_unix_s;
  h->margin_s = opt->margin_s;
  h->looked_s = tri_now_s() - look_s;
  h->request = MPI_REQUEST_NULL;
  if (answer && !term_answer)
    term_answer = "mpirun ends the run now; kill -USR1 mpirun, or OUTPUT/STOP, ends it after a step\n";
  TRI_ASSERT((size_t)snprintf(h->file, sizeof h->file, "%s", opt->file) < sizeof h->file);
  return tri_agree(world, world->rank == 0 ? forget_old_file(h->file) : TRI_OK);
}

void tri_halt_close(tri_halt **h) { TRI_FREE(*h); }

tri_status tri_halt_ask(tri_halt *h, tri_halt_cause *out) {
  if (!h->decided) {
    tri_halt_cause wish = look(h);
    TRI_TRY(tri_host_bcast(h->world, &wish, sizeof wish, 0));
    h->decided = wish;
  }
  *out = h->decided;
  return TRI_OK;
}

tri_halt_cause tri_halt_decided(const tri_halt *h) { return h->decided; }
const char    *tri_halt_words(const tri_halt *h) { return h->words; }

/* ---- the watch ---- */

/* Takes part in the next sum. Others see it when all have. */
static tri_status join(tri_halt *h, tri_halt_cause cause, bool busy) {
  h->mine[CAUSE] = (int)cause;
  h->mine[BUSY] = busy;
  TRI_MPI(
      MPI_Iallreduce(h->mine, h->all, N_WORDS, MPI_INT, MPI_MAX, *(MPI_Comm *)h->world->mpi, &h->request));
  return TRI_OK;
}

/* Has this rank heard of the sum it takes part in? Then the watch may be over: for all ranks, since all hear the same. */
static tri_status hear(tri_halt *h) {
  int heard = 0;

  TRI_MPI(MPI_Test(&h->request, &heard, MPI_STATUS_IGNORE));
  if (!heard) return TRI_OK;
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

  if (!h->over && h->broken == TRI_OK) h->broken = take_part(h, look(h), true);
  return h->over || h->broken != TRI_OK;
}

tri_status tri_halt_watch_end(tri_halt *h, tri_status st, tri_halt_cause *out) {
  double began_s = tri_now_s();

  if (st == TRI_OK) st = h->broken;
  while (!h->over && h->broken == TRI_OK) {
    h->broken = take_part(h, st == TRI_OK ? look(h) : TRI_HALT_FAILED, false);
    if (st != TRI_OK && tri_now_s() - began_s > FAILED_WAIT_S) return st;
    if (!h->over) sched_yield();
  }
  TRI_TRY(h->broken);
  *out = h->decided;
  return tri_agree(h->world, st);
}
