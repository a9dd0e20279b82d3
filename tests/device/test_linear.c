/* test_linear.c - tests the linear_* kernels of every device. Judges: f64 loops, and bit equality of rows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/gemm/linear.h"
#include "cpu/pairs/pairs.h"
#include "device_case.h"
#include "filter_case.h"
#include "linear_case.h"
#include "refusal_case.h"

#include <omp.h>

static const int64_t some_rows[] = {0, 1, 2, 3, 13, 16, 17, 63, 64, 65, 130};
enum { N_ROWS = sizeof some_rows / sizeof *some_rows };

/* Primes, and sizes one off the sizes of tiles and blocks. */
static const int64_t shapes[][2] = {{1, 1},    {1, 67},   {131, 1},  {3, 5},
                                    {131, 67}, {65, 129}, {127, 64}, {257, 128}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Takes every step-th shape and count of rows. */
static void values(tri_dtype dtype, int threads, int step) {
  for (int i = 0; i < N_SHAPES; i += step) {
    if (!supported(shapes[i][0], shapes[i][1], dtype)) continue;
    layer         a = layer_open(shapes[i][0], shapes[i][1], dtype, true, threads);
    const int64_t created = tri_gemm_count();
    for (int j = 0; j < N_ROWS; j += step) {
      const int64_t rows = some_rows[j];
      const bool    odd = (i / step + j / step) % 2;
      try_fwd(&a, rows, TRI_F32, odd ? TRI_DTYPE_COUNT : TRI_F32, odd ? ADDED_TO_ITSELF : ALONE);
      try_fwd(&a, rows, dtype, odd ? dtype : TRI_DTYPE_COUNT, odd ? ALONE : ADDED_TO_OTHER);
      try_fwd(&a, rows, TRI_F32, dtype, odd ? ADDED_TO_OTHER : ALONE); /* o and down with a bias */
      try_fwd(&a, rows, TRI_F32, odd ? TRI_F32 : TRI_DTYPE_COUNT, ADDED_TO_OTHER);
      try_bwd_x(&a, rows, odd ? dtype : TRI_F32, (i + j) % 3 == 0);
      try_bwd_w(&a, rows, true);
      try_bwd_w(&a, rows, false);
    }
    assert_int_equal(tri_gemm_count(), created);
    layer_close(&a);
  }
}

static void test_values_f32(void **state) {
  (void)state;
  values(TRI_F32, 2, 1);
}

static void test_values_bf16(void **state) {
  (void)state;
  values(TRI_BF16, 2, 1);
}

static void test_values_f16(void **state) {
  (void)state;
  values(TRI_F16, 3, on_cpu() ? 1 : test_step(2)); /* brief: every second shape and count of rows */
}

static void test_values_other_threads(void **state) {
  (void)state;
  if (!on_cpu()) skip(); /* only the CPU has threads */
  values(TRI_F32, 1, 2);
  values(TRI_BF16, 3, 2);
}

/* Many rows give several chunks of the gradient, one of them nearly full. */
static void test_many_rows(void **state) {
  (void)state;
  const int64_t   rows[] = {256, 500, 700, 5000};
  const tri_dtype type[] = {TRI_F32, TRI_BF16, TRI_F16};
  for (int t = 0; t < 3; t++) {
    if (!supported(37, 21, type[t])) continue;
    layer a = layer_open(37, 21, type[t], true, 2);
    for (int i = 0; i < 4; i++) {
      try_fwd(&a, rows[i], TRI_F32, TRI_DTYPE_COUNT, ALONE);
      try_bwd_x(&a, rows[i], TRI_F32, false);
      try_bwd_w(&a, rows[i], i % 2);
    }
    layer_close(&a);
  }
}

/* The vocabulary of a real tokenizer, or a small one in brief runs, gives many blocks and a long sum in
 * bwd_x. It is smaller still on GPUs, emulated ones among them: their library hides its blocks. */
static void test_large_vocabulary(void **state) {
  const int64_t vocabulary = test_step(2) == 1 ? 151665 : on_cpu() ? 16003 : 4003;
  (void)state;
  for (int t = 0; t < 2; t++) {
    if (!supported(vocabulary, 8, t ? TRI_BF16 : TRI_F32)) continue;
    layer a = layer_open(vocabulary, 8, t ? TRI_BF16 : TRI_F32, true, 2);
    try_fwd(&a, 3, TRI_F32, TRI_DTYPE_COUNT, ALONE);
    try_bwd_x(&a, 3, TRI_F32, false);
    try_bwd_w(&a, 3, false);
    OK(a.k->linear_check(a.s, a.l, a.fwd));
    layer_close(&a);
  }
}

/* The gradient of hidden states from logits. Its products have one sign, and their sum grows over a
 * vocabulary, as for probabilities with similar weights. Judge: an f64 loop. One f32 sum in order errs by
 * 4e-6 of it and more. Sums of pieces, added, err by less than 4e-7. A GPU's library has its own order. */
static void test_long_sums(void **state) {
  enum { OUT = 49157, IN = 37, ROWS = 5 };
  double error = 0, all = 0;
  (void)state;
  if (!on_cpu()) skip();
  layer  a = layer_open(OUT, IN, TRI_F32, true, 2);
  fence  dy = fence_noise(ROWS * OUT, TRI_F32, 2), dx = fence_noise(ROWS * IN, TRI_F32, 3);
  float *x = (float *)(void *)dy.data, *w = (float *)(void *)a.w.data;
  for (int64_t i = 0; i < OUT * IN; i++) w[i] = 2.0f + w[i];
  for (int64_t i = 0; i < ROWS * OUT; i++) x[i] = 1.0f + 0.5f * x[i];
  layer_pack(&a);
  tri_tensor dyt = tri_view2(dy.device, TRI_F32, ROWS, OUT), dxt = tri_view2(dx.device, TRI_F32, ROWS, IN);
  OK(a.k->linear_bwd_x(a.s, a.l, a.bwd, &dxt, &dyt, false));
  fence_get(&dx, a.s);
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t j = 0; j < IN; j++) {
      double sum = 0;
      for (int64_t i = 0; i < OUT; i++) sum += (double)x[r * OUT + i] * (double)w[i * IN + j];
      error += pow(get(dx.data, TRI_F32, r * IN + j) - sum, 2);
      all += sum * sum;
    }
  if (!(sqrt(error / all) <= 4e-7)) fail_msg("%.3g of the sums is lost", sqrt(error / all));
  fence_close(&dy);
  fence_close(&dx);
  layer_close(&a);
}

