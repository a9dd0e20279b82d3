/* rendezvous_member.c - connects a rank other than 0 to rank 0 and answers it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "probe.h"
#include "rendezvous_impl.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Chosen. without_s: NFS shows a new file by then, because find_secret refreshes its folder. */
static const double retry_s = 0.2, hello_s = 2, look_s = 10, without_s = 5;

enum { PROBES_MOST = 4096 }; /* chosen. More than rank 0 asks of a node */

/* Connects to a port of rank 0's machine. Returns the socket or -errno. */
static int reach(const tri_rendezvous *m, int port, double until_s) {
  bool underway;
  int  fd = tri_channel_start(m->launch->hub, port, "", &underway), failed = fd < 0 ? -fd : 0;

  if (!failed && underway) failed = tri_channel_finish(fd, until_s);
  if (failed && fd >= 0) close(fd);
  return failed ? -failed : fd;
}

/* Connects to rank 0. Rank 0 must prove its possession of the secret before it gets any facts. Returns 0 or
 * errno. */
static int come_to(tri_rendezvous *m) {
  double               until_s = tri_now_s() + hello_s;
  tri_channel_in       in = {0};
  tri_rendezvous_hello hello;
  int                  fd = reach(m, m->trust.secret.port, until_s), failed = fd < 0 ? -fd : 0;
  bool                 welcome;

  if (failed) return failed;
  memset(&hello, 0, sizeof hello);
  memcpy(hello.process, m->trust.process, sizeof hello.process);
  hello.facts = *m->facts;
  if (!tri_channel_open(fd, m->trust.secret.key, TRI_CHANNEL_MEMBER, m->launch->task, &m->hub, until_s))
    failed = ETIMEDOUT;
  if (!failed) failed = tri_channel_greet(&m->hub, until_s);
  welcome = !failed && tri_channel_send(&m->hub, TRI_CHANNEL_HELLO, &hello, sizeof hello, until_s) &&
            tri_channel_wait(&m->hub, &in, until_s) == TRI_CHANNEL_WHOLE &&
            in.head.kind == TRI_CHANNEL_WELCOME;
  tri_channel_drop(&in);
  if (welcome) return 0;
  close(fd);
  m->hub = (tri_channel){.fd = -1};
  return failed ? failed : ETIMEDOUT;
}

/* Sends an opening to a port of rank 0 and reads at most `cap` bytes. */
static size_t call_port(const tri_rendezvous *m, int port, tri_channel_want want, char *out, size_t cap,
                        bool *reached) {
  static const unsigned char none[TRI_KEY_BYTES];
  double                     until_s = tri_now_s() + hello_s;
  tri_channel                t;
  size_t                     n = 0;
  int                        fd = reach(m, port, until_s);

  *reached = fd >= 0;
  if (fd < 0) return 0;
  if (tri_channel_open(fd, none, want, m->launch->task, &t, until_s) && cap)
    n = tri_channel_take_raw(fd, out, cap, until_s);
  close(fd);
  return n;
}

/* Finds the secret in a file, else sealed by munge. *heard: somebody listens on a port of rank 0. Rank 0
 * writes the file before it answers. */
static bool find_secret(const tri_rendezvous *m, bool *heard, tri_secret *s) {
  char sealed[TRI_CHANNEL_SEALED_BYTES];
  bool reached;

  *heard = false;
  if (tri_secret_find(s)) return true;
  for (int i = 0; i < TRI_RENDEZVOUS_PORTS; i++) {
    bool   can = tri_secret_can_open();
    size_t n =
        call_port(m, m->launch->port + i, TRI_CHANNEL_ASKER, sealed, can ? sizeof sealed : 0, &reached);
    *heard = *heard || reached;
    if (n && tri_secret_open(s, sealed, n)) return true;
  }
  return *heard && tri_secret_find(s);
}

/* Stores the secret under the lock, because the keeper reads it for probing ranks. */
static void set_secret(tri_rendezvous *m, const tri_secret *s) {
  pthread_mutex_lock(&m->lock);
  m->trust.secret = *s;
  pthread_mutex_unlock(&m->lock);
}

/* Tells every listener of a port of rank 0 that this rank goes on without the secret. Rank 0 may be one of
 * them and wait for it. */
static void say_without(const tri_rendezvous *m) {
  bool reached;

  for (int i = 0; i < TRI_RENDEZVOUS_PORTS; i++)
    call_port(m, m->launch->port + i, TRI_CHANNEL_WITHOUT, NULL, 0, &reached);
}

