/* rendezvous_reach.c - tests connections between all nodes at once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "probe.h"
#include "tools/doctor/names.h"
#include "rendezvous_impl.h"

#include <stdio.h>
#include <string.h>

enum { ALL_PAIRS_NODES = 64, ADDRESSES = 8 }; /* chosen. ADDRESSES: most addresses tried per node */

/* State of the test. */
typedef struct search {
  tri_rendezvous *m;
  const tri_case *c;
  int            *first; /* [nodes] task of each node's first rank. -1: none came */
  tri_reach      *item;  /* [n] */
  int64_t         n, cap;
} search;

/* The targets of one node. */
typedef struct reach {
  tri_target *target; /* [n] owned. Targets on one node are neighbours */
  int64_t     n, cap;
  bool        sent;
} reach;

/* ---- targets of a node ---- */

/* Returns the interface set for MPI, else for NCCL. TRI_FACTS_UNKNOWN: none is set. */
static int chosen_net(const tri_facts *f) {
  static const tri_facts_choice order[] = {TRI_CHOICE_MPI, TRI_CHOICE_NCCL};

  for (int i = 0; i < 2; i++)
    if (f->choice[order[i]][0] && tri_facts_net_chosen(f, order[i]) >= 0)
      return tri_facts_net_chosen(f, order[i]);
  return TRI_FACTS_UNKNOWN;
}

static bool has_address(const tri_facts *f, const char *address) {
  for (int i = 0; i < f->n_net; i++)
    if (!strcmp(f->net[i].address, address)) return true;
  return false;
}

/* Returns whether `from` may use this address of `to`. Only the chosen interface counts, if there is one.
 * Otherwise loopback addresses and addresses of `from` itself are excluded. Container bridges have the same
 * address everywhere. */
static bool is_way(const tri_facts *from, const tri_facts *to, int net) {
  int chosen = chosen_net(to);

  return !to->net[net].loop && (chosen < 0 || chosen == net) && !has_address(from, to->net[net].address);
}

static tri_status add_targets(const tri_facts *from, const tri_facts *to, int node, reach *p) {
  int chosen = chosen_net(from);

  for (int i = 0, ways = 0; i < to->n_net && ways < ADDRESSES; i++) {
    const tri_facts_net *beside = tri_facts_net_beside(from, to->net[i].address);
    if (!is_way(from, to, i)) continue;
    ways++;
    TRI_TRY(TRI_GROW(p->target, p->cap, p->n + 1));
    tri_target *x = &p->target[p->n++];
    *x = (tri_target){.node = node, .port = to->seat.port};
    snprintf(x->host, sizeof x->host, "%s", to->net[i].address);
    if (chosen >= 0)
      snprintf(x->from, sizeof x->from, "%s", from->net[chosen].address);
    else if (beside && tri_facts_net_of_mpi(to, &to->net[i]))
      snprintf(x->from, sizeof x->from, "%s", beside->address);
  }
  return TRI_OK;
}

static bool is_neighbour(int nodes, int i, int k) {
  int d = k > i ? k - i : k - i + nodes;

  return i != k && (nodes <= ALL_PAIRS_NODES || !(d & (d - 1)) || !((nodes - d) & (nodes - d - 1)));
}

static tri_status list_targets(const search *s, int node, reach *p) {
  const tri_facts *from = &s->c->facts[s->first[node]], *to;

  for (int k = 0; k < s->c->nodes; k++) {
    if (!is_neighbour(s->c->nodes, node, k) || s->first[k] < 0) continue;
    to = &s->c->facts[s->first[k]];
    if (to->seat.port && strcmp(to->seat.host, from->seat.host)) TRI_TRY(add_targets(from, to, k, p));
  }
  return TRI_OK;
}

/* ---- results ---- */

static tri_status add_item(search *s, const tri_reach *item, const char *net, const char *address) {
  TRI_TRY(TRI_GROW(s->item, s->cap, s->n + 1));
  tri_reach *x = &s->item[s->n++];
  *x = *item;
  snprintf(x->net, sizeof x->net, "%s", net);
  snprintf(x->address, sizeof x->address, "%.47s", address);
  return TRI_OK;
}

static const char *net_of(const tri_facts *f, const char *address, const char *otherwise) {
  for (int i = 0; i < f->n_net; i++)
    if (!strcmp(f->net[i].address, address)) return f->net[i].name;
  return otherwise;
}

/* Adds one result per node, reached if one of its addresses answers. A failure is reported with the first
 * address. A reached node gets a further result for each silent address between interfaces of one network,
 * because MPI would use that address too. */
