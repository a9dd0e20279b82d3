/* test_far.cpp - tests kernels on arrays of more than 2^32 elements, with a few of their blocks over a few
 * existing pages.
 *
 * An index kept in 32 bits reads or writes elsewhere. Judge: the bits of the same kernel on an array of these
 * rows only. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/cuda_util.cuh"
#include "impl.cuh"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include <cmocka.h>
}

namespace {

tri_device        *device;
tri_stream        *stream;
const tri_kernels *kernel;

enum { WIDTH = 8192, UNIT = 8, THREADS = 256 };   /* for kernels with any grid, UNIT elements per thread */
const int64_t N = ((int64_t)1 << 32) / WIDTH + 2; /* rows */
/* The rows tested: the first, the last, and those around the limits of 31 and 32 bits, counted in elements,
 * and in bytes of elements of 2 and 4. */
const int64_t row[] = {0,
                       (1 << 29) / WIDTH,
                       (1 << 30) / WIDTH,
                       ((int64_t)1 << 31) / WIDTH - 1,
                       ((int64_t)1 << 31) / WIDTH,
                       ((int64_t)1 << 32) / WIDTH - 1,
                       N - 1};
enum { R = sizeof row / sizeof *row };

void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

uint32_t noise() { /* xorshift (Marsaglia 2003) */
  static uint32_t x = 1;
  x ^= x << 13, x ^= x >> 17, x ^= x << 5;
  return x;
}

void copy(void *to, const void *from, size_t bytes) {
  ok(device->ops->copy(stream, to, from, bytes));
  ok(device->ops->stream_sync(stream));
}

/* An array of these rows only, and the same rows far apart in an array of N. */
struct array {
  tri_tensor near, far;
  size_t     bytes; /* a row's bytes */

  /* Fills with small numbers, integers below `most` or floats of both signs. */
  array(tri_dtype t, int64_t width, int most = 0) {
    size_t            each = tri_dtype_bytes(t);
    std::vector<char> data((size_t)width * R * each);
    void             *p = NULL;
    for (size_t i = 0; i < (size_t)width * R; i++) {
      float f = (float)((int)(noise() % 255) - 127) / 64.0f;
      if (t == TRI_F32) ((float *)data.data())[i] = f;
      if (t == TRI_I32) ((int32_t *)data.data())[i] = (int32_t)(noise() % (uint32_t)most);
      if (t == TRI_BF16) ((tri_bf16 *)data.data())[i] = tri_f32_to_bf16(f);
    }
    bytes = (size_t)width * each;
    ok(device->ops->alloc(device, TRI_MEM_DEVICE, data.size(), &p));
    near = width > 1 ? tri_view2(p, t, R, width) : tri_view1(p, t, R);
    copy(p, data.data(), data.size());
    p = emu_sparse((size_t)N * bytes);
    far = width > 1 ? tri_view2(p, t, N, width) : tri_view1(p, t, N);
    for (int r = 0; r < R; r++)
      copy((char *)p + (size_t)row[r] * bytes, data.data() + (size_t)r * bytes, bytes);
  }
  ~array() {
    device->ops->free(device, TRI_MEM_DEVICE, &near.data);
    cudaFree(far.data);
  }
  tri_tensor *at(bool is_far) { return is_far ? &far : &near; }
  /* Compares as one row of all elements. */
  tri_tensor flat(bool is_far) {
    tri_tensor *t = at(is_far);
    return tri_view1(t->data, t->dtype, tri_tensor_count(t));
  }
  void check(const char *what) {
    std::vector<char> a(bytes), b(bytes);
    for (int r = 0; r < R; r++) {
      copy(a.data(), (char *)near.data + (size_t)r * bytes, bytes);
      copy(b.data(), (char *)far.data + (size_t)row[r] * bytes, bytes);
      if (memcmp(a.data(), b.data(), bytes))
        fail_msg("far: %s: row %lld of %lld: other bits than where it is near", what, (long long)row[r],
                 (long long)N);
    }
  }
};

