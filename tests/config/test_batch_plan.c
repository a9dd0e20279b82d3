/* test_batch_plan.c - the batch equation and its messages. Judges: results by hand, and a loop over small
 * numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/batch_plan.h"
#include "refusal_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_batch_plan good(tri_batch_request q) {
  tri_batch_plan p;

  tri_error_clear();
  if (tri_batch_plan_make(&q, &p) != TRI_OK) fail_msg("%s", tri_error_message());
  return p;
}

static void bad(tri_batch_request q, const char *message) {
  tri_batch_plan p;

  tri_error_clear();
  assert_int_equal(tri_batch_plan_make(&q, &p), TRI_ECONFIG);
  expect_refusal(message);
}

#define REQUEST(...) ((tri_batch_request){__VA_ARGS__})
#define RANKS        .ranks
#define TOTAL        .train_batch_size
#define MICRO        .micro_batch_size
#define ACCUM        .gradient_accumulation_steps
#define TOKENS       .max_tokens_per_gpu
#define PROMPTS      .rollout_batch_size
#define GROUP        .num_generations
#define PASSES       .passes

static void expect(tri_batch_plan p, int64_t total, int64_t micro, int64_t accum, int64_t samples,
                   int64_t steps) {
  assert_int_equal(p.train_batch_size, total);
  assert_int_equal(p.micro_batch_size, micro);
  assert_int_equal(p.gradient_accumulation_steps, accum);
  assert_int_equal(p.rollout_samples, samples);
  assert_int_equal(p.steps_per_rollout, steps);
}

static void test_two_give_the_third(void **state) {
  (void)state;
  expect(good(REQUEST(RANKS = 2, TOTAL = 24, MICRO = 3, ACCUM = 4)), 24, 3, 4, 0, 0);
  expect(good(REQUEST(RANKS = 2, TOTAL = 24, MICRO = 3)), 24, 3, 4, 0, 0);
  expect(good(REQUEST(RANKS = 2, TOTAL = 24, ACCUM = 4)), 24, 3, 4, 0, 0);
  expect(good(REQUEST(RANKS = 2, MICRO = 3, ACCUM = 4)), 24, 3, 4, 0, 0);
  expect(good(REQUEST(RANKS = 2, TOTAL = 24)), 24, 12, 1, 0, 0);
  expect(good(REQUEST(RANKS = 2, MICRO = 3)), 6, 3, 1, 0, 0);
  bad(REQUEST(RANKS = 2),
      "solve() train_batch_size micro_batch_size train.train_batch_size train.micro_batch_size");
  bad(REQUEST(RANKS = 2, ACCUM = 4),
      "solve() train_batch_size micro_batch_size train.train_batch_size train.micro_batch_size");
}

static void test_rollouts(void **state) {
  (void)state;
  tri_batch_plan p = good(REQUEST(RANKS = 2, TOTAL = 24, MICRO = 3, PROMPTS = 12, GROUP = 4));

  expect(p, 24, 3, 4, 48, 2);
  expect_lines(p.equation, "train_batch_size micro_batch_size gradient_accumulation_steps 24 3 4 2\n"
                           "rollout_batch_size num_generations 48 12 4\n"
                           "train_batch_size 2 48 24");
  p = good(REQUEST(RANKS = 2, TOTAL = 24, MICRO = 3, PROMPTS = 12, GROUP = 4, PASSES = 2));
  expect(p, 24, 3, 4, 48, 4);
  if (!strstr(p.equation, " / train_batch_size x ppo_epochs: 4 = 48 / 24 x 2")) fail_msg("%s", p.equation);
  expect(good(REQUEST(RANKS = 2, TOTAL = 24, MICRO = 3, PROMPTS = 12, GROUP = 4, PASSES = 1)), 24, 3, 4, 48,
         2);
  expect(good(REQUEST(RANKS = 2, PROMPTS = 12, GROUP = 4)), 48, 24, 1, 48, 1);
  expect(good(REQUEST(RANKS = 2, MICRO = 3, PROMPTS = 12, GROUP = 4)), 48, 3, 8, 48, 1);
  expect(good(REQUEST(RANKS = 2, ACCUM = 3, PROMPTS = 12, GROUP = 4)), 48, 8, 3, 48, 1);
  expect(good(REQUEST(RANKS = 2, MICRO = 3, ACCUM = 2, PROMPTS = 12, GROUP = 4)), 12, 3, 2, 48, 4);
  bad(REQUEST(RANKS = 1, TOTAL = 20, MICRO = 2, PROMPTS = 12, GROUP = 4),
      "refuse_rollout() rollout_batch_size 48 12 4 train_batch_size 20 16 3 24 2 10 40");
}

static void test_tokens(void **state) {
  (void)state;
  tri_batch_plan p = good(REQUEST(RANKS = 7, TOTAL = 25, TOKENS = 4096));

  expect(p, 25, 0, 0, 0, 0);
  expect_lines(p.equation, "train_batch_size 25 4096 7");
  expect(good(REQUEST(RANKS = 7, TOKENS = 4096, PROMPTS = 5, GROUP = 3)), 15, 0, 0, 15, 1);
  bad(REQUEST(RANKS = 7, TOKENS = 4096),
      "tri_batch_plan_make() train.train_batch_size train.max_tokens_per_gpu");
  bad(REQUEST(RANKS = 7, TOKENS = 4096, MICRO = 1, TOTAL = 7),
      "check_request() train.max_tokens_per_gpu micro_batch_size gradient_accumulation_steps");
  bad(REQUEST(RANKS = 2, TOKENS = 4096, TOTAL = 7, PROMPTS = 8, GROUP = 2), "refuse_rollout() 16 8 2");
}

static void test_does_not_hold(void **state) {
  (void)state;
  bad(REQUEST(RANKS = 7, TOTAL = 256, MICRO = 2, ACCUM = 18),
      "refuse_equation() train_batch_size 256 2 18 7 252 266 19 238 17 126 9 32 4 16 8 !?");
  bad(REQUEST(RANKS = 7, TOTAL = 256, MICRO = 2), "refuse_equation() 256 2 ? 7 252 18");
  bad(REQUEST(RANKS = 7, TOTAL = 256, ACCUM = 18), "refuse_equation() 256 18 7 252 2 378 3");
  bad(REQUEST(RANKS = 7, TOTAL = 256), "refuse_equation() 256 1 7 252 36 259 37 64 4 32 8");
  bad(REQUEST(RANKS = 4, TOTAL = 8, MICRO = 4), "refuse_equation() 8 4 1 16 2");
  bad(REQUEST(RANKS = 4, TOTAL = 8, ACCUM = 3), "refuse_equation() 8 3 4 1");
  bad(REQUEST(RANKS = 7, TOTAL = 256, MICRO = 2, ACCUM = 18, PROMPTS = 64, GROUP = 8),
      "refuse_equation() 2 18 7 252 rollout_batch_size 63 8");
  bad(REQUEST(RANKS = 2, MICRO = 5, PROMPTS = 6, GROUP = 4), "refuse_equation() 24 5 2 4");
  bad(REQUEST(RANKS = 1, MICRO = 1000000000, ACCUM = 1000000000), "check_request() 1000000000 1 0");
  bad(REQUEST(RANKS = 1, TOTAL = -1), "check_request() -1 1 1000000000");
}

/* Every result satisfies the equation, and so does every suggestion of a refusal. */
static void test_all_small(void **state) {
  (void)state;
  for (int64_t total = 0; total <= 12; total++)
    for (int64_t micro = 0; micro <= 4; micro++)
      for (int64_t accum = 0; accum <= 4; accum++)
        for (int64_t ranks = 1; ranks <= 4; ranks++)
          for (int64_t prompts = 0; prompts <= 4; prompts++) {
            tri_batch_request q = {ranks, total, micro, accum, 0, prompts, prompts ? 3 : 0, 0};
            tri_batch_plan    p;
            const char       *line;
            tri_error_clear();
            if (tri_batch_plan_make(&q, &p) == TRI_OK) {
              assert_true(p.micro_batch_size >= 1 && p.gradient_accumulation_steps >= 1);
              assert_int_equal(p.train_batch_size,
                               p.micro_batch_size * p.gradient_accumulation_steps * ranks);
              assert_true((!total || p.train_batch_size == total) &&
                          (!micro || p.micro_batch_size == micro) &&
                          (!accum || p.gradient_accumulation_steps == accum));
              if (prompts) assert_int_equal(p.steps_per_rollout * p.train_batch_size, prompts * 3);
              continue;
            }
            line = strstr(tri_error_message(), "hold:\n");
            for (line = line ? strchr(line, '\n') : NULL; line; line = strchr(line + 1, '\n')) {
              long long t, m, a, n;
              if (sscanf(line, "\n  %lld = %lld x %lld x %lld", &t, &m, &a, &n) == 4)
                assert_true(t == m * a * n && t > 0);
            }
          }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_give_the_third),
                                     cmocka_unit_test(test_rollouts), cmocka_unit_test(test_tokens),
                                     cmocka_unit_test(test_does_not_hold), cmocka_unit_test(test_all_small)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
