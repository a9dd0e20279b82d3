/* checkpoint_rehearsal.c - checks, before a run has anything to lose, that checkpoints can be written and
 * have disk space. */
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

/* ---- folders made for the trial and removed again */

/* Returns how many bytes of the path name an existing folder. */
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

/* Removes the folders that the trial made below the first `stood` bytes of the path. */
static void remove_made(const char *path, size_t stood) {
  char part[TRI_CKPT_PATH_BYTES];

  snprintf(part, sizeof part, "%s", path);
  for (size_t n = strlen(part); n > stood;) {
    part[n] = 0;
    if (rmdir(part) && errno != ENOENT) return; /* no longer empty */
    while (n > 0 && part[n - 1] != '/') n--;
    while (n > 1 && part[n - 1] == '/') n--;
  }
}

/* ---- disk space */

/* Returns a cure besides freeing space. A smaller limit helps only if the checkpoints of the smallest limit
 * fit. */
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
  if (statvfs(stood ? path : ".", &fs)) return TRI_OK; /* the writer reports the error */
  if (need->sure > 0 && fs.f_files > 0 && fs.f_favail < (fsfilcnt_t)need->files)
    TRI_FAIL(TRI_EFILE,
             "%s: the file system can hold %llu more files (inodes), but a checkpoint has %d. Remove some "
             "files, or set another run.output.",
             dir, (unsigned long long)fs.f_favail, need->files);
  if (fs.f_blocks == 0) return TRI_OK; /* the file system does not tell */
  double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
  tri_cell_bytes(need->bytes, each);
  tri_cell_bytes(tri_folder_bytes_of(fs.f_bavail, fs.f_frsize), left);
  if (need->sure > 0 && free_bytes < need->sure * bytes) {
    tri_cell_bytes(need->sure * need->bytes, all);
    TRI_FAIL(TRI_EFILE,
             "%s: %d checkpoint%s at once need %s (%s each), but %s are free. Free some space, set "
             "another run.output, or %s.",
             dir, need->sure, need->sure == 1 ? "" : "s", all, each, left,
             cure_of(need->sure_of_1, bytes, free_bytes));
  }
  if (free_bytes >= need->most * bytes) return TRI_OK;
  tri_cell_bytes(need->most * need->bytes, all);
  tri_warn("disk_too_small",
           "%s: up to %d checkpoint%s at once would need %s (%s each), but %s are free, so later saves "
           "may fail. Free some space, or %s.",
           dir, need->most, need->most == 1 ? "" : "s", all, each, left,
           cure_of(need->most_of_1, bytes, free_bytes));
  return TRI_OK;
}

/* ---- the trial */

enum {
  TOKEN_BYTES = 17,
  SEEN_TRIES = 20,
  SEEN_MS = 100
}; /* chosen: a server's caches last one or two seconds */

/* Checks that this rank sees the file written by rank 0, and not another of the same name. */
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
  TRI_FAIL(TRI_EFILE,
           "%s: rank %d does not see the file that rank 0 wrote there, because its node has its own "
           "folder under this name. Put run.output on a file system shared by all nodes.",
           folder, world->rank);
}

/* Collective over world. Writes a checkpoint with a tensor of one element for each rank, a side file and an
 * attribute. */
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

/* Does the same in one process, without MPI and HDF5. */
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

enum { SPARE_FILES = 24 }; /* chosen: three times the files that MPI-IO opens for one, and the run's own */

/* Checks the limit of open files, because MPI-IO's error does not name it. */
static tri_status check_open_files(const char *dir) {
  int fd[SPARE_FILES], n = 0, why = 0;

  while (n < SPARE_FILES && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) n++;
  if (n < SPARE_FILES) why = errno;
  for (int i = 0; i < n; i++) close(fd[i]);
  if (why == EMFILE || why == ENFILE)
    TRI_FAIL(TRI_EFILE,
             "%s: this process can open %d more files (ulimit -n), but a checkpoint needs %d (%s). Raise "
             "the limit with ulimit -n 1024.",
             dir, n, SPARE_FILES, strerror(why));
  return TRI_OK;
}

/* Collective over world, which may be NULL. */
static tri_status try_once(const char *dir, tri_comm *world, int64_t bytes) {
  return tri_ckpt_agree(world, world ? write_trial(dir, world, bytes) : write_alone(dir, bytes));
}

/* One failure does not end the run, because a file server may have been away for a moment. */
static tri_status try_twice(const char *dir, tri_comm *world, int64_t bytes) {
  tri_status st = try_once(dir, world, bytes);

  if (st != TRI_EFILE) return st;
  if (!world || world->rank == 0)
    tri_log(TRI_LOG_INFO, "%s: the trial checkpoint failed and is tried once more: %s", dir,
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
