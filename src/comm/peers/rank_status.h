/* rank_status.h - the current state of this rank: its phase, and each collective it reaches, with number and
 * label. The monitor's thread reads it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RANK_STATUS_H
#define TRI_RANK_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* The scopes are those of comm.h, by number. A collective's number counts those of its scope from 1, the same
 * on every rank. A rank with a count of at least n has come to collective n.
 *
 * The rounds over a scope (rounds.h) are counted apart, as scope + TRI_RANK_STATUS_ROUNDS. Ranks come to them
 * and to the other collectives of the scope in different orders. */
enum {
  TRI_RANK_STATUS_WORLD = 0,
  TRI_RANK_STATUS_NOWHERE = -1,
  TRI_RANK_STATUS_ROUNDS = 8, /* at least the number of scopes */
  /* Chosen: scopes in use at most, and their rounds. With the count, they leave no gap in tri_come. */
  TRI_RANK_STATUS_MOST = 7
};
/* Not collective. The name of a scope, also for its rounds. NULL: there is no such scope. */
const char *tri_rank_status_scope(int scope);

/* For each scope in use, the newest collective a rank has come to. Pairs [n], in any order. */
typedef struct tri_come {
  int      n, scope[TRI_RANK_STATUS_MOST];
  uint64_t number[TRI_RANK_STATUS_MOST];
} tri_come;
/* Pure. The number of this scope, 0 if it is not in use. */
uint64_t tri_come_get(const tri_come *c, int scope);
/* Pure. Sets the number of this scope, which may be new. False: there is no place for a new one. */
bool tri_come_put(tri_come *c, int scope, uint64_t number);

enum {
  TRI_RANK_STATUS_PHASE_BYTES = 16,
  TRI_RANK_STATUS_LABEL_BYTES = 48
}; /* including the NUL. Longer texts are cut */

/* Not collective, all that follow. For the main thread. These functions only store and never wait. */

/* Sets the phase, a string literal, and returns the previous one. */
const char *tri_rank_status_phase(const char *name);
/* Labels the next collective with its contents, such as "policy", "layer 3", "weights". Each may be NULL.
 * Copied. */
void tri_rank_status_carry(const char *owner, const char *what, const char *how);
/* Records that this rank comes to the next collective of the scope, and returns its number. `kind`, such as
 * "all_gather", precedes the label. */
uint64_t tri_rank_status_come(int scope, const char *kind);
/* Records that this rank waits for the others in collective `number` of the scope, until
 * tri_rank_status_leave. The rank must have come to it recently. A nested wait counts as the outer one. met:
 * nobody leaves this collective before all have come. */
void tri_rank_status_wait(int scope, uint64_t number);
void tri_rank_status_leave(bool met);
/* The same for collective `number` of the world if it ended without a wait. */
void tri_rank_status_met(uint64_t number);
/* Returns the newest number that this rank has come to in the scope. 0: none yet. */
uint64_t tri_rank_status_newest(int scope);
/* Calls come and wait. */
void tri_rank_status_enter(int scope, const char *kind);
/* Seconds spent between wait and leave since the process began. */
double tri_rank_status_waited_s(void);
/* Records that a device waits in collective `number` of the scope while the main thread does other work.
 * TRI_RANK_STATUS_NOWHERE: it no longer waits. Any one thread may call it. */
void tri_rank_status_device_waits(int scope, uint64_t number);

/* A copy of the recorded state. */
typedef struct tri_rank_status {
  uint64_t turn; /* changes whenever the rank comes to a collective or leaves one */
  tri_come come;
  /* Newest collective of the world that all ranks had come to when this rank left it. */
  uint64_t met;
  int      scope;  /* scope of the collective it waits in, or TRI_RANK_STATUS_NOWHERE */
  uint64_t number; /* number of this collective */
  double   waited_s;
  char     phase[TRI_RANK_STATUS_PHASE_BYTES];
  char     label[TRI_RANK_STATUS_LABEL_BYTES]; /* label of this collective, else "" */
} tri_rank_status;

/* Any thread may call it. */
void tri_rank_status_read(tri_rank_status *out);

#endif
