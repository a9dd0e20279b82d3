/* rounds.h - a chain of rounds. In each round every rank tells a few numbers to all others, and goes on
 * working until it needs theirs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ROUNDS_H
#define TRI_ROUNDS_H

#include "comm.h"

/* Rounds are numbered from 1. A rank tells its words of round n, may tell those of round n + 1, and hears
 * what all ranks told in round n. So a rank may be one round ahead of a slow one without waiting for it. All
 * ranks hear the same words in the same order, and may decide alike from them.
 *
 * Every rank calls tell and hear in the same order, each at its own time. Other collectives over c may come
 * between them. */
typedef struct tri_rounds tri_rounds;

enum { TRI_ROUNDS_UNHEARD = 2 }; /* rounds that may be told and not yet heard */

/* Collective over c, which is borrowed. A rank tells `words` numbers in each round. */
TRI_CHECKED tri_status tri_rounds_open(tri_comm *c, int words, tri_rounds **out);
/* Not collective. Every round must be heard before, unless this rank ends with an error. */
void tri_rounds_close(tri_rounds **r);

/* Collective over c, but does not wait for the other ranks. Tells mine [words], copied, in the next round. At
 * most TRI_ROUNDS_UNHEARD rounds may be unheard then. `st` says how this rank's work went. After an error
 * `mine` is not read and may be NULL. The rank goes on calling tell and hear until hear returns the error. */
TRI_CHECKED tri_status tri_rounds_tell(tri_rounds *r, const int64_t *mine, tri_status st);
/* Collective over c. Waits until all ranks have told their words of the oldest unheard round. *all [size,
 * words] receives them. It is owned by r and valid until the next call of hear. If a rank told an error in
 * this round, hears the remaining rounds too and returns as tri_agree does, on all ranks. */
TRI_CHECKED tri_status tri_rounds_hear(tri_rounds *r, const int64_t **all);
/* Not collective. While hear waits, it calls look(ctx) again and again, for other work that must go on then.
 * The result is not used. */
void tri_rounds_look(tri_rounds *r, bool (*look)(void *ctx), void *ctx);
/* Not collective. MPI moves told words only while a rank calls MPI, so a rank calls this often while it
 * works. *heard, if not NULL, tells whether hear would return at once. */
TRI_CHECKED tri_status tri_rounds_progress(tri_rounds *r, bool *heard);

#endif
