/* cores.c - the cores of this process, and how its threads wait for each other on them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cores.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Makes the union of the OpenMP places. False: threads are not bound. */
static bool add_places(cpu_set_t *set) {
  const int n = omp_get_num_places();
  bool      any = false;

  CPU_ZERO(set);
  for (int i = 0; omp_get_proc_bind() != omp_proc_bind_false && i < n; i++) {
    const int m = omp_get_place_num_procs(i);
    int      *id = m > 0 ? calloc((size_t)m, sizeof *id) : NULL;
    if (!id) continue;
    omp_get_place_proc_ids(i, id);
    for (int k = 0; k < m; k++)
      if (id[k] >= 0 && id[k] < CPU_SETSIZE) {
        CPU_SET(id[k], set);
        any = true;
      }
    free(id);
  }
  return any;
}

bool tri_cores_mine(void *set, size_t bytes) {
  if (bytes < sizeof(cpu_set_t)) return false;
  return add_places(set) || !sched_getaffinity(0, bytes, set);
}

/* Measured on two Zen 4 cores with steps of 40 ms. On idle cores, 100 loads cost 40 % of the speed and 1000
 * cost nothing. Next to busy loops, 1000 loads take a tenth of the time of the library's default of 300,000,
 * and 20,000 loads still take half of it. */
static const char *const spin_loads = "1000";

static bool is_set(const char *name, const char *value) {
  const char *is = getenv(name);

  return is && !strcmp(is, value);
}

void tri_cores_set_wait(char **argv) {
  static const char *const own[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
  char                     path[4096];
  cpu_set_t                set;
  ssize_t                  n = readlink("/proc/self/exe", path, sizeof path - 1);

  if (is_set("GOMP_SPINCOUNT", spin_loads) && is_set("KMP_BLOCKTIME", "1")) {
    /* This is the second start, and the library has read the variables. A reward's program may use OpenMP too
     * and must get the user's environment. */
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("KMP_BLOCKTIME");
    return;
  }
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (getenv(own[i])) return;
  if (n <= 0 || n >= (ssize_t)sizeof path - 1) return;
  path[n] = 0;
  if (setenv("GOMP_SPINCOUNT", spin_loads, 1) || setenv("KMP_BLOCKTIME", "1", 1)) return;
  if (add_places(&set)) sched_setaffinity(0, sizeof set, &set); /* the restarted library reads this set */
  execv(path, argv);
}
