/* test_linear_choice.c - tests the choice among the emulated cuBLASLt's algorithms for a product of the CUDA
 * back end. The test tells the emulation its offer. Judges: bit equality with another offer, seconds of the
 * device's clock, the log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "device/gpu_plan.h"
#include "filter_case.h"
#include "part_case.h"
#include "refusal_case.h"

/* A library whose rows never agree is found. The message names the shape and no other one. */
static void test_check_fails(void **state) {
  (void)state;
  setenv("TRI_EMULATE_LT", "vary", 1);
  layer a = layer_open(96, 67, TRI_BF16, false, 1);
  unsetenv("TRI_EMULATE_LT");
  assert_int_equal(a.k->linear_check(a.s, a.l, a.fwd), TRI_EDEVICE);
  expect_refusal("[96,67]");
  expect_refusal("run.sampler: rescore");
  tri_error_clear();
  try_fwd(&a, 19, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  layer_close(&a);
}

/* ---- from offers to algorithms, with a test's own offer of the emulated library ---- */

enum { LT_OUT = 96, LT_IN = 67 };

/* Opens a layer with this offer of the library (tests/emulate/cublasLt.h), checks it and computes y f32. Also
 * gives its seconds by the device's clock. Only the flag s of an offer moves this clock by whole seconds. */
static fence y_offered(const char *offer, int64_t rows, tri_dtype dtype, double *took_s) {
  fence      x = fence_noise(rows * LT_IN, dtype, 2), y = fence_open((size_t)(rows * LT_OUT) * 4);
  tri_tensor xt = tri_view2(x.device, dtype, rows, LT_IN), yt = tri_view2(y.device, TRI_F32, rows, LT_OUT);
  tri_event *from = NULL, *to = NULL;
  double     ms = 0;
  setenv("TRI_EMULATE_LT", offer, 1);
  layer                 a = layer_open(LT_OUT, LT_IN, dtype, false, 1);
  const tri_device_ops *ops = a.device->ops;
  OK(ops->event_open(a.device, &from));
  OK(ops->event_open(a.device, &to));
  if (!any_order) OK(a.k->linear_check(a.s, a.l, a.fwd));
  OK(ops->event_record(from, a.s));
  OK(a.k->linear_fwd(a.s, a.l, a.fwd, &yt, &xt, NULL, NULL));
  OK(ops->event_record(to, a.s));
  OK(ops->event_ms(from, to, &ms));
  unsetenv("TRI_EMULATE_LT");
  fence_get(&y, a.s);
  ops->event_close(&from);
  ops->event_close(&to);
  layer_close(&a);
  fence_close(&x);
  *took_s = 1e-3 * ms;
  return y;
}

/* Returns whether two offers lead to the same bits. */
static bool same_offered(const char *one, const char *two, int64_t rows, tri_dtype dtype) {
  double     took_s;
  fence      a = y_offered(one, rows, dtype, &took_s), b = y_offered(two, rows, dtype, &took_s);
  const bool same = !memcmp(a.data, b.data, a.bytes);
  fence_close(&a);
  fence_close(&b);
  return same;
}

static double seconds_offered(const char *offer, int64_t rows) {
  double took_s;
  fence  y = y_offered(offer, rows, TRI_BF16, &took_s);
  fence_close(&y);
  return took_s;
}

/* Returns whether the first of many rows have the bits they have alone, with a base added. */
static bool same_added(const char *offer, int64_t few, int64_t many, tri_dtype dtype) {
  fence      x = fence_noise(many * LT_IN, dtype, 2), y[2];
  bool       same;
  tri_tensor xt = tri_view2(x.device, dtype, many, LT_IN);
  setenv("TRI_EMULATE_LT", offer, 1);
  layer a = layer_open(LT_OUT, LT_IN, dtype, false, 1);
  for (int i = 0; i < 2; i++) {
    y[i] = fence_noise(many * LT_OUT, TRI_F32, 3);
    tri_tensor part = tri_rows(&xt, 0, i ? few : many),
               yt = tri_view2(y[i].device, TRI_F32, i ? few : many, LT_OUT);
    OK(a.k->linear_fwd(a.s, a.l, a.fwd, &yt, &part, NULL, &yt));
    fence_get(&y[i], a.s);
  }
  unsetenv("TRI_EMULATE_LT");
  same = !memcmp(y[0].data, y[1].data, (size_t)(few * LT_OUT) * sizeof(float));
  for (int i = 0; i < 2; i++) fence_close(&y[i]);
  fence_close(&x);
  layer_close(&a);
  return same;
}

enum { LOG_BYTES = 4096 };

/* Returns the log lines of opening a linear. */
static void opening_says(const char *offer, tri_dtype dtype, bool backward, char text[LOG_BYTES]) {
  FILE *before = tmpfile(), *log = tmpfile();
  assert_non_null(before);
  assert_non_null(log);
  tri_log_file(before); /* the log until now */
  tri_log_file(log);
  fclose(before);
  setenv("TRI_EMULATE_LT", offer, 1);
  layer a = layer_open(LT_OUT, LT_IN, dtype, backward, 1);
  unsetenv("TRI_EMULATE_LT");
  layer_close(&a);
  tri_log_file(NULL);
  rewind(log);
  text[fread(text, 1, LOG_BYTES - 1, log)] = 0;
  fclose(log);
}

/* An algorithm with steady bits up to 128 rows, but sums cut by the number of tiles above them, is skipped
 * for the next one. If there is no other, the check reports it. */
static void test_grid_dependence(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    const tri_dtype dtype = t ? TRI_BF16 : TRI_F32;
    assert_true(same_offered("to:to:", "o:o:", 1100, dtype));
    assert_true(same_offered("to:to:", "o:o:", 5, dtype));
  }
  setenv("TRI_EMULATE_LT", "t:t:", 1);
  layer a = layer_open(LT_OUT, LT_IN, TRI_BF16, false, 1);
  unsetenv("TRI_EMULATE_LT");
  assert_int_equal(a.k->linear_check(a.s, a.l, a.fwd), TRI_EDEVICE);
  tri_error_clear();
  layer_close(&a);
}

