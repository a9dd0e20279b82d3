/* bench_linear.c - speed of the linear_* kernels beside the library's own best. Not a test.
 *
 * usage: bench_linear [threads] [shape index]. Each number is GFLOP/s, the best of several short runs. "library": one
 * product of 512 rows in every thread at once, weights packed, nothing else. */
#include "cpu/gemm.h"
#include "device.h"
#include "kernels.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                                             \
  do {                                                                                                       \
    if ((call) != TRI_OK) {                                                                                  \
      fprintf(stderr, "%s\n", tri_error_trace());                                                            \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

enum { ROWS_MAX = 4096, LIBRARY_ROWS = 512, REPEATS = 7 };

static void *memory(size_t bytes) {
  void *p = NULL;
  OK(tri_host_alloc(bytes, 1, &p));
  return p;
}

static void fill(void *p, tri_dtype t, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float v = (float)(i * 2654435761u % 1024) / 1024.0f - 0.5f;
    if (t == TRI_F32)
      ((float *)p)[i] = v;
    else
      ((uint16_t *)p)[i] = tri_f32_to_bf16(v);
  }
}

/* GFLOP/s of `call`, repeated to last about 4 ms. */
#define MEASURE(out, flops, call)                                                                            \
  do {                                                                                                       \
    const int times_ = (int)(4e-3 * 2e11 / (flops)) + 1;                                                     \
    double    best_ = 1e30;                                                                                  \
    for (int r_ = 0; r_ < REPEATS; r_++) {                                                                   \
      const double from_ = tri_now_s();                                                                      \
      for (int i_ = 0; i_ < times_; i_++) call;                                                              \
      const double took_ = (tri_now_s() - from_) / times_;                                                   \
      if (took_ < best_) best_ = took_;                                                                      \
    }                                                                                                        \
    out = (flops) / best_ * 1e-9;                                                                            \
  } while (0)

static double library_best(int64_t n, int64_t k, tri_dtype dtype, int threads) {
  const tri_gemm_spec spec = {.m = LIBRARY_ROWS, .n = n, .k = k, .dtype = dtype, .b_row = n, .b_col = 1};
  tri_gemm           *g = NULL;
  double              total = 0;
  OK(tri_gemm_open(&spec, NULL, threads, &g));
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    float *c = memory((size_t)(LIBRARY_ROWS * n) * 4);
    char  *a = memory((size_t)(LIBRARY_ROWS * k) * 4), *b = memory(tri_gemm_packed_bytes(g)),
         *scratch = memory(tri_gemm_scratch_bytes(g) + 64);
    fill(a, dtype, LIBRARY_ROWS * k);
    MEASURE(total, 2.0 * (double)(LIBRARY_ROWS * n * k),
            tri_gemm_run(g, omp_get_thread_num(), c, a, b, scratch));
    tri_host_free((void **)&c);
    tri_host_free((void **)&a);
    tri_host_free((void **)&b);
    tri_host_free((void **)&scratch);
  }
  tri_gemm_close(&g);
  return total;
}

static void bench_shape(const tri_kernels *k, tri_device *d, tri_stream *s, int64_t n_out, int64_t n_in,
                        tri_dtype dtype) {
  static const int64_t  rows[] = {1, 8, 16, 64, 96, 512, 2048, ROWS_MAX};
  const tri_linear_spec spec = {n_out, n_in, dtype, true};
  tri_linear           *l = NULL;
  tri_linear_bytes      bytes;
  const double          before = tri_now_s();
  OK(k->linear_open(d, &spec, &l));
  const double open_s = tri_now_s() - before;
  OK(k->linear_size(l, &bytes));
  void *fwd = memory(bytes.fwd), *bwd = memory(bytes.bwd), *work = memory(bytes.workspace);
  void *w = memory((size_t)(n_out * n_in) * 4), *x = memory((size_t)(ROWS_MAX * n_in) * 4);
  void *y = memory((size_t)(ROWS_MAX * n_out) * 4), *dw = memory((size_t)(n_out * n_in) * 4);
  fill(w, dtype, n_out * n_in);
  fill(x, dtype, ROWS_MAX * n_in);
  OK(k->linear_bind(l, work, bytes.workspace));
  tri_tensor   wt = tri_view2(w, dtype, n_out, n_in), dwt = tri_view2(dw, TRI_F32, n_out, n_in);
  double       pack, check, best = library_best(n_out, n_in, dtype, d->threads);
  const double weights = (double)(n_out * n_in);
  MEASURE(pack, weights, OK(k->linear_pack(s, l, fwd, bwd, &wt)));
  MEASURE(check, 1e9, OK(k->linear_check(s, l, fwd)));
  printf("[%lld,%lld] %s: library %.0f; open %.2f ms, pack %.1f us, check %.2f ms, workspace %.1f MB\n",
         (long long)n_out, (long long)n_in, dtype == TRI_F32 ? "f32" : "bf16", best, open_s * 1e3,
         weights / pack * 1e-3, 1e3 / check, (double)bytes.workspace * 1e-6);
  for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
    const double flops = 2.0 * (double)rows[i] * weights;
    tri_tensor   xt = tri_view2(x, dtype, rows[i], n_in), yt = tri_view2(y, TRI_F32, rows[i], n_out);
    tri_tensor   dxt = tri_view2(x, dtype, rows[i], n_in), dyt = tri_view2(y, dtype, rows[i], n_out);
    double       f, fa, a, b;
    MEASURE(f, flops, OK(k->linear_fwd(s, l, fwd, &yt, &xt, NULL, true)));
    yt.dtype = dtype;
    MEASURE(fa, flops, OK(k->linear_fwd(s, l, fwd, &yt, &xt, NULL, false)));
    MEASURE(b, flops, OK(k->linear_bwd_w(s, l, &dwt, &dyt, &xt)));
    MEASURE(a, flops, OK(k->linear_bwd_x(s, l, bwd, &dxt, &dyt, false)));
    printf("  M %4lld: fwd %4.0f (%3.0f %%), added to f32 %4.0f (%3.0f %%), bwd_x %4.0f (%3.0f %%), bwd_w "
           "%4.0f (%3.0f %%)\n",
           (long long)rows[i], fa, 100 * fa / best, f, 100 * f / best, a, 100 * a / best, b, 100 * b / best);
    fill(x, dtype, ROWS_MAX * n_in);
  }
  tri_host_free(&fwd);
  tri_host_free(&bwd);
  tri_host_free(&work);
  tri_host_free(&w);
  tri_host_free(&x);
  tri_host_free(&y);
  tri_host_free(&dw);
  OK(k->linear_close(&l));
}

int main(int argc, char **argv) {
  static const int64_t shape[][2] = {{768, 256},  {256, 256}, {2048, 256}, {256, 1024}, {512, 256},
                                     {1536, 512}, {512, 512}, {3072, 512}, {512, 1536}, {8192, 512},
                                     {288, 96},   {384, 96},  {96, 192}};
  const int threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads(), only = argc > 2 ? atoi(argv[2]) : -1;
  tri_device *d = NULL;
  tri_stream *s = NULL;
  OK(tri_device_open("cpu", 0, threads, &d));
  OK(d->ops->stream_open(d, "bench", &s));
  printf("%s, %d threads\n", tri_gemm_library(), threads);
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < (int)(sizeof shape / sizeof *shape); i++)
      if (only < 0 || i == only)
        bench_shape(d->ops->kernels, d, s, shape[i][0], shape[i][1], t ? TRI_BF16 : TRI_F32);
  d->ops->stream_close(&s);
  tri_device_close(&d);
  return 0;
}
