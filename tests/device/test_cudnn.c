/* test_cudnn.c - tests attention's gradient by cuDNN, with its requests, its pieces and its results.
 *
 * Judges: the CPU's kernel in f32 (judged by test_attention.c), the GPU's own kernel, and the same bits
 * again. In the emulation cuDNN is tests/emulate/cudnn.cpp, and each fault planted there must be found
 * here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/cudnn/sdpa.h"
#include "kernel_case.h"

#if TRI_CUDA_EMULATED
#include "emulate/cudnn.h"
#endif

typedef struct sdpa_case {
  int     H, G, D, S;
  int32_t len[5];
  int     window;
  int     at_once; /* sequences that fit the workspace */
} sdpa_case;

/* Groups of 1, 2, 4, 7. Sequences are empty, of one row, at and beyond a plan's rows, or more than fit at
 * once. Windows are of two keys (with one key q and k have no gradient), inside a tile, across tiles, and
 * wider than all. */
static const sdpa_case cases[] = {
    {2, 2, 64, 3, {128, 1, 37}, 0, 4}, {4, 2, 128, 5, {70, 0, 128, 5, 33}, 0, 2},
    {7, 1, 64, 2, {66, 127}, 0, 1},    {4, 1, 96, 2, {9, 100}, 33, 2},
    {2, 1, 256, 2, {40, 65}, 0, 2},    {2, 2, 80, 1, {77}, 2, 2},
    {4, 4, 128, 2, {129, 30}, 500, 2}, {2, 1, 64, 2, {120, 61}, 64, 8},
};
enum { N_CASES = sizeof cases / sizeof *cases };

typedef struct sdpa_data {
  const sdpa_case *c;
  int64_t          N, E, HD;
  int32_t          cu[6];
  double          *qkv, *dout;
  tri_tensor       d_qkv, d_dout, d_o, d_lse, d_cu;
  tri_attn_rule    rule;
} sdpa_data;

/* Returns the smallest workspace for this many sequences (test_sizes has numbers of its own). */
static size_t workspace_of(const sdpa_data *a, int at_once) {
  size_t  bytes = 4096;
  int64_t B = 0, T;

  for (; B < at_once; bytes += 4096) tri_cudnn_sizes(&a->rule, a->rule.longest, bytes + 4096, &B, &T);
  assert_int_equal(B, at_once);
  return bytes;
}

/* Makes [n,width] with NaN in BEHIND rows behind it, like memory used before by others. */
enum { BEHIND = 128 };
static tri_tensor make_rows(bench *b, tri_dtype t, int64_t n, int64_t width) {
  const tri_tensor all = make(b, t, n + BEHIND, width);

  return tri_rows(&all, 0, n);
}
static tri_tensor put_rows(bench *b, tri_dtype t, int64_t n, int64_t width, double *x) {
  tri_tensor from = put_real(b, t, n, width, x), to = make_rows(b, t, n, width);

  ok(b->device->ops->copy(b->stream, to.data, from.data, bytes_of(&from)));
  return to;
}
static void is_kept_behind(bench *b, const tri_tensor *x) {
  const size_t   bytes = (size_t)(BEHIND * x->dim[1]) * tri_dtype_bytes(x->dtype);
  unsigned char *got = malloc(bytes);

  assert_non_null(got);
  ok(b->device->ops->copy(b->stream, got, (char *)x->data + bytes_of(x), bytes));
  ok(b->device->ops->stream_sync(b->stream));
  for (size_t i = 0; i < bytes; i++) assert_int_equal(got[i], 0xff);
  free(got);
}

static void load(bench *b, sdpa_data *a, const sdpa_case *c, tri_dtype t) {
  memset(a, 0, sizeof *a);
  a->c = c;
  a->HD = (int64_t)c->H * c->D;
  a->E = a->HD + 2 * (int64_t)c->G * c->D;
  a->rule = (tri_attn_rule){{c->H, c->G, c->D}, 1.0f / sqrtf((float)c->D), 0, c->window, 0};
  for (int s = 0; s < c->S; s++) {
    a->cu[s + 1] = a->cu[s] + c->len[s];
    if (c->len[s] > a->rule.longest) a->rule.longest = c->len[s];
  }
  a->N = a->cu[c->S];
  a->qkv = numbers(1, a->N * a->E, 2);
  a->dout = numbers(2, a->N * a->HD, 1);
  for (int64_t i = 0; i < a->N * a->E; i++) a->qkv[i] = rounded(TRI_BF16, a->qkv[i]); /* for f32 too */
  for (int64_t i = 0; i < a->N * a->HD; i++) a->dout[i] = rounded(TRI_BF16, a->dout[i]);
  a->d_qkv = put_rows(b, t, a->N, a->E, a->qkv);
  a->d_dout = put_rows(b, t, a->N, a->HD, a->dout);
  a->d_o = make_rows(b, t, a->N, a->HD);
  a->d_lse = make_rows(b, TRI_F32, a->N, c->H);
  a->d_cu = put_i32(b, c->S + 1, 0, a->cu);
  ok(b->k->attn_fwd(b->stream, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu, &a->rule));
}

