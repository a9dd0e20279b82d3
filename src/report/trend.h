/* trend.h - compares numbers of a run's steps with their past, and finds the ones that went wrong. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TREND_H
#define TRI_TREND_H

#include "base/notice.h"
#include "rollout/rollout.h"

/* The watched metrics. */
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

/* Findings about them. */
typedef enum {
  TRI_TREND_LENGTH,  /* answers shrank to a fraction of their first length */
  TRI_TREND_KL,      /* the policy suddenly left its reference */
  TRI_TREND_ENTROPY, /* all answers are alike, but not because they are right */
  TRI_TREND_REWARD,  /* no gain in many steps */
  TRI_TREND_VALUE,   /* the critic diverges */
  TRI_TREND_BLIND,   /* the critic is worse than none */
  TRI_TREND_SKIPPED, /* a gradient was not finite */
  TRI_TREND_FAR,     /* the policy is far from its reference */
  TRI_TREND_COUNT
} tri_trend_kind;

/* Past of one metric. */
typedef struct tri_trend_series {
  bool   seen;        /* present in this step */
  double now, before; /* in this step, and in the last step that had it */
  double first, mean; /* mean of the first steps, and running mean */
  int    n;           /* number of steps that had it */
} tri_trend_series;

/* Initialize to zero. The caller sets `given`, `selected` and `lost`. The others belong to trend.c. */
typedef struct tri_trend {
  bool    given;    /* answers come from elsewhere (a replay), so their lengths and rewards are no result */
  bool    selected; /* only groups with different rewards are seen, so their mean need not rise */
  int64_t lost;     /* skipped updates of the step without an answer left, over all learners */
  tri_trend_series of[TRI_SEEN_COUNT];
  double           highest, lowest; /* rewards of single answers so far */
  struct {
    double sum, square; /* sums of mean rewards and of their squares in the current block of steps */
    double best, noise; /* mean and variance of the best block */
    int    n, idle;     /* steps of the block, and consecutive blocks without a gain */
  } block;
  int row[TRI_TREND_COUNT]; /* consecutive steps with each finding */
} tri_trend;

enum { TRI_TREND_NUMBERS = 64 }; /* space for all numbers of tri_trend_numbers */

/* Records a metric of the step by name. Ignores metrics that are not watched. */
void tri_trend_see(tri_trend *t, const char *metric, double value);
/* Ends a step after all its metrics were seen. r has its answers with rewards, or is NULL. */
void tri_trend_step(tri_trend *t, const tri_rollout *r);
/* True if the finding has lasted long enough not to be chance. */
bool tri_trend_is_on(const tri_trend *t, tri_trend_kind kind);
/* Return the finding as one word, and as text with its numbers and a cure. */
const char *tri_trend_word(tri_trend_kind kind);
void        tri_trend_say(const tri_trend *t, tri_trend_kind kind, char *out, size_t bytes);
/* Sets the notice's code to the word, and its numbers to value (now), first and mean, as far as the finding
 * uses them. */
void tri_trend_notice(const tri_trend *t, tri_trend_kind kind, tri_notice *notice);
/* Writes the past as numbers to x [TRI_TREND_NUMBERS], or with `back` reads it from them. Returns their
 * number. */
int tri_trend_numbers(tri_trend *t, double *x, bool back);

#endif
