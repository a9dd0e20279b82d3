/* plain_start.c - linked to every test program: it begins as from a terminal, however it was started.
 *
 * nohup, service managers and shells without job control hand on signals that are ignored or held back, and
 * standard streams that are closed. Then a process does not end by a signal that a test sends it, and the
 * next file that is opened is taken for a stream. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { SIGNALS = 32 }; /* the standard ones, from 1 (signal(7)) */

/* A sanitizer's own handlers stay. */
__attribute__((constructor)) static void start_plainly(void) {
  struct sigaction now;
  sigset_t         none;

  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int i = 1; i < SIGNALS; i++)
    if (!sigaction(i, NULL, &now) && now.sa_handler == SIG_IGN) signal(i, SIG_DFL);
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) _exit(1);
}
