/* lines.c - reads a file line by line in bounded memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host_memory.h"
#include "file_kind.h"
#include "rewrite.h"
#include "unpack.h"

enum { PIECE_BYTES = 1 << 16 }; /* chosen, bytes searched at once */

struct tri_lines {
  char       *path;
  int         fd;
  tri_unpack *in;
  /* [piece_n] Bytes of `in`, borrowed. The first piece_at are taken. */
  const char *piece;
  size_t      piece_at, piece_n;
  tri_text    text; /* the last line */
  int64_t     max_bytes;
  const char *max_name; /* borrowed. NULL: none */
  int64_t     line;     /* lines taken */
  /* Bytes of the file at which a line of this part may begin. */
  int64_t begin, end;
  int64_t at;      /* offset of the next byte to take */
  int64_t skipped; /* lines before the part. -1: not counted yet */
  /* The last line was too long. Its rest comes next. */
  bool refused;
};

/* Returns the bytes read but not taken, *n of them. None: end of file. */
static tri_status look(tri_lines *l, const char **bytes, size_t *n) {
  *bytes = NULL;
  *n = 0;
  if (l->piece_at == l->piece_n) {
    l->piece_at = l->piece_n = 0;
    TRI_TRY(tri_unpack_read(l->in, &l->piece, &l->piece_n));
  }
  *bytes = l->piece + l->piece_at;
  *n = l->piece_n - l->piece_at;
  return TRI_OK;
}

static void take(tri_lines *l, size_t n) {
  l->piece_at += n;
  l->at += (int64_t)n;
}

/* Skips the rest of the current line, up to the end of the part. Nothing of it is held. */
static tri_status step_over(tri_lines *l) {
  const char *bytes, *newline = NULL;
  size_t      n = 1;

  while (!newline && n && l->at < l->end) {
    TRI_TRY(look(l, &bytes, &n));
    newline = memchr(bytes, '\n', n);
    take(l, newline ? (size_t)(newline - bytes) + 1 : n);
  }
  return TRI_OK;
}

/* Skips to the first line of the part. A line that began before l->begin belongs to the previous part. If it
 * does not end in this part, no line begins here. */
static tri_status enter_part(tri_lines *l) {
  const char *bytes;
  size_t      n = 1;

  if (l->begin <= 0) return TRI_OK;
  if (!tri_unpack_is_packed(l->in)) {
    TRI_TRY(tri_unpack_seek(l->in, l->begin - 1));
    l->at = l->begin - 1;
  }
  while (l->at < l->begin - 1 && n) {
    TRI_TRY(look(l, &bytes, &n));
    if ((int64_t)n > l->begin - 1 - l->at) n = (size_t)(l->begin - 1 - l->at);
    take(l, n);
  }
  l->skipped = -1;
  return step_over(l);
}

/* `kind` is a result of tri_lines_kind. */
static tri_status refuse_kind(const char *path, const char *kind) {
  size_t     n = strcspn(kind, "\n");
  tri_text   lines = {0};
  tri_status st = TRI_OK;

  if (kind[n]) st = tri_rewrite_put(path, kind + n + 1, NULL, &lines);
  if (st == TRI_OK)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s: is %.*s", path, (int)n, kind);
  if (lines.len) tri_error_lines(lines.data);
  tri_text_free(&lines);
  return st;
}

static tri_status check_kind(tri_lines *l) {
  const char *bytes, *kind;
  size_t      n;

  if (l->begin > 0) return TRI_OK;
  TRI_TRY(look(l, &bytes, &n));
  kind = tri_lines_kind(bytes, n);
  return kind ? refuse_kind(l->path, kind) : TRI_OK;
}

/* Takes over `fd`. */
static tri_status make(const char *path, int fd, int64_t begin, int64_t end, tri_lines **out) {
  tri_status st = TRI_OK;
  tri_lines *l = NULL;

  TRI_TRY_DONE(TRI_ALLOC(l, 1));
  *l = (tri_lines){.fd = fd, .begin = begin, .end = end, .max_bytes = TRI_LINE_BYTES};
  TRI_TRY_DONE(TRI_ALLOC(l->path, strlen(path) + 1));
  memcpy(l->path, path, strlen(path));
  TRI_TRY_DONE(tri_unpack_open(l->path, fd, &l->in));
  TRI_TRY_DONE(enter_part(l));
  TRI_TRY_DONE(check_kind(l));
done:
  if (st != TRI_OK && !l && fd != STDIN_FILENO) close(fd);
  if (st != TRI_OK) tri_lines_close(&l);
  *out = l;
  return st;
}

tri_status tri_lines_open(const char *path, int64_t begin, int64_t end, tri_lines **out) {
  int fd;

  *out = NULL;
  TRI_TRY(tri_file_open(path, &fd));
  return make(path, fd, begin, end, out);
}

tri_status tri_lines_open_stdin(tri_lines **out) { return make("stdin", STDIN_FILENO, 0, INT64_MAX, out); }

void tri_lines_close(tri_lines **l) {
  if (!*l) return;
  if ((*l)->fd != STDIN_FILENO) close((*l)->fd);
  tri_text_free(&(*l)->text);
  tri_unpack_close(&(*l)->in);
  TRI_FREE((*l)->path);
  TRI_FREE(*l);
}

