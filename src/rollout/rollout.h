/* rollout.h - the sequences of one step, with rewards, log-probabilities and advantages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ROLLOUT_H
#define TRI_ROLLOUT_H

#include "comm/comm.h"
#include "device/memory.h"

typedef enum { TRI_STOP_EOS, TRI_STOP_STRING, TRI_STOP_LENGTH } tri_stop_reason;
enum {
  TRI_REWARDS_MAX = 16,
  TRI_FAILED_TEXT = 1 << TRI_REWARDS_MAX, /* these two are bits of tri_rollout.failed */
  TRI_FAILED_GREEDY = 2 << TRI_REWARDS_MAX
};

/* Bits of tri_rollout.mark. A GIVEN token behind the prompt was not drawn and has no loss, such as another
 * speaker's in a conversation. The other bits are the age of a drawn token, the number of steps since the
 * step in which it was drawn. */
enum { TRI_MARK_GIVEN = 128, TRI_MARK_AGE = 127 };

/* Values of tri_rollout.masked that statistics leave out. A FILLER only fills the step up, and comes
 * after all others. A DROPPED answer has no reward (NaN), or too few answers in its group have one. */
enum { TRI_FILLER = 2, TRI_DROPPED = 3 };

/* Arrays with an element per token that only some algorithms need. */
enum {
  TRI_COLUMN_CRITIC = 1,    /* critic */
  TRI_COLUMN_SEEN = 2,      /* seen */
  TRI_COLUMN_ROLL_LOGP = 4, /* roll_logp */
  TRI_COLUMN_MARK = 8       /* mark */
};

/* A step's sequences in host memory, allocated or borrowed from a store. Rows are tokens, packed. After
 * tri_rollout_exchange every rank holds the whole step in the order of places, then samples, so sequence q =
 * place * group + sample. A zeroed rollout is legal and empty. So is {.store = s}, whose next
 * tri_rollout_make takes memory from s. */
typedef struct tri_rollout {
  int      n_seq, group, n_reward;
  int64_t  n_tok;
  int64_t *start;             /* [n_seq+1] sequence q has rows start[q] .. start[q+1] */
  int64_t *prompt_id;         /* [n_seq] line of the prompt file, which keys the random numbers */
  int32_t *place;             /* [n_seq] number of the prompt in the step */
  int32_t *sample;            /* [n_seq] number of the answer among the answers to its prompt */
  int32_t *prompt_len, *stop; /* [n_seq] tokens without loss at the start, and tri_stop_reason */
  float   *reward;            /* [n_seq] weighted sum of the rewards, NaN while unknown */
  float   *part;              /* [n_seq,n_reward] each reward, unweighted */
  /* [n_seq] bits of failures. Bit i means that reward i could not judge the answer, and its part is 0. With
   * TRI_FAILED_TEXT no reward could, because the tokens cannot be decoded. With TRI_FAILED_GREEDY a reward
   * could not judge the prompt's greedy answer. One of the prompt's sequences has this bit. */
  int32_t *failed;
  float   *baseline;            /* [n_seq] reward of a greedy answer to the prompt, or 0 without one */
  int32_t *masked;              /* [n_seq] not 0 if no token has loss. TRI_FILLER, TRI_DROPPED or 1 */
  int32_t *token;               /* [n_tok] */
  float   *old_logp, *ref_logp; /* [n_tok] nats, of token[i] given the tokens before it, NaN while unknown */
  float   *adv;                 /* [n_tok] */
  /* NULL if not needed (TRI_COLUMN_*). */
  struct {
    float *value, *ret; /* [n_tok] in rewards, values before learning, and their targets */
  } critic;
  float *seen;      /* [n_tok] numbers for the loss's statistic (algo.h) */
  float *roll_logp; /* [n_tok] nats, the sampler's, if old_logp became the trainer's */
  /* [n_tok] TRI_MARK_GIVEN plus the token's age in steps, at most TRI_MARK_AGE. NULL counts as 0. Only
   * conversations have given tokens behind the prompt. Marks of the prompt have no meaning. */
  uint8_t *mark;
  bool     has_logp, has_reward; /* old_logp and reward came with the data */
  /* Borrowed owner of the arrays, or NULL if they are allocated. */
  struct tri_rollout_store *store;
} tri_rollout;

