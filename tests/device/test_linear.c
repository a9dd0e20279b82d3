/* test_linear.c - the linear_* kernels of every device. Judges: f64 loops, and bit equality of rows. */
#include "cpu/gemm/gemm.h"
#include "device/device.h"
#include "device/gpu_plan.h"
#include "device/kernels.h"
#include "device_case.h"
#include "filter_case.h"

#include <math.h>
#include <omp.h>
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

/* The device of the running group of tests, and a stream of it for copies. */
static const char *device_name;
static tri_device *copy_device;
static tri_stream *copy_stream;

static bool on_cpu(void) { return !strcmp(device_name, "cpu"); }

/* Memory that ends at a page nobody may touch: the kernels' own code and the library's generated code both
 * fault when they leave it. Before it, canaries. The CPU's kernels work in it; another device's on `device`,
 * a block of its own of exactly `bytes`, with copies there and back. */
typedef struct fence {
  char  *base, *data;
  void  *device;
  size_t bytes, all;
} fence;

enum { CANARY = 0x5a, PAGE = 4096 };

static fence fence_open(size_t bytes) {
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

static void fence_close(fence *f) {
  for (char *p = f->base; p < f->data; p++) assert_int_equal(*p, CANARY);
  if (!on_cpu()) copy_device->ops->free(copy_device, TRI_MEM_DEVICE, &f->device);
  munmap(f->base, f->all + PAGE);
}

/* f.data to where the kernels see it, and back. */
static void fence_put(const fence *f) {
  if (on_cpu()) return;
  OK(copy_device->ops->copy(copy_stream, f->device, f->data, f->bytes));
  OK(copy_device->ops->stream_sync(copy_stream));
}
static void fence_get(const fence *f, tri_stream *s) {
  OK(s->device->ops->stream_sync(s));
  if (on_cpu()) return;
  OK(copy_device->ops->copy(copy_stream, f->data, f->device, f->bytes));
  OK(copy_device->ops->stream_sync(copy_stream));
}

static float noise(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*s >> 32) * 0x1p-31f;
}

static void set(void *p, tri_dtype t, int64_t i, float v) {
  if (t == TRI_F32)
    ((float *)p)[i] = v;
  else
    ((uint16_t *)p)[i] = tri_f32_to_half(t, v);
}

static double get(const void *p, tri_dtype t, int64_t i) {
  return t == TRI_F32 ? ((const float *)p)[i] : tri_half_to_f32(t, ((const uint16_t *)p)[i]);
}

static fence fence_noise(int64_t n, tri_dtype t, uint64_t seed) {
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
  void              *fwd, *bwd;           /* packed weights, or the weights themselves */
  void              *room[2], *workspace; /* of packed weights; NULL for 0 bytes */
  fence              w;
  int64_t            n_out, n_in;
  tri_dtype          dtype;
} layer;

/* Device memory; what is not written must not matter. */
static void *layer_alloc(const layer *a, size_t bytes) {
  void *p = NULL;
  if (!bytes) return NULL;
  OK(a->device->ops->alloc(a->device, TRI_MEM_DEVICE, bytes, &p));
  OK(a->device->ops->fill(a->s, p, 0xff, bytes));
  return p;
}

static void layer_pack(layer *a) {
  const tri_tensor w = tri_view2(a->w.device, a->dtype, a->n_out, a->n_in);
  OK(a->k->linear_pack(a->s, a->l, a->room[0], a->room[1], &w));
}

static layer layer_open(int64_t n_out, int64_t n_in, tri_dtype dtype, bool backward, int threads) {
  layer                 a = {.n_out = n_out, .n_in = n_in, .dtype = dtype};
  const tri_linear_spec spec = {n_out, n_in, dtype, backward};
  a.k = tri_device_find(device_name)->kernels;
  OK(tri_device_open(device_name, 0, threads, &a.device));
  OK(a.device->ops->stream_open(a.device, "test", &a.s));
  OK(a.k->linear_open(a.device, &spec, &a.l));
  OK(a.k->linear_size(a.l, &a.bytes));
  a.workspace = layer_alloc(&a, a.bytes.workspace);
  a.room[0] = layer_alloc(&a, a.bytes.fwd);
  a.room[1] = backward ? layer_alloc(&a, a.bytes.bwd) : NULL;
  OK(a.k->linear_bind(a.l, a.workspace, a.bytes.workspace));
  a.w = fence_noise(n_out * n_in, dtype, 1);
  a.fwd = a.room[0] ? a.room[0] : a.w.device;
  a.bwd = a.room[1] ? a.room[1] : a.w.device;
  layer_pack(&a);
  return a;
}

