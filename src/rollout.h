/* rollout.h - the data of one step: sequences, rewards, log-probabilities, advantages. Layer 5. */
#ifndef TRI_ROLLOUT_H
#define TRI_ROLLOUT_H

#include "comm.h"

typedef enum { TRI_STOP_EOS, TRI_STOP_STRING, TRI_STOP_LENGTH } tri_stop_reason;
enum { TRI_REWARDS_MAX = 16 };

/* Host memory, owned by the rollout; rows are tokens, packed. After tri_rollout_exchange every rank holds the whole step
 * in the order of prompts, then answers; sequences q = prompt * group + answer. Zeroed is a legal empty rollout. */
typedef struct tri_rollout {
  int      n_seq, group, n_reward;
  int64_t  n_tok;
  int64_t *start;                /* [n_seq+1] sequence q is rows start[q] .. start[q+1] */
  int64_t *prompt_id;            /* [n_seq] line of the prompt file; keys the random numbers */
  int32_t *sample;               /* [n_seq] number of the answer among those to its prompt */
  int32_t *prompt_len, *stop;    /* [n_seq] tokens without loss at the start; tri_stop_reason */
  float   *reward;               /* [n_seq] weighted sum; NaN while unknown */
  float   *part;                 /* [n_seq,n_reward] each reward by itself, unweighted */
  int32_t *token;                /* [n_tok] */
  float   *old_logp, *ref_logp;  /* [n_tok] nats, of token[i] given those before it; NaN while unknown */
  float   *adv;                  /* [n_tok] */
  bool     has_logp, has_reward; /* old_logp, reward came with the data */
} tri_rollout;

/* Not collective. Arrays for n_seq sequences and n_tok tokens, zeroed; old_logp, ref_logp and reward NaN. */
TRI_CHECKED tri_status tri_rollout_make(int n_seq, int64_t n_tok, int group, int n_reward, tri_rollout *out);
void                   tri_rollout_free(tri_rollout *r); /* leaves *r zeroed; NULL members are fine */
/* Collective over world. Rank k's sequences of `mine` belong to prompts k, k + size, k + 2 size, ...; *out is the whole
 * step in prompt order, on every rank. */
TRI_CHECKED tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out);

#endif
