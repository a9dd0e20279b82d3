/* rollout.h - the data of one step: sequences, rewards, log-probabilities, advantages. */
#ifndef TRI_ROLLOUT_H
#define TRI_ROLLOUT_H

#include "comm/comm.h"
#include "device/memory.h"

typedef enum { TRI_STOP_EOS, TRI_STOP_STRING, TRI_STOP_LENGTH } tri_stop_reason;
enum { TRI_REWARDS_MAX = 16, TRI_FAILED_TEXT = 1 << TRI_REWARDS_MAX }; /* the latter: of tri_rollout.failed */

/* Host memory, owned by the rollout or planned once for every step (tri_rollout_plan); rows are tokens,
 * packed. After tri_rollout_exchange every rank holds the whole step in the order of prompts, then answers;
 * sequences q = prompt * group + answer. Zeroed is a legal empty rollout. */
typedef struct tri_rollout {
  int      n_seq, group, n_reward;
  int64_t  n_tok;
  int64_t *start;                /* [n_seq+1] sequence q is rows start[q] .. start[q+1] */
  int64_t *prompt_id;            /* [n_seq] line of the prompt file; keys the random numbers */
  int32_t *sample;               /* [n_seq] number of the answer among those to its prompt */
  int32_t *prompt_len, *stop;    /* [n_seq] tokens without loss at the start; tri_stop_reason */
  float   *reward;               /* [n_seq] weighted sum; NaN while unknown */
  float   *part;                 /* [n_seq,n_reward] each reward by itself, unweighted */
  int32_t *failed;               /* [n_seq] bit i: reward i could not judge; its part is 0;
                                  * TRI_FAILED_TEXT: none could, the tokens cannot be decoded */
  int32_t *token;                /* [n_tok] */
  float   *old_logp, *ref_logp;  /* [n_tok] nats, of token[i] given those before it; NaN while unknown */
  float   *adv;                  /* [n_tok] */
  bool     has_logp, has_reward; /* old_logp, reward came with the data */
  /* Where memory was planned, the most it holds; else 0 */
  int     room_seq, room_reward;
  int64_t room_tok;
  char   *wire; /* [room_wire] bytes of the exchange, which the rollout sends or is made of */
  size_t  room_wire;
} tri_rollout;

/* The most one rollout will hold, as the parts of n_part ranks. */
typedef struct tri_rollout_size {
  int     n_seq, n_reward, n_part;
  int64_t n_tok;
} tri_rollout_size;
/* Not collective. Plans host memory for r, which must be zeroed and stay where it is; exchange: and for its
 * bytes in an exchange. After tri_ledger_take tri_rollout_make gives out this memory and tri_rollout_free
 * takes it back. */
TRI_CHECKED tri_status tri_rollout_plan(tri_ledger *l, tri_phase phase, const char *name,
                                        const tri_rollout_size *size, bool exchange, tri_rollout *r);
/* Not collective. Arrays for n_seq sequences and n_tok tokens, zeroed; old_logp, ref_logp and reward NaN.
 * *out must be empty: zeroed, or planned. TRI_EINTERNAL when it is more than was planned. */
TRI_CHECKED tri_status tri_rollout_make(int n_seq, int64_t n_tok, int group, int n_reward, tri_rollout *out);
/* Not collective. Makes room for the parts of n_reward rewards, zeroed; what was there is gone. */
TRI_CHECKED tri_status tri_rollout_set_rewards(tri_rollout *r, int n_reward);
void                   tri_rollout_free(tri_rollout *r); /* leaves *r empty; NULL members are fine */
/* Collective over world. Rank k's sequences of `mine` belong to prompts k, k + size, k + 2 size, ...; *out is
 * the whole step in prompt order, on every rank; it must be empty before. */
TRI_CHECKED tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out);

#endif
