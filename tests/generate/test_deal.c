/* test_deal.c - prompts dealt to ranks by need. Judges: hand-worked numbers, and dealing one by one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "generate/deal.h"

enum { MOST = 9 };

static void expect(const int64_t *want, int ranks, int64_t round, int64_t left, const int64_t *give) {
  int64_t got[MOST];

  memset(got, 0xff, sizeof got);
  tri_deal(want, ranks, round, left, got);
  assert_memory_equal(got, give, (size_t)ranks * sizeof *give);
}
#define N(...) ((const int64_t[]){__VA_ARGS__})

static void test_by_hand(void **state) {
  (void)state;
  expect(N(3), 1, 0, 2, N(2));
  expect(N(3), 1, 5, 9, N(3));
  expect(N(0, 0, 0), 3, 1, 7, N(0, 0, 0));
  expect(N(2, 2, 2), 3, 0, 0, N(0, 0, 0));
  expect(N(1, 1, 1), 3, 0, 3, N(1, 1, 1));
  expect(N(1, 1, 1), 3, 0, 1, N(1, 0, 0)); /* a single one goes to rank round % 3 */
  expect(N(1, 1, 1), 3, 4, 1, N(0, 1, 0));
  expect(N(1, 0, 1), 3, 4, 1, N(0, 0, 1)); /* or to the next that wants one */
  expect(N(1, 1, 1), 3, 2, 2, N(1, 0, 1));
  expect(N(5, 1, 5), 3, 2, 8, N(3, 1, 4)); /* turns of 3, 2 and 2, then one for rank 2 */
  expect(N(9, 9, 9), 3, 1, 7, N(2, 3, 2));
  expect(N(0, 4, -3), 3, 0, 3, N(0, 3, 0)); /* a want below 0 is none */
  expect(N(1, 1), 2, 0, -1, N(0, 0));
}

/* A rank may want all of very many. */
static void test_large(void **state) {
  const int64_t all = INT64_MAX;

  (void)state;
  expect(N(all, 0, all), 3, 2, 11, N(5, 0, 6));
  expect(N(all, 0, 3), 3, 2, all, N(all - 3, 0, 3));
  expect(N(all, all), 2, 1, all, N(all / 2, all / 2 + 1));
}

/* Deals one by one. */
static void deal_slowly(const int64_t *want, int ranks, int64_t round, int64_t left, int64_t *give) {
  int64_t before = left + 1;

  for (int r = 0; r < ranks; r++) give[r] = 0;
  while (left > 0 && left != before) {
    before = left;
    for (int i = 0; i < ranks && left > 0; i++) {
      int r = (int)((round + i) % ranks);
      if (give[r] >= want[r]) continue;
      give[r]++;
      left--;
    }
  }
}

static void check_one(const int64_t *want, int ranks, int64_t round, int64_t left) {
  int64_t give[MOST], slowly[MOST], given = 0, wanted = 0;

  tri_deal(want, ranks, round, left, give);
  for (int r = 0; r < ranks; r++) {
    assert_true(give[r] >= 0 && give[r] <= want[r]);
    given += give[r];
    wanted += want[r];
  }
  assert_int_equal(given, left < wanted ? left : wanted); /* nothing is left while somebody wants */
  for (int r = 0; r < ranks; r++)                         /* nobody gets two more than one who wants more */
    for (int q = 0; q < ranks; q++) assert_true(give[r] == want[r] || give[q] <= give[r] + 1);
  deal_slowly(want, ranks, round, left, slowly);
  assert_memory_equal(give, slowly, (size_t)ranks * sizeof *give);
}

static void test_random(void **state) {
  uint64_t x = 20251;

  (void)state;
  for (int i = 0; i < 20000; i++) {
    int64_t want[MOST], draw[MOST + 3];
    int     ranks;
    for (int k = 0; k < MOST + 3; k++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      draw[k] = (int64_t)(x >> 33);
    }
    ranks = (int)(1 + draw[MOST] % MOST);
    for (int r = 0; r < ranks; r++) want[r] = draw[r] % 3 == 0 ? 0 : draw[r] / 3 % (i % 2 ? 4 : 40);
    check_one(want, ranks, draw[MOST + 1], draw[MOST + 2] % 80);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_random),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
