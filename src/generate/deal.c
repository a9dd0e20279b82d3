/* deal.c - deals the prompts that are left to the ranks that want some. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "deal.h"

#include <stdbool.h>

/* A rank's part if no rank gets more than `most`. */
static int64_t part_of(int64_t want, int64_t most) { return want < 0 ? 0 : want < most ? want : most; }

/* Returns true if `left` prompts are enough for these parts. */
static bool is_enough(const int64_t *want, int ranks, int64_t most, int64_t left) {
  for (int r = 0; r < ranks && left >= 0; r++) left -= part_of(want[r], most);
  return left >= 0;
}

/* The largest number of whole turns is found by halving, since a turn may give a single prompt and one rank
 * may want them all. */
static int64_t find_turns(const int64_t *want, int ranks, int64_t left) {
  int64_t least = 0, most = left > 0 ? left : 0;

  while (least < most) {
    int64_t middle = most - (most - least) / 2;
    if (is_enough(want, ranks, middle, left))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

void tri_deal(const int64_t *want, int ranks, int64_t round, int64_t left, int64_t *give) {
  int64_t turns = find_turns(want, ranks, left);

  for (int r = 0; r < ranks; r++) left -= give[r] = part_of(want[r], turns);
  for (int i = 0; i < ranks && left > 0; i++) {
    int r = (int)((round + i) % ranks);
    if (want[r] <= give[r]) continue;
    give[r]++;
    left--;
  }
}
