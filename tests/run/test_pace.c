/* test_pace.c - the time kept at an allocation's end, and the retries of a last save. Judge: hand-worked
 * numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/pace.h"
#include "run/patience.h"

#include <math.h>

static bool is(double x, double want) { return fabs(x - want) < 1e-9; }

/* A new allocation of a day keeps ten seconds at first, and then the measured times as well. */
static void test_what_is_kept(void **state) {
  tri_pace p = tri_pace_begin(0, 86400);

  (void)state;
  assert_true(is(tri_pace_ask_s(&p), 10) && is(tri_pace_watch_s(&p), 10));
  p.save_s = 50; /* a guess */
  assert_true(is(tri_pace_ask_s(&p), 60) && is(tri_pace_watch_s(&p), 60));
  tri_pace_step(&p, 30, 8);
  assert_true(is(tri_pace_ask_s(&p), 90) && is(tri_pace_watch_s(&p), 68));
  tri_pace_save(&p, 4); /* the guess is replaced */
  assert_true(is(tri_pace_ask_s(&p), 44) && is(tri_pace_watch_s(&p), 22));
  p.behind = true; /* the final save waits for it */
  assert_true(is(tri_pace_ask_s(&p), 48) && is(tri_pace_watch_s(&p), 26));
}

/* A slow step counts at once, and its effect fades. */
static void test_slow_ones_fade(void **state) {
  tri_pace p = tri_pace_begin(0, 0);

  (void)state;
  tri_pace_step(&p, 10, 5);
  tri_pace_step(&p, 100, 6);
  assert_true(is(p.step_s, 100) && is(p.learn_s, 6));
  tri_pace_step(&p, 10, 5);
  assert_true(is(p.step_s, 90) && is(p.learn_s, 5.4));
  for (int i = 0; i < 30; i++) tri_pace_step(&p, 10, 5);
  assert_true(is(p.step_s, 10) && is(p.learn_s, 5));
  tri_pace_save(&p, 8);
  tri_pace_save(&p, 2);
  assert_true(is(p.save_s, 7.2));
}

/* Half of a short allocation is used, whatever the measured times. Time used before the run counts too. */
static void test_short_allocations(void **state) {
  tri_pace p = tri_pace_begin(0, 180);

  (void)state;
  p.save_s = 500;
  assert_true(is(tri_pace_ask_s(&p), 90) && is(tri_pace_watch_s(&p), 90));
  p = tri_pace_begin(100, 80);
  p.save_s = 500;
  assert_true(is(tri_pace_ask_s(&p), 90));
  p = tri_pace_begin(0, 600);
  p.save_s = 500;
  assert_true(is(tri_pace_ask_s(&p), 510));
}

static void test_most_of_it(void **state) {
  tri_pace half = tri_pace_begin(60, 60), less = tri_pace_begin(61, 60), none = tri_pace_begin(0, 0);

  (void)state;
  assert_true(tri_pace_had_most(&half));
  assert_false(tri_pace_had_most(&less));
  assert_false(tri_pace_had_most(&none));
}

/* Counts the retries from 100 s on, each without duration, and returns the time of the last one. */
static int tries(tri_patience p, double *last_s) {
  int n = 0;

  *last_s = 100;
  for (double wait_s; (wait_s = tri_patience_next_s(&p, *last_s)) >= 0; n++) *last_s += wait_s;
  return n;
}

static void test_a_save_is_tried_again(void **state) {
  tri_patience p = tri_patience_begin(100, INFINITY, 5, 0);
  double       last_s;

  (void)state;
  assert_true(is(tri_patience_next_s(&p, 100), 1) && is(tri_patience_next_s(&p, 101), 10));
  assert_true(is(tri_patience_next_s(&p, 111), 30) && is(tri_patience_next_s(&p, 141), 60));
  assert_true(is(tri_patience_next_s(&p, 201), 60));
  assert_int_equal(tries(tri_patience_begin(100, INFINITY, 5, 0), &last_s), 3 + 10); /* ten minutes */
  assert_true(is(last_s, 700));
  tries(tri_patience_begin(100, 3600, 5, 0),
        &last_s); /* to the allocation's end, less a save and ten seconds */
  assert_true(is(last_s, 100 + 3600 - 15));
  tries(tri_patience_begin(100, 3600, 5, 1), &last_s);
  assert_true(is(last_s, 700));
  assert_int_equal(tries(tri_patience_begin(100, 12, 5, 0), &last_s), 1); /* one retry in any case */
  assert_true(is(last_s, 101));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_kept), cmocka_unit_test(test_slow_ones_fade),
      cmocka_unit_test(test_short_allocations), cmocka_unit_test(test_most_of_it),
      cmocka_unit_test(test_a_save_is_tried_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
