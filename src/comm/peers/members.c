/* members.c - the member table: all ranks as seen by one of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "members.h"
#include "base/host_memory.h"
#include "proc_state.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Orders the groups by their first ranks. Rank 0's group is the first. */
static void make_groups(tri_members *r) {
  for (int q = 0; q < r->n; q++) {
    int first = r->info[q].group;
    if (first == q) r->group_of[q] = r->n_groups++;
    r->group_of[q] = r->group_of[first];
    r->group[r->group_of[q]].n++;
  }
  for (int g = 0, at = 0; g < r->n_groups; g++) {
    r->group[g].member = r->members + at;
    at += r->group[g].n;
    r->group[g].n = 0;
  }
  for (int q = 0; q < r->n; q++) {
    tri_group *g = &r->group[r->group_of[q]];
    g->member[g->n++] = q;
  }
}

/* Checks each rank's group number. It is the lowest rank of the group and a member of it. */
static tri_status check_infos(const tri_rank_info *info, int n) {
  for (int q = 0; q < n; q++)
    if (info[q].rank != q || info[q].group < 0 || info[q].group > q ||
        info[info[q].group].group != info[q].group)
      TRI_FAIL(TRI_EINTERNAL, "the rank info at index %d is of rank %d and group %d", q, (int)info[q].rank,
               (int)info[q].group);
  return TRI_OK;
}

/* True if process numbers mean the same to both ranks. */
static bool sees(const tri_members *r, int rank) {
  const tri_rank_info *c = &r->info[rank], *me = &r->info[r->rank];

  return rank != r->rank && me->pid_space && c->pid_space == me->pid_space && c->pid > 0;
}

/* Looks the groups up while the processes live. The kernel does not tell the group of a dead process. */
static void find_kills(tri_members *r) {
  const tri_group *g = &r->group[r->mine];

  for (int i = 0; i < g->n; i++)
    if (sees(r, g->member[i]) && tri_memory_kills_find("", (int)r->info[g->member[i]].pid, r->kills[i].file))
      r->kills[i].before = tri_memory_kills_count(r->kills[i].file);
}

tri_status tri_members_open(const tri_rank_info *info, int n, int rank, tri_node *node, int place,
                            tri_members **out) {
  tri_members *r = NULL;
  tri_status   st = TRI_OK;

  *out = NULL;
  TRI_TRY_DONE(check_infos(info, n));
  TRI_TRY_DONE(TRI_ALLOC(r, 1));
  TRI_TRY_DONE(TRI_ALLOC(r->info, n));
  TRI_TRY_DONE(TRI_ALLOC(r->seen, n));
  TRI_TRY_DONE(TRI_ALLOC(r->sequence, n));
  TRI_TRY_DONE(TRI_ALLOC(r->group_of, n));
  TRI_TRY_DONE(TRI_ALLOC(r->members, n));
  TRI_TRY_DONE(TRI_ALLOC(r->group, n));
  r->n = n, r->rank = rank, r->place = place;
  memcpy(r->info, info, (size_t)n * sizeof *info);
  make_groups(r);
  r->mine = r->group_of[rank];
  TRI_TRY_DONE(TRI_ALLOC(r->count, r->group[r->mine].n));
  TRI_TRY_DONE(TRI_ALLOC(r->moved_s, r->group[r->mine].n));
  TRI_TRY_DONE(TRI_ALLOC(r->kills, r->group[r->mine].n));
  find_kills(r);
  TRI_TRY_DONE(TRI_ALLOC(r->asked_s, r->group[r->mine].n));
  r->node = node;
  node = NULL;
  *out = r;
  r = NULL;
done:
  tri_node_close(&node);
  tri_members_close(&r);
  return st;
}

void tri_members_begin(tri_members *r, double now_s) {
  for (int q = 0; q < r->n; q++)
    r->seen[q] = (tri_seen){.heartbeat = {.rank = q, .scope = TRI_RANK_STATUS_NOWHERE},
                            .news_s = now_s,
                            .came_s = now_s,
                            .dead_s = -1};
  for (int g = 0; g < r->n_groups; g++) r->group[g].heard_s = now_s;
  for (int i = 0; i < r->group[r->mine].n; i++) {
    r->moved_s[i] = now_s;
    r->asked_s[i] = -1;
  }
}

