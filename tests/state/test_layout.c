/* test_layout.c - places of params in a unit, and each rank's share. Judge: a table by hand, and every
 * element counted. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/comm.h"
#include "state/layout.h"

#include <string.h>

enum { PARAMS = 4, MOST = 66 };

/* [7,5], then [9,5] with a bias of 2 joined to it, then [66]. */
static tri_param_spec param[PARAMS] = {{.ndim = 2, .dim = {7, 5}},
                                       {.ndim = 2, .dim = {9, 5}},
                                       {.ndim = 1, .dim = {2}, .joined = true},
                                       {.ndim = 1, .dim = {66}}};
static tri_unit_spec  unit[2] = {{.n_param = PARAMS, .param = param},
                                 {.n_param = 1, .param = &(tri_param_spec){.ndim = 1, .dim = {1}}}};

static const tri_shard_plan zero3 = {TRI_SHARD_WORLD, TRI_SHARD_WORLD, TRI_SHARD_WORLD};

static tri_layout layout_at(tri_shard_plan plan, tri_place at, bool train) {
  for (int u = 0; u < 2; u++) tri_unit_layout(&unit[u]);
  return tri_layout_make(unit, plan, at, train);
}

static void params_lie_in_order(void **state) {
  tri_layout l = layout_at(zero3, (tri_place){0, 1, 0, 1, 1}, true);

  (void)state;
  assert_int_equal(param[0].offset, 0);
  assert_int_equal(param[1].offset, 64);
  assert_int_equal(param[2].offset, 109); /* right behind the matrix it is joined to */
  assert_int_equal(param[3].offset, 128);
  assert_int_equal(unit[0].count, 194);
  assert_int_equal(tri_layout_padded(&l, 0), 256);
  assert_int_equal(tri_layout_padded(&l, 1), 64);
}

/* Rank 1 of 2 on node 2 of 3 is number 1 * 3 + 2 of the world. */
static void shares_by_hand(void **state) {
  static const struct {
    tri_place       at;
    tri_shard_scope scope;
    int64_t         padded, begin, count;
    tri_range       piece[PARAMS]; /* each param's */
  } row[] = {
      {{0, 1, 0, 1, 1}, TRI_SHARD_WORLD, 256, 0, 256, {{0, 35}, {0, 45}, {0, 2}, {0, 66}}},
      {{1, 2, 0, 1, 1}, TRI_SHARD_NONE, 256, 0, 256, {{0, 35}, {0, 45}, {0, 2}, {0, 66}}},
      {{1, 2, 0, 1, 1}, TRI_SHARD_NODE, 256, 128, 128, {{0, 0}, {0, 0}, {0, 0}, {0, 66}}},
      {{0, 2, 1, 2, 1}, TRI_SHARD_NODE, 256, 0, 128, {{0, 35}, {0, 45}, {0, 2}, {0, 0}}},
      {{0, 2, 1, 2, 1}, TRI_SHARD_WORLD, 256, 64, 64, {{0, 0}, {0, 45}, {0, 2}, {0, 0}}},
      {{1, 2, 1, 2, 1}, TRI_SHARD_WORLD, 256, 192, 64, {{0, 0}, {0, 0}, {0, 0}, {64, 2}}},
      {{1, 2, 2, 3, 1}, TRI_SHARD_NODE, 384, 192, 192, {{0, 0}, {0, 0}, {0, 0}, {64, 2}}},
      {{1, 2, 2, 3, 1}, TRI_SHARD_WORLD, 384, 320, 64, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}},
  };

  (void)state;
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    tri_layout l = layout_at(zero3, row[k].at, true);
    tri_range  r = tri_layout_share(&l, 0, 0, row[k].scope);
    assert_int_equal(tri_layout_padded(&l, 0), row[k].padded);
    assert_int_equal(r.begin, row[k].begin);
    assert_int_equal(r.count, row[k].count);
    for (int i = 0; i < PARAMS; i++) {
      tri_range piece = tri_layout_piece(&l, 0, i, row[k].scope);
      assert_int_equal(piece.begin, row[k].piece[i].begin);
      assert_int_equal(piece.count, row[k].piece[i].count);
    }
  }
}

