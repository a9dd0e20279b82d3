/* lives.c - finds out if a run's process is alive, by its process number and its folder's lock. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "look_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* A run locks its folder (src/run/output.c). /proc/locks lists all locks held by processes of this node.
 * Trying to take the lock instead could block a run that is starting. */
static bool is_locked(const char *folder) {
  struct stat   sb;
  char          line[256], kind[32];
  unsigned int  major_id, minor_id;
  unsigned long inode;
  bool          found = false;
  FILE         *f = stat(folder, &sb) ? NULL : fopen("/proc/locks", "re");

  while (f && !found && fgets(line, sizeof line, f))
    found = sscanf(line, "%*s %31s %*s %*s %*s %x:%x:%lu", kind, &major_id, &minor_id, &inode) == 4 &&
            !strcmp(kind, "FLOCK") && inode == sb.st_ino && major_id == major(sb.st_dev) &&
            minor_id == minor(sb.st_dev);
  if (f) fclose(f);
  return found;
}

/* Returns the start of the process in seconds since 1970, to about a second, or 0 if unknown. *ended is true
 * for a zombie, an ended process whose parent has not yet collected its exit code. */
static double began_at(int64_t pid, bool *ended) {
  char            path[64], text[1024] = "", state = 0;
  unsigned long   ticks = 0;
  struct timespec up = {0};
  FILE           *f;
  char           *name_end;

  *ended = false;
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  f = fopen(path, "re");
  if (!f) return 0;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  name_end = strrchr(text, ')'); /* proc(5), field 22 is the start in ticks since boot, the name is field 2 */
  if (!name_end || clock_gettime(CLOCK_BOOTTIME, &up)) return 0;
  if (sscanf(name_end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu",
             &state, &ticks) != 2)
    return 0;
  *ended = state == 'Z' || state == 'X';
  return tri_unix_s() - ((double)up.tv_sec - (double)ticks / (double)sysconf(_SC_CLK_TCK));
}

/* The system reuses process numbers. A process with this number counts only if it started no later than the
 * run. */
static bool is_there(int64_t pid, double start_unix_s) {
  enum { SLACK_S = 5 }; /* chosen for differences between the clocks of a file system and this node */

  bool   ended;
  double began_s;

  if (pid > INT32_MAX || (kill((pid_t)pid, 0) && errno != EPERM)) return false;
  began_s = began_at(pid, &ended);
  return !ended && began_s <= start_unix_s + SLACK_S;
}

int tri_look_lives(const tri_history *h) {
  const tri_history_life *life = tri_history_life_of(h);
  char                    host[TRI_HISTORY_HOST_BYTES] = "";

  if (gethostname(host, sizeof host - 1) || !life->pid || strcmp(host, life->host) != 0) return -1;
  return is_there(life->pid, life->start_unix_s) || is_locked(tri_history_folder(h));
}
