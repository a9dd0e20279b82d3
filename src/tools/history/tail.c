/* tail.c - reads the new lines of a growing file, or all lines if the file was replaced. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* for SEEK_DATA */
#include "base/host_memory.h"
#include "base/log.h"
#include "history_impl.h"

#include "base/file.h"
#include "io/text/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 }; /* bytes, chosen for few calls and little memory */

bool tri_history_is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
         a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void tri_history_tail_free(tri_history_tail *t) {
  TRI_FREE(t->buffer);
  *t = (tri_history_tail){0};
}

static void forget(tri_history_tail *t, const tri_history_reader *to) {
  to->anew(to->ctx);
  t->at = 0;
  t->n_before = 0;
  t->skips = false;
  t->seen = (struct stat){0};
}

/* Reads up to n bytes at `at`, fewer only at the end of the file. */
static tri_status read_at(int fd, const char *path, int64_t at, char *out, int64_t n, int64_t *have) {
  *have = 0;
  while (*have < n) {
    ssize_t got = pread(fd, out + *have, (size_t)(n - *have), (off_t)(at + *have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", path, strerror(errno));
    if (got == 0) return TRI_OK;
    *have += got;
  }
  return TRI_OK;
}

/* Finds out if the bytes taken so far are still there. A file that was cut back and has grown again differs
 * in the last of them. */
static tri_status find_same(const tri_history_tail *t, int fd, const char *path, const struct stat *now,
                            bool *same) {
  char    before[sizeof t->before];
  int64_t have;

  *same = t->seen.st_ino == now->st_ino && t->seen.st_dev == now->st_dev && now->st_size >= t->at;
  if (!*same || !t->n_before) return TRI_OK;
  TRI_TRY(read_at(fd, path, t->at - t->n_before, before, t->n_before, &have));
  *same = have == t->n_before && !memcmp(before, t->before, (size_t)have);
  return TRI_OK;
}

/* Hands on the whole lines of the buffer. An unfinished line stays in it. */
static tri_status take_lines(tri_history_tail *t, const tri_history_reader *to) {
  char *at = t->buffer, *end = t->buffer + t->n_buffer, *newline;

  while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
    int64_t n = newline - at;
    *newline = 0;
    if (!t->skips)
      TRI_TRY(n > TRI_LINE_BYTES ? to->line(to->ctx, NULL, 0) : to->line(to->ctx, at, (size_t)n));
    *newline = '\n';
    t->skips = false;
    at = newline + 1;
  }
  t->at += at - t->buffer;
  if (at > t->buffer) {
    t->n_before = at - t->buffer < (int64_t)sizeof t->before ? (int)(at - t->buffer) : (int)sizeof t->before;
    memcpy(t->before, at - t->n_before, (size_t)t->n_before);
  }
  t->n_buffer = end - at;
  memmove(t->buffer, at, (size_t)t->n_buffer);
  if (t->n_buffer <= TRI_LINE_BYTES) return TRI_OK;
  if (!t->skips) TRI_TRY(to->line(to->ctx, NULL, 0)); /* already too long, so its rest is skipped */
  t->skips = true;
  t->at += t->n_buffer;
  t->n_before = 0;
  t->n_buffer = 0;
  return TRI_OK;
}

/* Skips all bytes before `at`. They count as the beginning of a line that is too long. */
static tri_status pass_over(tri_history_tail *t, int64_t at, const tri_history_reader *to) {
  if (!t->skips) TRI_TRY(to->line(to->ctx, NULL, 0));
  t->skips = true;
  t->at = at;
  t->n_before = 0;
  t->n_buffer = 0;
  return TRI_OK;
}

/* A hole reads as zeros without a newline. A hole longer than any line is not read. */
static tri_status pass_hole(tri_history_tail *t, int fd, int64_t size, const tri_history_reader *to) {
  int64_t at = t->at + t->n_buffer;
  off_t   data = lseek(fd, (off_t)at, SEEK_DATA);

  if (data < 0 && errno != ENXIO) return TRI_OK; /* this file system does not report holes */
  if (data < 0 || data > size) data = (off_t)size;
  return data - at > TRI_LINE_BYTES ? pass_over(t, data, to) : TRI_OK;
}

/* Skips all but the last part of a file larger than any run writes, or than the caller wants. */
static tri_status pass_most(tri_history_tail *t, const char *path, int64_t size,
                            const tri_history_reader *to) {
  if (size - t->at <= to->most) return TRI_OK;
  if (to->end) {
    t->skips = true; /* the rest of the line at this place */
    return pass_over(t, size - to->most, to);
  }
  tri_log(TRI_LOG_WARN, "%s: %.1f GiB are new, more than a run writes. Only the last %.2f GiB are read", path,
          (double)(size - t->at) / (1 << 30), (double)to->most / (1 << 30));
  return pass_over(t, size - to->most, to);
}

static tri_status read_new(tri_history_tail *t, int fd, const char *path, int64_t size,
                           const tri_history_reader *to) {
  int64_t have = 1;

  t->n_buffer = 0;
  TRI_TRY(pass_most(t, path, size, to));
  while (have > 0 && t->at + t->n_buffer < size) {
    TRI_TRY(pass_hole(t, fd, size, to));
    int64_t want = size - t->at - t->n_buffer < CHUNK ? size - t->at - t->n_buffer : CHUNK;
    TRI_TRY(TRI_GROW(t->buffer, t->cap, t->n_buffer + want));
    TRI_TRY(read_at(fd, path, t->at + t->n_buffer, t->buffer + t->n_buffer, want, &have));
    t->n_buffer += have;
    TRI_TRY(take_lines(t, to));
  }
  return TRI_OK;
}

static tri_status read_open(tri_history_tail *t, int fd, const char *path, const tri_history_reader *to,
                            bool *changed) {
  struct stat now;
  bool        same;

  if (fstat(fd, &now)) TRI_FAIL(TRI_EFILE, "%s: %s", path, strerror(errno));
  if (tri_history_is_same(&t->seen, &now)) return TRI_OK;
  *changed = true;
  TRI_TRY(find_same(t, fd, path, &now, &same));
  if (!same) forget(t, to);
  t->seen = now;
  return read_new(t, fd, path, now.st_size, to);
}

tri_status tri_history_tail_read(tri_history_tail *t, const char *path, const tri_history_reader *to,
                                 bool *changed) {
  tri_status st;
  int        fd;

  TRI_TRY(tri_file_open_if(path, &fd));
  if (fd < 0) {
    *changed |= t->seen.st_ino != 0;
    forget(t, to);
    return TRI_OK;
  }
  st = read_open(t, fd, path, to, changed);
  close(fd);
  TRI_FREE(t->buffer); /* freed, because many runs may be open, and read again from `at` */
  t->cap = t->n_buffer = 0;
  if (st != TRI_OK) forget(t, to); /* the next call reads from the start */
  return st;
}
