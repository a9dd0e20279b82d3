/* checks_net.c - checks chosen interfaces, connections between nodes, and slow links and ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/median.h"
#include "checks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the chosen interface ---- */

static tri_status put_nets(const tri_facts *f, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s", f->n_net ? "" : "none"));
  for (int i = 0; i < f->n_net; i++)
    TRI_TRY(tri_text_printf(out, "%s%s %s", i ? ", " : "", f->net[i].name, f->net[i].address));
  return TRI_OK;
}

/* UCX also names InfiniBand devices ("mlx5_0:1"). They are no interfaces. */
static bool is_judged(const tri_facts *f, int choice) {
  return choice != TRI_CHOICE_MPI_NOT && f->choice[choice][0] && strcmp(f->choice[choice], "all") &&
         (choice != TRI_CHOICE_UCX || !f->n_ib);
}

static tri_status say_absent(const tri_facts *f, int choice, tri_findings *out) {
  tri_text    have = {0};
  int         other = TRI_FACTS_UNKNOWN;
  tri_status  st = TRI_OK;
  const char *name = tri_facts_choice_name(choice);

  for (int i = 0; i < f->n_net && other < 0; i++)
    if (!f->net[i].loop) other = i;
  TRI_TRY_DONE(put_nets(f, &have));
  TRI_TRY_DONE(tri_findings_add(out, "interface", TRI_LEVEL_ERROR, "%s=%s on %s", name, f->choice[choice],
                                f->seat.host));
  out->blocks = true;
  TRI_TRY_DONE(tri_findings_say(
      out, TRI_PART_WHAT, "it names no interface that is up and has an address. There are: %s", have.data));
  if (other >= 0)
    TRI_TRY_DONE(tri_findings_say(out, TRI_PART_CURE, "export %s=%s, or unset it", name, f->net[other].name));
  else
    TRI_TRY_DONE(tri_findings_say(out, TRI_PART_CURE, "unset %s, and bring up an interface of %s", name,
                                  f->seat.host));
done:
  tri_text_free(&have);
  return st;
}

/* Reports a chosen loopback interface although there are several nodes. */
static tri_status say_loop(const tri_facts *f, int choice, int net, tri_findings *out) {
  TRI_TRY(tri_findings_add(out, "interface", TRI_LEVEL_ERROR, "%s=%s on %s", tri_facts_choice_name(choice),
                           f->choice[choice], f->seat.host));
  out->blocks = true;
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "%s has no route to other nodes", f->net[net].name));
  return tri_findings_say(out, TRI_PART_CURE, "unset %s, or name an interface that the nodes share",
                          tri_facts_choice_name(choice));
}

static tri_status check_chosen(const tri_case *c, int choice, tri_findings *out) {
  for (int n = 0; n < c->nodes; n++) {
    int first = tri_check_first_of(c, n);
    if (first < 0 || !is_judged(&c->facts[first], choice)) continue;
    const tri_facts *f = &c->facts[first];
    int              net = tri_facts_net_chosen(f, (tri_facts_choice)choice);
    if (net < 0) return say_absent(f, choice, out);
    if (f->net[net].loop && c->nodes > 1 && f->seat.locals < c->tasks) return say_loop(f, choice, net, out);
  }
  return TRI_OK;
}

/* Finds an address shared by two nodes. It belongs to a container bridge, but Open MPI tries to use it
 * between them. */
static tri_status check_doubles(const tri_case *c, tri_findings *out) {
  int a = tri_check_first_of(c, 0), b = c->nodes > 1 ? tri_check_first_of(c, 1) : -1;

  if (a < 0 || b < 0 || c->facts[a].choice[TRI_CHOICE_MPI][0] ||
      !strcmp(c->facts[a].seat.host, c->facts[b].seat.host))
    return TRI_OK;
  for (int i = 0; i < c->facts[a].n_net; i++)
    for (int k = 0; k < c->facts[b].n_net; k++) {
      const tri_facts_net *x = &c->facts[a].net[i], *y = &c->facts[b].net[k];
      if (x->loop || y->loop || strcmp(x->address, y->address)) continue;
      TRI_TRY(tri_findings_add(out, "interface", TRI_LEVEL_WARNING, "%s on %s and %s", x->name,
                               c->facts[a].seat.host, c->facts[b].seat.host));
      TRI_TRY(tri_findings_say(
          out, TRI_PART_WHAT,
          "both nodes have the address %s there. MPI and NCCL may try to use it between them", x->address));
      return tri_findings_say(out, TRI_PART_CURE,
                              "export OMPI_MCA_btl_tcp_if_exclude=lo,%s NCCL_SOCKET_IFNAME=^lo,%s", x->name,
                              x->name);
    }
  return TRI_OK;
}

