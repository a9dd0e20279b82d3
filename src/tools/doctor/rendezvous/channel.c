/* channel.c - sends authenticated messages over TCP between ranks before MPI is up. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "channel.h"

#include "base/clock.h"
#include "base/host_memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_socket(int family) {
  int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static int port_of(int fd) {
  struct sockaddr_storage at;
  socklen_t               n = sizeof at;

  if (getsockname(fd, (struct sockaddr *)&at, &n)) return 0;
  return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                        : ((struct sockaddr_in *)&at)->sin_port);
}

int tri_channel_listen(int port, int *bound_to) {
  struct sockaddr_in6 six = {
      .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = htons((uint16_t)port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int                one = 1, zero = 0, fd = open_socket(AF_INET6);
  bool               bound;

  if (fd >= 0) { /* for IPv4 and IPv6 addresses */
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bound = !bind(fd, (struct sockaddr *)&six, sizeof six);
  } else {
    fd = open_socket(AF_INET);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bound = !bind(fd, (struct sockaddr *)&four, sizeof four);
  }
  *bound_to = bound && !listen(fd, SOMAXCONN) ? port_of(fd) : 0;
  if (*bound_to) return fd;
  close(fd);
  return -1;
}

static int go_out_by(int fd, int family, const char *from) {
  struct addrinfo numbers = {.ai_flags = AI_NUMERICHOST, .ai_family = family, .ai_socktype = SOCK_STREAM}, *a;
  int             error;

  if (getaddrinfo(from, NULL, &numbers, &a)) return EAFNOSUPPORT;
  error = bind(fd, a->ai_addr, a->ai_addrlen) ? errno : 0;
  freeaddrinfo(a);
  return error;
}

int tri_channel_start(const char *host, int port, const char *from, bool *underway) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV},
                  *all;
  char service[16];
  int  error = EHOSTUNREACH;

  *underway = false;
  snprintf(service, sizeof service, "%d", port);
  if (getaddrinfo(host, service, &want, &all)) return -EADDRNOTAVAIL; /* no such name */
  for (const struct addrinfo *a = all; a; a = a->ai_next) {
    int fd = open_socket(a->ai_family);
    if (fd < 0) continue;
    error = from[0] ? go_out_by(fd, a->ai_family, from) : 0;
    if (!error && connect(fd, a->ai_addr, a->ai_addrlen)) error = errno;
    if (!error || error == EINPROGRESS) {
      *underway = error != 0;
      freeaddrinfo(all);
      return fd;
    }
    close(fd);
  }
  freeaddrinfo(all);
  return -error;
}

/* Waits for one of these events. Returns false on timeout. */
static bool wait_for(int fd, short events, double until_s) {
  for (;;) {
    struct pollfd p = {.fd = fd, .events = events};
    double        left_s = until_s - tri_now_s();
    int           n = poll(&p, 1, left_s > 0 ? 1 + (int)(left_s * 1000) : 0);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
    if (left_s <= 0) return false;
  }
}

int tri_channel_finish(int fd, double until_s) {
  int       error = 0;
  socklen_t n = sizeof error;

  if (!wait_for(fd, POLLOUT, until_s)) return ETIMEDOUT;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) ? errno : error;
}

bool tri_channel_send_raw(int fd, const void *from, size_t n, double until_s) {
  const char *bytes = from;

  while (n) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent < 0 && !wait_for(fd, POLLOUT, until_s)) return false;
    if (sent > 0) {
      bytes += sent;
      n -= (size_t)sent;
    }
  }
  return true;
}

size_t tri_channel_take_raw(int fd, char *out, size_t cap, double until_s) {
  size_t have = 0;

  while (have < cap && wait_for(fd, POLLIN, until_s)) {
    ssize_t n = recv(fd, out + have, cap - have, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) break;
    have += (size_t)n;
  }
  return have;
}

/* ---- the other end ---- */

static const char magic[8] = "TRIDOC2";

/* magic [8], want, task, nonce [16] */
static void write_opening(tri_channel_want want, int task, unsigned char out[TRI_CHANNEL_OPENING_BYTES]) {
  uint32_t word[2] = {(uint32_t)want, (uint32_t)task};

  memcpy(out, magic, sizeof magic);
  memcpy(out + sizeof magic, word, sizeof word);
}

static bool read_opening(const unsigned char *bytes, tri_channel *t) {
  uint32_t word[2];

  memcpy(word, bytes + sizeof magic, sizeof word);
  if (memcmp(bytes, magic, sizeof magic) || word[0] < TRI_CHANNEL_MEMBER || word[0] > TRI_CHANNEL_WITHOUT ||
      word[1] > INT32_MAX)
    return false;
  t->want = (tri_channel_want)word[0];
  t->task = (int)word[1];
  return true;
}

