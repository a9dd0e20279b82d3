/* file.c - opens, reads and writes files. Never blocks on a file, follows a link for writing, or overwrites
 * unasked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "file.h"

#include "host_memory.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a named pipe"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISCHR(mode)  ? "a device"
         : S_ISBLK(mode)  ? "a device"
                          : "no regular file";
}

/* Closes *fd unless it is a regular file. */
static tri_status check_regular(const char *path, tri_status code, int *fd) {
  struct stat sb = {0};

  if (!fstat(*fd, &sb) && S_ISREG(sb.st_mode)) return TRI_OK;
  close(*fd);
  *fd = -1;
  TRI_FAIL(code, "%s: is %s, but must be a regular file", path, kind_of(sb.st_mode));
}

bool tri_file_exists(const char *path) {
  struct stat sb;

  return stat(path, &sb) == 0;
}

bool tri_file_in(const char *folder, const char *name) {
  char path[4096 + 256]; /* PATH_MAX, NAME_MAX */

  return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path && tri_file_exists(path);
}

/* *gone: the file does not exist. With gone NULL a missing file is an error. */
static tri_status open_to_read(int at, const char *path, const char *shown, int *fd, bool *gone) {
  *fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (gone) *gone = *fd < 0 && (errno == ENOENT || errno == ENOTDIR);
  if (gone && *gone) return TRI_OK;
  if (*fd < 0) TRI_FAIL(TRI_EINPUT, "%s: cannot be opened: %s", shown, strerror(errno));
  return check_regular(shown, TRI_EINPUT, fd);
}

tri_status tri_file_open_at(int at, const char *path, const char *shown, int *fd) {
  return open_to_read(at, path, shown, fd, NULL);
}

tri_status tri_file_open_if(const char *path, int *fd) {
  bool gone;

  return open_to_read(AT_FDCWD, path, path, fd, &gone);
}

tri_status tri_file_open(const char *path, int *fd) { return tri_file_open_at(AT_FDCWD, path, path, fd); }