tri_status tri_check_nets(const tri_case *c, tri_findings *out) {
  for (int choice = 0; choice < TRI_CHOICE_COUNT; choice++) TRI_TRY(check_chosen(c, choice, out));
  return check_doubles(c, out);
}

/* ---- reach ---- */

static const char *host_of(const tri_case *c, int node, const char *otherwise) {
  int first = node < 0 ? -1 : tri_check_first_of(c, node);

  return first < 0 ? otherwise : c->facts[first].seat.host;
}

static tri_status say_unreached(const tri_case *c, const tri_reach *r, tri_findings *out) {
  const char *from = host_of(c, r->from, "rank 0"), *to = host_of(c, r->to, r->address);

  TRI_TRY(tri_findings_add(out, "reach", TRI_LEVEL_ERROR, "%s - %s", from, to));
  out->blocks = true;
  if (r->error == TRI_REACH_LARGE) {
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                             "node %s reaches node %s on %s, but large messages do not pass", from, to,
                             r->net));
    return tri_findings_say(
        out, TRI_PART_CURE,
        "packets are larger than the network between them allows. Set the same MTU on all nodes and switches "
        "(ip link show %s)",
        r->net);
  }
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "node %s cannot reach node %s on %s (%s): %s", from, to,
                           r->net, r->address, strerror(r->error)));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "check firewall and interface. Let the nodes connect to each other on all ports (nft list ruleset, ip "
      "route get %s). Or set NCCL_SOCKET_IFNAME and OMPI_MCA_btl_tcp_if_include to an interface that reaches "
      "all nodes, or leave the node out with --exclude=%s",
      r->address, to);
}

/* A refused connection by its two ends, in any direction. */
typedef struct way {
  int low, high, number;
} way;

static int by_ends(const void *a, const void *b) {
  const way *x = a, *y = b;

  if (x->low != y->low) return x->low < y->low ? -1 : 1;
  if (x->high != y->high) return x->high < y->high ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* again [n_reach]: the opposite direction was reported already. */
static tri_status find_again(const tri_case *c, bool *again) {
  way *all = NULL;
  int  n = 0;

  TRI_TRY(TRI_ALLOC(all, c->n_reach + 1));
  for (int i = 0; i < c->n_reach; i++) {
    const tri_reach *r = &c->reach[i];
    if (r->asked && r->error && !r->beside && r->to >= 0)
      all[n++] = (way){r->from < r->to ? r->from : r->to, r->from < r->to ? r->to : r->from, i};
  }
  qsort(all, (size_t)n, sizeof *all, by_ends);
  for (int i = 1; i < n; i++)
    again[all[i].number] = all[i].low == all[i - 1].low && all[i].high == all[i - 1].high;
  TRI_FREE(all);
  return TRI_OK;
}

/* Reports at most MOST pairs, then the number of the others. */
static tri_status say_all_unreached(const tri_case *c, const bool *again, tri_findings *out) {
  enum { MOST = 8 }; /* chosen. More of them tell nothing new */
  int told = 0, n = 0;

  for (int i = 0; i < c->n_reach; i++) {
    const tri_reach *r = &c->reach[i];
    if (!r->asked || !r->error || r->beside || again[i] || (r->to < 0 && r->error == ECONNREFUSED)) continue;
    if (n++ < MOST) {
      told++;
      TRI_TRY(say_unreached(c, r, out));
    }
  }
  if (n == told) return TRI_OK;
  TRI_TRY(tri_findings_add(out, "reach", TRI_LEVEL_ERROR, "%d more pair%s of nodes", n - told,
                           n - told == 1 ? "" : "s"));
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "they cannot reach each other either"));
  return tri_findings_say(out, TRI_PART_CURE, "as above");
}

