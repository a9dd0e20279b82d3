/* probe.c - tests several machines at once for an answer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "probe.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "tools/doctor/checks.h"
#include "channel.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* One Ethernet packet, one jumbo frame, and many packets. The limit of a network may lie between any of
 * them. */
static const uint32_t size[TRI_PROBE_PARTS - 2] = {1400, 8000, 1 << 18};
enum { LARGEST = TRI_PROBE_PARTS - 3 };

bool tri_target_check(tri_target *t) {
  t->host[sizeof t->host - 1] = '\0';
  t->from[sizeof t->from - 1] = '\0';
  return t->host[0] && t->port > 0 && t->port < 65536;
}

/* One machine while it is tested. */
typedef struct probed {
  int         fd; /* -1: given up */
  bool        underway;
  tri_channel channel;
} probed;

/* Greets each reachable machine. */
static void greet(const unsigned char *secret, int task, probed *k, int n, double until_s, int32_t *error) {
  for (int i = 0; i < n; i++)
    if (k[i].fd >= 0 && !error[i] &&
        !tri_channel_open(k[i].fd, secret, TRI_CHANNEL_PROBER, task, &k[i].channel, until_s))
      error[i] = ETIMEDOUT;
  for (int i = 0; i < n; i++)
    if (k[i].fd >= 0 && !error[i]) error[i] = tri_channel_greet(&k[i].channel, until_s);
}

/* Sends `bytes` to each machine without an error so far and waits for its reply. */
static void ask(probed *k, int n, const char *bytes, size_t n_bytes, double until_s, int32_t *error) {
  for (int i = 0; i < n; i++)
    if (k[i].fd >= 0 && !error[i] &&
        !tri_channel_send(&k[i].channel, TRI_CHANNEL_PROBE, bytes, n_bytes, until_s))
      error[i] = TRI_REACH_LARGE;
  for (int i = 0; i < n; i++) {
    tri_channel_in in = {0};
    if (k[i].fd < 0 || error[i]) continue;
    if (tri_channel_wait(&k[i].channel, &in, until_s) != TRI_CHANNEL_WHOLE) error[i] = TRI_REACH_LARGE;
    tri_channel_drop(&in);
  }
}

tri_status tri_probe(const unsigned char secret[TRI_KEY_BYTES], int task, const tri_target *target, int n,
                     double patience_s, int32_t *error) {
  double     until_s = tri_now_s() + patience_s;
  probed    *k = NULL;
  char      *bytes = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(k, n));
  for (int i = 0; i < n; i++) k[i].fd = -1;
  TRI_TRY_DONE(TRI_ALLOC(bytes, size[LARGEST]));
  for (int i = 0; i < n; i++) {
    k[i].fd = tri_channel_start(target[i].host, target[i].port, target[i].from, &k[i].underway);
    error[i] = k[i].fd < 0 ? -k[i].fd : 0;
  }
  for (int i = 0; i < n; i++)
    if (k[i].fd >= 0 && k[i].underway) error[i] = tri_channel_finish(k[i].fd, until_s);
  greet(secret, task, k, n, tri_now_s() + patience_s, error);
  for (int i = 0; i <= LARGEST; i++) ask(k, n, bytes, size[i], tri_now_s() + patience_s, error);
done:
  for (int i = 0; k && i < n; i++)
    if (k[i].fd >= 0) close(k[i].fd);
  TRI_FREE(k);
  TRI_FREE(bytes);
  return st;
}
