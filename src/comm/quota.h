/* quota.h - how many cores control groups leave to the ranks of a node (cpu.max, cpu.cfs_quota_us). Private
 * to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_QUOTA_H
#define TRI_QUOTA_H

#include <stdint.h>

enum { TRI_QUOTA_MOST = 16 }; /* chosen: groups of a process that have a limit; more are not read */

/* One control group with a limit: its folder, and CPU seconds per second of all its processes together. */
typedef struct tri_quota_group {
  uint64_t device, inode;
  double   cores;
} tri_quota_group;

typedef struct tri_quota {
  int64_t         n;
  tri_quota_group group[TRI_QUOTA_MOST];
} tri_quota;

/* Not collective. The limits of this process: those of its group and of every group above, of cgroup v2 and
 * v1. mount: "/sys/fs/cgroup"; membership: "/proc/self/cgroup". Text of another form counts as no limit. */
void tri_quota_read(const char *mount, const char *membership, tri_quota *out);
/* Pure. Cores for each of the ranks that are under the tightest limit of mine; all [n]: the limits of all
 * ranks of the node, mine among them. INFINITY: no limit. */
double tri_quota_share(const tri_quota *mine, const tri_quota *all, int n);

#endif
