/* linear_case.h - runs a linear layer of a device in memory between fences and compares its values with f64
 * loops. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_LINEAR_CASE_H
#define TRI_TESTS_LINEAR_CASE_H

#include "device/device.h"
#include "device/kernels.h"
#include "refusal_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call)                                                                                             \
  do {                                                                                                       \
    if ((call) != TRI_OK) fail_msg("%s", tri_error_trace());                                                 \
  } while (0)

/* The device of the running group of tests, and one of its streams for copies. */
static const char *device_name;
static tri_device *copy_device;
static tri_stream *copy_stream;

static inline bool on_cpu(void) { return !strcmp(device_name, "cpu"); }

/* Memory that ends at an inaccessible page, so the kernels' code and the library's generated code fault if
 * they read or write beyond it. Canaries lie before it. The CPU's kernels work in it directly. For other
 * devices `device` is a block of exactly `bytes`, with copies there and back. */
typedef struct fence {
  char  *base, *data;
  void  *device;
  size_t bytes, all;
} fence;

enum { CANARY = 0x5a, PAGE = 4096 };

static inline fence fence_open(size_t bytes) {
  fence f = {.bytes = bytes, .all = (bytes + 2 * PAGE) / PAGE * PAGE};
  f.base = mmap(NULL, f.all + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(f.base, MAP_FAILED);
  assert_int_equal(mprotect(f.base + f.all, PAGE, PROT_NONE), 0);
  memset(f.base, CANARY, f.all);
  f.data = f.base + f.all - bytes;
  f.device = f.data;
  if (!on_cpu()) OK(copy_device->ops->alloc(copy_device, TRI_MEM_DEVICE, bytes, &f.device));
  return f;
}

static inline void fence_close(fence *f) {
  for (char *p = f->base; p < f->data; p++) assert_int_equal(*p, CANARY);
  if (!on_cpu()) copy_device->ops->free(copy_device, TRI_MEM_DEVICE, &f->device);
  munmap(f->base, f->all + PAGE);
}

/* Copy f.data to the kernels' memory and back. */
static inline void fence_put(const fence *f) {
  if (on_cpu()) return;
  OK(copy_device->ops->copy(copy_stream, f->device, f->data, f->bytes));
  OK(copy_device->ops->stream_sync(copy_stream));
}
static inline void fence_get(const fence *f, tri_stream *s) {
  OK(s->device->ops->stream_sync(s));
  if (on_cpu()) return;
  OK(copy_device->ops->copy(copy_stream, f->data, f->device, f->bytes));
  OK(copy_device->ops->stream_sync(copy_stream));
}

static inline float noise(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*s >> 32) * 0x1p-31f;
}

static inline void set(void *p, tri_dtype t, int64_t i, float v) {
  if (t == TRI_F32)
    ((float *)p)[i] = v;
  else
    ((uint16_t *)p)[i] = tri_f32_to_half(t, v);
}

static inline double get(const void *p, tri_dtype t, int64_t i) {
  return t == TRI_F32 ? ((const float *)p)[i] : tri_half_to_f32(t, ((const uint16_t *)p)[i]);
}

static inline fence fence_noise(int64_t n, tri_dtype t, uint64_t seed) {
  fence f = fence_open((size_t)n * tri_dtype_bytes(t));
  for (int64_t i = 0; i < n; i++) set(f.data, t, i, noise(&seed));
  fence_put(&f);
  return f;
}

/* A linear layer with its weights packed. */
typedef struct layer {
  const tri_kernels *k;
  tri_device        *device;
  tri_stream        *s;
  tri_linear        *l;
  tri_linear_bytes   bytes;
  void              *fwd, *bwd;            /* packed weights, or the weights themselves */
  void              *space[2], *workspace; /* for packed weights; NULL for 0 bytes */
  fence              w;
  int64_t            n_out, n_in;
  tri_dtype          dtype;
} layer;

/* Makes device memory. Its initial content must not matter. */
static inline void *layer_alloc(const layer *a, size_t bytes) {
  void *p = NULL;
  if (!bytes) return NULL;
  OK(a->device->ops->alloc(a->device, TRI_MEM_DEVICE, bytes, &p));
  OK(a->device->ops->fill(a->s, p, 0xff, bytes));
  return p;
}

static inline void layer_pack(layer *a) {
  const tri_tensor w = tri_view2(a->w.device, a->dtype, a->n_out, a->n_in);
  for (int part = 2; part >= 0; part--)
    OK(a->k->linear_pack(a->s, a->l, a->space[0], a->space[1], &w, part, 3));
}

