/* trial.c - a folder for a trial, gone afterwards even where a signal ends the process. */
#include "trial.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All that may lie in it, each behind what lies in that: a signal's handler may do no more than remove names
 * that it knows. As io/checkpoint/checkpoint_dir.c and checkpoint_steps.c call them. */
static const char *const inside[] = {"/plain",
                                     "/step-00000001.tmp/state.h5",
                                     "/step-00000001.tmp/MANIFEST.json",
                                     "/step-00000001.tmp",
                                     "/step-00000001/state.h5",
                                     "/step-00000001/MANIFEST.json",
                                     "/step-00000001",
                                     "/.LATEST.tmp",
                                     "/LATEST"};
enum { INSIDE = sizeof inside / sizeof *inside };

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDS = sizeof ends / sizeof *ends };

static char             folder[TRI_CKPT_PATH_BYTES], name[INSIDE][TRI_CKPT_PATH_BYTES];
static struct sigaction before[ENDS];

/* *error: of the first that stays. A signal handler may call it. */
static void remove_names(int *error) {
  for (int i = 0; i < INSIDE; i++)
    if (unlink(name[i]) && rmdir(name[i]) && errno != ENOENT && errno != ENOTDIR && !*error) *error = errno;
}

static void on_end(int number) {
  int error = 0;

  remove_names(&error);
  rmdir(folder);
  signal(number, SIG_DFL);
  raise(number); /* held back until this returns */
}

static void arm(void) {
  struct sigaction act = {.sa_handler = on_end};

  for (int i = 0; i < ENDS; i++)
    if (!sigaction(ends[i], NULL, &before[i]) && before[i].sa_handler == SIG_DFL)
      sigaction(ends[i], &act, NULL);
}

static void disarm(void) {
  for (int i = 0; i < ENDS; i++)
    if (before[i].sa_handler == SIG_DFL) sigaction(ends[i], &before[i], NULL);
}

static tri_status make(const char *parent) {
  if (mkdir(folder, 0700))
    TRI_FAIL(TRI_EFILE, "%s: no folder can be made there: %s", parent, strerror(errno));
  return TRI_OK;
}

tri_status tri_trial_begin(tri_comm *world, const char *parent, char path[TRI_CKPT_PATH_BYTES]) {
  unsigned long long key = (unsigned long long)(tri_unix_s() * 1000) << 20 | ((unsigned)getpid() & 0xfffff);
  tri_status         st;

  TRI_TRY(tri_host_bcast(world, &key, sizeof key, 0));
  if (snprintf(folder, sizeof folder, "%s/.trireme-bench-%016llx", parent, key) >=
      (int)(sizeof folder - sizeof "/step-00000001.tmp/MANIFEST.json"))
    TRI_FAIL(TRI_EFILE, "%s: the path is too long", parent);
  for (int i = 0; i < INSIDE; i++) snprintf(name[i], sizeof name[i], "%s%s", folder, inside[i]);
  arm();
  st = tri_agree(world, world->rank == 0 ? make(parent) : TRI_OK);
  if (st != TRI_OK) disarm();
  strcpy(path, folder);
  return st;
}

tri_status tri_trial_clear(void) {
  int error = 0;

  remove_names(&error);
  if (error) TRI_FAIL(TRI_EFILE, "%s: cannot be emptied: %s", folder, strerror(error));
  return TRI_OK;
}

static tri_status leave(void) {
  TRI_TRY(tri_trial_clear());
  if (rmdir(folder)) TRI_FAIL(TRI_EFILE, "%s: cannot be removed: %s", folder, strerror(errno));
  return TRI_OK;
}

tri_status tri_trial_end(tri_comm *world, tri_status st) {
  if (st != TRI_OK) {
    int error = 0;
    remove_names(&error);
    rmdir(folder);
  } else
    st = tri_agree(world, world->rank == 0 ? leave() : TRI_OK);
  disarm();
  return st;
}
