/* exam_folder.c - tests whether every node can write, read and lock files in the folder of checkpoints. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exam_folder.h"
#include "base/file.h"
#include "base/folder.h"
#include "io/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
  ROW_BYTES = 4 << 20,
  SEEN_TRIES = 30,
  SEEN_MS = 100,
  PATH_BYTES = 4352
}; /* chosen. NFS may show a new file seconds later */

void tri_folder_there(const char *path, char *out, size_t cap) {
  char *slash;

  snprintf(out, cap, "%s", path);
  while (!tri_file_exists(out)) {
    slash = strrchr(out, '/');
    if (!slash) {
      snprintf(out, cap, ".");
      return;
    }
    slash[slash == out] = '\0';
    if (!strcmp(out, "/")) return;
  }
}

/* Returns the name of a folder's file system by its number (statfs(2), linux/magic.h, and the sources of
 * Lustre and BeeGFS). */
static const char *kind_of(const char *folder) {
  static const struct {
    unsigned    magic;
    const char *name;
  } row[] = {{0x0bd00bd0, "lustre"},  {0x6969, "nfs"},      {0x19830326, "beegfs"}, {0x47504653, "gpfs"},
             {0x01021994, "tmpfs"},   {0xef53, "ext4"},     {0x58465342, "xfs"},    {0x9123683e, "btrfs"},
             {0x794c7630, "overlay"}, {0x65735546, "fuse"}, {0x00c36400, "ceph"},   {0xff534d42, "cifs"}};
  struct statfs fs;

  if (!statfs(folder, &fs))
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
      if ((unsigned)fs.f_type == row[i].magic) return row[i].name;
  return "";
}

/* Writes a new file with these bytes to the disk. Returns 0 or errno. The file remains if it was created. */
static int write_file(const char *path, const void *bytes, size_t n) {
  int error = 0, fd;

  unlink(path);
  fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  if (write(fd, bytes, n) != (ssize_t)n || fsync(fd)) error = errno ? errno : EIO;
  close(fd);
  return error;
}

/* Takes both kinds of locks, as run.output and MPI do. Stores errno of each. */
static void try_locks(const char *path, tri_folder_facts *x) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int          fd = open(path, O_RDWR | O_CLOEXEC);

  if (fd < 0) return;
  if (flock(fd, LOCK_EX | LOCK_NB)) x->flock = errno;
  if (fcntl(fd, F_SETLK, &whole)) x->fcntl = errno;
  close(fd);
}

/* Reads the file and compares it with these bytes. Returns 0 or errno, ENODATA for other bytes. */
static int see_file(const char *path, const void *bytes, size_t n) {
  char got[64];
  int  error = ENODATA, fd;

  for (int i = 0; i < SEEN_TRIES && error; i++) {
    if (i) poll(NULL, 0, SEEN_MS);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    error = fd < 0 ? errno : 0;
    if (fd < 0) continue;
    if (read(fd, got, sizeof got) != (ssize_t)n || memcmp(got, bytes, n)) error = ENODATA;
    close(fd);
  }
  return error;
}

/* Tests the folder from the first rank of a node. seen: rank 0 has written the file `first`. */
static void try_here(const char *folder, const char *own, const char *first, const char *nonce, bool seen,
                     tri_folder_facts *x) {
  struct statvfs fs;

  x->tried = 1;
  snprintf(x->kind, sizeof x->kind, "%s", kind_of(folder));
  x->free_bytes = statvfs(folder, &fs) ? TRI_FACTS_UNKNOWN : tri_folder_bytes_of(fs.f_bavail, fs.f_frsize);
  if (seen) x->seen = see_file(first, nonce, strlen(nonce));
  x->write = write_file(own, nonce, strlen(nonce));
  if (!x->write) try_locks(own, x);
  unlink(own);
}

tri_status tri_folder_try(const tri_session *se, const char *folder, uint64_t key, tri_folder_facts *out,
                          bool *whole) {
  tri_comm *world = se->comm[TRI_WORLD];
  char      first[PATH_BYTES], own[PATH_BYTES + 16], nonce[32];
  int64_t   bad = 0;

  *out = (tri_folder_facts){0};
  snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)key);
  snprintf(first, sizeof first, "%s/.trireme-doctor-%s", folder, nonce);
  snprintf(own, sizeof own, "%s.%d", first, world->rank);
  if (world->rank == 0) bad = write_file(first, nonce, strlen(nonce));
  TRI_TRY(tri_host_max(world, &bad, 1));
  if (se->rt.machine_rank == 0) try_here(folder, own, first, nonce, !bad, out);
  bad = out->write || out->seen || out->fcntl;
  TRI_TRY(tri_host_max(world, &bad, 1));
  if (world->rank == 0) unlink(first);
  *whole = !bad;
  return TRI_OK;
}

tri_status tri_folder_write(const tri_session *se, const char *folder, uint64_t key, tri_folder_trial *out) {
  tri_comm  *world = se->comm[TRI_WORLD];
  char       path[PATH_BYTES];
  tri_status st;

  *out = (tri_folder_trial){.bytes = (int64_t)ROW_BYTES * world->size};
  snprintf(path, sizeof path, "%s/.trireme-doctor-%016llx.h5", folder, (unsigned long long)key);
  st = tri_ckpt_rehearse(folder, world, 0);
  if (st == TRI_OK) {
    st = tri_ckpt_trial(world, path, ROW_BYTES, &out->write_s, &out->read_s);
    if (world->rank == 0) unlink(path);
  }
  if (st != TRI_EFILE && st != TRI_EDEVICE) return st;
  snprintf(out->hdf5, sizeof out->hdf5, "%s", tri_error_message());
  tri_error_clear();
  return TRI_OK;
}