static bool              any_order; /* for layers opened later */
static int               lane_sm;   /* multiprocessors their device leaves to collectives */
static const tri_linear *whole_of;  /* the product they are parts of */

/* Returns whether the device has products of this shape. A GPU's library may lack 16-bit products with rows
 * that are no multiples of 8 elements. No model has such rows, and the library reports it. */
static inline bool supported(int64_t n_out, int64_t n_in, tri_dtype dtype) {
  const tri_linear_spec spec = {n_out, n_in, dtype, true, any_order, NULL};
  const tri_kernels    *k = tri_device_find(device_name)->kernels;
  tri_linear           *l = NULL;
  bool                  yes;
  if (on_cpu() || dtype == TRI_F32 || (n_out % 8 == 0 && n_in % 8 == 0)) return true;
  yes = k->linear_open(copy_device, &spec, &l) == TRI_OK;
  if (!yes && refusal_is("product_open() model.dtype: f32"))
    printf("not supported: %s", tri_error_message());
  else if (!yes)
    fail_msg("%s", tri_error_trace());
  tri_error_clear();
  OK(k->linear_close(&l));
  return yes;
}

static inline layer layer_open(int64_t n_out, int64_t n_in, tri_dtype dtype, bool backward, int threads) {
  layer                 a = {.n_out = n_out, .n_in = n_in, .dtype = dtype};
  const tri_linear_spec spec = {n_out, n_in, dtype, backward, any_order, whole_of};
  a.k = tri_device_find(device_name)->kernels;
  OK(tri_device_open(device_name, 0, threads, &a.device));
  if (a.device->ops->leave_sm) a.device->ops->leave_sm(a.device, lane_sm);
  OK(a.device->ops->stream_open(a.device, "test", &a.s));
  OK(a.k->linear_open(a.device, &spec, &a.l));
  OK(a.k->linear_size(a.l, &a.bytes));
  a.workspace = layer_alloc(&a, a.bytes.workspace);
  a.space[0] = layer_alloc(&a, a.bytes.fwd);
  a.space[1] = backward ? layer_alloc(&a, a.bytes.bwd) : NULL;
  OK(a.k->linear_bind(a.l, a.workspace, a.bytes.workspace));
  a.w = fence_noise(n_out * n_in, dtype, 1);
  a.fwd = a.space[0] ? a.space[0] : a.w.device;
  a.bwd = a.space[1] ? a.space[1] : a.w.device;
  layer_pack(&a);
  return a;
}

static inline void layer_close(layer *a) {
  OK(a->k->linear_close(&a->l));
  assert_null(a->l);
  a->device->ops->free(a->device, TRI_MEM_DEVICE, &a->space[0]);
  a->device->ops->free(a->device, TRI_MEM_DEVICE, &a->space[1]);
  a->device->ops->free(a->device, TRI_MEM_DEVICE, &a->workspace);
  a->device->ops->stream_close(&a->s);
  tri_device_close(&a->device);
  fence_close(&a->w);
}

/* The bound for any order of summation in f32. It is (k + 2) roundings of 2^-23 (the processor's bf16 product
 * may round down) of the sum of absolute values, then one rounding to the result's type. */
static inline void expect(double got, double sum, double absolute, int64_t k, tri_dtype t, int64_t i) {
  const double bound = (double)(k + 2) * 0x1p-23 * absolute + 1e-30;
  const double slack = t == TRI_BF16  ? bound * 1.01 + 0x1p-8 * fabs(sum)
                       : t == TRI_F16 ? bound * 1.01 + 0x1p-11 * fabs(sum) + 0x1p-25
                                      : bound;
  if (!(fabs(got - sum) <= slack))
    fail_msg("element %lld: %.9g, want %.9g +- %.3g", (long long)i, got, sum, slack);
}

typedef enum { ALONE, ADDED_TO_ITSELF, ADDED_TO_OTHER } addition;