static void unload(bench *b, sdpa_data *a) {
  free(a->qkv);
  free(a->dout);
  drop_arrays(b, 0);
}

/* Runs the device's kernel as the trial does, or the CPU's kernel in f32. */
typedef struct own_call {
  bench     *b;
  sdpa_data *a;
  tri_tensor dqkv, work;
} own_call;
static tri_status run_own(void *ctx, tri_stream *s) {
  own_call  *c = ctx;
  sdpa_data *a = c->a;

  return c->b->k->attn_bwd(s, &c->dqkv, &c->work, &a->d_dout, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu,
                           &a->rule);
}
static double *by_own(bench *b, sdpa_data *a) {
  own_call c = {b, a, make(b, a->d_qkv.dtype, a->N, a->E),
                make(b, TRI_F32, tri_attn_work(&a->rule.heads, a->N), 0)};

  ok(run_own(&c, b->stream));
  return get_real(b, &c.dqkv);
}
static double *by_cpu(const sdpa_case *c) {
  bench     cpu;
  sdpa_data a;
  double   *got;

  bench_open(&cpu, "cpu", 2);
  load(&cpu, &a, c, TRI_F32);
  got = by_own(&cpu, &a);
  unload(&cpu, &a);
  bench_close(&cpu);
  return got;
}

/* NULL if cuDNN does not do it. */
static double *by_cudnn(bench *b, sdpa_data *a) {
  const int64_t own = tri_attn_work(&a->rule.heads, a->N);
  tri_tensor    dqkv = make_rows(b, TRI_BF16, a->N, a->E);
  tri_tensor    work = make(b, TRI_F32, own + (int64_t)workspace_of(a, a->c->at_once) / 4, 0);
  own_call      own_way = {b, a, dqkv, make(b, TRI_F32, own, 0)};
  bool          done;

  ok(tri_cudnn_attn_bwd(b->stream, &dqkv, &work, &a->d_dout, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu,
                        &a->rule, (tri_cudnn_way){run_own, &own_way}, &done));
  is_kept_behind(b, &dqkv);
  return done ? get_real(b, &dqkv) : NULL;
}

/* Returns the largest distance of got from want, in units of want's largest element of its part (q, k, v).
 * Measured: rounding p and its gradient, and each head's dk and dv, to bf16 gives up to 0.006. Faults give
 * more than 0.1. */
static double distance(const sdpa_data *a, const double *got, const double *want) {
  const int64_t end[] = {a->HD, a->HD + (int64_t)a->c->G * a->c->D, a->E};
  double        most = 0;

  for (int part = 0; part < 3; part++) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < a->N; i++)
      for (int64_t j = part ? end[part - 1] : 0; j < end[part]; j++) {
        const double d = fabs(got[i * a->E + j] - want[i * a->E + j]);
        if (d > apart || isnan(d)) apart = d;
        size = fmax(size, fabs(want[i * a->E + j]));
      }
    if (apart / size > most || isnan(apart / size)) most = apart / size;
  }
  return most;
}
static const double NEAR = 0.02;

static bool open_cudnn(bench *b) {
  tri_status st;

  setenv("TRI_CUDA_ATTN_BWD", "cudnn", 1);
  memset(b, 0, sizeof *b);
  st = tri_device_open("cuda", 0, 2, &b->device);
  /* the library is missing or does not support this GPU; the message says so */
  if (st != TRI_OK && !TRI_CUDA_EMULATED) {
    print_message("%s", tri_error_trace());
    tri_error_clear();
    return false;
  }
  ok(st);
  ok(b->device->ops->stream_open(b->device, "test", &b->stream));
  b->k = b->device->ops->kernels;
  return true;
}

