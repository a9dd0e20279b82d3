/* gather_nets.c - lists the active interfaces of this machine, and its InfiniBand devices. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gather.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static int bits_of(const unsigned char *mask, int bytes) {
  int n = 0;

  for (int i = 0; i < bytes; i++) n += __builtin_popcount(mask[i]);
  return n;
}

static void add(const struct ifaddrs *a, tri_facts *out) {
  tri_facts_net *net = &out->net[out->n_net];
  char           path[128];
  bool           six = a->ifa_addr->sa_family == AF_INET6;
  const void    *address =
      six ? (const void *)&((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr
             : (const void *)&((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;

  if (!inet_ntop(six ? AF_INET6 : AF_INET, address, net->address, sizeof net->address)) return;
  snprintf(net->name, sizeof net->name, "%s", a->ifa_name);
  if (a->ifa_netmask)
    net->prefix =
        six ? bits_of(((const struct sockaddr_in6 *)(const void *)a->ifa_netmask)->sin6_addr.s6_addr, 16)
            : bits_of((const unsigned char *)&((const struct sockaddr_in *)(const void *)a->ifa_netmask)
                          ->sin_addr,
                      4);
  net->loop = (a->ifa_flags & IFF_LOOPBACK) != 0;
  snprintf(path, sizeof path, "/sys/class/net/%.31s/speed", a->ifa_name);
  net->mbit = (int32_t)tri_gather_number(path);
  out->n_net++;
}

/* Skips link-local IPv6 addresses. Routers do not forward them, and they need an interface name. */
static bool is_wanted(const struct ifaddrs *a, int family) {
  if (!a->ifa_addr || a->ifa_addr->sa_family != family || !(a->ifa_flags & IFF_UP)) return false;
  return family == AF_INET ||
         !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr);
}

static int count_ib(void) {
  DIR           *folder = opendir("/sys/class/infiniband");
  struct dirent *e;
  int            n = 0;

  if (!folder) return 0;
  while ((e = readdir(folder))) n += e->d_name[0] != '.';
  closedir(folder);
  return n;
}

void tri_gather_nets(tri_facts *out) {
  static const int family[] = {AF_INET, AF_INET6};
  struct ifaddrs  *all;

  out->n_ib = count_ib();
  if (getifaddrs(&all)) return;
  for (int k = 0; k < 2; k++)
    for (const struct ifaddrs *a = all; a && out->n_net < TRI_FACTS_NETS; a = a->ifa_next)
      if (is_wanted(a, family[k])) add(a, out);
  freeifaddrs(all);
}
