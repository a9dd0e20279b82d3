/* screen.c - what a run said of itself when it started, as log.txt keeps it. */
#include "screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum {
  READ_BYTES = 64 << 20, /* chosen: the log of a million steps' rows */
  LINE_BYTES = 400,      /* chosen: what is kept of a line */
  TABLE_ROWS = 60,       /* chosen: twice a table's longest */
  PATH_BYTES = 4096 + 64
};

const char *tri_said_word(tri_said_line line) {
  static const char *const word[TRI_SAID_LINES] = {
      [TRI_SAID_RANKS] = "ranks", [TRI_SAID_DEVICE] = "device",   [TRI_SAID_MODEL] = "model",
      [TRI_SAID_LOSS] = "loss",   [TRI_SAID_PLAN] = "shard plan", [TRI_SAID_BATCH] = "train_batch_size"};
  return word[line];
}

void tri_page_screen_free(tri_page_screen *s) {
  for (int i = 0; i < TRI_SAID_LINES; i++) TRI_FREE(s->line[i]);
  TRI_FREE(s->memory);
  s->ranks = 0;
}

static tri_status copy(const char *text, size_t n, char **out) {
  TRI_FREE(*out);
  TRI_TRY(TRI_ALLOC(*out, n + 1));
  memcpy(*out, text, n);
  return TRI_OK;
}

/* The line at `at` and those below it that are indented; up to `end`. */
static tri_status take_table(const char *at, const char *end, char **out) {
  const char *to = at;

  for (int rows = 0; rows < TABLE_ROWS && to < end && (to == at || *to == ' '); rows++) {
    const char *newline = memchr(to, '\n', (size_t)(end - to));
    to = newline ? newline + 1 : end;
  }
  return copy(at, (size_t)(to - at), out);
}

static tri_status take_line(const char *at, size_t n, tri_page_screen *s) {
  if (n > LINE_BYTES) n = LINE_BYTES;
  for (int i = 0; i < TRI_SAID_LINES; i++) {
    const char *word = tri_said_word((tri_said_line)i);
    size_t      bytes = strlen(word);
    if (n <= bytes + 2 || strncmp(at, word, bytes) != 0 || strncmp(at + bytes, ": ", 2) != 0) continue;
    TRI_TRY(copy(at + bytes + 2, n - bytes - 2, &s->line[i]));
    if (i == TRI_SAID_RANKS) s->ranks = strtoll(s->line[i], NULL, 10);
  }
  return TRI_OK;
}

static bool begins(const char *at, size_t n, const char *with) {
  return n >= strlen(with) && !memcmp(at, with, strlen(with));
}

static tri_status read_screen(const char *text, size_t n, tri_page_screen *s) {
  const char *end = text + n;

  for (const char *at = text, *next; at < end; at = next) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t      bytes = (size_t)((newline ? newline : end) - at);
    next = newline ? newline + 1 : end;
    if (begins(at, bytes, "trireme ") && bytes > 8 && at[8] >= '0' && at[8] <= '9') tri_page_screen_free(s);
    if (begins(at, bytes, "memory per rank, ")) TRI_TRY(take_table(at, end, &s->memory));
    TRI_TRY(take_line(at, bytes, s));
  }
  return TRI_OK;
}

/* The file's end, or all of it; a NUL behind it. */
static tri_status read_end(int fd, char **out, size_t *n) {
  struct stat sb;
  int64_t     from = 0, bytes;
  ssize_t     got = 1;

  if (fstat(fd, &sb)) return TRI_OK;
  if (sb.st_size > READ_BYTES) from = sb.st_size - READ_BYTES;
  bytes = sb.st_size - from;
  TRI_TRY(TRI_ALLOC(*out, bytes + 1));
  while (got > 0 && (int64_t)*n < bytes) {
    got = pread(fd, *out + *n, (size_t)bytes - *n, from + (int64_t)*n);
    if (got > 0) *n += (size_t)got;
  }
  return TRI_OK;
}

tri_status tri_page_screen_read(const char *folder, tri_page_screen *out) {
  char       path[PATH_BYTES], *text = NULL;
  size_t     n = 0;
  tri_status st;
  int        fd;

  *out = (tri_page_screen){0};
  if (snprintf(path, sizeof path, "%s/log.txt", folder) >= PATH_BYTES) return TRI_OK;
  if (tri_file_open(path, &fd) != TRI_OK) {
    tri_error_clear(); /* a page without it is better than none */
    return TRI_OK;
  }
  st = read_end(fd, &text, &n);
  if (st == TRI_OK) st = read_screen(text, n, out);
  TRI_FREE(text);
  close(fd);
  if (st != TRI_OK) tri_page_screen_free(out);
  return st;
}
