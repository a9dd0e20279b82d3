/* child.c - a child program: started with three pipes in its own process group, killed with the group. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* pipe2 */
#include "child.h"

#include "clock.h"
#include "host_memory.h"
#include "text_buffer.h"
#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CHILDREN = 64 }; /* chosen: four times the rewards of a deck */
/* Process numbers of live children. Negative: a keeper. */
static atomic_int  living[MOST_CHILDREN];
static atomic_bool all_killed; /* no child is started any more, because this process ends */

static void remember(int pid) {
  for (int i = 0; i < MOST_CHILDREN; i++) {
    int none = 0;
    if (atomic_compare_exchange_strong(&living[i], &none, pid)) return;
  }
}

static void forget(int pid) {
  for (int i = 0; i < MOST_CHILDREN; i++) {
    int it = pid;
    if (atomic_compare_exchange_strong(&living[i], &it, 0)) return;
  }
}

void tri_child_kill_all(void) {
  atomic_store(&all_killed, true);
  for (int i = 0; i < MOST_CHILDREN; i++) {
    int pid = atomic_load(&living[i]);
    if (pid > 0) kill(-pid, SIGKILL);
    if (pid < 0) kill(-pid, tri_keeper_signal());
  }
}

bool tri_child_all_killed(void) { return atomic_load(&all_killed); }

static void on_end(int number) {
  tri_child_kill_all();
  signal(number, SIG_DFL);
  raise(number); /* delivered when this handler returns */
}

void tri_child_mind_signals(void) {
  static const int ends[] = {SIGHUP, SIGINT, SIGTERM};
  struct sigaction act = {.sa_handler = on_end}, before;

  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (!sigaction(ends[i], NULL, &before) && before.sa_handler == SIG_DFL) sigaction(ends[i], &act, NULL);
}

/* ---- the program's path ---- */

static bool is_program(const char *path) {
  struct stat s;

  return !stat(path, &s) && S_ISREG(s.st_mode) && !access(path, X_OK);
}

/* Finds the path of the program `name`. Free *out with tri_host_free. */
static tri_status find_program(const char *name, char **out) {
  const char *path = getenv("PATH"), *end;
  tri_text    try = {0};
  tri_status  st = TRI_OK;
  bool        found = false;

  *out = NULL;
  if (strchr(name, '/')) {
    if (is_program(name)) return tri_copy_text(name, out);
    TRI_FAIL(TRI_ECONFIG, "%s: this program cannot be started: %s", name,
             access(name, F_OK) ? strerror(errno) : "it is not an executable file");
  }
  for (path = path ? path : "/bin:/usr/bin"; !found; path = end + 1) {
    end = strchr(path, ':');
    if (!end) end = path + strlen(path);
    try.len = 0;
    TRI_TRY_DONE(tri_text_printf(&try, "%.*s%s%s", (int)(end - path), path, end > path ? "/" : "./", name));
    found = is_program(try.data);
    if (!*end) break;
  }
  if (!found) TRI_FAIL_DONE(TRI_ECONFIG, "%s: there is no such program in PATH", name);
  TRI_TRY_DONE(tri_copy_text(try.data, out));
done:
  tri_text_free(&try);
  return st;
}

tri_status tri_child_check(const char *program) {
  char *path;

  TRI_TRY(find_program(program, &path));
  TRI_FREE(path);
  return TRI_OK;
}

/* ---- start ---- */

/* The data that the child needs. It is prepared here, because between vfork and exec the child may only make
 * system calls. */
typedef struct plan {
  const char  *program;
  char *const *argv;
  int          in, out, err, said; /* its pipe ends. said: for the error of exec */
  bool         kept;               /* program is a keeper */
  int          highest;            /* highest open file */
  int          parent;
} plan;

static int highest_file(void) {
  DIR           *d = opendir("/proc/self/fd");
  struct dirent *e;
  int            most = d ? dirfd(d) : 1023;

  while (d && (e = readdir(d)) != NULL)
    if (atoi(e->d_name) > most) most = atoi(e->d_name);
  if (d) closedir(d);
  return most;
}

/* Runs in the child, which shares the parent's memory. Either tri_child_kill_all finds its number, or it
 * finds that all are killed. */
