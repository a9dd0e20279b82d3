/* health.c - detects in each step that a run learns nothing, and warns once for each cause. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "health.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_MOST    0.2 /* chosen. Healthy runs have some cut answers in a hundred */
#define CUT_MOSTLY  0.5 /* chosen. Above this the length, not the model, decides the rewards */
#define FAILED_MOST 0.5 /* chosen. Above this the reward's failures decide the rewards */

/* Bits of `said`. The bits of single rewards and of trends follow. */
enum {
  SAID_NO_BETTER,
  SAID_CUT,
  SAID_STILL,
  SAID_REWARD,
  SAID_FAILED = SAID_REWARD + TRI_REWARDS_MAX,
  SAID_TREND = SAID_FAILED + TRI_REWARDS_MAX,
  SAID_END = SAID_TREND + TRI_TREND_COUNT
};
_Static_assert(SAID_END <= 64, "said has a bit for each");

/* Returns the first counted sequence from q on, or r->n_seq for none. */
static int next_counted(const tri_rollout *r, int q) {
  while (q < r->n_seq && !tri_rollout_counts(r, q)) q++;
  return q;
}

double tri_health_zero_variance(const tri_rollout *r) {
  int equal = 0, groups = 0;

  for (int g = 0; g < r->n_seq; g += r->group) {
    int  first = next_counted(r, g), end = g + r->group;
    bool same = true;
    if (first >= end) continue;
    for (int q = first; q < end; q = next_counted(r, q + 1)) same = same && r->reward[q] == r->reward[first];
    equal += same;
    groups++;
  }
  return groups ? (double)equal / groups : NAN;
}

double tri_health_truncated(const tri_rollout *r) {
  int cut = 0, n = 0;

  for (int q = next_counted(r, 0); q < r->n_seq; q = next_counted(r, q + 1), n++)
    cut += r->stop[q] == TRI_STOP_LENGTH;
  return n ? (double)cut / n : NAN;
}

static bool is_constant(const tri_rollout *r) {
  int first = next_counted(r, 0);

  for (int q = first; q < r->n_seq; q = next_counted(r, q + 1))
    if (r->reward[q] != r->reward[first]) return false;
  return true;
}

/* True if reward i was 0 for every answer. */
static bool is_unearned(const tri_rollout *r, int i) {
  for (int q = next_counted(r, 0); q < r->n_seq; q = next_counted(r, q + 1))
    if (r->part[(int64_t)q * r->n_reward + i] != 0) return false;
  return true;
}

static void count(int *steps, bool again) { *steps = again ? *steps + 1 : 0; }

static bool is_greedy(const tri_rollout *r) {
  for (int q = next_counted(r, 0); q < r->n_seq; q = next_counted(r, q + 1))
    if (r->reward[q] != r->baseline[q]) return false;
  return true;
}

/* True if no answer differs from its comparison. A single answer to a prompt is compared with the whole
 * step. */
static bool is_flat(const tri_health *h, const tri_rollout *r) {
  if (h->compared == TRI_COMPARED_WITH_GREEDY) return is_greedy(r);
  if (h->compared == TRI_COMPARED_WITH_0) return is_constant(r) && r->reward[next_counted(r, 0)] == 0;
  if (h->compared == TRI_COMPARED_IN_STEP || r->group == 1) return is_constant(r);
  return tri_health_zero_variance(r) == 1;
}

/* Returns the share of answers, including those that left the step, that reward i could not judge. */
static double failed_share(const tri_rollout *r, int i) {
  int n = 0;

  for (int q = 0; q < r->n_seq; q++) n += (r->failed[q] & (1 << i | TRI_FAILED_TEXT)) != 0;
  return r->n_seq ? (double)n / r->n_seq : 0;
}

static void observe_failures(tri_health *h, const tri_rollout *r) {
  for (int i = 0; i < h->n_reward && i < r->n_reward; i++) {
    h->failed_ratio[i] = failed_share(r, i);
    count(&h->failed[i], h->failed_ratio[i] > FAILED_MOST);
  }
}

/* True if a reward failed on most answers of the last step. Then this makes rewards equal, not the
 * answers. */
static bool is_failing(const tri_health *h) {
  for (int i = 0; i < h->n_reward; i++)
    if (h->failed[i]) return true;
  return false;
}