/* Row bits for every number of rows, another place, another thread count, with and without backward. Brief
 * runs take every third number of rows up to 70, and every seventh on a GPU. */
static void same_bits(int64_t n_out, int64_t n_in, tri_dtype dtype) {
  enum { MANY = 400 };
  if (!supported(n_out, n_in, dtype)) return;
  layer      two = layer_open(n_out, n_in, dtype, true, 2), other = layer_open(n_out, n_in, dtype, false, 1);
  fence      x = fence_noise(MANY * n_in, dtype, 7), judge = fence_open((size_t)(MANY * n_out) * 4);
  tri_tensor xt = tri_view2(x.device, dtype, MANY, n_in), yt = tri_view2(judge.device, TRI_F32, MANY, n_out);
  OK(two.k->linear_fwd(two.s, two.l, two.fwd, &yt, &xt, NULL, NULL));
  fence_get(&judge, two.s);
  for (int64_t rows = 1; rows <= MANY; rows += rows < 70 ? test_step(on_cpu() ? 3 : 7) : 55)
    for (int t = 0; t < 2; t++) {
      const layer  *a = t ? &two : &other;
      const int64_t first = (rows * 29) % (MANY - rows + 1);
      fence         y = fence_open((size_t)(rows * n_out) * 4);
      tri_tensor    part = tri_rows(&xt, first, rows), out = tri_view2(y.device, TRI_F32, rows, n_out);
      OK(a->k->linear_fwd(a->s, a->l, a->fwd, &out, &part, NULL, NULL));
      fence_get(&y, a->s);
      if (memcmp(y.data, judge.data + (size_t)(first * n_out) * 4, y.bytes) != 0)
        fail_msg("[%d,%d]: %d rows from %d, %d threads", (int)n_out, (int)n_in, (int)rows, (int)first, t + 1);
      fence_close(&y);
    }
  OK(two.k->linear_check(two.s, two.l, two.fwd));
  OK(other.k->linear_check(other.s, other.l, other.fwd));
  fence_close(&x);
  fence_close(&judge);
  layer_close(&two);
  layer_close(&other);
}