/* Returns whether an interface of this name was reported already. */
static bool is_told(const tri_case *c, int before, const char *net) {
  for (int i = 0; i < before; i++)
    if (c->reach[i].asked && c->reach[i].error && c->reach[i].beside && !strcmp(c->reach[i].net, net))
      return true;
  return false;
}

/* Reports an interface without a connection, between nodes with another working interface. MPI uses both and
 * waits. With InfiniBand MPI may use nothing else. */
static tri_status say_nowhere(const tri_case *c, const tri_reach *r, tri_findings *out) {
  int              first = tri_check_first_of(c, r->from);
  const tri_facts *f = &c->facts[first < 0 ? 0 : first];
  bool             maybe = f->n_ib > 0;
  const char      *from = host_of(c, r->from, "rank 0"), *to = host_of(c, r->to, r->address);
  const char      *before = f->choice[TRI_CHOICE_MPI_NOT];
  int              pairs = 0;

  if (!before[0]) before = strcmp(r->net, "docker0") ? "lo,docker0" : "lo";
  for (int i = 0; i < c->n_reach; i++)
    pairs += c->reach[i].asked && c->reach[i].error && c->reach[i].beside && !strcmp(c->reach[i].net, r->net);
  TRI_TRY(tri_findings_add(out, "interface", maybe ? TRI_LEVEL_WARNING : TRI_LEVEL_ERROR, "%s on %s and %s",
                           r->net, from, to));
  out->blocks = out->blocks || !maybe;
  TRI_TRY(tri_findings_say(
      out, TRI_PART_WHAT,
      "%s of node %s does not answer node %s on %s (%s), although both are up in one network. MPI uses every "
      "such interface, and hangs in MPI_Init or in the first collective. Found %d such connection%s",
      r->address, to, from, r->net, r->error == TRI_REACH_LARGE ? "large messages" : strerror(r->error),
      pairs, pairs == 1 ? "" : "s"));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "export OMPI_MCA_btl_tcp_if_exclude=%s,%s%s%s%s%s NCCL_SOCKET_IFNAME=^lo,docker,%s, or take the "
      "interface down",
      before, r->net, strcmp(c->launch->kind, "mpirun") ? "" : " OMPI_MCA_oob_tcp_if_exclude=",
      strcmp(c->launch->kind, "mpirun") ? "" : before, strcmp(c->launch->kind, "mpirun") ? "" : ",",
      strcmp(c->launch->kind, "mpirun") ? "" : r->net, r->net);
}

static tri_status say_all_nowhere(const tri_case *c, tri_findings *out) {
  for (int i = 0; i < c->n_reach; i++) {
    const tri_reach *r = &c->reach[i];
    if (r->asked && r->error && r->beside && !is_told(c, i, r->net)) TRI_TRY(say_nowhere(c, r, out));
  }
  return TRI_OK;
}

tri_status tri_check_reach(const tri_case *c, tri_findings *out) {
  bool      *again = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(again, c->n_reach + 1));
  TRI_TRY_DONE(find_again(c, again));
  TRI_TRY_DONE(say_all_unreached(c, again, out));
  TRI_TRY_DONE(say_all_nowhere(c, out));
done:
  TRI_FREE(again);
  return st;
}

/* ---- slow links and ranks ---- */

/* Sets the median of the values above 0. 0: there is none. */
static tri_status median_of(const double *x, int n, double *out) {
  double *sorted = NULL;
  int     m = 0;

  TRI_TRY(TRI_ALLOC(sorted, n));
  for (int i = 0; i < n; i++)
    if (x[i] > 0) sorted[m++] = x[i];
  *out = tri_median(sorted, m, 0);
  TRI_FREE(sorted);
  return TRI_OK;
}

/* Returns the speed of the slower interface of a pair in bytes/s. 0: the system does not report it. */
static double named_rate(const tri_case *c, const tri_rate *r, const char **net) {
  double least = 0;

  for (int i = 0; i < 2; i++) {
    int first = tri_check_first_of(c, i ? r->to : r->from), k;
    if (first < 0) return 0;
    k = tri_facts_net_chosen(&c->facts[first], TRI_CHOICE_MPI);
    if (k < 0 || c->facts[first].net[k].mbit <= 0) return 0;
    double rate = c->facts[first].net[k].mbit * 1e6 / 8;
    if (!i || rate < least) least = rate;
    *net = c->facts[first].net[k].name;
  }
  return least;
}

