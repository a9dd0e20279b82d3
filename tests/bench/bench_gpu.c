/* bench_gpu.c - measures a device's kernels (attention, recurrence, head, AdamW, norms, products). No test.
 *
 * bench_gpu DEVICE [small] [WORD]    runs all cases, or those with WORD in their label
 * small                              uses tiny shapes, to try the program
 * It prints a line for each case, FIGURE|label|unit|number. The number is the median of five timed runs, by
 * the device's own events (src/tools/timer/timed.h). Operations and bytes are the least a computation needs.
 * Causal attention counts half of all pairs, a backward pass counts 5 products for the 2 of a forward pass,
 * and each array is read or written once. Recurrent layers have microseconds, of a core on a CPU. On a GPU
 * they also have those of a row, with all sequences and heads side by side. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_case.h"
#include "tools/timer/timed_product.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARRAYS = 32, RUNS = 5, PATTERN = 1 << 20 };

/* A device and the arrays of one case. */
typedef struct bench {
  const tri_device_ops *ops;
  const tri_kernels    *k;
  tri_device           *d;
  tri_stream           *s;
  void                 *array[MOST_ARRAYS];
  int                   n_arrays;
  bool                  small;
  const char           *word;       /* NULL means every case */
  float                *noise;      /* host, [PATTERN], in (-0.5, 0.5) */
  uint16_t             *noise_half; /* the same in bf16 */
  char                  label[128];
} bench;

/* ---- arrays ---- */

static void *workspace(bench *b, size_t bytes) {
  void *p = NULL;

  if (b->n_arrays == MOST_ARRAYS) abort();
  OK(b->ops->alloc(b->d, TRI_MEM_DEVICE, bytes, &p));
  return b->array[b->n_arrays++] = p;
}

static void give_back(bench *b) {
  OK(b->ops->stream_sync(b->s));
  while (b->n_arrays) b->ops->free(b->d, TRI_MEM_DEVICE, &b->array[--b->n_arrays]);
}

/* Makes [rows,columns] of noise. With columns 0 it is a view of one dimension. */
static tri_tensor array(bench *b, tri_dtype t, int64_t rows, int64_t columns) {
  const int64_t n = rows * (columns ? columns : 1);
  const size_t  size = tri_dtype_bytes(t);
  char         *p = workspace(b, (size_t)n * size);
  const void   *noise = t == TRI_F32 ? (const void *)b->noise : b->noise_half;

  for (int64_t at = 0; at < n && (t == TRI_F32 || t == TRI_BF16); at += PATTERN)
    OK(b->ops->copy(b->s, p + (size_t)at * size, noise,
                    (size_t)(n - at < PATTERN ? n - at : PATTERN) * size));
  OK(b->ops->stream_sync(b->s));
  return columns ? tri_view2(p, t, rows, columns) : tri_view1(p, t, rows);
}

/* Copies int32 numbers of the host to the device, as a view [n] or [rows,n / rows]. */
static tri_tensor numbers(bench *b, const int32_t *x, int64_t rows, int64_t columns) {
  const int64_t n = rows * (columns ? columns : 1);
  void         *p = workspace(b, (size_t)n * sizeof *x);

  OK(b->ops->copy(b->s, p, x, (size_t)n * sizeof *x));
  OK(b->ops->stream_sync(b->s));
  return columns ? tri_view2(p, TRI_I32, rows, columns) : tri_view1(p, TRI_I32, rows);
}

static int32_t *host_numbers(int64_t n) {
  int32_t *x = calloc((size_t)n, sizeof *x);
  if (!x) abort();
  return x;
}

/* ---- time ---- */

static const tri_effort effort = {RUNS, RUNS, 0, INFINITY};

static tri_timer timer_of(const bench *b) { return (tri_timer){b->d, b->s, NULL}; }

/* Prints amount (in `unit`, 1e9 or 1e12 per second) over the median time of one call. */
static void print_figure(const bench *b, const tri_timing *t, double amount, const char *unit) {
  const double scale = unit[0] == 'T' ? 1e12 : 1e9;

  printf("FIGURE|%s|%s|%.4g\n", b->label, unit, amount / t->median_s / scale);
  fflush(stdout);
}