static void make_key(const unsigned char *secret, const unsigned char opening[TRI_CHANNEL_OPENING_BYTES],
                     const unsigned char nonce[TRI_CHANNEL_NONCE_BYTES], unsigned char out[TRI_KEY_BYTES]) {
  tri_mac m;

  tri_mac_begin(&m, secret);
  tri_mac_put(&m, opening, TRI_CHANNEL_OPENING_BYTES);
  tri_mac_put(&m, nonce, TRI_CHANNEL_NONCE_BYTES);
  tri_mac_end(&m, out);
}

/* Makes the proof of having this connection's key, for one end. */
static void make_proof(const tri_channel *t, bool opener, unsigned char out[TRI_SHA256_BYTES]) {
  tri_mac m;

  tri_mac_begin(&m, t->key);
  tri_mac_put(&m, opener ? "opener" : "answer", 6);
  tri_mac_end(&m, out);
}

static void make_code(const tri_channel *t, bool by_opener, uint64_t number, const tri_channel_head *head,
                      const void *bytes, unsigned char out[TRI_SHA256_BYTES]) {
  unsigned char way = by_opener;
  tri_mac       m;

  tri_mac_begin(&m, t->key);
  tri_mac_put(&m, "message", 7);
  tri_mac_put(&m, &way, 1);
  tri_mac_put(&m, &number, sizeof number);
  tri_mac_put(&m, &head->kind, sizeof *head - offsetof(tri_channel_head, kind));
  tri_mac_put(&m, bytes, head->bytes);
  tri_mac_end(&m, out);
}

void tri_channel_accept(int fd, int me, tri_channel *t) {
  *t = (tri_channel){.fd = fd, .me = me, .task = -1};
}

bool tri_channel_open(int fd, const unsigned char secret[TRI_KEY_BYTES], tri_channel_want want, int me,
                      tri_channel *t, double until_s) {
  *t = (tri_channel){.fd = fd, .me = me, .task = -1, .want = want, .opener = true};
  write_opening(want, me, t->raw);
  if (tri_random_bytes(t->raw + TRI_CHANNEL_OPENING_BYTES - TRI_CHANNEL_NONCE_BYTES,
                       TRI_CHANNEL_NONCE_BYTES) != TRI_OK) {
    tri_error_clear();
    return false;
  }
  memcpy(t->key, secret, sizeof t->key); /* until the answer gives this connection a key of its own */
  return tri_channel_send_raw(fd, t->raw, TRI_CHANNEL_OPENING_BYTES, until_s);
}

int tri_channel_greet(tri_channel *t, double until_s) {
  unsigned char answer[TRI_CHANNEL_ANSWER_BYTES], proof[TRI_SHA256_BYTES], key[TRI_KEY_BYTES];
  size_t        have = tri_channel_take_raw(t->fd, (char *)answer, sizeof answer, until_s);

  if (have < sizeof answer) return tri_now_s() < until_s ? EPROTO : ETIMEDOUT; /* connection closed */
  make_key(t->key, t->raw, answer, key);
  memcpy(t->key, key, sizeof key);
  make_proof(t, false, proof);
  if (!tri_mac_is_equal(proof, answer + TRI_CHANNEL_NONCE_BYTES, sizeof proof)) return EPROTO;
  make_proof(t, true, proof);
  if (!tri_channel_send_raw(t->fd, proof, sizeof proof, until_s)) return ETIMEDOUT;
  t->state = TRI_CHANNEL_PROVED;
  return 0;
}

/* Answers a complete opening. */
static tri_channel_got answer_opening(tri_channel *t, const unsigned char *secret) {
  unsigned char answer[TRI_CHANNEL_ANSWER_BYTES];

  if (!read_opening(t->raw, t)) return TRI_CHANNEL_LOST;
  if (t->want == TRI_CHANNEL_ASKER || t->want == TRI_CHANNEL_WITHOUT) return TRI_CHANNEL_ASKED;
  if (!secret) return TRI_CHANNEL_LOST;
  if (tri_random_bytes(answer, TRI_CHANNEL_NONCE_BYTES) != TRI_OK) {
    tri_error_clear();
    return TRI_CHANNEL_LOST;
  }
  make_key(secret, t->raw, answer, t->key);
  make_proof(t, false, answer + TRI_CHANNEL_NONCE_BYTES);
  /* It does not wait, because so few bytes fit into any new socket. */
  if (!tri_channel_send_raw(t->fd, answer, sizeof answer, tri_now_s())) return TRI_CHANNEL_LOST;
  t->state = TRI_CHANNEL_ANSWERED;
  t->have = 0;
  return TRI_CHANNEL_MORE;
}