/* For kernels with a block for each row. Runs near with all blocks, then far with the blocks of the rows. */
template <class W> void each_row(W work) {
  work(false);
  emu_only(std::vector<uint64_t>(row, row + R), 0);
  work(true);
  emu_only({}, 0);
  ok(device->ops->stream_sync(stream));
}

/* The same for kernels with any grid. The grid is as wide as there are units, so no thread takes a second
 * turn. */
template <class W> void each_unit(int64_t width, W work) {
  std::vector<uint64_t> blocks;
  const int64_t         units = width / UNIT;
  for (int64_t r : row)
    for (int64_t b = r * units / THREADS; b <= ((r + 1) * units - 1) / THREADS; b++)
      blocks.push_back((uint64_t)b);
  work(false);
  emu_only(blocks, (unsigned)(N * units / THREADS + 1));
  work(true);
  emu_only({}, 0);
  ok(device->ops->stream_sync(stream));
}

void test_layers(void **) {
  const tri_heads     heads = {28, 2, 256};
  const tri_norm_rule norm = {1e-5f, 0};
  array x(TRI_F32, WIDTH), y(TRI_BF16, WIDTH), w(TRI_BF16, WIDTH), rstd(TRI_F32, 1), position(TRI_I32, 1, R),
      table(TRI_F32, 256);
  tri_tensor one = tri_view1(w.near.data, TRI_BF16, WIDTH),
             base = tri_view2(table.near.data, TRI_F32, R, 256);

  each_row([&](bool f) { ok(kernel->rmsnorm_fwd(stream, y.at(f), rstd.at(f), x.at(f), &one, NULL, &norm)); });
  y.check("rmsnorm_fwd"), rstd.check("rmsnorm_fwd rstd");
  each_row([&](bool f) {
    ok(kernel->rmsnorm_bwd(stream, x.at(f), NULL, y.at(f), x.at(f), &one, rstd.at(f), &norm));
  });
  x.check("rmsnorm_bwd");
  each_row([&](bool f) { ok(kernel->rope(stream, y.at(f), position.at(f), &base, &heads, 1)); });
  y.check("rope");
  array half(TRI_BF16, WIDTH / 2);
  each_unit(WIDTH / 2, [&](bool f) { ok(kernel->glu_fwd(stream, half.at(f), y.at(f), TRI_ACT_SILU)); });
  half.check("glu_fwd");
  each_unit(WIDTH / 2,
            [&](bool f) { ok(kernel->glu_bwd(stream, w.at(f), NULL, half.at(f), y.at(f), TRI_ACT_SILU)); });
  w.check("glu_bwd");
}

/* A table of many rows, with few of them used. */
void test_tables(void **) {
  array      x(TRI_F32, WIDTH), table(TRI_BF16, WIDTH), got(TRI_F32, WIDTH);
  array      token(TRI_I32, 1, 1); /* near says which rows, of the near array and of the far one */
  int32_t    id[2][R];
  tri_tensor out = tri_view2(got.near.data, TRI_F32, R, WIDTH);
  float     *had = (float *)malloc(R * WIDTH * sizeof *had), *has = (float *)malloc(R * WIDTH * sizeof *has);
  for (int r = 0; r < R; r++) id[0][r] = r, id[1][r] = (int32_t)row[r];
  for (int turn = 0; turn < 2; turn++)
    for (int f = 0; f < 2; f++) {
      copy(token.near.data, id[f], sizeof id[f]);
      if (turn == 0) ok(kernel->embed_fwd(stream, &out, table.at(f), &token.near, 1.5f));
      if (turn == 1) ok(kernel->rows_get(stream, &out, x.at(f), &token.near));
      copy(f ? has : had, out.data, R * WIDTH * sizeof *had);
      if (f && memcmp(had, has, R * WIDTH * sizeof *had))
        fail_msg("far: %s: other bits from a table of %lld rows", turn ? "rows_get" : "embed_fwd",
                 (long long)N);
      if (turn == 1) ok(kernel->embed_bwd(stream, x.at(f), &out, &token.near, 0.5f));
    }
  x.check("embed_bwd");
  free(had), free(has);
}

