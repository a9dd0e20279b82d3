/* knock.c - which of several machines answer, asked all at once. */
#include "knock.h"
#include "doctor/checks.h"
#include "talk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* One packet of Ethernet, one of jumbo frames, many: what a network lets pass may end between any of them. */
static const uint32_t size[TRI_KNOCK_PARTS - 2] = {1400, 8000, 1 << 18};
enum { LARGEST = TRI_KNOCK_PARTS - 3 };

bool tri_target_check(tri_target *t) {
  t->host[sizeof t->host - 1] = '\0';
  t->from[sizeof t->from - 1] = '\0';
  return t->host[0] && t->port > 0 && t->port < 65536;
}

/* Sends `bytes` to each that has answered so far, and hears what it says. fd [n], -1: given up. */
static void ask(uint64_t key, int task, const int *fd, int n, const char *bytes, uint32_t n_bytes, int failed,
                double until_s, int32_t *error) {
  tri_talk_head head = {.key = key, .kind = TRI_TALK_KNOCK, .task = task, .bytes = n_bytes};

  for (int i = 0; i < n; i++)
    if (fd[i] >= 0 && !error[i] && !tri_talk_send(fd[i], &head, bytes, until_s)) error[i] = failed;
  for (int i = 0; i < n; i++) {
    tri_talk_in in = {0};
    if (fd[i] < 0 || error[i]) continue;
    if (tri_talk_wait(fd[i], key, &in, until_s) != TRI_TALK_WHOLE) error[i] = failed;
    tri_talk_drop(&in);
  }
}

tri_status tri_knock(uint64_t key, int task, const tri_target *target, int n, double patience_s,
                     int32_t *error) {
  double     until_s = tri_now_s() + patience_s;
  int       *fd = NULL;
  char      *bytes = NULL;
  bool      *underway = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(fd, n));
  for (int i = 0; i < n; i++) fd[i] = -1;
  TRI_TRY_DONE(TRI_ALLOC(underway, n));
  TRI_TRY_DONE(TRI_ALLOC(bytes, size[LARGEST]));
  for (int i = 0; i < n; i++) {
    fd[i] = tri_talk_start(target[i].host, target[i].port, target[i].from, &underway[i]);
    error[i] = fd[i] < 0 ? -fd[i] : 0;
  }
  for (int i = 0; i < n; i++)
    if (fd[i] >= 0 && underway[i]) error[i] = tri_talk_finish(fd[i], until_s);
  ask(key, task, fd, n, bytes, 0, ETIMEDOUT, tri_now_s() + patience_s, error);
  for (int i = 0; i <= LARGEST; i++)
    ask(key, task, fd, n, bytes, size[i], TRI_REACH_LARGE, tri_now_s() + patience_s, error);
done:
  for (int i = 0; fd && i < n; i++)
    if (fd[i] >= 0) close(fd[i]);
  TRI_FREE(fd);
  TRI_FREE(underway);
  TRI_FREE(bytes);
  return st;
}