/* The bits are those of the first algorithm for many rows with equal algorithms for few rows, however long
 * each takes. If none has such, they are those of the first of all. */
static void test_class(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    const tri_dtype dtype = t ? TRI_BF16 : TRI_F32;
    for (int64_t rows = 5; rows < 400; rows += 305) {
      assert_false(same_offered("h:h:", "o:o:", rows, dtype));
      /* none for few rows, so the one for many serves */
      assert_true(same_offered("o:h:", "o:o:", rows, dtype));
      assert_true(same_offered("oh:h:", "h:h:", rows, dtype));  /* the second is complete */
      assert_true(same_offered("oh:h:r", "o:o:", rows, dtype)); /* so is the first, with its relatives */
      assert_true(same_offered("oh:ho:s", "o:o:", rows,
                               dtype)); /* the first is, though it takes 100 s and the other none */
      assert_true(same_offered("ho:oh:s", "h:h:", rows, dtype));
      assert_true(same_offered("o:eo:", "o:o:", rows, dtype)); /* one without odd numbers of rows */
      assert_true(same_offered("o:Eo:", "o:o:", rows, dtype));
    }
  }
}

/* Among algorithms with the same bits the fastest serves, even one the library did not name. */
static void test_quickest(void **state) {
  (void)state;
  assert_true(same_offered("o:oO:s", "o:o:", 5, TRI_BF16));
  assert_int_equal((int)seconds_offered("o:oO:s", 5) / 50, 1);
  assert_int_equal((int)seconds_offered("o:Oo:s", 5) / 50, 1);
  assert_int_equal((int)seconds_offered("o:o:s", 5) / 50, 2);
  assert_int_equal((int)seconds_offered("o:h:rs", 5) / 50, 1);
  assert_int_equal((int)seconds_offered("o:oO:s", 1100) / 50, 6); /* in blocks of the tried size, 192 rows */
  assert_int_equal((int)seconds_offered("oO:o:s", 5) / 50, 2);
}

/* 192 rows are tried on the emulated GPU, so no product has more. `u` cuts its sums above them. */
static void test_untried_rows(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) assert_true(same_offered("u:u:", "o:o:", 1100, t ? TRI_BF16 : TRI_F32));
}