/* Chosen. One TCP connection reaches a tenth of any interface's speed. Equal links differ by less than a
 * factor of three. */
static const double far_below_named = 0.1, far_below_others = 1.0 / 3;

static tri_status check_link(const tri_case *c, const tri_rate *r, double median, tri_findings *out) {
  const char *net = "";
  double      named = named_rate(c, r, &net);
  bool        others = r->bytes_per_s < far_below_others * median;

  if (!others && r->bytes_per_s >= far_below_named * named) return TRI_OK;
  TRI_TRY(tri_findings_add(out, "link", TRI_LEVEL_WARNING, "%s", r->scope));
  if (others)
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                             "%.3g MB/s between them, but the median of all pairs is %.3g MB/s",
                             r->bytes_per_s / 1e6, median / 1e6));
  else
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "%.3g MB/s between them, but %s reports %.3g MB/s",
                             r->bytes_per_s / 1e6, net, named / 1e6));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "check cables, ports and traffic shaping of both (ethtool, tc qdisc show), other traffic, and the "
      "chosen interface (OMPI_MCA_btl_tcp_if_include, NCCL_SOCKET_IFNAME), or leave one out with --exclude");
}

/* ---- latency ---- */

/* Kinds of links. should_s is the published time of a small message one way (measurements of Open MPI and
 * UCX). most_s is chosen, at least ten times as long, so busy cores and long cables pass. */
static const struct link_kind {
  const char *name;
  double      should_s, most_s;
  const char *cure;
} kinds[] = {
    {"shared memory", 1e-6, 2e-4,
     "messages within a node should use shared memory. Unset OMPI_MCA_btl, or add sm and vader to it, "
     "enlarge /dev/shm, and check for other programs on the cores (top)"},
    {"InfiniBand", 2e-6, 2.5e-5,
     "MPI seems to use TCP. Use an MPI with UCX (ompi_info | grep ucx), export OMPI_MCA_pml=ucx, and set "
     "UCX_NET_DEVICES to the fabric or unset it"},
    {"Ethernet", 3e-5, 5e-4,
     "check the chosen interface (OMPI_MCA_btl_tcp_if_include), switches and routes between the nodes, "
     "interrupt coalescing (ethtool -c) and power saving of the cores (cpupower idle-info)"}};
enum { MEMORY, INFINIBAND, ETHERNET };

/* Chosen. Pairs of a cluster differ by the hops of switches, some microseconds each. */
static const double latency_above_others = 4, latency_beside_others_s = 2e-5;

/* Returns -1 if the ranks share cores, because a message then waits for a core. */
static int kind_of_pair(const tri_case *c, const tri_rate *r) {
  int a = tri_check_first_of(c, r->from), b = tri_check_first_of(c, r->to);

  if (a < 0 || b < 0 || tri_check_shares_cores(c, r->from) || tri_check_shares_cores(c, r->to)) return -1;
  if (!strcmp(c->facts[a].seat.host, c->facts[b].seat.host)) return MEMORY; /* pretended nodes */
  return c->facts[a].n_ib && c->facts[b].n_ib ? INFINIBAND : ETHERNET;
}

static int kind_of_scope(const tri_case *c, const tri_rate *r) {
  if (strcmp(r->scope, "node")) return -1;
  for (int n = 0; n < c->nodes; n++)
    if (tri_check_shares_cores(c, n)) return -1;
  for (int t = 0; t < c->tasks; t++) /* a GPU's collective includes the start of a kernel */
    if (c->facts[t].gpu.uuid[0]) return -1;
  return MEMORY;
}

/* median: of all pairs. 0: there are too few. */
static tri_status check_latency(const tri_case *c, const tri_rate *r, double median, tri_findings *out) {
  int  kind = r->from >= 0 ? kind_of_pair(c, r) : kind_of_scope(c, r);
  bool others = r->from >= 0 && median > 0 && r->latency_s > latency_above_others * median &&
                r->latency_s > median + latency_beside_others_s;

  if (kind < 0 || r->latency_s <= 0 || (!others && r->latency_s <= kinds[kind].most_s)) return TRI_OK;
  TRI_TRY(tri_findings_add(out, "latency", TRI_LEVEL_WARNING, "%s", r->scope));
  if (r->latency_s > kinds[kind].most_s)
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                             "a small message takes %.3g us. On %s about %.3g us are usual",
                             r->latency_s * 1e6, kinds[kind].name, kinds[kind].should_s * 1e6));
  else
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                             "a small message takes %.3g us, but the median of all pairs is %.3g us",
                             r->latency_s * 1e6, median * 1e6));
  return tri_findings_say(out, TRI_PART_CURE, "%s", kinds[kind].cure);
}

