/* checkpoint_path.c - has small helpers of all these files: paths, fsync, agreement of the ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include <stdarg.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

tri_status tri_ckpt_agree(tri_comm *world, tri_status mine) { return world ? tri_agree(world, mine) : mine; }

tri_status tri_ckpt_share(tri_comm *world, char **bytes, size_t *n) {
  tri_status st = TRI_OK;

  if (!world) return TRI_OK;
  TRI_TRY(tri_host_bcast(world, n, sizeof *n, 0));
  if (world->rank != 0) st = tri_host_alloc(*n + 1, 1, (void **)bytes);
  TRI_TRY(tri_ckpt_agree(world, st));
  return *n ? tri_host_bcast(world, *bytes, *n, 0) : TRI_OK;
}

tri_status tri_ckpt_path(char out[TRI_CKPT_PATH_BYTES], const char *fmt, ...) {
  va_list ap;
  int     n;

  va_start(ap, fmt);
  n = vsnprintf(out, TRI_CKPT_PATH_BYTES, fmt, ap);
  va_end(ap);
  if (n < 0 || n >= TRI_CKPT_PATH_BYTES) {
    out[0] = 0;
    TRI_FAIL(TRI_EFILE, "a path of %d bytes is too long, at most %d are possible", n,
             TRI_CKPT_PATH_BYTES - 1);
  }
  return TRI_OK;
}

tri_status tri_ckpt_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC), bad;

  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened for fsync (%s)", path, strerror(errno));
  bad = fsync(fd) && errno != EINVAL; /* EINVAL: nothing to sync on this file system */
  if (bad) tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: fsync failed (%s)", path, strerror(errno));
  close(fd);
  return bad ? TRI_EFILE : TRI_OK;
}