/* Brief runs have three of the five shapes on a GPU. */
static void test_row_bits(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    same_bits(288, 96, t ? TRI_BF16 : TRI_F32);
    same_bits(131, 67, t ? TRI_BF16 : TRI_F32);
    same_bits(96, 1024, t ? TRI_BF16 : TRI_F32);
    if (!on_cpu() && test_step(2) > 1) continue;
    same_bits(512, 256, t ? TRI_BF16 : TRI_F32);
    same_bits(80, 24, t ? TRI_BF16 : TRI_F32);
  }
}

/* bf16 uses AMX tiles if the process has them. k is so long that the partial sums of every number of rows
 * wait for a next chunk. The weights have no whole tile at any side. */
static void test_amx(void **state) {
  (void)state;
  enum { OUT = 45, IN = 8300 };
  if (!on_cpu() || !tri_pairs_find() || strcmp(tri_pairs_find()->name, "amx") != 0) skip();
  layer a = layer_open(OUT, IN, TRI_BF16, true, 2), b = layer_open(OUT, IN, TRI_F32, false, 2);
  assert_true(a.l->amx && !b.l->amx);
  try_fwd(&a, 5, TRI_BF16, TRI_BF16, ADDED_TO_ITSELF);
  try_fwd(&a, 49, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  layer_close(&a);
  layer_close(&b);
  same_bits(OUT, IN, TRI_BF16);
}

/* f32, and types that the library has no products for, use AVX-512 or AVX2 if the process has one of them. k
 * is so long that partial sums wait, in one layer for several blocks of columns. The weights have no whole
 * tile. */
static void test_vec(void **state) {
  (void)state;
  enum { OUT = 45, IN = 8300, WIDE = 1100 };
  static const tri_dtype type[] = {TRI_F32, TRI_BF16, TRI_F16};
  const int64_t          rows = 149 / test_step(4), many = 1100 / test_step(4);
  if (!on_cpu() || !tri_pairs_f32()) skip();
  for (int t = 0; t < 3; t++) {
    layer a = layer_open(OUT, IN, type[t], true, 2), b = layer_open(IN, OUT, type[t], true, 2),
          c = layer_open(WIDE, WIDE, type[t], true, 2);
    const bool own = a.l->vec && b.l->vec && c.l->vec;
    assert_true(own || type[t] == TRI_BF16);
    try_fwd(&a, 5, type[t], type[t], ADDED_TO_ITSELF);
    try_fwd(&a, rows, TRI_F32, TRI_DTYPE_COUNT, ALONE);
    try_bwd_x(&b, rows, TRI_F32, true);
    try_bwd_w(&a, many, true);
    try_fwd(&c, 5, TRI_F32, type[t], ADDED_TO_OTHER);
    try_fwd(&c, rows, type[t], TRI_DTYPE_COUNT, ALONE);
    try_bwd_x(&c, rows, type[t], false);
    layer_close(&a);
    layer_close(&b);
    layer_close(&c);
    /* fp16 stands for bf16, which runs the same code. Brief runs leave f32 out */
    if (own && (type[t] == TRI_F16 || (type[t] == TRI_F32 && test_step(2) == 1))) same_bits(OUT, IN, type[t]);
  }
}

/* The variables' words are obeyed or refused by name. After a refusal the previous choice stays. */
static void test_wishes(void **state) {
  const char *const name[] = {"TRI_CPU_F32", "TRI_CPU_BF16"};

  (void)state;
  if (!on_cpu()) skip();
  for (int i = 0; i < 2; i++) {
    const char *before = getenv(name[i]);
    char       *kept = before ? strdup(before) : NULL;
    setenv(name[i], "avx9", 1);
    assert_int_equal(tri_pairs_choose(), TRI_ECONFIG);
    expect_refusal(name[i]);
    expect_refusal(i ? "tri_pairs_choose() avx9 f32 unset" : "choose_f32() avx9 library unset");
    tri_error_clear();
    setenv(name[i], i ? "f32" : "library", 1);
    OK(tri_pairs_choose());
    assert_true(i ? !tri_pairs_find() : !tri_pairs_f32());
    if (kept)
      setenv(name[i], kept, 1);
    else
      unsetenv(name[i]);
    free(kept);
    OK(tri_pairs_choose());
  }
}

/* Row bits of a batch's last `first_rows`, `first_rows` + 7 ... rows, at another place for every number. */
static void same_tile_bits(int64_t n_out, int64_t n_in, tri_dtype dtype, int64_t first_rows) {
  enum { MANY = 130, STEP = 7 };
  layer      a = layer_open(n_out, n_in, dtype, false, 2);
  fence      x = fence_noise(MANY * n_in, dtype, 7), judge = fence_open((size_t)(MANY * n_out) * 4);
  fence      y = fence_open(judge.bytes);
  tri_tensor xt = tri_view2(x.data, dtype, MANY, n_in), yt = tri_view2(judge.data, TRI_F32, MANY, n_out);
  OK(a.k->linear_check(a.s, a.l, a.fwd));
  OK(a.k->linear_fwd(a.s, a.l, a.fwd, &yt, &xt, NULL, NULL));
  for (int64_t rows = first_rows; rows < MANY; rows += STEP) {
    tri_tensor part = tri_rows(&xt, MANY - rows, rows), out = tri_view2(y.data, TRI_F32, rows, n_out);
    OK(a.k->linear_fwd(a.s, a.l, a.fwd, &out, &part, NULL, NULL));
    if (memcmp(y.data, judge.data + (size_t)((MANY - rows) * n_out) * 4, (size_t)(rows * n_out) * 4) != 0)
      fail_msg("[%d,%d]: %d rows of %d", (int)n_out, (int)n_in, (int)rows, MANY);
  }
  fence_close(&x);
  fence_close(&y);
  fence_close(&judge);
  layer_close(&a);
}

/* Every width (every third in brief runs) of a last block of columns, with inner sizes from 8 to 200 in turn
 * and some odd ones. Then a vocabulary with a few added tokens. */
static void test_tile_bits(void **state) {
  enum { BLOCK = 64 };
  static const int64_t odd[] = {1, 7, 17, 31, 33, 67, 99, 131, 255, 256, 257};
  (void)state;
  if (!on_cpu()) skip(); /* only the CPU has these tiles */
  for (int64_t tail = 1; tail <= BLOCK; tail += test_step(3))
    for (int64_t i = 0; i < 4; i++) {
      const int64_t k =
          i < 3 ? 8 * (1 + (tail + 8 * i) % 25) : odd[tail % (int64_t)(sizeof odd / sizeof *odd)];
      same_tile_bits(BLOCK + tail, k, TRI_BF16, 1 + (tail + i) % 7);
      if (i % 2) same_tile_bits(BLOCK + tail, k, TRI_F32, 1 + (tail + i) % 7);
    }
  same_tile_bits(32003, 96, TRI_BF16, 1);
  same_tile_bits(200, 96, TRI_F16, 1);
  for (int t = 0; t < 2; t++) { /* a library may cut such long sums */
    same_tile_bits(512, 512, t ? TRI_BF16 : TRI_F32, 1);
    same_tile_bits(200, 2816, t ? TRI_BF16 : TRI_F32, 1);
  }
}

/* The weight gradient too has the same bits for 1 and 2 threads, and in a second call. */
static void test_gradient_bits(void **state) {
  (void)state;
  enum { ROWS = 777, OUT = 200, IN = 130 };
  for (int t = 0; t < 3; t++) {
    const tri_dtype dtype = t == 0 ? TRI_F32 : t == 1 ? TRI_BF16 : TRI_F16;
    if (!supported(OUT, IN, dtype)) continue;
    fence x = fence_noise(ROWS * IN, dtype, 7), dy = fence_noise(ROWS * OUT, dtype, 8), judge = {0};
    for (int run = 0; run < 3; run++) {
      layer      a = layer_open(OUT, IN, dtype, true, run ? 2 : 1);
      fence      dw = fence_noise(OUT * IN, TRI_F32, 9);
      tri_tensor xt = tri_view2(x.device, dtype, ROWS, IN), dyt = tri_view2(dy.device, dtype, ROWS, OUT);
      tri_tensor dwt = tri_view2(dw.device, TRI_F32, OUT, IN);
      OK(a.k->linear_bwd_w(a.s, a.l, &dwt, &dyt, &xt, true));
      fence_get(&dw, a.s);
      if (run == 0)
        judge = dw;
      else
        assert_memory_equal(dw.data, judge.data, dw.bytes);
      if (run) fence_close(&dw);
      layer_close(&a);
    }
    fence_close(&x);
    fence_close(&dy);
    fence_close(&judge);
  }
}

/* Without backward no gradient is prepared, and the caller's number of OpenMP threads stays unchanged. */
static void test_open(void **state) {
  (void)state;
  const int     threads = omp_get_max_threads();
  const int64_t start = tri_gemm_count();
  layer         a = layer_open(96, 64, TRI_F32, false, 2);
  const int64_t forward = tri_gemm_count() - start;
  layer         b = layer_open(96, 64, TRI_F32, true, 2);
  const int64_t both = tri_gemm_count() - start - forward;
  if (on_cpu() && !tri_pairs_f32()) assert_true(both > forward);        /* isa.c runs it on every processor */
  if (on_cpu() && tri_pairs_f32()) assert_int_equal(forward + both, 0); /* no product is the library's */
  assert_int_equal(a.bytes.bwd, 0);
  if (b.bytes.fwd)
    assert_true(b.bytes.bwd >= 96 * 64 * 4);
  else
    assert_int_equal(b.bytes.bwd, 0); /* one copy of the weights serves both directions */
  try_fwd(&a, 7, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  assert_int_equal(omp_get_max_threads(), threads);
  layer_close(&a);
  layer_close(&b);
  tri_linear *none = NULL;
  OK(tri_device_find(device_name)->kernels->linear_close(&none));
}

/* Packing again replaces the weights. */
static void test_pack_again(void **state) {
  (void)state;
  if (!supported(70, 33, TRI_BF16)) skip();
  layer a = layer_open(70, 33, TRI_BF16, true, 2);
  for (int64_t i = 0; i < 70 * 33; i++) set(a.w.data, TRI_BF16, i, (float)(i % 17) - 8.0f);
  fence_put(&a.w);
  layer_pack(&a);
  try_fwd(&a, 19, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  try_bwd_x(&a, 19, TRI_F32, false);
  layer_close(&a);
}

static int run_on(const char *name) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_f32),
      cmocka_unit_test(test_values_bf16),
      cmocka_unit_test(test_values_f16),
      cmocka_unit_test(test_many_rows),
      cmocka_unit_test(test_values_other_threads),
      cmocka_unit_test(test_row_bits),
      cmocka_unit_test(test_large_vocabulary),
      cmocka_unit_test(test_long_sums),
      cmocka_unit_test(test_tile_bits),
      cmocka_unit_test(test_gradient_bits),
      cmocka_unit_test(test_open),
      cmocka_unit_test(test_pack_again),
      cmocka_unit_test(test_amx),
      cmocka_unit_test(test_vec),
      cmocka_unit_test(test_wishes),
  };
  int failed;

  if (device_begin(name)) return 1;
  printf("device %s\n", name);
  failed = cmocka_run_group_tests_name("linear", tests, NULL, NULL);
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