static _Noreturn void run(const plan *p) {
  struct sigaction act = {.sa_handler = SIG_DFL};
  sigset_t         none;
  int              failed;

  for (int i = 1; i < NSIG; i++) /* This fails for SIGKILL and SIGSTOP, which need no change. */
    sigaction(i, &act, NULL);
  sigemptyset(&none);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, p->kept ? tri_keeper_signal() : SIGKILL, 0, 0, 0);
  if (getppid() != p->parent) _exit(127); /* the parent ended before the prctl */
  remember(p->kept ? -(int)getpid() : (int)getpid());
  if (atomic_load(&all_killed)) _exit(127);
  dup2(p->in, 0);
  dup2(p->out, 1);
  dup2(p->err, 2);
  for (int fd = 3; fd <= p->highest; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (p->kept) dup2(p->said, TRI_KEEPER_REPORT);
  if (!p->kept) sigprocmask(SIG_SETMASK, &none, NULL); /* a keeper waits for its signals */
  execv(p->program, p->argv);
  failed = errno;
  if (write(p->said, &(tri_keeper_record){.failed = failed}, sizeof(tri_keeper_record)) < 0) _exit(126);
  _exit(127);
}

static int start(const plan *p) {
  int pid = (int)vfork();

  if (pid == 0) run(p);
  return pid;
}

typedef struct ends {
  int end[4][2]; /* in, out, err, said, each with a read and a write end */
} ends;

static void close_end(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void close_ends(ends *e) {
  for (int i = 0; i < 4; i++) {
    close_end(&e->end[i][0]);
    close_end(&e->end[i][1]);
  }
}

/* None of the ends may be 0, 1, 2 or TRI_KEEPER_REPORT, because the child puts its own ends there. */
static tri_status open_ends(ends *e) {
  for (int i = 0; i < 4; i++) e->end[i][0] = e->end[i][1] = -1;
  for (int i = 0; i < 4; i++) {
    /* a child started by another thread at this moment must not hold them */
    if (pipe2(e->end[i], O_CLOEXEC)) TRI_FAIL(TRI_ENOMEM, "a pipe cannot be created: %s", strerror(errno));
    for (int k = 0; k < 2; k++) {
      int fd = fcntl(e->end[i][k], F_DUPFD_CLOEXEC, TRI_KEEPER_REPORT + 1);
      close(e->end[i][k]);
      e->end[i][k] = fd;
      if (fd < 0) TRI_FAIL(TRI_ENOMEM, "a pipe cannot be created: %s", strerror(errno));
    }
  }
  return TRI_OK;
}

/* Reads the child's first report: the error of exec, or nothing. A keeper also reports the program's
 * number. */
static tri_status hear(int fd, const char *program, bool kept, tri_child *c) {
  tri_keeper_record r = {0};
  ssize_t           n;

  do n = read(fd, &r, sizeof r);
  while (n < 0 && errno == EINTR);
  if (n == (ssize_t)sizeof r && r.failed)
    TRI_FAIL(TRI_ECONFIG, "%s: cannot be started: %s", program, strerror(r.failed));
  if (kept && n != (ssize_t)sizeof r)
    TRI_FAIL(TRI_EABSENT, "%s: cannot be started: its keeper process ended", program);
  c->program = r.program;
  return TRI_OK;
}

static tri_status launch(const char *name, const plan *of, ends *e, tri_child *out) {
  plan       p = *of;
  sigset_t   all, before;
  tri_status st;

  p.in = e->end[0][0];
  p.out = e->end[1][1];
  p.err = e->end[2][1];
  p.said = e->end[3][1];
  p.parent = (int)getpid();
  p.highest = highest_file();
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before); /* handlers of this program must not run in the child */
  out->pid = start(&p);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (out->pid < 0) {
    out->pid = 0;
    TRI_FAIL(TRI_ENOMEM, "a child process cannot be created: %s", strerror(errno));
  }
  out->in = e->end[0][1];
  out->out = e->end[1][0];
  out->err = e->end[2][0];
  e->end[0][1] = e->end[1][0] = e->end[2][0] = -1;
  fcntl(out->in, F_SETFL, O_NONBLOCK);
  fcntl(out->out, F_SETFL, O_NONBLOCK);
  fcntl(out->err, F_SETFL, O_NONBLOCK);
  close_end(&e->end[3][1]);
  st = hear(e->end[3][0], name, p.kept, out);
  if (p.kept) {
    out->report = e->end[3][0];
    e->end[3][0] = -1;
    fcntl(out->report, F_SETFL, O_NONBLOCK);
  }
  if (st != TRI_OK) tri_child_kill(out, NULL);
  return st;
}

/* Puts the keeper's argv before the program's argv, and finds the keeper's own path. */
static tri_status plan_keeper(const char *program, char *const *argv, char *parent, char *self,
                              size_t self_bytes, plan *out, char ***words) {
  static char name[] = TRI_KEEPER_NAME;
  ssize_t     len = readlink("/proc/self/exe", self, self_bytes - 1);
  int         n = 0;

  if (len > 0) self[len] = 0;
  if (len <= 0 || !is_program(self))
    snprintf(self, self_bytes, "/proc/self/exe"); /* the executable was replaced */
  while (argv[n]) n++;
  TRI_TRY(TRI_ALLOC(*words, n + 4));
  (*words)[0] = name;
  (*words)[1] = parent;
  (*words)[2] = (char *)(uintptr_t)program;
  memcpy(*words + 3, argv, (size_t)n * sizeof *argv);
  *out = (plan){.program = self, .argv = *words, .kept = true};
  return TRI_OK;
}