static void layer_close(layer *a) {
  OK(a->k->linear_close(&a->l));
  assert_null(a->l);
  a->device->ops->free(a->device, TRI_MEM_DEVICE, &a->room[0]);
  a->device->ops->free(a->device, TRI_MEM_DEVICE, &a->room[1]);
  a->device->ops->free(a->device, TRI_MEM_DEVICE, &a->workspace);
  a->device->ops->stream_close(&a->s);
  tri_device_close(&a->device);
  fence_close(&a->w);
}

/* The bound of any order of summation in f32: (k + 2) roundings of 2^-23 (the processor's bf16 product may
 * round down) of the sum of absolute values; then one rounding to the result's type. */
static void expect(double got, double sum, double absolute, int64_t k, tri_dtype t, int64_t i) {
  const double bound = (double)(k + 2) * 0x1p-23 * absolute + 1e-30;
  const double slack = t == TRI_BF16  ? bound * 1.01 + 0x1p-8 * fabs(sum)
                       : t == TRI_F16 ? bound * 1.01 + 0x1p-11 * fabs(sum) + 0x1p-25
                                      : bound;
  if (!(fabs(got - sum) <= slack))
    fail_msg("element %lld: %.9g, want %.9g +- %.3g", (long long)i, got, sum, slack);
}

static const int64_t some_rows[] = {0, 1, 2, 3, 13, 16, 17, 63, 64, 65, 130};
enum { N_ROWS = sizeof some_rows / sizeof *some_rows };

typedef enum { ALONE, ADDED_TO_ITSELF, ADDED_TO_OTHER } addition;

