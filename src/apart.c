/* apart.c - work in a process of its own, so that a library that crashes is an answer. */
#include "apart.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child sends first; then the message, then the result. */
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

/* Of this process: of address space. */
static tri_status present_bytes(int64_t *bytes) {
  static const char path[] = "/proc/self/statm";
  FILE             *f = fopen(path, "r");
  long long         pages = 0;
  bool              good = f && fscanf(f, "%lld", &pages) == 1;

  if (f) fclose(f);
  if (!good) TRI_FAIL(TRI_EFILE, "%s: cannot be read, so that no child's memory can be bounded", path);
  *bytes = pages * (int64_t)sysconf(_SC_PAGESIZE);
  return TRI_OK;
}

/* Nobody is given more than he had. */
static tri_status bound(int resource, int64_t most) {
  struct rlimit l;

  if (getrlimit(resource, &l)) TRI_FAIL(TRI_EINTERNAL, "getrlimit: %s", strerror(errno));
  if (l.rlim_cur <= (rlim_t)most) return TRI_OK;
  l.rlim_cur = (rlim_t)most;
  if (setrlimit(resource, &l)) TRI_FAIL(TRI_EINTERNAL, "setrlimit: %s", strerror(errno));
  return TRI_OK;
}

static tri_status bound_all(const tri_apart_limit *limit) {
  int64_t present = 0;

  TRI_TRY(bound(RLIMIT_CORE, 0));
  if (limit->cpu_s) TRI_TRY(bound(RLIMIT_CPU, limit->cpu_s));
  if (!limit->memory_bytes) return TRI_OK;
  TRI_TRY(present_bytes(&present));
  return bound(RLIMIT_AS, present + limit->memory_bytes);
}

static void child(int fd, tri_apart_work work, void *ctx, const tri_apart_limit *limit) {
  tri_text out = {0};
  head     h = {0};

  h.st = bound_all(limit);
  if (h.st == TRI_OK) h.st = work(ctx, &out);
  h.message_bytes = h.st == TRI_OK ? 0 : strlen(tri_error_message());
  h.result_bytes = out.len;
  send_all(fd, &h, sizeof h);
  send_all(fd, tri_error_message(), h.message_bytes);
  send_all(fd, out.data, out.len);
  _exit(0); /* what the libraries would do at an exit may crash too */
}

static tri_status receive_all(int fd, tri_text *reply) {
  char    piece[1 << 14];
  ssize_t n;

  while ((n = read(fd, piece, sizeof piece)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) TRI_FAIL(TRI_EFILE, "a child process cannot be read: %s", strerror(errno));
    TRI_TRY(tri_text_put(reply, piece, (size_t)n));
  }
  return TRI_OK;
}

/* The child's status, with its message as ours. */
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
  snprintf(how, TRI_APART_HOW_BYTES, "half an answer");
  return TRI_EFORMAT;
}

static void say_how(int status, const tri_apart_limit *limit, char how[TRI_APART_HOW_BYTES]) {
  bool signaled = WIFSIGNALED(status);

  if (signaled && WTERMSIG(status) == SIGXCPU && limit->cpu_s)
    snprintf(how, TRI_APART_HOW_BYTES, "it took over %d s of processor time", limit->cpu_s);
  else
    snprintf(how, TRI_APART_HOW_BYTES, signaled ? "signal %d" : "exit code %d",
             signaled ? WTERMSIG(status) : WEXITSTATUS(status));
}

tri_status tri_apart(tri_apart_work work, void *ctx, const tri_apart_limit *limit, tri_text *out,
                     char how[TRI_APART_HOW_BYTES]) {
  tri_text   reply = {0};
  tri_status st = TRI_OK;
  int        end[2], status = 0;
  pid_t      pid;

  how[0] = 0;
  if (pipe(end)) TRI_FAIL(TRI_ENOMEM, "no pipe can be made: %s", strerror(errno));
  pid = fork();
  if (pid == 0) {
    close(end[0]);
    child(end[1], work, ctx, limit);
  }
  close(end[1]);
  if (pid < 0)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ENOMEM, "no child process can be made: %s",
                  strerror(errno));
  else
    st = receive_all(end[0], &reply);
  close(end[0]);
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (st == TRI_OK && status) {
    say_how(status, limit, how);
    st = TRI_EFORMAT;
  } else if (st == TRI_OK) {
    st = take(&reply, out, how);
  }
  tri_text_free(&reply);
  return st;
}
