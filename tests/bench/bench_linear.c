/* bench_linear.c - compares the speed of the linear_* kernels with the library's best. Not a test.
 *
 * bench_linear [threads] [rounds] [shape index]     prints GFLOP/s, the best of `rounds` short runs
 * bench_linear floor d L ff V f32|bf16 [threads]    prints tokens/s of a step with only its products
 * "library" is one product of 512 rows in every thread at once, with packed weights and nothing else. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "bench_case.h"
#include "cpu/gemm/gemm.h"
#include "device/device.h"
#include "device/kernels.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096, LIBRARY_ROWS = 512, N_OPS = 6 };

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

/* The arrays and products of one shape. */
typedef struct bench {
  const tri_kernels *k;
  tri_device        *d;
  tri_stream        *s;
  tri_linear        *l;
  tri_gemm          *library; /* [LIBRARY_ROWS, n_in] times packed w */
  tri_dtype          dtype;
  int64_t            n_out, n_in;
  void              *fwd, *bwd, *work, *w, *x, *y, *dx, *dw;
  char              *own[64]; /* each thread's memory for `library` */
} bench;

static void library_run(const bench *b) {
  const size_t a = (size_t)(LIBRARY_ROWS * b->n_in) * 4, c = (size_t)(LIBRARY_ROWS * b->n_out) * 4;
#pragma omp parallel num_threads(b->d->threads)
  {
    const int t = omp_get_thread_num();
    char     *m = b->own[t];
    tri_gemm_run(b->library, t, (float *)(void *)(m + a), m, m + a + c,
                 m + a + c + tri_gemm_packed_bytes(b->library));
  }
}

static void once(const bench *b, int op, int64_t rows) {
  const tri_dtype t = b->dtype;
  tri_tensor      x = tri_view2(b->x, t, rows, b->n_in), y = tri_view2(b->y, t, rows, b->n_out);
  tri_tensor      sum = tri_view2(b->dx, TRI_F32, rows, b->n_out), dx = tri_view2(b->dx, t, rows, b->n_in);
  tri_tensor w = tri_view2(b->w, t, b->n_out, b->n_in), dw = tri_view2(b->dw, TRI_F32, b->n_out, b->n_in);
  if (op == 0) library_run(b);
  if (op == 1) OK(b->k->linear_fwd(b->s, b->l, b->fwd, &y, &x, NULL, NULL));
  if (op == 2) OK(b->k->linear_fwd(b->s, b->l, b->fwd, &sum, &x, NULL, &sum));
  if (op == 3) OK(b->k->linear_bwd_x(b->s, b->l, b->bwd, &dx, &y, false));
  if (op == 4) OK(b->k->linear_bwd_w(b->s, b->l, &dw, &y, &x, true));
  if (op == 5) OK(b->k->linear_pack(b->s, b->l, b->fwd, b->bwd, &w, 0, 1));
}

/* Returns the seconds of one call, as a mean over about 2 ms. */
static double seconds(const bench *b, int op, int64_t rows) {
  const double flops = 2.0 * (double)(rows * b->n_out * b->n_in);
  const int    times = op == 5 ? 1 : (int)(2e-3 * 2e11 / flops) + 1;
  const double from = tri_now_s();
  for (int i = 0; i < times; i++) once(b, op, rows);
  return (tri_now_s() - from) / times;
}

static double bench_open(bench *b, int64_t n_out, int64_t n_in, tri_dtype dtype) {
  const tri_linear_spec spec = {n_out, n_in, dtype, true, false};
  const tri_gemm_spec   whole = {
        .m = LIBRARY_ROWS, .n = n_out, .k = n_in, .dtype = dtype, .b_row = n_out, .b_col = 1};
  tri_linear_bytes bytes;
  const double     from = tri_now_s();
  OK(b->k->linear_open(b->d, &spec, &b->l));
  const double took = tri_now_s() - from;
  OK(b->k->linear_size(b->l, &bytes));
  OK(tri_gemm_open(&whole, NULL, b->d->threads, &b->library));
  b->n_out = n_out;
  b->n_in = n_in;
  b->dtype = dtype;
  b->fwd = memory(bytes.fwd);
  b->bwd = memory(bytes.bwd);
  b->work = memory(bytes.workspace);
  b->w = memory((size_t)(n_out * n_in) * 4);
  b->dw = memory((size_t)(n_out * n_in) * 4);
  b->x = memory((size_t)(ROWS_MAX * n_in) * 4);
  b->y = memory((size_t)(ROWS_MAX * n_out) * 4);
  b->dx = memory((size_t)(ROWS_MAX * (n_out > n_in ? n_out : n_in)) * 4);
  for (int t = 0; t < b->d->threads; t++) {
    b->own[t] = memory((size_t)(LIBRARY_ROWS * (n_in + n_out)) * 4 + tri_gemm_packed_bytes(b->library) +
                       tri_gemm_scratch_bytes(b->library));
    fill(b->own[t], dtype, LIBRARY_ROWS * n_in);
  }
  fill(b->w, dtype, n_out * n_in);
  fill(b->x, dtype, ROWS_MAX * n_in);
  fill(b->y, dtype, ROWS_MAX * n_out);
  OK(b->k->linear_bind(b->l, b->work, bytes.workspace));
  once(b, 5, 0);
  return took;
}

