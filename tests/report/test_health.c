/* test_health.c - steps that cause a warning, with one warning for each cause. Judge: exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "report/health.h"
#include "refusal_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 2, GROUP = 2, N = GROUPS * GROUP };

/* A rollout of two groups of two answers with these rewards, the first `cut` of them cut. */
static tri_rollout step_of(float reward[N], float *part, int n_reward, int cut) {
  static int32_t stop[N], none[N];

  for (int q = 0; q < N; q++) stop[q] = q < cut ? TRI_STOP_LENGTH : TRI_STOP_EOS;
  return (tri_rollout){.n_seq = N,
                       .group = GROUP,
                       .n_reward = n_reward,
                       .reward = reward,
                       .part = part,
                       .stop = stop,
                       .failed = none};
}

static tri_health health_of(int n_reward) {
  return (tri_health){
      .n_reward = n_reward, .name = {"exact", "regex"}, .most = {1, 0.1}, .max_response_length = 16};
}

/* Observes this many equal steps. Returns the number of warnings. text has a line for each: its code, its
 * reward, its numbers ("grad_norm=0;") and its sentences. */
static int observe(tri_health *h, const tri_rollout *r, double grad_norm, int steps, char text[4096]) {
  char       line[1024];
  tri_notice w;
  int        n = 0;

  text[0] = 0;
  for (int i = 0; i < steps; i++) {
    tri_health_observe(h, r, grad_norm);
    for (; tri_health_notice(h, line, sizeof line, &w); n++) {
      sprintf(text + strlen(text), "%s %s ", w.code, w.of ? w.of : "");
      for (int k = 0; k < w.n_number; k++)
        sprintf(text + strlen(text), "%s=%g; ", w.number[k].name, w.number[k].value);
      strcat(strcat(text, line), "\n");
    }
  }
  return n;
}

static void has(const char *text, const char *facts) {
  if (!tells(text, facts)) fail_msg("'%s' is missing in '%s'", facts, text);
}

static void learning_is_no_cause(void **state) {
  float       reward[N] = {0, 1, 1, 1};
  tri_rollout r = step_of(reward, reward, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  assert_true(tri_health_zero_variance(&r) == 0.5 && tri_health_truncated(&r) == 0);
  assert_int_equal(observe(&h, &r, 0.1, 100, text), 0);
  assert_int_equal(observe(&h, NULL, 0.1, 100, text), 0);
}

/* Rewards are equal within each group, but differ between groups. Nothing is learned if answers are compared
 * in their group. Something is learned if they are compared over the step or with 0. */
static void what_an_answer_is_compared_with(void **state) {
  static const struct {
    tri_compared compared;
    float        reward[N];
    int          warned;
  } row[] = {{TRI_COMPARED_IN_GROUP, {1, 1, 0, 0}, 1},
             {TRI_COMPARED_IN_STEP, {1, 1, 0, 0}, 0},
             {TRI_COMPARED_IN_STEP, {1, 1, 1, 1}, 1},
             {TRI_COMPARED_WITH_0, {1, 1, 1, 1}, 0},
             {TRI_COMPARED_WITH_0, {0, 0, 0, 0}, 1}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    float       reward[N];
    char        text[4096];
    tri_health  h = health_of(1);
    tri_rollout r;
    memcpy(reward, row[i].reward, sizeof reward);
    r = step_of(reward, reward, 1, 0);
    h.compared = row[i].compared;
    if (observe(&h, &r, 0.1, 10, text) != row[i].warned) fail_msg("row %zu: %s", i, text);
  }
}

/* If no clip can zero the gradient, the cure does not mention the clip. */
static void a_loss_without_a_clip_is_not_asked_for_it(void **state) {
  float       reward[N] = {0, 1, 1, 1};
  tri_rollout r = step_of(reward, reward, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  h.unclipped = true;
  assert_int_equal(observe(&h, &r, 0, 10, text), 1);
  has(text, "no_gradient rollout.save_every: !clip_ratio !algo.clip_eps");
}

static void constant_reward_is_named_once(void **state) {
  float       reward[N] = {0}, other[N] = {0, 1, 0, 1};
  tri_rollout r = step_of(reward, reward, 1, 0), learns = step_of(other, other, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS - 1, text), 0);
  assert_int_equal(observe(&h, &learns, 1, 1, text), 0);
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS - 1, text), 0);
  assert_int_equal(observe(&h, &r, 0, 50, text), 1);
  has(text, "no_variance grad_norm=0; reward=0; exact algo.name: sft !algo.kl_coef");
}

