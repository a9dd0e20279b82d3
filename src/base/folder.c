/* folder.c - opens, creates and removes folders of a run. No link can lead out of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "folder.h"

#include "host_memory.h"
#include "text_buffer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

/* Finds the owner that the file system gives to new files next to the entry `name` of `at`. If it maps users,
 * the number differs from geteuid(). False: nothing can be created there. */
static bool find_owner(int at, const char *name, uid_t *owner) {
  const char *end = strrchr(name, '/');
  char        probe[4096];
  struct stat sb;
  bool        good;
  int         fd;

  if ((size_t)snprintf(probe, sizeof probe, "%.*s.owner-%ld.tmp", end ? (int)(end + 1 - name) : 0, name,
                       (long)getpid()) >= sizeof probe)
    return false;
  fd = openat(at, probe, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  good = !fstat(fd, &sb);
  if (good) *owner = sb.st_uid;
  close(fd);
  unlinkat(at, probe, 0);
  return good;
}

/* Checks that *sb, the entry `name` of `at`, belongs to this user. */
static tri_status check_owner(int at, const char *name, const char *path, const char *what,
                              const struct stat *sb) {
  uid_t owner;

  if (sb->st_uid == geteuid() || (find_owner(at, name, &owner) && owner == sb->st_uid)) return TRI_OK;
  TRI_FAIL(TRI_EFILE, "%s: %s of another user (%u, this program runs as %u) and stays untouched", path, what,
           (unsigned)sb->st_uid, (unsigned)geteuid());
}

/* Opens the target folder of a link that belongs to this user or root. */
static tri_status open_linked(const char *path, const struct stat *link, int *fd) {
  struct stat sb;
  tri_status  st = link->st_uid == 0 ? TRI_OK : check_owner(AT_FDCWD, path, path, "is a link", link);

  if (st != TRI_OK) return st;
  *fd = open(path, FOLDER_FLAGS);
  if (*fd < 0) TRI_FAIL(TRI_EFILE, "%s: is a link, but its target is no folder: %s", path, strerror(errno));
  if (fstat(*fd, &sb))
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: %s", path, strerror(errno));
  else /* tested inside, since the folder above it may be closed to us */
    st = check_owner(*fd, "", path, "is a link to a folder", &sb);
  if (st == TRI_OK) return TRI_OK;
  close(*fd);
  *fd = -1;
  return st;
}

tri_status tri_folder_open(const char *path, int *fd) {
  struct stat sb;
  int         why;

  *fd = open(path, FOLDER_FLAGS | O_NOFOLLOW);
  if (*fd >= 0 || errno == ENOENT) return TRI_OK;
  why = errno;
  if (!lstat(path, &sb) && S_ISLNK(sb.st_mode)) return open_linked(path, &sb, fd);
  TRI_FAIL(TRI_EFILE, "%s: cannot be opened as a folder: %s", path, strerror(why));
}

tri_status tri_folder_make(const char *path) {
  int fd, why;

  if (!mkdir(path, 0777)) return TRI_OK;
  why = errno;
  if (why == EEXIST) TRI_TRY(tri_folder_open(path, &fd));
  if (why != EEXIST || fd < 0)
    TRI_FAIL(TRI_EFILE, "%s: the folder cannot be created: %s", path, strerror(why));
  close(fd);
  return TRI_OK;
}

tri_status tri_folder_make_above(const char *path) {
  char      *above = NULL;
  tri_status st = tri_copy_text(path, &above);

  for (char *at = st == TRI_OK && *above ? above + 1 : NULL;
       at && st == TRI_OK && (at = strchr(at, '/')) != NULL; at++) {
    if (!at[strspn(at, "/")]) break; /* after the last part */
    *at = 0;
    if (mkdir(above, 0777) && errno != EEXIST)
      st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: the folder cannot be created: %s", above,
                    strerror(errno));
    *at = '/';
  }
  TRI_FREE(above);
  return st;
}

