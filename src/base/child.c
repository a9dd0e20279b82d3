/* child.c - a program beside this one: started with three pipes in a process group of its own, killed with
 * the group. */
#define _GNU_SOURCE /* pipe2 */
#include "child.h"

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
static atomic_int  living[MOST_CHILDREN];
static atomic_bool all_killed; /* and none is started any more: this process ends */

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
  }
}

bool tri_child_all_killed(void) { return atomic_load(&all_killed); }

static void on_end(int number) {
  tri_child_kill_all();
  signal(number, SIG_DFL);
  raise(number); /* held back until this returns */
}

void tri_child_mind_signals(void) {
  static const int ends[] = {SIGHUP, SIGINT, SIGTERM};
  struct sigaction act = {.sa_handler = on_end}, before;

  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (!sigaction(ends[i], NULL, &before) && before.sa_handler == SIG_DFL) sigaction(ends[i], &act, NULL);
}

/* ---- which program ---- */

static bool is_program(const char *path) {
  struct stat s;

  return !stat(path, &s) && S_ISREG(s.st_mode) && !access(path, X_OK);
}

/* The path that argv[0] stands for; *out by tri_host_free. */
static tri_status find_program(const char *name, char **out) {
  const char *path = getenv("PATH"), *end;
  tri_text    try = {0};
  tri_status  st = TRI_OK;
  bool        found = false;

  *out = NULL;
  if (strchr(name, '/')) {
    if (is_program(name)) return tri_copy_text(name, out);
    TRI_FAIL(TRI_ECONFIG, "%s: is no program that can be started: %s", name,
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

/* What the child needs to know: prepared here, because between vfork and exec it may do nothing but calls of
 * the system. */
typedef struct plan {
  const char  *program;
  char *const *argv;
  int          in, out, err, said; /* its ends; said: why it could not be started */
  int          highest;            /* file that is open */
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

/* In the child, whose memory is the parent's: either tri_child_kill_all finds its number, or it finds that
 * all are killed. */
static _Noreturn void run(const plan *p) {
  struct sigaction act = {.sa_handler = SIG_DFL};
  sigset_t         none;
  int              failed;

  for (int i = 1; i < NSIG; i++)
    sigaction(i, &act, NULL); /* of SIGKILL and SIGSTOP it cannot, and need not */
  sigemptyset(&none);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != p->parent) _exit(127); /* which ended before that */
  remember((int)getpid());
  if (atomic_load(&all_killed)) _exit(127);
  dup2(p->in, 0);
  dup2(p->out, 1);
  dup2(p->err, 2);
  for (int fd = 3; fd <= p->highest; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(p->program, p->argv);
  failed = errno;
  if (write(p->said, &failed, sizeof failed) < 0) _exit(126);
  _exit(127);
}

static int start(const plan *p) {
  int pid = (int)vfork();

  if (pid == 0) run(p);
  return pid;
}

typedef struct ends {
  int end[4][2]; /* in, out, err, said: to read, to write */
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

/* None of them is 0, 1 or 2, over which the child puts its own. */
static tri_status open_ends(ends *e) {
  for (int i = 0; i < 4; i++) e->end[i][0] = e->end[i][1] = -1;
  for (int i = 0; i < 4; i++) {
    /* a child that another thread starts now must not hold them */
    if (pipe2(e->end[i], O_CLOEXEC)) TRI_FAIL(TRI_ENOMEM, "no pipe can be made: %s", strerror(errno));
    for (int k = 0; k < 2; k++) {
      int fd = fcntl(e->end[i][k], F_DUPFD_CLOEXEC, 3);
      close(e->end[i][k]);
      e->end[i][k] = fd;
      if (fd < 0) TRI_FAIL(TRI_ENOMEM, "no pipe can be made: %s", strerror(errno));
    }
  }
  return TRI_OK;
}

/* The child's first word: why exec failed, else nothing. */
static tri_status hear(int fd, const char *program) {
  int     failed;
  ssize_t n;

  do n = read(fd, &failed, sizeof failed);
  while (n < 0 && errno == EINTR);
  if (n != (ssize_t)sizeof failed) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: cannot be started: %s", program, strerror(failed));
}

static tri_status launch(const char *program, char *const *argv, ends *e, tri_child *out) {
  plan       p = {program, argv, e->end[0][0], e->end[1][1], e->end[2][1], e->end[3][1], 0, (int)getpid()};
  sigset_t   all, before;
  tri_status st;

  p.highest = highest_file();
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before); /* a handler of ours must not run in the child */
  out->pid = start(&p);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (out->pid < 0) {
    out->pid = 0;
    TRI_FAIL(TRI_ENOMEM, "no child process can be made: %s", strerror(errno));
  }
  out->in = e->end[0][1];
  out->out = e->end[1][0];
  out->err = e->end[2][0];
  e->end[0][1] = e->end[1][0] = e->end[2][0] = -1;
  fcntl(out->in, F_SETFL, O_NONBLOCK);
  fcntl(out->out, F_SETFL, O_NONBLOCK);
  fcntl(out->err, F_SETFL, O_NONBLOCK);
  close_end(&e->end[3][1]);
  st = hear(e->end[3][0], program);
  if (st != TRI_OK) tri_child_kill(out, NULL);
  return st;
}

tri_status tri_child_start(char *const *argv, tri_child *out) {
  char      *program = NULL;
  ends       e = {{{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}};
  tri_status st = TRI_OK;

  *out = (tri_child){0, -1, -1, -1};
  if (tri_child_all_killed()) TRI_FAIL(TRI_EABSENT, "%s: is not started: this process ends", argv[0]);
  TRI_TRY(find_program(argv[0], &program));
  TRI_TRY_DONE(open_ends(&e));
  TRI_TRY_DONE(launch(program, argv, &e, out));
done:
  close_ends(&e);
  TRI_FREE(program);
  return st;
}

/* ---- the end ---- */

void tri_child_close_input(tri_child *c) { close_end(&c->in); }
void tri_child_close_error(tri_child *c) { close_end(&c->err); }

bool tri_child_has_ended(const tri_child *c) {
  siginfo_t info = {0};

  return c->pid <= 0 ||
         (!waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == c->pid);
}

bool tri_child_read(tri_child *c, double patience_s, char *out, size_t cap) {
  double  end_s = tri_now_s() + patience_s, left_s;
  size_t  n = 0;
  ssize_t got = -1; /* 0: its output has ended */

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

void tri_child_kill(tri_child *c, char how[TRI_CHILD_HOW_BYTES]) {
  bool ended;
  int  status = 0;

  if (how) how[0] = 0;
  if (c->pid <= 0) return;
  close_end(&c->in);
  ended = tri_child_has_ended(c);
  kill(-c->pid, SIGKILL); /* its leader is not waited for yet, so nobody else has its number */
  close_end(&c->out);
  close_end(&c->err);
  while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) continue;
  forget(c->pid);
  if (how && (ended || WIFEXITED(status))) /* it was ending when it was killed */
    snprintf(how, TRI_CHILD_HOW_BYTES,
             WIFSIGNALED(status) ? "signal %d ended it" : "it ended with exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  *c = (tri_child){0, -1, -1, -1};
}