static tri_status start_child(char *const *argv, bool kept, tri_child *out) {
  char      *program = NULL, **words = NULL, parent[16], self[4096];
  plan       p = {0};
  ends       e = {{{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}};
  tri_status st = TRI_OK;

  *out = (tri_child){0, -1, -1, -1, -1, 0};
  if (tri_child_all_killed()) TRI_FAIL(TRI_EABSENT, "%s: not started, because this process ends", argv[0]);
  TRI_TRY(find_program(argv[0], &program));
  p = (plan){.program = program, .argv = argv};
  snprintf(parent, sizeof parent, "%d", (int)getpid());
  if (kept) TRI_TRY_DONE(plan_keeper(program, argv, parent, self, sizeof self, &p, &words));
  TRI_TRY_DONE(open_ends(&e));
  TRI_TRY_DONE(launch(program, &p, &e, out));
done:
  close_ends(&e);
  TRI_FREE(program);
  TRI_FREE(words);
  return st;
}

tri_status tri_child_start(char *const *argv, tri_child *out) { return start_child(argv, false, out); }

tri_status tri_child_start_kept(char *const *argv, tri_child *out) { return start_child(argv, true, out); }

/* ---- the end ---- */

void tri_child_close_input(tri_child *c) { close_end(&c->in); }
void tri_child_close_error(tri_child *c) { close_end(&c->err); }

bool tri_child_has_ended(const tri_child *c) {
  siginfo_t     info = {0};
  struct pollfd report = {.fd = c->report, .events = POLLIN};

  if (c->pid > 0 && c->report >= 0)
    return poll(&report, 1, 0) > 0; /* the keeper has reported the end, or has ended */
  return c->pid <= 0 ||
         (!waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == c->pid);
}

bool tri_child_read(tri_child *c, double patience_s, char *out, size_t cap) {
  double  end_s = tri_now_s() + patience_s, left_s;
  size_t  n = 0;
  ssize_t got = -1; /* 0: the output has ended */

  while (got && n < cap - 1 && (left_s = end_s - tri_now_s()) > 0) {
    struct pollfd end = {.fd = c->out, .events = POLLIN};
    if (poll(&end, 1, 1 + (int)(1000 * left_s)) <= 0) continue;
    got = read(c->out, out + n, cap - 1 - n);
    if (got > 0) n += (size_t)got;
    if (got < 0 && errno != EINTR && errno != EAGAIN) break;
  }
  while (!got && !tri_child_has_ended(c) && tri_now_s() < end_s) poll(NULL, 0, 1);
  out[n] = '\0';
  return !got;
}

/* Ends the keeper, which ends all processes below it. *status is the program's. True if the program had ended
 * before. */
static bool kill_kept(tri_child *c, int *status) {
  tri_keeper_record r = {0};
  bool              ended = read(c->report, &r, sizeof r) == (ssize_t)sizeof r;
  int               keepers = 0;

  kill(c->pid, tri_keeper_signal());
  while (waitpid(c->pid, &keepers, 0) < 0 && errno == EINTR) continue;
  /* Another process killed the keeper. */
  if (WIFSIGNALED(keepers) && c->program > 0) kill(-c->program, SIGKILL);
  if (!ended && read(c->report, &r, sizeof r) != (ssize_t)sizeof r) r.status = SIGKILL;
  close_end(&c->report);
  *status = r.status;
  return ended || WIFSIGNALED(keepers);
}

void tri_child_kill(tri_child *c, char how[TRI_CHILD_HOW_BYTES]) {
  bool ended;
  int  status = 0, number = c->report >= 0 ? -c->pid : c->pid;

  if (how) how[0] = 0;
  if (c->pid <= 0) return;
  close_end(&c->in);
  if (c->report >= 0) {
    ended = kill_kept(c, &status);
  } else {
    ended = tri_child_has_ended(c);
    kill(-c->pid, SIGKILL); /* nobody else has this number before the leader is waited for */
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) continue;
  }
  close_end(&c->out);
  close_end(&c->err);
  forget(number);
  if (how && (ended || WIFEXITED(status))) /* it may have been exiting when it was killed */
    snprintf(how, TRI_CHILD_HOW_BYTES,
             WIFSIGNALED(status) ? "signal %d ended it" : "it ended with exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  *c = (tri_child){0, -1, -1, -1, -1, 0};
}
