/* rank_status.h - what this rank is in: its phase, and each collective it comes to, with number and label.
 * Its own threads read it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RANK_STATUS_H
#define TRI_RANK_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Scopes are comm.h's. A collective's number counts those of its scope from 1, the same on every rank of it:
 * a rank whose count is at least n has come to collective n. */
enum { TRI_RANK_STATUS_SCOPES = 3, TRI_RANK_STATUS_WORLD = 0, TRI_RANK_STATUS_NOWHERE = -1 };
enum {
  TRI_RANK_STATUS_PHASE_BYTES = 16,
  TRI_RANK_STATUS_LABEL_BYTES = 48
}; /* with their NUL; longer ones are cut */

/* Not collective, all that follow; of the main thread. They store, and wait for nobody. */

/* The phase from here on, a literal; hands back the one before. */
const char *tri_rank_status_phase(const char *name);
/* What the next collective carries: "policy", "layer 3", "weights"; each may be NULL. Copied. */
void tri_rank_status_carry(const char *owner, const char *what, const char *how);
/* This rank comes to the next collective of the scope: its number. kind: "all_gather", where nobody said what
 * it carries. */
uint64_t tri_rank_status_come(int scope, const char *kind);
/* It waits for the others in collective `number` of the scope, a recent one that it has come to, until leave.
 * A wait inside another counts as that one. met: nobody leaves this collective before all have come. */
void tri_rank_status_wait(int scope, uint64_t number);
void tri_rank_status_leave(bool met);
/* The same of collective `number` of the world, which ended without a wait. */
void tri_rank_status_met(uint64_t number);
/* The newest number this rank has come to in the scope; 0: none yet. */
uint64_t tri_rank_status_newest(int scope);
/* Come and wait in one. */
void tri_rank_status_enter(int scope, const char *kind);
/* Seconds spent between wait and leave since the process began. */
double tri_rank_status_waited_s(void);
/* A device waits by itself in collective `number` of the scope while the main thread does other things;
 * TRI_RANK_STATUS_NOWHERE: it no longer does. Of any one thread. */
void tri_rank_status_device_waits(int scope, uint64_t number);

/* What stands there. */
typedef struct tri_rank_status {
  uint64_t turn;                         /* another whenever the rank comes to a collective or leaves one */
  uint64_t come[TRI_RANK_STATUS_SCOPES]; /* newest number it has come to */
  uint64_t met;    /* newest number of the world's that all ranks had come to when this one left it */
  int      scope;  /* of the collective it waits in; or TRI_RANK_STATUS_NOWHERE */
  uint64_t number; /* of that one */
  double   waited_s;
  char     phase[TRI_RANK_STATUS_PHASE_BYTES];
  char     label[TRI_RANK_STATUS_LABEL_BYTES]; /* of the one it waits in; else "" */
} tri_rank_status;

/* Of any thread. */
void tri_rank_status_read(tri_rank_status *out);

#endif