static void test_gradients(void **state) {
  bench b;

  (void)state;
  if (!open_cudnn(&b)) skip();
  for (int i = 0; i < N_CASES; i++) {
    double   *want = by_cpu(&cases[i]), *own, *got, *again, far[2];
    sdpa_data a;
    load(&b, &a, &cases[i], TRI_BF16);
    own = by_own(&b, &a);
    got = by_cudnn(&b, &a);
    again = by_cudnn(&b, &a);
    assert_non_null(got);
    assert_non_null(again);
    far[0] = distance(&a, got, want), far[1] = distance(&a, got, own);
    print_message("case %d: %.4f from the CPU's, %.4f from the own kernel's\n", i, far[0], far[1]);
    if (!(far[0] <= NEAR && far[1] <= NEAR)) fail_msg("case %d: too far", i);
    assert_memory_equal(got, again, (size_t)(a.N * a.E) * sizeof *got);
    free(want), free(own), free(got), free(again);
    unload(&b, &a);
  }
  bench_close(&b);
}

/* A first call with gradients of 0 decides like any other. The trial uses numbers of its own. */
static void test_nothing_to_see(void **state) {
  bench     b;
  sdpa_data a;
  double   *got;

  (void)state;
  if (!open_cudnn(&b)) skip();
  load(&b, &a, &cases[0], TRI_BF16);
  const tri_tensor true_dout = a.d_dout;
  a.d_dout = make(&b, TRI_BF16, a.N, a.HD);
  ok(b.device->ops->fill(b.stream, a.d_dout.data, 0, (size_t)(a.N * a.HD) * 2));
  got = by_cudnn(&b, &a);
  assert_non_null(got);
  for (int64_t i = 0; i < a.N * a.E; i++) assert_true(got[i] == 0);
  free(got);
  a.d_dout = true_dout;
  got = by_cudnn(&b, &a);
  assert_non_null(got);
  free(got);
  unload(&b, &a);
  bench_close(&b);
}

/* attn_bwd itself uses cuDNN if its workspace is large enough, and only then. */
static void test_taken(void **state) {
  bench             b;
  tri_device_advice advice;
  sdpa_data         a;
  double           *own, *got, *by;
  tri_tensor        work, dqkv;

  (void)state;
  if (!open_cudnn(&b)) skip();
  b.device->ops->advice(b.device, &advice);
  assert_true(advice.attn_bytes > 0);
  load(&b, &a, &cases[1], TRI_BF16);
  own = by_own(&b, &a);
  by = by_cudnn(&b, &a);
  work =
      make(&b, TRI_F32, tri_attn_work(&a.rule.heads, a.N) + (int64_t)workspace_of(&a, a.c->at_once) / 4, 0);
  dqkv = make(&b, TRI_BF16, a.N, a.E);
  ok(b.k->attn_bwd(b.stream, &dqkv, &work, &a.d_dout, &a.d_o, &a.d_lse, &a.d_qkv, &a.d_cu, &a.rule));
  got = get_real(&b, &dqkv);
  assert_memory_equal(got, by, (size_t)(a.N * a.E) * sizeof *got);
  assert_memory_not_equal(got, own, (size_t)(a.N * a.E) * sizeof *got);
  free(own), free(got), free(by);
  unload(&b, &a);
  bench_close(&b);
}

