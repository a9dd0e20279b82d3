/* test_trend.c - provokes each alarm about a run's course, and none by a healthy run. Judge: exact. */
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

/* Metrics of a step, with NAN for a missing metric. */
typedef struct step {
  double length, entropy, kl, value_loss, explained, reward, skipped, overflows;
} step;

/* A healthy run, with s from 0. */
static step healthy(int s) {
  int m = s < 100 ? s : 100;

  return (step){100 + s % 7,       0.5 - 0.004 * m, 0.001 * m, 0.2 / (1 + s),
                s < 10 ? -1 : 0.5, 0.1 + 0.008 * m, 0,         NAN};
}

static tri_health health_of(void) {
  return (tri_health){.n_reward = 1, .name = {"exact"}, .most = {1}, .max_response_length = 512};
}

/* Some answers earn 1, some 0. */
static void take(tri_health *h, const step *x) {
  static float   reward[] = {0, 1};
  static int32_t stop[] = {TRI_STOP_EOS, TRI_STOP_EOS};
  tri_rollout    r = {.n_seq = 2, .group = 2, .reward = reward, .stop = stop};
  const struct {
    const char *name;
    double      value;
  } row[] = {{"response_length_mean_tokens", x->length},
             {"entropy_mean_nats", x->entropy},
             {"kl_mean_nats", x->kl},
             {"value_loss", x->value_loss},
             {"explained_variance", x->explained},
             {"reward_mean", x->reward},
             {"reward_std", sqrt(x->reward * (1 - x->reward))},
             {"skipped_steps", x->skipped},
             {"critic_skipped_steps", 0},
             {"overflow_steps", x->overflows}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!isnan(row[i].value)) tri_health_see(h, row[i].name, row[i].value);
  tri_health_observe(h, &r, 0.1);
}

/* Runs this many steps of `next` from step `from` on. Returns the number of warnings, with the last step's
 * words, and all warnings in text. */
static int run(tri_health *h, step (*next)(int), int from, int steps, char words[256], char text[4096]) {
  char line[1024];
  int  n = 0;

  text[0] = 0;
  for (int s = from; s < from + steps; s++) {
    step x = next(s);
    take(h, &x);
    for (; tri_health_next(h, line, sizeof line); n++) strcat(strcat(text, line), "\n");
  }
  tri_health_words(h, words, 256);
  return n;
}

static void a_healthy_run_has_none(void **state) {
  tri_health h = health_of();
  char       words[256], text[4096];

  (void)state;
  assert_int_equal(run(&h, healthy, 0, 100, words, text), 0);
  assert_string_equal(words, "");
}

/* ---- healthy except for one metric from step 40 on ---- */

enum { WRONG = 40 };

static step short_answers(int s) {
  step x = healthy(s);
  if (s >= WRONG) x.length = 10.2; /* the first five have 102 */
  return x;
}
static step shorter_answers(int s) {
  step x = healthy(s);
  if (s >= WRONG) x.length = 10.3;
  return x;
}
/* Seven tokens in the first steps are too few to judge by. */
static step few_tokens(int s) {
  step x = healthy(s);
  x.length = s < WRONG ? 7 : 0.5;
  return x;
}
static step kl_jumps(int s) {
  step x = healthy(s);
  if (s >= WRONG) x.kl = 0.35; /* the mean of before is below 0.035 */
  return x;
}
static step kl_grows(int s) {
  step x = healthy(s);
  if (s >= WRONG) x.kl = 0.2;
  return x;
}
/* Far less than the mean is little in itself. */
static step small_kl(int s) {
  step x = healthy(s);
  x.kl = s < WRONG ? 1e-5 : 0.09;
  return x;
}
/* Far from the reference, slowly. */
static step kl_is_high(int s) {
  step x = healthy(s);
  x.kl = s < WRONG ? 1.9 : 2.1;
  return x;
}
static step kl_stays(int s) {
  step x = healthy(s);
  x.kl = 1.99;
  return x;
}
static step all_alike(int s) {
  step x = healthy(s);
  if (s >= WRONG) x.entropy = 0.024; /* a twentieth of 0.492 is 0.0246 */
  return x;
}
/* A low metric that was low from the start. */
static step always_low(int s) {
  step x = healthy(s);
  x.entropy = 0.0101;
  return x;
}
static step too_low(int s) {
  step x = healthy(s);
  x.entropy = s < WRONG ? 0.0101 : 0.0099;
  return x;
}
/* Nothing is left to try. */
static step alike_at_the_top(int s) {
  step x = all_alike(s);
  x.reward = s < 10 ? 0.8 : 0.97;
  return x;
}
static step critic_diverges(int s) {
  step x = healthy(s);
  if (s >= WRONG) x.value_loss = 3; /* the mean of before is below 0.3 */
  return x;
}
static step critic_is_blind(int s) {
  step x = healthy(s);
  x.explained = -0.2;
  return x;
}
/* The first rewards, no worse than with a critic of constant value 0. */
static step rewards_begin(int s) {
  step x = healthy(s);
  x.value_loss = s < WRONG ? 1e-6 : x.reward / 2;
  return x;
}
static step gradient_breaks(int s) {
  step x = healthy(s);
  x.skipped = s >= WRONG + 2; /* in the last step observed */
  return x;
}
/* Lowering the loss scale is normal. At its lower bound a skipped update is not. */
static step gradient_overflows(int s) {
  step x = healthy(s);
  x.skipped = x.overflows = s < WRONG ? 1 : 3;
  return x;
}
static step overflows_at_the_least(int s) {
  step x = gradient_breaks(s);
  x.overflows = 0;
  return x;
}
/* One step is chance, except for findings that need only one. */
static step odd_steps(int s) {
  step x = healthy(s);
  if (s == WRONG || s == WRONG + 1) {
    x.length = 1;
    x.entropy = 1e-4;
    x.value_loss = 1e3;
  }
  return x;
}

