/* pager.c - prints to standard output, through a pager if people read it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pager.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/columns.h"
#include "base/print.h"

enum { LEAST_COLUMNS = 20, NOT_FOUND = 127 }; /* chosen: a word and its margin. NOT_FOUND is sh's exit code */

/* One column less than the terminal has. */
static int columns(void) {
  struct winsize w;

  if (!tri_print_is_terminal() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || w.ws_col == 0)
    return TRI_SCREEN_COLUMNS;
  return w.ws_col - 1 > LEAST_COLUMNS ? w.ws_col - 1 : LEAST_COLUMNS;
}

static const char *choose(void) {
  const char *pager = getenv("PAGER");

  if (!tri_print_is_terminal()) return NULL;
  if (pager) return pager[strspn(pager, " ")] ? pager : NULL;
  if (tri_child_check("less") == TRI_OK) return "less -R";
  tri_error_clear();
  return NULL;
}

/* less shows colours only with -R, or an R in $LESS. */
static bool takes_colour(const char *command) {
  const char *less = getenv("LESS");

  return !command || !strstr(command, "less") || strstr(command, "-R") || (less && strpbrk(less, "Rr"));
}

void tri_pager_open(tri_pager *out) {
  *out = (tri_pager){.command = choose(), .columns = columns()};
  if (out->command)
    setenv("LESS", "FRX", 0); /* as git does: less ends at once if the text fits on the
                                               * screen */
  fflush(stdout);
  if (out->command) out->pipe = popen(out->command, "w");
  out->colour = tri_print_is_coloured() && takes_colour(out->command);
  if (!out->pipe) return;
  /* Ctrl-C now belongs to the pager. A pager that has quit shows up as EPIPE at the next write. */
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

tri_status tri_pager_put(tri_pager *p, const char *text, size_t n) {
  if (p->gone || fwrite(text, 1, n, p->pipe ? p->pipe : stdout) == n) return TRI_OK;
  p->gone = p->pipe && errno == EPIPE;
  if (p->gone) return TRI_OK;
  TRI_FAIL(TRI_EFILE, "%s cannot be written: %s", p->pipe ? "the pager" : "standard output", strerror(errno));
}

tri_status tri_pager_close(tri_pager *p) {
  int status;

  if (!p->pipe) return TRI_OK;
  status = pclose(p->pipe);
  p->pipe = NULL;
  signal(SIGINT, SIG_DFL);
  signal(SIGQUIT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
    TRI_FAIL(TRI_EARG, "the pager cannot be started (PAGER='%s'). PAGER='' uses none", p->command);
  return TRI_OK;
}
