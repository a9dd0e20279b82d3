/* test_cost.c - tests the seconds of a step against numbers worked by hand. Each expectation is written as
 * its arithmetic. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/cost/cost.h"

#include <stdarg.h>
#include <math.h>
#include <setjmp.h>

#include <cmocka.h>

/* Round figures: 1e12 flops, memory at 1e9 bytes a second, 1e8 in the node, 1e7 between nodes. */
static const tri_machine round_machine = {.name = "round",
                                          .device_bytes = 1,
                                          .flops_bf16 = 1e12,
                                          .flops_f32 = 5e11,
                                          .mem_bytes_per_s = 1e9,
                                          .node = {1e-5, 1e8},
                                          .cross = {1e-4, 1e7},
                                          .host_bytes_per_s = 1e8,
                                          .disk_bytes_per_s = 1e8};

/* 2 layers of width 10, mlp 20, 8 of queries and 4 of keys. 10 (8 + 8) + 8 x 10 + 3 x 10 x 20 = 840 numbers
 * each. A head of 50 x 10. With embedding and norms 2,230. */
static const tri_cost_model small = {
    .L = 2, .C = 10, .F = 20, .q = 8, .kv = 4, .head = 50, .n = 2230, .bytes = 2};

#define SAME(got, want)                                                                                      \
  do {                                                                                                       \
    double got_ = (got), want_ = (want);                                                                     \
    if (!(fabs(got_ - want_) <= 1e-12 * fabs(want_)))                                                        \
      fail_msg("line %d: %.17g, by hand %.17g", __LINE__, got_, want_);                                      \
  } while (0)

static void flops(void **state) {
  (void)state;
  SAME(tri_cost_layer_weights(&small), 2 * 840);
  SAME(tri_cost_head_weights(&small), 500);
  /* 100 tokens, 40 rows, 16 keys each: 2 x 1680 x 100 + 2 x 500 x 40 + 4 x 2 x 8 x 100 x 16 */
  SAME(tri_cost_forward_flops(&small, 100, 40, 16), 336000 + 40000 + 102400);
  SAME(tri_cost_backward_flops(&small, 100, 40, 16), 672000 + 80000 + 256000);
}

/* 4 layers, of which 3 are recurrent, q with a gate, mixes of 14, 6 of all value heads, of which there are 2.
 * Attention has 10 (8 + 8 + 8) + 8 x 10 numbers, a recurrent layer 10 (14 + 6 + 2 x 2) + 6 x 10. */
static const tri_cost_model hybrid = {
    .L = 4,
    .C = 10,
    .F = 20,
    .q = 8,
    .kv = 4,
    .gate = 8,
    .recurrent = {.layers = 3, .mix = 14, .out = 6, .heads = 2, .state = 24},
    .head = 50,
    .n = 2230,
    .bytes = 2};

static void recurrent_layers(void **state) {
  const double products = 4 * 600 + 320 + 3 * 300, gpu = 3 * 0.3e-6, cpu = 3 * 7 * 24 / (0.25 * 5e11);

  (void)state;
  SAME(tri_cost_layer_weights(&hybrid), products);
  /* attention in one layer: 4 x 8 x 100 x 16 */
  SAME(tri_cost_forward_flops(&hybrid, 100, 40, 16), 200 * products + 40000 + 51200);
  SAME(tri_cost_backward_flops(&hybrid, 100, 40, 16), 400 * products + 80000 + 128000);
  SAME(tri_cost_recurrence_s(&round_machine, &hybrid, false, 1), cpu);
  SAME(tri_cost_recurrence_s(&round_machine, &hybrid, false, 9),
       cpu); /* threads have heads of one sequence */
  SAME(tri_cost_recurrence_s(&round_machine, &hybrid, true, 0.5), gpu);
  SAME(tri_cost_recurrence_s(&round_machine, &hybrid, true, 4), gpu / 4);
  SAME(tri_cost_recurrence_s(&round_machine, &hybrid, true, 1e6), gpu / (500 * 32 / 6.0)); /* full */
  SAME(tri_cost_recurrence_s(&round_machine, &small, true, 1) + 1, 1);
}

static void rings(void **state) {
  const tri_cost_share s = {.ranks = 8, .per_node = 4};

  (void)state;
  SAME(tri_cost_scope(&round_machine, &s, 0, 1e6) + 1, 1);
  SAME(tri_cost_scope(&round_machine, &s, 1, 1e6), tri_machine_ring(&round_machine, 4, 1, 1e6));
  SAME(tri_cost_scope(&round_machine, &s, 2, 1e6), tri_machine_ring(&round_machine, 8, 2, 1e6));
}