void tri_lines_limit(tri_lines *l, int64_t bytes, const char *name) {
  l->max_bytes = bytes;
  l->max_name = name;
}

const char *tri_lines_path(const tri_lines *l) { return l->path; }
int64_t     tri_lines_taken(const tri_lines *l) { return l->line; }

tri_status tri_lines_size(const char *path, int64_t *bytes) {
  tri_status  st = TRI_OK;
  tri_unpack *in = NULL;
  const char *piece;
  size_t      n = 1;
  struct stat sb;
  int         fd;

  *bytes = 0;
  TRI_TRY(tri_file_open(path, &fd));
  TRI_TRY_DONE(tri_unpack_open(path, fd, &in));
  while (n && tri_unpack_is_packed(in)) {
    TRI_TRY_DONE(tri_unpack_read(in, &piece, &n));
    *bytes += (int64_t)n;
  }
  if (tri_unpack_is_packed(in)) goto done;
  if (fstat(fd, &sb)) TRI_FAIL_DONE(TRI_EFILE, "%s: its size cannot be read: %s", path, strerror(errno));
  *bytes = (int64_t)sb.st_size;
done:
  tri_unpack_close(&in);
  close(fd);
  return st;
}

/* Counts lines before the part of a packed file, by unpacking it again. */
static int64_t count_packed(const tri_lines *l) {
  tri_unpack *in = NULL;
  const char *p;
  int64_t     at = 0, lines = 1;
  size_t      n = 1;
  int         fd;

  if (tri_file_open(l->path, &fd) != TRI_OK) return 0;
  if (tri_unpack_open(l->path, fd, &in) == TRI_OK)
    while (n && at < l->begin && tri_unpack_read(in, &p, &n) == TRI_OK)
      for (size_t i = 0; i < n; i++, at++) lines += p[i] == '\n' && at + 1 < l->begin;
  tri_unpack_close(&in);
  close(fd);
  return lines;
}

/* Counts the lines beginning before the part. Only messages need them. Unreadable bytes are not counted. */
static int64_t count_skipped(const tri_lines *l) {
  char    piece[PIECE_BYTES];
  int64_t at = 0, lines = 1, start = l->begin;
  ssize_t n;

  if (tri_unpack_is_packed(l->in)) return count_packed(l);
  while (at < start && (n = pread(l->fd, piece, sizeof piece, at)) > 0) {
    if (n > start - at) n = (ssize_t)(start - at);
    for (const char *p = piece, *end = piece + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
      lines += at + (p - piece) + 1 < start; /* the line after this newline begins before the part */
    at += n;
  }
  return lines;
}

int64_t tri_lines_number(tri_lines *l) {
  if (l->skipped < 0) l->skipped = count_skipped(l);
  return l->skipped + l->line;
}

/* Reads the next line into l->text. *found false: end of file. */
static tri_status take_line(tri_lines *l, bool *found) {
  const char *bytes, *newline = NULL;
  size_t      n;
  tri_status  st;

  l->text.len = 0;
  for (*found = false; !newline; *found = true) {
    st = look(l, &bytes, &n);
    if (st != TRI_OK) l->line -= *found; /* an incomplete line does not count */
    if (st != TRI_OK || !n) return st;
    newline = memchr(bytes, '\n', n);
    if (newline) n = (size_t)(newline - bytes);
    l->line += !*found;
    l->refused = (int64_t)(l->text.len + n) > l->max_bytes;
    if (l->refused)
      TRI_FAIL(TRI_EINPUT, "%s:%lld: the line has %s%lld bytes, but at most %lld are allowed%s%s", l->path,
               (long long)tri_lines_number(l), newline ? "" : "more than ",
               (long long)l->text.len + (long long)n, (long long)l->max_bytes, l->max_name ? ": " : "",
               l->max_name ? l->max_name : "");
    TRI_TRY(tri_text_put(&l->text, bytes, n));
    take(l, n + (newline != NULL));
  }
  return TRI_OK;
}

static bool is_blank(const char *s, size_t n) {
  while (n && (*s == ' ' || *s == '\t' || *s == '\r')) s++, n--;
  return n == 0;
}

tri_status tri_lines_next(tri_lines *l, const char **text, size_t *n) {
  bool found = true;

  *text = NULL;
  *n = 0;
  if (l->refused) TRI_TRY(step_over(l));
  l->refused = false;
  while (found && l->at < l->end) {
    size_t mark = 0;
    TRI_TRY(take_line(l, &found));
    if (l->begin == 0 && l->line == 1 && l->text.len >= 3 && !memcmp(l->text.data, "\xef\xbb\xbf", 3))
      mark = 3;
    if (!l->text.len || is_blank(l->text.data + mark, l->text.len - mark)) continue;
    *text = l->text.data + mark;
    *n = l->text.len - mark;
    return TRI_OK;
  }
  return TRI_OK;
}

int64_t tri_lines_step(const char *name) {
  char      again[40];
  long long step;

  if (strncmp(name, "step-", 5) || !strspn(name + 5, "0123456789") || sscanf(name + 5, "%18lld", &step) != 1)
    return -1;
  snprintf(again, sizeof again, "step-%08lld.jsonl", step);
  return strcmp(name, again) ? -1 : step;
}
