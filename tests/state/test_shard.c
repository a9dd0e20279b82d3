/* test_shard.c - legal plans, padding and ranges. Judge: the statements of shard.h, with every case in a
 * loop. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "state/shard.h"
#include "refusal_case.h"

#include <string.h>

enum { PADDED = 64 * 24 }; /* divisible by every number of ranks below */

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

static void padding_is_the_smallest_multiple(void **state) {
  (void)state;
  for (int world = 1; world <= 9; world++)
    for (int64_t n = 0; n < 3 * 64 * world; n += 7) {
      int64_t p = tri_shard_pad(n, world, 64);
      assert_true(p >= n && p - n < 64 * world && p % (64 * world) == 0);
    }
  assert_true(tri_shard_pad(((int64_t)1 << 40) + 1, 3, 64) > (int64_t)1 << 40);
}

/* The shares of a scope cover the buffer without overlap, over the ranks of a node for node, and over all
 * ranks for world. */
static void tiles(int local_size, int nodes) {
  char seen[3][PADDED];

  for (int only_node = 0; only_node < nodes; only_node++) {
    memset(seen, 0, sizeof seen);
    for (int node = 0; node < nodes; node++)
      for (int lr = 0; lr < local_size; lr++) {
        tri_place at = {lr, local_size, node, nodes};
        tri_range n = tri_shard_range(TRI_SHARD_NODE, PADDED, &at),
                  w = tri_shard_range(TRI_SHARD_WORLD, PADDED, &at);
        tri_range all = tri_shard_range(TRI_SHARD_NONE, PADDED, &at), common = tri_range_meet(n, w);
        assert_true(all.begin == 0 && all.count == PADDED);
        assert_true(common.begin == w.begin &&
                    common.count == w.count); /* a world share is a piece of the node's */
        for (int64_t i = w.begin; i < w.begin + w.count; i++) seen[TRI_SHARD_WORLD][i]++;
        for (int64_t i = n.begin; i < n.begin + n.count && node == only_node; i++) seen[TRI_SHARD_NODE][i]++;
        /* world ranks are numbered local_rank * nodes + node, and so lie their shares */
        assert_int_equal(w.begin, w.count * (lr * nodes + node));
      }
    for (int i = 0; i < PADDED; i++)
      assert_true(seen[TRI_SHARD_NODE][i] == 1 && seen[TRI_SHARD_WORLD][i] == 1);
  }
}

static void shares_tile_the_buffer(void **state) {
  const int shape[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 2}, {2, 3}, {4, 2}, {8, 3}};

  (void)state;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) tiles(shape[i][0], shape[i][1]);
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
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(legal_plans_are_ten), cmocka_unit_test(a_refusal_names_both_keys),
      cmocka_unit_test(padding_is_the_smallest_multiple), cmocka_unit_test(shares_tile_the_buffer),
      cmocka_unit_test(common_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
