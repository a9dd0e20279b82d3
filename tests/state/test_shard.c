/* test_shard.c - legal plans and ranges. Judge: the statements of shard.h, with every case in a
 * loop. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "state/shard.h"
#include "refusal_case.h"

static void legal_plans_are_ten(void **state) {
  int legal = 0;

  (void)state;
  for (int p = 0; p < 3; p++)
    for (int g = 0; g < 3; g++)
      for (int o = 0; o < 3; o++) {
        tri_shard_plan plan = {(tri_shard_scope)p, (tri_shard_scope)g, (tri_shard_scope)o};
        bool           want = p <= g && g <= o;
        tri_error_clear();
        assert_int_equal(tri_shard_plan_check(plan), want ? TRI_OK : TRI_ECONFIG);
        legal += want;
      }
  assert_int_equal(legal, 10);
}

static void a_refusal_names_both_keys(void **state) {
  (void)state;
  tri_error_clear();
  assert_int_equal(tri_shard_plan_check((tri_shard_plan){TRI_SHARD_WORLD, TRI_SHARD_NODE, TRI_SHARD_WORLD}),
                   TRI_ECONFIG);
  expect_refusal("tri_shard_plan_check() shard.params world shard.grads");
  expect_refusal("tri_shard_plan_check() shard.grads node");
  tri_error_clear();
  assert_int_equal(tri_shard_plan_check((tri_shard_plan){TRI_SHARD_NONE, TRI_SHARD_NODE, TRI_SHARD_NONE}),
                   TRI_ECONFIG);
  expect_refusal("tri_shard_plan_check() shard.grads node");
  expect_refusal("tri_shard_plan_check() shard.grads shard.optimizer none");
  tri_error_clear();
}

static void common_parts(void **state) {
  (void)state;
  for (int64_t a = 0; a < 6; a++)
    for (int64_t n = 0; n < 5; n++)
      for (int64_t b = 0; b < 6; b++)
        for (int64_t m = 0; m < 5; m++) {
          tri_range r = tri_range_meet((tri_range){a, n}, (tri_range){b, m});
          int64_t   count = 0;
          for (int64_t i = 0; i < 12; i++) {
            bool both = i >= a && i < a + n && i >= b && i < b + m;
            count += both;
            if (both) assert_true(i >= r.begin && i < r.begin + r.count);
          }
          assert_int_equal(r.count, count);
        }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(legal_plans_are_ten),
                                     cmocka_unit_test(a_refusal_names_both_keys),
                                     cmocka_unit_test(common_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