/* Connects to rank 0. Sets m->trust.off if this rank cannot get the secret. */
static tri_status come(tri_rendezvous *m) {
  double     until_s = tri_now_s() + m->patience_s, heard_s = 0;
  int        failed = ENOKEY;
  bool       heard;
  tri_secret s = m->trust.secret;

  while (failed) {
    if (s.known) {
      failed = come_to(m);
      s.known = failed != EPROTO; /* the secret is of an earlier launch, or another process has the port
                                   * now */
      if (!s.known) set_secret(m, &s);
    } else if (find_secret(m, &heard, &s)) {
      set_secret(m, &s);
      continue;
    } else if (heard) {
      if (heard_s <= 0) heard_s = tri_now_s();
      m->trust.off = tri_now_s() - heard_s > (m->patience_s < 4 * without_s ? m->patience_s / 4 : without_s);
      if (m->trust.off) say_without(m);
      if (m->trust.off) return TRI_OK;
    }
    if (failed && tri_now_s() >= until_s) break;
    if (failed) poll(NULL, 0, (int)(retry_s * 1000));
  }
  if (failed)
    TRI_FAIL(TRI_ECOMM, "%s: cannot reach rank 0 on %s: %s", m->facts->seat.host, m->launch->hub,
             failed == ENOKEY ? "it does not listen, or has no secret for this user" : strerror(failed));
  return TRI_OK;
}

static void answer_clock(tri_rendezvous *m) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  tri_rendezvous_tell(m, TRI_CHANNEL_CLOCK, &now, sizeof now);
}

static tri_status answer_reach(tri_rendezvous *m, const tri_channel_in *in) {
  int         n = (int)(in->head.bytes / sizeof(tri_target));
  tri_target *target = NULL;
  int32_t    *error = NULL;
  tri_status  st = TRI_OK;

  if (n > PROBES_MOST) TRI_FAIL_DONE(TRI_ECOMM, "rank 0 asks for %d addresses, too many", n);
  TRI_TRY_DONE(TRI_ALLOC(target, n + 1));
  TRI_TRY_DONE(TRI_ALLOC(error, n + 1));
  memcpy(target, in->bytes, (size_t)n * sizeof *target);
  for (int i = 0; i < n; i++)
    if (!tri_target_check(&target[i])) TRI_FAIL_DONE(TRI_ECOMM, "rank 0 asks for an invalid address");
  TRI_TRY_DONE(tri_probe(m->trust.secret.key, m->launch->task, target, n, tri_rendezvous_probe_s(m), error));
  tri_rendezvous_tell(m, TRI_CHANNEL_REACH, error, (size_t)n * sizeof *error);
done:
  TRI_FREE(target);
  TRI_FREE(error);
  return st;
}

void tri_rendezvous_wait_for_hub(const tri_rendezvous *m) {
  /* Rank 0 needs this time after its patience, for probes, clocks (rendezvous_hub.c) and the report. */
  poll(NULL, 0, (int)(1000 * ((TRI_PROBE_PARTS + 1) * tri_rendezvous_probe_s(m) + 6)));
}

/* Answers for this process while MPI has the main thread. */
static void *speak(void *arg) {
  tri_rendezvous *m = arg;
  tri_channel_in  in = {0};
  tri_channel_got got;

  while ((got = tri_channel_wait(&m->hub, &in, tri_now_s() + look_s)) != TRI_CHANNEL_LOST) {
    if (got != TRI_CHANNEL_WHOLE) continue;
    if (in.head.kind == TRI_CHANNEL_CLOCK) answer_clock(m);
    tri_channel_drop(&in);
  }
  tri_channel_drop(&in);
  return NULL;
}

void tri_rendezvous_silence(tri_rendezvous *m) {
  if (!m->speaks) return;
  shutdown(m->hub.fd, SHUT_RDWR);
  pthread_join(m->voice, NULL);
  m->speaks = false;
}

tri_status tri_rendezvous_serve(tri_rendezvous *m, bool *go) {
  double until_s;

  *go = false;
  TRI_TRY(come(m));
  *go = m->trust.off;
  if (m->trust.off) return TRI_OK;
  /* Rank 0 waits for others, then asks each. */
  until_s = tri_now_s() + 2 * m->patience_s + 30;
  for (;;) {
    tri_channel_in  in = {0};
    tri_channel_got got = tri_channel_wait(&m->hub, &in, until_s);
    tri_status      st = TRI_OK;
    bool decided = got == TRI_CHANNEL_WHOLE && in.head.kind == TRI_CHANNEL_VERDICT && in.head.bytes == 1;
    if (decided) *go = in.bytes[0] != TRI_CHANNEL_STOP;
    if (decided) m->trust.off = in.bytes[0] == TRI_CHANNEL_GO_UNWATCHED;
    if (got == TRI_CHANNEL_WHOLE && in.head.kind == TRI_CHANNEL_CLOCK) answer_clock(m);
    if (got == TRI_CHANNEL_WHOLE && in.head.kind == TRI_CHANNEL_REACH) st = answer_reach(m, &in);
    tri_channel_drop(&in);
    if (decided && *go)
      m->speaks = !pthread_create(&m->voice, NULL, speak, m); /* without the thread only less is known */
    if (decided || st != TRI_OK) return st;
    if (got != TRI_CHANNEL_WHOLE)
      TRI_FAIL(TRI_ECOMM, "%s: rank 0 on %s is gone, or does not answer", m->facts->seat.host,
               m->launch->hub);
  }
}
