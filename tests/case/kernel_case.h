/* kernel_case.h - runs kernel tests on every back end, with arrays on its device, test numbers and
 * comparisons.
 *
 * A case is a function of one open back end. for_each_device runs it on every device of the build, or on
 * $TRI_TEST_DEVICE, with one thread and with two. Arrays are device memory. A case reaches them through put_*
 * and get_* only. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_KERNEL_CASE_H
#define TRI_TESTS_KERNEL_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "base/rng.h"
#include "device/kernels.h"
#include "device_case.h"

enum { MAX_ARRAYS = 512 };

/* The relative error of one rounding, half a unit in the last place. */
static const double  EPS_F32 = 0x1p-24, EPS_BF16 = 0x1p-8, EPS_F16 = 0x1p-11;
static inline double half_unit(tri_dtype t) {
  return t == TRI_BF16 ? EPS_BF16 : t == TRI_F16 ? EPS_F16 : EPS_F32;
}

typedef struct bench { /* an open device and the arrays of the running case */
  tri_device        *device;
  tri_stream        *stream;
  const tri_kernels *k;
  void              *array[MAX_ARRAYS];
  int                n_arrays;
} bench;

static inline void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

static inline void bench_open(bench *b, const char *name, int threads) {
  memset(b, 0, sizeof *b);
  ok(tri_device_open(name, 0, threads, &b->device));
  ok(b->device->ops->stream_open(b->device, "test", &b->stream));
  b->k = b->device->ops->kernels;
}

/* Frees the arrays made so far, except for the first `keep`. */
static inline void drop_arrays(bench *b, int keep) {
  while (b->n_arrays > keep) b->device->ops->free(b->device, TRI_MEM_DEVICE, &b->array[--b->n_arrays]);
}

static inline void bench_close(bench *b) {
  drop_arrays(b, 0);
  b->device->ops->stream_close(&b->stream);
  tri_device_close(&b->device);
}

/* Runs the case on every device of this build, with one thread and with two. In brief runs a GPU, which has
 * no such threads, runs it once. */
static inline void for_each_device(void (*run)(bench *)) {
  const tri_device_ops *ops;
  for (int i = 0; (ops = tri_device_at(i)) != NULL; i++)
    for (int threads = 1; threads <= (strcmp(ops->name, "cpu") ? 2 / test_step(2) : 2); threads++) {
      bench b;
      if (!test_on(ops->name)) continue;
      bench_open(&b, ops->name, threads);
      run(&b);
      bench_close(&b);
    }
}

/* Makes a device array [d0,d1] (one dimension if d1 is 0) with every byte 0xff. Elements a kernel does not
 * write are NaN. */
static inline tri_tensor make(bench *b, tri_dtype type, int64_t d0, int64_t d1) {
  size_t bytes = (size_t)(d0 * (d1 > 0 ? d1 : 1)) * tri_dtype_bytes(type);
  void  *p;
  assert_true(b->n_arrays < MAX_ARRAYS);
  ok(b->device->ops->alloc(b->device, TRI_MEM_DEVICE, bytes > 0 ? bytes : 1, &p));
  b->array[b->n_arrays++] = p;
  ok(b->device->ops->fill(b->stream, p, 0xff, bytes));
  return d1 > 0 ? tri_view2(p, type, d0, d1) : tri_view1(p, type, d0);
}

static inline size_t bytes_of(const tri_tensor *t) {
  return (size_t)tri_tensor_count(t) * tri_dtype_bytes(t->dtype);
}

static inline void get_raw(bench *b, const tri_tensor *t, void *to) {
  ok(b->device->ops->copy(b->stream, to, t->data, bytes_of(t)));
  ok(b->device->ops->stream_sync(b->stream));
}
static inline void put_raw(bench *b, tri_tensor *t, const void *from) {
  ok(b->device->ops->copy(b->stream, t->data, from, bytes_of(t)));
  ok(b->device->ops->stream_sync(b->stream));
}

/* Host memory of the tests. The process ends soon, but leaks would hide the program's own. */
static inline void *host(size_t n, size_t size) {
  void *p = calloc(n > 0 ? n : 1, size);
  assert_non_null(p);
  return p;
}

/* Returns x rounded as the type stores it. */
static inline double rounded(tri_dtype type, double x) {
  return type == TRI_F32 ? (double)(float)x : (double)tri_half_to_f32(type, tri_f32_to_half(type, (float)x));
}

