/* health.h - what says that a run learns nothing: looked for in each step, warned of once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HEALTH_H
#define TRI_HEALTH_H

#include "base/notice.h"
#include "trend.h"

enum { TRI_HEALTH_STEPS = 3 }; /* in a row; chosen: small batches have one or two such steps by chance */

/* What makes an advantage 0: rewards equal within the group; over the step; a reward of 0; that of the greedy
 * answer. */
typedef enum {
  TRI_COMPARED_IN_GROUP,
  TRI_COMPARED_IN_STEP,
  TRI_COMPARED_WITH_0,
  TRI_COMPARED_WITH_GREEDY
} tri_compared;

/* Zero-initialise. The first members are the caller's to set, names borrowed; the others belong to
 * health.c. */
typedef struct tri_health {
  int          n_reward;
  const char  *name[TRI_REWARDS_MAX];
  double       most[TRI_REWARDS_MAX]; /* that each adds to the sum of rewards; 0: it only takes away */
  int64_t      max_response_length;   /* tokens */
  tri_compared compared;              /* with what an answer must differ to be learned from */
  bool         unclipped;             /* no clip can take the gradient */

  /* Steps in a row up to the last one in which: */
  int       constant;                      /* every answer got the same sum of rewards */
  int       flat;                          /* no answer differed from what it is compared with */
  int       unearned[TRI_REWARDS_MAX];     /* no answer earned this one, which counts for something */
  int       failed[TRI_REWARDS_MAX];       /* this one could not judge over half of the answers */
  int       cut;                           /* over a fifth of the answers were cut */
  int       still;                         /* the gradient was 0 though rewards differ */
  float     sum;                           /* the last step's constant sum */
  double    cut_ratio, grad_norm;          /* the last step's */
  double    failed_ratio[TRI_REWARDS_MAX]; /* the same, of each reward */
  uint64_t  said;                          /* bit: cause that was warned of */
  tri_trend trend;                         /* `given`, `selected` and `lost` are the caller's */
} tri_health;

/* Share of the groups whose rewards are all equal. Not collective. */
double tri_health_zero_variance(const tri_rollout *r);
/* Share of the answers that were cut at the longest length. Not collective. */
double tri_health_truncated(const tri_rollout *r);
/* Not collective. A metric of the step, before observe; those that are not watched are passed over. */
void tri_health_see(tri_health *h, const char *metric, double value);
/* Not collective. One step: its rollout with rewards (NULL: nothing was generated) and the norm of its last
 * gradient. */
void tri_health_observe(tri_health *h, const tri_rollout *r, double grad_norm);
enum { TRI_HEALTH_WARNING = 1024 }; /* bytes of a warning; chosen: over twice as many as the longest has */
/* Not collective. The next warning that is due after the steps observed, as text with its cure; false: none.
 * Each cause comes once. */
bool tri_health_next(tri_health *h, char *out, size_t bytes);
/* Not collective. The same, with the code and the numbers of *notice; its text is out. */
bool tri_health_notice(tri_health *h, char *out, size_t bytes, tri_notice *notice);
/* Not collective. The causes that the last step observed has, a word each ("truncation kl_jump"), warned of
 * before or not; "": none. */
void tri_health_words(const tri_health *h, char *out, size_t bytes);
/* Not collective, but the same on every rank: all that are due, which one rank (`speaks`) logs as of this
 * step. */
void tri_health_warn(tri_health *h, int64_t step, bool speaks);

enum { TRI_HEALTH_TEXT = 8192 }; /* bytes of what keep writes; chosen: over twice as many as it can have */
/* Not collective. All that steps left behind but the warnings given, as one line of text, and from it:
 * TRI_EFORMAT where it is none of keep's. */
void                   tri_health_keep(tri_health *h, char out[TRI_HEALTH_TEXT]);
TRI_CHECKED tri_status tri_health_restore(tri_health *h, const char *text);

#endif