static void test_refused(void **state) {
  static const struct {
    tri_attn_rule rule;
    tri_dtype     type;
    int64_t       N;
    const char   *why;
  } row[] = {
      {{{32, 8, 128}, 0.1f, 0, 0, 4096}, TRI_BF16, 16384, NULL},
      {{{32, 8, 128}, 0.1f, 0, 100, 4096}, TRI_BF16, 16384, NULL},
      {{{32, 8, 128}, 0.1f, 0, 0, 4096}, TRI_F32, 16384, "bf16"},
      {{{32, 8, 128}, 0.1f, 0, 0, 4096}, TRI_F16, 16384, "bf16"},
      {{{32, 8, 128}, 0.1f, 50, 0, 4096}, TRI_BF16, 16384, "capped"},
      {{{32, 8, 100}, 0.1f, 0, 0, 4096}, TRI_BF16, 16384, "multiple of 8"},
      {{{32, 8, 264}, 0.1f, 0, 0, 4096}, TRI_BF16, 16384, "wider"},
      {{{32, 8, 128}, 0.1f, 0, 0, 4096}, TRI_BF16, 400000, "32 bits"},
      {{{32, 8, 128}, 0.1f, 0, 0, 0}, TRI_BF16, 16384, "not known"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char *why = tri_cudnn_why_not(&row[i].rule, row[i].type, row[i].N);
    if (!row[i].why != !why || (why && !strstr(why, row[i].why))) fail_msg("row %d: %s", (int)i, why);
  }
}

/* In the last row the workspace suffices for a call of one sequence, but not for its trial. */
static void test_sizes(void **state) {
  static const struct {
    int64_t longest, bytes, B, T;
  } row[] = {{1, 1 << 30, 64, 128},    {128, 1 << 30, 64, 128},
             {129, 1 << 30, 64, 256},  {1000, 1 << 30, 8, 1024},
             {4096, 1 << 30, 0, 4096}, {4096, (int64_t)9 << 27, 1, 4096},
             {100, 1000, 0, 128},      {4096, 2 * 32 * 4096 * (int64_t)(4096 + 256) + (2 << 20), 0, 4096}};
  const tri_attn_rule rule = {{32, 8, 128}, 0.1f, 0, 0, 0};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int64_t B, T;
    tri_cudnn_sizes(&rule, row[i].longest, (size_t)row[i].bytes, &B, &T);
    if (B != row[i].B || T != row[i].T) fail_msg("row %d: %d of %d", (int)i, (int)B, (int)T);
  }
}

static void test_wish(void **state) {
  tri_device       *d = NULL;
  tri_device_advice advice;

  (void)state;
  setenv("TRI_CUDA_ATTN_BWD", "flash", 1);
  assert_int_equal(tri_device_open("cuda", 0, 2, &d), TRI_ECONFIG);
  assert_non_null(strstr(tri_error_trace(), "TRI_CUDA_ATTN_BWD=flash"));
  tri_error_clear();
  setenv("TRI_CUDA_ATTN_BWD", "own", 1);
  ok(tri_device_open("cuda", 0, 2, &d));
  d->ops->advice(d, &advice);
  assert_int_equal(advice.attn_bytes, 0);
  tri_device_close(&d);
}

#if TRI_CUDA_EMULATED
/* Runs a case under a fault. Returns its distance from the CPU's result, or -1 if cuDNN does not do it. */
static double far_of(const sdpa_case *c, emu_cudnn_fault f) {
  double   *want, *got, far = -1;
  bench     b;
  sdpa_data a;

  emu_cudnn_plant(f);
  assert_true(open_cudnn(&b));
  load(&b, &a, c, TRI_BF16);
  got = by_cudnn(&b, &a);
  if (got) {
    want = by_cpu(c);
    far = distance(&a, got, want);
    free(want), free(got);
  }
  unload(&b, &a);
  bench_close(&b);
  emu_cudnn_plant(EMU_CUDNN_TRUE);
  return far;
}

/* Makes a case with a window and a group. */
static double far_under(emu_cudnn_fault f) {
  static const sdpa_case c = {2, 1, 64, 3, {128, 70, 33}, 40, 2};

  return far_of(&c, f);
}

/* The trial finds a wrong graph, bits that change, and access behind the last row. The shape then stays with
 * the own kernel. */
static void test_planted(void **state) {
  const double true_far = far_under(EMU_CUDNN_TRUE);

  (void)state;
  assert_true(true_far >= 0 && true_far < NEAR);
  for (int f = EMU_CUDNN_SCALE; f <= EMU_CUDNN_CHANGES; f++) {
    const double far = far_under((emu_cudnn_fault)f);
    if (far != -1) fail_msg("fault %d is not seen: %.4f", f, far);
  }
}

/* With one key each row has one score, and dq and dk are 0. If cuDNN's are not, the trial sees it by
 * comparing with the size of dv. */
static void test_zeros(void **state) {
  static const sdpa_case c = {2, 1, 64, 3, {128, 70, 33}, 1, 2};

  (void)state;
  assert_true(far_of(&c, EMU_CUDNN_TRUE) >= 0);
  assert_true(far_of(&c, EMU_CUDNN_NOT_0) == -1);
}

