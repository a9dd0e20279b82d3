/* checkpoint_space.c - checks and reserves disk space before a write can fail for lack of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* fallocate fails where posix_fallocate would write zeros */
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include "base/file.h"
#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
  OBJECT_BYTES = 1024,       /* measured: HDF5 1.10 takes 900 for a name of 40 bytes */
  LINE_BYTES = 160,          /* manifest bytes of a tensor without its names; measured: 90 to 130 */
  HEAD_BYTES = 1 << 14,      /* chosen for the manifest's head and the block ends of small files */
  BLOCK_BYTES = 1 << 16,     /* chosen as the least */
  BLOCK_BYTES_MOST = 4 << 20 /* chosen for 4000 tensors */
};

tri_ckpt_space tri_ckpt_space_reckon(const tri_ckpt_manifest *m, int n_rank, int64_t side_bytes) {
  tri_ckpt_space r = {0, side_bytes + HEAD_BYTES, BLOCK_BYTES};
  int64_t        n_slab = (int64_t)m->n_entry + n_rank; /* the last piece of each tensor and rank is short */

  /* All object headers go into one block, so that the tensors lie side by side. */
  while (r.block_bytes < (int64_t)m->n_entry * OBJECT_BYTES && r.block_bytes < BLOCK_BYTES_MOST)
    r.block_bytes *= 2;
  for (int i = 0; i < m->n_entry; i++) {
    const tri_ckpt_entry *e = &m->entry[i];
    r.tensor_bytes += e->bytes + (e->bytes >= TRI_CKPT_ALIGN_FROM_BYTES ? TRI_CKPT_ALIGN_BYTES : 0);
    r.rest_bytes += OBJECT_BYTES + LINE_BYTES + (int64_t)(strlen(e->t.group) + strlen(e->t.name));
    n_slab += e->bytes / TRI_CKPT_PIECE_BYTES;
  }
  r.rest_bytes += n_slab * (int64_t)sizeof(tri_ckpt_slab) + 2 * r.block_bytes;
  return r;
}

int64_t tri_ckpt_free_bytes(const char *dir) {
  struct statvfs fs;

  return statvfs(dir, &fs) || fs.f_blocks == 0 ? -1 : tri_folder_bytes_of(fs.f_bavail, fs.f_frsize);
}

/* Makes dir and the folders above it. */
static tri_status make_dir(const char *dir) {
  char path[TRI_CKPT_PATH_BYTES];
  int  why;

  TRI_TRY(tri_ckpt_path(path, "%s", dir));
  for (char *p = path + 1; *p; p++)
    if (*p == '/') {
      *p = 0;
      why = mkdir(path, 0777) ? errno : 0;
      if (why && !tri_folder_has(AT_FDCWD, path)) /* some file systems refuse even for an existing folder */
        TRI_FAIL(TRI_EFILE, "%s: the folder cannot be made: %s", path, strerror(why));
      *p = '/';
    }
  return tri_folder_make(dir);
}

/* Checks `ulimit -f` first, because writing past it ends the process. */
static tri_status check_limit(const char *path, int64_t bytes) {
  struct rlimit limit;

  if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)bytes)
    TRI_FAIL(TRI_EFILE, "%s: %" PRId64 " bytes are needed, but files may have only %llu (ulimit -f)", path,
             bytes, (unsigned long long)limit.rlim_cur);
  return TRI_OK;
}

/* Extends the open file to this size with reserved blocks. *promised is false if the file system cannot
 * reserve blocks. */
static tri_status take(const char *path, int fd, int64_t bytes, bool *promised) {
  int err;

  do err = fallocate(fd, 0, 0, (off_t)bytes) ? errno : 0;
  while (err == EINTR);
  if (err == ENOSPC || err == EDQUOT || err == EFBIG || err == EIO)
    TRI_FAIL(TRI_EFILE, "%s: %" PRId64 " bytes cannot be reserved (%s)", path, bytes, strerror(err));
  *promised = err == 0;
  return TRI_OK;
}

static tri_status write_spare(const char *path, int64_t bytes) {
  tri_status st = TRI_OK;
  char      *zeros;

  TRI_TRY(tri_host_alloc((size_t)bytes, 1, (void **)&zeros));
  TRI_TRY_DONE(tri_file_write(path, zeros, (size_t)bytes));
done:
  tri_host_free((void **)&zeros);
  return st;
}

/* Makes the folder writable by this user alone until it is filled. MPI opens state.h5 by its name, on every
 * node, and would follow another user's link. Some file systems cannot set modes (CIFS, NFS with access
 * lists). This is an error only if others may write there. */
