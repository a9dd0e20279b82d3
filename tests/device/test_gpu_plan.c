/* test_gpu_plan.c - tests the sizes in a GPU's memory plan, a planned GPU that gives them, and the rows of a
 * ledger. Judge: exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "device/gpu_plan.h"
#include "device/kernels.h"
#include "device/memory.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), TRI_OK)

static void sizes_by_hand(void **state) {
  (void)state;
  assert_true(tri_gpu_logit_bytes((size_t)8 << 30) == (size_t)256 << 20);
  assert_true(tri_gpu_logit_bytes((size_t)79 << 30) == (size_t)4 << 30);
  assert_true(tri_gpu_logit_bytes((size_t)1 << 30) == (size_t)64 << 20);
  assert_int_equal(tri_gpu_check_rows(1000), 512);
  assert_int_equal(tri_gpu_check_rows(128256), (128 << 20) / (12 * 128256));
  assert_int_equal(tri_gpu_check_rows(4 << 20), 16);
  /* 512 rows of 500 bf16, 1000 biases of 4 bytes in 16 x 256, three results of 512 x 1000 f32, 32 MiB and
   * 256 */
  assert_int_equal(tri_gpu_trial_bytes(1000, 500, TRI_BF16, 512), 512000 + 4096 + 3 * 2048000);
  assert_int_equal(tri_gpu_workspace_bytes(1000, 500, TRI_BF16), 6660096 + 33554432 + 256);
}

/* Number of heads with spread decoding, and its planned memory. At most 40 / 8 rows count. 33 pages are 17
 * pairs. Each of 32 heads has 64 scores and the maximum for each pair. The host plans nothing, and neither
 * does a GPU with contexts of up to 1024 tokens. */
static void long_contexts_by_hand(void **state) {
  const tri_heads   h = {32, 8, 128}, wide = {41, 41, 64};
  tri_device       *d, *cpu;
  tri_device_advice gpu, host;

  (void)state;
  assert_int_equal(tri_gpu_spread_heads(132), 33);
  assert_int_equal(tri_gpu_spread_heads(3), 0);
  assert_int_equal(tri_gpu_spread_heads(1000), 40);
  OK(tri_gpu_on_paper("cuda", (size_t)8 << 30, &d));
  OK(tri_device_open("cpu", 0, 1, &cpu));
  assert_int_equal(tri_gpu_spread_work(d, &h, 100, 33), 5 * 32 * 17 * 65);
  assert_int_equal(tri_gpu_spread_work(d, &h, 2, 33), 2 * 32 * 17 * 65);
  assert_int_equal(tri_gpu_spread_work(d, &h, 100, 32), 0);
  assert_int_equal(tri_gpu_spread_work(d, &wide, 100, 33), 0);
  assert_int_equal(tri_gpu_spread_work(cpu, &h, 100, 33), 0);
  d->ops->advice(d, &gpu);
  gpu.spread_heads = tri_gpu_spread_heads(132);
  cpu->ops->advice(cpu, &host);
  assert_true(tri_attn_spreads(&gpu, &h, 4, 1025) && !tri_attn_spreads(&gpu, &h, 5, 1025));
  assert_true(!tri_attn_spreads(&gpu, &h, 4, 1024) && !tri_attn_spreads(&host, &h, 1, 100000));
  tri_device_close(&d);
  tri_device_close(&cpu);
}

static void a_gpu_on_paper_says_them(void **state) {
  const tri_linear_spec spec = {1000, 500, TRI_BF16, true, false, NULL};
  tri_device           *d;
  tri_linear           *l;
  tri_linear_bytes      bytes;
  tri_device_advice     advice;
  size_t                bytes_free, bytes_total;

  (void)state;
  OK(tri_gpu_on_paper("cuda", (size_t)8 << 30, &d));
  assert_true(tri_device_is_gpu(d));
  assert_string_equal(d->ops->name, "cuda");
  d->ops->advice(d, &advice);
  assert_true(advice.logit_bytes == (size_t)256 << 20);
  OK(d->ops->mem_info(d, &bytes_free, &bytes_total));
  assert_true(bytes_total == (size_t)8 << 30 && bytes_free == ((size_t)8 << 30) - ((size_t)512 << 20));
  OK(d->ops->kernels->linear_open(d, &spec, &l));
  OK(d->ops->kernels->linear_size(l, &bytes));
  assert_int_equal(bytes.workspace, tri_gpu_workspace_bytes(1000, 500, TRI_BF16));
  assert_int_equal(bytes.fwd + bytes.bwd, 0);
  OK(d->ops->kernels->linear_close(&l));
  tri_device_close(&d);
  assert_null(d);
}

/* Entries of one name are added up by phase and kind. Entries of another case and of 0 bytes get no row. */
static void rows_of_a_ledger(void **state) {
  tri_ledger     *l;
  tri_ledger_row *row;
  void           *where[7];
  int             n;

  (void)state;
  OK(tri_ledger_open(&l));
  OK(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "a", 256, &where[0]));
  OK(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "a", 512, &where[1]));
  OK(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "a", 1, &where[2]));
  OK(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ALWAYS, false, "a", 1024, &where[3]));
  OK(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, "none", 0, &where[4]));
  tri_ledger_set_case(l, TRI_CASE_RESIDENT);
  OK(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "elsewhere", 256, &where[5]));
  tri_ledger_set_case(l, TRI_CASE_ANY);
  OK(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "b", 768, &where[6]));
  OK(tri_ledger_rows(l, &row, &n));
  assert_int_equal(n, 4);
  assert_int_equal(row[0].bytes, 512);
  assert_int_equal(row[1].bytes, 512);
  assert_int_equal(row[1].phase, TRI_PHASE_LEARN);
  assert_int_equal(row[2].bytes, 1024);
  assert_int_equal(row[2].kind, TRI_MEM_HOST);
  assert_string_equal(row[3].name, "b");
  assert_int_equal(tri_ledger_total(l).planned, 512 + 768 + 1024);
  TRI_FREE(row);
  tri_ledger_close(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_by_hand), cmocka_unit_test(long_contexts_by_hand),
                                     cmocka_unit_test(a_gpu_on_paper_says_them),
                                     cmocka_unit_test(rows_of_a_ledger)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
