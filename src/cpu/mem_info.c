/* mem_info.c - finds how much memory this process may use, from the machine or its control group. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/memory_group.h"
#include "device_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the value of a line "key: number kB" in /proc/meminfo in bytes, or SIZE_MAX if it is missing. */
static size_t bytes_of(const char *key) {
  char   line[256];
  size_t found = SIZE_MAX;
  FILE  *f = fopen("/proc/meminfo", "r");

  if (!f) return SIZE_MAX;
  while (found == SIZE_MAX && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) found = (size_t)strtoull(line + strlen(key), NULL, 10) * 1024;
  fclose(f);
  return found;
}

tri_status tri_cpu_mem_machine(size_t *bytes_free, size_t *bytes_total) {
  size_t available = bytes_of("MemAvailable:"), total = bytes_of("MemTotal:");

  *bytes_free = *bytes_total = 0;
  if (available == SIZE_MAX || total == SIZE_MAX)
    TRI_FAIL(TRI_EDEVICE, "/proc/meminfo lacks MemAvailable or MemTotal");
  *bytes_free = available;
  *bytes_total = total;
  return TRI_OK;
}

tri_status tri_cpu_mem_info(size_t *bytes_free, size_t *bytes_total) {
  tri_memory_limit limit;

  TRI_TRY(tri_cpu_mem_machine(bytes_free, bytes_total));
  if (!tri_memory_limit_find("", 0, &limit)) return TRI_OK;
  if (limit.bytes < *bytes_total) *bytes_total = limit.bytes;
  if (limit.free < *bytes_free) *bytes_free = limit.free;
  return TRI_OK;
}