static tri_status make_own(const char *folder, mode_t *mode) {
  struct stat sb;
  int         fd, why;

  if (mkdir(folder, 0777)) TRI_FAIL(TRI_EFILE, "%s: cannot be made: %s", folder, strerror(errno));
  fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened: %s", folder, strerror(errno));
  why = fstat(fd, &sb) ? errno : 0;
  if (!why && (sb.st_mode & 0077) && fchmod(fd, sb.st_mode & 07700) && (sb.st_mode & 0022)) why = errno;
  close(fd);
  if (why)
    TRI_FAIL(TRI_EFILE,
             "%s: other users may write there, and the mode cannot be changed (%s). Set umask 022.", folder,
             strerror(why));
  *mode = sb.st_mode & 07777;
  return TRI_OK;
}

static tri_status make_state(const char *folder) {
  char path[TRI_CKPT_PATH_BYTES];
  int  fd;

  TRI_TRY(tri_ckpt_path(path, "%s/state.h5", folder));
  TRI_TRY(tri_file_create(path, &fd));
  close(fd);
  return TRI_OK;
}

/* Reserves the space once, because only this reveals a quota, and frees it for the file written next. */
static tri_status try_space(const char *folder, int64_t need_bytes, int64_t spare_bytes) {
  char       path[TRI_CKPT_PATH_BYTES];
  bool       promised;
  int        fd;
  tri_status st;

  TRI_TRY(tri_ckpt_path(path, "%s/room", folder));
  TRI_TRY(check_limit(path, need_bytes));
  TRI_TRY(tri_file_create(path, &fd));
  st = take(path, fd, need_bytes, &promised);
  close(fd);
  TRI_TRY(st);
  TRI_TRY(tri_ckpt_space_give(folder));
  if (!promised) TRI_TRY(write_spare(path, spare_bytes));
  return TRI_OK;
}

tri_status tri_ckpt_space_prepare(const char *dir, const char *folder, const tri_ckpt_space *need,
                                  mode_t *mode) {
  int64_t        need_bytes = need->tensor_bytes + need->rest_bytes;
  struct statvfs fs;

  TRI_TRY(make_dir(dir));
  TRI_TRY(tri_ckpt_remove(folder));
  if (statvfs(dir, &fs)) TRI_FAIL(TRI_EFILE, "%s: %s", dir, strerror(errno));
  if (fs.f_blocks > 0 && (double)fs.f_bavail * (double)fs.f_frsize < (double)need_bytes)
    TRI_FAIL(TRI_EFILE,
             "%s: this checkpoint needs %" PRId64
             " bytes, but %.0f are free. Free some space, or set another run.output.",
             folder, need_bytes, (double)fs.f_bavail * (double)fs.f_frsize);
  TRI_TRY(make_own(folder, mode));
  TRI_TRY(make_state(folder));
  return try_space(folder, need_bytes, need->rest_bytes);
}

tri_status tri_ckpt_space_check(const char *folder, int rank, int64_t need_bytes) {
  if (access(folder, W_OK | X_OK))
    TRI_FAIL(TRI_EFILE,
             "%s: rank %d cannot write there (%s). Put run.output on a file system shared by all nodes.",
             folder, rank, strerror(errno));
  TRI_TRY(check_limit(folder, need_bytes));
  return TRI_OK;
}

/* Gives the file its final length before the ranks write. Ranks of several nodes write parts of one page.
 * An NFS client that takes the page to lie behind the end of the file sends zeros for the parts of other
 * nodes. */
static tri_status lengthen(const char *path, int fd, int64_t bytes) {
  struct stat sb;

  if (fstat(fd, &sb) || (sb.st_size < bytes && ftruncate(fd, (off_t)bytes)))
    TRI_FAIL(TRI_EFILE, "%s: %" PRId64 " bytes cannot be reserved (%s)", path, bytes, strerror(errno));
  return TRI_OK;
}

tri_status tri_ckpt_space_take(const char *path, int64_t bytes) {
  tri_status st;
  bool       promised;
  int        fd;

  TRI_TRY(check_limit(path, bytes));
  fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
  st = take(path, fd, bytes, &promised);
  if (st == TRI_OK && !promised) st = lengthen(path, fd, bytes);
  close(fd);
  return st;
}

tri_status tri_ckpt_space_give(const char *folder) {
  char path[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_ckpt_path(path, "%s/room", folder));
  if (unlink(path) && errno != ENOENT)
    TRI_FAIL(TRI_EFILE, "%s: cannot be removed: %s", path, strerror(errno));
  return TRI_OK;
}
