/* net.c - the sockets of a rank's heartbeats. An IPv6 socket carries both families. If the kernel lacks IPv6,
 * the socket is IPv4. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORTS_TRIED = 16, BACKLOG = 64, ANSWER_BYTES = 1 << 20 /* chosen: 8,000 ranks of a machine */ };

typedef union place {
  struct sockaddr     any;
  struct sockaddr_in  four;
  struct sockaddr_in6 six;
} place;

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* prefix of an IPv4 address in IPv6 */

bool tri_net_is_address(const uint8_t address[TRI_RANK_INFO_ADDRESS_BYTES]) {
  static const uint8_t none[TRI_RANK_INFO_ADDRESS_BYTES];

  return memcmp(address, none, sizeof none) != 0;
}

/* ---- ends as the system writes them ---- */

static void map(const struct in_addr *four, uint8_t out[TRI_RANK_INFO_ADDRESS_BYTES]) {
  memcpy(out, mapped, sizeof mapped);
  memcpy(out + sizeof mapped, four, sizeof *four);
}

/* Converts an address for a socket of this family. 0: this family cannot reach it. */
static socklen_t put_end(int family, const tri_net_end *end, place *out) {
  *out = (place){.six = {.sin6_family = AF_INET6, .sin6_port = (in_port_t)end->port}};
  memcpy(&out->six.sin6_addr, end->address, sizeof end->address);
  if (family == AF_INET6) return sizeof out->six;
  if (memcmp(end->address, mapped, sizeof mapped)) return 0;
  *out = (place){.four = {.sin_family = AF_INET, .sin_port = (in_port_t)end->port}};
  memcpy(&out->four.sin_addr, end->address + sizeof mapped, sizeof out->four.sin_addr);
  return sizeof out->four;
}

static bool get_end(const place *at, socklen_t n, tri_net_end *out) {
  if (n == sizeof at->six && at->any.sa_family == AF_INET6) {
    memcpy(out->address, &at->six.sin6_addr, sizeof out->address);
    out->port = at->six.sin6_port;
    return true;
  }
  if (n != sizeof at->four || at->any.sa_family != AF_INET) return false;
  map(&at->four.sin_addr, out->address);
  out->port = at->four.sin_port;
  return true;
}

static int family_of(int fd) {
  int       family = AF_INET6;
  socklen_t n = sizeof family;

  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n) ? AF_INET6 : family;
}

/* ---- open ---- */

/* Opens a socket for both families if the kernel has both. */
static int open_socket(int type) {
  int zero = 0, fd = socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  if (fd >= 0 && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero)) return fd;
  if (fd >= 0) close(fd);
  return socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Binds to *port on all addresses. 0 asks for a free port. *port receives the port. */
static bool bind_socket(int fd, uint32_t *port) {
  static const uint8_t any[TRI_RANK_INFO_ADDRESS_BYTES];
  tri_net_end          end = {.port = *port};
  place                at;
  socklen_t            n;

  if (family_of(fd) == AF_INET)
    memcpy(end.address, mapped, sizeof mapped);
  else
    memcpy(end.address, any, sizeof any);
  n = put_end(family_of(fd), &end, &at);
  if (bind(fd, &at.any, n) || getsockname(fd, &at.any, &n) || !get_end(&at, n, &end)) return false;
  *port = end.port;
  return true;
}

static bool open_heartbeats(int *fd, uint32_t *port) {
  int on = 1;

  *port = 0;
  *fd = open_socket(SOCK_DGRAM);
  if (*fd < 0 || !bind_socket(*fd, port)) return false;
  setsockopt(*fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on); /* without it, refusals are not reported */
  setsockopt(*fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
  return true;
}

/* Answers are larger than the default send buffer. */
static int open_listen(uint32_t port) {
  int fd = open_socket(SOCK_STREAM), bytes = ANSWER_BYTES;

  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  if (bind_socket(fd, &port) && !listen(fd, BACKLOG)) return fd;
  close(fd);
  return -1;
}

tri_status tri_net_open(int *fd, int *listen, uint32_t *port) {
  int before = -1; /* kept open until another port is found */

  *listen = *fd = -1;
  for (int i = 0; i < PORTS_TRIED && *listen < 0; i++) {
    if (before >= 0) close(before);
    before = *fd;
    if (!open_heartbeats(fd, port)) break;
    *listen = open_listen(*port);
  }
  if (before >= 0) close(before);
  if (*port) return TRI_OK;
  tri_fail(__FILE__, __LINE__, __func__, TRI_ECOMM, "a UDP socket cannot be opened: %s", strerror(errno));
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return TRI_ECOMM;
}

/* ---- addresses ---- */

static bool is_wanted(const struct ifaddrs *i, int family) {
  if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP)) return false;
  if (i->ifa_flags & IFF_LOOPBACK) return false;
  return family == AF_INET ||
         !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr);
}

