/* live.c - one status line at the end of a terminal, redrawn repeatedly and kept out of the way of
 * messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "live.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static char                  live_line[256]; /* chosen: wider than any line shown */
static volatile sig_atomic_t is_drawn;

/* Goes to the beginning of the line and erases from there on. */
static const char wipe[] = "\r\033[J";

static bool has_terminal(void) {
  const char *term = getenv("TERM");

  return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

static int columns(void) {
  struct winsize w;

  return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

int tri_live_columns(void) { return has_terminal() ? columns() - 1 : 0; }

void tri_live_wipe(void) {
  if (is_drawn) fputs(wipe, stderr);
  fflush(stderr);
  is_drawn = 0;
}

void tri_live_redraw(void) {
  if (!live_line[0]) return;
  tri_live_wipe();
  is_drawn = 1; /* set first, so that a signal meanwhile wipes the line */
  /* One column stays free, because some terminals wrap at the last one. */
  fprintf(stderr, "%.*s\r", columns() - 1, live_line);
  fflush(stderr);
}

bool tri_live_draw(const char *line) {
  snprintf(live_line, sizeof live_line, "%s", line && has_terminal() ? line : "");
  if (live_line[0])
    tri_live_redraw();
  else
    tri_live_wipe();
  return live_line[0] != 0;
}

/* A failed write is ignored, because there is nowhere else to report it. */
static void put(const char *text, size_t n) {
  ssize_t written = write(STDERR_FILENO, text, n);
  (void)written;
}

void tri_live_interrupt(const char *line) {
  int before = errno;

  if (is_drawn) put(wipe, sizeof wipe - 1);
  is_drawn = 0;
  put(line, strlen(line));
  errno = before;
}