void test_losses(void **) {
  array logits(TRI_F32, WIDTH), d(TRI_BF16, WIDTH), target(TRI_I32, 1, WIDTH), logp(TRI_F32, 1),
      ent(TRI_F32, 1), lse(TRI_F32, 1);
  each_row([&](bool f) {
    ok(kernel->logp_fwd(stream, logp.at(f), ent.at(f), lse.at(f), logits.at(f), target.at(f), 0.75f));
  });
  logp.check("logp_fwd"), ent.check("logp_fwd ent"), lse.check("logp_fwd lse");
  each_unit(WIDTH, [&](bool f) {
    ok(kernel->logp_bwd(stream, d.at(f), logits.at(f), target.at(f), lse.at(f), ent.at(f), logp.at(f),
                        ent.at(f), 0.75f));
  });
  d.check("logp_bwd");
}

void test_flat(void **) {
  const tri_adamw_rule rule = {0.1f, 0.9f, 0.99f, 1e-8f, 0.01f, 1, 3};
  array w(TRI_F32, WIDTH), m(TRI_F32, WIDTH), v(TRI_F32, WIDTH), g(TRI_F32, WIDTH), h(TRI_BF16, WIDTH);
  each_unit(WIDTH, [&](bool f) {
    tri_tensor to = h.flat(f), from = w.flat(f);
    ok(kernel->cast(stream, &to, &from));
  });
  h.check("cast");
  each_unit(WIDTH, [&](bool f) {
    tri_tensor a = w.flat(f), b = m.flat(f), c = v.flat(f), d = g.flat(f), e = h.flat(f);
    ok(kernel->adamw(stream, &a, &b, &c, &e, &d, &rule));
  });
  w.check("adamw"), m.check("adamw m"), h.check("adamw half");
}

/* The last sequence of many tokens, and pages of a cache, each as large as a row. */
void test_attention(void **) {
  enum { H = 2, G = 1, D = 128, E = (H + 2 * G) * D, LEN = 70, ROWS = 128 }; /* rows of attn_fwd's blocks */
  const int64_t       n = ((int64_t)1 << 32) / E + LEN + 500;                /* begins behind 2^32 elements */
  const tri_attn_rule rule = {{H, G, D}, 0.088f, 0, 0, 0};
  array               from(TRI_BF16, (int64_t)E * 16); /* enough random numbers */
  tri_bf16           *qkv = (tri_bf16 *)emu_sparse((size_t)n * E * 2),
           *o = (tri_bf16 *)emu_sparse((size_t)n * H * D * 2);
  float   *lse = (float *)emu_sparse((size_t)n * H * 4);
  int32_t  cu[] = {0, (int32_t)(n - LEN), (int32_t)n, 0, LEN}, *at = NULL;
  tri_bf16 a[2][LEN * H * D];
  void    *p = NULL;
  ok(device->ops->alloc(device, TRI_MEM_DEVICE, sizeof cu, &p));
  copy(at = (int32_t *)p, cu, sizeof cu);
  copy(qkv + (n - LEN) * E, from.near.data, LEN * E * 2);
  copy(qkv, from.near.data, LEN * E * 2);
  for (int far = 0; far < 2; far++) {
    tri_tensor x = tri_view2(qkv, TRI_BF16, far ? n : (int64_t)LEN, E),
               y = tri_view2(o, TRI_BF16, far ? n : (int64_t)LEN, H * D),
               l = tri_view2(lse, TRI_F32, far ? n : (int64_t)LEN, H),
               s = tri_view1(far ? at : at + 3, TRI_I32, far ? 3 : 2);
    if (far) emu_only({(uint64_t)((n - LEN) / ROWS + 1) * H, (uint64_t)((n - LEN) / ROWS + 1) * H + 1}, 0);
    ok(kernel->attn_fwd(stream, &y, &l, &x, &s, &rule));
    emu_only({}, 0);
    copy(a[far], o + (far ? n - LEN : 0) * H * D, sizeof a[far]);
  }
  if (memcmp(a[0], a[1], sizeof a[0]))
    fail_msg("far: attn_fwd: other bits behind %lld tokens", (long long)(n - LEN));
  cudaFree(qkv), cudaFree(o), cudaFree(lse);
  device->ops->free(device, TRI_MEM_DEVICE, &p);
}