static void get_address(const struct sockaddr *a, uint8_t out[TRI_RANK_INFO_ADDRESS_BYTES]) {
  if (a->sa_family == AF_INET)
    map(&((const struct sockaddr_in *)(const void *)a)->sin_addr, out);
  else
    memcpy(out, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, TRI_RANK_INFO_ADDRESS_BYTES);
}

void tri_net_addresses(uint8_t out[TRI_RANK_INFO_ADDRESSES][TRI_RANK_INFO_ADDRESS_BYTES]) {
  static const int family[] = {AF_INET, AF_INET6};
  struct in_addr   own = {htonl(INADDR_LOOPBACK)};
  struct ifaddrs  *list = NULL;
  int              n = 0;

  memset(out, 0, TRI_RANK_INFO_ADDRESSES * sizeof *out);
  if (getifaddrs(&list)) list = NULL;
  for (int k = 0; k < 2; k++) /* leaves places for IPv6 on a machine with many bridges */
    for (const struct ifaddrs *i = list; i && n < TRI_RANK_INFO_ADDRESSES / (2 - k); i = i->ifa_next)
      if (is_wanted(i, family[k])) get_address(i->ifa_addr, out[n++]);
  if (list) freeifaddrs(list);
  if (n) return;
  map(&own, out[0]);
  memcpy(out[1], &in6addr_loopback, sizeof out[1]);
}

/* ---- datagrams ---- */

void tri_net_send(int fd, const tri_net_end *to, const void *bytes, size_t n) {
  place     at;
  socklen_t at_bytes = put_end(family_of(fd), to, &at);

  /* A pending error of the socket makes the next send fail, so a failed send is repeated once. */
  for (int i = 0; i < 2 && at_bytes; i++)
    if (sendto(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL, &at.any, at_bytes) >= 0) return;
}

size_t tri_net_receive(int fd, void *bytes, size_t n, tri_net_end *from) {
  for (int i = 0; i < 8; i++) { /* pending errors come first */
    place     at = {.any = {0}};
    socklen_t at_bytes = sizeof at;
    ssize_t   got = recvfrom(fd, bytes, n, MSG_DONTWAIT | MSG_TRUNC, &at.any, &at_bytes);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (got <= 0 || !get_end(&at, at_bytes, from)) continue;
    return (size_t)got > n ? n + 1 : (size_t)got; /* too long for us, and refused by its length */
  }
  return 0;
}

bool tri_net_refused(int fd, tri_net_end *by) {
  place         at = {.any = {0}};
  char          control[512], byte;
  struct iovec  iov = {&byte, 1};
  struct msghdr m = {.msg_name = &at,
                     .msg_namelen = sizeof at,
                     .msg_iov = &iov,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};

  if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return false;
  *by = (tri_net_end){.port = 0};
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    struct sock_extended_err e;
    bool                     six = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR;
    if (!six && (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR)) continue;
    memcpy(&e, CMSG_DATA(c), sizeof e);
    if (e.ee_errno == ECONNREFUSED && !get_end(&at, m.msg_namelen, by)) by->port = 0;
  }
  return true;
}

/* ---- connections ---- */

int tri_net_connect(const tri_net_end *to) {
  int       fd = open_socket(SOCK_STREAM);
  place     at;
  socklen_t n = fd < 0 ? 0 : put_end(family_of(fd), to, &at);

  if (n && (!connect(fd, &at.any, n) || errno == EINPROGRESS)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

int tri_net_accept(int listen) {
  int fd = listen < 0 ? -1 : accept(listen, NULL, NULL);

  if (fd < 0) return -1;
  if (!fcntl(fd, F_SETFL, O_NONBLOCK) && !fcntl(fd, F_SETFD, FD_CLOEXEC)) return fd;
  close(fd);
  return -1;
}
