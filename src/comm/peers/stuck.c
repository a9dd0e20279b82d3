/* stuck.c - finds why the start of MPI may hang on this node. An active interface that leads nowhere shows in
 * the kernel's neighbour table. MPI's connections there have an entry without a hardware address. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stuck.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tests that text from the system has only printable characters without spaces. */
static bool is_plain(const char *text) {
  for (; *text; text++)
    if (*text <= ' ' || *text > '~') return false;
  return true;
}

int tri_stuck_find(const char *arp, tri_stuck out[TRI_STUCK_MOST]) {
  FILE *f = fopen(arp, "re");
  char  line[256];
  int   n = 0;

  while (f && n < TRI_STUCK_MOST && fgets(line, sizeof line, f)) {
    unsigned  flags;
    tri_stuck x;
    bool      known = false;
    if (sscanf(line, "%15[0-9.] %*s 0x%x %*s %*s %31s", x.address, &flags, x.net) != 3 || flags ||
        !is_plain(x.net))
      continue;
    for (int i = 0; i < n; i++) known = known || !strcmp(out[i].net, x.net);
    if (!known) out[n++] = x;
  }
  if (f) fclose(f);
  return n;
}

/* Lists the interfaces that MPI uses by default: active, IPv4, not the loopback. */
static tri_status put_nets(tri_text *out) {
  struct ifaddrs *list = NULL;
  char            address[INET_ADDRSTRLEN];
  int             n = 0;
  tri_status      st = TRI_OK;

  if (getifaddrs(&list)) return TRI_OK;
  for (const struct ifaddrs *i = list; i && st == TRI_OK && n < TRI_STUCK_MOST; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
        (i->ifa_flags & IFF_LOOPBACK) || !is_plain(i->ifa_name))
      continue;
    inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, address,
              sizeof address);
    st = tri_text_printf(out, "%s%s %s", n++ ? ", " : "", i->ifa_name, address);
  }
  freeifaddrs(list);
  return st == TRI_OK && !n ? tri_text_printf(out, "none") : st;
}

tri_status tri_stuck_words(const tri_stuck *stuck, int n, tri_text *out) {
  const char *but = getenv("OMPI_MCA_btl_tcp_if_exclude");

  if (!n) {
    TRI_TRY(tri_text_printf(out, "MPI uses every active interface that is not excluded, here "));
    TRI_TRY(put_nets(out));
    return tri_text_printf(
        out, ". One that leads nowhere makes it hang. Run trireme doctor in place of trireme train "
             "to find it");
  }
  for (int i = 0; i < n; i++)
    TRI_TRY(
        tri_text_printf(out, "%s%s does not answer on %s", i ? ", " : "", stuck[i].address, stuck[i].net));
  TRI_TRY(tri_text_printf(out,
                          ": MPI uses every active interface and hangs on one that leads nowhere. Set export "
                          "OMPI_MCA_btl_tcp_if_exclude=%s",
                          but && is_plain(but) && but[0] ? but : "lo,docker0"));
  for (int i = 0; i < n; i++) TRI_TRY(tri_text_printf(out, ",%s", stuck[i].net));
  return tri_text_printf(out, ", or have it taken down. trireme doctor in place of trireme train tells more");
}

void tri_stuck_say(const char *before, int rank, bool speaks) {
  tri_stuck stuck[TRI_STUCK_MOST];
  int       n = tri_stuck_find("/proc/net/arp", stuck);
  char      host[64] = "?";
  tri_text  text = {0};

  if (!speaks || (!n && rank)) return;
  if (gethostname(host, sizeof host - 1)) strcpy(host, "?");
  if (tri_text_printf(&text, "trireme: %srank %d on %s waits in the start of MPI: ", before, rank, host) ==
          TRI_OK &&
      tri_stuck_words(stuck, n, &text) == TRI_OK && tri_text_printf(&text, "\n") == TRI_OK)
    tri_log_urgent(text.data);
  tri_text_free(&text);
}