static void observe_rewards(tri_health *h, const tri_rollout *r) {
  bool  constant = is_constant(r);
  float sum;

  observe_failures(h, r);
  if (next_counted(r, 0) == r->n_seq) return; /* no answer of the step is left */
  sum = r->reward[next_counted(r, 0)];
  count(&h->flat, !is_failing(h) && is_flat(h, r));
  if (h->constant && sum != h->sum) h->constant = 0; /* another constant than before */
  count(&h->constant, constant);
  h->sum = sum;
  for (int i = 0; i < h->n_reward && i < r->n_reward; i++)
    count(&h->unearned[i], h->most[i] > 0 && !h->failed[i] && is_unearned(r, i));
  h->cut_ratio = tri_health_truncated(r);
  count(&h->cut, h->cut_ratio > CUT_MOST);
}

void tri_health_see(tri_health *h, const char *metric, double value) {
  tri_trend_see(&h->trend, metric, value);
}

void tri_health_observe(tri_health *h, const tri_rollout *r, double grad_norm) {
  bool is_left = !r || next_counted(r, 0) < r->n_seq; /* without any, the cause was already reported */

  if (r) observe_rewards(h, r);
  tri_trend_step(&h->trend, r);
  h->grad_norm = grad_norm;
  count(&h->still, grad_norm == 0 && !h->flat && !is_failing(h) && is_left);
}

/* True if the cause is due for a report. Marks it as reported. */
static bool is_due(tri_health *h, int steps, int cause) {
  if (steps < TRI_HEALTH_STEPS || h->said >> cause & 1u) return false;
  h->said |= UINT64_C(1) << cause;
  return true;
}

/* Writes names such as "exact" or "exact + regex". */
static void name_rewards(const tri_health *h, char *out, size_t bytes) {
  snprintf(out, bytes, "%s", h->n_reward ? h->name[0] : "of the replay");
  for (int i = 1; i < h->n_reward; i++) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, " + %s", h->name[i]);
  }
}

/* Returns the consequence if no answer is better than another. */
static const char *what_is_learned(const tri_health *h) {
  return h->grad_norm == 0
             ? "the gradient is 0, and the policy learns nothing"
             : "and the policy learns nothing from rewards. Only algo.kl_coef or algo.entropy_coef moves "
               "the weights";
}

/* True if the constant sum is the highest possible. For a replay, with unknown rewards, true if it is above
 * 0. */
static bool is_highest(const tri_health *h) {
  double highest = 0;

  for (int i = 0; i < h->n_reward; i++) highest += h->most[i];
  if (!h->n_reward) return h->sum > 0;
  return (double)h->sum > highest - 1e-6 * (1 + highest); /* 1e-6, because sums are f32 */
}

/* Returns a way to make answers differ. */
static const char *cure_constant(const tri_health *h) {
  if (is_highest(h)) return "Give harder prompts or a stricter reward";
  if (h->cut_ratio > CUT_MOSTLY)
    return "Most answers were cut before their end (truncated_ratio), and this may be the reason";
  return "Give prompts that the model solves at times, or a warm start (algo.name: sft)";
}

static void say_constant(const tri_health *h, char *out, size_t bytes) {
  char names[256];

  name_rewards(h, names, sizeof names);
  snprintf(out, bytes,
           "reward %s was %g for every answer of %d steps. No answer is better than another, %s. %s. Give "
           "rollout.save_every: 1 to see answers with their rewards.",
           names, (double)h->sum, TRI_HEALTH_STEPS, what_is_learned(h), cure_constant(h));
}

static void say_cut(const tri_health *h, char *out, size_t bytes) {
  snprintf(
      out, bytes,
      "over 20 %% of the answers were cut at rollout.max_response_length = %lld for %d steps (now %.0f "
      "%%), before their result. Raise it, let answers end earlier (rollout.stop, a warm start on finished "
      "answers), or leave cut answers out of the loss (algo.mask_truncated: true).",
      (long long)h->max_response_length, TRI_HEALTH_STEPS, 100 * h->cut_ratio);
}

static void say_failed(const tri_health *h, int i, char *out, size_t bytes) {
  snprintf(
      out, bytes,
      "reward %s failed on over half of the answers of %d steps (now %.0f %%), and the policy learns "
      "little or nothing from it. The warning of its first failure gives the reason. Fix it, and try the "
      "reward by itself (trireme eval --reward).",
      h->name[i], TRI_HEALTH_STEPS, 100 * h->failed_ratio[i]);
}

