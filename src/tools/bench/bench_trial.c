/* bench_trial.c - makes a folder for a trial and removes it, even if a signal ends the process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* syscall */
#include "bench_trial.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDS = sizeof ends / sizeof *ends };

static char             folder[TRI_CKPT_PATH_BYTES];
static struct sigaction before[ENDS];

enum {
  DEPTH = 2,
  LISTED = 4096
}; /* levels of folders in it (a checkpoint is one), and bytes of names read
                                    * at a time */

/* An entry of getdents64(2). A signal handler must not call opendir. */
typedef struct listed {
  uint64_t       ino;
  int64_t        off;
  unsigned short bytes;
  unsigned char  type;
  char           name[];
} listed;

static bool clear(int at, const char *path, int depth);

/* Removes entry `name` of an open folder. Links are removed, not followed. */
static bool remove_one(int at, const char *name, int depth) {
  if (!strcmp(name, ".") || !strcmp(name, "..")) return true;
  if (!unlinkat(at, name, 0) || errno == ENOENT) return true;
  if (depth > 0 && !clear(at, name, depth - 1)) return errno == ENOENT; /* another rank was faster */
  return !unlinkat(at, name, AT_REMOVEDIR) || errno == ENOENT;
}

/* Removes everything in a folder, down to so many levels. Returns false and errno if something stays. It is
 * safe in a signal handler. A list of names would not do, because MPI and HDF5 create further files. */
static bool clear(int at, const char *path, int depth) {
  int  fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), failed = 0;
  bool more = true;
  union {
    listed first; /* aligns the bytes */
    char   bytes[LISTED];
  } list;

  if (fd < 0) return false;
  while (more && !failed) { /* start over each time, because removing an entry moves the others */
    long n = lseek(fd, 0, SEEK_SET) ? -1 : syscall(SYS_getdents64, fd, &list, sizeof list);
    int  seen = 0;
    if (n < 0) failed = errno;
    for (long i = 0; i < n && !failed; seen++) {
      const listed *e = (const listed *)(const void *)(list.bytes + i);
      if (!remove_one(fd, e->name, depth)) failed = errno;
      i += e->bytes;
    }
    more = seen > 2; /* "." and ".." */
  }
  close(fd);
  errno = failed;
  return !failed;
}

static void on_end(int number) {
  clear(AT_FDCWD, folder, DEPTH);
  rmdir(folder);
  signal(number, SIG_DFL);
  raise(number); /* delivered when this returns */
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
  if (mkdir(folder, 0700)) TRI_FAIL(TRI_EFILE, "%s: cannot create a folder: %s", parent, strerror(errno));
  return TRI_OK;
}

tri_status tri_trial_begin(tri_comm *world, const char *parent, char path[TRI_CKPT_PATH_BYTES]) {
  unsigned long long key = (unsigned long long)(tri_unix_s() * 1000) << 20 | ((unsigned)getpid() & 0xfffff);
  tri_status         st;

  TRI_TRY(tri_host_bcast(world, &key, sizeof key, 0));
  if (snprintf(folder, sizeof folder, "%s/.trireme-bench-%016llx", parent, key) >= (int)sizeof folder)
    TRI_FAIL(TRI_EFILE, "%s: the path is too long", parent);
  arm();
  st = tri_agree(world, world->rank == 0 ? make(parent) : TRI_OK);
  if (st != TRI_OK) disarm();
  strcpy(path, folder);
  return st;
}

tri_status tri_trial_clear(void) {
  if (!clear(AT_FDCWD, folder, DEPTH))
    TRI_FAIL(TRI_EFILE, "%s: cannot empty the folder: %s", folder, strerror(errno));
  return TRI_OK;
}

static tri_status leave(void) {
  TRI_TRY(tri_trial_clear());
  if (rmdir(folder)) TRI_FAIL(TRI_EFILE, "%s: cannot remove the folder: %s", folder, strerror(errno));
  return TRI_OK;
}

tri_status tri_trial_end(tri_comm *world, tri_status st) {
  if (st != TRI_OK) {
    clear(AT_FDCWD, folder, DEPTH);
    rmdir(folder);
  } else
    st = tri_agree(world, world->rank == 0 ? leave() : TRI_OK);
  disarm();
  return st;
}
