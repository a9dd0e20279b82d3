/* trend.c - compares numbers of a run's steps with their past, and finds the ones that went wrong. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "trend.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  FIRST = 5, /* chosen. Steps at the beginning of a run, as a single one may be unusual */
  /* Chosen, steps of a running mean and of a block. The mean reward of a quickstart step, with 768 answers,
   * varies by 0.015 (measured), and a block's mean by a fourth of that. */
  WINDOW = 20
};

#define SHORT_SHARE 0.1  /* chosen. In healthy runs answers shrink by half at most */
#define SHORT_LEAST 8.0  /* tokens. Chosen, as shorter answers have no space to shrink by that share */
#define KL_FACTOR   10.0 /* chosen. KL grows steadily, and after quadratic growth it is 3 times its mean */
#define KL_LEAST    0.1  /* nats. Chosen, as below this the policy is near its reference, even after a jump */
#define KL_MOST                                                                                              \
  2.0 /* nats per token. Chosen, as healthy quickstarts end at 0.4 and a hacked reward model's at 11 */
#define ALIKE_LEAST  0.01 /* nats. Chosen, as one token in a thousand then differs */
#define ALIKE_SHARE  0.05 /* share of the first entropy. Chosen, as healthy quickstarts end at a sixth */
#define TOP_SHARE    0.1  /* share of the range of rewards. Chosen, as no gain is expected so near the top */
#define GAIN_ERRORS  2.0  /* standard errors. Chosen, as chance stays below in 19 of 20 blocks */
#define IDLE_BLOCKS  3    /* chosen, 60 steps. A healthy run may pause for one block */
#define VALUE_FACTOR 10.0 /* chosen, as a healthy critic's loss falls */
#define BLIND_MOST                                                                                           \
  -0.1 /* chosen. Healthy quickstarts go down to -0.02, a critic that hardly learns stays at -0.5 */
#define STEPS_KL     1 /* a jump ends when the mean has followed */
#define STEPS_OTHERS 3 /* consecutive. Chosen, as small batches have one or two such steps by chance */

static const struct {
  const char *metric;
  bool        any; /* with any prefix, summed over all learners */
} watched[TRI_SEEN_COUNT] = {[TRI_SEEN_LENGTH] = {"response_length_mean_tokens", false},
                             [TRI_SEEN_ENTROPY] = {"entropy_mean_nats", false},
                             [TRI_SEEN_KL] = {"kl_mean_nats", false},
                             [TRI_SEEN_VALUE_LOSS] = {"value_loss", false},
                             [TRI_SEEN_EXPLAINED] = {"explained_variance", false},
                             [TRI_SEEN_REWARD] = {"reward_mean", false},
                             [TRI_SEEN_REWARD_STD] = {"reward_std", false},
                             [TRI_SEEN_SKIPPED] = {"skipped_steps", true},
                             [TRI_SEEN_OVERFLOW] = {"overflow_steps", true}};

/* ---- numbers of a step ---- */

static bool is_named(int i, const char *metric) {
  size_t n = strlen(metric), end = strlen(watched[i].metric);

  if (!watched[i].any) return !strcmp(metric, watched[i].metric);
  return n >= end && !strcmp(metric + n - end, watched[i].metric);
}

void tri_trend_see(tri_trend *t, const char *metric, double value) {
  for (int i = 0; i < TRI_SEEN_COUNT; i++) {
    tri_trend_series *c = &t->of[i];
    if (!is_named(i, metric) || isnan(value)) continue; /* NaN if no answer of the step was left */
    c->now = c->seen && watched[i].any ? c->now + value : value;
    c->seen = true;
  }
}

/* Adds the step's value to the past. */
static void follow(tri_trend_series *c) {
  int n = c->n < WINDOW ? c->n + 1 : WINDOW;

  if (!c->seen) return;
  if (c->n < FIRST) c->first += (c->now - c->first) / (c->n + 1);
  c->mean += (c->now - c->mean) / n;
  c->before = c->now;
  c->n++;
}