void test_pages(void **) {
  enum { H = 2, G = 2, D = 128, E = (H + 2 * G) * D }; /* a page is WIDTH elements */
  const tri_attn_rule rule = {{H, G, D}, 0.088f, 0, 0, 0};
  array               k(TRI_BF16, WIDTH), v(TRI_BF16, WIDTH), from(TRI_BF16, E);
  tri_bf16            a[2][H * D], *o = NULL;
  int32_t             number[3 + R] = {R * TRI_PAGE};
  void               *p = NULL, *q = NULL;
  ok(device->ops->alloc(device, TRI_MEM_DEVICE, sizeof number, &p));
  ok(device->ops->alloc(device, TRI_MEM_DEVICE, sizeof a[0], &q));
  o = (tri_bf16 *)q;
  for (int f = 0; f < 2; f++) { /* len, slot of the newest, pages */
    int64_t  pages = f ? N : (int64_t)R;
    int32_t *at = (int32_t *)p;
    for (int r = 0; r < R; r++) number[2 + r] = f ? (int32_t)row[r] : r;
    number[1] = number[2 + R - 1] * TRI_PAGE + TRI_PAGE - 1;
    copy(at, number, sizeof number);
    tri_tensor kp = {k.at(f)->data, TRI_BF16, 4, {pages, G, D, TRI_PAGE}},
               vp = {v.at(f)->data, TRI_BF16, 4, {pages, G, TRI_PAGE, D}};
    tri_tensor x = tri_view2(from.near.data, TRI_BF16, 1, E), y = tri_view2(o, TRI_BF16, 1, H * D),
               len = tri_view1(at, TRI_I32, 1), slot = tri_view1(at + 1, TRI_I32, 1),
               table = tri_view2(at + 2, TRI_I32, 1, R);
    ok(kernel->kv_put(stream, &kp, &vp, &x, &slot, &rule.heads));
    ok(kernel->attn_decode(stream, &y, NULL, &x, &kp, &vp, &table, &len, &rule));
    copy(a[f], o, sizeof a[f]);
  }
  k.check("kv_put"), v.check("kv_put");
  if (memcmp(a[0], a[1], sizeof a[0])) fail_msg("far: attn_decode: other bits from %lld pages", (long long)N);
  device->ops->free(device, TRI_MEM_DEVICE, &p);
  device->ops->free(device, TRI_MEM_DEVICE, &q);
}

