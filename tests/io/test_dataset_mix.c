/* test_dataset_mix.c - tests drawing files by weights. Judges: the shares of the weights, within five
 * deviations, each file's own passes, and positions in any order against one order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "base/error.h"
#include "dataset_case.h"
#include "refusal_case.h"

enum { N_A = 30, N_B = 7, DRAWS = 5000 };

static tri_dataset *open_two(void) {
  const char  *file[] = {path_a, path_b};
  char         text[4096];
  size_t       at = 0;
  tri_data_opt opt = options(TRI_DATA_PROMPTS);
  tri_dataset *d;

  for (int i = 0; i < N_A; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "{\"prompt\":\"a%d\"}\n", i);
  put_file(path_a, text, at);
  at = 0;
  for (int i = 0; i < N_B; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "{\"prompt\":\"b%d\"}\n", i);
  put_file(path_b, text, at);
  if (tri_dataset_open(file, 2, &opt, &d) != TRI_OK) fail_msg("%s", tri_error_message());
  return d;
}

static tri_dataset *open_mixed(double a, double b) {
  const char  *file[] = {path_a, path_b};
  double       weight[] = {a, b};
  tri_dataset *d = open_two();

  assert_int_equal(tri_dataset_weigh(d, file, weight, 2), TRI_OK);
  return d;
}

static void takes_files_by_weight(void **state) {
  tri_dataset *d = open_mixed(1, 3);
  int          from_b = 0, seen[N_A + N_B] = {0};

  (void)state;
  for (int i = 0; i < DRAWS; i++) {
    int64_t k = tri_dataset_at(d, 42, true, i);
    from_b += k >= N_A;
    seen[k]++;
  }
  /* binomial: deviation sqrt(n p q) */
  assert_true(fabs(from_b - 0.75 * DRAWS) < 5 * sqrt(DRAWS * 0.75 * 0.25));
  for (int k = 0; k < N_A + N_B; k++) { /* every pass takes every line once */
    int passes = k < N_A ? (DRAWS - from_b) / N_A : from_b / N_B;
    assert_true(seen[k] == passes || seen[k] == passes + 1);
  }
  tri_dataset_close(&d);
}

/* A file's lines come in the file's order without shuffling. With shuffling each pass has another order. */
static void each_file_has_its_own_passes(void **state) {
  tri_dataset *d = open_mixed(2, 1);
  int64_t      next[2] = {0, 0}, first[N_B], again[N_B], n = 0;

  (void)state;
  for (int i = 0; i < DRAWS; i++) {
    int64_t k = tri_dataset_at(d, 7, false, i);
    bool    b = k >= N_A;
    assert_int_equal(k, b ? N_A + next[1] : next[0]);
    next[b] = (next[b] + 1) % (b ? N_B : N_A);
  }
  for (int i = 0; n < 2 * N_B; i++) {
    int64_t k = tri_dataset_at(d, 7, true, i);
    if (k >= N_A) (n < N_B ? first : again)[n % N_B] = k, n++;
  }
  assert_memory_not_equal(first, again, sizeof first);
  tri_dataset_close(&d);
}

/* The example at a position does not depend on earlier questions, as after a resume, on other ranks, back and
 * forth. */
static void positions_stand_alone(void **state) {
  tri_dataset *d = open_mixed(1, 1), *e = open_mixed(1, 1), *other = open_mixed(1, 1);
  int64_t      want[DRAWS];
  int          differ = 0;

  (void)state;
  for (int i = 0; i < DRAWS; i++) want[i] = tri_dataset_at(d, 42, true, i);
  for (int i = 0; i < DRAWS; i++) {
    int at = (int)((int64_t)i * 1237 % DRAWS);
    assert_int_equal(tri_dataset_at(e, 42, true, at), want[at]);
    differ += tri_dataset_at(other, 43, true, i) != want[i];
  }
  assert_true(differ > DRAWS / 2);
  tri_dataset_close(&d);
  d = open_mixed(1, 1);
  for (int i = DRAWS - 1; i > DRAWS - 10; i--) assert_int_equal(tri_dataset_at(d, 42, true, i), want[i]);
  tri_dataset_close(&d);
  tri_dataset_close(&e);
  tri_dataset_close(&other);
}

/* The file of a line is part of a resume's comparison. */
static void the_hash_knows_files(void **state) {
  tri_dataset *d = open_two(), *mixed = open_mixed(1, 1);

  (void)state;
  assert_true(tri_dataset_hash(d) != tri_dataset_hash(mixed));
  tri_dataset_close(&d);
  tri_dataset_close(&mixed);
}

/* Weights whose sum exceeds the largest double. */
static void takes_huge_weights(void **state) {
  tri_dataset *d = open_mixed(1e308, 1e308);
  int          from_b = 0;

  (void)state;
  for (int i = 0; i < DRAWS; i++) from_b += tri_dataset_at(d, 42, true, i) >= N_A;
  assert_true(fabs(from_b - 0.5 * DRAWS) < 5 * sqrt(DRAWS * 0.25));
  tri_dataset_close(&d);
}

static void refuses_a_file_without_lines(void **state) {
  const char  *file[] = {path_a, path_b};
  double       weight[] = {1, 1};
  tri_data_opt opt = options(TRI_DATA_PROMPTS);
  tri_dataset *d;

  (void)state;
  put_file(path_a, "{\"prompt\":\"a\"}\n", 15);
  put_file(path_b, "\n", 1);
  assert_int_equal(tri_dataset_open(file, 2, &opt, &d), TRI_OK);
  assert_int_equal(tri_dataset_weigh(d, file, weight, 2), TRI_EINPUT);
  expect_refusal("tri_dataset_weigh() b.jsonl");
  tri_error_clear();
  tri_dataset_close(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(takes_files_by_weight, setup, teardown),
      cmocka_unit_test_setup_teardown(each_file_has_its_own_passes, setup, teardown),
      cmocka_unit_test_setup_teardown(positions_stand_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(takes_huge_weights, setup, teardown),
      cmocka_unit_test_setup_teardown(the_hash_knows_files, setup, teardown),
      cmocka_unit_test_setup_teardown(refuses_a_file_without_lines, setup, teardown),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