void tri_members_close(tri_members **r) {
  if (!*r) return;
  tri_node_close(&(*r)->node);
  TRI_FREE((*r)->info);
  TRI_FREE((*r)->seen);
  TRI_FREE((*r)->sequence);
  TRI_FREE((*r)->group_of);
  TRI_FREE((*r)->members);
  TRI_FREE((*r)->group);
  TRI_FREE((*r)->count);
  TRI_FREE((*r)->moved_s);
  TRI_FREE((*r)->kills);
  TRI_FREE((*r)->asked_s);
  TRI_FREE(*r);
}

/* ---- this machine ---- */

static bool is_gone(const tri_members *r, int rank) {
  return sees(r, rank) && kill((pid_t)r->info[rank].pid, 0) && errno == ESRCH;
}

/* Checks the process of an overdue heartbeat. True: it has died in a way hidden from kill(). If it only waits
 * for a core, this counts as a sign of life. */
static bool ask_process(tri_members *r, int place, double now_s) {
  int                  rank = r->group[r->mine].member[place];
  const tri_rank_info *c = &r->info[rank];
  tri_proc_state       state = sees(r, rank) ? tri_proc_look(c->pid, c->start) : TRI_PROC_UNKNOWN;

  if (state == TRI_PROC_RUNS) r->seen[rank].news_s = r->asked_s[place] = now_s;
  return state == TRI_PROC_GONE;
}

/* Tests the member at this place. */
static bool is_starved(const tri_members *r, int place) {
  const tri_kills *k = &r->kills[place];

  return k->file[0] && tri_memory_kills_count(k->file) > k->before;
}

/* A rank stopped in the middle of a write leaves a mixture of old and new values. */
static bool is_sound(const tri_heartbeat *b, int rank) {
  return b->rank == rank && (unsigned)b->life < TRI_LIFE_COUNT &&
         (b->scope == TRI_RANK_STATUS_NOWHERE || tri_rank_status_scope(b->scope)) && b->come.n >= 0 &&
         b->come.n <= TRI_RANK_STATUS_MOST;
}

bool tri_members_look(tri_members *r, double now_s, double overdue_s) {
  const tri_group *g = &r->group[r->mine];
  bool             news = false;

  for (int i = 0; i < g->n; i++) {
    tri_seen     *s = &r->seen[g->member[i]];
    tri_heartbeat b;
    uint64_t      count = tri_node_get(r->node, i, &b);
    if (count != r->count[i]) r->moved_s[i] = now_s;
    if (count && is_sound(&b, g->member[i])) tri_peers_hear(s, &b, now_s);
    if (count != r->count[i]) s->news_s = now_s;
    s->heartbeat.silent_s = now_s - s->news_s;
    r->count[i] = count;
    if (!s->known || s->dead_s >= 0 || s->heartbeat.life != TRI_LIFE_WORKS) continue;
    if (!is_gone(r, g->member[i]) && (s->heartbeat.silent_s < overdue_s || !ask_process(r, i, now_s)))
      continue;
    s->dead_s = now_s;
    s->starved = is_starved(r, i);
    news = true;
  }
  return news;
}

int tri_members_overdue(const tri_members *r, double now_s, double silent_s) {
  const tri_group *g = &r->group[r->mine];

  for (int i = 0; i < g->n; i++) {
    const tri_seen *s = &r->seen[g->member[i]];
    if (s->known && s->heartbeat.life == TRI_LIFE_WORKS && s->dead_s < 0 &&
        now_s - r->moved_s[i] >= silent_s && r->asked_s[i] > r->moved_s[i] &&
        now_s - r->asked_s[i] < silent_s)
      return g->member[i];
  }
  return TRI_RANK_INFO_NOTHING;
}

bool tri_members_speaks(const tri_members *r, double now_s, double fresh_s) {
  const tri_group *g = &r->group[r->mine];

  for (int i = 0; i < r->place; i++) {
    const tri_seen *s = &r->seen[g->member[i]];
    if (s->known && s->heartbeat.life == TRI_LIFE_WORKS && s->dead_s < 0 && now_s - r->moved_s[i] < fresh_s)
      return false;
  }
  return true;
}