static void padding_is_the_smallest_multiple(void **state) {
  tri_unit_spec one = {.count = 0};

  (void)state;
  for (int world = 1; world <= 9; world++) {
    tri_layout l = tri_layout_make(&one, zero3, (tri_place){0, world, 0, 1, 1}, true);
    for (one.count = 0; one.count < 3 * 64 * world; one.count += 7) {
      int64_t p = tri_layout_padded(&l, 0);
      assert_true(p >= one.count && p - one.count < 64 * world && p % (64 * world) == 0);
    }
    one.count = ((int64_t)1 << 40) + 1;
    assert_true(tri_layout_padded(&l, 0) > (int64_t)1 << 40);
  }
}

/* Over all ranks, the pieces of a param cover it once, and over those of a node, its shares by node. A share
 * has its elements in order, and a finer share is a run of the coarser one's array. */
static void every_element_once(int local_size, int nodes) {
  int seen[PARAMS][MOST] = {{0}}, of_node[PARAMS][MOST] = {{0}};

  for (int k = 0; k < local_size * nodes; k++) {
    tri_place  at = {k % local_size, local_size, k / local_size, nodes, 1};
    tri_layout l = layout_at(zero3, at, true);
    tri_range  world = tri_layout_share(&l, 0, 0, TRI_SHARD_WORLD);
    /* world ranks are numbered local_rank * nodes + node, and so lie their shares */
    assert_int_equal(world.begin, world.count * (at.local_rank * nodes + at.node));
    for (int s = TRI_SHARD_NONE; s <= TRI_SHARD_WORLD; s++) {
      tri_range r = tri_layout_share(&l, 0, 0, (tri_shard_scope)s);
      for (int64_t e = 0; e <= world.count; e++)
        assert_int_equal(tri_layout_at(&l, 0, (tri_shard_scope)s, world.begin + e),
                         world.begin - r.begin + e);
    }
    for (int i = 0; i < PARAMS; i++) {
      tri_range piece = tri_layout_piece(&l, 0, i, TRI_SHARD_WORLD),
                near = tri_layout_piece(&l, 0, i, TRI_SHARD_NODE);
      for (int64_t e = 0; e < piece.count; e++) seen[i][piece.begin + e]++;
      for (int64_t e = 0; e < near.count && at.node == nodes - 1; e++) of_node[i][near.begin + e]++;
    }
  }
  for (int i = 0; i < PARAMS; i++)
    for (int64_t e = 0; e < MOST; e++) {
      assert_int_equal(seen[i][e], e < tri_param_count(&param[i]));
      assert_int_equal(of_node[i][e], e < tri_param_count(&param[i]));
    }
}

static void pieces_cover_the_model(void **state) {
  (void)state;
  for (int local_size = 1; local_size <= 8; local_size++)
    for (int nodes = 1; nodes <= 3; nodes++) every_element_once(local_size, nodes);
}

/* Matrices of 16 and of 32 rows joined to it, between a norm and a bias of which a slice has a part. */
enum { A = 16 * 12, B = 32 * 12, CUT_PARAMS = 4 };
static tri_param_spec cut_param[CUT_PARAMS] = {{.ndim = 1, .dim = {5}},
                                               {.ndim = 2, .dim = {16, 12}},
                                               {.ndim = 2, .dim = {32, 12}, .joined = true},
                                               {.ndim = 1, .dim = {66}}};
static tri_unit_spec  cut_unit = {.n_param = CUT_PARAMS, .param = cut_param};

static tri_layout cut_layout(tri_place at, int64_t rows_of_a, bool fields) {
  tri_param_spec mine[CUT_PARAMS];
  tri_unit_spec  slice = {.n_param = CUT_PARAMS, .param = memcpy(mine, cut_param, sizeof mine)};
  tri_layout     l = tri_layout_make(&cut_unit, zero3, at, true);

  mine[1].dim[0] = rows_of_a;
  mine[2].dim[0] = 32 / at.tensor;
  mine[3].dim[0] = 66 / at.tensor;
  tri_unit_cut(&cut_unit, &slice, &at);
  l.fields = fields;
  return l;
}

/* The share's array has the rank's part of every param once, and parts of successive ranks follow each
 * other. A node's part of a matrix lies in the slice of this rank. */
