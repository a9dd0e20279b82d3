/* checkpoint_rehearsal.c - before a run has anything to lose: a checkpoint of a few bytes by the calls of a
 * whole one, and whether the disk has space for those that will come. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint_impl.h"

#include "base/columns.h"
#include "base/folder.h"
#include "base/notice.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the folder, and those above it, which go again */

/* How much of the path is there. */
static size_t standing(const char *path) {
  char   part[TRI_CKPT_PATH_BYTES];
  size_t n = strlen(path);

  memcpy(part, path, n + 1);
  while (n > 0 && !tri_folder_has(AT_FDCWD, part)) {
    while (n > 0 && part[n - 1] != '/') n--;
    while (n > 1 && part[n - 1] == '/') n--;
    if (n == 1 && part[0] == '/') break;
    part[n] = 0;
  }
  return n;
}

/* What was made of it. */
static void remove_made(const char *path, size_t stood) {
  char part[TRI_CKPT_PATH_BYTES];

  snprintf(part, sizeof part, "%s", path);
  for (size_t n = strlen(part); n > stood;) {
    part[n] = 0;
    if (rmdir(part) && errno != ENOENT) return; /* somebody has put something there */
    while (n > 0 && part[n - 1] != '/') n--;
    while (n > 1 && part[n - 1] == '/') n--;
  }
}

/* ---- space */

/* What helps beside space: a smaller limit only where so many, the fewest that it can ask for, fit. */
static const char *cure_of(int fewest, double bytes, double free_bytes) {
  return free_bytes >= fewest * bytes
             ? "choose a smaller checkpoint.save_total_limit"
             : "ask for fewer checkpoints or none (checkpoint.save_steps, checkpoint.save_minutes, "
               "checkpoint.save_final)";
}

tri_status tri_ckpt_check_space(const char *dir, const tri_ckpt_need *need) {
  char           path[TRI_CKPT_PATH_BYTES], all[TRI_CELL_BYTES], each[TRI_CELL_BYTES], left[TRI_CELL_BYTES];
  struct statvfs fs;
  size_t         stood;
  double         bytes = (double)need->bytes;

  TRI_TRY(tri_ckpt_path(path, "%s", dir));
  stood = standing(path);
  path[stood] = 0;
  if (statvfs(stood ? path : ".", &fs)) return TRI_OK; /* whoever writes there says what is wrong */
  if (need->sure > 0 && fs.f_files > 0 && fs.f_favail < (fsfilcnt_t)need->files)
    TRI_FAIL(
        TRI_EFILE,
        "%s: the file system has room for %llu more files (inodes), a checkpoint has %d; remove some, or "
        "give another run.output",
        dir, (unsigned long long)fs.f_favail, need->files);
  if (fs.f_blocks == 0) return TRI_OK; /* it does not tell */
  double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
  tri_cell_bytes(need->bytes, each);
  tri_cell_bytes(tri_folder_bytes_of(fs.f_bavail, fs.f_frsize), left);
  if (need->sure > 0 && free_bytes < need->sure * bytes) {
    tri_cell_bytes(need->sure * need->bytes, all);
    TRI_FAIL(
        TRI_EFILE,
        "%s: %d checkpoint%s at once need %s (%s each), %s are free; free some, give another run.output, or "
        "%s",
        dir, need->sure, need->sure == 1 ? "" : "s", all, each, left,
        cure_of(need->sure_of_1, bytes, free_bytes));
  }
  if (free_bytes >= need->most * bytes) return TRI_OK;
  tri_cell_bytes(need->most * need->bytes, all);
  tri_warn(
      "disk_too_small",
      "%s: up to %d checkpoint%s at once would need %s (%s each), %s are free: later ones may fail; free "
      "some, or %s",
      dir, need->most, need->most == 1 ? "" : "s", all, each, left,
      cure_of(need->most_of_1, bytes, free_bytes));
  return TRI_OK;
}

/* ---- the trial */

enum {
  TOKEN_BYTES = 17,
  SEEN_TRIES = 20,
  SEEN_MS = 100
}; /* chosen: a server's caches last a second or two */

/* Does this rank see the file that rank 0 has written, and no other one of its name? */
static tri_status see_token(const tri_comm *world, const char *folder, const char *token) {
  char path[TRI_CKPT_PATH_BYTES], got[TOKEN_BYTES] = "";

  TRI_TRY(tri_ckpt_path(path, "%s/trial", folder));
  for (int i = 0; i < SEEN_TRIES; i++) {
    int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, got, sizeof got);
    if (fd >= 0) close(fd);
    if (n == TOKEN_BYTES - 1 && !memcmp(got, token, TOKEN_BYTES - 1)) return TRI_OK;
    poll(NULL, 0, SEEN_MS);
  }
  TRI_FAIL(
      TRI_EFILE,
      "%s: rank %d does not see there what rank 0 has written: its node has a folder of its own under that "
      "name; run.output must be on a file system that all nodes share",
      folder, world->rank);
}