/* An algorithm with cut sums when a base is added is skipped, although it is the fastest. */
static void test_untried_base(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    assert_true(same_added("bo:bo:s", 6, 150, t ? TRI_BF16 : TRI_F32));
    assert_true(same_added("o:bo:s", 6, 150, t ? TRI_BF16 : TRI_F32));
  }
}

/* The log tells the cost of equal bits of rows, and warns above a tenth. */
static void test_cost(void **state) {
  static const char *const offers[] = {"o:c:s", "o:o:s"}; /* 100 s against none; the same for both */
  (void)state;
  for (int i = 0; i < 2; i++) {
    char text[LOG_BYTES];
    opening_says(offers[i], TRI_F32, false, text);
    assert_non_null(strstr(text, "product [96,67] f32 to "));
    assert_int_equal(strstr(text, "warning: product [96,67] f32 to ") != NULL, i == 0);
    assert_int_equal(strstr(text, "run.sampler: rescore") != NULL, i == 0);
  }
}

/* A shape the library cannot do is refused by name, with a cure. */
static void test_unsupported(void **state) {
  (void)state;
  const tri_linear_spec spec = {LT_OUT, LT_IN, TRI_BF16, true, false, NULL};
  tri_linear           *l = NULL;
  setenv("TRI_EMULATE_LT", "o:o:8", 1);
  assert_int_equal(tri_device_find(device_name)->kernels->linear_open(copy_device, &spec, &l), TRI_EDEVICE);
  expect_refusal("[96,67] bf16 8 model.dtype: f32");
  tri_error_clear();
  assert_false(supported(LT_OUT, LT_IN, TRI_BF16));
  layer a = layer_open(LT_OUT, 72, TRI_BF16, true, 1);
  unsetenv("TRI_EMULATE_LT");
  layer_close(&a);
}

/* The bits of a part are the whole's columns. An algorithm whose sums are cut by the width of the weight is
 * skipped for one that gives these bits. It may be the whole's own or a relative of that. If there is no
 * such algorithm, the check reports it with both shapes. */
static void test_part(void **state) {
  static const struct {
    const char *whole, *part;
    int64_t     n_out, n_in;
    bool        found;
  } rows[] = {{"o:o:", "wo:wo:", LT_OUT, LT_IN, true}, {"h:h:", "oh:ho:", LT_OUT, LT_IN, true},
              {"o:o:", "o:w:", LT_OUT, LT_IN, true},   {"o:o:", "w:w:", LT_OUT, LT_IN, false},
              {"o:o:", "w:w:", 256, 128, true},    /* its alignment suits the part */
              {"o:o:", "w:w:", 256, LT_IN, false}, /* not that of a part's first row */
              {"h:h:r", "o:o:r", 256, 128, true},      {"w:w:", "ow:ow:", LT_OUT, LT_IN, false}};
  enum { ROWS = 300 };
  (void)state;
  for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
    const tri_dtype dtype = i % 2 ? TRI_BF16 : TRI_F32;
    const kind      how = {i % 3 ? TRI_F32 : dtype, dtype, i % 4 > 1};
    setenv("TRI_EMULATE_LT", rows[i / 2].whole, 1);
    layer whole = layer_open(rows[i / 2].n_out, rows[i / 2].n_in, dtype, false, 1);
    OK(whole.k->linear_check(whole.s, whole.l, whole.fwd));
    setenv("TRI_EMULATE_LT", rows[i / 2].part, 1);
    layer a = part_open(&whole, 2, 1);
    unsetenv("TRI_EMULATE_LT");
    if (rows[i / 2].found) {
      fence x = fence_noise(ROWS * rows[i / 2].n_in, dtype, 2),
            judge = part_fwd(&whole, &x, ROWS, how, 1, 0, 0, ROWS);
      part_load(&a, &whole, 2, 1);
      OK(a.k->linear_check(a.s, a.l, a.fwd));
      for (int64_t n = 1; n <= ROWS; n = 2 * n + 41)
        same_columns(&a, &judge, &x, ROWS, how, 2, 1, ROWS - n, n);
      fence_close(&x);
      fence_close(&judge);
    } else {
      assert_int_equal(a.k->linear_check(a.s, a.l, a.fwd), TRI_EDEVICE);
      expect_refusal(rows[i / 2].n_out == 256 ? "[128,67]" : "[48,67]");
      expect_refusal(rows[i / 2].n_out == 256 ? "[256,67]" : "[96,67]");
      expect_refusal("run.sampler: rescore");
      tri_error_clear();
    }
    layer_close(&a);
    layer_close(&whole);
  }
}

