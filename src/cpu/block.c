/* block.c - allocates blocks of memory that other ranks of this machine can map. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_cpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SHM_FOLDER "/dev/shm"

/* Chosen. Pages are allocated in pieces, because a signal makes the kernel roll back a whole posix_fallocate
 * call. */
static const size_t piece_bytes = (size_t)64 << 20;

/* Names are trireme-<user>-<process>-<number>. A process killed before tri_comm_start leaves its names
 * behind. A name is removed only if its process is gone and nobody holds the lock, because process numbers
 * mean nothing in another container. */
void tri_cpu_block_remove_stale(void) {
  char           prefix[32];
  DIR           *folder = opendir(SHM_FOLDER);
  struct dirent *entry;

  if (!folder) return;
  snprintf(prefix, sizeof prefix, "trireme-%ld-", (long)getuid());
  while ((entry = readdir(folder))) {
    const char *number = entry->d_name + strlen(prefix);
    char        name[300], *end;
    long        pid;
    int         fd;
    if (strncmp(entry->d_name, prefix, strlen(prefix))) continue;
    pid = strtol(number, &end, 10);
    if (end == number || *end != '-' || pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
    snprintf(name, sizeof name, "/%s", entry->d_name);
    fd = shm_open(name, O_RDWR, 0);
    if (fd < 0) continue;
    if (!flock(fd, LOCK_EX | LOCK_NB)) shm_unlink(name);
    close(fd);
  }
  closedir(folder);
}

/* Creates, opens and locks a new name. Returns -1 with errno on failure. */
static int open_name(tri_cpu_block *b) {
  static int number;
  int        fd;

  do {
    snprintf(b->name, sizeof b->name, "/trireme-%ld-%ld-%d", (long)getuid(), (long)getpid(), number++);
    fd = shm_open(b->name, O_RDWR | O_CREAT | O_EXCL, 0600);
  } while (fd < 0 && errno == EEXIST);
  if (fd >= 0) flock(fd, LOCK_SH | LOCK_NB);
  return fd;
}

static int take_pages(int fd, size_t bytes) {
  for (size_t have = 0; have < bytes;) {
    size_t n = bytes - have < piece_bytes ? bytes - have : piece_bytes;
    int    error = posix_fallocate(fd, (off_t)have, (off_t)n);
    if (error == EINTR) continue;
    if (error) return error;
    have += n;
  }
  return 0;
}

/* Fills b and returns true, or stores the reason in b->why_private and returns false. */
static bool open_shared(size_t bytes, tri_cpu_block *b) {
  struct statvfs fs;
  int            error;

  if (!statvfs(SHM_FOLDER, &fs) && (size_t)fs.f_bavail * fs.f_frsize < bytes) {
    snprintf(b->why_private, sizeof b->why_private, SHM_FOLDER " has %zu bytes free, but %zu are needed",
             (size_t)fs.f_bavail * fs.f_frsize, bytes);
    return false;
  }
  b->fd = open_name(b);
  if (b->fd < 0) {
    snprintf(b->why_private, sizeof b->why_private, "shared memory cannot be created: %s", strerror(errno));
    b->name[0] = 0;
    return false;
  }
  error = take_pages(b->fd, bytes);
  if (!error) {
    b->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (b->data == MAP_FAILED) error = errno;
  }
  if (error) {
    snprintf(b->why_private, sizeof b->why_private, "%zu bytes of shared memory cannot be allocated: %s",
             bytes, strerror(error));
    b->data = NULL;
    tri_cpu_block_unname(b);
    return false;
  }
  madvise(b->data, bytes, MADV_HUGEPAGE); /* only a hint, as most machines disable it for shared memory */
  b->shared = true;
  return true;
}

/* The size of a large page. Threads touch the pages of a private block in turn. So on a machine with several
 * NUMA nodes, the block lies on all of them. */
static const size_t touch_bytes = (size_t)2 << 20;

static void touch(char *p, size_t bytes, int threads) {
  size_t  page = (size_t)sysconf(_SC_PAGESIZE);
  int64_t n = (int64_t)((bytes + touch_bytes - 1) / touch_bytes);

#pragma omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1 && n > 1)
  for (int64_t i = 0; i < n; i++) {
    size_t at = (size_t)i * touch_bytes, end = bytes - at < touch_bytes ? bytes : at + touch_bytes;
    for (; at < end; at += page) *(volatile char *)(p + at) = 0;
  }
}

static tri_status open_private(size_t bytes, int threads, tri_cpu_block *b) {
  char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (p == MAP_FAILED)
    TRI_FAIL(TRI_ENOMEM, "%zu bytes of memory cannot be allocated: %s", bytes, strerror(errno));
  madvise(p, bytes, MADV_HUGEPAGE);
  touch(p, bytes, threads);
  b->data = p;
  return TRI_OK;
}

tri_status tri_cpu_block_open(size_t bytes, bool share, int threads, tri_cpu_block *out) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes_free, bytes_total;

  *out = (tri_cpu_block){.fd = -1};
  if (bytes > PTRDIFF_MAX - page) TRI_FAIL(TRI_ENOMEM, "a block of %zu bytes is too large", bytes);
  bytes = bytes ? (bytes + page - 1) / page * page : page;
  TRI_TRY(tri_cpu_mem_info(&bytes_free, &bytes_total));
  if (bytes > bytes_free)
    TRI_FAIL(TRI_ENOMEM, "this machine has %zu bytes of memory free (of %zu), but one block needs %zu",
             bytes_free, bytes_total, bytes);
  if (!share || !open_shared(bytes, out)) TRI_TRY(open_private(bytes, threads, out));
  out->bytes = bytes;
  return TRI_OK;
}

