/* rank_status.c - the current phase and collective of this rank. One thread writes, others read. Every shared
 * word is atomic. The turn is odd during a change, and readers then try again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rank_status.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
  RING = 64,                                     /* chosen: twice the pending collectives of a communicator */
  LABEL_WORDS = TRI_RANK_STATUS_LABEL_BYTES / 8, /* atomic copies work on words */
  TRIES = 1000                                   /* chosen: a write takes nanoseconds */
};

static struct {
  _Atomic uint64_t turn, number, met, waited_ns, since_ns, label[LABEL_WORDS];
  _Atomic int      scope, device_scope;
  /* tri_come */
  _Atomic int           n_come, scope_of[TRI_RANK_STATUS_MOST];
  _Atomic uint64_t      come[TRI_RANK_STATUS_MOST];
  _Atomic uint64_t      device_number;
  _Atomic(const char *) phase;
} shown = {.scope = TRI_RANK_STATUS_NOWHERE, .device_scope = TRI_RANK_STATUS_NOWHERE, .phase = "start"};

/* For the main thread only. */
static char carried[TRI_RANK_STATUS_LABEL_BYTES];
static char ring[TRI_RANK_STATUS_MOST][RING][TRI_RANK_STATUS_LABEL_BYTES];
static int  depth; /* number of nested waits */

#define PUT(at, value) atomic_store_explicit(&(at), (value), memory_order_relaxed)
#define GET(at)        atomic_load_explicit(&(at), memory_order_relaxed)

const char *tri_rank_status_scope(int scope) {
  static const char *const name[] = {"world", "node", "cross", "tensor", "mates"}; /* as in comm.h */
  const int                n = (int)(sizeof name / sizeof *name), at = scope % TRI_RANK_STATUS_ROUNDS;

  return scope >= 0 && scope < 2 * TRI_RANK_STATUS_ROUNDS && at < n ? name[at] : NULL;
}

static int find(const tri_come *c, int scope) {
  int i = 0;

  while (i < c->n && c->scope[i] != scope) i++;
  return i;
}

uint64_t tri_come_get(const tri_come *c, int scope) {
  int i = find(c, scope);

  return i < c->n ? c->number[i] : 0;
}

bool tri_come_put(tri_come *c, int scope, uint64_t number) {
  int i = find(c, scope);

  if (i == TRI_RANK_STATUS_MOST) return false;
  if (i == c->n) c->n++;
  c->scope[i] = scope;
  c->number[i] = number;
  return true;
}

/* Returns the place of the scope, which is a new one if the rank has not come to it yet. */
static int place_of(int scope) {
  int i = 0;

  while (i < GET(shown.n_come) && GET(shown.scope_of[i]) != scope) i++;
  TRI_ASSERT(i < TRI_RANK_STATUS_MOST);
  return i;
}

static uint64_t now_ns(void) { return (uint64_t)(tri_now_s() * 1e9); }

static void begin_turn(void) {
  PUT(shown.turn, GET(shown.turn) + 1);
  atomic_thread_fence(memory_order_release);
}

static void end_turn(void) { atomic_store_explicit(&shown.turn, GET(shown.turn) + 1, memory_order_release); }

const char *tri_rank_status_phase(const char *name) {
  return atomic_exchange_explicit(&shown.phase, name, memory_order_acq_rel);
}

static size_t append(char *to, size_t n, const char *text) {
  if (!text || !text[0]) return n;
  if (n && n < TRI_RANK_STATUS_LABEL_BYTES - 1) to[n++] = ' ';
  while (*text && n < TRI_RANK_STATUS_LABEL_BYTES - 1) to[n++] = *text++;
  to[n] = 0;
  return n;
}

void tri_rank_status_carry(const char *owner, const char *what, const char *how) {
  carried[0] = 0;
  append(carried, append(carried, append(carried, 0, owner), what), how);
}