static void check_cut_shares(tri_place at) {
  const int64_t elements[CUT_PARAMS] = {5, A, B, 66};
  tri_layout    l = cut_layout(at, 16 / at.tensor, true);
  int64_t       ranks = (int64_t)at.local_size * at.nodes, number = at.local_rank * at.nodes + at.node;
  int64_t       cut = (A + B + 64 * ranks - 1) / (64 * ranks) * 64 * ranks;
  int           slice = tri_scope_find(TRI_TENSOR, &at).rank;

  assert_int_equal(tri_layout_fields(&l, 0), 3);
  assert_int_equal(tri_layout_padded(&l, 0), cut + (64 + 66 + 64 * ranks - 1) / (64 * ranks) * 64 * ranks);
  for (int s = TRI_SHARD_NONE; s <= TRI_SHARD_WORLD; s++) {
    char    filled[A + B + 64 * 32] = {0};
    int64_t count = tri_layout_count(&l, 0, (tri_shard_scope)s);
    for (int i = 0; i < CUT_PARAMS; i++) {
      tri_range r = tri_layout_piece(&l, 0, i, (tri_shard_scope)s);
      int64_t   parts = s == TRI_SHARD_NONE ? 1 : s == TRI_SHARD_NODE ? at.local_size : ranks;
      for (int64_t k = r.begin; k < r.begin + r.count; k++) {
        int64_t index = tri_layout_at(&l, 0, (tri_shard_scope)s, cut_param[i].offset + k);
        assert_true(index >= 0 && index < count && !filled[index]++);
      }
      if (i == 0 || i == 3) continue;
      assert_int_equal(r.count, elements[i] / parts);
      assert_int_equal(r.begin, number * parts / ranks * r.count);
      if (s != TRI_SHARD_NONE) assert_int_equal(r.begin / (elements[i] / at.tensor), slice);
    }
  }
}

static void shares_of_cut_params(void **state) {
  (void)state;
  for (int local_size = 2; local_size <= 4; local_size += 2)
    for (int nodes = 1; nodes <= 2; nodes++)
      for (int tensor = 2; tensor <= local_size; tensor *= 2)
        for (int k = 0; k < local_size * nodes; k++)
          check_cut_shares((tri_place){k % local_size, local_size, k / local_size, nodes, tensor});
  cut_layout((tri_place){0, 2, 0, 1, 2}, 8, true);
  assert_true(cut_param[1].offset == 0 && cut_param[2].offset == A && cut_param[0].offset == 640);
  assert_true(cut_param[3].offset == 640 + 64 && cut_unit.n_cut == 640);
}

/* Nor is a unit cut that the ranks do not divide evenly, nor one where slices overlap. */
static void units_of_one_field(void **state) {
  const tri_place two = {0, 2, 0, 1, 2}, ten = {0, 2, 0, 5, 2};
  tri_layout      l = cut_layout(two, 8, false);

  (void)state;
  assert_true(cut_param[1].cut && tri_layout_fields(&l, 0) == 1);
  assert_int_equal(tri_layout_share(&l, 0, 0, TRI_SHARD_NODE).count, tri_layout_padded(&l, 0) / 2);
  l = cut_layout(ten, 8, true);
  assert_true(!cut_param[1].cut && !cut_param[2].cut && tri_layout_fields(&l, 0) == 1);
  l = cut_layout(two, 9, true);
  assert_true(!cut_param[2].cut && cut_param[0].offset == 0 && cut_unit.n_cut == 0);
}

/* A frozen store has one scope. */
static void a_frozen_plan(void **state) {
  const tri_shard_plan plan = {TRI_SHARD_NONE, TRI_SHARD_NODE, TRI_SHARD_WORLD};
  tri_shard_plan       trained = layout_at(plan, (tri_place){0, 2, 0, 2, 1}, true).plan,
                 frozen = layout_at(plan, (tri_place){0, 2, 0, 2, 1}, false).plan;

  (void)state;
  assert_memory_equal(&trained, &plan, sizeof plan);
  assert_true(frozen.params == plan.params && frozen.grads == plan.params && frozen.optim == plan.params);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(params_lie_in_order),
                                     cmocka_unit_test(shares_by_hand),
                                     cmocka_unit_test(padding_is_the_smallest_multiple),
                                     cmocka_unit_test(pieces_cover_the_model),
                                     cmocka_unit_test(shares_of_cut_params),
                                     cmocka_unit_test(units_of_one_field),
                                     cmocka_unit_test(a_frozen_plan)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
