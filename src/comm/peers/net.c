/* net.c - the socket of a rank's beats. */
#include "net.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

tri_status tri_net_open(int *fd, uint32_t *port) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t          n = sizeof any;
  int                on = 1;

  *fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (*fd >= 0 && !bind(*fd, (struct sockaddr *)&any, sizeof any) &&
      !getsockname(*fd, (struct sockaddr *)&any, &n)) {
    setsockopt(*fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on); /* without it nobody hears of a refusal */
    *port = any.sin_port;
    return TRI_OK;
  }
  tri_fail(__FILE__, __LINE__, __func__, TRI_ECOMM, "no UDP socket: %s", strerror(errno));
  if (*fd >= 0) close(*fd);
  *fd = -1;
  *port = 0;
  return TRI_ECOMM;
}

void tri_net_addresses(uint32_t out[TRI_CARD_ADDRESSES]) {
  struct ifaddrs *list = NULL;
  int             n = 0;

  memset(out, 0, TRI_CARD_ADDRESSES * sizeof *out);
  if (getifaddrs(&list)) list = NULL;
  for (struct ifaddrs *i = list; i && n < TRI_CARD_ADDRESSES; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
    if (i->ifa_flags & IFF_LOOPBACK) continue;
    out[n++] = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr;
  }
  if (list) freeifaddrs(list);
  if (n == 0) out[0] = htonl(INADDR_LOOPBACK);
}

void tri_net_send(int fd, const tri_net_end *to, const void *bytes, size_t n) {
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = (in_port_t)to->port, .sin_addr.s_addr = to->address};

  /* An error that waits at the socket is told to whoever sends next, and nothing is sent: so once more. */
  for (int i = 0; i < 2; i++)
    if (sendto(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&at, sizeof at) >= 0) return;
}

size_t tri_net_receive(int fd, void *bytes, size_t n, tri_net_end *from) {
  struct sockaddr_in at = {0};

  for (int i = 0; i < 8; i++) { /* errors that wait come first */
    socklen_t at_bytes = sizeof at;
    ssize_t   got = recvfrom(fd, bytes, n, MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&at, &at_bytes);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (got <= 0 || at_bytes != sizeof at || at.sin_family != AF_INET) continue;
    *from = (tri_net_end){at.sin_addr.s_addr, at.sin_port};
    return (size_t)got > n ? n + 1 : (size_t)got; /* longer than any of ours: refused by its length */
  }
  return 0;
}

bool tri_net_refused(int fd, tri_net_end *by) {
  struct sockaddr_in at = {0};
  char               control[512], byte;
  struct iovec       iov = {&byte, 1};
  struct msghdr      m = {.msg_name = &at,
                          .msg_namelen = sizeof at,
                          .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control,
                          .msg_controllen = sizeof control};

  if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return false;
  *by = (tri_net_end){0, 0};
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    struct sock_extended_err e;
    if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR) continue;
    memcpy(&e, CMSG_DATA(c), sizeof e);
    if (e.ee_errno == ECONNREFUSED) *by = (tri_net_end){at.sin_addr.s_addr, at.sin_port};
  }
  return true;
}