static void see_rewards(tri_trend *t, const tri_rollout *r) {
  bool first = t->of[TRI_SEEN_REWARD].n == 0;

  for (int q = 0; q < r->n_seq; q++) {
    if (!tri_rollout_counts(r, q)) continue;
    double x = (double)r->reward[q];
    if (first || x > t->highest) t->highest = x;
    if (first || x < t->lowest) t->lowest = x;
    first = false;
  }
}

/* True if most answers are about as good as the best ever given. */
static bool is_at_the_top(const tri_trend *t) {
  return t->of[TRI_SEEN_REWARD].mean >= t->highest - TOP_SHARE * (t->highest - t->lowest);
}

/* Ends a full block of steps, and checks if its reward exceeds the best block by more than chance. */
static void close_block(tri_trend *t) {
  double mean = t->block.sum / WINDOW, noise = t->block.square / WINDOW - mean * mean;
  bool   first = t->of[TRI_SEEN_REWARD].n < WINDOW;

  if (noise < 0) noise = 0;
  if (first || mean > t->block.best + GAIN_ERRORS * sqrt((noise + t->block.noise) / WINDOW)) {
    t->block.best = mean;
    t->block.noise = noise;
    t->block.idle = 0;
  } else
    t->block.idle++;
  t->block.sum = t->block.square = 0;
  t->block.n = 0;
}

static void follow_block(tri_trend *t) {
  const tri_trend_series *c = &t->of[TRI_SEEN_REWARD];

  if (!c->seen) return;
  t->block.sum += c->now;
  t->block.square += c->now * c->now;
  if (++t->block.n == WINDOW) close_block(t);
}

/* ---- findings ---- */

static bool is_short(const tri_trend *t) {
  const tri_trend_series *c = &t->of[TRI_SEEN_LENGTH];

  return !t->given && c->n >= FIRST && c->first >= SHORT_LEAST && c->now < SHORT_SHARE * c->first;
}

static bool is_kl_jump(const tri_trend *t) {
  const tri_trend_series *c = &t->of[TRI_SEEN_KL];

  return c->n >= WINDOW / 2 && c->now > KL_LEAST && c->now > KL_FACTOR * c->mean;
}

static bool is_far(const tri_trend *t) { return t->of[TRI_SEEN_KL].now > KL_MOST; }

static bool is_alike(const tri_trend *t) {
  const tri_trend_series *c = &t->of[TRI_SEEN_ENTROPY];

  if (!t->of[TRI_SEEN_REWARD].seen || c->n < FIRST || is_at_the_top(t)) return false;
  return c->now < ALIKE_LEAST || c->now < ALIKE_SHARE * c->first;
}

/* True if the reward is stuck. If all answers earn the same, that is another finding. */
static bool is_stuck(const tri_trend *t) {
  return !t->given && !t->selected && t->block.idle >= IDLE_BLOCKS && t->of[TRI_SEEN_REWARD_STD].now > 0 &&
         !is_at_the_top(t);
}

/* True if the critic diverges. For comparison, a critic that always predicts 0 has a loss of about half the
 * mean square of the rewards. */
static bool is_exploding(const tri_trend *t) {
  const tri_trend_series *c = &t->of[TRI_SEEN_VALUE_LOSS];
  double                  mean = t->of[TRI_SEEN_REWARD].now, std = t->of[TRI_SEEN_REWARD_STD].now;

  return c->n >= WINDOW / 2 && c->now > VALUE_FACTOR * c->mean && c->now > mean * mean + std * std;
}

/* True if returns vary more after subtracting the critic's values than before. */
static bool is_blind(const tri_trend *t) {
  const tri_trend_series *c = &t->of[TRI_SEEN_EXPLAINED];

  return c->n >= WINDOW && c->mean < BLIND_MOST && c->now < BLIND_MOST;
}

/* True if an update was skipped unexpectedly. Lowering the loss scale skips steps by design, and a step
 * without answers has no gradient. */