static tri_channel_got check_proof(tri_channel *t) {
  unsigned char proof[TRI_SHA256_BYTES];

  make_proof(t, true, proof);
  if (!tri_mac_is_equal(proof, t->raw, sizeof proof)) return TRI_CHANNEL_LOST;
  t->state = TRI_CHANNEL_PROVED;
  return TRI_CHANNEL_MORE;
}

/* Takes up to `want` bytes before the messages. MORE: some are still missing. */
static tri_channel_got take_before(tri_channel *t, size_t want) {
  while (t->have < want) {
    ssize_t n = recv(t->fd, t->raw + t->have, want - t->have, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return TRI_CHANNEL_MORE;
    if (n <= 0) return TRI_CHANNEL_LOST;
    t->have += (size_t)n;
  }
  return TRI_CHANNEL_WHOLE;
}

/* ---- messages ---- */

bool tri_channel_send(tri_channel *t, tri_channel_kind kind, const void *bytes, size_t n, double until_s) {
  tri_channel_head head = {.kind = (uint32_t)kind, .task = t->me, .bytes = (uint32_t)n};

  if (t->state != TRI_CHANNEL_PROVED || n > TRI_CHANNEL_MOST_BYTES) return false;
  make_code(t, t->opener, t->sent++, &head, bytes, head.code);
  return tri_channel_send_raw(t->fd, &head, sizeof head, until_s) &&
         tri_channel_send_raw(t->fd, bytes, n, until_s);
}

void tri_channel_drop(tri_channel_in *in) {
  TRI_FREE(in->bytes);
  *in = (tri_channel_in){0};
}

static bool is_head(const tri_channel *t, const tri_channel_head *h) {
  return h->kind >= TRI_CHANNEL_HELLO && h->kind <= TRI_CHANNEL_FAILED &&
         h->bytes <= TRI_CHANNEL_MOST_BYTES && h->task >= 0 && !h->zero && (t->opener || h->task == t->task);
}

static tri_channel_got check_message(tri_channel *t, const tri_channel_in *in) {
  unsigned char code[TRI_SHA256_BYTES];

  make_code(t, !t->opener, t->taken++, &in->head, in->bytes, code);
  return tri_mac_is_equal(code, in->head.code, sizeof code) ? TRI_CHANNEL_WHOLE : TRI_CHANNEL_LOST;
}

static tri_channel_got take_message(tri_channel *t, tri_channel_in *in) {
  for (;;) {
    size_t  head = sizeof in->head, want = in->have < head ? head : head + in->head.bytes;
    char   *to = in->have < head ? (char *)&in->head + in->have : in->bytes + (in->have - head);
    ssize_t n;
    if (in->have >= head && in->have == want) return check_message(t, in);
    n = recv(t->fd, to, want - in->have, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return TRI_CHANNEL_MORE;
    if (n <= 0) return TRI_CHANNEL_LOST;
    in->have += (size_t)n;
    if (in->have != head) continue;
    if (!is_head(t, &in->head)) return TRI_CHANNEL_LOST;
    if (tri_host_alloc((size_t)in->head.bytes + 1, 1, (void **)&in->bytes) != TRI_OK) {
      tri_error_clear();
      return TRI_CHANNEL_LOST;
    }
  }
}

tri_channel_got tri_channel_take(tri_channel *t, const unsigned char *secret, tri_channel_in *in) {
  tri_channel_got got;

  if (t->state == TRI_CHANNEL_OPENING) {
    if (t->opener) return TRI_CHANNEL_LOST; /* it was never greeted */
    got = take_before(t, TRI_CHANNEL_OPENING_BYTES);
    if (got == TRI_CHANNEL_WHOLE) got = answer_opening(t, secret);
    if (t->state == TRI_CHANNEL_OPENING) return got;
  }
  if (t->state == TRI_CHANNEL_ANSWERED) {
    got = take_before(t, TRI_SHA256_BYTES);
    if (got == TRI_CHANNEL_WHOLE) got = check_proof(t);
    if (t->state == TRI_CHANNEL_ANSWERED) return got;
  }
  return take_message(t, in);
}

tri_channel_got tri_channel_wait(tri_channel *t, tri_channel_in *in, double until_s) {
  for (;;) {
    tri_channel_got got = tri_channel_take(t, NULL, in);
    if (got != TRI_CHANNEL_MORE) return got;
    if (!wait_for(t->fd, POLLIN, until_s)) return TRI_CHANNEL_MORE;
  }
}