static void bench_close(bench *b) {
  void *held[] = {b->fwd, b->bwd, b->work, b->w, b->x, b->y, b->dx, b->dw};
  for (int i = 0; i < 8; i++) tri_host_free(&held[i]);
  for (int t = 0; t < b->d->threads; t++) tri_host_free((void **)&b->own[t]);
  tri_gemm_close(&b->library);
  OK(b->k->linear_close(&b->l));
}

static void bench_shape(bench *b, int64_t n_out, int64_t n_in, tri_dtype dtype, int rounds) {
  static const int64_t rows[] = {1, 8, 16, 64, 96, 512, 2048, ROWS_MAX};
  enum { N_ROWS = sizeof rows / sizeof *rows };
  double       best[N_ROWS][N_OPS];
  const double open_s = bench_open(b, n_out, n_in, dtype);
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < N_ROWS; i++)
      for (int op = 0; op < N_OPS; op++) {
        const double s = seconds(b, op, rows[i]);
        if (round == 0 || s < best[i][op]) best[i][op] = s;
      }
  double pack = best[0][5], library = best[0][0];
  for (int i = 1; i < N_ROWS; i++) {
    if (best[i][0] < library) library = best[i][0];
    if (best[i][5] < pack) pack = best[i][5];
  }
  library = 2e-9 * (double)(LIBRARY_ROWS * n_out * n_in) * b->d->threads / library;
  printf("[%lld,%lld] %s: library %.0f GFLOP/s; open %.2f ms, pack %.1f us\n", (long long)n_out,
         (long long)n_in, dtype == TRI_F32 ? "f32" : "bf16", library, open_s * 1e3, pack * 1e6);
  for (int i = 0; i < N_ROWS; i++) {
    printf("  M %4lld", (long long)rows[i]);
    for (int op = 1; op < 5; op++) {
      static const char *const name[] = {"", "fwd", "fwd added", "bwd_x", "bwd_w"};
      const double             g = 2e-9 * (double)(rows[i] * n_out * n_in) / best[i][op];
      printf(", %s %4.0f (%3.0f %%)", name[op], g, 100 * g / library);
    }
    printf("\n");
  }
  fflush(stdout);
  bench_close(b);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns FLOP/s of the library's product on this shape, the median of five. */
static double library_rate(bench *b, int64_t n_out, int64_t n_in, tri_dtype dtype) {
  enum { RUNS = 5, TIMES = 20 };
  double took[RUNS];
  bench_open(b, n_out, n_in, dtype);
  for (int run = 0; run < RUNS; run++) {
    const double from = tri_now_s();
    for (int i = 0; i < TIMES; i++) library_run(b);
    took[run] = tri_now_s() - from;
  }
  bench_close(b);
  qsort(took, RUNS, sizeof *took, ascending);
  return 2.0 * (double)(LIBRARY_ROWS * n_out * n_in) * b->d->threads * TIMES / took[RUNS / 2];
}

/* Counts every weight's forward product and its two backward products of the same size. */
static void print_floor(bench *b, char **arg) {
  const int64_t   d = atol(arg[0]), L = atol(arg[1]), ff = atol(arg[2]), V = atol(arg[3]);
  const tri_dtype dtype = strcmp(arg[4], "f32") ? TRI_BF16 : TRI_F32;
  const int64_t   shape[][3] = {{3 * d, d, L}, {d, d, L}, {2 * ff, d, L}, {d, ff, L}, {V, d, 1}};
  double          flop = 0, s = 0;
  for (int i = 0; i < 5; i++) {
    const double f = 6.0 * (double)(shape[i][0] * shape[i][1] * shape[i][2]);
    flop += f;
    s += f / library_rate(b, shape[i][0], shape[i][1], dtype);
  }
  printf("floor d=%s L=%s ff=%s V=%s %s threads=%d: tokens/s %.0f, %.0f GFLOP/s\n", arg[0], arg[1], arg[2],
         arg[3], arg[4], b->d->threads, 1 / s, flop / s * 1e-9);
}

int main(int argc, char **argv) {
  static const int64_t shape[][2] = {{768, 256},  {256, 256}, {2048, 256}, {256, 1024}, {512, 256},
                                     {1536, 512}, {512, 512}, {3072, 512}, {512, 1536}, {8192, 512},
                                     {288, 96},   {384, 96},  {96, 192}};
  const bool           is_floor = argc > 6 && !strcmp(argv[1], "floor");
  const char          *given = !is_floor && argc > 1 ? argv[1] : argc > 7 ? argv[7] : NULL;
  const int            threads = given ? atoi(given) : omp_get_max_threads();
  const int            rounds = argc > 2 ? atoi(argv[2]) : 7, only = argc > 3 ? atoi(argv[3]) : -1;
  bench                b = {0};
  OK(tri_device_open("cpu", 0, threads, &b.d));
  b.k = b.d->ops->kernels;
  OK(b.d->ops->stream_open(b.d, "bench", &b.s));
  if (is_floor)
    print_floor(&b, argv + 2);
  else
    printf("%s, %d threads\n", tri_gemm_library(), threads);
  for (int t = 0; t < 2 && !is_floor; t++)
    for (int i = 0; i < (int)(sizeof shape / sizeof *shape); i++)
      if (only < 0 || i == only) bench_shape(&b, shape[i][0], shape[i][1], t ? TRI_BF16 : TRI_F32, rounds);
  b.d->ops->stream_close(&b.s);
  tri_device_close(&b.d);
  return 0;
}