void tri_cpu_block_unname(tri_cpu_block *b) {
  if (b->name[0]) shm_unlink(b->name);
  if (b->fd >= 0) close(b->fd);
  b->name[0] = 0;
  b->fd = -1;
}

void tri_cpu_block_close(tri_cpu_block *b) {
  tri_cpu_block_unname(b);
  if (b->data) munmap(b->data, b->bytes);
  *b = (tri_cpu_block){.fd = -1};
}

tri_status tri_cpu_map_open(const char *name, size_t bytes, const void **out) {
  struct stat sb;
  void       *p = MAP_FAILED;
  int         fd = shm_open(name, O_RDONLY, 0);

  *out = NULL;
  if (fd < 0)
    TRI_FAIL(TRI_ECOMM, "the shared memory %s of another rank cannot be opened: %s", name, strerror(errno));
  if (!fstat(fd, &sb) && (size_t)sb.st_size == bytes) p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED)
    TRI_FAIL(TRI_ECOMM, "the shared memory %s of another rank cannot be mapped (%zu bytes)", name, bytes);
  *out = p;
  return TRI_OK;
}

void tri_cpu_map_close(const void **p, size_t bytes) {
  if (*p) munmap((void *)(uintptr_t)*p, bytes);
  *p = NULL;
}

tri_status tri_cpu_block_reopen(const char *name, int *fd) {
  *fd = shm_open(name, O_RDWR, 0);
  if (*fd < 0)
    TRI_FAIL(TRI_ECOMM, "the shared memory %s of a rank cannot be opened: %s", name, strerror(errno));
  return TRI_OK;
}

tri_status tri_cpu_row_open(int n, const int *fd, const int64_t *offset, size_t bytes, tri_cpu_row *out) {
  size_t all = (size_t)n * bytes;
  void  *base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int    error = base == MAP_FAILED ? errno : 0;

  *out = (tri_cpu_row){NULL, 0};
  for (int i = 0; i < n && !error; i++) {
    char *at = (char *)base + (size_t)i * bytes;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd[i], (off_t)offset[i]) ==
        MAP_FAILED)
      error = errno;
  }
  if (error && base != MAP_FAILED) munmap(base, all);
  if (error)
    TRI_FAIL(TRI_ECOMM, "memory of %d ranks cannot be mapped as one piece (%zu bytes): %s", n, all,
             strerror(error));
  *out = (tri_cpu_row){base, all};
  return TRI_OK;
}

void tri_cpu_row_close(tri_cpu_row *r) {
  if (r->base) munmap(r->base, r->bytes);
  *r = (tri_cpu_row){NULL, 0};
}