static bool is_skipped(const tri_trend *t) {
  const tri_trend_series *all = &t->of[TRI_SEEN_SKIPPED], *given = &t->of[TRI_SEEN_OVERFLOW];

  return all->now - all->before > given->now - given->before + (double)t->lost;
}

static const struct {
  const char *word;
  tri_seen    of; /* metric of this finding */
  int         steps;
  bool (*is)(const tri_trend *t);
} kinds[TRI_TREND_COUNT] = {
    [TRI_TREND_LENGTH] = {"length_collapse", TRI_SEEN_LENGTH, STEPS_OTHERS, is_short},
    [TRI_TREND_KL] = {"kl_jump", TRI_SEEN_KL, STEPS_KL, is_kl_jump},
    [TRI_TREND_ENTROPY] = {"entropy_collapse", TRI_SEEN_ENTROPY, STEPS_OTHERS, is_alike},
    [TRI_TREND_REWARD] = {"reward_stuck", TRI_SEEN_REWARD, 1, is_stuck}, /* blocks are long enough */
    [TRI_TREND_VALUE] = {"value_loss_explodes", TRI_SEEN_VALUE_LOSS, STEPS_OTHERS, is_exploding},
    [TRI_TREND_BLIND] = {"critic_blind", TRI_SEEN_EXPLAINED, STEPS_OTHERS, is_blind},
    [TRI_TREND_SKIPPED] = {"non_finite", TRI_SEEN_SKIPPED, 1, is_skipped},
    [TRI_TREND_FAR] = {"kl_high", TRI_SEEN_KL, STEPS_OTHERS, is_far}};

void tri_trend_step(tri_trend *t, const tri_rollout *r) {
  bool exploding;

  if (r) see_rewards(t, r);
  follow_block(t);
  for (int k = 0; k < TRI_TREND_COUNT; k++)
    t->row[k] = t->of[kinds[k].of].seen && kinds[k].is(t) ? t->row[k] + 1 : 0;
  exploding = t->row[TRI_TREND_VALUE] > 0; /* the reference for comparison then stays as it was */
  for (int i = 0; i < TRI_SEEN_COUNT; i++) {
    if (!(exploding && i == TRI_SEEN_VALUE_LOSS)) follow(&t->of[i]);
    t->of[i].seen = false;
  }
}

bool tri_trend_is_on(const tri_trend *t, tri_trend_kind kind) { return t->row[kind] >= kinds[kind].steps; }
const char *tri_trend_word(tri_trend_kind kind) { return kinds[kind].word; }

/* ---- in words ---- */

static void say_skipped(const tri_trend *t, char *out, size_t bytes) {
  snprintf(out, bytes,
           "a gradient was not finite, and its optimizer step was skipped (skipped_steps now %.0f). The log "
           "names the tensor. Check the step's data and rewards, or lower train.learning_rate.",
           t->of[TRI_SEEN_SKIPPED].now);
}