/* Collective over world. A tensor of one element a rank, a side file, an attribute. */
static tri_status write_trial(const char *dir, tri_comm *world, int64_t bytes) {
  const tri_ckpt_tensor of_ranks = {"/model", "trial", TRI_U8, 1, {world->size}};
  const unsigned char   mine = (unsigned char)world->rank;
  char                  token[TOKEN_BYTES], folder[TRI_CKPT_PATH_BYTES];
  tri_ckpt_writer      *w = NULL;
  tri_status            st = TRI_OK;

  snprintf(token, sizeof token, "%08x%08x", (unsigned)getpid(), (unsigned)(int64_t)(1e6 * tri_unix_s()));
  TRI_TRY(tri_host_bcast(world, token, sizeof token, 0));
  TRI_TRY(tri_ckpt_step_path(folder, dir, TRI_CKPT_TRIAL_STEP, TRI_CKPT_TMP));
  TRI_TRY(tri_ckpt_create_trial(dir, bytes, world, &of_ranks, &w));
  TRI_TRY_DONE(tri_ckpt_write(w, 0, world->rank, 1, &mine));
  TRI_TRY_DONE(tri_ckpt_put_i64(w, "step", TRI_CKPT_TRIAL_STEP));
  TRI_TRY_DONE(tri_ckpt_put_file(w, "trial", token, TOKEN_BYTES - 1));
  st = tri_ckpt_agree(world, see_token(world, folder, token));
  if (st == TRI_OK) st = tri_ckpt_commit(&w);
done:
  tri_ckpt_abandon(&w);
  return st;
}

/* The same of one process, without MPI and HDF5. */
static tri_status write_alone(const char *dir, int64_t bytes) {
  tri_ckpt_space space = {bytes, 1, 1};
  char           folder[TRI_CKPT_PATH_BYTES];
  mode_t         mode;
  tri_status     st = TRI_OK;

  TRI_TRY(tri_ckpt_step_path(folder, dir, TRI_CKPT_TRIAL_STEP, TRI_CKPT_TMP));
  TRI_TRY_DONE(tri_ckpt_space_prepare(dir, folder, &space, &mode));
  TRI_TRY_DONE(tri_ckpt_space_check(folder, 0, bytes));
  TRI_TRY_DONE(tri_ckpt_space_give(folder));
  TRI_TRY_DONE(tri_ckpt_sync(folder));
  TRI_TRY_DONE(tri_ckpt_rehearse_publish(dir));
  return TRI_OK;
done:
  if (tri_ckpt_remove(folder) != TRI_OK) tri_log(TRI_LOG_WARN, "%s: could not be removed", folder);
  return st;
}

enum { SPARE_FILES = 24 }; /* chosen: three times what MPI-IO has open for one, and the run for itself */

/* MPI-IO has no words for it. */
static tri_status check_open_files(const char *dir) {
  int fd[SPARE_FILES], n = 0, why = 0;

  while (n < SPARE_FILES && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) n++;
  if (n < SPARE_FILES) why = errno;
  for (int i = 0; i < n; i++) close(fd[i]);
  if (why == EMFILE || why == ENFILE)
    TRI_FAIL(
        TRI_EFILE,
        "%s: of the files that may be open at once (ulimit -n) %d are left, and a checkpoint wants %d: %s; "
        "raise it, ulimit -n 1024",
        dir, n, SPARE_FILES, strerror(why));
  return TRI_OK;
}

/* Collective over world, which may be NULL. */
static tri_status try_once(const char *dir, tri_comm *world, int64_t bytes) {
  return tri_ckpt_agree(world, world ? write_trial(dir, world, bytes) : write_alone(dir, bytes));
}

/* What fails once is no reason to end a run: a file server may have been away for a moment. */
static tri_status try_twice(const char *dir, tri_comm *world, int64_t bytes) {
  tri_status st = try_once(dir, world, bytes);

  if (st != TRI_EFILE) return st;
  if (!world || world->rank == 0)
    tri_log(TRI_LOG_INFO, "%s: a checkpoint written for a trial failed, it is tried once more: %s", dir,
            tri_error_message());
  tri_error_clear();
  return try_once(dir, world, bytes);
}

tri_status tri_ckpt_rehearse(const char *dir, tri_comm *world, int64_t bytes) {
  bool       first = !world || world->rank == 0;
  size_t     stood = 0;
  tri_status st;

  TRI_TRY(tri_ckpt_agree(world, tri_ckpt_check_library()));
  TRI_TRY(tri_ckpt_agree(world, check_open_files(dir)));
  if (first) stood = standing(dir);
  st = try_twice(dir, world, bytes);
  if (first) remove_made(dir, stood);
  return st;
}