/* Rewards of at most 1 and 0.1, and a penalty of 0. At the highest sum the cure asks for harder prompts,
 * below it for easier ones. */
static void the_cure_follows_the_value(void **state) {
  static const struct {
    float sum, most;
    int   n_reward;
    bool  high;
  } row[] = {{1, 0, 1, true},        {0, 0, 1, false},   {1.1F, 0.1F, 2, true},
             {0.1F, 0.1F, 2, false}, {1, 0, 2, true},    {0, 0, 2, false},
             {-1, 0, 2, false},      {0.5F, 0, 0, true}, {0, 0, 0, false}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    float reward[N] = {row[i].sum, row[i].sum, row[i].sum, row[i].sum},
          part[2 * N] = {1, 1, 1, 1, 1, 1, 1, 1};
    tri_rollout r = step_of(reward, part, row[i].n_reward, 0);
    tri_health  h = health_of(row[i].n_reward);
    char        text[4096];
    h.most[1] = (double)row[i].most;
    assert_int_equal(observe(&h, &r, 0, 50, text), 1);
    has(text, row[i].high ? "no_variance !algo.name: !truncated_ratio" : "no_variance algo.name: sft");
  }
}

/* All answers are cut. The cut is reported first, and the reward's warning does not suggest a warm start. */
static void a_cut_is_the_first_cause(void **state) {
  float       reward[N] = {0};
  tri_rollout r = step_of(reward, reward, 1, N);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  assert_int_equal(observe(&h, &r, 0, 50, text), 2);
  expect_lines(text, "truncation truncated_ratio=1; rollout.max_response_length 16 100\n"
                     "no_variance exact reward=0; truncated_ratio !algo.name:");
}

/* The groups differ from each other, not within. */
static void equal_groups_are_another_cause(void **state) {
  float       reward[N] = {0, 0, 1, 1};
  tri_rollout r = step_of(reward, reward, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  assert_int_equal(observe(&h, &r, 0.1, 50, text), 1);
  has(text, "no_variance grad_norm=0.1; !reward= zero_variance_ratio 1 algo.kl_coef algo.entropy_coef");
}

/* An algorithm with one answer to a prompt compares it with the answers to other prompts. */
static void one_answer_is_no_group(void **state) {
  float       reward[N] = {0, 0, 1, 1}, same[N] = {0};
  tri_rollout r = step_of(reward, reward, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  r.group = 1;
  assert_int_equal(observe(&h, &r, 0.1, 50, text), 0);
  r.reward = same;
  assert_int_equal(observe(&h, &r, 0.1, 50, text), 1);
  has(text, "no_variance reward=0; exact");
}

/* If the greedy answer is the comparison, equal rewards teach unless it earned the same. */
static void a_greedy_answer_is_compared_with(void **state) {
  float       reward[N] = {1, 1, 0, 1}, other[N] = {1, 1, 1, 1}, same[N] = {1, 1, 0, 1};
  tri_rollout r = step_of(reward, reward, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  h.compared = TRI_COMPARED_WITH_GREEDY;
  r.group = 1;
  r.baseline = other;
  assert_int_equal(observe(&h, &r, 0.1, 50, text), 0);
  r.baseline = same;
  assert_int_equal(observe(&h, &r, 0, 50, text), 1);
  has(text, "no_variance !reward= greedy !zero_variance_ratio");
}

/* A reward with weight 0, or a penalty, is no cause. */
static void reward_never_earned_is_named(void **state) {
  float       reward[N] = {0, 1, 1, 0}, part[2 * N] = {0, 0, 1, 0, 1, 0, 0, 0};
  tri_rollout r = step_of(reward, part, 2, 0);
  tri_health  h = health_of(2);
  char        text[4096];

  (void)state;
  assert_int_equal(observe(&h, &r, 0.1, 50, text), 1);
  has(text, "reward_unearned regex");
  h = health_of(2);
  h.most[1] = 0;
  assert_int_equal(observe(&h, &r, 0.1, 50, text), 0);
}

/* One in four is above a fifth, none of four below. */
static void cut_answers(void **state) {
  float       reward[N] = {0, 1, 1, 0};
  tri_rollout cut, whole;
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  cut = step_of(reward, reward, 1, 1);
  assert_int_equal(observe(&h, &cut, 0.1, 50, text), 1);
  has(text, "truncation truncated_ratio=0.25; rollout.max_response_length 16 25");
  h = health_of(1);
  whole = step_of(reward, reward, 1, 0);
  assert_int_equal(observe(&h, &whole, 0.1, 50, text), 0);
}

static void no_gradient(void **state) {
  float       reward[N] = {0, 1, 1, 0};
  tri_rollout r = step_of(reward, reward, 1, 0);
  tri_health  h = health_of(1);
  char        text[4096];

  (void)state;
  assert_int_equal(observe(&h, &r, 0, 50, text), 1);
  has(text, "no_gradient clip_ratio algo.clip_eps");
  h = health_of(0);
  assert_int_equal(observe(&h, NULL, 0, 50, text), 1);
  has(text, "no_gradient !clip_ratio !rollout.save_every");
}

/* Steps without any reward learn nothing for a reason already reported. */
static void nothing_left_is_no_clip(void **state) {
  static int32_t dropped[N] = {TRI_DROPPED, TRI_DROPPED, TRI_DROPPED, TRI_DROPPED};
  float          reward[N] = {0, 1, 1, 1};
  tri_rollout    r = step_of(reward, reward, 1, 0);
  tri_health     h = health_of(1);
  char           text[4096];

  (void)state;
  r.masked = dropped;
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS, text), 0);
  r.masked = NULL;
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS, text), 1);
  has(text, "no_gradient clip_ratio");
}

