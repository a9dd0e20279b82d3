/* test_pace.c - how much of an allocation's end is kept. Judge: hand-worked numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/pace.h"

#include <math.h>

static bool is(double x, double want) { return fabs(x - want) < 1e-9; }

/* A day, of which nothing is used: ten seconds, then what was measured with them. */
static void test_what_is_kept(void **state) {
  tri_pace p = tri_pace_begin(0, 86400);

  (void)state;
  assert_true(is(tri_pace_rest_s(&p), 10) && is(tri_pace_work_s(&p), 10));
  p.save_s = 50; /* a guess */
  assert_true(is(tri_pace_rest_s(&p), 60) && is(tri_pace_work_s(&p), 60));
  tri_pace_step(&p, 30, 8);
  assert_true(is(tri_pace_rest_s(&p), 90) && is(tri_pace_work_s(&p), 68));
  tri_pace_save(&p, 4); /* the guess is forgotten */
  assert_true(is(tri_pace_rest_s(&p), 44) && is(tri_pace_work_s(&p), 22));
  p.behind = true; /* the last one waits for it */
  assert_true(is(tri_pace_rest_s(&p), 48) && is(tri_pace_work_s(&p), 26));
}

/* A slow one counts at once, and fades. */
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

/* Half of a short allocation is used, whatever was measured; what was used before counts. */
static void test_short_allocations(void **state) {
  tri_pace p = tri_pace_begin(0, 180);

  (void)state;
  p.save_s = 500;
  assert_true(is(tri_pace_rest_s(&p), 90) && is(tri_pace_work_s(&p), 90));
  p = tri_pace_begin(100, 80);
  p.save_s = 500;
  assert_true(is(tri_pace_rest_s(&p), 90));
  p = tri_pace_begin(0, 600);
  p.save_s = 500;
  assert_true(is(tri_pace_rest_s(&p), 510));
}

static void test_most_of_it(void **state) {
  tri_pace half = tri_pace_begin(60, 60), less = tri_pace_begin(61, 60), none = tri_pace_begin(0, 0);

  (void)state;
  assert_true(tri_pace_had_most(&half));
  assert_false(tri_pace_had_most(&less));
  assert_false(tri_pace_had_most(&none));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_kept), cmocka_unit_test(test_slow_ones_fade),
      cmocka_unit_test(test_short_allocations), cmocka_unit_test(test_most_of_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
