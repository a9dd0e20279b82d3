/* test_formula.c - checks that formulas have the same bits on CPU and GPU, although they use other
 * instructions.
 *
 * Judge: exact, the CPU's lines. The GPU's lines are compiled here, with its intrinsics written in C. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "device/formula.h"

static float as_float(uint32_t u) {
  union {
    uint32_t u;
    float    f;
  } c;
  c.u = u;
  return c.f;
}
static uint32_t as_uint(float f) {
  union {
    float    f;
    uint32_t u;
  } c;
  c.f = f;
  return c.u;
}
/* Rounds each operation here. The compiler may not fuse two operations into one. */
static float rounded(float x) {
  volatile float r = x;
  return r;
}

#define __fadd_rn(a, b)    rounded((a) + (b))
#define __fmul_rn(a, b)    rounded((a) * (b))
#define __uint_as_float(u) as_float(u)
#define __float_as_uint(f) as_uint(f)
#define tri_exp_near       gpu_exp_near
#define tri_exp            gpu_exp
#define tri_sigmoid        gpu_sigmoid
#define tri_silu           gpu_silu
#define tri_silu_slope     gpu_silu_slope
#define tri_gelu_gate      gpu_gelu_gate
#define tri_gelu_slope     gpu_gelu_slope
#define tri_tanh           gpu_tanh
#define tri_softcap        gpu_softcap
#define tri_softcap_slope  gpu_softcap_slope
#define tri_not_far        gpu_not_far
#define tri_softmax_logp   gpu_softmax_logp
#define tri_logit_grad     gpu_logit_grad
#define tri_order_key      gpu_order_key
#define tri_order_value    gpu_order_value
#define tri_adamw          gpu_adamw
#undef TRI_ON_GPU
#define TRI_ON_GPU 1
#undef TRI_FORMULA_H
#include "device/formula.h" /* again, with nvcc's macros */
#undef tri_exp
#undef tri_tanh
#undef tri_softcap
#undef tri_gelu_gate
#undef tri_gelu_slope
#undef tri_order_key
#undef tri_order_value

/* Tests every STEP-th float of all bit patterns, or every one with $TRI_TEST_ALL. */
static void test_exp(void **state) {
  uint64_t step = getenv("TRI_TEST_ALL") ? 1 : 211;
  (void)state;
  for (uint64_t u = 0; u <= UINT32_MAX; u += step) {
    float x = as_float((uint32_t)u), cpu = tri_exp(x), gpu = gpu_exp(x);
    if (as_uint(cpu) != as_uint(gpu) && !(cpu != cpu && gpu != gpu))
      fail_msg("exp(%.9g, bits %08x): cpu %.9g, gpu %.9g", (double)x, (unsigned)u, (double)cpu, (double)gpu);
  }
}

/* tanh is within 4 eps of libm's with the same bits for both. Extreme arguments are tested too. */
static void test_tanh(void **state) {
  (void)state;
  for (uint64_t u = 0; u <= UINT32_MAX; u += 21013) {
    float  x = as_float((uint32_t)u), y = tri_tanh(x);
    double want = tanh((double)x);
    if (x != x) continue;
    if (!(fabs((double)y - want) <= 4 * 0x1p-24 * fabs(want) + 1e-38) || as_uint(y) != as_uint(gpu_tanh(x)))
      fail_msg("tanh(%.9g) is %.9g, want %.9g; gpu %.9g", (double)x, (double)y, want, (double)gpu_tanh(x));
  }
  assert_true(tri_tanh(INFINITY) == 1 && tri_tanh(-INFINITY) == -1 && isnan(tri_tanh(NAN)));
  assert_true(tri_softcap(1e30f, 50, 0.02f) == 50 && gpu_softcap(-1e30f, 50, 0.02f) == -50);
}

/* Far from 0, GELU is x or 0 and its slope 1 or 0, never NaN. */
static void test_gelu(void **state) {
  (void)state;
  for (float x = 8; x < 1e30f; x *= 3) {
    assert_true(x * tri_gelu_gate(x) == x && tri_gelu_slope(x, tri_gelu_gate(x)) == 1);
    assert_true(tri_gelu_gate(-x) * x < 1e-6f && fabsf(tri_gelu_slope(-x, tri_gelu_gate(-x))) < 1e-5f);
  }
}

/* Keys have the order of the floats, and give the values back. */
static void test_order(void **state) {
  static const float x[] = {-INFINITY, -3e38f, -2, -1, -1e-45f, 0, 1e-45f, 1, 1.0000001f, 3e38f, INFINITY};
  (void)state;
  assert_int_equal(tri_order_key(-0.0f), tri_order_key(0.0f));
  for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
    assert_true(as_uint(tri_order_value(tri_order_key(x[i]))) == as_uint(x[i]));
    if (i > 0) assert_true(tri_order_key(x[i - 1]) < tri_order_key(x[i]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exp), cmocka_unit_test(test_order),
                                     cmocka_unit_test(test_tanh), cmocka_unit_test(test_gelu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
