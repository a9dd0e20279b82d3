/* doctor_facts.c - checks and numbers the facts of ranks, and finds the interface named by a variable. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor_facts.h"
#include "base/host_memory.h"
#include "names.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRI_X(name, text) text,
static const char *const version_name[] = {TRI_FACTS_VERSION_LIST(TRI_X)};
static const char *const choice_name[] = {TRI_FACTS_CHOICE_LIST(TRI_X)};
#undef TRI_X

const char *tri_facts_version_name(int version) { return version_name[version]; }
const char *tri_facts_choice_name(int choice) { return choice_name[choice]; }

/* Terminates a text and replaces everything except printable ASCII. */
static void clean(char *text, size_t bytes) {
  text[bytes - 1] = '\0';
  for (; *text; text++)
    if (*text < ' ' || *text > '~') *text = '?';
}
#define CLEAN(text) clean(text, sizeof(text))

bool tri_facts_check(tri_facts *f, size_t bytes, int tasks) {
  if (bytes != sizeof *f) return false;
  CLEAN(f->seat.host);
  CLEAN(f->gpu.uuid);
  CLEAN(f->gpu.model);
  CLEAN(f->gpu.bus);
  CLEAN(f->gpu.nic);
  for (int i = 0; i < TRI_FACTS_NETS; i++) {
    CLEAN(f->net[i].name);
    CLEAN(f->net[i].address);
  }
  for (int i = 0; i < TRI_VERSION_COUNT; i++) CLEAN(f->version[i]);
  for (int i = 0; i < TRI_CHOICE_COUNT; i++) CLEAN(f->choice[i]);
  return f->seat.host[0] && f->seat.tasks == tasks && f->seat.task >= 0 && f->seat.task < tasks &&
         f->seat.local >= 0 && f->seat.locals > f->seat.local && f->seat.locals <= tasks && f->n_net >= 0 &&
         f->seat.port >= 0 && f->seat.port < 65536 && f->n_net <= TRI_FACTS_NETS && f->cores.online > 0 &&
         f->cores.mine > 0;
}

/* leader [n]: the lowest task on the same host. */
static tri_status find_leaders(const tri_facts *f, int n, int *leader) {
  tri_named *host = NULL;
  int        m = 0;

  TRI_TRY(TRI_ALLOC(host, n));
  for (int t = 0; t < n; t++)
    if (f[t].seat.host[0]) host[m++] = (tri_named){f[t].seat.host, t};
  tri_names_sort(host, m);
  for (int i = 0; i < m; i++)
    leader[host[i].number] =
        i && !strcmp(host[i].name, host[i - 1].name) ? leader[host[i - 1].number] : host[i].number;
  TRI_FREE(host);
  return TRI_OK;
}

tri_status tri_facts_number(tri_facts *f, int n, int ranks_per_node, bool *even, int *nodes) {
  int       *leader = NULL, *count = NULL; /* [n] leader of each task, and ranks so far of each node */
  tri_status st = TRI_OK;

  *nodes = 0;
  *even = true;
  TRI_TRY_DONE(TRI_ALLOC(leader, n));
  TRI_TRY_DONE(TRI_ALLOC(count, n));
  TRI_TRY_DONE(find_leaders(f, n, leader));
  for (int i = 0; i < n; i++) {
    tri_facts_seat *s = &f[i].seat;
    if (!s->host[0]) continue;
    s->node = ranks_per_node > 0 ? i / ranks_per_node : leader[i] == i ? *nodes : f[leader[i]].seat.node;
    if (s->node >= *nodes) *nodes = s->node + 1;
    s->rank = count[s->node]++; /* among the ranks of its node, for now */
  }
  for (int k = 1; k < *nodes; k++) *even = *even && count[k] == count[0];
  for (int i = 0; i < n; i++)
    if (f[i].seat.host[0]) f[i].seat.rank = *even ? f[i].seat.rank * *nodes + f[i].seat.node : i;
done:
  TRI_FREE(leader);
  TRI_FREE(count);
  return st;
}

