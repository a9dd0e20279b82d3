/* mem_info.c - how much memory this process may use: the machine's, or its control group's. */
#include "device_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `key` in a file of lines "key number"; SIZE_MAX if it is not there. */
static size_t number_in(const char *path, const char *key) {
  char   line[256];
  size_t found = SIZE_MAX;
  FILE  *f = fopen(path, "r");

  if (!f) return SIZE_MAX;
  while (found == SIZE_MAX && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) {
      char              *end;
      unsigned long long v = strtoull(line + strlen(key), &end, 10);
      if (end != line + strlen(key)) found = (size_t)v;
    }
  fclose(f);
  return found;
}

/* The two generations of control groups: where they are mounted and how their files are called. */
typedef struct group_kind {
  const char *mount, *limit, *usage, *idle_key;
} group_kind;
static const group_kind group_v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
static const group_kind group_v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                    "total_inactive_file "};

/* One group: lowers the two numbers if it allows less. Pages of files nobody uses count as free. */
static void apply_group(const group_kind *k, const char *group, size_t *bytes_free, size_t *bytes_total) {
  char   path[1200];
  size_t limit, used, idle;

  snprintf(path, sizeof path, "%s%s/%s", k->mount, group, k->limit);
  limit = number_in(path, "");
  snprintf(path, sizeof path, "%s%s/%s", k->mount, group, k->usage);
  used = number_in(path, "");
  if (limit == SIZE_MAX || used == SIZE_MAX || limit >= *bytes_total) return;
  snprintf(path, sizeof path, "%s%s/memory.stat", k->mount, group);
  idle = number_in(path, k->idle_key);
  if (idle != SIZE_MAX) used -= idle < used ? idle : used;
  *bytes_total = limit;
  if (limit - (used < limit ? used : limit) < *bytes_free)
    *bytes_free = limit - (used < limit ? used : limit);
}

/* /proc/self/cgroup has lines "number:controllers:/path"; a limit may stand in any group above. */
static void apply_groups(size_t *bytes_free, size_t *bytes_total) {
  char  line[1024];
  FILE *f = fopen("/proc/self/cgroup", "r");

  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    const group_kind *k = NULL;
    if (!group) continue;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (!strncmp(line, "0:", 2) && !controllers[1]) k = &group_v2;
    if (strstr(controllers, "memory")) k = &group_v1;
    if (!k) continue;
    if (!strcmp(group, "/")) group[0] = 0;
    for (;;) {
      char *slash = strrchr(group, '/');
      apply_group(k, group, bytes_free, bytes_total);
      if (!slash) break;
      *slash = 0;
    }
  }
  fclose(f);
}

tri_status tri_cpu_mem_info(size_t *bytes_free, size_t *bytes_total) {
  size_t available = number_in("/proc/meminfo", "MemAvailable:"),
         total = number_in("/proc/meminfo", "MemTotal:");

  *bytes_free = *bytes_total = 0;
  if (available == SIZE_MAX || total == SIZE_MAX)
    TRI_FAIL(TRI_EDEVICE, "/proc/meminfo does not say how much memory there is");
  *bytes_free = available * 1024;
  *bytes_total = total * 1024;
  apply_groups(bytes_free, bytes_total);
  return TRI_OK;
}
