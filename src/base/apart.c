/* apart.c - runs work in a child process. The crash of a library becomes an error. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "apart.h"

#include "log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child sends this first, then the message, then the result. */
typedef struct head {
  size_t     message_bytes, result_bytes;
  tri_status st;
} head;

static void send_all(int fd, const void *bytes, size_t n) {
  for (size_t have = 0; have < n;) {
    ssize_t sent = write(fd, (const char *)bytes + have, n - have);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(1);
    have += (size_t)sent;
  }
}

/* Returns the address space of this process in bytes. -1: unknown, so a child's cannot be limited. */
static int64_t present_bytes(void) {
  static const char path[] = "/proc/self/statm";
  static bool       said;
  FILE             *f = fopen(path, "r");
  long long         pages = 0;
  bool              good = f && fscanf(f, "%lld", &pages) == 1;

  if (f) fclose(f);
  if (good) return pages * (int64_t)sysconf(_SC_PAGESIZE);
  if (!said)
    tri_log(TRI_LOG_WARN, "%s cannot be read, so the memory of a child process is not limited", path);
  said = true;
  return -1;
}

/* Computes the child's limit, never above the caller's own. most < 0: the caller's own. */
static tri_status lowered(int resource, int64_t most, struct rlimit *l) {
  if (getrlimit(resource, l)) TRI_FAIL(TRI_EINTERNAL, "getrlimit: %s", strerror(errno));
  if (most < 0) return TRI_OK;
  if (l->rlim_cur > (rlim_t)most) l->rlim_cur = (rlim_t)most;
  /* A process that ignores SIGXCPU is killed at the hard limit. */
  if (l->rlim_max > l->rlim_cur + 1) l->rlim_max = l->rlim_cur + 1;
  return TRI_OK;
}

static tri_status bound(int resource, int64_t most) {
  struct rlimit l;

  TRI_TRY(lowered(resource, most, &l));
  if (setrlimit(resource, &l)) TRI_FAIL(TRI_EINTERNAL, "setrlimit: %s", strerror(errno));
  return TRI_OK;
}

static int64_t cpu_most_s(const tri_apart_limit *limit) { return limit->cpu_s ? limit->cpu_s : -1; }

/* The child would inherit a signal that was ignored or blocked by the caller's parent. */
static void let_end_by(int number) {
  sigset_t set;

  signal(number, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static tri_status bound_all(const tri_apart_limit *limit, int64_t most_bytes) {
  let_end_by(SIGXCPU);
  TRI_TRY(bound(RLIMIT_CORE, 0));
  TRI_TRY(bound(RLIMIT_CPU, cpu_most_s(limit)));
  return bound(RLIMIT_AS, most_bytes);
}

static void child(int fd, tri_apart_work work, void *ctx, const tri_apart_limit *limit, int64_t most_bytes) {
  tri_text out = {0};
  head     h = {0};

  h.st = bound_all(limit, most_bytes);
  if (h.st == TRI_OK) h.st = work(ctx, &out);
  h.message_bytes = h.st == TRI_OK ? 0 : strlen(tri_error_message());
  h.result_bytes = out.len;
  send_all(fd, &h, sizeof h);
  send_all(fd, tri_error_message(), h.message_bytes);
  send_all(fd, out.data, out.len);
  _exit(0); /* exit handlers of libraries may crash too */
}

static tri_status receive_all(int fd, tri_text *reply) {
  char    piece[1 << 14];
  ssize_t n;

  while ((n = read(fd, piece, sizeof piece)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) TRI_FAIL(TRI_EFILE, "the output of a child process cannot be read: %s", strerror(errno));
    TRI_TRY(tri_text_put(reply, piece, (size_t)n));
  }
  return TRI_OK;
}

/* Returns the child's status and takes over its message. */
static tri_status take(const tri_text *reply, tri_text *out, char how[TRI_APART_HOW_BYTES]) {
  head       h;
  tri_status st = TRI_OK;
  tri_text   message = {0};

  if (reply->len < sizeof h) goto cut;
  memcpy(&h, reply->data, sizeof h);
  if (reply->len != sizeof h + h.message_bytes + h.result_bytes) goto cut;
  TRI_TRY(tri_text_put(out, reply->data + sizeof h + h.message_bytes, h.result_bytes));
  if (h.st == TRI_OK) return TRI_OK;
  st = tri_text_put(&message, reply->data + sizeof h, h.message_bytes);
  if (st == TRI_OK) tri_error_set(h.st, message.data ? message.data : "");
  tri_text_free(&message);
  return st == TRI_OK ? h.st : st;
cut:
  snprintf(how, TRI_APART_HOW_BYTES, "incomplete answer");
  return TRI_EFORMAT;
}

/* Describes why the child did not end by itself. */
static tri_status say_how(int status, const tri_apart_limit *limit, char how[TRI_APART_HOW_BYTES]) {
  bool          signaled = WIFSIGNALED(status);
  struct rlimit cpu;

  if (signaled && WTERMSIG(status) == SIGXCPU) {
    TRI_TRY(lowered(RLIMIT_CPU, cpu_most_s(limit), &cpu));
    snprintf(how, TRI_APART_HOW_BYTES, "it took over %lld s of processor time", (long long)cpu.rlim_cur);
    return TRI_EFILE;
  }
  snprintf(how, TRI_APART_HOW_BYTES, signaled ? "signal %d" : "exit code %d",
           signaled ? WTERMSIG(status) : WEXITSTATUS(status));
  return TRI_EFORMAT;
}

tri_status tri_apart(tri_apart_work work, void *ctx, const tri_apart_limit *limit, tri_text *out,
                     char how[TRI_APART_HOW_BYTES]) {
  tri_text   reply = {0};
  tri_status st = TRI_OK;
  int        end[2], status = 0;
  int64_t    present = limit->memory_bytes ? present_bytes() : -1;
  pid_t      pid;

  how[0] = 0;
  if (pipe(end)) TRI_FAIL(TRI_ENOMEM, "a pipe cannot be created: %s", strerror(errno));
  pid = fork();
  if (pid == 0) {
    close(end[0]);
    child(end[1], work, ctx, limit, present < 0 ? -1 : present + limit->memory_bytes);
  }
  close(end[1]);
  if (pid < 0)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ENOMEM, "a child process cannot be created: %s",
                  strerror(errno));
  else
    st = receive_all(end[0], &reply);
  close(end[0]);
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (st == TRI_OK) st = status ? say_how(status, limit, how) : take(&reply, out, how);
  tri_text_free(&reply);
  return st;
}