uint64_t tri_rank_status_come(int scope, const char *kind) {
  int      at = place_of(scope);
  uint64_t number = GET(shown.come[at]) + 1;
  char    *label = ring[at][number % RING];

  label[0] = 0;
  append(label, append(label, 0, kind), carried);
  carried[0] = 0;
  begin_turn();
  PUT(shown.scope_of[at], scope);
  if (at == GET(shown.n_come)) PUT(shown.n_come, at + 1);
  PUT(shown.come[at], number);
  end_turn();
  return number;
}

void tri_rank_status_wait(int scope, uint64_t number) {
  uint64_t word[LABEL_WORDS] = {0};

  if (depth++) return;
  strncpy((char *)word, ring[place_of(scope)][number % RING], sizeof word - 1);
  PUT(shown.since_ns, now_ns());
  begin_turn();
  for (int i = 0; i < LABEL_WORDS; i++) PUT(shown.label[i], word[i]);
  PUT(shown.number, number);
  PUT(shown.scope, scope);
  end_turn();
}

void tri_rank_status_leave(bool met) {
  if (depth == 0 || --depth) return;
  PUT(shown.waited_ns, GET(shown.waited_ns) + now_ns() - GET(shown.since_ns));
  begin_turn();
  if (met && GET(shown.scope) == TRI_RANK_STATUS_WORLD) PUT(shown.met, GET(shown.number));
  PUT(shown.scope, TRI_RANK_STATUS_NOWHERE);
  end_turn();
}

void tri_rank_status_met(uint64_t number) { PUT(shown.met, number); }

uint64_t tri_rank_status_newest(int scope) { return GET(shown.come[place_of(scope)]); }

void tri_rank_status_enter(int scope, const char *kind) {
  tri_rank_status_wait(scope, tri_rank_status_come(scope, kind));
}

double tri_rank_status_waited_s(void) {
  uint64_t now = now_ns(), since = GET(shown.since_ns), waited = GET(shown.waited_ns);

  return 1e-9 *
         (double)(waited + (GET(shown.scope) != TRI_RANK_STATUS_NOWHERE && now > since ? now - since : 0));
}

void tri_rank_status_device_waits(int scope, uint64_t number) {
  PUT(shown.device_number, number);
  PUT(shown.device_scope, scope);
}

static void copy(tri_rank_status *out, uint64_t word[LABEL_WORDS]) {
  out->come.n = GET(shown.n_come);
  for (int i = 0; i < TRI_RANK_STATUS_MOST; i++) {
    out->come.scope[i] = GET(shown.scope_of[i]);
    out->come.number[i] = GET(shown.come[i]);
  }
  for (int i = 0; i < LABEL_WORDS; i++) word[i] = GET(shown.label[i]);
  out->met = GET(shown.met);
  out->scope = GET(shown.scope);
  out->number = GET(shown.number);
}

void tri_rank_status_read(tri_rank_status *out) {
  uint64_t word[LABEL_WORDS] = {0};

  *out = (tri_rank_status){.scope = TRI_RANK_STATUS_NOWHERE};
  for (int i = 0; i < TRIES; i++) {
    out->turn = atomic_load_explicit(&shown.turn, memory_order_acquire);
    copy(out, word);
    atomic_thread_fence(memory_order_acquire);
    if (out->turn % 2 == 0 && out->turn == GET(shown.turn)) break;
  }
  out->waited_s = tri_rank_status_waited_s();
  if (out->scope == TRI_RANK_STATUS_NOWHERE && GET(shown.device_scope) != TRI_RANK_STATUS_NOWHERE) {
    out->scope = GET(shown.device_scope);
    out->number = GET(shown.device_number);
    out->turn = out->number;
    snprintf(out->label, sizeof out->label, "on the device");
  } else if (out->scope != TRI_RANK_STATUS_NOWHERE) {
    memcpy(out->label, word, sizeof out->label);
    out->label[sizeof out->label - 1] = 0;
  }
  snprintf(out->phase, sizeof out->phase, "%s", atomic_load_explicit(&shown.phase, memory_order_acquire));
}
