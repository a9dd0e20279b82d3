/* rounds.c - a chain of rounds, each one MPI_Iallgather. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rounds.h"
#include "base/host_memory.h"
#include "comm/peers/rank_status.h"
#include "comm_host.h"
#include "pause.h"

#include <mpi.h>
#include <string.h>

enum { UNHEARD = TRI_ROUNDS_UNHEARD };

/* A told round. Each rank sends one number more than its words: its status. */
typedef struct slot {
  MPI_Request request; /* MPI_REQUEST_NULL once all have come */
  uint64_t    number;  /* number of this round among the rounds over this scope */
  int64_t    *mine;    /* [1 + words] */
  int64_t    *all;     /* [size, 1 + words] */
} slot;

struct tri_rounds {
  tri_comm  *c;            /* borrowed */
  MPI_Comm   comm;         /* for these rounds alone */
  int        words;        /* without the status */
  uint64_t   told, heard;  /* newest round of each kind */
  slot       at[UNHEARD];  /* round n is at[n % UNHEARD] */
  int64_t   *out;          /* [size, words], words of the round heard last */
  tri_status failed;       /* this rank's error, once told */
  bool (*look)(void *ctx); /* called while hear waits, or NULL */
  void       *ctx;
  tri_rounds *next; /* next in the list `kept`, else NULL */
};

static int   chain_of(const tri_rounds *r) { return (int)r->c->scope + TRI_RANK_STATUS_ROUNDS; }
static slot *slot_of(tri_rounds *r, uint64_t n) { return &r->at[n % UNHEARD]; }

static tri_status alloc(tri_rounds *r) {
  for (int i = 0; i < UNHEARD; i++) {
    TRI_TRY(TRI_ALLOC(r->at[i].mine, 1 + r->words));
    TRI_TRY(TRI_ALLOC(r->at[i].all, (int64_t)r->c->size * (1 + r->words)));
  }
  return TRI_ALLOC(r->out, (int64_t)r->c->size * r->words);
}

tri_status tri_rounds_open(tri_comm *c, int words, tri_rounds **out) {
  tri_rounds *r = NULL;
  tri_status  st = TRI_OK;

  *out = NULL;
  TRI_ASSERT(c->mpi && words > 0);
  st = TRI_ALLOC(r, 1);
  if (st == TRI_OK) {
    *r = (tri_rounds){.c = c, .comm = MPI_COMM_NULL, .words = words};
    for (int i = 0; i < UNHEARD; i++) r->at[i].request = MPI_REQUEST_NULL;
    st = alloc(r);
  }
  TRI_TRY_DONE(tri_agree(c, st));
  TRI_MPI_DONE(tri_pause_dup((int)c->scope, "communicator of rounds", *(MPI_Comm *)c->mpi, &r->comm));
  MPI_Comm_set_errhandler(r->comm, MPI_ERRORS_RETURN);
  *out = r;
  r = NULL;
done:
  tri_rounds_close(&r);
  return st;
}

static bool is_pending(const tri_rounds *r) {
  for (int i = 0; i < UNHEARD; i++)
    if (r->at[i].request != MPI_REQUEST_NULL) return true;
  return false;
}

/* After an error of MPI a round may be pending. MPI still writes into it, so the object is kept as long as
 * the process lives. */
static tri_rounds *kept;

void tri_rounds_close(tri_rounds **rounds) {
  tri_rounds *r = *rounds;

  *rounds = NULL;
  if (!r) return;
  if (is_pending(r)) {
    r->next = kept;
    kept = r;
    return;
  }
  if (r->comm != MPI_COMM_NULL) MPI_Comm_free(&r->comm);
  for (int i = 0; i < UNHEARD; i++) {
    TRI_FREE(r->at[i].mine);
    TRI_FREE(r->at[i].all);
  }
  TRI_FREE(r->out);
  TRI_FREE(r);
}

tri_status tri_rounds_tell(tri_rounds *r, const int64_t *mine, tri_status st) {
  slot *x = slot_of(r, r->told + 1);
  int   n = 1 + r->words;

  TRI_ASSERT(r->told - r->heard < UNHEARD);
  if (r->failed == TRI_OK) r->failed = st;
  memset(x->mine, 0, (size_t)n * sizeof *x->mine);
  x->mine[0] = r->failed;
  if (r->failed == TRI_OK) memcpy(x->mine + 1, mine, (size_t)r->words * sizeof *mine);
  x->number = tri_rank_status_come(chain_of(r), "words of a round");
  TRI_MPI(MPI_Iallgather(x->mine, n, MPI_INT64_T, x->all, n, MPI_INT64_T, r->comm, &x->request));
  r->told++;
  return TRI_OK;
}

/* Tests whether all ranks have told this round. */
static tri_status test(slot *x, bool *done) {
  int flag = 1;

  if (x->request != MPI_REQUEST_NULL) TRI_MPI(MPI_Test(&x->request, &flag, MPI_STATUS_IGNORE));
  *done = flag != 0;
  return TRI_OK;
}

tri_status tri_rounds_progress(tri_rounds *r, bool *heard) {
  if (heard) *heard = false;
  for (uint64_t n = r->heard + 1; n <= r->told; n++) {
    bool done = false;
    TRI_TRY(test(slot_of(r, n), &done));
    if (heard && n == r->heard + 1) *heard = done;
  }
  return TRI_OK;
}

void tri_rounds_look(tri_rounds *r, bool (*look)(void *ctx), void *ctx) {
  r->look = look;
  r->ctx = ctx;
}

/* Waits for the oldest unheard round, however long, also with an error of this rank. If it went on alone, it
 * would wait in another collective than the others, who agree on the error when they hear of it. */
static tri_status wait_for(tri_rounds *r) {
  slot      *x = slot_of(r, r->heard + 1);
  tri_pause  pause = {0};
  bool       done = false;
  tri_status st = test(x, &done);

  if (st != TRI_OK || done) return st;
  tri_rank_status_wait(chain_of(r), x->number);
  while (st == TRI_OK && !done) {
    if (r->look) r->look(r->ctx);
    tri_pause_idle(&pause);
    st = test(x, &done);
  }
  tri_rank_status_leave(false);
  return st;
}

/* Copies the words of the oldest unheard round for the caller. Returns true if a rank told an error. */
static bool take(tri_rounds *r) {
  const int64_t *all = slot_of(r, ++r->heard)->all;
  bool           failed = false;

  for (int i = 0; i < r->c->size; i++, all += 1 + r->words) {
    failed = failed || all[0] != TRI_OK;
    memcpy(r->out + (int64_t)i * r->words, all + 1, (size_t)r->words * sizeof *all);
  }
  return failed;
}

tri_status tri_rounds_hear(tri_rounds *r, const int64_t **all) {
  bool failed = false;

  TRI_ASSERT(r->heard < r->told);
  *all = r->out;
  do {
    TRI_TRY(wait_for(r));
    failed = take(r) || failed;
  } while (failed && r->heard < r->told);
  return failed ? tri_agree(r->c, r->failed) : TRI_OK;
}
