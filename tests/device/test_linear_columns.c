/* test_linear_columns.c - tests the columns of parts of a weight (tri_linear_spec.whole) on every device.
 * Judge: bit equality with the whole's columns. tests/gpu/check.sh runs it first, because divided generation
 * relies on it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_case.h"
#include "filter_case.h"
#include "part_case.h"

enum { MANY = 100, KINDS = 4 };

/* Compares 2, 4 and 8 parts with the whole, for 1 to 100 rows at different places. Every number of rows, in
 * brief runs every third, is tried by one part of each count. `often` divides these numbers. If the device
 * `may_refuse`, it may report that it cannot do it. */
static void columns_of(int64_t n_out, int64_t n_in, tri_dtype dtype, int often, bool may_refuse) {
  const kind kinds[KINDS] = {{TRI_F32, TRI_DTYPE_COUNT, false},
                             {dtype, dtype, false},
                             {TRI_F32, dtype, true},
                             {dtype, TRI_DTYPE_COUNT, true}};
  if (!supported(n_out, n_in, dtype)) return;
  layer whole = layer_open(n_out, n_in, dtype, false, 2);
  fence x = fence_noise(MANY * n_in, dtype, 7), judge[KINDS];
  for (int k = 0; k < KINDS; k++) judge[k] = part_fwd(&whole, &x, MANY, kinds[k], 1, 0, 0, MANY);
  OK(whole.k->linear_check(whole.s, whole.l, whole.fwd));
  for (int t = 2; t <= 8; t *= 2) {
    if (!supported(n_out / t, n_in, dtype)) continue;
    layer      a = part_open(&whole, t, t == 4 ? 1 : 2);
    const bool refused = may_refuse && a.k->linear_check(a.s, a.l, a.fwd) == TRI_EDEVICE;
    if (refused) {
      expect_refusal("run.sampler: rescore");
      tri_error_clear();
    }
    for (int i = 0; i < t && !refused; i++) {
      part_load(&a, &whole, t, i);
      OK(a.k->linear_check(a.s, a.l, a.fwd));
      for (int rows = i + 1, k = i; rows <= MANY; rows += t * test_step(3) * often, k++)
        same_columns(&a, &judge[k % KINDS], &x, MANY, kinds[k % KINDS], t, i, rows * 29 % (MANY - rows + 1),
                     rows);
    }
    layer_close(&a);
  }
  for (int k = 0; k < KINDS; k++) fence_close(&judge[k]);
  fence_close(&x);
  layer_close(&whole);
}

/* The widths of parts are below, at and beside those of blocks, panels and tiles. Some weights have a
 * narrower last block, and some sums are so long that they are cut. A slow device has three of them, in bf16,
 * f32 and fp16. */
static void test_columns(void **state) {
  static const int64_t shapes[][2] = {{192, 48}, {96, 67},    {320, 96},  {8, 16},    {256, 64},  {576, 192},
                                      {960, 33}, {1024, 256}, {64, 4200}, {1152, 96}, {48, 2816}, {4096, 40}};
  const int            n = on_cpu() || test_step(2) == 1 ? sizeof shapes / sizeof *shapes : 3;
  (void)state;
  for (int i = 0; i < n; i++)
    for (int t = TRI_F32; t <= TRI_F16; t++) {
      if (!on_cpu() && (2 * i + 2 * t + 1) % test_step(3)) continue;
      columns_of(shapes[i][0], shapes[i][1], (tri_dtype)t, 1, false);
    }
}

/* The whole's last block of columns may have any width. oneDNN gives it other bits than wide blocks if it has
 * no more than AVX2 (seen with widths of 8 and 40). A part does not know its rows, so it must report this. */
static void test_narrow_block(void **state) {
  static const int64_t widths[] = {136, 200, 296, 424, 4008};
  (void)state;
  if (!on_cpu()) skip(); /* only the CPU has these blocks */
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    for (int t = TRI_F32; t <= TRI_F16; t++) columns_of(widths[i], 128, (tri_dtype)t, 3, true);
}

/* The shapes of Llama 3 in bf16: qkv, gate and up, down and head of 8B; qkv, gate and up, down of 70B. On a
 * CPU both sides are a 32nd. A slow device has two of these. */
static void test_model_columns(void **state) {
  static const int64_t shapes[][2] = {{6144, 4096},  {28672, 4096}, {4096, 14336}, {128256, 4096},
                                      {10240, 8192}, {57344, 8192}, {8192, 28672}};
  const bool           small = on_cpu() || test_step(2) > 1;
  const int            side = small ? 32 : 1, step = small && !on_cpu() ? 4 : 1;
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += (size_t)step)
    columns_of(shapes[i][0] / side / 64 * 64, shapes[i][1] / side, TRI_BF16, 9, false);
}

static int run_on(const char *name) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_model_columns),
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_narrow_block),
  };
  int failed;

  if (device_begin(name)) return 1;
  printf("device %s\n", name);
  failed = cmocka_run_group_tests_name("linear_columns", tests, NULL, NULL);
  device_end();
  return failed;
}

int main(void) {
  const tri_device_ops *ops;
  int                   failed = 0;

  test_filter();
  for (int i = 0; (ops = tri_device_at(i)) != NULL; i++)
    if (test_on(ops->name)) failed += run_on(ops->name);
  return failed;
}
