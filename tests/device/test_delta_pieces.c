/* test_delta_pieces.c - tests that sequences of recurrent layers have the same bits in every division into
 * calls, for every back end with these layers.
 *
 * One call with all rows and no slots judges the outputs. One with all rows and slots judges the states and
 * tails. The calls take some sequences in any order, each with some of its next rows or none. test_delta.c
 * judges the numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "shapes_case.h"

enum { S = 4, SPARE = 1 /* a slot that nobody uses */ };

/* Widths below, at and between vectors, odd ones, each of the three widths of a GPU's states and each number
 * of taps. */
static const tri_delta_rule rules[] = {
    {.Hk = 1, .Hv = 1, .Dk = 1, .Dv = 3, .conv = 2},    {.Hk = 2, .Hv = 4, .Dk = 9, .Dv = 5, .conv = 3},
    {.Hk = 1, .Hv = 3, .Dk = 8, .Dv = 72, .conv = 4},   {.Hk = 1, .Hv = 2, .Dk = 33, .Dv = 20, .conv = 5},
    {.Hk = 2, .Hv = 2, .Dk = 72, .Dv = 24, .conv = 6},  {.Hk = 1, .Hv = 1, .Dk = 128, .Dv = 17, .conv = 7},
    {.Hk = 1, .Hv = 2, .Dk = 129, .Dv = 8, .conv = 8},  {.Hk = 1, .Hv = 1, .Dk = 256, .Dv = 33, .conv = 4},
    {.Hk = 3, .Hv = 3, .Dk = 20, .Dv = 128, .conv = 4}, {.Hk = 1, .Hv = 4, .Dk = 65, .Dv = 1, .conv = 2}};
static const int lengths[S] = {70, 1, 0, 33};

typedef struct arrays { /* the inputs of all rows, and what the calls keep */
  const tri_delta_rule *rule;
  tri_tensor            x, ba, w, A_log, dt_bias;
  tri_tensor            state, tail;
} arrays;

/* Fills the stack below the caller with NaN, so numbers that a kernel does not set there show. */
static __attribute__((noinline)) void spoil_stack(void) {
  volatile unsigned char below[1 << 20];
  memset((void *)below, 0xff, sizeof below);
  assert_int_equal(below[0], 0xff);
}

/* Runs both kernels for the sequences in slots slot[n], or without slots if slot is NULL, with bounds cu and
 * inputs x and ba. */
static void run(bench *b, const arrays *a, tri_tensor *x, tri_tensor *ba, int n, const int32_t *cu,
                const int32_t *slot, const int32_t *fresh, tri_tensor *c, tri_tensor *o) {
  tri_tensor     bounds = put_i32(b, n + 1, 0, cu), state = a->state, tail = a->tail, to, is_fresh;
  tri_delta_rows rows = {&bounds, NULL, NULL};
  if (slot) {
    to = put_i32(b, n, 0, slot), is_fresh = put_i32(b, n, 0, fresh);
    rows.slot = &to, rows.fresh = &is_fresh;
  }
  *c = make(b, x->dtype, cu[n], x->dim[1]), *o = make(b, x->dtype, cu[n], a->rule->Hv * a->rule->Dv);
  spoil_stack();
  ok(b->k->conv_fwd(b->stream, c, x, &a->w, slot ? &tail : NULL, &rows));
  spoil_stack();
  ok(b->k->delta_fwd(b->stream, o, x, ba, &a->A_log, &a->dt_bias, slot ? &state : NULL, &rows, a->rule));
}

static arrays make_arrays(bench *b, tri_dtype A, const tri_delta_rule *r, int64_t N) {
  int64_t   Er = tri_delta_width(r);
  double   *x = numbers(1, N * Er, 1), *ba = numbers(2, N * 2 * r->Hv, 2), *w = numbers(3, Er * r->conv, 1);
  double   *head = numbers(4, r->Hv, 1);
  tri_dtype own = A == TRI_F16 ? TRI_F32 : A;
  arrays    a = {r,
                 put_real(b, A, N, Er, x),
                 put_real(b, A, N, 2 * r->Hv, ba),
                 put_real(b, A, Er, r->conv, w),
                 put_real(b, own, r->Hv, 0, head),
                 put_real(b, own, r->Hv, 0, head),
                 make(b, TRI_F32, S + SPARE, tri_delta_state(r)),
                 make(b, A, (S + SPARE) * (r->conv - 1), Er)};
  free(x), free(ba), free(w), free(head);
  return a;
}