static void each_alarm(void **state) {
  static const struct {
    step (*next)(int);
    const char *word, *look; /* NULL for none */
  } row[] = {{short_answers, "length_collapse", "rollout.save_every"},
             {shorter_answers, NULL, NULL},
             {few_tokens, NULL, NULL},
             {kl_jumps, "kl_jump", "raise algo.kl_coef"},
             {kl_grows, NULL, NULL},
             {kl_is_high, "kl_high", "Raise algo.kl_coef"},
             {kl_stays, NULL, NULL},
             {small_kl, NULL, NULL},
             {all_alike, "entropy_collapse", "Raise rollout.temperature"},
             {always_low, NULL, NULL},
             {too_low, "entropy_collapse", "Raise rollout.temperature"},
             {alike_at_the_top, NULL, NULL},
             {critic_diverges, "value_loss_explodes", "Lower critic.learning_rate"},
             {critic_is_blind, "critic_blind", "Raise critic.learning_rate"},
             {rewards_begin, NULL, NULL},
             {gradient_breaks, "non_finite", "skipped_steps"},
             {gradient_overflows, NULL, NULL},
             {overflows_at_the_least, "non_finite", "skipped_steps"},
             {odd_steps, NULL, NULL}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_health h = health_of();
    char       words[256], text[4096];
    bool       jump = row[i].word && !strcmp(row[i].word, "kl_jump");
    int        n = run(&h, row[i].next, 0, WRONG + (jump ? 1 : 3), words, text);
    if (n != (row[i].word != NULL) || strcmp(words, row[i].word ? row[i].word : ""))
      fail_msg("row %zu: %d warnings, words '%s': %s", i, n, words, text);
    if (row[i].look && !tells(text, row[i].look)) fail_msg("'%s' is missing in '%s'", row[i].look, text);
    n = run(&h, row[i].next, WRONG + 3, 5, words, text); /* each cause is warned of once */
    if (n) fail_msg("row %zu: again %s", i, text);
  }
}

/* ---- the reward ---- */

/* Up and down by 0.02 about 0.3 for ever. */
static step never_rises(int s) {
  step x = healthy(s);
  x.reward = 0.3 + (s % 2 ? 0.02 : -0.02);
  return x;
}
/* About 0.3 too, and a block's mean is another each time. */
static step wanders(int s) {
  step x = healthy(s);
  x.reward = 0.3 + 0.04 * ((s * 7919 % 101) / 50.0 - 1);
  return x;
}
/* As noisy, but 0.03 higher after 20 steps. */
static step rises(int s) {
  step x = never_rises(s);
  x.reward += 0.0015 * s;
  return x;
}
static step stays_at_the_top(int s) {
  step x = never_rises(s);
  x.reward += 0.65;
  return x;
}
static step earns_nothing(int s) {
  step x = healthy(s);
  x.reward = 0;
  return x;
}

static void a_reward_that_does_not_rise(void **state) {
  tri_health h = health_of();
  char       words[256], text[4096];

  (void)state;
  assert_int_equal(run(&h, never_rises, 0, 79, words, text), 0);
  assert_int_equal(run(&h, never_rises, 79, 1, words, text), 1);
  assert_string_equal(words, "reward_stuck");
  assert_true(tells(text, "0.3 60 1"));
  assert_int_equal(run(&h, never_rises, 80, 200, words, text), 0);
  assert_string_equal(words, "reward_stuck");
}