/* Writes the bits of an address, the most significant first, and returns their number. 0: it is no
 * address. */
static int get_bits(const char *text, unsigned char out[16]) {
  if (inet_pton(AF_INET, text, out) == 1) return 32;
  return inet_pton(AF_INET6, text, out) == 1 ? 128 : 0;
}

/* Returns whether the address is in a network such as "10.79.0.0/24". */
static bool in_network(const char *network, const char *address) {
  unsigned char a[16], b[16];
  char          text[TRI_FACTS_ADDRESS_BYTES];
  size_t        n = strcspn(network, "/");
  long          bits;
  int           width;

  if (n >= sizeof text || network[n] != '/') return false;
  memcpy(text, network, n);
  text[n] = '\0';
  bits = strtol(network + n + 1, NULL, 10);
  width = get_bits(text, a);
  if (!width || width != get_bits(address, b) || bits < 0 || bits > width) return false;
  for (int i = 0; i < bits; i++)
    if ((a[i / 8] ^ b[i / 8]) & (0x80 >> i % 8)) return false;
  return true;
}

/* Matches one item of a list against an interface. NCCL documents prefixes, and "=" for whole names
 * (docs.nvidia.com, NCCL_SOCKET_IFNAME). The others expect names, UCX perhaps with ":port". */
static bool item_matches(const char *item, size_t n, tri_facts_choice choice, bool whole,
                         const tri_facts_net *net) {
  char text[TRI_FACTS_NAME_BYTES];

  if (choice != TRI_CHOICE_NCCL) n = strcspn(item, ",") < n ? strcspn(item, ",") : n;
  if (choice == TRI_CHOICE_UCX && memchr(item, ':', n)) n = (size_t)((char *)memchr(item, ':', n) - item);
  if (!n || n >= sizeof text) return false;
  memcpy(text, item, n);
  text[n] = '\0';
  if (strchr(text, '/')) return in_network(text, net->address);
  return choice == TRI_CHOICE_NCCL && !whole ? !strncmp(net->name, text, n) : !strcmp(net->name, text);
}

bool tri_facts_net_matches(const char *pattern, tri_facts_choice choice, const tri_facts_net *net) {
  bool but = choice == TRI_CHOICE_NCCL && pattern[0] == '^', whole, any = false;

  pattern += but;
  whole = choice == TRI_CHOICE_NCCL && pattern[0] == '=';
  pattern += whole;
  while (*pattern) {
    size_t n = strcspn(pattern, ",");
    any = any || item_matches(pattern, n, choice, whole, net);
    pattern += n + (pattern[n] == ',');
  }
  return any != but;
}

bool tri_facts_net_of_mpi(const tri_facts *f, const tri_facts_net *net) {
  const char *only = f->choice[TRI_CHOICE_MPI], *but = f->choice[TRI_CHOICE_MPI_NOT];

  if (net->loop || strchr(net->address, ':')) return false;
  return only[0] ? tri_facts_net_matches(only, TRI_CHOICE_MPI, net)
                 : !tri_facts_net_matches(but, TRI_CHOICE_MPI_NOT, net);
}

const tri_facts_net *tri_facts_net_beside(const tri_facts *from, const char *address) {
  char                 network[TRI_FACTS_ADDRESS_BYTES + 16];
  const tri_facts_net *found = NULL;

  for (int i = 0; i < from->n_net; i++) {
    if (!strcmp(from->net[i].address, address)) return NULL;
    snprintf(network, sizeof network, "%s/%d", from->net[i].address, (int)from->net[i].prefix);
    if (!found && tri_facts_net_of_mpi(from, &from->net[i]) && in_network(network, address))
      found = &from->net[i];
  }
  return found;
}

int tri_facts_net_chosen(const tri_facts *f, tri_facts_choice choice) {
  const char *pattern = f->choice[choice];

  for (int i = 0; i < f->n_net; i++)
    if (pattern[0] ? tri_facts_net_matches(pattern, choice, &f->net[i]) : !f->net[i].loop) return i;
  return pattern[0] || !f->n_net ? TRI_FACTS_UNKNOWN : 0;
}