/* A second linear of a shape tries nothing, so it logs no cost of equal bits. Another type or another version
 * of the library makes another shape. */
static void test_tried_once(void **state) {
  static const struct {
    const char *offer;
    tri_dtype   dtype;
    bool        backward, tries;
  } rows[] = {{"o:o:1", TRI_BF16, true, true},
              {"o:o:1", TRI_BF16, true, false},
              {"o:o:1", TRI_BF16, false, false},
              {"o:o:1", TRI_F16, false, true},
              {"o:o:2", TRI_BF16, false, true}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[LOG_BYTES];
    opening_says(rows[i].offer, rows[i].dtype, rows[i].backward, text);
    assert_int_equal(strstr(text, "product [96,67]") != NULL, rows[i].tries);
  }
}

/* A product without the need for equal bits gets the library's first algorithm without a trial. For 16-bit
 * results this is a sum in parts, without seconds of the device. The values are those of loops. */
static void test_free_choice(void **state) {
  (void)state;
  any_order = true;
  assert_int_equal((int)seconds_offered("o:co:s", 150) / 50, 0);
  assert_int_equal((int)seconds_offered("o:o:s", 5) / 50, 0);
  layer a = layer_open(LT_OUT, LT_IN, TRI_BF16, false, 1), b = layer_open(LT_OUT, LT_IN, TRI_F32, false, 1);
  any_order = false;
  assert_int_equal((int)seconds_offered("o:co:s", 150) / 50, 2);
  for (int64_t rows = 1; rows < 300; rows += 97) {
    try_fwd(&a, rows, TRI_F32, TRI_DTYPE_COUNT, ADDED_TO_OTHER);
    try_fwd(&a, rows, TRI_BF16, TRI_BF16, ALONE);
    try_fwd(&b, rows, TRI_F32, TRI_F32, ALONE);
  }
  layer_close(&a);
  layer_close(&b);
}

/* Sums of gradients may be in parts, if an algorithm does it right. Its workspace is planned, and the values
 * are those of loops. */
static void test_parts(void **state) {
  (void)state;
  layer a = layer_open(LT_OUT, LT_IN, TRI_BF16, true, 1), b = layer_open(LT_OUT, LT_IN, TRI_BF16, false, 1);
  assert_true(a.bytes.workspace >= 2 * 4 * LT_OUT * LT_IN);
  assert_true(a.bytes.workspace == b.bytes.workspace); /* for every choice, as planned */
  assert_true(a.bytes.workspace == tri_gpu_workspace_bytes(LT_OUT, LT_IN, TRI_BF16));
  for (int64_t rows = 250; rows < 1300; rows += 87) {
    try_bwd_w(&a, rows, rows % 2);
    try_bwd_x(&a, rows, TRI_F32, false);
  }
  layer_close(&a);
  layer_close(&b);
}

/* Products of gradients may be told to leave multiprocessors to collectives. Their values stay. */
static void test_lanes(void **state) {
  (void)state;
  lane_sm = 1; /* of 3 */
  layer a = layer_open(LT_OUT, LT_IN, TRI_BF16, true, 1);
  lane_sm = 0;
  try_fwd(&a, 70, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  try_bwd_x(&a, 70, TRI_F32, false);
  try_bwd_w(&a, 700, true);
  layer_close(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_check_fails),  cmocka_unit_test(test_grid_dependence),
      cmocka_unit_test(test_class),        cmocka_unit_test(test_quickest),
      cmocka_unit_test(test_untried_rows), cmocka_unit_test(test_untried_base),
      cmocka_unit_test(test_cost),         cmocka_unit_test(test_unsupported),
      cmocka_unit_test(test_tried_once),   cmocka_unit_test(test_free_choice),
      cmocka_unit_test(test_parts),        cmocka_unit_test(test_lanes),
      cmocka_unit_test(test_part),
  };
  int failed;

  test_filter();
  if (device_begin("cuda")) return 1;
  failed = cmocka_run_group_tests_name("linear_choice", tests, NULL, NULL);
  device_end();
  return failed;
}
