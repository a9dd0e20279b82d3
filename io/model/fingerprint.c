/* fingerprint.c - recognises files of a model by their bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fingerprint.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/host_memory.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Chosen: the ends are large enough for the header of a shard. Pieces lie at most 1/256 of the file apart, so
 * that each matrix of a 5 GB shard has one, and training a single layer changes the fingerprint. */
enum {
  WHOLE_BYTES = 1 << 20,
  END_BYTES = 256 << 10,
  PIECE_BYTES = 4 << 10,
  PIECES = 256,
  MOST_FILES = 4096,
  MOST_NAMES = 4,
  PATH_BYTES = 4096,
  CONFIG_BYTES = 16 << 20
};

/* ---- one file ---- */

static bool hash_range(int fd, char *buf, int64_t at, int64_t n, uint64_t *hash) {
  for (int64_t have = 0; have < n;) {
    ssize_t got = pread(fd, buf + have, (size_t)(n - have), (off_t)(at + have));
    if (got <= 0) return false;
    have += got;
  }
  *hash = tri_hash64(buf, (size_t)n, *hash);
  return true;
}

static bool hash_file(int fd, char *buf, int64_t bytes, uint64_t *hash) {
  int64_t between = bytes - 2 * (int64_t)END_BYTES - PIECE_BYTES;

  *hash = (uint64_t)bytes;
  if (bytes <= WHOLE_BYTES) return hash_range(fd, buf, 0, bytes, hash);
  if (!hash_range(fd, buf, 0, END_BYTES, hash)) return false;
  for (int i = 0; i < PIECES; i++)
    if (!hash_range(fd, buf, END_BYTES + between / PIECES * i, PIECE_BYTES, hash)) return false;
  return hash_range(fd, buf, bytes - END_BYTES, END_BYTES, hash);
}

/* Leaves out a file that cannot be read. The code that needs it reports the error. */
static tri_status put_file(const char *key, const char *name, const char *path, tri_text *out) {
  char       *buf = NULL;
  int         fd = -1;
  uint64_t    hash;
  struct stat sb;
  tri_status  st = TRI_OK;

  if (tri_file_open(path, &fd) != TRI_OK) {
    tri_error_clear();
    return TRI_OK;
  }
  TRI_TRY_DONE(tri_host_alloc(WHOLE_BYTES, 1, (void **)&buf));
  if (!fstat(fd, &sb) && hash_file(fd, buf, (int64_t)sb.st_size, &hash))
    st = tri_text_printf(out, "%s\t%s\t%lld %016" PRIx64 "\n", key, name, (long long)sb.st_size, hash);
done:
  tri_host_free((void **)&buf);
  close(fd);
  return st;
}

/* ---- a folder ---- */

static bool is_read(const char *name) {
  static const char *const names[] = {"config.json",         "generation_config.json",
                                      "tokenizer.json",      "tokenizer_config.json",
                                      "adapter_config.json", "chat_template.jinja",
                                      "added_tokens.json",   "special_tokens_map.json",
                                      "vocab.json",          "merges.txt"};
  static const char *const ends[] = {".safetensors", ".safetensors.index.json"};
  size_t                   n = strlen(name);

  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i])) return name[0] != '.';
  return false;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lists the files into *name [*n]. Free each name, and the list. */
static tri_status list_files(const char *folder, char ***name, int *n) {
  DIR           *d = opendir(folder);
  struct dirent *e;
  int64_t        cap = 0;
  tri_status     st = TRI_OK;

  if (!d) return TRI_OK;
  while (*n < MOST_FILES && (e = readdir(d))) {
    if (!is_read(e->d_name) || strpbrk(e->d_name, "\t\n")) continue;
    TRI_TRY_DONE(TRI_GROW(*name, cap, *n + 1));
    TRI_TRY_DONE(tri_copy_text(e->d_name, &(*name)[*n]));
    ++*n;
  }
  if (*n) qsort(*name, (size_t)*n, sizeof **name, by_name);
done:
  closedir(d);
  return st;
}