static void a_gain_by_chance_is_none(void **state) {
  tri_health h = health_of();
  char       words[256], text[4096];

  (void)state;
  assert_int_equal(run(&h, wanders, 0, 80, words, text), 1);
  assert_string_equal(words, "reward_stuck");
}

static void a_reward_that_rises_or_has_risen(void **state) {
  step (*const next[])(int) = {rises, stays_at_the_top, earns_nothing};

  (void)state;
  for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
    tri_health h = health_of();
    char       words[256], text[4096];
    if (run(&h, next[i], 0, 300, words, text)) fail_msg("%zu: %s", i, text);
  }
}

/* The range of rewards begins with the first rewarded answer. Nothing earned 0 here. */
static void an_answer_without_a_reward_is_no_best_one(void **state) {
  static float   reward[] = {NAN, -2, -1};
  static int32_t stop[] = {TRI_STOP_EOS, TRI_STOP_EOS, TRI_STOP_EOS}, masked[] = {TRI_DROPPED, 0, 0};
  tri_rollout    r = {.n_seq = 3, .group = 3, .reward = reward, .stop = stop, .masked = masked};
  tri_health     h = health_of();

  (void)state;
  tri_health_see(&h, "reward_mean", -1.5);
  tri_health_observe(&h, &r, 0.1);
  assert_true(h.trend.highest == -1 && h.trend.lowest == -2);
}

/* Groups selected for their different rewards stay half right. */
static void a_selection_need_not_rise(void **state) {
  tri_health h = health_of();
  char       words[256], text[4096];

  (void)state;
  h.trend.selected = true;
  assert_int_equal(run(&h, never_rises, 0, 300, words, text), 0);
  assert_int_equal(run(&h, short_answers, 300, 50, words, text), 1);
}

/* The answers of a replay are no result of the run. */
static void a_replay_has_no_reward_of_its_own(void **state) {
  tri_health h = health_of();
  char       words[256], text[4096];

  (void)state;
  h.trend.given = true;
  assert_int_equal(run(&h, never_rises, 0, 300, words, text), 0);
  assert_int_equal(run(&h, short_answers, 300, 50, words, text), 0);
}

/* ---- over a restart ---- */

/* A run continued from saved numbers has the words of an uninterrupted run, at any step. */
static void kept_numbers_go_on(void **state) {
  step (*const next[])(int) = {short_answers,   kl_jumps,        all_alike,       kl_is_high,
                               critic_diverges, critic_is_blind, gradient_breaks, never_rises};
  static char kept[TRI_HEALTH_TEXT];
  char        words[2][256], text[4096];

  (void)state;
  for (size_t i = 0; i < sizeof next / sizeof *next; i++)
    for (int at = 0; at < 90; at += 7) {
      tri_health whole = health_of(), first = health_of(), second = health_of();
      run(&first, next[i], 0, at, words[0], text);
      tri_health_keep(&first, kept);
      assert_int_equal(tri_health_restore(&second, kept), TRI_OK);
      run(&whole, next[i], 0, at, words[0], text);
      for (int s = at; s < 90; s++) {
        run(&whole, next[i], s, 1, words[0], text);
        run(&second, next[i], s, 1, words[1], text);
        assert_string_equal(words[0], words[1]);
      }
    }
}

static void damaged_numbers_are_refused(void **state) {
  tri_health  h = health_of();
  static char kept[TRI_HEALTH_TEXT];

  (void)state;
  tri_health_keep(&h, kept);
  assert_int_equal(tri_health_restore(&h, kept), TRI_OK);
  assert_int_equal(tri_health_restore(&h, strcat(kept, " 1")), TRI_EFORMAT);
  assert_int_equal(tri_health_restore(&h, ""), TRI_EFORMAT);
  assert_int_equal(tri_health_restore(&h, "1 2 three"), TRI_EFORMAT);
  tri_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_healthy_run_has_none),
                                     cmocka_unit_test(each_alarm),
                                     cmocka_unit_test(a_reward_that_does_not_rise),
                                     cmocka_unit_test(a_gain_by_chance_is_none),
                                     cmocka_unit_test(a_reward_that_rises_or_has_risen),
                                     cmocka_unit_test(an_answer_without_a_reward_is_no_best_one),
                                     cmocka_unit_test(a_selection_need_not_rise),
                                     cmocka_unit_test(a_replay_has_no_reward_of_its_own),
                                     cmocka_unit_test(kept_numbers_go_on),
                                     cmocka_unit_test(damaged_numbers_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
