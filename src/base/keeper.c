/* keeper.c - a process between this one and a program. When either ends, it ends all processes of the
 * program. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* vfork */
#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 500, ROUND_MS = 10 }; /* chosen: 5 s for processes that the system cannot end at once */

int tri_keeper_signal(void) { return SIGRTMIN + 7; }

/* ---- the program ---- */

static volatile int exec_failed; /* set by the child of vfork, which shares our memory */

static _Noreturn void run_program(int keeper, char **argv) {
  sigset_t none;

  sigemptyset(&none);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != keeper) _exit(127);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(argv[0], argv + 1);
  exec_failed = errno;
  _exit(127);
}

static int start_program(char **argv) {
  int keeper = (int)getpid(), pid = (int)vfork();

  if (pid == 0) run_program(keeper, argv);
  return pid;
}

/* Closes the program's pipes in this process. Open ends here would hide the program's end. */
static void let_go(void) {
  int nothing = open("/dev/null", O_RDWR);

  for (int fd = 0; fd < 3; fd++)
    if (nothing < 0 || dup2(nothing, fd) < 0) close(fd);
  if (nothing > 2) close(nothing);
}

static void report(const tri_keeper_record *r) {
  ssize_t n;

  /* Two records fit into any pipe, and the reader may be gone. */
  do n = write(TRI_KEEPER_REPORT, r, sizeof *r);
  while (n < 0 && errno == EINTR);
}

/* ---- the end ---- */

/* Waits for ended children. Orphans of the program become children of the keeper. False: there are no
 * children. */
static bool reap(tri_keeper_record *r) {
  int status, pid;

  while ((pid = (int)waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != r->program) continue;
    r->status = status;
    report(r);
    r->program = 0;
  }
  return !(pid < 0 && errno == ECHILD);
}

static bool is_child(int pid, int of) {
  char    path[64], text[512], *end;
  int     parent = 0, fd;
  ssize_t n;

  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = 0;
  end = strrchr(text, ')'); /* the name before it may hold anything */
  return end && sscanf(end + 1, " %*c %d", &parent) == 1 && parent == of;
}

/* Kills the keeper's own children. The children of a killed child become its own. */
static void kill_children(void) {
  DIR           *proc = opendir("/proc");
  struct dirent *e;
  int            self = (int)getpid();

  while (proc && (e = readdir(proc)) != NULL) {
    int pid = atoi(e->d_name);
    if (pid > 1 && is_child(pid, self)) kill(pid, SIGKILL);
  }
  if (proc) closedir(proc);
}

static void end_all(tri_keeper_record *r) {
  const struct timespec round = {.tv_nsec = ROUND_MS * 1000000};
  sigset_t              ended;

  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  if (r->program > 0) kill(-r->program, SIGKILL);
  for (int i = 0; i < ROUNDS && reap(r); i++) {
    kill_children();
    if (!reap(r)) break;
    sigtimedwait(&ended, NULL, &round);
  }
}

/* ---- the keeper ---- */

static _Noreturn void keep(char **argv) {
  tri_keeper_record r = {0};
  sigset_t          all, news;
  int               got = 0;

  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  fcntl(TRI_KEEPER_REPORT, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_NAME, TRI_KEEPER_NAME, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, tri_keeper_signal(), 0, 0, 0);
  if (getppid() != atoi(argv[0])) _exit(127); /* the starter has already ended */
  r.program = start_program(argv + 1);
  r.failed = r.program < 0 ? errno : exec_failed;
  let_go();
  report(&r);
  if (r.failed) _exit(127);
  sigemptyset(&news);
  sigaddset(&news, SIGCHLD);
  sigaddset(&news, tri_keeper_signal());
  while (got != tri_keeper_signal()) {
    reap(&r);
    got = sigwaitinfo(&news, NULL);
  }
  end_all(&r);
  _exit(0);
}

/* Runs before main, and before any library of this executable is used. */
__attribute__((constructor)) static void take_over(int argc, char **argv) {
  if (argc > 3 && !strcmp(argv[0], TRI_KEEPER_NAME)) keep(argv + 1);
}