/* A case, its kernel and operands. */
typedef struct kernel_case {
  bench *b;
  void (*run)(bench *, void *);
  void *ctx;
} kernel_case;

static tri_status run_case(void *ctx, tri_stream *s) {
  const kernel_case *c = ctx;

  (void)s;
  c->run(c->b, c->ctx);
  return TRI_OK;
}

static void figure(bench *b, void (*run)(bench *, void *), void *ctx, double amount, const char *unit) {
  const tri_timer timer = timer_of(b);
  kernel_case     c = {b, run, ctx};
  tri_timing      took;

  OK(tri_timed(&timer, run_case, &c, &effort, &took));
  print_figure(b, &took, amount, unit);
}

/* Sets the label and returns whether this case was requested. */
static bool begin(bench *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool begin(bench *b, const char *fmt, ...) {
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(b->label, sizeof b->label, fmt, ap);
  va_end(ap);
  return !b->word || strstr(b->label, b->word);
}

/* ---- attention of sequences ---- */

typedef struct attention {
  tri_attn_rule rule;
  tri_tensor    qkv, o, lse, cu, dout, dqkv, work;
} attention;

static void attention_fwd(bench *b, void *ctx) {
  attention *a = ctx;
  OK(b->k->attn_fwd(b->s, &a->o, &a->lse, &a->qkv, &a->cu, &a->rule));
}
static void attention_bwd(bench *b, void *ctx) {
  attention *a = ctx;
  OK(b->k->attn_bwd(b->s, &a->dqkv, &a->work, &a->dout, &a->o, &a->lse, &a->qkv, &a->cu, &a->rule));
}

/* Measures N tokens in sequences of T tokens. */
static void bench_attention(bench *b, tri_heads h, int64_t N, int64_t T) {
  const int64_t E = (h.H + 2 * h.G) * h.D, S = N / T;
  const double  flop =
      2.0 * (double)T * (double)T * h.H * h.D * (double)S; /* two products over half of all pairs */
  int32_t          *cu = host_numbers(S + 1);
  attention         a = {.rule = {h, 1 / sqrtf((float)h.D), 0, 0, T}};
  tri_device_advice advice;

  b->d->ops->advice(b->d, &advice);
  for (int64_t i = 0; i <= S; i++) cu[i] = (int32_t)(i * T);
  a.qkv = array(b, TRI_BF16, N, E);
  a.o = array(b, TRI_BF16, N, (int64_t)h.H * h.D);
  a.lse = array(b, TRI_F32, N, h.H);
  a.cu = numbers(b, cu, S + 1, 0);
  a.dout = array(b, TRI_BF16, N, (int64_t)h.H * h.D);
  a.dqkv = array(b, TRI_BF16, N, E);
  a.work = array(b, TRI_F32, tri_attn_workspace(&advice, &h, TRI_BF16, N), 0);
  if (begin(b, "attention forward, %d/%d heads of %d, %lld tokens", h.H, h.G, h.D, (long long)T))
    figure(b, attention_fwd, &a, flop, "TFLOP/s");
  attention_fwd(b, &a); /* backward needs its o and lse */
  if (begin(b, "attention backward%s, %d/%d heads of %d, %lld tokens",
            advice.attn_bytes ? ", cuDNN asked for" : "", h.H, h.G, h.D, (long long)T))
    figure(b, attention_bwd, &a, 2.5 * flop, "TFLOP/s");
  free(cu);
  give_back(b);
}

/* ---- attention of decoding ---- */

typedef struct decode {
  tri_attn_rule rule;
  tri_tensor    qkv, o, k_page, v_page, table, len, work; /* data of work is NULL if rows are not spread */
} decode;

static void decode_run(bench *b, void *ctx) {
  decode *a = ctx;
  OK(b->k->attn_decode(b->s, &a->o, a->work.data ? &a->work : NULL, &a->qkv, &a->k_page, &a->v_page,
                       &a->table, &a->len, &a->rule));
}

/* Measures `rows` sequences of len tokens each, every one with its own pages. `spread` uses many blocks for
 * each row. */
static void bench_decode(bench *b, tri_heads h, int64_t rows, int64_t len, bool spread) {
  const int64_t pages = (len + TRI_PAGE - 1) / TRI_PAGE, P = rows * pages, E = (h.H + 2 * h.G) * h.D;
  int32_t      *table = host_numbers(P), *lens = host_numbers(rows);
  decode        a = {.rule = {h, 1 / sqrtf((float)h.D), 0, 0, 0}};

  if (begin(b, "attention decode, %d/%d heads of %d, %lld rows of %lld tokens%s", h.H, h.G, h.D,
            (long long)rows, (long long)len, spread ? ", spread" : "")) {
    for (int64_t i = 0; i < P; i++) table[i] = (int32_t)(i * 7919 % P); /* pages in mixed order */
    for (int64_t i = 0; i < rows; i++) lens[i] = (int32_t)len;
    if (P % 7919 == 0) abort();
    a.qkv = array(b, TRI_BF16, rows, E);
    a.o = array(b, TRI_BF16, rows, (int64_t)h.H * h.D);
    a.k_page = array(b, TRI_BF16, P, (int64_t)h.G * h.D * TRI_PAGE);
    a.v_page = a.k_page;
    a.v_page.data = workspace(b, (size_t)tri_tensor_count(&a.k_page) * 2);
    a.k_page = (tri_tensor){a.k_page.data, TRI_BF16, 4, {P, h.G, h.D, TRI_PAGE}};
    a.v_page = (tri_tensor){a.v_page.data, TRI_BF16, 4, {P, h.G, TRI_PAGE, h.D}};
    a.table = numbers(b, table, rows, pages);
    a.len = numbers(b, lens, rows, 0);
    if (spread) a.work = array(b, TRI_F32, tri_attn_spread_work(&h, rows, pages), 0);
    figure(b, decode_run, &a, 4.0 * (double)(rows * len * h.G * h.D), "GB/s");
  }
  free(table);
  free(lens);
  give_back(b);
}

/* ---- recurrent layers ---- */

typedef struct delta {
  tri_delta_rule rule;
  tri_tensor     mix, c, w, dw, ba, A_log, dt_bias, o, cu, dout, dc, dba, dA_log, ddt_bias, work, state, slot,
      fresh;
} delta;

static void delta_fwd(bench *b, void *ctx) {
  delta               *a = ctx;
  const tri_delta_rows rows = {&a->cu, NULL, NULL};
  OK(b->k->delta_fwd(b->s, &a->o, &a->c, &a->ba, &a->A_log, &a->dt_bias, NULL, &rows, &a->rule));
}
static void delta_bwd(bench *b, void *ctx) {
  delta *a = ctx;
  OK(b->k->delta_bwd(b->s, &a->dc, &a->dba, &a->dA_log, &a->ddt_bias, &a->work, &a->dout, &a->c, &a->ba,
                     &a->A_log, &a->dt_bias, &a->cu, &a->rule));
}
static void delta_step(bench *b, void *ctx) {
  delta               *a = ctx;
  const tri_delta_rows rows = {&a->cu, &a->slot, &a->fresh};
  OK(b->k->delta_fwd(b->s, &a->o, &a->c, &a->ba, &a->A_log, &a->dt_bias, &a->state, &rows, &a->rule));
}
static void conv_fwd(bench *b, void *ctx) {
  delta               *a = ctx;
  const tri_delta_rows rows = {&a->cu, NULL, NULL};
  OK(b->k->conv_fwd(b->s, &a->c, &a->mix, &a->w, NULL, &rows));
}
static void conv_bwd(bench *b, void *ctx) {
  delta *a = ctx;
  OK(b->k->conv_bwd(b->s, &a->dc, &a->dw, &a->c, &a->mix, &a->w, &a->cu));
}

/* Prints the microseconds of a core, or of the GPU, for each token and value head. */
static void figure_each(bench *b, void (*run)(bench *, void *), delta *a) {
  const tri_timer timer = timer_of(b);
  const double    cores = tri_device_is_gpu(b->d) ? 1 : b->d->threads;
  kernel_case     c = {b, run, a};
  tri_timing      took;

  OK(tri_timed(&timer, run_case, &c, &effort, &took));
  printf("FIGURE|%s|us|%.4g\n", b->label, 1e6 * cores * took.median_s / (double)(a->c.dim[0] * a->rule.Hv));
  fflush(stdout);
}

/* Prints the microseconds from one row of T to the next. */
static void figure_row(bench *b, void (*run)(bench *, void *), delta *a, int64_t T) {
  const tri_timer timer = timer_of(b);
  kernel_case     c = {b, run, a};
  tri_timing      took;

  OK(tri_timed(&timer, run_case, &c, &effort, &took));
  printf("FIGURE|%s|us|%.4g\n", b->label, 1e6 * took.median_s / (double)T);
  fflush(stdout);
}

/* Measures N tokens in sequences of T tokens, in type A. With T = 1 every row goes on from a state of its
 * own. */
static void bench_delta(bench *b, tri_dtype A, tri_delta_rule rule, int64_t N, int64_t T) {
  const int64_t Er = tri_delta_width(&rule), S = N / T, out = (int64_t)rule.Hv * rule.Dv;
  int32_t      *cu = host_numbers(S + 1), *slot = host_numbers(S), *fresh = host_numbers(S);
  delta         a = {.rule = rule};

  for (int64_t i = 0; i <= S; i++) cu[i] = (int32_t)(i * T);
  for (int64_t i = 0; i < S; i++) slot[i] = (int32_t)(S - 1 - i);
  a.mix = array(b, A, N, Er), a.c = array(b, A, N, Er), a.w = array(b, A, Er, rule.conv);
  a.ba = array(b, A, N, 2 * rule.Hv), a.A_log = array(b, A, rule.Hv, 0), a.dt_bias = array(b, A, rule.Hv, 0);
  a.o = array(b, A, N, out), a.dout = array(b, A, N, out), a.dc = array(b, A, N, Er);
  a.dba = array(b, A, N, 2 * rule.Hv), a.cu = numbers(b, cu, S + 1, 0);
  if (T == 1) {
    a.state = array(b, TRI_F32, S, tri_delta_state(&rule));
    a.slot = numbers(b, slot, S, 0), a.fresh = numbers(b, fresh, S, 0);
    if (begin(b, "delta step, %s, a token and head, %d heads of %d x %d, %lld rows", tri_dtype_word(A),
              rule.Hv, rule.Dk, rule.Dv, (long long)S))
      figure_each(b, delta_step, &a);
  } else {
    a.dA_log = array(b, TRI_F32, rule.Hv, 0), a.ddt_bias = array(b, TRI_F32, rule.Hv, 0);
    a.work = array(b, TRI_F32, tri_delta_work(&rule, N), 0);
    if (begin(b, "delta forward, %s, a token and head, %d heads of %d x %d, %lld tokens", tri_dtype_word(A),
              rule.Hv, rule.Dk, rule.Dv, (long long)T))
      figure_each(b, delta_fwd, &a);
    if (begin(b, "delta backward, %s, a token and head, %d heads of %d x %d, %lld tokens", tri_dtype_word(A),
              rule.Hv, rule.Dk, rule.Dv, (long long)T))
      figure_each(b, delta_bwd, &a);
    if (tri_device_is_gpu(b->d) &&
        begin(b, "delta forward, %s, a row, %d heads of %d x %d, %lld sequences of %lld tokens",
              tri_dtype_word(A), rule.Hv, rule.Dk, rule.Dv, (long long)S, (long long)T))
      figure_row(b, delta_fwd, &a, T);
    if (tri_device_is_gpu(b->d) &&
        begin(b, "delta backward, %s, a row, %d heads of %d x %d, %lld sequences of %lld tokens",
              tri_dtype_word(A), rule.Hv, rule.Dk, rule.Dv, (long long)S, (long long)T))
      figure_row(b, delta_bwd, &a, T);
  }
  if (T > 1) {
    a.dw = array(b, TRI_F32, Er, rule.conv);
    if (begin(b, "conv forward, %s, a token and head, %d taps, %lld tokens", tri_dtype_word(A), rule.conv,
              (long long)T))
      figure_each(b, conv_fwd, &a);
    if (begin(b, "conv backward, %s, a token and head, %d taps, %lld tokens", tri_dtype_word(A), rule.conv,
              (long long)T))
      figure_each(b, conv_bwd, &a);
  }
  free(cu), free(slot), free(fresh);
  give_back(b);
}

/* ---- the head ---- */

typedef struct head {
  tri_tensor logits, dlogits, target, logp, ent, lse, dlogp, dent;
} head;

static void head_fwd(bench *b, void *ctx) {
  head *a = ctx;
  OK(b->k->logp_fwd(b->s, &a->logp, &a->ent, &a->lse, &a->logits, &a->target, 1));
}
static void head_bwd(bench *b, void *ctx) {
  head *a = ctx;
  OK(b->k->logp_bwd(b->s, &a->dlogits, &a->logits, &a->target, &a->lse, &a->ent, &a->dlogp, &a->dent, 1));
}

static void bench_head(bench *b, int64_t K, int64_t V) {
  int32_t *target = host_numbers(K);
  head     a;

  for (int64_t i = 0; i < K; i++) target[i] = (int32_t)(i * 31 % V);
  a.logits = array(b, TRI_F32, K, V);
  a.dlogits = array(b, TRI_BF16, K, V);
  a.target = numbers(b, target, K, 0);
  a.logp = array(b, TRI_F32, K, 0), a.ent = array(b, TRI_F32, K, 0), a.lse = array(b, TRI_F32, K, 0);
  a.dlogp = array(b, TRI_F32, K, 0), a.dent = array(b, TRI_F32, K, 0);
  if (begin(b, "log-probabilities forward, %lld rows of %lld", (long long)K, (long long)V))
    figure(b, head_fwd, &a, 4.0 * (double)(K * V), "GB/s");
  head_fwd(b, &a);
  if (begin(b, "log-probabilities backward, %lld rows of %lld", (long long)K, (long long)V))
    figure(b, head_bwd, &a, 6.0 * (double)(K * V), "GB/s");
  free(target);
  give_back(b);
}

/* ---- flat arrays ---- */

typedef struct flat {
  tri_tensor a, b, c, d, e, f;
} flat;

static void adamw_run(bench *b, void *ctx) {
  const tri_adamw_rule rule = {1e-5f, 0.9f, 0.95f, 1e-8f, 1e-6f, 1, 10};
  flat                *f = ctx;
  OK(b->k->adamw(b->s, &f->a, &f->b, &f->c, &f->e, &f->d, &rule));
}
static void cast_run(bench *b, void *ctx) {
  flat *f = ctx;
  OK(b->k->cast(b->s, &f->e, &f->a));
}
static void sumsq_run(bench *b, void *ctx) {
  flat *f = ctx;
  OK(b->k->sumsq(b->s, f->e.data, &f->d));
}
static const tri_norm_rule norm = {1e-6f, 0};
static void                rmsnorm_fwd(bench *b, void *ctx) {
                 flat *f = ctx;
                 OK(b->k->rmsnorm_fwd(b->s, &f->a, &f->b, &f->c, &f->d, NULL, &norm));
}
static void rmsnorm_bwd(bench *b, void *ctx) {
  flat *f = ctx;
  OK(b->k->rmsnorm_bwd(b->s, &f->e, &f->a, &f->b, &f->c, &f->d, &f->f, &norm));
}
static void swiglu_fwd(bench *b, void *ctx) {
  flat *f = ctx;
  OK(b->k->glu_fwd(b->s, &f->a, &f->b, TRI_ACT_SILU));
}
static void swiglu_bwd(bench *b, void *ctx) {
  flat *f = ctx;
  OK(b->k->glu_bwd(b->s, &f->c, NULL, &f->a, &f->b, TRI_ACT_SILU));
}

/* AdamW reads and writes w, m and v and reads g, all f32, and writes the new weights in bf16. These are the
 * bytes of one element. */
static void bench_optimizer(bench *b, int64_t n) {
  flat f;

  f.a = array(b, TRI_F32, n, 0), f.b = array(b, TRI_F32, n, 0), f.c = array(b, TRI_F32, n, 0);
  OK(b->ops->fill(b->s, f.c.data, 0, (size_t)n * 4)); /* second moments are not negative */
  f.d = array(b, TRI_F32, n, 0), f.e = array(b, TRI_BF16, n, 0);
  if (begin(b, "AdamW, %lld M elements of 30 bytes", (long long)n >> 20))
    figure(b, adamw_run, &f, 30.0 * (double)n, "GB/s");
  if (begin(b, "f32 to bf16, %lld M elements of 6 bytes", (long long)n >> 20))
    figure(b, cast_run, &f, 6.0 * (double)n, "GB/s");
  if (begin(b, "sum of squares, %lld M elements of 4 bytes", (long long)n >> 20))
    figure(b, sumsq_run, &f, 4.0 * (double)n, "GB/s");
  give_back(b);
}

static void bench_layers(bench *b, int64_t N, int64_t C, int64_t F) {
  flat f = {.a = array(b, TRI_BF16, N, C), .b = array(b, TRI_F32, N, 0), .c = array(b, TRI_F32, N, C)}, g;

  f.d = array(b, TRI_BF16, C, 0);
  if (begin(b, "RMSNorm forward, [%lld,%lld], 6 bytes", (long long)N, (long long)C))
    figure(b, rmsnorm_fwd, &f, 6.0 * (double)(N * C), "GB/s");
  rmsnorm_fwd(b, &f);
  g = (flat){
      .a = array(b, TRI_F32, C, 0), .b = f.a, .c = f.c, .d = f.d, .e = array(b, TRI_F32, N, C), .f = f.b};
  if (begin(b, "RMSNorm backward, [%lld,%lld], 14 bytes", (long long)N, (long long)C))
    figure(b, rmsnorm_bwd, &g, 14.0 * (double)(N * C), "GB/s");
  give_back(b);
  f.a = array(b, TRI_BF16, N, F), f.b = array(b, TRI_BF16, N, 2 * F), f.c = array(b, TRI_BF16, N, 2 * F);
  if (begin(b, "SwiGLU forward, [%lld,%lld], 6 bytes", (long long)N, (long long)F))
    figure(b, swiglu_fwd, &f, 6.0 * (double)(N * F), "GB/s");
  if (begin(b, "SwiGLU backward, [%lld,%lld], 10 bytes", (long long)N, (long long)F))
    figure(b, swiglu_bwd, &f, 10.0 * (double)(N * F), "GB/s");
  give_back(b);
}

/* ---- products ---- */

/* Measures y [M,n_out] = x [M,n_in] W^T for some M, and both gradients for the largest M. */
static void bench_product(bench *b, int64_t n_out, int64_t n_in) {
  static const struct {
    int64_t          rows;
    tri_product_call call;
    const char      *name;
  } of[] = {{16, TRI_PRODUCT_FWD, ""},
            {64, TRI_PRODUCT_FWD, ""},
            {256, TRI_PRODUCT_FWD, ""},
            {4096, TRI_PRODUCT_FWD, ""},
            {4096, TRI_PRODUCT_BWD_X, ", gradient of x"},
            {4096, TRI_PRODUCT_BWD_W, ", gradient of W"}};
  const tri_linear_spec spec = {n_out, n_in, TRI_BF16, true, false, NULL};
  const int64_t         part = b->small ? 16 : 1;
  const tri_timer       timer = timer_of(b);
  tri_timed_product     p;
  tri_timing            took;

  OK(tri_timed_product_open(b->d, &spec, 4096 / part, &p));
  OK(tri_timed_product_start(&p, workspace(b, p.memory_bytes), b->s));
  for (int i = 0; i < (int)(sizeof of / sizeof *of); i++) {
    const int64_t M = of[i].rows / part;
    if (!begin(b, "product [%lld,%lld], %lld rows%s", (long long)n_out, (long long)n_in, (long long)M,
               of[i].name))
      continue;
    OK(tri_timed_product_time(&p, of[i].call, M, &timer, &effort, &took));
    print_figure(b, &took, tri_timed_product_flops(M, n_out, n_in), "TFLOP/s");
  }
  tri_timed_product_close(&p);
  give_back(b);
}

/* ---- all cases ---- */

static void run_all(bench *b) {
  static const tri_heads heads[] = {{14, 2, 64}, {32, 8, 128}};
  static const int64_t   shape[][2] = {{2048, 1536},   {1536, 1536},  {17920, 1536}, {1536, 8960},
                                       {151936, 1536}, {6144, 4096},  {4096, 4096},  {28672, 4096},
                                       {4096, 14336},  {128256, 4096}};
  /* the layers of Qwen3.5 0.8B */
  const tri_delta_rule recurrent = {
      b->small ? 1 : 16, b->small ? 2 : 16, b->small ? 16 : 128, b->small ? 16 : 128, 4, 1e-6f};
  const int64_t N = b->small ? 64 : 8192;

  for (int A = TRI_F32; b->k->delta_fwd && A <= TRI_BF16; A++) {
    bench_delta(b, (tri_dtype)A, recurrent, b->small ? 96 : 4096, b->small ? 48 : 512);
    bench_delta(b, (tri_dtype)A, recurrent, b->small ? 96 : 4096, b->small ? 96 : 4096);
    bench_delta(b, (tri_dtype)A, recurrent, b->small ? 3 : 64, 1);
  }
  if (b->k->delta_fwd && tri_device_is_gpu(b->d) && !b->small) /* those of Qwen3.5 9B */
    for (int64_t S = 1; S <= 4; S *= 4)
      bench_delta(b, TRI_BF16, (tri_delta_rule){16, 32, 128, 128, 4, 1e-6f}, S * 4096, 4096);
  if (b->word && (strstr(b->word, "delta") || strstr(b->word, "conv"))) return; /* in no other label */
  for (int i = 0; i < 2; i++) {
    for (int64_t T = N / 4; T <= N; T *= 2) bench_attention(b, heads[i], N, T);
    bench_decode(b, heads[i], b->small ? 3 : 32, b->small ? 40 : 768, false);
    bench_decode(b, heads[i], b->small ? 5 : 256, b->small ? 40 : 768, false);
    for (int n = 1; n <= 4; n += 3) /* rows, without and with spreading */
      for (int spread = 0; spread < 2; spread++)
        bench_decode(b, heads[i], n, b->small ? 300 : 8192, spread != 0);
  }
  bench_head(b, b->small ? 4 : 1024, b->small ? 1009 : 151936);
  bench_optimizer(b, b->small ? 1 << 20 : 1 << 28);
  bench_layers(b, N, b->small ? 256 : 4096, b->small ? 512 : 14336);
  for (int i = 0; i < 10; i += b->small ? 9 : 1)
    bench_product(b, shape[i][0] / (b->small ? 128 : 1), shape[i][1] / (b->small ? 16 : 1));
}

int main(int argc, char **argv) {
  bench b = {.small = argc > 2 && !strcmp(argv[2], "small")};

  if (argc < 2 || !(b.ops = tri_device_find(argv[1]))) {
    fprintf(stderr,
            "usage: bench_gpu DEVICE [small] [WORD]; DEVICE: a back end of this build, cpu or cuda\n");
    return 64;
  }
  b.word = argc > 2 + b.small ? argv[2 + b.small] : NULL;
  b.noise = malloc(PATTERN * sizeof *b.noise);
  b.noise_half = malloc(PATTERN * sizeof *b.noise_half);
  if (!b.noise || !b.noise_half) return 69;
  for (uint32_t i = 0; i < PATTERN; i++) {
    b.noise[i] = (float)(i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    b.noise_half[i] = tri_f32_to_bf16(b.noise[i]);
  }
  OK(tri_device_open(argv[1], 0, 2, &b.d));
  b.k = b.ops->kernels;
  OK(b.ops->stream_open(b.d, "bench", &b.s));
  run_all(&b);
  b.ops->stream_close(&b.s);
  tri_device_close(&b.d);
  free(b.noise);
  free(b.noise_half);
  return 0;
}