tri_status tri_file_create(const char *path, int *fd) {
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

  *fd = open(path, flags, 0666);
  if (*fd < 0 && errno == EEXIST && !unlink(path)) *fd = open(path, flags, 0666);
  if (*fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
  return TRI_OK;
}

static tri_status open_to_append(const char *path, int *fd) {
  *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  if (*fd < 0 && errno == ELOOP)
    TRI_FAIL(TRI_EFILE, "%s: is a link, and links are not followed here. Remove it or give another folder",
             path);
  if (*fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
  return check_regular(path, TRI_EFILE, fd);
}

/* A copy takes this name. The other names keep the file. */
static tri_status part_from_other_names(const char *path) {
  tri_status st = TRI_OK;
  char      *bytes = NULL;
  size_t     n;

  TRI_TRY_DONE(tri_file_read(path, SIZE_MAX / 2, &bytes, &n));
  TRI_TRY_DONE(tri_file_write(path, bytes, n));
done:
  tri_host_free((void **)&bytes);
  return st == TRI_EINPUT ? TRI_EFILE : st; /* the file is not the user's input */
}

tri_status tri_file_append(const char *path, int *fd) {
  struct stat sb;

  TRI_TRY(open_to_append(path, fd));
  if (fstat(*fd, &sb) || sb.st_nlink <= 1) return TRI_OK;
  close(*fd);
  *fd = -1;
  TRI_TRY(part_from_other_names(path));
  return open_to_append(path, fd);
}

tri_status tri_file_read_open(int fd, const char *path, size_t limit_bytes, char **out, size_t *n_bytes) {
  tri_status  st = TRI_OK;
  struct stat sb;
  size_t      have = 0, size;

  *out = NULL;
  *n_bytes = 0;
  if (fstat(fd, &sb)) TRI_FAIL_DONE(TRI_EFILE, "%s: %s", path, strerror(errno));
  size = (size_t)sb.st_size;
  if (size > limit_bytes)
    TRI_FAIL_DONE(TRI_EINPUT, "%s: has %zu bytes, but at most %zu are accepted here", path, size,
                  limit_bytes);
  TRI_TRY_DONE(tri_host_alloc(size + 1, 1, (void **)out));
  while (have < size) {
    ssize_t n = read(fd, *out + have, size - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      TRI_FAIL_DONE(TRI_EFILE, "%s: reading stopped after %zu of %zu bytes: %s", path, have, size,
                    n ? strerror(errno) : "the file became shorter");
    have += (size_t)n;
  }
  *n_bytes = size;
done:
  if (st != TRI_OK) tri_host_free((void **)out);
  return st;
}

tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *n_bytes) {
  tri_status st;
  int        fd;

  *out = NULL;
  *n_bytes = 0;
  TRI_TRY(tri_file_open(path, &fd));
  st = tri_file_read_open(fd, path, limit_bytes, out, n_bytes);
  close(fd);
  return st;
}

int tri_file_put(int fd, const void *bytes, int64_t n, int64_t offset) {
  for (int64_t have = 0; have < n;) {
    ssize_t done = pwrite(fd, (const char *)bytes + have, (size_t)(n - have), (off_t)(offset + have));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : EIO;
    have += done;
  }
  return 0;
}

tri_status tri_file_put_end(int fd, const char *path, const void *bytes, size_t n) {
  off_t end = lseek(fd, 0, SEEK_END);
  int   why = end < 0 ? errno : tri_file_put(fd, bytes, (int64_t)n, end);

  if (!why) return TRI_OK;
  if (end < 0 || ftruncate(fd, end))
    tri_log(TRI_LOG_WARN, "%s: may end with a partial line: %s", path, strerror(errno));
  TRI_FAIL(TRI_EFILE, "%s: writing failed: %s", path, strerror(why));
}

/* Sets the two names: path, and the temporary one with `middle` after it. */
static tri_status set_names(const char *path, const char *middle, tri_file_pieces *out) {
  if ((size_t)snprintf(out->path, sizeof out->path, "%s", path) >= sizeof out->path ||
      (size_t)snprintf(out->tmp, sizeof out->tmp, "%s%s.tmp", path, middle) >= sizeof out->tmp)
    TRI_FAIL(TRI_EFILE, "%s: the path is too long", path);
  return TRI_OK;
}

tri_status tri_pieces_begin(const char *path, tri_file_pieces *out) {
  *out = (tri_file_pieces){.fd = -1};
  TRI_TRY(set_names(path, "", out));
  TRI_TRY(tri_file_create(out->tmp, &out->fd));
  out->open = true;
  return TRI_OK;
}

/* Six hex digits from the clock and the process number. A foreign file of this name is noticed and not
 * replaced. */
static void choose_middle(int turn, char out[8]) {
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t mixed = ((uint64_t)now.tv_nsec + (uint64_t)getpid() + (uint64_t)turn) * 0x9E3779B97F4A7C15u;
  snprintf(out, 8, ".%06x", (unsigned)(mixed >> 40));
}

tri_status tri_pieces_begin_named(const char *path, bool replaces, tri_file_pieces *out) {
  enum { TURNS = 100 }; /* chosen: tries among 16 million names */
  char middle[8];

  *out = (tri_file_pieces){.fd = -1, .keeps = !replaces};
  for (int i = 0; i < TURNS; i++) {
    choose_middle(i, middle);
    TRI_TRY(set_names(path, middle, out));
    out->fd = open(out->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (out->fd >= 0 || errno != EEXIST) break;
  }
  if (out->fd < 0)
    TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s%s", path, strerror(errno),
             errno == ENOENT ? ". Its folder must exist" : "");
  out->open = true;
  return TRI_OK;
}

tri_status tri_pieces_put(tri_file_pieces *f, const void *bytes, size_t n_bytes) {
  int why = tri_file_put(f->fd, bytes, (int64_t)n_bytes, f->bytes);

  if (why) TRI_FAIL(TRI_EFILE, "%s: writing failed: %s", f->tmp, strerror(why));
  f->bytes += (int64_t)n_bytes;
  return TRI_OK;
}

static bool are_same(const char *a, const char *b) {
  struct stat of_a, of_b;

  return !lstat(a, &of_a) && !lstat(b, &of_b) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* Gives the file its name. Returns 0 or errno. EEXIST: a file exists there and must stay. */
static int publish(const tri_file_pieces *f) {
  int fd, why = 0;

  if (!f->keeps) return rename(f->tmp, f->path) ? errno : 0;
  if (link(f->tmp, f->path)) why = errno;
  if (why == EEXIST && are_same(f->tmp, f->path)) why = 0; /* NFS lost the answer and asked again */
  if (!why) unlink(f->tmp);
  if (!why || why == EEXIST) return why;
  /* The file system has no hard links, so an empty file reserves the name first. */
  fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  close(fd);
  if (!rename(f->tmp, f->path)) return 0;
  why = errno;
  unlink(f->path);
  return why;
}

tri_status tri_pieces_end(tri_file_pieces *f) {
  int        why;
  tri_status st = TRI_OK;

  if (fsync(f->fd)) TRI_FAIL_DONE(TRI_EFILE, "%s: writing failed: %s", f->tmp, strerror(errno));
  f->open = false;
  if (close(f->fd)) TRI_FAIL_DONE(TRI_EFILE, "%s: closing failed: %s", f->tmp, strerror(errno));
  why = publish(f);
  if (why == EEXIST && f->keeps)
    TRI_FAIL(TRI_EFILE, "%s: was created meanwhile and is kept. The new file is %s", f->path, f->tmp);
  if (why) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be renamed: %s", f->tmp, strerror(why));
done:
  if (st != TRI_OK && !f->open) unlink(f->tmp);
  if (st != TRI_OK) tri_pieces_drop(f);
  return st;
}

void tri_pieces_drop(tri_file_pieces *f) {
  if (!f->open) return;
  close(f->fd);
  unlink(f->tmp);
  f->open = false;
}

static tri_status write_begun(tri_file_pieces *f, const void *bytes, size_t n_bytes) {
  tri_status st = tri_pieces_put(f, bytes, n_bytes);

  if (st == TRI_OK) return tri_pieces_end(f);
  tri_pieces_drop(f);
  return st;
}

tri_status tri_file_write(const char *path, const void *bytes, size_t n_bytes) {
  tri_file_pieces f;

  TRI_TRY(tri_pieces_begin(path, &f));
  return write_begun(&f, bytes, n_bytes);
}

tri_status tri_file_write_named(const char *path, bool replaces, const void *bytes, size_t n_bytes) {
  tri_file_pieces f;

  TRI_TRY(tri_pieces_begin_named(path, replaces, &f));
  return write_begun(&f, bytes, n_bytes);
}
