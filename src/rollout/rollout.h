/* rollout.h - the data of one step: sequences, rewards, log-probabilities, advantages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ROLLOUT_H
#define TRI_ROLLOUT_H

#include "comm/comm.h"
#include "device/memory.h"

typedef enum { TRI_STOP_EOS, TRI_STOP_STRING, TRI_STOP_LENGTH } tri_stop_reason;
enum {
  TRI_REWARDS_MAX = 16,
  TRI_FAILED_TEXT = 1 << TRI_REWARDS_MAX, /* these two: of tri_rollout.failed */
  TRI_FAILED_GREEDY = 2 << TRI_REWARDS_MAX
};

/* Of tri_rollout.masked.answer; no statistic counts either. FILLER: it only fills the step up, behind all
 * others. DROPPED: it has no reward (NaN), or too few in its group have one. */
enum { TRI_FILLER = 2, TRI_DROPPED = 3 };

/* Arrays that only some algorithms want, of tokens all. */
enum {
  TRI_COLUMN_CRITIC = 1,    /* critic */
  TRI_COLUMN_SEEN = 2,      /* seen */
  TRI_COLUMN_ROLL_LOGP = 4, /* roll_logp */
  TRI_COLUMN_MASK = 8       /* masked.token */
};

/* Host memory: its own, or what a store lends it; rows are tokens, packed. After tri_rollout_exchange every
 * rank holds the whole step in the order of prompts, then answers; sequences q = prompt * group + answer.
 * Zeroed is a legal empty rollout, and so is {.store = s}: the next tri_rollout_make takes from s. */
typedef struct tri_rollout {
  int      n_seq, group, n_reward;
  int64_t  n_tok;
  int64_t *start;             /* [n_seq+1] sequence q is rows start[q] .. start[q+1] */
  int64_t *prompt_id;         /* [n_seq] line of the prompt file; keys the random numbers */
  int32_t *sample;            /* [n_seq] number of the answer among those to its prompt */
  int32_t *prompt_len, *stop; /* [n_seq] tokens without loss at the start; tri_stop_reason */
  float   *reward;            /* [n_seq] weighted sum; NaN while unknown */
  float   *part;              /* [n_seq,n_reward] each reward by itself, unweighted */
  int32_t *failed;            /* [n_seq] bit i: reward i could not judge; its part is 0;
                                  * TRI_FAILED_TEXT: none could, the tokens cannot be decoded;
                                  * TRI_FAILED_GREEDY: the prompt's greedy answer failed so, in one of its
                                  * sequences */
  float   *baseline;          /* [n_seq] what a greedy answer to the prompt earned; 0: there was none */
  struct {
    int32_t *answer; /* [n_seq] not 0: none of its tokens has loss; TRI_FILLER, TRI_DROPPED */
    uint8_t *token;  /* [n_tok] 1: has no loss, though behind the prompt; NULL: there is none such. Only of
                      * lines: answers are learned whole */
  } masked;
  int32_t *token;               /* [n_tok] */
  float   *old_logp, *ref_logp; /* [n_tok] nats, of token[i] given those before it; NaN while unknown */
  float   *adv;                 /* [n_tok] */
  /* NULL where no one wants them (TRI_COLUMN_*) */
  struct {
    float *value, *ret; /* [n_tok] in rewards, before learning, and what values are to become */
  } critic;
  float                    *seen;      /* [n_tok] what a statistic (algo.h) is about */
  float                    *roll_logp; /* [n_tok] nats, the sampler's, where old_logp became the trainer's */
  bool                      has_logp, has_reward; /* old_logp, reward came with the data */
  struct tri_rollout_store *store;                /* borrowed; whose memory the arrays are, NULL: its own */
} tri_rollout;

/* The most one rollout will hold, as the parts of n_part ranks. */
typedef struct tri_rollout_size {
  int      n_seq, n_reward, n_part;
  int64_t  n_tok;
  unsigned columns; /* TRI_COLUMN_*; a rollout in memory of its own has all */
} tri_rollout_size;
/* Planned memory that rollouts take turns in: one at a time has it, from tri_rollout_make to
 * tri_rollout_clear. */
typedef struct tri_rollout_store {
  tri_rollout_size most;
  tri_rollout      arrays; /* where they lie; each as long as `most` wants */
  char            *wire;   /* [wire_bytes] of an exchange, which the rollout sends or is made of */
  size_t           wire_bytes;
  bool             lent;
} tri_rollout_store;
/* Not collective. Plans host memory for rollouts up to `most`; exchange: and for their bytes in an exchange.
 * *out must be zeroed and stay where it is; it lends after tri_ledger_take. */
TRI_CHECKED tri_status tri_rollout_store_plan(tri_ledger *l, tri_phase phase, const char *name,
                                              const tri_rollout_size *most, bool exchange,
                                              tri_rollout_store *out);

/* Not collective. Arrays for n_seq sequences and n_tok tokens, zeroed; old_logp, ref_logp and reward NaN.
 * *out must be empty. TRI_EINTERNAL: its store has less or nothing yet, or is lent to another. */
TRI_CHECKED tri_status tri_rollout_make(int n_seq, int64_t n_tok, int group, int n_reward, tri_rollout *out);
/* Not collective. Makes space for the parts of n_reward rewards, zeroed; what was there is gone. */
TRI_CHECKED tri_status tri_rollout_set_rewards(tri_rollout *r, int n_reward);
/* *r is empty again, to be made anew from the same store if it has one, which has its memory back; memory of
 * its own is freed. NULL members are fine. */
void tri_rollout_clear(tri_rollout *r);
/* The same, and the store is let go: *r is zeroed. */
void tri_rollout_free(tri_rollout *r);
/* The row of sequence q's first token with loss: a token is predicted by those before it, so never row
 * start[q]. */
static inline int64_t tri_rollout_first_row(const tri_rollout *r, int q) {
  return r->start[q] + (r->prompt_len[q] > 1 ? r->prompt_len[q] : 1);
}
/* Whether row i, which is behind its sequence's first row, has loss, its sequence not being masked. */
static inline bool tri_rollout_has_loss(const tri_rollout *r, int64_t i) {
  return !r->masked.token || !r->masked.token[i];
}
/* Tokens of sequence q with loss: those of the rows from there to start[q+1] that have it, or none. Of an
 * answer all of them have. */
static inline int64_t tri_rollout_loss_tokens(const tri_rollout *r, int q) {
  int64_t n = 0;

  if (r->masked.answer[q]) return 0;
  if (!r->masked.token) return r->start[q + 1] - tri_rollout_first_row(r, q);
  for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++) n += tri_rollout_has_loss(r, i);
  return n;
}
/* Sequences before the fillers. */
static inline int tri_rollout_counted(const tri_rollout *r) {
  int n = r->n_seq;
  while (n > 0 && r->masked.answer[n - 1] == TRI_FILLER) n--;
  return n;
}
/* Whether statistics count sequence q. */
static inline bool tri_rollout_counts(const tri_rollout *r, int q) {
  return !r->masked.answer || r->masked.answer[q] < TRI_FILLER;
}
/* Not collective. Of answers that were rewarded: those without a reward, and all of a group in which fewer
 * than `least` are left, become TRI_DROPPED, unless they are fillers. baselines: those to a prompt without a
 * baseline too. */
void tri_rollout_drop(tri_rollout *r, int least, bool baselines);
/* Collective over world. Rank k's sequences of `mine` belong to prompts k, k + size, k + 2 size, ...; *out is
 * the whole step in prompt order, on every rank; it must be empty before. */
TRI_CHECKED tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out);

#endif