static void copy_rows(bench *b, const tri_tensor *to, int64_t at, const tri_tensor *from, int64_t first,
                      int64_t n) {
  tri_tensor x = tri_rows(from, first, n), y = tri_rows(to, at, n);
  if (n > 0) ok(b->device->ops->copy(b->stream, y.data, x.data, bytes_of(&x)));
}

/* Draws below n, as a function of the call number. */
static int draw(int call, int which, int n) {
  int32_t *x = indices(1000 + (uint64_t)call, which + 1, n), y = x[which];
  free(x);
  return y;
}

/* One call. It takes each sequence with probability 3/4, in an order that turns, with up to 40 of its next
 * rows. done [S] counts the rows before it, -1 if the sequence has not begun. Returns whether all sequences
 * are done. */
static bool one_call(bench *b, const arrays *a, const int32_t *first, int call, int done[S],
                     const tri_tensor *c, const tri_tensor *o) {
  int        n = 0, keep = b->n_arrays, from[S];
  int32_t    cu[S + 1] = {0}, slot[S], fresh[S];
  tri_tensor x = make(b, a->x.dtype, first[S], a->x.dim[1]), ba = make(b, a->x.dtype, first[S], a->ba.dim[1]);
  tri_tensor own_c, own_o;
  bool       all = true;

  for (int i = 0; i < S; i++) {
    int s = (i + call) % S, before = done[s] < 0 ? 0 : done[s], left = lengths[s] - before;
    int take = draw(call, 2 * s, 2) ? draw(call, 2 * s + 1, 40) : draw(call, 2 * s + 1, 4);
    if (draw(call, 2 * S + s, 4) == 0) continue;
    take = take < left ? take : left;
    from[n] = first[s] + before, slot[n] = s, fresh[n] = done[s] < 0, cu[n + 1] = cu[n] + take;
    copy_rows(b, &x, cu[n], &a->x, from[n], take), copy_rows(b, &ba, cu[n], &a->ba, from[n], take);
    done[s] = before + take, n++;
  }
  x = tri_rows(&x, 0, cu[n]), ba = tri_rows(&ba, 0, cu[n]);
  run(b, a, &x, &ba, n, cu, slot, fresh, &own_c, &own_o);
  for (int i = 0; i < n; i++) {
    expect_same_rows(b, "conv_fwd in pieces", c, from[i], &own_c, cu[i], cu[i + 1] - cu[i]);
    expect_same_rows(b, "delta_fwd in pieces", o, from[i], &own_o, cu[i], cu[i + 1] - cu[i]);
  }
  for (int s = 0; s < S; s++) all = all && done[s] == lengths[s];
  drop_arrays(b, keep);
  return all;
}

static void pieces(bench *b, tri_dtype A, const tri_delta_rule *r) {
  int32_t    first[S + 1] = {0}, slot[S], fresh[S];
  int        done[S], call = 0;
  arrays     whole, a;
  tri_tensor c, o, with_c, with_o;

  for (int s = 0; s < S; s++) first[s + 1] = first[s] + lengths[s], slot[s] = s, fresh[s] = 1, done[s] = -1;
  whole = make_arrays(b, A, r, first[S]), a = whole;
  run(b, &whole, &whole.x, &whole.ba, S, first, NULL, NULL, &c, &o);
  run(b, &whole, &whole.x, &whole.ba, S, first, slot, fresh, &with_c, &with_o);
  expect_same_rows(b, "conv_fwd with slots", &c, 0, &with_c, 0, first[S]);
  expect_same_rows(b, "delta_fwd with slots", &o, 0, &with_o, 0, first[S]);
  a.state = make(b, TRI_F32, S + SPARE, tri_delta_state(r));
  a.tail = make(b, A, (S + SPARE) * (r->conv - 1), tri_delta_width(r));
  while (!one_call(b, &a, first, call++, done, &c, &o)) assert_true(call < 1000);
  expect_same_rows(b, "states", &whole.state, 0, &a.state, 0, S + SPARE);
  expect_same_rows(b, "tails", &whole.tail, 0, &a.tail, 0, (S + SPARE) * (r->conv - 1));
  same_for_threads(b, &c), same_for_threads(b, &o), same_for_threads(b, &a.state);
  drop_arrays(b, 0);
}
static void all_rules(bench *b) {
  if (!b->k->delta_fwd) return;
  if (b->device->threads == 1) n_seen = 0;
  at_seen = 0;
  for (int A = TRI_F32; A <= TRI_F16; A++)
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) pieces(b, (tri_dtype)A, &rules[i]);
}
static void test_pieces(void **state) {
  (void)state;
  for_each_device(all_rules);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces)};
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
