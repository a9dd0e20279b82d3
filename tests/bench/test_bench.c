/* test_bench.c - tests the shares computed from a bench's figures, and the screen. Judge: numbers worked by
 * hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tools/bench/bench_report.h"
#include "refusal_case.h"

static void pairs_of_a_window(void **state) {
  (void)state;
  assert_true(tri_attention_pairs(4, 0) == 10);
  assert_true(tri_attention_pairs(4, 4) == 10);
  assert_true(tri_attention_pairs(4, 9) == 10);
  assert_true(tri_attention_pairs(5, 2) == 9); /* 1 + 2 + 2 + 2 + 2 */
}

/* 4 layers, of which the second and the fourth attend. Width 10, mlp 20, 2 heads of 4 with a gate, one of
 * keys. Recurrent layers have 3 heads of values and one of keys, 5 wide and 6. */
static void recurrent_layers_move_their_states(void **state) {
  tri_bench_case c;
  double         attention = 10 * (2 * 8 + 2 * 4) + 8 * 10, mix = 2 * 6 + 15,
         recurrent = 10 * (mix + 15 + 2 * 3) + 15 * 10,
         weights = 2 * (attention + recurrent) + 4 * 3 * 10 * 20 + 500;

  (void)state;
  tri_bench_case_default(&c);
  c.shape.L = 4, c.shape.C = 10, c.shape.F = 20, c.shape.H = 2, c.shape.G = 1, c.shape.D = 4, c.shape.V = 50;
  c.shape.attn_gate = true;
  c.shape.delta.Hk = 1, c.shape.delta.Hv = 3, c.shape.delta.Dk = 6, c.shape.delta.Dv = 5;
  tri_set_recurrent(&c.shape, 0);
  tri_set_recurrent(&c.shape, 2);
  assert_true(tri_bench_decode_bytes(&c, 0, 10) == 2 * weights);
  /* a sequence has 10 keys and values of 4 in two layers, and reads and writes 3 x 6 x 5 floats in two */
  assert_true(tri_bench_decode_bytes(&c, 7, 10) - 2 * weights == 7 * (2.0 * 2 * 2 * 10 * 4 + 2 * 2 * 4 * 90));
}

static void the_case_without_a_deck(void **state) {
  tri_bench_case c;

  (void)state;
  tri_bench_case_default(&c);
  /* Products have 12 (4 768^2 + 3 768 2048) + 50257 768 numbers of 2 bytes each. Keys and values are 3 x 10
   * tokens in 12 layers. */
  assert_true(tri_bench_decode_bytes(&c, 0, 10) == 2 * 123532032.0);
  assert_true(tri_bench_decode_bytes(&c, 3, 10) - tri_bench_decode_bytes(&c, 0, 10) ==
              2.0 * 3 * 10 * 12 * 2 * 768);
  c.shape.attn.window = 4;
  tri_set_local(&c.shape, 0);
  assert_true(tri_bench_decode_bytes(&c, 1, 10) - tri_bench_decode_bytes(&c, 0, 10) ==
              2.0 * (4 + 11 * 10) * 2 * 768);
  assert_int_equal(tri_bench_tokens(&c.size), 1024);
  assert_int_equal(tri_bench_rows(&c.size), 1020);
  assert_int_equal(tri_bench_steps(&c.size), 64);
  assert_int_equal(tri_bench_prompt(&c.size), 160); /* 128, plus half of the 64 steps before */
}

/* Two ranks, two passes an update. A forward pass takes 0.5 s, with products of 2 x 0.125 + 0.0625. A
 * backward pass takes 1 s, with products of 2 x (0.125 + 0.25) + (0.0625 + 0) + once more 1 x 0.125. Memory
 * has 100 GB/s. */
static tri_bench_result figures(void) {
  tri_bench_result r = {
      .who = {2, 1, 2, 1, 2, "cpu", "", "oneDNN 2.6.3", 0}, .numbers = 1000, .n_product = 2};

  r.product[0] = (tri_product_times){"gate, up", 4000, 1000, 500, 2, 1, 0.125, 0.125, 0.25};
  r.product[1] = (tri_product_times){"head", 50257, 1000, 500, 1, 0, 0.0625, 0.0625, 0};
  r.learn = (tri_learn_times){0.5, 1, 1.5, 0.5, 0.25, 7};
  r.update_bytes = 12.5e9;
  r.read_bytes_per_s = 100e9;
  r.attention[TRI_GLOBAL] = (tri_attention_times){2, 0, 1e9, 0.0625, 0.125};
  r.decode[0] = (tri_decode_times){1, 192, 0.25, 5e9, 100e9, 5};
  r.decode[1] = (tri_decode_times){4, 191, 0.5, 10e9, 80e9, 5};
  r.n_decode = 2;
  r.context = 160;
  r.rate[0] = (tri_bench_rate){"world", 1 << 20, 3.5e9, 12e-6};
  r.n_rate = 1;
  r.disk = (tri_disk_times){"out", "", 1 << 30, (int64_t)4 << 30, 2, 0.5, 5};
  return r;
}

