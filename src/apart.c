/* apart.c - work in a process of its own, so that a library that crashes is an answer. */
#include "apart.h"

#include <errno.h>
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

static void child(int fd, tri_apart_work work, void *ctx) {
  struct rlimit none = {0, 0};
  tri_text      out = {0};
  head          h = {0};

  setrlimit(RLIMIT_CORE, &none);
  h.st = work(ctx, &out);
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

tri_status tri_apart(tri_apart_work work, void *ctx, tri_text *out, char how[TRI_APART_HOW_BYTES]) {
  tri_text   reply = {0};
  tri_status st = TRI_OK;
  int        end[2], status = 0;
  pid_t      pid;

  how[0] = 0;
  if (pipe(end)) TRI_FAIL(TRI_ENOMEM, "no pipe can be made: %s", strerror(errno));
  pid = fork();
  if (pid == 0) {
    close(end[0]);
    child(end[1], work, ctx);
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
    snprintf(how, TRI_APART_HOW_BYTES, WIFSIGNALED(status) ? "signal %d" : "exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    st = TRI_EFORMAT;
  } else if (st == TRI_OK) {
    st = take(&reply, out, how);
  }
  tri_text_free(&reply);
  return st;
}
