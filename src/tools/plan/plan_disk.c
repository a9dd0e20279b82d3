/* plan_disk.c - reads the free bytes and the user's quota of a checkpoint's file system. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/folder.h"
#include "plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the bytes left of the user's quota, or -1. Linux 5.14 has a call for local file systems. NFS and
 * Lustre answer other calls. */
static int64_t quota_of(int fd) {
#ifdef SYS_quotactl_fd
  const unsigned ask =
      (unsigned)Q_GETQUOTA << SUBCMDSHIFT | USRQUOTA; /* QCMD shifts into the sign of an int */
  struct dqblk q = {0};

  if (syscall(SYS_quotactl_fd, fd, ask, (int)getuid(), &q)) return -1;
  if (!(q.dqb_valid & QIF_BLIMITS) || !(q.dqb_valid & QIF_SPACE) || !q.dqb_bhardlimit) return -1;
  if (q.dqb_bhardlimit > (uint64_t)INT64_MAX / QIF_DQBLKSIZE) return -1;
  int64_t left = (int64_t)(q.dqb_bhardlimit * QIF_DQBLKSIZE) - (int64_t)q.dqb_curspace;
  return left > 0 ? left : 0;
#else
  (void)fd;
  return -1;
#endif
}

void tri_plan_look_at_disk(const char *folder, tri_plan_disk *out) {
  char path[TRI_CKPT_PATH_BYTES];
  int  fd = -1;

  *out = (tri_plan_disk){-1, -1};
  snprintf(path, sizeof path, "%s", folder);
  while ((fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
    char *slash = strrchr(path, '/');
    if (!strcmp(path, ".") || !strcmp(path, "/")) return;
    if (slash == path) slash++; /* "/a" becomes "/" */
    if (slash)
      *slash = 0;
    else
      strcpy(path, ".");
  }
  out->free = tri_folder_free_bytes(fd);
  out->quota = quota_of(fd);
  close(fd);
}