static tri_cost_pass a_pass(void) {
  return (tri_cost_pass){.model = small,
                         .share = {.ranks = 8, .per_node = 4, .params = 1, .grads = 1, .optim = 2},
                         .tokens = 100,
                         .rows = 40,
                         .context = 16,
                         .batches = 5,
                         .times = 3,
                         .trained = 2230,
                         .updates = 6};
}

static void learning(void **state) {
  tri_cost_pass    p = a_pass();
  tri_cost_compute c = tri_cost_compute_of(&round_machine, &p, NULL);
  double           compute = (478400.0 + 1008000) / 1e12;
  /* 4 units, a gather of 2230 / 4 x 2 bytes over 4 ranks, a reduction of twice as many */
  double gather = 4 * (3e-5 + 1115 * 0.75 / 1e8), reduce = 4 * (3e-5 + 2230 * 0.75 / 1e8);
  double pack = 2230 * 3 * 2 / 1e9; /* read once, written for forward and for backward */

  (void)state;
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * (compute + 5 * (2 * gather + reduce + pack)));
  p.share.together = true; /* each of 4 ranks packs a part */
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * (compute + 5 * (2 * gather + reduce + pack / 4)));
  p.share.in_place = true;
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * (compute + 5 * (reduce + pack / 4)));
  p.share.together = p.share.in_place = false;
  p.share.overlap = true;
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * 5 * (2 * gather + reduce));
  p.share = (tri_cost_share){.ranks = 8, .per_node = 4}; /* whole on each rank, packed after each update */
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * compute + 6 * pack);
  p.recompute = true;
  c = tri_cost_compute_of(&round_machine, &p, NULL);
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * (compute + 438400 / 1e12) + 6 * pack);
  p.trained = 0;
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * 478400 / 1e12);
  p.model.bytes = 4;
  c = tri_cost_compute_of(&round_machine, &p, NULL);
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * 478400 / 5e11);
}

/* A pass without backward gathers once. Adapters are gathered beside the frozen weights, and only they are
 * reduced. */
static void scoring_and_adapters(void **state) {
  tri_cost_pass    p = a_pass();
  tri_cost_compute c = tri_cost_compute_of(&round_machine, &p, NULL);
  double           hop = 3e-5, gather = 4 * (hop + 1115 * 0.75 / 1e8), pack = 2230 * 3 * 2 / 1e9;

  (void)state;
  p.trained = 0;
  SAME(tri_cost_of_learn(&round_machine, &c, &p), 3 * (478400 / 1e12 + 5 * (gather + pack / 2)));
  p.trained = 200;
  p.frozen = true;
  c = tri_cost_compute_of(&round_machine, &p, NULL);
  SAME(tri_cost_of_learn(&round_machine, &c, &p),
       3 * ((478400.0 + 1008000 - 2 * (168000 + 20000)) / 1e12 +
            5 * (2 * (gather + 4 * (hop + 100 * 0.75 / 1e8)) + 4 * (hop + 200 * 0.75 / 1e8) + pack)));
  p.share.overlap = true; /* a GPU */
  c = tri_cost_compute_of(&round_machine, &p, NULL);
  SAME(c.pack_s + 1, 1);
}

