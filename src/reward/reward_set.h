/* reward_set.h - the rewards of a deck from inside. Private to its room. */
#ifndef TRI_REWARD_SET_H
#define TRI_REWARD_SET_H

#include "reward.h"
#include "rollout/rollout.h"

typedef struct tri_reward_row {
  const tri_reward *kind;
  void             *state;
  double            weight;
  tri_on_error      on_error;
  char              name[48]; /* unique in the set */
  bool              warned;
} tri_reward_row;

struct tri_reward_set {
  int            n;
  bool           warned_text;
  tri_reward_row row[TRI_REWARDS_MAX];
};

#endif