static void floors_and_rates(void **state) {
  tri_bench_result r = figures();
  tri_bench_case   c;

  (void)state;
  tri_bench_case_default(&c);
  c.passes = 2;
  assert_true(tri_product_flops(&r.product[0]) == 4e9);
  assert_true(tri_products_forward_s(r.product, 2) == 0.3125);
  assert_true(tri_products_backward_s(r.product, 2) == 0.9375);
  assert_true(tri_bench_update_floor_s(&r) == 0.125);
  assert_true(tri_bench_step_s(&c, &r) == 3.75);
  assert_true(tri_bench_floor_s(&c, &r) == 2.625);
  assert_true(tri_bench_tokens_per_s(&c, &r) == 2 * 1024 * 2 / 3.75);
  assert_true(tri_attention_pass_s(r.attention) == 0.375);
  assert_true(tri_bench_decode_floor_s(&r.decode[1]) == 0.125);
  assert_true(tri_bench_decode_tokens_per_s(&c, &r, &r.decode[1]) == 16);
  c.tensor = 2; /* the ranks are one model */
  assert_true(tri_bench_decode_tokens_per_s(&c, &r, &r.decode[1]) == 8);
  assert_true(tri_bench_decode_bytes(&c, 0, 10) == 123532032.0);
}

/* Checks that one line of the screen has all facts, in any order. */
static void shows(const tri_text *t, const char *facts) {
  char line[200];

  for (const char *at = t->data; *at; at += strcspn(at, "\n") + 1) {
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    if (tells(line, facts)) return;
  }
  fail_msg("no line with '%s' in\n%s", facts, t->data);
}

static void a_screen_says_what_there_is(void **state) {
  tri_bench_result r = figures();
  tri_bench_case   c;
  tri_text         t = {0};
  int              lines = 0;

  (void)state;
  tri_bench_case_default(&c);
  c.passes = 2;
  assert_int_equal(tri_bench_print(NULL, &c, &r, &t), TRI_OK);
  shows(&t, "2 1 cpu oneDNN 2.6.3 bf16");
  shows(&t, "GPT-2 12 768");
  shows(&t, "gate, up 4000 1000 500 32 16");
  shows(&t, "head 50257 1000 500 804");
  assert_non_null(strstr(t.data, "       804       804\n")); /* no grad W */
  shows(&t, "0.5 0.312 62%");
  shows(&t, "1 0.938 94%");
  shows(&t, "3.75 2.62 70%");
  shows(&t, "1092 20%");
  shows(&t, "256 16 20 GFLOP/s");
  shows(&t, "160 1 4");
  shows(&t, "tokens/s 8 16");
  shows(&t, "GB/s 200 160");
  shows(&t, "20% 25%");
  shows(&t, "sequences memory"); /* no column of 16 */
  shows(&t, "world 3.5 GB/s 12");
  shows(&t, "1.00 4.00 GiB 2 0.537 GB/s");
  shows(&t, "25% 2.15 GB/s");
  for (const char *line = t.data; *line; line += strcspn(line, "\n") + 1, lines++)
    assert_true(strcspn(line, "\n") <= 79);
  assert_true(lines <= 24);
  tri_text_free(&t);
  r.n_decode = r.n_rate = 0;
  strcpy(r.disk.why, "out: is read-only");
  assert_int_equal(tri_bench_print("deck.yaml", &c, &r, &t), TRI_OK);
  shows(&t, "deck.yaml: 12");
  shows(&t, "decode: 200 GB/s");
  shows(&t, "collectives: !GB/s");
  shows(&t, "checkpoint: out: read-only");
  tri_text_free(&t);
}

static void more_than_a_quarter_of_the_cores_is_told(void **state) {
  tri_text t = {0};

  (void)state;
  assert_int_equal(tri_bench_warn(0.25, &t), TRI_OK);
  assert_int_equal(tri_bench_warn(NAN, &t), TRI_OK);
  assert_int_equal(t.len, 0);
  assert_int_equal(tri_bench_warn(0.26, &t), TRI_OK);
  assert_true(tells(t.data, "0.26"));
  assert_null(strchr(t.data, '\n'));
  tri_text_free(&t);
}

static void json_has_the_load(void **state) {
  tri_bench_result r = figures();
  tri_bench_case   c;
  tri_text         t = {0};

  (void)state;
  tri_bench_case_default(&c);
  r.who.load_per_core = 5.25;
  assert_int_equal(tri_bench_print_json(NULL, &c, &r, &t), TRI_OK);
  shows(&t, ", \"load_per_core\": 5.25, ");
  tri_text_free(&t);
  r.who.load_per_core = NAN;
  assert_int_equal(tri_bench_print_json(NULL, &c, &r, &t), TRI_OK);
  shows(&t, ", \"load_per_core\": null, ");
  tri_text_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_of_a_window),
                                     cmocka_unit_test(the_case_without_a_deck),
                                     cmocka_unit_test(recurrent_layers_move_their_states),
                                     cmocka_unit_test(floors_and_rates),
                                     cmocka_unit_test(more_than_a_quarter_of_the_cores_is_told),
                                     cmocka_unit_test(json_has_the_load),
                                     cmocka_unit_test(a_screen_says_what_there_is)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