/* States are updated in each token of a pass, five times as long in backward. A decode step moves them. */
static void states_take_time(void **state) {
  tri_cost_pass    p = {.model = hybrid,
                        .share = {.ranks = 1, .per_node = 1, .overlap = true},
                        .tokens = 128,
                        .rows = 40,
                        .context = 16,
                        .batches = 2,
                        .times = 1,
                        .trained = 2230,
                        .updates = 1};
  tri_cost_rollout r = {.model = hybrid,
                        .share = p.share,
                        .prompts = 6,
                        .prompt_tokens = 30,
                        .answers = 24,
                        .answer_tokens = 20,
                        .at_once = 8};
  tri_cost_compute c = tri_cost_compute_of(&round_machine, &p, &r);
  /* a pass has 2 of the 4 sequences of 32 tokens */
  double gpu = 3 * 0.3e-6, row = 1 * 2 * 4 * 40 * 2 / 1e9, moved = 3 * 2 * 4 * 24 / 1e9,
         forward = tri_cost_forward_flops(&hybrid, 128, 40, 16) / 128 / 1e12,
         backward = tri_cost_backward_flops(&hybrid, 128, 40, 16) / 128 / 1e12,
         again = tri_cost_forward_flops(&hybrid, 1, 0, 16) / 1e12;

  (void)state;
  SAME(c.forward.each_s, forward + gpu / 2);
  SAME(c.backward.each_s, backward + 5 * gpu / 2);
  SAME(c.decode.each_s, row + moved);
  SAME(c.prefill_s, tri_cost_forward_flops(&hybrid, 1, 0, 15) / 1e12 + gpu / 2); /* 8 rows of 2 prompts */
  p.recompute = true;
  SAME(tri_cost_compute_of(&round_machine, &p, NULL).backward.each_s, backward + again + 6 * gpu / 2);
  r.at_once = 1; /* the update takes longer than its bytes */
  c = tri_cost_compute_of(&round_machine, &p, &r);
  SAME(c.decode.each_s, row + gpu);
}

static void updates_of_each_plan(void **state) {
  tri_cost_pass    p = a_pass();
  tri_cost_compute c = tri_cost_compute_of(&round_machine, &p, NULL);
  double           adam = 30.0 / 1e9;
  /* between the 2 nodes a fourth of it: gradients f32, weights bf16 */
  double across = 1e-4 + 2230 * 4 / 4.0 * 0.5 / 1e7, back = 1e-4 + 2230 * 2 / 4.0 * 0.5 / 1e7;

  (void)state;
  SAME(tri_cost_of_update(&round_machine, &c, &p), 6 * (across + 2230 / 8.0 * adam + back));
  p.share.optim = 1;
  SAME(tri_cost_of_update(&round_machine, &c, &p), 6 * (2 * across + 2230 / 4.0 * adam));
  p.share.params = p.share.grads = p.share.optim = 2;
  SAME(tri_cost_of_update(&round_machine, &c, &p), 6 * (2230 / 8.0 * adam));
  p.share.params = p.share.grads = p.share.optim = 0;
  SAME(tri_cost_of_update(&round_machine, &c, &p),
       6 * (2 * tri_machine_ring(&round_machine, 8, 2, 8920) + 2230 * adam));
  p.share.optim = 2;
  SAME(tri_cost_of_update(&round_machine, &c, &p),
       6 * (tri_machine_ring(&round_machine, 8, 2, 8920) + 2230 / 8.0 * adam +
            tri_machine_ring(&round_machine, 8, 2, 4460)));
  p.offload = true;
  c = tri_cost_compute_of(&round_machine, &p, NULL);
  SAME(c.update_s, 30 / 1e8);
  p.trained = 0;
  SAME(tri_cost_of_update(&round_machine, &c, &p) + 1, 1);
}

static void generating(void **state) {
  tri_cost_pass    p = a_pass();
  tri_cost_rollout r = {.model = small,
                        .share = {.ranks = 4, .per_node = 4, .params = 1},
                        .prompts = 6,
                        .prompt_tokens = 30,
                        .answers = 24,
                        .answer_tokens = 20,
                        .at_once = 10};
  tri_cost_compute c = tri_cost_compute_of(&round_machine, &p, &r);
  double           gather = 3e-5 + 4460 * 0.75 / 1e8;
  /* a step reads (1680 + 500) x 2 bytes of weights, and a row of 40 keys 2 x 2 x 4 x 40 x 2 bytes of cache */
  double step = 4360 / 1e9, row = 1280 / 1e9, token = (3360 + 4.0 * 2 * 8 * 15) / 1e12;

  (void)state;
  SAME(tri_cost_of_rollout(&round_machine, &c, &r),
       gather + 2230 * 3 * 2 / 1e9 / 2 + 6 * 30 * token + 20 * (3 * step + 24 * row));
  r.share.together = r.share.in_place = true;
  SAME(tri_cost_of_rollout(&round_machine, &c, &r),
       2230 * 3 * 2 / 1e9 / 2 / 4 + 6 * 30 * token + 20 * (3 * step + 24 * row));
  r.share.together = r.share.in_place = false;
  r.at_once = 1e4; /* now the products take longer than reading their weights, 24 rows x 4360 flops at 1e9 */
  r.share.params = 0;
  tri_machine slow = round_machine;
  slow.flops_bf16 = 1e9;
  c = tri_cost_compute_of(&slow, &p, &r);
  SAME(tri_cost_of_rollout(&slow, &c, &r), 6 * 30 * token * 1e3 + 20 * 24 * (4360 / 1e9 + row));
  r.answers = 0;
  SAME(tri_cost_of_rollout(&slow, &c, &r) + 1, 1);
}

