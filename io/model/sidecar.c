/* sidecar.c - copies files of a model for other programs, unchanged, into checkpoints and exports. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "sidecar.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 }; /* chosen: five times the largest known vocab.json */
enum { PATH_SPACE = 2 * TRI_CKPT_PATH_BYTES };

static const char *const names[TRI_SIDECAR_FILES] = {"chat_template.jinja",
                                                     "chat_template.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "tokenizer.model",
                                                     "spiece.model",
                                                     "vocab.txt",
                                                     "LICENSE",
                                                     "LICENSE.txt",
                                                     "LICENSE.md",
                                                     "USE_POLICY.md",
                                                     "chat_template_tool_use.jinja"};
static const char        tool_use[] = "additional_chat_templates/tool_use.jinja";
static const char        blobs[] = "../../blobs/";

const char *tri_sidecar_name(int i) { return names[i]; }
const char *tri_sidecar_path(int i) { return i == TRI_SIDECAR_FILES - 1 ? tool_use : names[i]; }

/* Tells whether a link with this text stays in its folder or in its repository of the cache. `deep`: the file
 * lies in a subfolder. */
static bool stays(const char *target, bool deep) {
  size_t n = sizeof blobs - 1, up = deep ? 3 : 0;

  if (!strncmp(target, "../", up) && !strncmp(target + up, blobs, n)) target += up + n;
  return target[0] && !strchr(target, '/') && strcmp(target, "..") != 0;
}

/* Gives the path of the bytes of folder/name. Returns false for a link that must not be followed. */
static bool find_file(const char *folder, const char *name, char path[PATH_SPACE]) {
  char        target[TRI_CKPT_PATH_BYTES];
  const char *slash = strchr(name, '/');
  int         within = slash ? (int)(slash - name) : 0;
  ssize_t     n;

  snprintf(path, PATH_SPACE, "%s/%.*s", folder, within, name);
  if (slash && readlink(path, target, sizeof target) >= 0) return false;
  snprintf(path, PATH_SPACE, "%s/%s", folder, name);
  n = readlink(path, target, sizeof target - 1);
  if (n < 0) return true;
  target[n] = 0;
  if (!stays(target, slash)) return false;
  snprintf(path, PATH_SPACE, "%s/%.*s%s", folder, within + (slash != NULL), name, target);
  return true;
}

bool tri_sidecar_follows(const char *folder, const char *name) {
  char path[PATH_SPACE];

  return find_file(folder, name, path);
}

static void warn_left_out(const char *folder, const char *name, const char *what) {
  tri_log(TRI_LOG_WARN, "%s/%s: is %s; checkpoints and exports will not have it", folder, name, what);
}

/* Opens a file for reading. *fd is -1 if it is missing, or, with a warning, if it is not copied. The checks
 * use the open descriptor, so that the checked file is the file read. */
static tri_status open_file(const char *folder, const char *name, char path[PATH_SPACE], int *fd) {
  static const char link[] = "a link out of its folder or to a missing file, and is not followed";
  struct stat       sb;
  bool              follow = find_file(folder, name, path);

  *fd = follow ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
  if (*fd < 0 && follow && errno != ENOENT && errno != ELOOP && errno != ENXIO)
    TRI_FAIL(TRI_EFILE, "%s: cannot be opened: %s", path, strerror(errno));
  if (*fd < 0) {
    snprintf(path, PATH_SPACE, "%s/%s", folder, name);
    if (!lstat(path, &sb))
      warn_left_out(folder, name, !follow || S_ISLNK(sb.st_mode) ? link : "not a regular file");
    return TRI_OK;
  }
  if (!fstat(*fd, &sb) && S_ISREG(sb.st_mode)) return TRI_OK;
  close(*fd);
  *fd = -1;
  warn_left_out(folder, name, "not a regular file");
  return TRI_OK;
}

tri_status tri_sidecar_read_file(const char *folder, const char *name, char **bytes, size_t *n) {
  char       path[PATH_SPACE];
  tri_status st;
  int        fd;

  *bytes = NULL;
  TRI_TRY(open_file(folder, name, path, &fd));
  if (fd < 0) return TRI_OK;
  st = tri_file_read_open(fd, path, MOST_BYTES, bytes, n);
  close(fd);
  return st;
}

tri_status tri_sidecar_read(const char *folder, tri_sidecar *out) {
  for (int i = 0; i < TRI_SIDECAR_FILES; i++) {
    TRI_TRY(tri_sidecar_read_file(folder, tri_sidecar_path(i), &out->bytes[i], &out->n[i]));
    out->there[i] = out->bytes[i] != NULL;
  }
  return TRI_OK;
}

tri_status tri_sidecar_get(tri_ckpt_reader *r, tri_sidecar *out) {
  for (int i = 0; i < TRI_SIDECAR_FILES; i++) {
    if (!tri_ckpt_has_file(r, names[i])) continue;
    TRI_TRY(tri_ckpt_get_file(r, names[i], &out->bytes[i], &out->n[i]));
    out->there[i] = true;
  }
  return TRI_OK;
}

tri_status tri_sidecar_share(tri_sidecar *c, tri_comm *world) {
  return tri_host_bcast(world, c->there, sizeof c->there, 0);
}

tri_status tri_sidecar_put(const tri_sidecar *c, tri_ckpt_writer *w) {
  for (int i = 0; i < TRI_SIDECAR_FILES; i++)
    if (c->there[i]) TRI_TRY(tri_ckpt_put_file(w, names[i], c->bytes[i], c->n[i]));
  return TRI_OK;
}

void tri_sidecar_free(tri_sidecar *c) {
  for (int i = 0; i < TRI_SIDECAR_FILES; i++) TRI_FREE(c->bytes[i]);
  *c = (tri_sidecar){0};
}
