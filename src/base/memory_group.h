/* memory_group.h - limits on memory that the kernel enforces by killing: control groups (cgroups), version 2
 * and 1, nested; and what they counted. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEMORY_GROUP_H
#define TRI_MEMORY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_GROUP_PATH_BYTES = 1200 };

/* All that follow are not collective. `root` is a folder in which /proc and /sys stand: "" but in tests. pid
 * 0: this process. */

/* Pure. Whether one of a list's words, with commas between, is this one: controllers of a group, say. */
bool tri_group_has(const char *list, const char *word);

/* The limits of a process: its own group's and those of the groups above. */
typedef struct tri_memory_limit {
  size_t bytes; /* the lowest limit */
  size_t free;  /* the least that a group has left; pages of files nobody uses count as free */
  char   file[TRI_GROUP_PATH_BYTES]; /* of the limit that leaves the least */
} tri_memory_limit;
/* False, and *out zeroed: there is none, or none that can be read. */
bool tri_memory_limit_find(const char *root, int pid, tri_memory_limit *out);

/* Where processes of a group are counted that the kernel killed for want of memory. False: nowhere. */
bool tri_memory_kills_find(const char *root, int pid, char file[TRI_GROUP_PATH_BYTES]);
/* How many they are by now; -1: the file cannot be read. */
int64_t tri_memory_kills_count(const char *file);

/* Bytes that this process may still map under RLIMIT_AS (ulimit -v). False: there is no such limit. */
bool tri_memory_address_space(size_t *limit, size_t *space);

#endif