static void say_flat(const tri_health *h, char *out, size_t bytes) {
  bool greedy = h->compared == TRI_COMPARED_WITH_GREEDY;

  snprintf(
      out, bytes,
      "for %d steps all answers to a prompt got equal rewards (%s). No answer is better than another, %s. "
      "Raise rollout.temperature or algo.num_generations, or give prompts that the model solves at times.",
      TRI_HEALTH_STEPS, greedy ? "equal to the greedy answer's" : "zero_variance_ratio 1",
      what_is_learned(h));
}

static void name_it(tri_notice *n, const char *code, const char *of) {
  n->code = code;
  n->of = of;
}

static void add_number(tri_notice *n, const char *name, double value) {
  TRI_ASSERT(n->n_number < TRI_NOTICE_NUMBERS);
  n->number[n->n_number++] = (tri_notice_number){name, value};
}

/* Reports rewards that are equal but should differ. */
static void say_no_better(const tri_health *h, char *out, size_t bytes, tri_notice *n) {
  name_it(n, "no_variance", NULL);
  add_number(n, "grad_norm", h->grad_norm);
  if (h->constant < TRI_HEALTH_STEPS) {
    say_flat(h, out, bytes);
    return;
  }
  add_number(n, "reward", (double)h->sum);
  say_constant(h, out, bytes);
}

static void say_unearned(const tri_health *h, int i, char *out, size_t bytes) {
  snprintf(
      out, bytes,
      "reward %s was 0 for every answer of %d steps. Give rollout.save_every: 1 to see answers with their "
      "rewards.",
      h->name[i], TRI_HEALTH_STEPS);
}

static void say_still(const tri_health *h, char *out, size_t bytes) {
  snprintf(out, bytes, "the gradient was 0 for %d steps, and the policy learns nothing. %s.",
           TRI_HEALTH_STEPS,
           !h->n_reward   ? "Check if the data holds anything new for the model"
           : h->unclipped ? "Check the answers and their rewards (rollout.save_every: 1)"
                          : "Check clip_ratio in metrics.jsonl and algo.clip_eps");
}

/* Writes the next due warning about one reward or all answers. Returns false if none is due. */
static bool next_of_rewards(tri_health *h, char *out, size_t bytes, tri_notice *n) {
  for (int i = 0; i < h->n_reward; i++)
    if (is_due(h, h->failed[i], SAID_FAILED + i)) {
      name_it(n, "reward_failing", h->name[i]);
      add_number(n, "failed_ratio", h->failed_ratio[i]);
      say_failed(h, i, out, bytes);
      return true;
    }
  /* Comes early, because cuts may be the reason that no answer earns anything. */
  if (is_due(h, h->cut, SAID_CUT)) {
    name_it(n, "truncation", NULL);
    add_number(n, "truncated_ratio", h->cut_ratio);
    say_cut(h, out, bytes);
    return true;
  }
  if (is_due(h, h->flat, SAID_NO_BETTER)) {
    say_no_better(h, out, bytes, n);
    return true;
  }
  for (int i = 0; h->n_reward > 1 && !h->constant && i < h->n_reward; i++)
    if (is_due(h, h->unearned[i], SAID_REWARD + i)) {
      name_it(n, "reward_unearned", h->name[i]);
      say_unearned(h, i, out, bytes);
      return true;
    }
  return false;
}

bool tri_health_notice(tri_health *h, char *out, size_t bytes, tri_notice *notice) {
  *notice = (tri_notice){.kind = TRI_NOTICE_WARNING, .text = out, .step = -1};
  if (next_of_rewards(h, out, bytes, notice)) return true;
  if (is_due(h, h->still, SAID_STILL)) {
    name_it(notice, "no_gradient", NULL);
    say_still(h, out, bytes);
    return true;
  }
  for (int k = 0; k < TRI_TREND_COUNT; k++)
    if (tri_trend_is_on(&h->trend, (tri_trend_kind)k) && is_due(h, TRI_HEALTH_STEPS, SAID_TREND + k)) {
      tri_trend_notice(&h->trend, (tri_trend_kind)k, notice);
      tri_trend_say(&h->trend, (tri_trend_kind)k, out, bytes);
      return true;
    }
  return false;
}

bool tri_health_next(tri_health *h, char *out, size_t bytes) {
  tri_notice notice;

  return tri_health_notice(h, out, bytes, &notice);
}

