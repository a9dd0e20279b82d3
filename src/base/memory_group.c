/* memory_group.c - control groups: their mounts, their memory limits, and the processes killed by the
 * kernel. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The two versions of control groups: their usual mount and the names of their files. */
typedef struct version {
  const char *mount, *limit, *usage, *idle_key, *kills;
} version;
static const version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ",
                           "memory.events"};
static const version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                           "total_inactive_file ", "memory.oom_control"};

/* A process's group is <mount><path>. path begins with a slash or is empty. */
typedef struct group {
  const version *v;
  char           mount[TRI_GROUP_PATH_BYTES / 4], path[TRI_GROUP_PATH_BYTES / 2];
} group;

/* Version 1 gives a number near 2^63 for no limit, version 2 gives "max". */
static const size_t unlimited = (size_t)1 << 62;

/* Returns the number after `key` in a file of lines "key number". SIZE_MAX: it is missing. */
static size_t number_in(const char *path, const char *key) {
  char   line[256];
  size_t found = SIZE_MAX;
  FILE  *f = fopen(path, "r");

  if (!f) return SIZE_MAX;
  while (found == SIZE_MAX && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) {
      char              *end;
      unsigned long long x = strtoull(line + strlen(key), &end, 10);
      if (end != line + strlen(key)) found = (size_t)x;
    }
  fclose(f);
  return found;
}

bool tri_group_has(const char *list, const char *word) {
  size_t n = strlen(word);

  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strncmp(at, word, n) && (!at[n] || at[n] == ',')) return true;
  }
  return false;
}

/* mountinfo writes a space in a name as \040, and other characters likewise. */
static void unescape(char *text) {
  char *to = text;

  for (const char *at = text; *at; to++)
    if (at[0] == '\\' && strspn(at + 1, "01234567") >= 3) {
      *to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
      at += 4;
    } else
      *to = *at++;
  *to = 0;
}

/* Reads one line of mountinfo (proc(5)): "36 35 98:0 ROOT MOUNT options ... - type source options". */
static bool read_mount(char *line, const version *v, char **base, char **mount) {
  char *rest = strstr(line, " - "), *at = line, *save = NULL, *type, *options;

  if (!rest) return false;
  *rest = 0;
  for (int i = 0; i < 3; i++, at = NULL)
    if (!strtok_r(at, " ", &save)) return false;
  *base = strtok_r(NULL, " ", &save);
  *mount = strtok_r(NULL, " ", &save);
  type = strtok_r(rest + 3, " \n", &save);
  if (!*base || !*mount || !type || !strtok_r(NULL, " \n", &save)) return false;
  options = strtok_r(NULL, " \n", &save);
  if (v == &v2 ? strcmp(type, "cgroup2") != 0
               : strcmp(type, "cgroup") != 0 || !options || !tri_group_has(options, "memory"))
    return false;
  unescape(*base);
  unescape(*mount);
  return true;
}

/* Finds the mount of this version's groups and makes the path relative to it. A container sees only a part of
 * the groups. */
static void find_mount(const char *root, group *g) {
  char   path[TRI_GROUP_PATH_BYTES], line[4096], *base, *mount;
  size_t n;
  FILE  *f;

  snprintf(g->mount, sizeof g->mount, "%s%s", root, g->v->mount);
  snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
  f = fopen(path, "r");
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    if (!read_mount(line, g->v, &base, &mount)) continue;
    if (strlen(root) + strlen(mount) >= sizeof g->mount) continue;
    snprintf(g->mount, sizeof g->mount, "%s%s", root, mount);
    n = strlen(base);
    if (!strcmp(base, "/")) break;
    if (!strncmp(g->path, base, n) && (g->path[n] == '/' || !g->path[n]))
      memmove(g->path, g->path + n, strlen(g->path + n) + 1);
    break;
  }
  fclose(f);
}

/* Reads lines "number:controllers:/path" of /proc/PID/cgroup. Returns the number of groups that may limit
 * memory. */