/* Tells whether the folder has a readable config of this name. Without one it no longer holds a model. */
static bool has_config(const char *folder, const char *name) {
  char    path[PATH_BYTES + 32], *bytes = NULL;
  size_t  n = 0;
  json_t *root = NULL;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (tri_file_read(path, CONFIG_BYTES, &bytes, &n) == TRI_OK)
    root = json_loadb(bytes, n, JSON_ALLOW_NUL, NULL);
  tri_error_clear();
  tri_host_free((void **)&bytes);
  json_decref(root);
  return root != NULL;
}

static tri_status put_folder(const char *key, const char *folder, tri_text *out) {
  char       path[PATH_BYTES + 256], **name = NULL;
  int        n = 0;
  tri_status st;

  snprintf(path, sizeof path, "%s/MANIFEST.json", folder);
  if (tri_file_exists(path)) return put_file(key, "MANIFEST.json", path, out);
  snprintf(path, sizeof path, "%s/checkpoints/LATEST/MANIFEST.json", folder);
  if (tri_file_exists(path)) return put_file(key, "MANIFEST.json", path, out);
  if (!has_config(folder, "config.json") && !has_config(folder, "adapter_config.json")) return TRI_OK;
  st = list_files(folder, &name, &n);
  for (int i = 0; i < n && st == TRI_OK; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    st = put_file(key, name[i], path, out);
  }
  for (int i = 0; i < n; i++) TRI_FREE(name[i]);
  TRI_FREE(name);
  return st;
}

tri_status tri_fingerprint(const char *key, const char *path, tri_text *out) {
  struct stat sb;

  if (strlen(path) >= PATH_BYTES || stat(path, &sb)) return TRI_OK;
  if (S_ISREG(sb.st_mode)) return put_file(key, ".", path, out);
  return S_ISDIR(sb.st_mode) ? put_folder(key, path, out) : TRI_OK;
}

/* ---- comparing ---- */

/* Returns the first line with this key from `at` on, or NULL. */
static const char *find_line(const char *at, const char *key) {
  size_t n = strlen(key);

  for (; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
    if (!strncmp(at, key, n) && at[n] == '\t') return at;
  return NULL;
}

static const char *next_line(const char *at, const char *key) {
  at = strchr(at, '\n');
  return at ? find_line(at + 1, key) : NULL;
}

/* Tells whether `lines` have a line with the same first `up_to` bytes. */
static bool holds(const char *lines, const char *key, const char *line, size_t up_to) {
  for (const char *at = find_line(lines, key); at; at = next_line(at, key))
    if (!strncmp(at, line, up_to)) return true;
  return false;
}

bool tri_fingerprint_has(const char *lines, const char *key) { return find_line(lines, key) != NULL; }

typedef struct naming {
  tri_text *out;
  int       n;
} naming;

static tri_status put_name(const char *key, const char *line, naming *to) {
  const char *name = line + strlen(key) + 1;

  if (to->n++ >= MOST_NAMES) return TRI_OK;
  return tri_text_printf(to->out, "%s%.*s", to->n > 1 ? ", " : "", (int)strcspn(name, "\t\n"), name);
}

/* Names the lines of a that are not in b. With `once`, leaves out a file that has a different line in b. */
static tri_status put_lacking(const char *a, const char *b, const char *key, bool once, naming *to) {
  for (const char *at = find_line(a, key); at; at = next_line(at, key)) {
    const char *name = at + strlen(key) + 1;
    size_t      named = (size_t)(name - at) + strcspn(name, "\t\n") + 1;
    if (holds(b, key, at, strcspn(at, "\n") + 1) || (once && holds(b, key, at, named))) continue;
    TRI_TRY(put_name(key, at, to));
  }
  return TRI_OK;
}

tri_status tri_fingerprint_differ(const char *a, const char *b, const char *key, tri_text *names) {
  naming to = {names, 0};

  TRI_TRY(put_lacking(a, b, key, false, &to));
  TRI_TRY(put_lacking(b, a, key, true, &to));
  return to.n > MOST_NAMES ? tri_text_printf(names, " and %d more", to.n - MOST_NAMES) : TRI_OK;
}
