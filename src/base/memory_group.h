/* memory_group.h - memory limits that the kernel enforces by killing: nested control groups (cgroups),
 * versions 2 and 1, and their counts of killed processes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEMORY_GROUP_H
#define TRI_MEMORY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_GROUP_PATH_BYTES = 1200 };

/* All that follow are not collective. `root` is the folder with /proc and /sys in it, "" except in tests. pid
 * 0 is this process. */

/* Pure. True if a comma-separated list, such as the controllers of a group, contains the word. */
bool tri_group_has(const char *list, const char *word);

/* The limits of a process, from its own group and the groups above. */
typedef struct tri_memory_limit {
  size_t bytes;                      /* the lowest limit */
  size_t free;                       /* the least free memory of a group. Unused file cache counts as free */
  char   file[TRI_GROUP_PATH_BYTES]; /* the file of the limit with the least free memory */
} tri_memory_limit;
/* False, with *out zeroed: there is no limit, or none that can be read. */
bool tri_memory_limit_find(const char *root, int pid, tri_memory_limit *out);

/* Finds the file that counts processes of the group killed by the kernel for lack of memory. False: there is
 * none. */
bool tri_memory_kills_find(const char *root, int pid, char file[TRI_GROUP_PATH_BYTES]);
/* Returns their number so far. -1: the file cannot be read. */
int64_t tri_memory_kills_count(const char *file);

/* Bytes that this process may still map under RLIMIT_AS (ulimit -v). False: there is no such limit. */
bool tri_memory_address_space(size_t *limit, size_t *space);

#endif
