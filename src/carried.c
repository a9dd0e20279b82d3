/* carried.c - files that go with a model for other programs: through checkpoints and exports, unchanged. */
#include "carried.h"
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 }; /* chosen: five times the largest vocab.json known */
enum { PATH_ROOM = 2 * TRI_CKPT_PATH_BYTES };

static const char *const names[TRI_CARRIED_FILES] = {
    "chat_template.jinja", "chat_template.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json",          "merges.txt",         "tokenizer.model"};
static const char blobs[] = "../../blobs/";

const char *tri_carried_name(int i) { return names[i]; }

/* Does a link with this text stay in its folder, or in its repository of the cache? */
static bool stays(const char *target) {
  size_t n = sizeof blobs - 1;

  if (!strncmp(target, blobs, n)) target += n;
  return target[0] && !strchr(target, '/') && strcmp(target, "..") != 0;
}

/* Where the bytes of folder/name lie; "" where it is not there, or not to be followed. */
static tri_status find_file(const char *folder, const char *name, char path[PATH_ROOM]) {
  struct stat sb;
  char        target[TRI_CKPT_PATH_BYTES];
  ssize_t     n;

  snprintf(path, PATH_ROOM, "%s/%s", folder, name);
  if (lstat(path, &sb)) {
    path[0] = 0;
    return TRI_OK;
  }
  if (S_ISLNK(sb.st_mode)) {
    n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (stays(target)) snprintf(path, PATH_ROOM, "%s/%s", folder, target);
    if (!stays(target) || lstat(path, &sb) || S_ISLNK(sb.st_mode)) {
      tri_log(TRI_LOG_WARN,
              "%s/%s: is a link that leads out of its folder, or to no file; it is not followed, and "
              "checkpoints and "
              "exports go without it",
              folder, name);
      path[0] = 0;
      return TRI_OK;
    }
  }
  if (!S_ISREG(sb.st_mode)) TRI_FAIL(TRI_EINPUT, "%s: is no regular file", path);
  return TRI_OK;
}

tri_status tri_carried_read(const char *folder, tri_carried *out) {
  char path[PATH_ROOM];

  for (int i = 0; i < TRI_CARRIED_FILES; i++) {
    TRI_TRY(find_file(folder, names[i], path));
    if (!path[0]) continue;
    TRI_TRY(tri_file_read(path, MOST_BYTES, &out->bytes[i], &out->n[i]));
    out->there[i] = true;
  }
  return TRI_OK;
}

tri_status tri_carried_get(tri_ckpt_reader *r, tri_carried *out) {
  for (int i = 0; i < TRI_CARRIED_FILES; i++) {
    if (!tri_ckpt_has_file(r, names[i])) continue;
    TRI_TRY(tri_ckpt_get_file(r, names[i], &out->bytes[i], &out->n[i]));
    out->there[i] = true;
  }
  return TRI_OK;
}

tri_status tri_carried_share(tri_carried *c, tri_comm *world) {
  return tri_host_bcast(world, c->there, sizeof c->there, 0);
}

tri_status tri_carried_put(const tri_carried *c, tri_ckpt_writer *w) {
  for (int i = 0; i < TRI_CARRIED_FILES; i++)
    if (c->there[i]) TRI_TRY(tri_ckpt_put_file(w, names[i], c->bytes[i], c->n[i]));
  return TRI_OK;
}

void tri_carried_free(tri_carried *c) {
  for (int i = 0; i < TRI_CARRIED_FILES; i++) TRI_FREE(c->bytes[i]);
  *c = (tri_carried){0};
}