/* Upper bounds of a rollout's sizes. It may be exchanged as the parts of n_part ranks. */
typedef struct tri_rollout_size {
  int      n_seq, n_reward, n_part;
  int64_t  n_tok;
  unsigned columns; /* TRI_COLUMN_*, as an allocated rollout has all of them */
} tri_rollout_size;
/* Planned memory for one rollout at a time. A rollout holds it from tri_rollout_make to tri_rollout_clear. */
typedef struct tri_rollout_store {
  tri_rollout_size most;
  tri_rollout      arrays; /* the memory, with arrays of the lengths in `most` */
  char            *wire;   /* [wire_bytes] message of an exchange, sent or received */
  size_t           wire_bytes;
  bool             lent;
} tri_rollout_store;
/* Not collective. Plans host memory for rollouts up to `most`, and with `exchange` also for their messages.
 * *out must be zeroed and must not move. It can be used after tri_ledger_take. */
TRI_CHECKED tri_status tri_rollout_store_plan(tri_ledger *l, tri_phase phase, const char *name,
                                              const tri_rollout_size *most, bool exchange,
                                              tri_rollout_store *out);

/* Not collective. Makes arrays for n_seq sequences and n_tok tokens, zeroed except that old_logp, ref_logp
 * and reward are NaN. *out must be empty. TRI_EINTERNAL: its store is too small, not taken yet, or used by
 * another rollout. */
TRI_CHECKED tri_status tri_rollout_make(int n_seq, int64_t n_tok, int group, int n_reward, tri_rollout *out);
/* Not collective. Makes zeroed space for the parts of n_reward rewards. The previous parts are lost. */
TRI_CHECKED tri_status tri_rollout_set_rewards(tri_rollout *r, int n_reward);
/* Empties *r. Memory of a store goes back to the store, and *r can be made again from it. Allocated memory is
 * freed. NULL members are legal. */
void tri_rollout_clear(tri_rollout *r);
/* Does the same and forgets the store, so *r is zeroed. */
void tri_rollout_free(tri_rollout *r);
/* Returns the row of sequence q's first token with loss. It is never row start[q], because the tokens before
 * it must predict it. */
static inline int64_t tri_rollout_first_row(const tri_rollout *r, int q) {
  return r->start[q] + (r->prompt_len[q] > 1 ? r->prompt_len[q] : 1);
}
/* True if row i has loss in an unmasked sequence. Row i must not be before the sequence's first row. */
static inline bool tri_rollout_has_loss(const tri_rollout *r, int64_t i) {
  return !r->mark || !(r->mark[i] & TRI_MARK_GIVEN);
}
/* True if row i of sequence q has loss. A masked sequence has none. Row i must not be before the sequence's
 * first row. */
static inline bool tri_rollout_learns(const tri_rollout *r, int q, int64_t i) {
  return !r->masked[q] && tri_rollout_has_loss(r, i);
}
/* Returns the number of tokens with loss of sequence q. They may be fewer than the rows from its first row to
 * start[q+1], with others between them. */
static inline int64_t tri_rollout_loss_tokens(const tri_rollout *r, int q) {
  int64_t n = 0;

  if (r->masked[q]) return 0;
  if (!r->mark) return r->start[q + 1] - tri_rollout_first_row(r, q);
  for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++) n += tri_rollout_has_loss(r, i);
  return n;
}
/* Returns the number of tokens behind the prompt of sequence q that were not drawn. A masked sequence has
 * them too. */
static inline int64_t tri_rollout_given_tokens(const tri_rollout *r, int q) {
  int64_t n = 0;

  for (int64_t i = r->start[q] + r->prompt_len[q]; r->mark && i < r->start[q + 1]; i++)
    n += !tri_rollout_has_loss(r, i);
  return n;
}
/* Returns the length of an answer, the number of tokens that were drawn. */
static inline int64_t tri_rollout_drawn_tokens(const tri_rollout *r, int q) {
  return r->start[q + 1] - r->start[q] - r->prompt_len[q] - tri_rollout_given_tokens(r, q);
}
/* Returns the number of sequences before the fillers. */
static inline int tri_rollout_counted(const tri_rollout *r) {
  int n = r->n_seq;
  while (n > 0 && r->masked[n - 1] == TRI_FILLER) n--;
  return n;
}
/* True if statistics count sequence q. */
static inline bool tri_rollout_counts(const tri_rollout *r, int q) {
  return !r->masked || r->masked[q] < TRI_FILLER;
}
/* Not collective. Marks rewarded answers as TRI_DROPPED, except fillers, if they have no reward. Marks a
 * whole group if fewer than `least` of its answers remain. With `baselines`, also drops answers to a prompt
 * without a baseline. */
void tri_rollout_drop(tri_rollout *r, int least, bool baselines);
/* Collective over world. `mine` holds this rank's sequences of the step, possibly none, in any order. *out,
 * empty before, becomes the whole step in the order of places, then samples, on every rank. TRI_EINTERNAL on
 * every rank, with the place, unless each place has each sample below `group` exactly once on all ranks
 * together. Any other failure of a rank is returned on all ranks too. */
TRI_CHECKED tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out);

#endif