void tri_trend_say(const tri_trend *t, tri_trend_kind kind, char *out, size_t bytes) {
  const tri_trend_series *c = &t->of[kinds[kind].of];

  switch (kind) {
  case TRI_TREND_LENGTH:
    snprintf(
        out, bytes,
        "the length of answers collapses. They have %.3g tokens, below a tenth of the first steps' %.3g, "
        "for %d steps. Check the rewards of short answers (rollout.save_every: 1), or lower "
        "train.learning_rate.",
        c->now, c->first, STEPS_OTHERS);
    return;
  case TRI_TREND_KL:
    snprintf(out, bytes,
             "kl_mean_nats jumped to %.3g, over 10 times its running mean. The policy leaves its reference. "
             "Lower train.learning_rate, or raise algo.kl_coef.",
             c->now);
    return;
  case TRI_TREND_ENTROPY:
    snprintf(out, bytes,
             "entropy_mean_nats is %.3g for %d steps (%.3g in the first ones) while rewards are not at their "
             "best. All answers are alike, and the policy tries nothing new. Raise rollout.temperature or "
             "algo.entropy_coef, or lower train.learning_rate.",
             c->now, STEPS_OTHERS, c->first);
    return;
  case TRI_TREND_REWARD:
    snprintf(out, bytes,
             "the mean reward did not rise above %.3g by more than chance in %d steps, and the best answers "
             "earn %.3g. Check zero_variance_ratio and grad_norm in metrics.jsonl, and answers "
             "(rollout.save_every: 1). Raise train.learning_rate or the answers of a step.",
             t->block.best, IDLE_BLOCKS * WINDOW, t->highest);
    return;
  case TRI_TREND_VALUE:
    snprintf(out, bytes,
             "the critic diverges. value_loss is %.3g, over 10 times its earlier running mean (%.3g), for %d "
             "steps, and larger than for a critic with constant value 0. Lower critic.learning_rate.",
             c->now, c->mean, STEPS_OTHERS);
    return;
  case TRI_TREND_BLIND:
    snprintf(
        out, bytes,
        "explained_variance is %.3g, and below 0 over the last %d steps. Advantages vary more with the "
        "critic's values than without them. Raise critic.learning_rate (not train.learning_rate), or let "
        "the critic learn alone first (critic.warmup_steps).",
        c->now, WINDOW);
    return;
  case TRI_TREND_SKIPPED:
    say_skipped(t, out, bytes);
    return;
  case TRI_TREND_FAR:
    snprintf(
        out, bytes,
        "kl_mean_nats is %.3g, over %g for each token, for %d steps. The policy is far from its reference, "
        "and a reward model has not learned to judge such answers. Read some (rollout.save_every: 1). "
        "Raise algo.kl_coef, lower train.learning_rate or stop earlier.",
        c->now, KL_MOST, STEPS_OTHERS);
    return;
  case TRI_TREND_COUNT:
    break;
  }
  TRI_ASSERT(false);
}

void tri_trend_notice(const tri_trend *t, tri_trend_kind kind, tri_notice *n) {
  const tri_trend_series *c = &t->of[kinds[kind].of];
  bool                    stuck = kind == TRI_TREND_REWARD;
  tri_notice_number       first = {"first", c->first}, mean = {"mean", c->mean};

  n->code = kinds[kind].word;
  n->n_number = 0;
  n->number[n->n_number++] = (tri_notice_number){"value", c->now};
  if (kind == TRI_TREND_LENGTH || kind == TRI_TREND_ENTROPY) n->number[n->n_number++] = first;
  if (kind == TRI_TREND_KL || kind == TRI_TREND_VALUE) n->number[n->n_number++] = mean;
  if (stuck) n->number[n->n_number++] = (tri_notice_number){"best_mean", t->block.best};
  if (stuck) n->number[n->n_number++] = (tri_notice_number){"highest", t->highest};
}

/* ---- saved state ---- */

/* Returns a count from a file, or 0 if it is impossible. */
static int count_of(double x) { return x > 0 && x < INT_MAX ? (int)x : 0; }

int tri_trend_numbers(tri_trend *t, double *x, bool back) {
  int n = 0;

#define NUMBER(member) (back ? (void)((member) = x[n]) : (void)(x[n] = (member)), n++)
#define COUNT(member)  (back ? (void)((member) = count_of(x[n])) : (void)(x[n] = (double)(member)), n++)
  for (int i = 0; i < TRI_SEEN_COUNT; i++) {
    NUMBER(t->of[i].now); /* reports are about the last step */
    NUMBER(t->of[i].before);
    NUMBER(t->of[i].first);
    NUMBER(t->of[i].mean);
    COUNT(t->of[i].n);
  }
  NUMBER(t->highest);
  NUMBER(t->lowest);
  NUMBER(t->block.sum);
  NUMBER(t->block.square);
  NUMBER(t->block.best);
  NUMBER(t->block.noise);
  COUNT(t->block.n);
  COUNT(t->block.idle);
  for (int k = 0; k < TRI_TREND_COUNT; k++) COUNT(t->row[k]);
#undef NUMBER
#undef COUNT
  TRI_ASSERT(n <= TRI_TREND_NUMBERS);
  return n;
}
