/* test_slots.c - tests that recurrent kernels give a sequence the same bits for every division into calls.
 *
 * Judge: one call without slots, and one thread for two. Sequences are cut at random and run through slots,
 * several in a call, in any order. Every width, number of taps and group of heads takes part, and every kind
 * of row and slot. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "shapes_case.h"

enum { S = 5, SLOTS = 7, PARTS = 12 };

static uint32_t draws;
static int      draw(int below) { /* 0 .. below - 1 */
  uint32_t bits[4];
  tri_rng_bits(tri_rng_make_key(11, TRI_RNG_TEST), 2, draws++, bits);
  return (int)(bits[0] % (uint32_t)below);
}

/* Widths below, at and between multiples of the vector widths, odd and even, and the largest. */
static const tri_delta_rule rules[] = {
    {.Hk = 2, .Hv = 4, .Dk = 8, .Dv = 20, .conv = 2},    {.Hk = 1, .Hv = 3, .Dk = 20, .Dv = 8, .conv = 3},
    {.Hk = 2, .Hv = 2, .Dk = 24, .Dv = 72, .conv = 4},   {.Hk = 1, .Hv = 2, .Dk = 72, .Dv = 24, .conv = 5},
    {.Hk = 3, .Hv = 6, .Dk = 9, .Dv = 17, .conv = 6},    {.Hk = 1, .Hv = 1, .Dk = 1, .Dv = 3, .conv = 7},
    {.Hk = 1, .Hv = 1, .Dk = 129, .Dv = 256, .conv = 8}, {.Hk = 1, .Hv = 1, .Dk = 256, .Dv = 31, .conv = 4},
    {.Hk = 2, .Hv = 2, .Dk = 128, .Dv = 128, .conv = 4}, {.Hk = 1, .Hv = 2, .Dk = 33, .Dv = 5, .conv = 3},
    {.Hk = 1, .Hv = 4, .Dk = 65, .Dv = 1, .conv = 2}};
static const int32_t bounds[S + 1] = {0, 131, 131, 136, 201, 204}; /* the second sequence is empty */

typedef struct layer { /* the inputs of conv_fwd and delta_fwd, and their outputs in one call */
  tri_delta_rule rule;
  tri_dtype      A;
  tri_tensor     mix, w, ba, A_log, dt_bias, c, o;
} layer;

typedef struct cached { /* what the slots hold */
  tri_tensor tail, state;
} cached;

/* Fills the stack below the caller's frame with NaN, so a kernel that reads its own arrays before it has
 * written them shows it. */
static __attribute__((noinline)) void spoil_stack(void) {
  volatile unsigned char below[1200 << 10];
  for (size_t i = 0; i < sizeof below; i++) below[i] = 0xff;
}

static tri_tensor put(bench *b, tri_dtype A, uint64_t seed, int64_t rows, int64_t width, double size) {
  double    *x = numbers(seed, rows * (width > 0 ? width : 1), size);
  tri_tensor t = put_real(b, A, rows, width, x);
  free(x);
  return t;
}

static void run_layer(bench *b, layer *a, const tri_delta_rows *rows, cached *z) {
  int64_t N = a->mix.dim[0];
  a->c = make(b, a->A, N, tri_delta_width(&a->rule)),
  a->o = make(b, a->A, N, (int64_t)a->rule.Hv * a->rule.Dv);
  ok(b->k->conv_fwd(b->stream, &a->c, &a->mix, &a->w, z ? &z->tail : NULL, rows));
  spoil_stack();
  ok(b->k->delta_fwd(b->stream, &a->o, &a->c, &a->ba, &a->A_log, &a->dt_bias, z ? &z->state : NULL, rows,
                     &a->rule));
}

static layer make_layer(bench *b, const tri_delta_rule *rule, tri_dtype A) {
  tri_tensor     cu = put_i32(b, S + 1, 0, bounds);
  tri_delta_rows rows = {&cu, NULL, NULL};
  layer          a = {.rule = *rule, .A = A};
  a.mix = put(b, A, 1, bounds[S], tri_delta_width(rule), 2);
  a.w = put(b, A, 2, tri_delta_width(rule), rule->conv, 1), a.ba = put(b, A, 3, bounds[S], 2 * rule->Hv, 3);
  a.A_log = put(b, TRI_F32, 4, rule->Hv, 0, 2), a.dt_bias = put(b, A, 5, rule->Hv, 0, 1);
  run_layer(b, &a, &rows, NULL);
  return a;
}

static cached make_cached(bench *b, const layer *a) {
  cached z = {make(b, a->A, SLOTS, (a->rule.conv - 1) * tri_delta_width(&a->rule)),
              make(b, TRI_F32, SLOTS, tri_delta_state(&a->rule))};
  return z;
}

/* The sequences of one call: part i is rows first[i] .. of the batch, and cu says how many. */
typedef struct call {
  int32_t n, first[PARTS], cu[PARTS + 1], slot[PARTS], fresh[PARTS];
} call;
static void add(call *p, int32_t first, int32_t rows, int32_t slot, int32_t fresh) {
  p->first[p->n] = first, p->slot[p->n] = slot, p->fresh[p->n] = fresh;
  p->cu[p->n + 1] = p->cu[p->n] + rows;
  p->n++;
}

