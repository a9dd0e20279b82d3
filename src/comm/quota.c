/* quota.c - the number of cores that control groups leave to the ranks of a node. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "quota.h"
#include "base/memory_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

/* Reads the first line of a file. */
static bool read_line(const char *path, char line[64]) {
  FILE *f = fopen(path, "re");
  bool  read = f && fgets(line, 64, f);

  if (f) fclose(f);
  return read;
}

/* Divides the CPU time by its period, two numbers above 0 in microseconds. "max" and -1 mean no limit. */
static double divide(const char *quota, const char *period) {
  char  *end;
  double q = strtod(quota, &end), p;

  if (end == quota || !(q > 0)) return INFINITY;
  p = strtod(period, &end);
  return end != period && p > 0 && isfinite(p) && isfinite(q) ? q / p : INFINITY;
}

/* v2 (Linux, admin-guide/cgroup-v2) has one file with "$MAX $PERIOD". */
static double cores_v2(const char *folder) {
  char  path[PATH_BYTES + 32], line[64];
  char *space;

  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (!read_line(path, line) || !(space = strchr(line, ' '))) return INFINITY;
  return divide(line, space);
}

/* v1 (Linux, scheduler/sched-bwc) has two files. */
static double cores_v1(const char *folder) {
  char path[PATH_BYTES + 32], quota[64], period[64];

  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!read_line(path, quota)) return INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  return read_line(path, period) ? divide(quota, period) : INFINITY;
}

static void add_group(const char *folder, double cores, tri_quota *out) {
  struct stat sb;

  if (!isfinite(cores) || out->n >= TRI_QUOTA_MOST || stat(folder, &sb)) return;
  for (int i = 0; i < out->n; i++)
    if (out->group[i].device == (uint64_t)sb.st_dev && out->group[i].inode == (uint64_t)sb.st_ino) return;
  out->group[out->n++] = (tri_quota_group){(uint64_t)sb.st_dev, (uint64_t)sb.st_ino, cores};
}

/* Adds the group and all groups above it. A container may see the host's path, while its own group is the
 * root of the mount. Missing folders are skipped. */
static void add_groups(const char *mount, const char *group, double (*cores_of)(const char *),
                       tri_quota *out) {
  char   folder[PATH_BYTES];
  size_t root = strlen(mount);

  if (snprintf(folder, sizeof folder, "%s%s", mount, strstr(group, "/..") ? "" : group) >= (int)sizeof folder)
    return;
  for (;;) {
    char *slash;
    add_group(folder, cores_of(folder), out);
    slash = strrchr(folder + root, '/');
    if (!slash) return;
    *slash = 0;
  }
}

/* Distributions mount the controller under one of these names. A folder with two names counts once. */
static void add_v1(const char *mount, const char *group, tri_quota *out) {
  static const char *const name[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu"};
  char                     path[PATH_BYTES];

  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (snprintf(path, sizeof path, "%s/%s", mount, name[i]) < (int)sizeof path)
      add_groups(path, group, cores_v1, out);
}

static void add_v2(const char *mount, const char *group, tri_quota *out) {
  char path[PATH_BYTES];

  add_groups(mount, group, cores_v2, out);
  if (snprintf(path, sizeof path, "%s/unified", mount) < (int)sizeof path)
    add_groups(path, group, cores_v2, out);
}

/* The lines are "number:controllers:/path" (cgroups(7)). v2 has number 0 and no controllers. */
void tri_quota_read(const char *mount, const char *membership, tri_quota *out) {
  char  line[PATH_BYTES];
  FILE *f = fopen(membership, "re");

  *out = (tri_quota){0};
  while (f && fgets(line, sizeof line, f)) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *controllers++ = *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (!strcmp(group, "/")) group[0] = 0;
    if (!strcmp(line, "0") && !*controllers) add_v2(mount, group, out);
    if (tri_group_has(controllers, "cpu")) add_v1(mount, group, out);
  }
  if (f) fclose(f);
}

static bool is_under(const tri_quota *q, const tri_quota_group *g) {
  for (int i = 0; i < q->n; i++)
    if (q->group[i].device == g->device && q->group[i].inode == g->inode) return true;
  return false;
}

double tri_quota_share(const tri_quota *mine, const tri_quota *all, int n) {
  double least = INFINITY;

  for (int i = 0; i < mine->n; i++) {
    int sharers = 0;
    for (int r = 0; r < n; r++) sharers += is_under(&all[r], &mine->group[i]);
    least = fmin(least, mine->group[i].cores / (sharers > 1 ? sharers : 1));
  }
  return least;
}
