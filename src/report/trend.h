/* trend.h - numbers of a run's steps against what they were before: which of them went wrong. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TREND_H
#define TRI_TREND_H

#include "base/notice.h"
#include "rollout/rollout.h"

/* The metrics that are watched. */
typedef enum {
  TRI_SEEN_LENGTH,
  TRI_SEEN_ENTROPY,
  TRI_SEEN_KL,
  TRI_SEEN_VALUE_LOSS,
  TRI_SEEN_EXPLAINED,
  TRI_SEEN_REWARD,
  TRI_SEEN_REWARD_STD,
  TRI_SEEN_SKIPPED,
  TRI_SEEN_OVERFLOW,
  TRI_SEEN_COUNT
} tri_seen;

/* What can go wrong with them. */
typedef enum {
  TRI_TREND_LENGTH,  /* answers became a fraction of what they were */
  TRI_TREND_KL,      /* the policy left its reference at once */
  TRI_TREND_ENTROPY, /* answers are all alike, and not because they are right */
  TRI_TREND_REWARD,  /* no gain in many steps */
  TRI_TREND_VALUE,   /* the critic diverges */
  TRI_TREND_BLIND,   /* the critic is worse than none */
  TRI_TREND_SKIPPED, /* a gradient was not finite */
  TRI_TREND_FAR,     /* little of the reference is left */
  TRI_TREND_COUNT
} tri_trend_kind;

/* One metric's past. */
typedef struct tri_trend_series {
  bool   seen;        /* in this step */
  double now, before; /* in this step; in the last one that had it */
  double first, mean; /* of the first steps; running */
  int    n;           /* steps that had it */
} tri_trend_series;

/* Zero-initialise. `given`, `selected` and `lost` are the caller's to set, the others belong to trend.c. */
typedef struct tri_trend {
  bool    given;    /* answers come from elsewhere (a replay): their lengths and rewards are no result */
  bool    selected; /* only groups whose rewards differ are seen, so that their mean need not rise */
  int64_t lost;     /* of the step's skipped updates those that had no answer left, of all learners */
  tri_trend_series of[TRI_SEEN_COUNT];
  double           highest, lowest; /* reward of one answer, so far */
  struct {
    double sum, square; /* of the rewards' means in the block of steps that is under way */
    double best, noise; /* the best block's mean, and its variance */
    int    n, idle;     /* steps of the block; blocks in a row without a gain */
  } block;
  int row[TRI_TREND_COUNT]; /* steps in a row in which it was so */
} tri_trend;

enum { TRI_TREND_NUMBERS = 64 }; /* space for all of tri_trend_numbers */

/* Not collective. A metric of the step by its name; one that is not watched is passed over. */
void tri_trend_see(tri_trend *t, const char *metric, double value);
/* Not collective. The end of a step, all of whose metrics were seen; r: its answers with rewards, or NULL. */
void tri_trend_step(tri_trend *t, const tri_rollout *r);
/* Is it so now, and for as long as it takes to be no chance? */
bool tri_trend_is_on(const tri_trend *t, tri_trend_kind kind);
/* As one word, and as text with its numbers and what to look at. */
const char *tri_trend_word(tri_trend_kind kind);
void        tri_trend_say(const tri_trend *t, tri_trend_kind kind, char *out, size_t bytes);
/* The word as the notice's code; the numbers that say so: value (now), first and mean, those that count. */
void tri_trend_notice(const tri_trend *t, tri_trend_kind kind, tri_notice *notice);
/* The past as numbers, x [TRI_TREND_NUMBERS], or from them (back); returns how many they are. */
int tri_trend_numbers(tri_trend *t, double *x, bool back);

#endif