/* The first call's numbers and sequences decide nothing. A fault hidden from them is found too. */
static void test_whose_numbers(void **state) {
  static const sdpa_case rows = {2, 2, 64, 5, {1, 1, 1, 1, 1}, 0, 2};
  bench                  b;
  sdpa_data              a;

  (void)state;
  assert_true(far_of(&rows, EMU_CUDNN_TRUE) >= 0);
  assert_true(far_of(&rows, EMU_CUDNN_CAUSAL) == -1);
  emu_cudnn_plant(EMU_CUDNN_TRUE);
  assert_true(open_cudnn(&b));
  load(&b, &a, &cases[0], TRI_BF16);
  a.d_dout = make(&b, TRI_BF16, a.N, a.HD); /* NaN, as in a batch to be skipped */
  double *nan = by_cudnn(&b, &a);
  assert_non_null(nan);
  free(nan);
  a.d_dout = put_rows(&b, TRI_BF16, a.N, a.HD, a.dout);
  double *got = by_cudnn(&b, &a);
  assert_non_null(got);
  free(got);
  unload(&b, &a);
  bench_close(&b);
}

/* A shape once refused, by the trial or by the library, stays refused. The same call on the same device still
 * uses the own kernel after the fault is gone. Otherwise a run would change its kernel midway. */
static void test_for_good(void **state) {
  static const emu_cudnn_fault fault[] = {EMU_CUDNN_CHANGES, EMU_CUDNN_SCALE, EMU_CUDNN_UNSET,
                                          EMU_CUDNN_FAILS};

  (void)state;
  for (size_t f = 0; f < sizeof fault / sizeof *fault; f++) {
    bench     b;
    sdpa_data a;
    emu_cudnn_plant(fault[f]);
    assert_true(open_cudnn(&b));
    load(&b, &a, &cases[0], TRI_BF16);
    assert_null(by_cudnn(&b, &a));
    emu_cudnn_plant(EMU_CUDNN_TRUE);
    if (by_cudnn(&b, &a)) fail_msg("fault %d is forgotten", (int)fault[f]);
    unload(&b, &a);
    bench_close(&b);
  }
}

/* A call refused by the library uses the own kernel. */
static void test_misuse(void **state) {
  (void)state;
  for (int f = EMU_CUDNN_UNSET; f <= EMU_CUDNN_FAILS; f++)
    if (f != EMU_CUDNN_LESS && far_under((emu_cudnn_fault)f) != -1) fail_msg("fault %d is not refused", f);
  assert_true(far_under(EMU_CUDNN_LESS) < NEAR); /* with fewer sequences at once */
}

/* A failing call is an error with a cure. In a trial it is a refusal, unless the device has failed. */
static void test_failing(void **state) {
  bench      b;
  sdpa_data  a;
  tri_tensor work, dqkv;
  own_call   own_way;
  bool       done;

  (void)state;
  assert_true(open_cudnn(&b));
  load(&b, &a, &cases[0], TRI_BF16);
  work = make(&b, TRI_F32, tri_attn_work(&a.rule.heads, a.N) + (int64_t)workspace_of(&a, 4) / 4, 0);
  dqkv = make(&b, TRI_BF16, a.N, a.E);
  own_way = (own_call){&b, &a, dqkv, make(&b, TRI_F32, tri_attn_work(&a.rule.heads, a.N), 0)};
  for (int i = 0; i < 3; i++) { /* a trial on a broken device, a good trial, and a call after it */
    const tri_status want = i == 1 ? TRI_OK : TRI_EDEVICE;
    emu_cudnn_plant(i == 0 ? EMU_CUDNN_BREAKS : i == 1 ? EMU_CUDNN_TRUE : EMU_CUDNN_POINTER);
    assert_int_equal(tri_cudnn_attn_bwd(b.stream, &dqkv, &work, &a.d_dout, &a.d_o, &a.d_lse, &a.d_qkv,
                                        &a.d_cu, &a.rule, (tri_cudnn_way){run_own, &own_way}, &done),
                     want);
    if (i == 0) assert_non_null(strstr(tri_error_trace(), "cudaErrorIllegalState"));
    if (i == 2) assert_non_null(strstr(tri_error_trace(), "a tensor has no place"));
    tri_error_clear();
  }
  emu_cudnn_plant(EMU_CUDNN_TRUE);
  unload(&b, &a);
  bench_close(&b);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_gradients),
    cmocka_unit_test(test_nothing_to_see),
    cmocka_unit_test(test_taken),
    cmocka_unit_test(test_refused),
    cmocka_unit_test(test_sizes),
    cmocka_unit_test(test_wish),
#if TRI_CUDA_EMULATED
    cmocka_unit_test(test_planted),
    cmocka_unit_test(test_zeros),
    cmocka_unit_test(test_whose_numbers),
    cmocka_unit_test(test_for_good),
    cmocka_unit_test(test_misuse),
    cmocka_unit_test(test_failing),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
