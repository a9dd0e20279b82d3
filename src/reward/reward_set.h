/* reward_set.h - the data structures of a deck's rewards. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REWARD_SET_H
#define TRI_REWARD_SET_H

#include "reward.h"
#include "rollout/rollout.h"

/* Sums of extra numbers in replies, sorted by name. Only the first names are kept. */
typedef struct tri_reward_means {
  int             n;
  bool            has_more; /* names were left out behind the last */
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