/* fwd for one number of rows. bias: TRI_DTYPE_COUNT for none. */
static void try_fwd(const layer *a, int64_t rows, tri_dtype y_type, tri_dtype bias_type, addition add) {
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

static void try_bwd_x(const layer *a, int64_t rows, tri_dtype dx_type, bool add) {
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

static void try_bwd_w(const layer *a, int64_t rows, bool add) {
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

/* Primes, and one off the sizes of tiles and blocks. */
static const int64_t shapes[][2] = {{1, 1},    {1, 67},   {131, 1},  {3, 5},
                                    {131, 67}, {65, 129}, {127, 64}, {257, 128}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void values(tri_dtype dtype, int threads, int step) {
  for (int i = 0; i < N_SHAPES; i += step) {
    layer         a = layer_open(shapes[i][0], shapes[i][1], dtype, true, threads);
    const int64_t created = tri_gemm_count();
    for (int j = 0; j < N_ROWS; j += step) {
      const int64_t rows = some_rows[j];
      const bool    odd = (i + j) % 2;
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
  values(TRI_F16, 3, 1);
}

static void test_values_other_threads(void **state) {
  (void)state;
  if (!on_cpu()) skip(); /* threads are the CPU's */
  values(TRI_F32, 1, 2);
  values(TRI_BF16, 3, 2);
}

/* Many rows: several chunks of the gradient, and one that is nearly full. */
static void test_many_rows(void **state) {
  (void)state;
  const int64_t rows[] = {256, 500, 700, 5000};
  for (int t = 0; t < 2; t++) {
    layer a = layer_open(37, 21, t ? TRI_BF16 : TRI_F32, true, 2);
    for (int i = 0; i < 4; i++) {
      try_fwd(&a, rows[i], TRI_F32, TRI_DTYPE_COUNT, ALONE);
      try_bwd_x(&a, rows[i], TRI_F32, false);
      try_bwd_w(&a, rows[i], i % 2);
    }
    layer_close(&a);
  }
}

/* A vocabulary of a real tokenizer, in brief of a small one: many blocks, a long sum in bwd_x. */
static void test_large_vocabulary(void **state) {
  const int64_t vocabulary = test_step(2) > 1 ? 16003 : 151665;
  (void)state;
  for (int t = 0; t < 2; t++) {
    layer a = layer_open(vocabulary, 8, t ? TRI_BF16 : TRI_F32, true, 2);
    try_fwd(&a, 3, TRI_F32, TRI_DTYPE_COUNT, ALONE);
    try_bwd_x(&a, 3, TRI_F32, false);
    try_bwd_w(&a, 3, false);
    OK(a.k->linear_check(a.s, a.l, a.fwd));
    layer_close(&a);
  }
}

/* Row bits: every number of rows, in brief every third, another place, another thread count, with and without
 * backward. */
static void same_bits(int64_t n_out, int64_t n_in, tri_dtype dtype) {
  enum { MANY = 400 };
  layer      two = layer_open(n_out, n_in, dtype, true, 2), other = layer_open(n_out, n_in, dtype, false, 1);
  fence      x = fence_noise(MANY * n_in, dtype, 7), judge = fence_open((size_t)(MANY * n_out) * 4);
  tri_tensor xt = tri_view2(x.device, dtype, MANY, n_in), yt = tri_view2(judge.device, TRI_F32, MANY, n_out);
  OK(two.k->linear_fwd(two.s, two.l, two.fwd, &yt, &xt, NULL, NULL));
  fence_get(&judge, two.s);
  for (int64_t rows = 1; rows <= MANY; rows += rows < 70 ? test_step(3) : 55)
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

static void test_row_bits(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    same_bits(288, 96, t ? TRI_BF16 : TRI_F32);
    same_bits(131, 67, t ? TRI_BF16 : TRI_F32);
    same_bits(96, 1024, t ? TRI_BF16 : TRI_F32);
    same_bits(512, 256, t ? TRI_BF16 : TRI_F32);
    same_bits(80, 24, t ? TRI_BF16 : TRI_F32);
  }
}

/* Row bits of a batch's last `first_rows`, `first_rows` + 7 ... rows: at another place for every number. */
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

/* Every width of a last block of columns, with inner sizes from 8 to 200 in turn and some odd ones; and a
 * vocabulary with a few added tokens. */
static void test_tile_bits(void **state) {
  enum { BLOCK = 64 };
  static const int64_t odd[] = {1, 7, 17, 31, 33, 67, 99, 131, 255, 256, 257};
  (void)state;
  if (!on_cpu()) skip(); /* the tiles are the CPU's */
  for (int64_t tail = 1; tail <= BLOCK; tail++)
    for (int64_t i = 0; i < 4; i++) {
      const int64_t k =
          i < 3 ? 8 * (1 + (tail + 8 * i) % 25) : odd[tail % (int64_t)(sizeof odd / sizeof *odd)];
      same_tile_bits(BLOCK + tail, k, TRI_BF16, 1 + (tail + i) % 7);
      if (i % 2) same_tile_bits(BLOCK + tail, k, TRI_F32, 1 + (tail + i) % 7);
    }
  same_tile_bits(32003, 96, TRI_BF16, 1);
  same_tile_bits(200, 96, TRI_F16, 1);
  for (int t = 0; t < 2; t++) { /* long sums, which a library may cut */
    same_tile_bits(512, 512, t ? TRI_BF16 : TRI_F32, 1);
    same_tile_bits(200, 2816, t ? TRI_BF16 : TRI_F32, 1);
  }
}

/* The weight gradient too has the same bits for 1 and 2 threads, and twice. */
static void test_gradient_bits(void **state) {
  (void)state;
  enum { ROWS = 777, OUT = 200, IN = 130 };
  for (int t = 0; t < 2; t++) {
    const tri_dtype dtype = t ? TRI_BF16 : TRI_F32;
    fence           x = fence_noise(ROWS * IN, dtype, 7), dy = fence_noise(ROWS * OUT, dtype, 8), judge = {0};
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

/* Without backward nothing is made for it, and the caller's number of OpenMP threads stays what it was. */
static void test_open(void **state) {
  (void)state;
  const int     threads = omp_get_max_threads();
  const int64_t start = tri_gemm_count();
  layer         a = layer_open(96, 64, TRI_F32, false, 2);
  const int64_t forward = tri_gemm_count() - start;
  layer         b = layer_open(96, 64, TRI_F32, true, 2);
  const int64_t both = tri_gemm_count() - start - forward;
  if (on_cpu()) assert_true(both > forward);
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
  layer a = layer_open(70, 33, TRI_BF16, true, 2);
  for (int64_t i = 0; i < 70 * 33; i++) set(a.w.data, TRI_BF16, i, (float)(i % 17) - 8.0f);
  fence_put(&a.w);
  layer_pack(&a);
  try_fwd(&a, 19, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  try_bwd_x(&a, 19, TRI_F32, false);
  layer_close(&a);
}

/* A library whose rows never agree is found out: a message that names the shape, and not a word about the
 * others. */
static void test_check_fails(void **state) {
  (void)state;
  if (on_cpu() || !TRI_CUDA_EMULATED) skip(); /* only the emulated library can be told to */
  setenv("TRI_EMULATE_LT", "vary", 1);
  layer a = layer_open(96, 67, TRI_BF16, false, 1);
  unsetenv("TRI_EMULATE_LT");
  assert_int_equal(a.k->linear_check(a.s, a.l, a.fwd), TRI_EDEVICE);
  assert_non_null(strstr(tri_error_message(), "[96,67]"));
  assert_non_null(strstr(tri_error_message(), "run.sampler: rescore"));
  tri_error_clear();
  try_fwd(&a, 19, TRI_F32, TRI_DTYPE_COUNT, ALONE);
  layer_close(&a);
}

/* ---- which algorithms a library's offer leads to: the emulated library can be told what to offer ---- */

enum { LT_OUT = 96, LT_IN = 67 };

/* y f32 of a layer opened while the library offers that (tests/emulate/cublasLt.h), checked, and the seconds
 * it took by the device's clock, which only the offer's flag s moves by whole ones. */
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
  OK(a.k->linear_check(a.s, a.l, a.fwd));
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

/* Whether two offers lead to the same bits. */
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

/* An algorithm that is steady up to 128 rows, and cuts its sums by how many tiles there are above, is passed
 * over for the next; where there is no other the check says so. */
static void test_grid_dependence(void **state) {
  (void)state;
  if (on_cpu() || !TRI_CUDA_EMULATED) skip();
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

/* Which bits: of the first algorithm for many rows that others for few rows agree with, whatever each takes;
 * of the first of all where none has others. */
static void test_class(void **state) {
  (void)state;
  if (on_cpu() || !TRI_CUDA_EMULATED) skip();
  for (int t = 0; t < 2; t++) {
    const tri_dtype dtype = t ? TRI_BF16 : TRI_F32;
    for (int64_t rows = 5; rows < 400; rows += 305) {
      assert_false(same_offered("h:h:", "o:o:", rows, dtype));
      assert_true(same_offered("o:h:", "o:o:", rows, dtype));   /* none for few rows: that for many serves */
      assert_true(same_offered("oh:h:", "h:h:", rows, dtype));  /* the second is complete */
      assert_true(same_offered("oh:h:r", "o:o:", rows, dtype)); /* so is the first, with its relatives */
      assert_true(same_offered("oh:ho:s", "o:o:", rows,
                               dtype)); /* the first is, though it takes 100 s and the other none */
      assert_true(same_offered("ho:oh:s", "h:h:", rows, dtype));
      assert_true(same_offered("o:eo:", "o:o:", rows, dtype)); /* one that cannot do odd numbers of rows */
      assert_true(same_offered("o:Eo:", "o:o:", rows, dtype));
    }
  }
}

/* Among algorithms with the same bits the quickest serves, also one that the library did not name. */
static void test_quickest(void **state) {
  (void)state;
  if (on_cpu() || !TRI_CUDA_EMULATED) skip();
  assert_true(same_offered("o:oO:s", "o:o:", 5, TRI_BF16));
  assert_int_equal((int)seconds_offered("o:oO:s", 5) / 50, 1);
  assert_int_equal((int)seconds_offered("o:Oo:s", 5) / 50, 1);
  assert_int_equal((int)seconds_offered("o:o:s", 5) / 50, 2);
  assert_int_equal((int)seconds_offered("o:h:rs", 5) / 50, 1);
  assert_int_equal((int)seconds_offered("oO:o:s", 1100) / 50, 1);
  assert_int_equal((int)seconds_offered("oO:o:s", 5) / 50, 2);
}

/* Gradients' sums may be in parts, if an algorithm does that right: its room is there, and the values are
 * those of loops. */
static void test_parts(void **state) {
  (void)state;
  if (on_cpu() || !TRI_CUDA_EMULATED) skip();
  layer a = layer_open(LT_OUT, LT_IN, TRI_BF16, true, 1), b = layer_open(LT_OUT, LT_IN, TRI_BF16, false, 1);
  assert_true(a.bytes.workspace >= 2 * 4 * LT_OUT * LT_IN);
  assert_true(a.bytes.workspace == b.bytes.workspace); /* whatever is chosen, as on paper */
  assert_true(a.bytes.workspace == tri_gpu_workspace_bytes(LT_OUT, LT_IN, TRI_BF16));
  for (int64_t rows = 250; rows < 1300; rows += 87) {
    try_bwd_w(&a, rows, rows % 2);
    try_bwd_x(&a, rows, TRI_F32, false);
  }
  layer_close(&a);
  layer_close(&b);
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
      cmocka_unit_test(test_tile_bits),
      cmocka_unit_test(test_gradient_bits),
      cmocka_unit_test(test_open),
      cmocka_unit_test(test_pack_again),
      cmocka_unit_test(test_check_fails),
      cmocka_unit_test(test_grid_dependence),
      cmocka_unit_test(test_class),
      cmocka_unit_test(test_quickest),
      cmocka_unit_test(test_parts),
  };
  int failed;

  device_name = name;
  if (tri_device_open(name, 0, 1, &copy_device) != TRI_OK ||
      copy_device->ops->stream_open(copy_device, "copies", &copy_stream) != TRI_OK) {
    fprintf(stderr, "%s: %s", name, tri_error_trace());
    return 1;
  }
  printf("device %s\n", name);
  failed = cmocka_run_group_tests_name("linear", tests, NULL, NULL);
  copy_device->ops->stream_close(&copy_stream);
  tri_device_close(&copy_device);
  return failed;
}

int main(void) {
  const tri_device_ops *ops;
  int                   failed = 0;

  test_filter();
  for (int i = 0; (ops = tri_device_at(i)) != NULL; i++) failed += run_on(ops->name);
  return failed;
}
