/* gather_host.c - reads cores and limits of this rank. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/folder.h"
#include "gather.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

int64_t tri_gather_number(const char *path) {
  char    text[32];
  char   *end;
  int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  long    v;

  if (fd >= 0) close(fd);
  if (n <= 0) return TRI_FACTS_UNKNOWN;
  text[n] = '\0';
  v = strtol(text, &end, 10);
  return end == text ? TRI_FACTS_UNKNOWN : v;
}

static int64_t limit_of(int which) {
  struct rlimit l;

  if (getrlimit(which, &l)) return TRI_FACTS_UNKNOWN;
  return l.rlim_cur == RLIM_INFINITY || l.rlim_cur > INT64_MAX ? TRI_FACTS_NO_LIMIT : (int64_t)l.rlim_cur;
}

/* Returns the NUMA node of a hardware thread, from the folder node<N> in its sysfs folder. */
static int numa_of(int cpu) {
  char           path[96];
  DIR           *folder;
  struct dirent *e;
  int            node = TRI_FACTS_UNKNOWN;

  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
  folder = opendir(path);
  if (!folder) return node;
  while ((e = readdir(folder)))
    if (!strncmp(e->d_name, "node", 4) && e->d_name[4] >= '0' && e->d_name[4] <= '9')
      node = atoi(e->d_name + 4);
  closedir(folder);
  return node;
}

static void gather_cores(tri_facts_cores *c) {
  const char *slurm = getenv("SLURM_CPUS_ON_NODE");
  cpu_set_t   set;
  long        online = sysconf(_SC_NPROCESSORS_ONLN);

  c->online = online > 0 ? (int32_t)online : 1;
  c->mine = c->online;
  c->allotted = slurm ? atoi(slurm) : TRI_FACTS_UNKNOWN;
  c->numa = TRI_FACTS_UNKNOWN;
  if (sched_getaffinity(0, sizeof set, &set)) return; /* more than 1024 hardware threads */
  c->mine = 0;
  for (int i = 0; i < TRI_FACTS_CORES; i++) {
    if (!CPU_ISSET(i, &set)) continue;
    c->mask[i / 64] |= (uint64_t)1 << i % 64;
    int numa = numa_of(i);
    if (!c->mine++)
      c->numa = numa;
    else if (numa != c->numa)
      c->numa = TRI_FACTS_UNKNOWN;
  }
}

void tri_gather_host(tri_facts *out) {
  struct statvfs fs;

  gather_cores(&out->cores);
  out->limits = (tri_facts_limits){limit_of(RLIMIT_MEMLOCK), limit_of(RLIMIT_NOFILE), TRI_FACTS_UNKNOWN,
                                   TRI_FACTS_UNKNOWN};
  if (statvfs("/dev/shm", &fs)) return;
  out->limits.shm = tri_folder_bytes_of(fs.f_blocks, fs.f_frsize);
  out->limits.shm_free = tri_folder_bytes_of(fs.f_bavail, fs.f_frsize);
}
