/* talk.c - messages over TCP between ranks before MPI is up. */
#include "talk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_socket(int family) {
  int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

int tri_talk_listen(int port) {
  struct sockaddr_in6 six = {
      .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = htons((uint16_t)port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int                one = 1, zero = 0, fd = open_socket(AF_INET6);
  bool               bound;

  if (fd >= 0) { /* of both kinds of addresses */
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bound = !bind(fd, (struct sockaddr *)&six, sizeof six);
  } else {
    fd = open_socket(AF_INET);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bound = !bind(fd, (struct sockaddr *)&four, sizeof four);
  }
  if (bound && !listen(fd, SOMAXCONN)) return fd;
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

int tri_talk_start(const char *host, int port, const char *from, bool *underway) {
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

/* Waits for one of these events; false: not in time. */
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

int tri_talk_finish(int fd, double until_s) {
  int       error = 0;
  socklen_t n = sizeof error;

  if (!wait_for(fd, POLLOUT, until_s)) return ETIMEDOUT;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) ? errno : error;
}

static bool send_all(int fd, const char *bytes, size_t n, double until_s) {
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

bool tri_talk_send(int fd, const tri_talk_head *head, const void *bytes, double until_s) {
  return send_all(fd, (const char *)head, sizeof *head, until_s) && send_all(fd, bytes, head->bytes, until_s);
}

void tri_talk_drop(tri_talk_in *in) {
  TRI_FREE(in->bytes);
  *in = (tri_talk_in){0};
}

static bool is_head(const tri_talk_head *h, uint64_t key) {
  return h->key == key && h->kind >= TRI_TALK_HELLO && h->kind <= TRI_TALK_FAILED &&
         h->bytes <= TRI_TALK_MOST_BYTES && h->task >= 0 && !h->zero;
}

tri_talk_got tri_talk_take(int fd, uint64_t key, tri_talk_in *in) {
  for (;;) {
    size_t  head = sizeof in->head, want = in->have < head ? head : head + in->head.bytes;
    char   *to = in->have < head ? (char *)&in->head + in->have : in->bytes + (in->have - head);
    ssize_t n;
    if (in->have >= head && in->have == want) return TRI_TALK_WHOLE;
    n = recv(fd, to, want - in->have, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return TRI_TALK_MORE;
    if (n <= 0) return TRI_TALK_LOST;
    in->have += (size_t)n;
    if (in->have != head) continue;
    if (!is_head(&in->head, key)) return TRI_TALK_LOST;
    if (tri_host_alloc((size_t)in->head.bytes + 1, 1, (void **)&in->bytes) != TRI_OK) {
      tri_error_clear();
      return TRI_TALK_LOST;
    }
  }
}

tri_talk_got tri_talk_wait(int fd, uint64_t key, tri_talk_in *in, double until_s) {
  for (;;) {
    tri_talk_got got = tri_talk_take(fd, key, in);
    if (got != TRI_TALK_MORE) return got;
    if (!wait_for(fd, POLLIN, until_s)) return TRI_TALK_MORE;
  }
}
