/* hub.c - reads the Hugging Face Hub's cache (huggingface_hub, file_download.py: refs, snapshots, blobs). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hub.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { REVISION_BYTES = 256 }; /* chosen: a commit's hash has 40 */
enum { MOST_NAMED = 8 };       /* chosen: as many as a message can name */
static const char model_prefix[] = "models--";

static bool is_folder_in(const char *folder, const char *name) {
  char        path[TRI_CKPT_PATH_BYTES + 32];
  struct stat sb;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  return !stat(path, &sb) && S_ISDIR(sb.st_mode);
}

/* Tells whether the last part of a path [n], without slashes at its end, is `name`. *at is its begin. */
static bool last_is(const char *path, size_t n, const char *name, size_t *at) {
  size_t begin = n;

  while (begin > 0 && path[begin - 1] != '/') begin--;
  *at = begin;
  return n - begin == strlen(name) && !memcmp(path + begin, name, n - begin);
}

/* Finds the model's folder in the cache that contains `path`. Returns false for any other folder. */
static bool find_root(const char *path, char root[TRI_CKPT_PATH_BYTES]) {
  static const char *const part[] = {"snapshots", "refs", "blobs"};
  size_t                   n = strlen(path), at;

  while (n > 1 && path[n - 1] == '/') n--;
  snprintf(root, TRI_CKPT_PATH_BYTES, "%.*s", (int)n, path);
  if (tri_file_in(root, "config.json") || tri_file_in(root, "MANIFEST.json")) return false;
  for (int i = 0; i < 3; i++)
    if (last_is(root, n, part[i], &at)) {
      if (at > 1)
        root[at - 1] = 0;
      else
        snprintf(root, TRI_CKPT_PATH_BYTES, "%s", at ? "/" : ".");
      break;
    }
  return is_folder_in(root, "snapshots") && (is_folder_in(root, "refs") || is_folder_in(root, "blobs"));
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* Lists the folders in `folder` whose names begin with `prefix`, in order, at most MOST_NAMED. Returns the
 * number of all. */
static int list(const char *folder, const char *prefix, char out[MOST_NAMED][REVISION_BYTES]) {
  int  n = 0;
  DIR *d = opendir(folder);

  for (const struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' || strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
    if (strlen(e->d_name) >= REVISION_BYTES || !is_folder_in(folder, e->d_name)) continue;
    if (n < MOST_NAMED) snprintf(out[n], REVISION_BYTES, "%s", e->d_name);
    n++;
  }
  if (d) closedir(d);
  qsort(out, (size_t)(n < MOST_NAMED ? n : MOST_NAMED), REVISION_BYTES, by_name);
  return n;
}

static tri_status join(char out[MOST_NAMED][REVISION_BYTES], int n, tri_text *text) {
  for (int i = 0; i < n && i < MOST_NAMED; i++) TRI_TRY(tri_text_printf(text, "%s%s", i ? ", " : "", out[i]));
  return n > MOST_NAMED ? tri_text_printf(text, " and %d more", n - MOST_NAMED) : TRI_OK;
}

/* Reads the revision in refs/main, or "" without such a file. */
static tri_status read_main(const char *root, char revision[REVISION_BYTES]) {
  char   path[TRI_CKPT_PATH_BYTES + 32], *text = NULL;
  size_t n = 0;

  revision[0] = 0;
  snprintf(path, sizeof path, "%s/refs/main", root);
  if (!tri_file_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read(path, REVISION_BYTES - 1, &text, &n));
  while (n > 0 && isspace((unsigned char)text[n - 1])) text[--n] = 0;
  snprintf(revision, REVISION_BYTES, "%s", text);
  TRI_FREE(text);
  if (!revision[0] || strchr(revision, '/') || revision[0] == '.' || strlen(revision) != n)
    TRI_FAIL(TRI_EINPUT, "%s: names no snapshot. Download the model again (hf download OWNER/NAME).", path);
  return TRI_OK;
}

/* Gives OWNER/NAME of models--OWNER--NAME, or the placeholder "OWNER/NAME". */
static void name_of(const char *root, char out[REVISION_BYTES]) {
  const char *last = strrchr(root, '/'), *owner = last ? last + 1 : root, *dashes;
  size_t      n = sizeof model_prefix - 1;

  snprintf(out, REVISION_BYTES, "OWNER/NAME");
  if (strncmp(owner, model_prefix, n) != 0) return;
  owner += n;
  dashes = strstr(owner, "--");
  if (dashes)
    snprintf(out, REVISION_BYTES, "%.*s/%s", (int)(dashes - owner), owner, dashes + 2);
  else
    snprintf(out, REVISION_BYTES, "%s", owner);
}

static tri_status refuse(const char *root, const char *why, char found[MOST_NAMED][REVISION_BYTES], int n) {
  char       name[REVISION_BYTES];
  tri_text   text = {0};
  tri_status st = join(found, n, &text);

  name_of(root, name);
  if (st == TRI_OK)
    tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
             "%s: is a model's folder in the cache of the Hugging Face Hub and %s;\n"
             "  %s%s%sdownload the model (hf download %s)",
             root, why, n ? "give one of its snapshots (" : "", n ? text.data : "", n ? "), or " : "", name);
  tri_text_free(&text);
  return st == TRI_OK ? TRI_EINPUT : st;
}