/* The last sequence of many tokens, which leaves its state in the last of many slots. */
void test_recurrent(void **) {
  enum { HK = 2, HV = 4, D = 128, ER = (2 * HK + HV) * D, OUT = HV * D, LEN = 35, ROWS = 16, COLUMNS = 128 };
  const tri_delta_rule rule = {HK, HV, D, D, 4, 1e-6f};
  const int64_t        n = ((int64_t)1 << 32) / ER + LEN + 500, slots = ((int64_t)1 << 32) / (HV * D * D) + 2;
  array                from(TRI_BF16, WIDTH); /* enough random numbers */
  tri_bf16            *mix = (tri_bf16 *)emu_sparse((size_t)n * ER * 2), *noise = (tri_bf16 *)from.near.data,
           *c = (tri_bf16 *)emu_sparse((size_t)n * ER * 2), *o = (tri_bf16 *)emu_sparse((size_t)n * OUT * 2),
           *ba = (tri_bf16 *)emu_sparse((size_t)n * 2 * HV * 2),
           *tail = (tri_bf16 *)emu_sparse((size_t)slots * 3 * ER * 2);
  float  *state = (float *)emu_sparse((size_t)slots * HV * D * D * 4);
  int32_t number[] = {0, (int32_t)(n - LEN), (int32_t)n, -1, (int32_t)(slots - 1), 0, 1, 0, LEN, 0, 1};
  std::vector<uint64_t> blocks[2]; /* of conv_fwd and delta_fwd */
  std::vector<tri_bf16> a[2], b[2];
  std::vector<float>    last[2];
  void                 *p = NULL;
  int32_t              *at;
  ok(device->ops->alloc(device, TRI_MEM_DEVICE, sizeof number, &p));
  copy(at = (int32_t *)p, number, sizeof number);
  for (int64_t first : {(int64_t)0, n - LEN}) {
    copy(mix + first * ER, noise, LEN * ER * 2);
    copy(ba + first * 2 * HV, noise + 99, LEN * 2 * HV * 2);
  }
  for (int y = 0; y < ER / COLUMNS; y++)
    for (int64_t x = (n - LEN) / ROWS + 1; x <= (n - LEN) / ROWS + 1 + LEN / ROWS; x++)
      blocks[0].push_back((uint64_t)(y * (n / ROWS + 2) + x));
  for (uint64_t i = 0; i < HV * 4; i++) blocks[1].push_back(HV * 4 + i);
  for (int far = 0; far < 2; far++) {
    int64_t tokens = far ? n : (int64_t)LEN, S = far ? 2 : 1, first = far ? n - LEN : 0,
            slot = far ? slots - 1 : 0;
    tri_tensor x = tri_view2(mix, TRI_BF16, tokens, ER), y = tri_view2(c, TRI_BF16, tokens, ER),
               out = tri_view2(o, TRI_BF16, tokens, OUT), gates = tri_view2(ba, TRI_BF16, tokens, 2 * HV),
               w = tri_view2(noise, TRI_BF16, ER, 4), head = tri_view1(noise, TRI_BF16, HV),
               kept = tri_view2(tail, TRI_BF16, slots * 3, ER),
               S_ = tri_view2(state, TRI_F32, slots, HV * D * D);
    tri_tensor cu = tri_view1(far ? at : at + 7, TRI_I32, S + 1),
               which = tri_view1(far ? at + 3 : at + 9, TRI_I32, S),
               fresh = tri_view1(far ? at + 5 : at + 10, TRI_I32, S);
    tri_delta_rows rows = {&cu, &which, &fresh};
    if (far) emu_only(blocks[0], 0);
    ok(kernel->conv_fwd(stream, &y, &x, &w, &kept, &rows));
    if (far) emu_only(blocks[1], 0);
    ok(kernel->delta_fwd(stream, &out, &y, &gates, &head, &head, &S_, &rows, &rule));
    emu_only({}, 0);
    a[far].resize(LEN * OUT), b[far].resize(3 * ER), last[far].resize(HV * D * D);
    copy(a[far].data(), o + first * OUT, LEN * OUT * 2);
    copy(b[far].data(), tail + slot * 3 * ER, 3 * ER * 2);
    copy(last[far].data(), state + slot * HV * D * D, HV * D * D * 4);
  }
  if (a[0] != a[1]) fail_msg("far: delta_fwd: other bits behind %lld tokens", (long long)(n - LEN));
  if (b[0] != b[1]) fail_msg("far: conv_fwd: other bits in slot %lld", (long long)slots - 1);
  if (last[0] != last[1]) fail_msg("far: delta_fwd: other bits in slot %lld", (long long)slots - 1);
  cudaFree(mix), cudaFree(c), cudaFree(o), cudaFree(ba), cudaFree(tail), cudaFree(state);
  device->ops->free(device, TRI_MEM_DEVICE, &p);
}

int set_up(void **) {
  if (tri_device_open("cuda", 0, 1, &device) != TRI_OK) return -1;
  kernel = device->ops->kernels;
  return device->ops->stream_open(device, "test", &stream) == TRI_OK ? 0 : -1;
}
int tear_down(void **) {
  device->ops->stream_close(&stream);
  tri_device_close(&device);
  return 0;
}

} /* namespace */

int main() {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers),    cmocka_unit_test(test_tables),
                                     cmocka_unit_test(test_losses),    cmocka_unit_test(test_flat),
                                     cmocka_unit_test(test_attention), cmocka_unit_test(test_pages),
                                     cmocka_unit_test(test_recurrent)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
