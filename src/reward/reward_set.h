/* reward_set.h - the rewards of a deck from inside. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REWARD_SET_H
#define TRI_REWARD_SET_H

#include "reward.h"
#include "rollout/rollout.h"

/* Further numbers of replies, summed: the first names of all in their order. */
typedef struct tri_reward_means {
  int             n;
  bool            has_more; /* names behind them were left out */
  tri_reward_mean at[TRI_EXTRAS_MOST];
} tri_reward_means;

typedef struct tri_reward_row {
  const tri_reward *kind;
  void             *state;
  double            weight;
  tri_on_error      on_error;
  char              name[48]; /* unique in the set */
  bool              warned, warned_more;
  tri_reward_means  means;
} tri_reward_row;

struct tri_reward_set {
  int            n;
  bool           warned_text, trial;
  tri_reward_row row[TRI_REWARDS_MAX];
};

/* Not collective. Adds the numbers of one reply. */
void tri_reward_means_add(tri_reward_means *m, const tri_extras *x);

#endif