static tri_status take_snapshot(const char *root, bool info, char out[TRI_CKPT_PATH_BYTES]) {
  char found[MOST_NAMED][REVISION_BYTES], revision[REVISION_BYTES], folder[TRI_CKPT_PATH_BYTES],
      why[REVISION_BYTES + 64];
  int n;

  if (snprintf(folder, sizeof folder, "%s/snapshots", root) >= (int)sizeof folder - REVISION_BYTES - 1)
    TRI_FAIL(TRI_EINPUT, "the model's path is too long: %.100s...", root);
  TRI_TRY(read_main(root, revision));
  n = list(folder, "", found);
  if (!revision[0] && n != 1)
    return refuse(root, n ? "has several snapshots, but no refs/main" : "has no snapshot", found, n);
  if (!revision[0]) snprintf(revision, sizeof revision, "%s", found[0]);
  if (!is_folder_in(folder, revision)) {
    snprintf(why, sizeof why, "its refs/main names the missing snapshot %s", revision);
    return refuse(root, why, found, n);
  }
  snprintf(out, TRI_CKPT_PATH_BYTES, "%.*s/%.*s", TRI_CKPT_PATH_BYTES / 2, folder, REVISION_BYTES, revision);
  snprintf(folder, sizeof folder, "%s/refs/main", root);
  if (info)
    tri_log(TRI_LOG_INFO, "%s: a model's folder in the cache of the Hugging Face Hub; uses its snapshot %s%s",
            root, revision, tri_file_exists(folder) ? " (refs/main)" : "");
  return TRI_OK;
}

/* Reports the cache itself, in case a user gives it. */
static tri_status check_cache(const char *path) {
  char       found[MOST_NAMED][REVISION_BYTES];
  int        n = list(path, model_prefix, found);
  tri_text   text = {0};
  tri_status st;

  if (!n || tri_file_in(path, "config.json") || tri_file_in(path, "MANIFEST.json") ||
      tri_file_in(path, "checkpoints"))
    return TRI_OK;
  st = join(found, n, &text);
  if (st == TRI_OK)
    tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
             "%s: is a cache of the Hugging Face Hub. Give a model's folder in it: %s", path, text.data);
  tri_text_free(&text);
  return st == TRI_OK ? TRI_EINPUT : st;
}

tri_status tri_hub_resolve(const char *path, bool info, char out[TRI_CKPT_PATH_BYTES]) {
  char root[TRI_CKPT_PATH_BYTES];

  if (strlen(path) >= TRI_CKPT_PATH_BYTES)
    TRI_FAIL(TRI_EINPUT, "the model's path is too long: %.100s...", path);
  if (find_root(path, root)) return take_snapshot(root, info, out);
  snprintf(out, TRI_CKPT_PATH_BYTES, "%s", path);
  return check_cache(path);
}

/* Gives the folders searched by huggingface_hub (constants.py), in its order. */
static bool cache_of(int i, char out[TRI_CKPT_PATH_BYTES / 2]) {
  static const struct {
    const char *variable, *rest;
  } row[] = {{"HF_HUB_CACHE", ""},
             {"HUGGINGFACE_HUB_CACHE", ""},
             {"HF_HOME", "/hub"},
             {"XDG_CACHE_HOME", "/huggingface/hub"},
             {"HOME", "/.cache/huggingface/hub"}};
  const char *value;

  out[0] = 0;
  if (i >= (int)(sizeof row / sizeof *row)) return false;
  value = getenv(row[i].variable);
  if (value && value[0]) snprintf(out, TRI_CKPT_PATH_BYTES / 2, "%s%s", value, row[i].rest);
  return true;
}

void tri_hub_find(const char *name, char out[TRI_CKPT_PATH_BYTES]) {
  const char *slash = strchr(name, '/');
  char        cache[TRI_CKPT_PATH_BYTES / 2];

  for (int i = 0; slash && cache_of(i, cache); i++) {
    snprintf(out, TRI_CKPT_PATH_BYTES, "%s/%s%.*s--%.200s", cache, model_prefix,
             (int)(slash - name < 200 ? slash - name : 200), name, slash + 1);
    if (cache[0] && is_folder_in(out, "snapshots")) return;
  }
  out[0] = 0;
}

/* Follows repo_folder_name of huggingface_hub (file_download.py): models--OWNER--NAME. */
bool tri_hub_name_of(const char *path, char name[TRI_HUB_NAME_BYTES], char revision[TRI_HUB_NAME_BYTES]) {
  static const char between[] = "/snapshots/";
  const char       *begin = NULL, *end, *at, *split;
  int               n;

  for (at = strstr(path, model_prefix); at; at = strstr(at + 1, model_prefix))
    if (at == path || at[-1] == '/') begin = at + strlen(model_prefix);
  end = begin ? strstr(begin, between) : NULL;
  if (!end || end == begin || memchr(begin, '/', (size_t)(end - begin))) return false;
  at = end + strlen(between);
  n = (int)strcspn(at, "/");
  if (!n || n >= TRI_HUB_NAME_BYTES || at[n + strspn(at + n, "/")]) return false;
  snprintf(revision, TRI_HUB_NAME_BYTES, "%.*s", n, at);
  split = strstr(begin, "--");
  if (!split || split >= end) /* an old model without an owner, such as gpt2 */
    return snprintf(name, TRI_HUB_NAME_BYTES, "%.*s", (int)(end - begin), begin) < TRI_HUB_NAME_BYTES;
  return snprintf(name, TRI_HUB_NAME_BYTES, "%.*s/%.*s", (int)(split - begin), begin, (int)(end - split - 2),
                  split + 2) < TRI_HUB_NAME_BYTES;
}

bool tri_hub_is_name(const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  size_t            owner = strspn(text, letters), name = text[owner] ? strspn(text + owner + 1, letters) : 0;

  return owner && text[0] != '.' && text[owner] == '/' && name && !text[owner + 1 + name] &&
         owner + name + 1 < TRI_HUB_NAME_BYTES;
}