/* A model of two ranks. Each reads half of the weights and of the cache, and computes half. */
static void generating_as_one_model(void **state) {
  tri_cost_pass    p = a_pass();
  tri_cost_rollout r = {.model = small,
                        .share = {.ranks = 4, .per_node = 4, .params = 1},
                        .tensor = 2,
                        .prompts = 6,
                        .prompt_tokens = 30,
                        .answers = 24,
                        .answer_tokens = 20,
                        .at_once = 10};
  tri_cost_compute c = tri_cost_compute_of(&round_machine, &p, &r), whole;
  /* 550 numbers are gathered by 4 ranks, and a half of the matrices by 2 of them. A half is packed. */
  double pack = 2230 * 3 * 2 / 1e9 / 2 / 2, slice = 1e-5 + 1680 * 0.5 / 1e8,
         hold = 3e-5 + 1100 * 0.75 / 1e8 + slice + pack;
  /* bytes of a row in 2 layers: 8 of attention and 20 of the mlp in bf16, 10 twice in f32. A half is
   * received. */
  double layers = 2 * (2 * (8 + 20) + 8 * 10), moved = 0.5 / 1e8;
  double step = 4360 / 1e9 / 2 + 4 * 2 * 1e-5, row = 1280 / 1e9 / 2 + (layers + 4 * 50) * moved;
  double token = (3360 + 4.0 * 2 * 8 * 15) / 1e12 / 2 + layers * moved;

  (void)state;
  SAME(tri_cost_of_rollout(&round_machine, &c, &r), hold + 6 * 30 * token + 20 * (3 * step + 24 * row));
  r.tensor = 1;
  whole = tri_cost_compute_of(&round_machine, &p, &r);
  r.tensor = 0;
  c = tri_cost_compute_of(&round_machine, &p, &r);
  SAME(tri_cost_of_rollout(&round_machine, &whole, &r), tri_cost_of_rollout(&round_machine, &c, &r));
  r.tensor = 2; /* the same from the times of a whole model */
  tri_cost_divide(&round_machine, &r, &whole);
  SAME(whole.decode.fixed_s, step);
  SAME(whole.decode.each_s, row);
  SAME(whole.prefill_s, token);
  r.answers = 0;
  r.share = (tri_cost_share){.ranks = 8, .per_node = 4, .params = 2}; /* a quarter between two nodes first */
  SAME(tri_cost_of_rollout(&round_machine, &c, &r),
       2e-4 + 5e-5 + 1100 * 0.875 / 1e7 + slice + 1e-4 + 840 * 0.5 / 1e7 + pack);
  r.share = (tri_cost_share){.ranks = 4, .per_node = 4, .params = 1};
  r.tensor = 4; /* a rank's share is its slice, so it lacks nothing of that */
  SAME(tri_cost_of_rollout(&round_machine, &c, &r), 3e-5 + 1100 * 0.75 / 1e8 + pack / 2);
  r.share = (tri_cost_share){.ranks = 6, .per_node = 6, .params = 1}; /* 6 does not divide 10 x 8 */
  r.tensor = 2;
  SAME(tri_cost_of_rollout(&round_machine, &c, &r), 5e-5 + 4460 * 5 / 6.0 / 1e8 + pack);
}

static void steps(void **state) {
  (void)state;
  assert_int_equal(tri_cost_steps(3600, 100, 60), 35);
  assert_int_equal(tri_cost_steps(3600, 4000, 60), 0);
  assert_int_equal(tri_cost_steps(30, 1, 60), 0);
  assert_int_equal(tri_cost_steps(30, 0, 0), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(flops),
                                     cmocka_unit_test(recurrent_layers),
                                     cmocka_unit_test(states_take_time),
                                     cmocka_unit_test(rings),
                                     cmocka_unit_test(learning),
                                     cmocka_unit_test(scoring_and_adapters),
                                     cmocka_unit_test(updates_of_each_plan),
                                     cmocka_unit_test(generating),
                                     cmocka_unit_test(generating_as_one_model),
                                     cmocka_unit_test(steps)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