static tri_status add_results(search *s, int from, const reach *p, const int32_t *error) {
  const tri_facts *f = &s->c->facts[from < 0 ? 0 : s->first[from]];
  int              net = chosen_net(f);
  const char      *name;

  if (net < 0) net = tri_facts_net_chosen(f, TRI_CHOICE_MPI);
  name = net < 0 ? "its network" : f->net[net].name;
  for (int64_t i = 0, end; i < p->n; i = end) {
    tri_reach item = {
        .from = from < 0 ? f->seat.node : from, .to = p->target[i].node, .asked = true, .error = error[i]};
    for (end = i + 1; end < p->n && item.to >= 0 && p->target[end].node == item.to; end++)
      if (!error[end]) item.error = 0;
    TRI_TRY(add_item(s, &item, name, p->target[i].host));
    for (int64_t k = i; !item.error && k < end; k++) {
      tri_reach one = item;
      if (!error[k] || !p->target[k].from[0]) continue;
      one.error = error[k];
      one.beside = true;
      TRI_TRY(add_item(s, &one, net_of(f, p->target[k].from, name), p->target[k].host));
    }
  }
  return TRI_OK;
}

/* Tests rank 0's own targets. from -1: nodes without any rank so far. */
static tri_status probe(search *s, int from, const reach *p) {
  int32_t   *error = NULL;
  tri_status st = TRI_OK;

  if (!p->n) return TRI_OK;
  TRI_TRY_DONE(TRI_ALLOC(error, p->n));
  TRI_TRY_DONE(
      tri_probe(s->m->trust.secret.key, 0, p->target, (int)p->n, tri_rendezvous_probe_s(s->m), error));
  TRI_TRY_DONE(add_results(s, from, p, error));
done:
  TRI_FREE(error);
  return st;
}

/* Tests nodes of the launcher's list without any rank so far, by name. */
static tri_status reach_silent(search *s) {
  const tri_launch *l = s->m->launch;
  reach             p = {0};
  tri_named        *came = NULL; /* [tasks] hosts, sorted */
  int               n = 0;
  tri_status        st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(came, s->c->tasks));
  for (int t = 0; t < s->c->tasks; t++)
    if (s->c->facts[t].seat.host[0]) came[n++] = (tri_named){s->c->facts[t].seat.host, t};
  tri_names_sort(came, n);
  for (int i = 0; i < l->n_node; i++) {
    if (i == tri_launch_node_of(l, 0) || strlen(l->node[i]) >= sizeof p.target->host) continue;
    if (tri_names_find(came, n, l->node[i]) >= 0) continue;
    TRI_TRY_DONE(TRI_GROW(p.target, p.cap, p.n + 1));
    tri_target *x = &p.target[p.n++];
    *x = (tri_target){.node = -1, .port = l->port};
    strcpy(x->host, l->node[i]);
  }
  TRI_TRY_DONE(probe(s, -1, &p));
done:
  TRI_FREE(came);
  TRI_FREE(p.target);
  return st;
}

static tri_status collect(search *s, int node, const reach *p, double until_s) {
  tri_channel_in in = {0};
  double         when_s;
  tri_status     st = TRI_OK;

  if (!p->sent) return TRI_OK;
  if (tri_rendezvous_answer(s->m, s->first[node], TRI_CHANNEL_REACH, until_s, &in, &when_s) &&
      in.head.bytes == (size_t)p->n * sizeof(int32_t))
    st = add_results(s, node, p, (const int32_t *)(const void *)in.bytes);
  tri_channel_drop(&in);
  return st;
}

/* Asks all nodes, tests rank 0's own targets, then collects the answers. */
static tri_status reach_all(search *s, reach *p) {
  double until_s;

  for (int i = 0; i < s->c->nodes; i++) {
    if (s->first[i] < 0) continue;
    TRI_TRY(list_targets(s, i, &p[i]));
    if (s->first[i] > 0 && p[i].n)
      p[i].sent = tri_rendezvous_send(s->m, s->first[i], TRI_CHANNEL_REACH, p[i].target,
                                      (size_t)p[i].n * sizeof *p[i].target);
  }
  until_s = tri_now_s() + (TRI_PROBE_PARTS + 1) * tri_rendezvous_probe_s(s->m); /* and the way back */
  for (int i = 0; i < s->c->nodes; i++)
    if (s->first[i] == 0) TRI_TRY(probe(s, i, &p[i]));
  for (int i = 0; i < s->c->nodes; i++) TRI_TRY(collect(s, i, &p[i], until_s));
  return TRI_OK;
}

tri_status tri_rendezvous_reach(tri_rendezvous *m, const tri_case *c, tri_reach **out, int *n) {
  search     s = {.m = m, .c = c};
  reach     *p = NULL;
  bool       all = true;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(s.first, c->nodes + 1));
  TRI_TRY_DONE(TRI_ALLOC(p, c->nodes + 1));
  for (int i = 0; i < c->nodes; i++) s.first[i] = -1;
  for (int t = c->tasks - 1; t >= 0; t--) {
    if (c->facts[t].seat.host[0]) s.first[c->facts[t].seat.node] = t;
    all = all && c->facts[t].seat.host[0];
  }
  if (!all) TRI_TRY_DONE(reach_silent(&s));
  TRI_TRY_DONE(reach_all(&s, p));
  *out = s.item;
  *n = (int)s.n;
  s.item = NULL;
done:
  for (int i = 0; p && i < c->nodes; i++) TRI_FREE(p[i].target);
  TRI_FREE(p);
  TRI_FREE(s.first);
  TRI_FREE(s.item);
  return st;
}
