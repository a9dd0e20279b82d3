/* meet_member.c - how a rank other than 0 comes to rank 0, and answers it. */
#include "knock.h"
#include "meet_impl.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const double retry_s = 0.2, hello_s = 2, look_s = 10; /* chosen */

/* Rank 0's socket, or minus errno of the last port. */
static int try_ports(tri_meet *m) {
  const tri_launch *l = m->launch;
  tri_talk_head     head = tri_meet_head(m, TRI_TALK_HELLO, sizeof *m->facts);
  int               error = 0;

  for (int i = 0; i < TRI_MEET_PORTS; i++) {
    double      until_s = tri_now_s() + hello_s;
    tri_talk_in in = {0};
    bool        underway, welcome;
    int         fd = tri_talk_start(l->hub, l->port + i, "", &underway), failed = fd < 0 ? -fd : 0;
    if (!failed && underway) failed = tri_talk_finish(fd, until_s);
    welcome = !failed && tri_talk_send(fd, &head, m->facts, until_s) &&
              tri_talk_wait(fd, l->key, &in, until_s) == TRI_TALK_WHOLE && in.head.kind == TRI_TALK_WELCOME;
    tri_talk_drop(&in);
    if (welcome) return fd;
    if (fd >= 0) close(fd);
    if (failed) error = failed;
  }
  return -error;
}

static tri_status come(tri_meet *m) {
  double until_s = tri_now_s() + m->patience_s;
  int    fd;

  while ((fd = try_ports(m)) < 0 && tri_now_s() < until_s) poll(NULL, 0, (int)(retry_s * 1000));
  if (fd < 0)
    TRI_FAIL(TRI_ECOMM, "%s: rank 0 on %s cannot be reached: %s", m->facts->seat.host, m->launch->hub,
             fd ? strerror(-fd) : "no answer");
  m->hub = fd;
  return TRI_OK;
}

static void answer_clock(tri_meet *m) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  tri_meet_tell(m, TRI_TALK_CLOCK, &now, sizeof now);
}

static tri_status answer_probe(tri_meet *m, const tri_talk_in *in) {
  int         n = (int)(in->head.bytes / sizeof(tri_target));
  tri_target *target = NULL;
  int32_t    *error = NULL;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(target, n + 1));
  TRI_TRY_DONE(TRI_ALLOC(error, n + 1));
  memcpy(target, in->bytes, (size_t)n * sizeof *target);
  for (int i = 0; i < n; i++)
    if (!tri_target_check(&target[i])) TRI_FAIL_DONE(TRI_ECOMM, "rank 0 asks for no address");
  TRI_TRY_DONE(tri_knock(m->launch->key, m->launch->task, target, n, tri_meet_knock_s(m), error));
  tri_meet_tell(m, TRI_TALK_PROBE, error, (size_t)n * sizeof *error);
done:
  TRI_FREE(target);
  TRI_FREE(error);
  return st;
}

void tri_meet_wait_for_hub(const tri_meet *m) {
  /* What rank 0 takes behind its patience: knocks, clocks (meet_hub.c), the report. */
  poll(NULL, 0, (int)(1000 * ((TRI_KNOCK_PARTS + 1) * tri_meet_knock_s(m) + 6)));
}

/* While MPI has the main thread: whether this process still runs. */
static void *speak(void *arg) {
  tri_meet    *m = arg;
  tri_talk_in  in = {0};
  tri_talk_got got;

  while ((got = tri_talk_wait(m->hub, m->launch->key, &in, tri_now_s() + look_s)) != TRI_TALK_LOST) {
    if (got != TRI_TALK_WHOLE) continue;
    if (in.head.kind == TRI_TALK_CLOCK) answer_clock(m);
    tri_talk_drop(&in);
  }
  tri_talk_drop(&in);
  return NULL;
}

void tri_meet_silence(tri_meet *m) {
  if (!m->speaks) return;
  shutdown(m->hub, SHUT_RDWR);
  pthread_join(m->voice, NULL);
  m->speaks = false;
}

tri_status tri_meet_serve(tri_meet *m, bool *go) {
  double until_s;

  *go = false;
  TRI_TRY(come(m));
  /* Rank 0 waits for others, then asks each. */
  until_s = tri_now_s() + 2 * m->patience_s + 30;
  for (;;) {
    tri_talk_in  in = {0};
    tri_talk_got got = tri_talk_wait(m->hub, m->launch->key, &in, until_s);
    tri_status   st = TRI_OK;
    bool         decided = got == TRI_TALK_WHOLE && in.head.kind == TRI_TALK_VERDICT && in.head.bytes == 1;
    if (decided) *go = in.bytes[0] == 1;
    if (got == TRI_TALK_WHOLE && in.head.kind == TRI_TALK_CLOCK) answer_clock(m);
    if (got == TRI_TALK_WHOLE && in.head.kind == TRI_TALK_PROBE) st = answer_probe(m, &in);
    tri_talk_drop(&in);
    if (decided && *go)
      m->speaks = !pthread_create(&m->voice, NULL, speak, m); /* without, it is only less known */
    if (decided || st != TRI_OK) return st;
    if (got != TRI_TALK_WHOLE)
      TRI_FAIL(TRI_ECOMM, "%s: rank 0 on %s is gone, or does not answer", m->facts->seat.host,
               m->launch->hub);
  }
}
