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
#include "tools/timer/timed_product.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096, LIBRARY_ROWS = 512, FLOOR_RUNS = 50 };
enum { LIBRARY, FWD, FWD_ADDED, BWD_X, BWD_W, PACK, N_OPS };

static void *memory(size_t bytes) {
  void *p = NULL;
  OK(tri_host_alloc(bytes, 1, &p));
  return p;
}

/* The arrays and products of one shape. */
typedef struct bench {
  tri_timer         timer;
  tri_timed_product product;
  tri_gemm         *library; /* [LIBRARY_ROWS, n_in] times packed w */
  void             *block;   /* memory of the product */
  char             *own[64]; /* each thread's memory for `library` */
} bench;

static tri_status library_run(void *ctx, tri_stream *s) {
  const bench           *b = ctx;
  const tri_linear_spec *spec = &b->product.spec;
  const size_t a = (size_t)(LIBRARY_ROWS * spec->n_in) * 4, c = (size_t)(LIBRARY_ROWS * spec->n_out) * 4;
  (void)s;
#pragma omp parallel num_threads(b->timer.device->threads)
  {
    const int t = omp_get_thread_num();
    char     *m = b->own[t];
    tri_gemm_run(b->library, t, (float *)(void *)(m + a), m, m + a + c,
                 m + a + c + tri_gemm_packed_bytes(b->library));
  }
  return TRI_OK;
}

static tri_status pack_run(void *ctx, tri_stream *s) {
  const bench             *b = ctx;
  const tri_timed_product *p = &b->product;
  tri_tensor               w = tri_view2(p->w, p->spec.dtype, p->spec.n_out, p->spec.n_in);
  return p->device->ops->kernels->linear_pack(s, p->linear, p->bytes.fwd ? p->fwd : NULL,
                                              p->bytes.bwd ? p->bwd : NULL, &w, 0, 1);
}

/* Returns the seconds of one call, from a run of about a millisecond. *calls is 0 before the first. */
static double seconds(bench *b, int op, int64_t rows, int *calls) {
  static const tri_product_call call[] = {[FWD] = TRI_PRODUCT_FWD,
                                          [FWD_ADDED] = TRI_PRODUCT_FWD_ADD,
                                          [BWD_X] = TRI_PRODUCT_BWD_X,
                                          [BWD_W] = TRI_PRODUCT_BWD_W_ADD};
  const bool                    is_own = op == LIBRARY || op == PACK;
  tri_product_work              work = {&b->product, is_own ? TRI_PRODUCT_FWD : call[op], rows};
  tri_timed_work run = op == LIBRARY ? library_run : op == PACK ? pack_run : tri_timed_product_run;
  void          *ctx = is_own ? (void *)b : &work;
  double         s;
  if (op == PACK) *calls = 1; /* without warm-up, because a run packs once after each update */
  if (!*calls) OK(tri_timed_warm_up(&b->timer, run, ctx, calls));
  OK(tri_timed_run(&b->timer, run, ctx, *calls, &s));
  return s;
}

/* Returns the seconds taken to open the product. */
static double bench_open(bench *b, int64_t n_out, int64_t n_in, tri_dtype dtype) {
  const tri_linear_spec spec = {n_out, n_in, dtype, true, false, NULL};
  const tri_gemm_spec   whole = {
        .m = LIBRARY_ROWS, .n = n_out, .k = n_in, .dtype = dtype, .b_row = n_out, .b_col = 1};
  const double from = tri_now_s();
  OK(tri_timed_product_open(b->timer.device, &spec, ROWS_MAX, &b->product));
  const double took = tri_now_s() - from;
  OK(tri_gemm_open(&whole, NULL, b->timer.device->threads, &b->library));
  OK(b->timer.device->ops->alloc(b->timer.device, TRI_MEM_HOST, b->product.memory_bytes, &b->block));
  OK(tri_timed_product_start(&b->product, b->block, b->timer.stream));
  for (int t = 0; t < b->timer.device->threads; t++) {
    b->own[t] = memory((size_t)(LIBRARY_ROWS * (n_in + n_out)) * 4 + tri_gemm_packed_bytes(b->library) +
                       tri_gemm_scratch_bytes(b->library));
    OK(tri_noise_put(b->timer.stream, b->own[t], dtype, LIBRARY_ROWS * n_in));
  }
  return took;
}

