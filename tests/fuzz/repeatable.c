/* repeatable.c - makes runs of a harness repeatable, so that equal inputs take equal paths through the code.
 * It fixes the random bytes that key hash tables, and the times of files. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* AT_EMPTY_PATH */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

ssize_t getrandom(void *bytes, size_t n, unsigned flags) {
  (void)flags;
  memset(bytes, 7, n);
  return (ssize_t)n;
}

static __attribute__((constructor)) void seed_json(void) { json_object_seed(1); }

enum { FILE_TIME_UNIX_S = 1900000000 }; /* chosen to lie before the `now` of fuzz_history.c, 2e9 */

/* Times of folders stay, because libFuzzer's -reload uses them. */
static int without_times(int failed, struct stat *sb) {
  if (!failed && !S_ISDIR(sb->st_mode))
    sb->st_atim = sb->st_mtim = sb->st_ctim = (struct timespec){.tv_sec = FILE_TIME_UNIX_S};
  return failed;
}

int stat(const char *path, struct stat *sb) { return without_times(fstatat(AT_FDCWD, path, sb, 0), sb); }
int fstat(int fd, struct stat *sb) { return without_times(fstatat(fd, "", sb, AT_EMPTY_PATH), sb); }