static void add_word(char *out, size_t bytes, bool on, const char *word) {
  size_t used = strlen(out);

  if (!on) return;
  TRI_ASSERT(used + strlen(word) + 2 <= bytes);
  snprintf(out + used, bytes - used, "%s%s", used ? " " : "", word);
}

void tri_health_words(const tri_health *h, char *out, size_t bytes) {
  bool unearned = false, failed = false;

  for (int i = 0; i < h->n_reward; i++) {
    unearned |= h->unearned[i] >= TRI_HEALTH_STEPS;
    failed |= h->failed[i] >= TRI_HEALTH_STEPS;
  }
  out[0] = 0;
  add_word(out, bytes, failed, "reward_failing");
  add_word(out, bytes, h->cut >= TRI_HEALTH_STEPS, "truncation");
  add_word(out, bytes, h->flat >= TRI_HEALTH_STEPS, "no_variance");
  add_word(out, bytes, unearned, "reward_unearned");
  add_word(out, bytes, h->still >= TRI_HEALTH_STEPS, "no_gradient");
  for (int k = 0; k < TRI_TREND_COUNT; k++)
    add_word(out, bytes, tri_trend_is_on(&h->trend, (tri_trend_kind)k), tri_trend_word((tri_trend_kind)k));
}

void tri_health_warn(tri_health *h, int64_t step, bool speaks) {
  char       text[TRI_HEALTH_WARNING], said[TRI_HEALTH_WARNING + 32];
  tri_notice notice;

  while (tri_health_notice(h, text, sizeof text, &notice)) {
    notice.step = step;
    notice.text = said;
    snprintf(said, sizeof said, "step %lld: %s", (long long)step, text);
    if (speaks) tri_warn_notice(&notice);
  }
}

/* ---- saved state ---- */

enum { KEPT_NUMBERS = 8 + 3 * TRI_REWARDS_MAX + TRI_TREND_NUMBERS };

/* Returns a count from a file, or 0 if it is impossible. */
static int count_of(double x) { return x > 0 && x < INT_MAX ? (int)x : 0; }

/* Writes the past as numbers to x [KEPT_NUMBERS], or with `back` reads it from them. Returns their number. */
static int numbers(tri_health *h, double *x, bool back) {
  int *const    count[] = {&h->constant, &h->flat, &h->cut, &h->still};
  double *const value[] = {&h->cut_ratio, &h->grad_norm};
  int           n = 0;

#define NUMBER(member, from) (back ? (void)((member) = (from)) : (void)(x[n] = (double)(member)), n++)
  for (size_t i = 0; i < sizeof count / sizeof *count; i++) NUMBER(*count[i], count_of(x[n]));
  for (size_t i = 0; i < sizeof value / sizeof *value; i++) NUMBER(*value[i], x[n]);
  NUMBER(h->sum, (float)x[n]);
  for (int i = 0; i < TRI_REWARDS_MAX; i++) {
    NUMBER(h->unearned[i], count_of(x[n]));
    NUMBER(h->failed[i], count_of(x[n]));
    NUMBER(h->failed_ratio[i], x[n]);
  }
#undef NUMBER
  return n + tri_trend_numbers(&h->trend, x + n, back);
}

void tri_health_keep(tri_health *h, char out[TRI_HEALTH_TEXT]) {
  double x[KEPT_NUMBERS];
  int    n = numbers(h, x, false), used = 0;

  for (int i = 0; i < n; i++)
    used += snprintf(out + used, (size_t)(TRI_HEALTH_TEXT - used), "%.17g%s", x[i], i + 1 < n ? " " : "\n");
  TRI_ASSERT(used < TRI_HEALTH_TEXT);
}

tri_status tri_health_restore(tri_health *h, const char *text) {
  double      x[KEPT_NUMBERS] = {0};
  tri_health  all = *h; /* to find the number of numbers */
  int         n = numbers(&all, x, false), i = 0;
  const char *at = text;

  for (char *end; i < n; i++, at = end) {
    x[i] = strtod(at, &end);
    if (end == at) break;
  }
  if (i < n || strcmp(at, "\n") != 0)
    TRI_FAIL(TRI_EFORMAT, "the saved health of a run does not have %d numbers: %.80s", n, text);
  numbers(h, x, true);
  return TRI_OK;
}