static void bench_close(bench *b) {
  tri_timed_product_close(&b->product);
  b->timer.device->ops->free(b->timer.device, TRI_MEM_HOST, &b->block);
  for (int t = 0; t < b->timer.device->threads; t++) tri_host_free((void **)&b->own[t]);
  tri_gemm_close(&b->library);
}

static void bench_shape(bench *b, int64_t n_out, int64_t n_in, tri_dtype dtype, int rounds) {
  static const int64_t rows[] = {1, 8, 16, 64, 96, 512, 2048, ROWS_MAX};
  enum { N_ROWS = sizeof rows / sizeof *rows };
  double       best[N_ROWS][N_OPS];
  int          calls[N_ROWS][N_OPS] = {{0}};
  const double open_s = bench_open(b, n_out, n_in, dtype);
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < N_ROWS; i++)
      for (int op = 0; op < N_OPS; op++) {
        const double s = seconds(b, op, rows[i], &calls[i][op]);
        if (round == 0 || s < best[i][op]) best[i][op] = s;
      }
  double pack = best[0][PACK], library = best[0][LIBRARY];
  for (int i = 1; i < N_ROWS; i++) {
    if (best[i][LIBRARY] < library) library = best[i][LIBRARY];
    if (best[i][PACK] < pack) pack = best[i][PACK];
  }
  library = 1e-9 * tri_timed_product_flops(LIBRARY_ROWS, n_out, n_in) * b->timer.device->threads / library;
  printf("[%lld,%lld] %s: library %.0f GFLOP/s; open %.2f ms, pack %.1f us\n", (long long)n_out,
         (long long)n_in, dtype == TRI_F32 ? "f32" : "bf16", library, open_s * 1e3, pack * 1e6);
  for (int i = 0; i < N_ROWS; i++) {
    printf("  M %4lld", (long long)rows[i]);
    for (int op = FWD; op < PACK; op++) {
      static const char *const name[] = {"", "fwd", "fwd added", "bwd_x", "bwd_w"};
      const double             g = 1e-9 * tri_timed_product_flops(rows[i], n_out, n_in) / best[i][op];
      printf(", %s %4.0f (%3.0f %%)", name[op], g, 100 * g / library);
    }
    printf("\n");
  }
  fflush(stdout);
  bench_close(b);
}

/* Returns FLOP/s of the library's product on this shape, the median of many runs. */
static double library_rate(bench *b, int64_t n_out, int64_t n_in, tri_dtype dtype) {
  const tri_effort all = {FLOOR_RUNS, FLOOR_RUNS, 0, INFINITY};
  tri_timing       took;
  bench_open(b, n_out, n_in, dtype);
  OK(tri_timed(&b->timer, library_run, b, &all, &took));
  bench_close(b);
  return tri_timed_product_flops(LIBRARY_ROWS, n_out, n_in) * b->timer.device->threads / took.median_s;
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
         arg[3], arg[4], b->timer.device->threads, 1 / s, flop / s * 1e-9);
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
  OK(tri_device_open("cpu", 0, threads, &b.timer.device));
  OK(b.timer.device->ops->stream_open(b.timer.device, "bench", &b.timer.stream));
  if (is_floor)
    print_floor(&b, argv + 2);
  else
    printf("%s, %d threads\n", tri_gemm_library(), threads);
  for (int t = 0; t < 2 && !is_floor; t++)
    for (int i = 0; i < (int)(sizeof shape / sizeof *shape); i++)
      if (only < 0 || i == only) bench_shape(&b, shape[i][0], shape[i][1], t ? TRI_BF16 : TRI_F32, rounds);
  b.timer.device->ops->stream_close(&b.timer.stream);
  tri_device_close(&b.timer.device);
  return 0;
}