tri_status tri_folder_is_empty(const char *path, bool *empty) {
  DIR           *d = opendir(path);
  struct dirent *e;
  int            why;

  *empty = true;
  if (!d) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", path, strerror(errno));
  while (*empty && (errno = 0, e = readdir(d)) != NULL)
    *empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
  why = *empty ? errno : 0;
  closedir(d);
  if (why) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", path, strerror(why));
  return TRI_OK;
}

int64_t tri_folder_bytes_of(uint64_t blocks, uint64_t block_bytes) {
  return block_bytes && blocks > (uint64_t)INT64_MAX / block_bytes ? INT64_MAX
                                                                   : (int64_t)(blocks * block_bytes);
}

int64_t tri_folder_free_bytes(int fd) {
  struct statvfs v;

  return fstatvfs(fd, &v) ? -1 : tri_folder_bytes_of(v.f_bavail, v.f_frsize);
}

tri_status tri_folder_set_aside(const char *path, const char *aside) {
  struct stat sb;
  int         why = lstat(aside, &sb) ? errno : EEXIST;

  if (why == ENOENT) why = rename(path, aside) ? errno : 0;
  if (why) TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", path, aside, strerror(why));
  return TRI_OK;
}

bool tri_folder_has(int at, const char *name) {
  struct stat sb;

  return !fstatat(at, name, &sb, AT_SYMLINK_NOFOLLOW);
}

bool tri_folder_has_link(int at, const char *name) {
  struct stat sb;

  return !fstatat(at, name, &sb, AT_SYMLINK_NOFOLLOW) && S_ISLNK(sb.st_mode);
}

tri_status tri_folder_check_own(int at, const char *name, const char *path) {
  struct stat sb;

  if (fstatat(at, name, &sb, AT_SYMLINK_NOFOLLOW)) TRI_FAIL(TRI_EFILE, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(sb.st_mode)) TRI_FAIL(TRI_EFILE, "%s: is no folder and stays untouched", path);
  return check_owner(at, name, path, "is a folder", &sb);
}

static tri_status remove_entry(int fd, const char *name, const char *path) {
  if (unlinkat(fd, name, 0) && errno != ENOENT)
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be removed: %s", path, name, strerror(errno));
  return TRI_OK;
}

/* Removes all entries and closes d. */
static tri_status empty(DIR *d, const char *path, const char *first) {
  struct dirent *entry;
  tri_status     st = TRI_OK;

  if (first) TRI_TRY_DONE(remove_entry(dirfd(d), first, path));
  while ((entry = readdir(d)))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      TRI_TRY_DONE(remove_entry(dirfd(d), entry->d_name, path));
done:
  closedir(d);
  return st;
}

/* Opens a folder of this user for emptying. NULL on failure. */
static DIR *open_own(int at, const char *name, const char *path) {
  struct stat sb;
  DIR        *d = NULL;
  int         fd = openat(at, name, FOLDER_FLAGS | O_NOFOLLOW);

  if (fd < 0 || fstat(fd, &sb))
    tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot be removed as a folder: %s", path,
             strerror(errno));
  else if (check_owner(at, name, path, "is a folder", &sb) == TRI_OK && !(d = fdopendir(fd)))
    tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot be read: %s", path, strerror(errno));
  if (!d && fd >= 0) close(fd);
  return d;
}

tri_status tri_folder_remove(int at, const char *name, const char *path, const char *first) {
  struct stat sb;
  DIR        *d;

  if (fstatat(at, name, &sb, AT_SYMLINK_NOFOLLOW)) {
    if (errno == ENOENT || errno == ENOTDIR) return TRI_OK;
    TRI_FAIL(TRI_EFILE, "%s: cannot be removed: %s", path, strerror(errno));
  }
  if (S_ISLNK(sb.st_mode)) {
    if (unlinkat(at, name, 0))
      TRI_FAIL(TRI_EFILE, "%s: the link cannot be removed: %s", path, strerror(errno));
    return TRI_OK;
  }
  d = open_own(at, name, path);
  if (!d) return TRI_EFILE;
  TRI_TRY(empty(d, path, first));
  if (unlinkat(at, name, AT_REMOVEDIR) && errno != ENOENT)
    TRI_FAIL(TRI_EFILE, "%s: cannot be removed: %s", path, strerror(errno));
  return TRI_OK;
}