void tri_members_fill(const tri_members *r, int *next, tri_wire *out) {
  const tri_group *g = &r->group[r->mine];

  for (out->n = 0; *next < g->n && out->n < TRI_WIRE_HEARTBEATS; ++*next) {
    const tri_seen *s = &r->seen[g->member[*next]];
    if (!s->known) continue;
    out->heartbeat[out->n] = s->heartbeat;
    if (s->dead_s >= 0 && s->heartbeat.life == TRI_LIFE_WORKS)
      out->heartbeat[out->n].life = s->starved ? TRI_LIFE_STARVED : TRI_LIFE_DEAD;
    out->n++;
  }
}

/* ---- the others ---- */

static void take_heartbeat(tri_members *r, const tri_heartbeat *b, double now_s) {
  tri_seen *s = &r->seen[b->rank];

  tri_peers_hear(s, b, now_s);
  if (now_s - b->silent_s > s->news_s) s->news_s = now_s - b->silent_s;
  if (b->life != TRI_LIFE_DEAD && b->life != TRI_LIFE_STARVED) return;
  s->starved = b->life == TRI_LIFE_STARVED;
  s->heartbeat.life = TRI_LIFE_WORKS; /* its last state when alive. dead_s records the death */
  if (s->dead_s < 0) s->dead_s = now_s;
}

bool tri_members_take(tri_members *r, const tri_wire *in, const tri_net_end *from, double now_s) {
  int        its = r->group_of[in->sender];
  tri_group *g = &r->group[its];

  if (its == r->mine || in->sequence <= r->sequence[in->sender]) return false;
  if (in->kind == TRI_WIRE_REPORT ? r->mine != 0 : in->kind == TRI_WIRE_HEARD && its != 0) return false;
  for (int i = 0; i < in->n; i++)
    if (r->group_of[in->heartbeat[i].rank] != its) return false;
  r->sequence[in->sender] = in->sequence;
  if (in->kind == TRI_WIRE_END) return true;
  for (int i = 0; i < in->n; i++) take_heartbeat(r, &in->heartbeat[i], now_s);
  g->at = *from;
  g->heard = true;
  g->refused = g->lost = false;
  g->unanswered = g->meets = 0;
  g->heard_s = now_s;
  if (in->kind != TRI_WIRE_HEARD) return true;
  /* The root's group detects its own failures. */
  for (int i = 0; i < g->n; i++) r->seen[g->member[i]].news_s = now_s;
  return true;
}

/* ---- lost heartbeats ---- */

enum { MEETS = 3 };

/* This needs three collectives of the world. Each rank comes to the second one after leaving the first.
 * Nobody leaves the second before all have come. A rank that comes to the third has left the second. So every
 * rank, and its connection to the others, was alive after the first. */
void tri_members_meet(tri_members *r, double now_s, double lost_s) {
  uint64_t before = r->met;

  for (int q = 0; q < r->n; q++)
    if (r->seen[q].heartbeat.met > r->met) r->met = r->seen[q].heartbeat.met;
  tri_peers_meet(r->seen, r->n, now_s);
  if (r->met == before) return;
  for (int i = 0; i < r->n_groups; i++) {
    tri_group *g = &r->group[i];
    if (i == r->mine || !g->heard || now_s - g->heard_s < lost_s) continue;
    if (++g->meets >= MEETS) g->lost = true;
  }
}

void tri_members_mute(tri_members *r, double now_s, double quiet_s) {
  for (int i = 0; i < r->n_groups; i++) {
    tri_group *g = &r->group[i];
    bool       mute =
        i != r->mine && g->heard && (g->lost || (now_s - g->heard_s >= quiet_s && g->unanswered == 0));
    for (int k = 0; k < g->n && mute != g->mute; k++) r->seen[g->member[k]].mute = mute;
    g->mute = mute;
  }
}

bool tri_members_has_ended(const tri_group *g, const tri_seen *seen) {
  for (int i = 0; i < g->n; i++)
    if (seen[g->member[i]].heartbeat.life != TRI_LIFE_ENDS) return false;
  return true;
}

int tri_members_find(const tri_members *r, const tri_net_end *at) {
  for (int g = 0; g < r->n_groups; g++)
    if (r->group[g].heard && r->group[g].at.port == at->port &&
        !memcmp(r->group[g].at.address, at->address, sizeof at->address))
      return g;
  return -1;
}