static int find_groups(const char *root, int pid, group out[2]) {
  char  line[TRI_GROUP_PATH_BYTES], path[TRI_GROUP_PATH_BYTES];
  int   n = 0;
  FILE *f;

  if (pid > 0)
    snprintf(path, sizeof path, "%s/proc/%d/cgroup", root, pid);
  else
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  f = fopen(path, "r");
  if (!f) return 0;
  while (n < 2 && fgets(line, sizeof line, f)) {
    char *controllers = strchr(line, ':'), *name = controllers ? strchr(controllers + 1, ':') : NULL;
    group g = {0};
    if (!name) continue;
    *controllers++ = 0;
    *name++ = 0;
    name[strcspn(name, "\n")] = 0;
    if (!strcmp(line, "0") && !*controllers) g.v = &v2;
    if (tri_group_has(controllers, "memory")) g.v = &v1;
    if (!g.v || strlen(name) >= sizeof g.path) continue;
    snprintf(g.path, sizeof g.path, "%s", strcmp(name, "/") ? name : "");
    find_mount(root, &g);
    out[n++] = g;
  }
  fclose(f);
  return n;
}

/* Lowers the numbers if this group allows less. */
static void apply(const group *g, tri_memory_limit *out) {
  char   path[TRI_GROUP_PATH_BYTES], file[TRI_GROUP_PATH_BYTES];
  size_t limit, used, idle, left;

  snprintf(file, sizeof file, "%s%s/%s", g->mount, g->path, g->v->limit);
  limit = number_in(file, "");
  snprintf(path, sizeof path, "%s%s/%s", g->mount, g->path, g->v->usage);
  used = number_in(path, "");
  if (limit >= unlimited || used == SIZE_MAX) return;
  snprintf(path, sizeof path, "%s%s/memory.stat", g->mount, g->path);
  idle = number_in(path, g->v->idle_key);
  if (idle != SIZE_MAX) used -= idle < used ? idle : used;
  left = limit - (used < limit ? used : limit);
  if (limit < out->bytes) out->bytes = limit;
  if (left >= out->free) return;
  out->free = left;
  memcpy(out->file, file, sizeof file);
}

bool tri_memory_limit_find(const char *root, int pid, tri_memory_limit *out) {
  group g[2];
  int   n = find_groups(root, pid, g);

  *out = (tri_memory_limit){.bytes = SIZE_MAX, .free = SIZE_MAX};
  for (int i = 0; i < n; i++)
    for (char *slash = g[i].path; slash;) { /* upwards */
      apply(&g[i], out);
      slash = strrchr(g[i].path, '/');
      if (slash) *slash = 0;
    }
  if (!out->file[0]) *out = (tri_memory_limit){0};
  return out->file[0];
}

/* Version 2 counts in the victim's group and all groups above it, version 1 only in the victim's. */
bool tri_memory_kills_find(const char *root, int pid, char file[TRI_GROUP_PATH_BYTES]) {
  group g[2];
  int   n = find_groups(root, pid, g);

  for (int i = 0; i < n; i++) {
    snprintf(file, TRI_GROUP_PATH_BYTES, "%s%s/%s", g[i].mount, g[i].path, g[i].v->kills);
    if (tri_memory_kills_count(file) >= 0) return true;
  }
  file[0] = 0;
  return false;
}

int64_t tri_memory_kills_count(const char *file) {
  size_t n = number_in(file, "oom_kill ");

  return n == SIZE_MAX ? -1 : (int64_t)n;
}

bool tri_memory_address_space(size_t *limit, size_t *space) {
  struct rlimit r;
  size_t        pages = number_in("/proc/self/statm", ""), used;

  *limit = *space = 0;
  if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY || pages == SIZE_MAX) return false;
  used = pages * (size_t)sysconf(_SC_PAGESIZE);
  *limit = (size_t)r.rlim_cur;
  *space = *limit - (used < *limit ? used : *limit);
  return true;
}