/* Copies the parts' rows of x, one part behind the other. */
static tri_tensor gather(bench *b, const tri_tensor *x, const call *p) {
  tri_tensor to = make(b, x->dtype, p->cu[p->n], x->dim[1]);
  for (int i = 0; i < p->n; i++) {
    tri_tensor from = tri_rows(x, p->first[i], p->cu[i + 1] - p->cu[i]),
               at = tri_rows(&to, p->cu[i], p->cu[i + 1] - p->cu[i]);
    ok(b->device->ops->copy(b->stream, at.data, from.data, bytes_of(&from)));
  }
  return to;
}

/* Runs one call and compares its rows with those of the whole batch. */
static void run_call(bench *b, const layer *a, cached *z, const call *p) {
  int            keep = b->n_arrays;
  layer          own = *a;
  tri_tensor     cu = put_i32(b, p->n + 1, 0, p->cu), slot, fresh;
  tri_delta_rows rows = {&cu, &slot, &fresh};

  slot = put_i32(b, p->n, 0, p->slot), fresh = put_i32(b, p->n, 0, p->fresh);
  own.mix = gather(b, &a->mix, p), own.ba = gather(b, &a->ba, p);
  run_layer(b, &own, &rows, z);
  for (int i = 0; i < p->n; i++) {
    expect_same_rows(b, "conv_fwd", &a->c, p->first[i], &own.c, p->cu[i], p->cu[i + 1] - p->cu[i]);
    expect_same_rows(b, "delta_fwd", &a->o, p->first[i], &own.o, p->cu[i], p->cu[i + 1] - p->cu[i]);
  }
  drop_arrays(b, keep);
}

/* Runs all sequences through the slots slot_of, in calls with random cuts. A call also holds sequences
 * without a slot, and empty pieces. */
static void run_cut(bench *b, const layer *a, cached *z, const int *slot_of) {
  static const int longest[] = {1, 4, 10, 66, 131};
  int32_t          done[S] = {0};
  bool             begun[S] = {false};

  for (int left = S; left > 0;) {
    call p = {0};
    int  first = draw(S);
    for (int i = 0; i < S; i++) {
      int     s = (first + i) % S;
      int32_t rest = bounds[s + 1] - bounds[s] - done[s], n = draw(longest[draw(5)] + 1);
      if ((rest == 0 && begun[s]) || draw(3) == 0) continue;
      n = n < rest ? n : rest;
      add(&p, bounds[s] + done[s], n, slot_of[s], begun[s] ? 0 : 1 + draw(3) * 0x100);
      if (draw(4) == 0) add(&p, bounds[s], bounds[s + 1] - bounds[s], -1, draw(2));
      done[s] += n, begun[s] = true;
      left -= done[s] == bounds[s + 1] - bounds[s];
    }
    run_call(b, a, z, &p);
  }
}

static void cut_rule(bench *b, const tri_delta_rule *rule, tri_dtype A) {
  layer  a = make_layer(b, rule, A);
  cached whole = make_cached(b, &a), cut = make_cached(b, &a);
  call   p = {0};
  int    slot_of[S], first = draw(SLOTS);
  for (int s = 0; s < S; s++) { /* 3 has no common factor with SLOTS */
    slot_of[s] = (first + 3 * s) % SLOTS;
    add(&p, bounds[s], bounds[s + 1] - bounds[s], slot_of[s], 1);
  }
  run_call(b, &a, &whole, &p);
  run_cut(b, &a, &cut, slot_of);
  expect_same_rows(b, "the states", &whole.state, 0, &cut.state, 0, SLOTS);
  expect_same_rows(b, "the tails", &whole.tail, 0, &cut.tail, 0, SLOTS);
  same_for_threads(b, &a.c), same_for_threads(b, &a.o), same_for_threads(b, &cut.state);
  for (int s = 0; s < S; s++) { /* the last rows of mix, which a longer sequence has itself */
    int64_t    n = rule->conv - 1, T = bounds[s + 1] - bounds[s];
    tri_tensor tail = tri_view2(cut.tail.data, A, SLOTS * n, tri_delta_width(rule));
    n = n < T ? n : T;
    expect_same_rows(b, "a tail", &a.mix, bounds[s + 1] - n, &tail, (slot_of[s] + 1) * (rule->conv - 1) - n,
                     n);
  }
  drop_arrays(b, 0);
}

static void cut_all(bench *b) {
  if (!b->k->delta_fwd) return;
  if (b->device->threads == 1) n_seen = 0;
  at_seen = 0, draws = 0;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    for (int A = TRI_F32; A <= TRI_F16; A++) cut_rule(b, &rules[i], (tri_dtype)A);
}
static void test_cuts(void **state) {
  (void)state;
  for_each_device(cut_all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts)};
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
