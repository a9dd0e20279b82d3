/* health.h - detects in each step that a run learns nothing, and warns once for each cause. Not collective,
 * all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HEALTH_H
#define TRI_HEALTH_H

#include "base/notice.h"
#include "trend.h"

/* Consecutive steps. Chosen, because small batches have one or two such steps by chance. */
enum { TRI_HEALTH_STEPS = 3 };

/* The comparison that makes an advantage 0. A reward equals the others of its group, or all of the step, or
 * 0, or the reward of the greedy answer. */
typedef enum {
  TRI_COMPARED_IN_GROUP,
  TRI_COMPARED_IN_STEP,
  TRI_COMPARED_WITH_0,
  TRI_COMPARED_WITH_GREEDY
} tri_compared;

/* Initialize to zero. The caller sets the first members, with borrowed names. The others belong to
 * health.c. */
typedef struct tri_health {
  int          n_reward;
  const char  *name[TRI_REWARDS_MAX];
  double       most[TRI_REWARDS_MAX]; /* largest contribution to the sum of rewards, or 0 for a penalty */
  int64_t      max_response_length;   /* tokens */
  tri_compared compared;              /* rewards that an answer must differ from to teach something */
  bool         unclipped;             /* no clip can zero the gradient */

  /* Consecutive steps, up to the last one, with this finding. */
  int       constant;                      /* every answer got the same sum of rewards */
  int       flat;                          /* no answer differed from its comparison */
  int       unearned[TRI_REWARDS_MAX];     /* no answer earned this reward, although its weight is not 0 */
  int       failed[TRI_REWARDS_MAX];       /* this reward could not judge over half of the answers */
  int       cut;                           /* over a fifth of the answers were cut */
  int       still;                         /* the gradient was 0 although rewards differ */
  float     sum;                           /* constant sum of the last step */
  double    cut_ratio, grad_norm;          /* in the last step */
  double    failed_ratio[TRI_REWARDS_MAX]; /* in the last step, for each reward */
  uint64_t  said;                          /* one bit for each cause already warned of */
  tri_trend trend;                         /* the caller sets `given`, `selected` and `lost` */
} tri_health;

/* Returns the share of groups with all rewards equal. */
double tri_health_zero_variance(const tri_rollout *r);
/* Returns the share of answers cut at the maximum length. */
double tri_health_truncated(const tri_rollout *r);
/* Records a metric of the step, before observe. Ignores metrics that are not watched. */
void tri_health_see(tri_health *h, const char *metric, double value);
/* Records one step, with its rewarded rollout (NULL if nothing was generated) and the norm of its last
 * gradient. */
void tri_health_observe(tri_health *h, const tri_rollout *r, double grad_norm);
enum { TRI_HEALTH_WARNING = 1024 }; /* bytes of a warning. Chosen, over twice the longest */
/* Writes the next due warning after the observed steps, with its cure. Returns false if there is none. Each
 * cause is reported once. */
bool tri_health_next(tri_health *h, char *out, size_t bytes);
/* Does the same, and sets the code and numbers of *notice. Its text is out. */
bool tri_health_notice(tri_health *h, char *out, size_t bytes, tri_notice *notice);
/* Writes the causes present in the last observed step, as words ("truncation kl_jump"), whether warned of
 * before or not. Writes "" for none. */
void tri_health_words(const tri_health *h, char *out, size_t bytes);
/* Not collective, but the same on every rank. Takes all due warnings. The rank with `speaks` logs them for
 * this step. */
void tri_health_warn(tri_health *h, int64_t step, bool speaks);

enum { TRI_HEALTH_TEXT = 8192 }; /* bytes written by keep. Chosen, over twice the largest */
/* Write the state of all steps, except the warnings given, as one line of text, and read it back.
 * TRI_EFORMAT: the text is not from tri_health_keep. */
void                   tri_health_keep(tri_health *h, char out[TRI_HEALTH_TEXT]);
TRI_CHECKED tri_status tri_health_restore(tri_health *h, const char *text);

#endif
