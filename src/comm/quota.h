/* quota.h - the number of cores that control groups leave to the ranks of a node (cpu.max, cpu.cfs_quota_us).
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_QUOTA_H
#define TRI_QUOTA_H

#include <stdint.h>

enum { TRI_QUOTA_MOST = 16 }; /* chosen: the most limited groups of one process. Further ones are not read */

/* One control group with a limit: its folder, and the CPU seconds per second for all its processes
 * together. */
typedef struct tri_quota_group {
  uint64_t device, inode;
  double   cores;
} tri_quota_group;

typedef struct tri_quota {
  int64_t         n;
  tri_quota_group group[TRI_QUOTA_MOST];
} tri_quota;

/* Not collective. Reads the limits of this process, from its group and every group above, for cgroup v2 and
 * v1. mount is "/sys/fs/cgroup" and membership is "/proc/self/cgroup". Text in another form counts as no
 * limit. */
void tri_quota_read(const char *mount, const char *membership, tri_quota *out);
/* Pure. Returns the cores for each rank under the tightest limit of `mine`. all [n] holds the limits of all
 * ranks of the node, including mine. INFINITY: no limit. */
double tri_quota_share(const tri_quota *mine, const tri_quota *all, int n);

#endif
