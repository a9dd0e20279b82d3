/* test_best.c - the best step by one metric. Judge: exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/best.h"

#include "base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void which_way_is_better(void **state) {
  static const tri_best none = {-1, 0}, some = {3, 0.5};

  (void)state;
  assert_true(tri_best_is_least("eval_loss") && tri_best_is_least("eval_b_perplexity"));
  assert_false(tri_best_is_least("eval_reward_mean") || tri_best_is_least("eval_loss_mean") ||
               tri_best_is_least("ss"));
  assert_true(tri_best_beats("eval_loss", 9, &none) && tri_best_beats("eval_x", -INFINITY, &none));
  assert_false(tri_best_beats("eval_x", NAN, &none) || tri_best_beats("eval_loss", NAN, &some));
  assert_true(tri_best_beats("eval_x", 0.6, &some) && tri_best_beats("eval_loss", 0.4, &some));
  assert_false(tri_best_beats("eval_x", 0.5, &some) || tri_best_beats("eval_loss", 0.5, &some));
  assert_false(tri_best_beats("eval_x", 0.4, &some) || tri_best_beats("eval_loss", 0.6, &some));
}

/* A folder with the checkpoints of these steps. */
static bool is_even(const void *ctx, int64_t step) {
  (void)ctx;
  return step % 2 == 0;
}
static bool is_any(const void *ctx, int64_t step) {
  (void)ctx;
  return step >= 0;
}

static tri_best found(const char *path, const char *metric, int64_t last, bool any) {
  tri_best b;

  assert_int_equal(tri_best_find(path, metric, last, any ? is_any : is_even, NULL, &b), TRI_OK);
  return b;
}

static void it_is_found_in_the_lines(void **state) {
  static const char text[] = "{\"step\": 0, \"eval_x\": 0.25, \"eval_loss\": 2}\n"
                             "{\"step\": 1, \"loss\": 9}\n"
                             "{\"step\": 2, \"eval_x\": 0.75, \"eval_loss\": 1.5}\n"
                             "{\"step\": 3, \"eval_x\": 1, \"eval_loss\": 0.1}\n"
                             "{\"step\": 4, \"eval_x\": null, \"eval_loss\": \"0\"}\n"
                             "{\"step\": 6, \"eval_x\": 0.75, \"eval_loss\": 1.5, \"eval\": \"due\"}\n"
                             "{\"step\": 8, \"eval_x\": 2, \"eval_loss\": 1}\n";
  static const char damaged[] = "{\"step\": 1, \"eval_x\": 1}\nno\n\0\0\0\n{\"step\": 4, \"eval_x\": 2}\n";
  char              path[] = "/tmp/trireme-best-XXXXXX";
  int               fd = mkstemp(path);

  (void)state;
  assert_true(fd >= 0 && !close(fd));
  assert_int_equal(tri_file_write(path, text, sizeof text - 1), TRI_OK);
  assert_true(found(path, "eval_x", 7, true).step == 3 && found(path, "eval_x", 7, true).value == 1);
  assert_true(found(path, "eval_x", 7, false).step == 2 && found(path, "eval_x", 99, false).step == 8);
  assert_true(found(path, "eval_loss", 7, false).step == 2 && found(path, "eval_loss", 99, true).step == 3);
  assert_true(found(path, "eval_x", 1, false).step == 0 && found(path, "eval_y", 99, true).step == -1);
  assert_int_equal(tri_file_write(path, damaged, sizeof damaged - 1), TRI_OK);
  assert_true(found(path, "eval_x", 9, true).step == 4); /* ignores lines that are not metrics */
  assert_false(unlink(path));
  assert_true(found(path, "eval_x", 9, true).step == -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(which_way_is_better),
                                     cmocka_unit_test(it_is_found_in_the_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
