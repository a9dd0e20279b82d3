/* test_fit.c - tests how many sequences a rank decodes at once. The expected numbers are worked out by hand.
 * The GPU is a described one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "generate/fit.h"

enum { GIB = 1 << 30, MIB = 1 << 20 };

static void open_paper(tri_session *se, size_t gpu_bytes) {
  tri_session_opt opt = {.device = "cuda", .threads = 1};
  assert_int_equal(tri_session_pretend_gpu(&opt, 1, 1, gpu_bytes, se), TRI_OK);
}

/* 2 layers, and 3 heads of 8 columns for keys and values, so 96 numbers per token and layer. One page
 * more. */
static void a_row_is_its_cache(void **state) {
  tri_model_shape sh = {.L = 2, .G = 3, .D = 8};

  (void)state;
  assert_int_equal(tri_sampler_row_bytes(&sh, TRI_BF16, 100), (100 + 32) * 2 * 48 * 2);
  assert_int_equal(tri_sampler_row_bytes(&sh, TRI_F32, 100), (100 + 32) * 2 * 48 * 4);
}

/* The cores of the host take 256, whatever memory there is. */
static void the_host_has_a_limit(void **state) {
  tri_session se;

  (void)state;
  open_paper(&se, 0);
  assert_int_equal(tri_sampler_most(se.device, 4096), 256);
  assert_int_equal(tri_sampler_most(se.device, 100), 100);
  tri_session_close(&se);
  open_paper(&se, (size_t)80 * GIB);
  assert_int_equal(tri_sampler_most(se.device, 4096), 4096);
  tri_session_close(&se);
}

/* Each sequence takes 16 MiB, on a GPU of 80 GiB. Generation gets 75 GiB, less the device memory planned for
 * it and that of the libraries. The memory of learning does not count. */
static void a_gpu_is_filled(void **state) {
  static const struct {
    int64_t planned_gib, asked, want;
  } cases[] = {{0, 4096, 4096}, {20, 4096, 2048}, {50, 3000, 1500}, {60, 4096, 512},
               {60, 100, 100},  {72, 4096, 256},  {72, 300, 256},   {74, 256, 256}};

  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    void       *always, *rollout, *learn, *host;
    size_t      half = (size_t)cases[i].planned_gib * GIB / 2;
    int64_t     n = cases[i].asked;
    tri_session se;
    open_paper(&se, (size_t)80 * GIB);
    assert_in_range(tri_session_beside_bytes(&se), 0, (size_t)3 * GIB);
    assert_int_equal(tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "a", half, &always),
                     0);
    assert_int_equal(tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "b", half, &rollout),
                     0);
    assert_int_equal(
        tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "c", (size_t)40 * GIB, &learn), 0);
    assert_int_equal(
        tri_ledger_add(se.ledger, TRI_MEM_PINNED, TRI_PHASE_ALWAYS, false, "d", (size_t)40 * GIB, &host), 0);
    assert_int_equal(tri_sampler_fit(&se, 16 * MIB, &n), TRI_OK);
    assert_int_equal(n, cases[i].want);
    tri_session_close(&se);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_is_its_cache),
                                     cmocka_unit_test(the_host_has_a_limit),
                                     cmocka_unit_test(a_gpu_is_filled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