/* Makes a device array of type f32, bf16 or f16 with values x, and replaces x by the stored values. */
static inline tri_tensor put_real(bench *b, tri_dtype type, int64_t d0, int64_t d1, double *x) {
  tri_tensor t = make(b, type, d0, d1);
  int64_t    n = tri_tensor_count(&t);
  void      *raw = host((size_t)n, 4);
  for (int64_t i = 0; i < n; i++) {
    if (type == TRI_F32)
      ((float *)raw)[i] = (float)x[i];
    else
      ((uint16_t *)raw)[i] = tri_f32_to_half(type, (float)x[i]);
    x[i] = rounded(type, x[i]);
  }
  put_raw(b, &t, raw);
  free(raw);
  return t;
}
static inline tri_tensor put_i32(bench *b, int64_t d0, int64_t d1, const int32_t *x) {
  tri_tensor t = make(b, TRI_I32, d0, d1);
  put_raw(b, &t, x);
  return t;
}

/* Returns the array's values. The caller frees them. */
static inline double *get_real(bench *b, const tri_tensor *t) {
  int64_t n = tri_tensor_count(t);
  void   *raw = host((size_t)n, 4);
  double *x = host((size_t)n, sizeof *x);
  get_raw(b, t, raw);
  for (int64_t i = 0; i < n; i++)
    x[i] = t->dtype == TRI_F32 ? (double)((float *)raw)[i]
                               : (double)tri_half_to_f32(t->dtype, ((uint16_t *)raw)[i]);
  free(raw);
  return x;
}

/* Returns n numbers uniform in (-size, size), as a function of (seed, index). The caller frees them. */
static inline double *numbers(uint64_t seed, int64_t n, double size) {
  double *x = host((size_t)n, sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits[4];
    tri_rng_bits(tri_rng_make_key(seed, TRI_RNG_TEST), 0, (uint64_t)i, bits);
    x[i] = size * (2.0 * (double)tri_rng_unit(bits[0]) - 1.0);
  }
  return x;
}
static inline int32_t *indices(uint64_t seed, int64_t n, int32_t below) {
  int32_t *x = host((size_t)n, sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits[4];
    tri_rng_bits(tri_rng_make_key(seed, TRI_RNG_TEST), 1, (uint64_t)i, bits);
    x[i] = (int32_t)(bits[0] % (uint32_t)below);
  }
  return x;
}

/* Checks |array - want| <= absolute + relative |want| for every element. float16 gets half of its smallest
 * number in addition. */
static inline void expect_near(bench *b, const char *what, const tri_tensor *t, const double *want,
                               double relative, double absolute) {
  double *got = get_real(b, t);
  for (int64_t i = 0; i < tri_tensor_count(t); i++) {
    double bound = absolute + relative * fabs(want[i]) + (t->dtype == TRI_F16 && absolute > 0 ? 0x1p-25 : 0);
    if (!(fabs(got[i] - want[i]) <= bound))
      fail_msg("%s: element %lld of %lld is %.9g, want %.9g within %.3g", what, (long long)i,
               (long long)tri_tensor_count(t), got[i], want[i], bound);
  }
  free(got);
}

/* Checks that rows [first, first + n) of `a` have the bits of rows [at, at + n) of `c`. */
static inline void expect_same_rows(bench *b, const char *what, const tri_tensor *a, int64_t first,
                                    const tri_tensor *c, int64_t at, int64_t n) {
  tri_tensor x = tri_rows(a, first, n), y = tri_rows(c, at, n);
  char      *p = host(bytes_of(&x), 1), *q = host(bytes_of(&y), 1);
  assert_int_equal(bytes_of(&x), bytes_of(&y));
  get_raw(b, &x, p);
  get_raw(b, &y, q);
  if (memcmp(p, q, bytes_of(&x)) != 0)
    fail_msg("%s: %lld rows from %lld on differ from those at %lld", what, (long long)n, (long long)first,
             (long long)at);
  free(p);
  free(q);
}

/* Returns a hash of an array's bytes, to compare runs with different thread counts. */
static inline uint64_t hash_of(bench *b, const tri_tensor *t) {
  unsigned char *p = host(bytes_of(t), 1);
  uint64_t       h = 0xcbf29ce484222325u; /* FNV-1a */
  get_raw(b, t, p);
  for (size_t i = 0; i < bytes_of(t); i++) h = (h ^ p[i]) * 0x100000001b3u;
  free(p);
  return h;
}

/* Returns d loss / d x[i] by central differences of an f64 function of x. */
static inline double slope(double (*loss)(const void *), const void *arguments, double *x) {
  const double h = 1e-5; /* error of order h^2, roundoff 1e-16 / h */
  double       keep = *x, up, down;
  *x = keep + h;
  up = loss(arguments);
  *x = keep - h;
  down = loss(arguments);
  *x = keep;
  return (up - down) / (2 * h);
}

static inline const char *type_name(tri_dtype t) { return tri_dtype_word(t); }

#endif