static tri_status check_latencies(const tri_case *c, const tri_rate *rate, int n, double *x,
                                  tri_findings *out) {
  double median = 0;
  int    pairs = 0;

  for (int i = 0; i < n; i++)
    if (rate[i].from >= 0) x[pairs++] = rate[i].latency_s;
  if (pairs > 2) TRI_TRY(median_of(x, pairs, &median));
  for (int i = 0; i < n; i++) TRI_TRY(check_latency(c, &rate[i], median, out));
  return TRI_OK;
}

tri_status tri_check_links(const tri_case *c, const tri_rate *rate, int n, tri_findings *out) {
  double    *x = NULL, median = 0;
  int        pairs = 0;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(x, n + 1));
  for (int i = 0; i < n; i++)
    if (rate[i].from >= 0) x[pairs++] = rate[i].bytes_per_s;
  if (pairs > 2) TRI_TRY_DONE(median_of(x, pairs, &median));
  for (int i = 0; i < n; i++)
    if (rate[i].from >= 0 && rate[i].bytes_per_s > 0) TRI_TRY_DONE(check_link(c, &rate[i], median, out));
  TRI_TRY_DONE(check_latencies(c, rate, n, x, out));
done:
  TRI_FREE(x);
  return st;
}

tri_status tri_check_speeds(const tri_case *c, const double *x, tri_findings *out) {
  double median;
  char   number[TRI_CHECK_NUMBER_BYTES];

  if (c->tasks < 3) return TRI_OK;
  for (int n = 0; n < c->nodes; n++) /* ranks on shared cores take turns, so their speeds say nothing */
    if (tri_check_shares_cores(c, n)) return TRI_OK;
  TRI_TRY(median_of(x, c->tasks, &median));
  for (int t = 0; t < c->tasks; t++) {
    if (x[t] <= 0 || x[t] >= 0.5 * median) continue; /* chosen. One slow rank then costs half of a step */
    TRI_TRY(tri_findings_add(out, "speed", TRI_LEVEL_WARNING, "rank %s on %s",
                             tri_check_number(&c->facts[t].seat, number), c->facts[t].seat.host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                             "its products run at %.3g Gflop/s, but the median of all is %.3g", x[t] / 1e9,
                             median / 1e9));
    TRI_TRY(tri_findings_say(
        out, TRI_PART_CURE,
        "check for other programs there, its clocks and temperature (nvidia-smi -q -d PERFORMANCE, top) and "
        "its cores, or leave the node out with --exclude=%s",
        c->facts[t].seat.host));
  }
  return TRI_OK;
}

/* With its tree fence, the default, Slurm 22.05 lets ranks pass before those of other nodes have come. This
 * was observed. */
tri_status tri_check_fence(const tri_case *c, tri_findings *out) {
  if (!c->fence || !c->fence[0] || !strcmp(c->fence, "ring") || c->nodes < 2) return TRI_OK;
  TRI_TRY(tri_findings_add(out, "fence", TRI_LEVEL_WARNING, "PMIxCollFence of Slurm"));
  TRI_TRY(tri_findings_say(
      out, TRI_PART_WHAT,
      "it is %s. Ranks may pass it before those of other nodes have come, and sometimes one dies in MPI_Init",
      c->fence));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "export SLURM_PMIX_FENCE=ring before srun (jobs/train.sbatch does), or set PMIxCollFence=ring in "
      "mpi.conf");
}

tri_status tri_check_all(const tri_case *c, tri_findings *out) {
  TRI_TRY(tri_check_seats(c, out));
  TRI_TRY(tri_check_reach(c, out));
  TRI_TRY(tri_check_nets(c, out));
  TRI_TRY(tri_check_fence(c, out));
  TRI_TRY(tri_check_versions(c, out));
  TRI_TRY(tri_check_devices(c, out));
  TRI_TRY(tri_check_limits(c, out));
  return tri_check_clocks(c, out);
}