/* Answers with 0 from a failed reward tell nothing about the prompts, even once the reward works again. */
static void a_reward_that_fails_is_the_cause(void **state) {
  static int32_t all[N] = {1, 1, TRI_FAILED_TEXT, 1}, half[N] = {1, 0, 1, 0}, none[N];
  float          reward[N] = {0};
  tri_rollout    r = step_of(reward, reward, 1, 0);
  tri_health     h = health_of(1);
  char           text[4096];

  (void)state;
  r.failed = all;
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS - 1, text), 0);
  assert_int_equal(observe(&h, &r, 0, 50, text), 1);
  has(text, "reward_failing exact failed_ratio=1; 100 --reward");
  tri_health_words(&h, text, sizeof text);
  assert_string_equal(text, "reward_failing");
  r.failed = none;
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS - 1, text), 0);
  tri_health_words(&h, text, sizeof text);
  assert_string_equal(text, "");
  assert_int_equal(observe(&h, &r, 0, 1, text), 1);
  has(text, "no_variance reward=0; exact");
  h = health_of(1);
  r.failed = half;
  assert_int_equal(observe(&h, &r, 0, 50, text), 1);
  has(text, "no_variance reward=0; exact");
}

/* Each failing reward is named, also if no answer of the steps is left, and after a restart. */
static void failing_rewards_are_named_when_all_is_dropped(void **state) {
  static int32_t failed[N] = {3, 3, 3, 1};
  static int32_t dropped[N] = {TRI_DROPPED, TRI_DROPPED, TRI_DROPPED, TRI_DROPPED};
  float          reward[N] = {NAN, NAN, NAN, NAN}, part[2 * N] = {0};
  tri_rollout    r = step_of(reward, part, 2, 0);
  tri_health     h = health_of(2), next = health_of(2);
  char           text[4096], kept[TRI_HEALTH_TEXT];

  (void)state;
  r.failed = failed;
  r.masked = dropped;
  assert_int_equal(observe(&h, &r, 0, TRI_HEALTH_STEPS - 1, text), 0);
  tri_health_keep(&h, kept);
  assert_int_equal(tri_health_restore(&next, kept), TRI_OK);
  assert_true(next.failed_ratio[0] == 1 && next.failed_ratio[1] == 0.75);
  assert_int_equal(observe(&next, &r, 0, 50, text), 2);
  expect_lines(text, "reward_failing exact failed_ratio=1; 100\nreward_failing regex failed_ratio=0.75; 75");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(learning_is_no_cause),
                                     cmocka_unit_test(what_an_answer_is_compared_with),
                                     cmocka_unit_test(a_loss_without_a_clip_is_not_asked_for_it),
                                     cmocka_unit_test(constant_reward_is_named_once),
                                     cmocka_unit_test(the_cure_follows_the_value),
                                     cmocka_unit_test(a_cut_is_the_first_cause),
                                     cmocka_unit_test(equal_groups_are_another_cause),
                                     cmocka_unit_test(one_answer_is_no_group),
                                     cmocka_unit_test(a_greedy_answer_is_compared_with),
                                     cmocka_unit_test(reward_never_earned_is_named),
                                     cmocka_unit_test(cut_answers),
                                     cmocka_unit_test(no_gradient),
                                     cmocka_unit_test(nothing_left_is_no_clip),
                                     cmocka_unit_test(a_reward_that_fails_is_the_cause),
                                     cmocka_unit_test(failing_rewards_are_named_when_all_is_dropped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
