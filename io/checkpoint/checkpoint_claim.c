/* checkpoint_claim.c - checks, before a checkpoint is published, that the folder still belongs to this
 * start. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char guard_path[TRI_CKPT_PATH_BYTES], guard_text[256];

void tri_ckpt_guard(const char *path, const char *text) {
  snprintf(guard_path, sizeof guard_path, "%s", path);
  snprintf(guard_text, sizeof guard_text, "%s", text);
}

/* Reads the first bytes of a file, or "" if it is missing or cannot be read. */
static void read_file(const char *path, char *out, size_t n) {
  int     fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  ssize_t got = fd < 0 ? 0 : read(fd, out, n - 1);

  out[got > 0 ? got : 0] = 0;
  if (fd >= 0) close(fd);
}

bool tri_ckpt_guard_holds(void) {
  char now[sizeof guard_text];

  if (!guard_path[0]) return true;
  read_file(guard_path, now, sizeof now);
  return !now[0] || !strcmp(now, guard_text);
}

tri_status tri_ckpt_check_guard(void) {
  char now[sizeof guard_text];

  if (tri_ckpt_guard_holds()) return TRI_OK;
  read_file(guard_path, now, sizeof now);
  now[strcspn(now, "\n")] = 0;
  TRI_FAIL(TRI_ECONFIG,
           "%s: another start of this run writes here now (%s). This one ends without publishing its "
           "checkpoint.",
           guard_path, now);
}