/* Tries fwd for one number of rows. bias is TRI_DTYPE_COUNT for none. */
static inline void try_fwd(const layer *a, int64_t rows, tri_dtype y_type, tri_dtype bias_type,
                           addition add) {
  const int64_t n = a->n_out, k = a->n_in;
  fence         x = fence_noise(rows * k, a->dtype, 2), y = fence_noise(rows * n, y_type, 3);
  fence         before = fence_noise(rows * n, y_type, 3);
  fence         b = fence_noise(n, tri_dtype_computes(bias_type) ? bias_type : TRI_F32, 4);
  tri_tensor    xt = tri_view2(x.device, a->dtype, rows, k), yt = tri_view2(y.device, y_type, rows, n);
  tri_tensor    bt = tri_view1(b.device, bias_type, n), base = tri_view2(before.device, y_type, rows, n);
  const bool    bias = bias_type != TRI_DTYPE_COUNT;
  OK(a->k->linear_fwd(a->s, a->l, a->fwd, &yt, &xt, bias ? &bt : NULL,
                      add == ADDED_TO_OTHER    ? &base
                      : add == ADDED_TO_ITSELF ? &yt
                                               : NULL));
  fence_get(&y, a->s);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < n; j++) {
      double sum = bias ? get(b.data, bias_type, j) : 0, absolute = fabs(sum);
      if (add)
        sum += get(before.data, y_type, r * n + j), absolute += fabs(get(before.data, y_type, r * n + j));
      for (int64_t i = 0; i < k; i++) {
        const double p = get(x.data, a->dtype, r * k + i) * get(a->w.data, a->dtype, j * k + i);
        sum += p;
        absolute += fabs(p);
      }
      expect(get(y.data, y_type, r * n + j), sum, absolute, k, y_type, r * n + j);
    }
  fence_close(&x);
  fence_close(&y);
  fence_close(&before);
  fence_close(&b);
}

static inline void try_bwd_x(const layer *a, int64_t rows, tri_dtype dx_type, bool add) {
  const int64_t n = a->n_in, k = a->n_out;
  fence         dy = fence_noise(rows * k, a->dtype, 2), dx = fence_noise(rows * n, dx_type, 3);
  fence         before = fence_noise(rows * n, dx_type, 3);
  tri_tensor    dyt = tri_view2(dy.device, a->dtype, rows, k), dxt = tri_view2(dx.device, dx_type, rows, n);
  OK(a->k->linear_bwd_x(a->s, a->l, a->bwd, &dxt, &dyt, add));
  fence_get(&dx, a->s);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < n; j++) {
      double sum = add ? get(before.data, dx_type, r * n + j) : 0, absolute = fabs(sum);
      for (int64_t i = 0; i < k; i++) {
        const double p = get(dy.data, a->dtype, r * k + i) * get(a->w.data, a->dtype, i * n + j);
        sum += p;
        absolute += fabs(p);
      }
      expect(get(dx.data, dx_type, r * n + j), sum, absolute, k, dx_type, r * n + j);
    }
  fence_close(&dy);
  fence_close(&dx);
  fence_close(&before);
}

static inline void try_bwd_w(const layer *a, int64_t rows, bool add) {
  const int64_t n = a->n_in, m = a->n_out;
  fence         dy = fence_noise(rows * m, a->dtype, 2), x = fence_noise(rows * n, a->dtype, 3);
  fence         dw = fence_noise(m * n, TRI_F32, 4), before = fence_noise(m * n, TRI_F32, 4);
  tri_tensor    dyt = tri_view2(dy.device, a->dtype, rows, m), xt = tri_view2(x.device, a->dtype, rows, n);
  tri_tensor    dwt = tri_view2(dw.device, TRI_F32, m, n);
  OK(a->k->linear_bwd_w(a->s, a->l, &dwt, &dyt, &xt, add));
  fence_get(&dw, a->s);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = add ? get(before.data, TRI_F32, i * n + j) : 0, absolute = fabs(sum);
      for (int64_t r = 0; r < rows; r++) {
        const double p = get(dy.data, a->dtype, r * m + i) * get(x.data, a->dtype, r * n + j);
        sum += p;
        absolute += fabs(p);
      }
      expect(get(dw.data, TRI_F32, i * n + j), sum, absolute, rows + 64, TRI_F32, i * n + j);
    }
  fence_close(&dy);
  fence_close(&x);
  fence_close(&dw);
  fence_close(&before);
}

/* Opens the device for the following group and the stream for copies. Returns 0 on success. */
static inline int device_begin(const char *name) {
  device_name = name;
  if (tri_device_open(name, 0, 1, &copy_device) == TRI_OK &&
      copy_device->ops->stream_open(copy_device, "copies", &copy_stream) == TRI_OK)
    return 0;
  fprintf(stderr, "%s: %s", name, tri_error_trace());
  return 1;
}
static inline void device_end(void) {
  copy_device->ops->stream_close(&copy_stream);
  tri_device_close(&copy_device);
}

#endif
