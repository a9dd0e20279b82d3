/* rewrite.c - writes the command that converts a file, with file names quoted for a shell. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rewrite.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/columns.h"
#include "base/file.h"

enum { MOST_NAMES = 99 }; /* chosen, a file is rewritten a few times at most */

static const char *unpacked_by(const char *path) {
  size_t n = strlen(path);

  if (n > 3 && !strcasecmp(path + n - 3, ".gz")) return "gzip -dc";
  return n > 4 && !strcasecmp(path + n - 4, ".zst") ? "zstd -dc" : NULL;
}

/* Returns the length of a path without the endings of file kinds. */
static size_t stem(const char *path) {
  static const char *const ending[] = {".jsonl", ".json",    ".ndjson", ".gz",      ".zst", ".xz", ".bz2",
                                       ".zip",   ".parquet", ".arrow",  ".feather", ".csv", ".tsv"};
  size_t                   n = strlen(path), before;

  do {
    before = n;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
      size_t m = strlen(ending[i]);
      if (n > m && path[n - m - 1] != '/' && !strncasecmp(path + n - m, ending[i], m)) n -= m;
    }
  } while (n < before);
  return n;
}

/* Appends the first name of "a.new.jsonl", "a.new2.jsonl", ... not yet taken by a file. */
static tri_status put_new(const char *path, tri_text *out) {
  const char *slash = strrchr(path, '/');
  size_t      n_folder = slash ? (size_t)(slash - path) + 1 : 0, n = stem(path);
  tri_status  st = TRI_OK;

  if (n_folder) {
    TRI_TRY(tri_text_put(out, path, n_folder));
    if (!access(out->data, W_OK)) n_folder = 0;
    out->len = 0;
  }
  for (int i = 1; st == TRI_OK && i <= MOST_NAMES; i++) {
    out->len = 0;
    st = i == 1 ? tri_text_printf(out, "%.*s.new.jsonl", (int)(n - n_folder), path + n_folder)
                : tri_text_printf(out, "%.*s.new%d.jsonl", (int)(n - n_folder), path + n_folder, i);
    if (st == TRI_OK && !tri_file_exists(out->data)) break;
  }
  return st;
}

/* Appends a path. A name that begins with a dash would be a flag. */
static tri_status put_path(const char *path, tri_text *out) {
  if (path[0] == '-') TRI_TRY(tri_text_put(out, "./", 2));
  return tri_text_put_word(out, path);
}

tri_status tri_rewrite_put(const char *path, const char *command, const char *key, tri_text *out) {
  const char *unpack = unpacked_by(path);
  tri_text    made = {0};
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(put_new(path, &made));
  TRI_TRY_DONE(tri_text_printf(out, "\n  %s ", unpack ? unpack : command));
  TRI_TRY_DONE(put_path(path, out));
  if (unpack) TRI_TRY_DONE(tri_text_printf(out, " | %s", command));
  TRI_TRY_DONE(tri_text_printf(out, " > "));
  TRI_TRY_DONE(put_path(made.data, out));
  TRI_TRY_DONE(tri_text_printf(out, "\n  then %s%s ", key ? key : "give", key ? ":" : ""));
  TRI_TRY_DONE(put_path(made.data, out));
  if (!key) TRI_TRY_DONE(tri_text_printf(out, " in its place"));
done:
  tri_text_free(&made);
  return st;
}
