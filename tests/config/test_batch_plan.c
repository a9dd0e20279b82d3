/* test_batch_plan.c - the batch equation and its messages. Judge: by hand; a loop over small ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/batch_plan.h"

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
  if (!strstr(tri_error_message(), message)) fail_msg("'%s' is not in '%s'", message, tri_error_message());
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
  bad(REQUEST(RANKS = 2), "give train.train_batch_size or train.micro_batch_size");
  bad(REQUEST(RANKS = 2, ACCUM = 4), "give train.train_batch_size or train.micro_batch_size");
}

static void test_rollouts(void **state) {
  (void)state;
  tri_batch_plan p = good(REQUEST(RANKS = 2, TOTAL = 24, MICRO = 3, PROMPTS = 12, GROUP = 4));

  expect(p, 24, 3, 4, 48, 2);
  assert_string_equal(
      p.equation,
      "train_batch_size = micro_batch_size x gradient_accumulation_steps x ranks: 24 = 3 x 4 x 2\n"
      "rollout samples = rollout_batch_size x num_generations: 48 = 12 x 4\n"
      "optimizer steps per rollout = rollout samples / train_batch_size: 2 = 48 / 24");
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
      "48 = 12 x 4 is not a multiple of train_batch_size 20. Nearest choices that hold:\n"
      "  train_batch_size 16 (3 steps per rollout)\n  train_batch_size 24 (2 steps per rollout)\n"
      "  rollout_batch_size 10 (40 = 10 x 4, 2 steps per rollout)");
}

static void test_tokens(void **state) {
  (void)state;
  tri_batch_plan p = good(REQUEST(RANKS = 7, TOTAL = 25, TOKENS = 4096));

  expect(p, 25, 0, 0, 0, 0);
  assert_string_equal(p.equation,
                      "train_batch_size 25 samples in passes of at most 4096 tokens on each of 7 ranks");
  expect(good(REQUEST(RANKS = 7, TOKENS = 4096, PROMPTS = 5, GROUP = 3)), 15, 0, 0, 15, 1);
  bad(REQUEST(RANKS = 7, TOKENS = 4096), "train.train_batch_size is missing");
  bad(REQUEST(RANKS = 7, TOKENS = 4096, MICRO = 1, TOTAL = 7), "contradicts");
  bad(REQUEST(RANKS = 2, TOKENS = 4096, TOTAL = 7, PROMPTS = 8, GROUP = 2),
      "16 = 8 x 2 is not a multiple of");
}

static void test_does_not_hold(void **state) {
  (void)state;
  bad(REQUEST(RANKS = 7, TOTAL = 256, MICRO = 2, ACCUM = 18),
      "train_batch_size = micro_batch_size x gradient_accumulation_steps x ranks: 256 = 2 x 18 x 7 does not "
      "hold, the product is 252. Nearest choices that hold:\n  252 = 2 x 18 x 7\n  266 = 2 x 19 x 7\n  238 "
      "= 2 x 17 x 7\n  126 = 2 x 9 x 7\n"
      "  256 = 2 x 32 x 4 (4 ranks)\n  256 = 2 x 16 x 8 (8 ranks)");
  bad(REQUEST(RANKS = 7, TOTAL = 256, MICRO = 2),
      "256 = 2 x ? x 7 has no whole solution. Nearest choices that hold:\n  252 = 2 x 18 x 7\n");
  bad(REQUEST(RANKS = 7, TOTAL = 256, ACCUM = 18), "256 = ? x 18 x 7 has no whole solution. Nearest choices "
                                                   "that hold:\n  252 = 2 x 18 x 7\n  378 = 3 x 18 x 7");
  bad(REQUEST(RANKS = 7, TOTAL = 256), "256 = ? x 1 x 7 has no whole solution. Nearest choices that hold:\n  "
                                       "252 = 36 x 1 x 7\n  259 = 37 x 1 x 7\n"
                                       "  256 = 64 x 1 x 4 (4 ranks)\n  256 = 32 x 1 x 8 (8 ranks)");
  bad(REQUEST(RANKS = 4, TOTAL = 8, MICRO = 4),
      "8 = 4 x ? x 4 has no whole solution, accumulation would be less than 1. Nearest choices that hold:\n"
      "  16 = 4 x 1 x 4\n  8 = 4 x 1 x 2 (2 ranks)\n  8 = 2 x 1 x 4");
  bad(REQUEST(RANKS = 4, TOTAL = 8, ACCUM = 3),
      "8 = ? x 3 x 4 has no whole solution, a micro-batch would be less than 1");
  bad(REQUEST(RANKS = 7, TOTAL = 256, MICRO = 2, ACCUM = 18, PROMPTS = 64, GROUP = 8),
      "\n  252 = 2 x 18 x 7 with rollout_batch_size 63\n");
  bad(REQUEST(RANKS = 2, MICRO = 5, PROMPTS = 6, GROUP = 4), "24 = 5 x ? x 2 has no whole solution");
  bad(REQUEST(RANKS = 1, MICRO = 1000000000, ACCUM = 1000000000), "more than 1000000000 samples");
  bad(REQUEST(RANKS = 1, TOTAL = -1), "-1: must be 1 to");
}

/* Whatever is answered holds; whatever is refused lists only lines that hold. */
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
