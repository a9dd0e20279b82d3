/* proc_state.c - tells from /proc whether another process of this node runs (proc(5)). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "proc_state.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024, PATH_BYTES = 320, START_FIELD = 22 }; /* proc(5): field 22 is starttime */

/* Field 2 is the program's name in parentheses. The name may hold spaces and parentheses itself. */
bool tri_proc_read(const char *line, char *letter, uint64_t *start) {
  const char *at = strrchr(line, ')');
  char       *end;

  if (!at || at[1] != ' ' || !isalpha((unsigned char)at[2]) || at[3] != ' ') return false;
  *letter = at[2];
  at += 3;
  for (int field = 3; field < START_FIELD - 1; field++) {
    at = strchr(at + 1, ' ');
    if (!at) return false;
  }
  if (!isdigit((unsigned char)at[1])) return false;
  *start = strtoull(at + 1, &end, 10);
  return *end == ' ';
}

/* False: the file cannot be opened or read. errno has the reason. */
static bool read_file(const char *path, char *letter, uint64_t *start) {
  char  line[LINE_BYTES] = "";
  FILE *f = fopen(path, "re");
  bool  read;

  if (!f) return false;
  errno = 0;
  read = fgets(line, sizeof line, f) != NULL;
  if (!read && !errno) errno = EIO;
  fclose(f);
  return read && tri_proc_read(line, letter, start);
}

uint64_t tri_proc_start(int64_t pid) {
  char     path[PATH_BYTES], letter;
  uint64_t start;

  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  return read_file(path, &letter, &start) ? start : 0;
}

static bool runs(char letter) { return letter == 'R' || letter == 'D'; }

/* A waiting thread can delay the heartbeat while the first thread sleeps until the others have done their
 * part. */
static bool any_thread_runs(int64_t pid) {
  char           path[PATH_BYTES], letter;
  uint64_t       start;
  DIR           *folder;
  struct dirent *entry;
  bool           found = false;

  snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
  folder = opendir(path);
  while (folder && !found && (entry = readdir(folder))) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    snprintf(path, sizeof path, "/proc/%lld/task/%.32s/stat", (long long)pid, entry->d_name);
    found = read_file(path, &letter, &start) && runs(letter);
  }
  if (folder) closedir(folder);
  return found;
}

tri_proc_state tri_proc_look(int64_t pid, uint64_t start) {
  char     path[PATH_BYTES], letter;
  uint64_t now;

  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  errno = 0;
  if (!read_file(path, &letter, &now))
    return errno == ESRCH ? TRI_PROC_GONE : TRI_PROC_UNKNOWN; /* other errors: /proc may hide the process */
  if (start && now != start) return TRI_PROC_GONE;
  if (letter == 'Z' || letter == 'X' || letter == 'x') return TRI_PROC_GONE;
  if (letter == 'T' || letter == 't') return TRI_PROC_STOPPED;
  return runs(letter) || any_thread_runs(pid) ? TRI_PROC_RUNS : TRI_PROC_SLEEPS;
}
