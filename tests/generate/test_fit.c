/* test_fit.c - tests how many sequences a rank decodes at once, and how many pages its cache has. The
 * expected numbers are worked out by hand. The GPU is a described one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "generate/fit.h"
#include "generate/sampler.h"

static const int64_t GIB = 1 << 30;

static void open_paper(tri_session *se, size_t gpu_bytes) {
  tri_session_opt opt = {.device = "cuda", .threads = 1};
  assert_int_equal(tri_session_pretend_gpu(&opt, 1, 1, gpu_bytes, se), TRI_OK);
}

/* The cores of the host take 256 and a GPU 512, whatever memory there is. */
static void rows_have_a_limit(void **state) {
  tri_session se;

  (void)state;
  open_paper(&se, 0);
  assert_int_equal(tri_sampler_most(se.device, 4096), 256);
  assert_int_equal(tri_sampler_most(se.device, 100), 100);
  tri_session_close(&se);
  open_paper(&se, (size_t)80 * GIB);
  assert_int_equal(tri_sampler_most(se.device, 4096), 512);
  assert_int_equal(tri_sampler_most(se.device, 300), 300);
  tri_session_close(&se);
}

/* A page of 32 tokens, with 2 layers of 3 heads of 8 columns, for keys and for values. */
static void a_page_is_its_tokens(void **state) {
  tri_model_shape sh = {.L = 2, .G = 3, .D = 8};

  (void)state;
  assert_int_equal(tri_sampler_page_bytes(&sh, TRI_BF16), 32 * 2 * 48 * 2);
  assert_int_equal(tri_sampler_page_bytes(&sh, TRI_F32), 32 * 2 * 48 * 4);
  tri_set_recurrent(&sh, 1); /* has no page */
  assert_int_equal(tri_sampler_page_bytes(&sh, TRI_F32), 32 * 48 * 4);
  assert_int_equal(tri_sampler_states(&sh, 9), 10);
  tri_set_recurrent(&sh, 0);
  assert_int_equal(tri_sampler_page_bytes(&sh, TRI_F32), 0);
}

/* Pages of 1 GiB on a GPU of 80 GiB, of which a context takes 0.5 GiB. The cache leaves 1.75 GiB, and a 16th
 * of a GPU of 16 GiB, so 1 GiB. */
static void the_cache_takes_what_is_left(void **state) {
  static const struct {
    int64_t gpu_gib, planned_gib, asked, want;
  } cases[] = {{80, 0, 50, 50},  {80, 0, 100, 76}, {80, 40, 100, 36},
               {80, 76, 100, 0}, {80, 79, 5, 0},   {16, 4, 100, 9}};

  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    void       *always, *learn;
    size_t      bytes = (size_t)cases[i].planned_gib * GIB;
    int64_t     n = cases[i].asked;
    tri_session se;
    open_paper(&se, (size_t)cases[i].gpu_gib * GIB);
    assert_in_range(tri_session_beside_bytes(&se), GIB, (size_t)GIB + GIB / 4);
    assert_int_equal(tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "a", bytes, &always),
                     0);
    assert_int_equal(
        tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "b", (size_t)40 * GIB, &learn), 0);
    assert_int_equal(tri_sampler_fit_pages(&se, 0, GIB, &n), TRI_OK);
    assert_int_equal(n, cases[i].want);
    tri_session_close(&se);
  }
}

/* States of 1 GiB in half of the 76 GiB that the cache may take of a GPU of 80 GiB, one of them of a prompt.
 * Each rank decodes at least one sequence. Without states the number stays. */
static void states_limit_the_rows(void **state) {
  static const struct {
    int64_t planned_gib, state_bytes, asked, want;
  } cases[] = {{0, GIB, 20, 20},  {0, GIB, 37, 37},   {0, GIB, 38, 37}, {0, GIB, 500, 37},
               {40, GIB, 30, 17}, {76, GIB, 30, 1},   {79, GIB, 30, 1}, {79, GIB, 1, 1},
               {73, GIB, 30, 1},  {0, 2 * GIB, 1, 1}, {79, 0, 30, 30}};

  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t      bytes = (size_t)cases[i].planned_gib * GIB;
    int64_t     n = cases[i].asked;
    void       *always;
    tri_session se;
    open_paper(&se, (size_t)80 * GIB);
    assert_int_equal(tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "a", bytes, &always),
                     0);
    assert_int_equal(tri_sampler_fit_rows(&se, cases[i].state_bytes, &n), TRI_OK);
    assert_int_equal(n, cases[i].want);
    tri_session_close(&se);
  }
}

/* The states leave 76 - 20 GiB to pages of 1 GiB. Pages without bytes fit if the states do. */
static void states_come_before_pages(void **state) {
  static const struct {
    int64_t states_gib, page_bytes, want;
  } cases[] = {{0, GIB, 76}, {20, GIB, 56}, {76, GIB, 0}, {90, GIB, 0}, {20, 0, 100}, {90, 0, 0}};

  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t     n = 100;
    tri_session se;
    open_paper(&se, (size_t)80 * GIB);
    assert_int_equal(tri_sampler_fit_pages(&se, cases[i].states_gib * GIB, cases[i].page_bytes, &n), TRI_OK);
    assert_int_equal(n, cases[i].want);
    tri_session_close(&se);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_have_a_limit), cmocka_unit_test(a_page_is_its_tokens),
      cmocka_unit_test(the_cache_takes_what_is_left), cmocka_unit_test(states_limit_the_rows),
      cmocka_unit_test(states_come_before_pages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
