/* plain_start.c - linked to every test program: each starts as from a terminal, however it was launched.
 *
 * nohup, service managers and shells without job control pass on ignored or blocked signals and closed
 * standard streams. With those, a signal of a test would not end a process, and the next opened file would
 * become a standard stream. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { SIGNALS = 32 }; /* the standard signals, from 1 (signal(7)) */

/* Keeps a sanitizer's own handlers. */
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
