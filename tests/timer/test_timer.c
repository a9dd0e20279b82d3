/* test_timer.c - tests the number of repetitions, the median and the best of a clock that says what it is
 * told, and the products that are timed. Run with 1 and 2 ranks. Judge: numbers worked by hand, and a loop in
 * double. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_case.h"
#include "ranks_case.h"
#include "tools/timer/timed_product.h"

#include <math.h>

/* ---- repetitions ---- */

static void the_first_time_does_not_count(void **state) {
  tri_series s = {.effort = {3, 4, 10, 100}};

  (void)state;
  CHECK(tri_series_median(&s) == 0 && tri_series_best(&s) == 0);
  tri_series_put(&s, 0, 50);
  CHECK(s.n == 0);
  tri_series_put(&s, 50, 53);
  tri_series_put(&s, 53, 54);
  CHECK(tri_series_median(&s) == 2); /* 3 and 1 */
  CHECK(!tri_series_enough(&s));     /* two of three */
  tri_series_put(&s, 54, 58);
  CHECK(tri_series_median(&s) == 3 && tri_series_best(&s) == 1);
  CHECK(!tri_series_enough(&s)); /* in 8 of 10 seconds */
  tri_series_add(&s, 0.5, 61);
  CHECK(tri_series_enough(&s) && tri_series_best(&s) == 0.5);
}

static void what_takes_too_long_is_timed_less_often(void **state) {
  tri_series s = {.effort = {5, 9, 1, 20}}, short_one = s;

  (void)state;
  tri_series_put(&s, 0, 30);
  CHECK(!tri_series_enough(&s)); /* at least once */
  tri_series_put(&s, 30, 45);
  CHECK(!tri_series_enough(&s));
  tri_series_put(&s, 45, 60);
  CHECK(tri_series_enough(&s) && s.n == 2);
  for (int i = 0; i < 10; i++) {
    CHECK(!tri_series_enough(&short_one));
    tri_series_put(&short_one, i * 0.01, i * 0.01 + 0.01);
  }
  CHECK(tri_series_enough(&short_one)); /* nine runs count */
  tri_series_put(&short_one, 1, 2);
  CHECK(short_one.n == 9);
}

static void parts_of_a_block_are_aligned(void **state) {
  tri_carve length = {0}, at = {(char *)0x1000, 0};

  (void)state;
  CHECK(!tri_carve_next(&length, 1) && length.used == 256);
  CHECK(tri_carve_next(&at, 257) == (void *)0x1000);
  CHECK(tri_carve_next(&at, 256) == (void *)0x1200 && at.used == 768);
}

/* ---- a device whose events say these milliseconds, run by run ---- */

static struct {
  double ms[8];
  int    opened, syncs, runs, calls;
} told;

static tri_status open_event(tri_device *d, tri_event **out) {
  (void)d;
  *out = (tri_event *)(void *)&told;
  told.opened++;
  return TRI_OK;
}
static void       close_event(tri_event **e) { told.opened -= *e != NULL; }
static tri_status record_event(tri_event *e, tri_stream *s) {
  (void)e, (void)s;
  return TRI_OK;
}
static tri_status sync_stream(tri_stream *s) {
  (void)s;
  told.syncs++;
  return TRI_OK;
}
static tri_status read_events(tri_event *from, tri_event *to, double *ms) {
  (void)from, (void)to;
  CHECK(told.runs < 8);
  *ms = told.ms[told.runs++];
  return TRI_OK;
}
static tri_status call(void *ctx, tri_stream *s) {
  (void)s;
  told.calls++;
  return ctx ? TRI_EDEVICE : TRI_OK;
}

static const tri_device_ops ops = {.event_open = open_event,
                                   .event_close = close_event,
                                   .event_record = record_event,
                                   .event_ms = read_events,
                                   .stream_sync = sync_stream};
static tri_device           device = {.ops = &ops};
static tri_stream           stream = {.device = &device};

/* A call takes 0.25 ms when warm, so five fill a millisecond. */
static void runs_between_events(void **state) {
  const tri_timer  t = {&device, &stream, NULL};
  const tri_effort three = {3, 3, 0, INFINITY};
  const double     ms[] = {50, 0.25, 100, 10, 2.5, 5};
  tri_timing       got;

  (void)state;
  memset(&told, 0, sizeof told);
  memcpy(told.ms, ms, sizeof ms);
  OK(tri_timed(&t, call, NULL, &three, &got));
  CHECK(got.calls == 5 && got.runs == 3);
  CHECK(fabs(got.median_s - 1e-3) < 1e-12 && fabs(got.best_s - 0.5e-3) < 1e-12, "%g %g", got.median_s,
        got.best_s);
  CHECK(told.calls == 1 + 1 + 4 * 5 && told.syncs == 6 && told.opened == 0);
  CHECK(tri_timed(&t, call, &told, &three, &got) == TRI_EDEVICE && told.opened == 0);
  tri_error_clear();
}

/* Rank 1 is four times as slow, and has another number of calls. */
static void the_slowest_rank_counts(void **state) {
  const tri_timer  t = {&device, &stream, world};
  const tri_effort three = {3, 3, 0, INFINITY};
  const double     ms[] = {50, 0.25, 100, 10, 2.5, 5};
  const bool       slow = world->rank > 0;
  tri_timing       got;

  (void)state;
  memset(&told, 0, sizeof told);
  for (int i = 0; i < 6; i++) told.ms[i] = ms[i] * (slow ? 4 : 1);
  OK(tri_timed(&t, call, NULL, &three, &got));
  CHECK(got.calls == (slow ? 2 : 5) && got.runs == 3);
  CHECK(fabs(got.median_s - (world->size > 1 ? 10e-3 : 1e-3)) < 2e-9, "%g", got.median_s);
  CHECK(fabs(got.best_s - (world->size > 1 ? 5e-3 : 0.5e-3)) < 2e-9, "%g", got.best_s);
}

/* ---- products ---- */

enum { ROWS = 7, M = 5, N_OUT = 16, N_IN = 24 };

static double at(const void *p, tri_dtype t, int64_t i) {
  return t == TRI_F32 ? ((const float *)p)[i] : tri_half_to_f32(t, ((const uint16_t *)p)[i]);
}

/* The operands of a product on the host. */
typedef struct operands {
  void *w, *x, *y, *dy, *dx, *dw;
} operands;

static operands get(const tri_timed_product *p, tri_stream *s) {
  const size_t A = tri_dtype_bytes(p->spec.dtype);

  return (operands){device_get(s, p->w, N_OUT * N_IN * A), device_get(s, p->x, M * N_IN * A),
                    device_get(s, p->y, M * N_OUT * 4),    device_get(s, p->dy, M * N_OUT * A),
                    device_get(s, p->dx, M * N_IN * A),    device_get(s, p->dw, N_OUT * N_IN * 4)};
}

static void let_go(operands *o) {
  void *held[] = {o->w, o->x, o->y, o->dy, o->dx, o->dw};

  for (int i = 0; i < 6; i++) free(held[i]);
}

/* Returns element (i, j) of the result of a call, in double. */
static double want(const operands *o, tri_dtype A, tri_product_call c, int64_t i, int64_t j) {
  double sum = 0;

  if (c < TRI_PRODUCT_BWD_X)
    for (int k = 0; k < N_IN; k++) sum += at(o->x, A, i * N_IN + k) * at(o->w, A, j * N_IN + k);
  else if (c == TRI_PRODUCT_BWD_X)
    for (int k = 0; k < N_OUT; k++) sum += at(o->dy, A, i * N_OUT + k) * at(o->w, A, k * N_IN + j);
  else
    for (int k = 0; k < M; k++) sum += at(o->dy, A, k * N_OUT + i) * at(o->x, A, k * N_IN + j);
  return sum;
}

/* Runs a call, after which its result has `times` products in it. */
static void check_call(tri_timed_product *p, tri_stream *s, tri_product_call c, int times) {
  tri_product_work work = {p, c, M};
  const tri_dtype  A = p->spec.dtype, type = c == TRI_PRODUCT_FWD || c == TRI_PRODUCT_BWD_X ? A : TRI_F32;
  const int64_t    rows = c < TRI_PRODUCT_BWD_W ? M : N_OUT, cols = c < TRI_PRODUCT_BWD_X ? N_OUT : N_IN;
  const double     bound = type == TRI_F32 ? 1e-6 : 0x1p-8 * 0.1; /* sums are below 0.1 */
  operands         o;
  double           most = 0;

  OK(tri_timed_product_run(&work, s));
  o = get(p, s);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      const void  *result = c < TRI_PRODUCT_BWD_X ? o.y : c == TRI_PRODUCT_BWD_X ? o.dx : o.dw;
      const double sum = times * want(&o, A, c, i, j), got = at(result, type, i * cols + j);
      CHECK(fabs(got - sum) < bound, "call %d [%d,%d]: %g, want %g", (int)c, (int)i, (int)j, got, sum);
      most = fmax(most, fabs(sum));
    }
  CHECK(most > 1e-3 && most < 0.1, "%g", most);
  let_go(&o);
}

static void check_product(tri_dtype dtype) {
  const tri_linear_spec spec = {N_OUT, N_IN, dtype, true, false, NULL};
  const tri_effort      two = {2, 2, 0, INFINITY};
  tri_device           *d = NULL;
  tri_stream           *s = NULL;
  void                 *memory = NULL;
  tri_timed_product     p;
  tri_timing            got;

  OK(tri_device_open(test_device(), rt.local_rank, 2, &d));
  OK(d->ops->stream_open(d, "test", &s));
  OK(tri_timed_product_open(d, &spec, ROWS, &p));
  OK(d->ops->alloc(d, TRI_MEM_DEVICE, p.memory_bytes, &memory));
  OK(d->ops->fill(s, memory, 0xff, p.memory_bytes));
  OK(tri_timed_product_start(&p, memory, s));
  for (int i = 0; i < 2; i++) check_call(&p, s, TRI_PRODUCT_FWD_ADD, 1 + i);
  for (int i = 0; i < 2; i++) check_call(&p, s, TRI_PRODUCT_BWD_W_ADD, 1 + i);
  for (int i = 0; i < 2; i++) {
    check_call(&p, s, TRI_PRODUCT_FWD, 1);
    check_call(&p, s, TRI_PRODUCT_FWD_F32, 1);
    check_call(&p, s, TRI_PRODUCT_BWD_X, 1);
    check_call(&p, s, TRI_PRODUCT_BWD_W, 1);
  }
  OK(tri_timed_product_time(&p, TRI_PRODUCT_BWD_X, M, &(tri_timer){d, s, world}, &two, &got));
  CHECK(got.runs == 2 && got.calls >= 1 && got.best_s > 0 && got.median_s >= got.best_s);
  tri_timed_product_close(&p);
  tri_timed_product_close(&p);
  d->ops->free(d, TRI_MEM_DEVICE, &memory);
  d->ops->stream_close(&s);
  tri_device_close(&d);
}

static void each_call_is_the_product_it_names(void **state) {
  (void)state;
  check_product(TRI_F32);
  check_product(TRI_BF16);
  CHECK(tri_timed_product_flops(3, 5, 7) == 210);
}

/* Without gradients, a product needs memory of W, x and y alone. */
static void a_product_without_gradients(void **state) {
  tri_linear_spec   spec = {512, 512, TRI_F32, false, false, NULL};
  tri_timed_product p, both;

  (void)state;
  OK(tri_timed_product_open(cpu, &spec, 512, &p));
  spec.backward = true;
  OK(tri_timed_product_open(cpu, &spec, 512, &both));
  CHECK(!p.dy && !p.dx && !p.dw);
  CHECK(p.memory_bytes >= 3 << 20 && both.memory_bytes >= p.memory_bytes + (3 << 20));
  tri_timed_product_close(&p);
  tri_timed_product_close(&both);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_time_does_not_count),
                                     cmocka_unit_test(what_takes_too_long_is_timed_less_often),
                                     cmocka_unit_test(parts_of_a_block_are_aligned),
                                     cmocka_unit_test(runs_between_events),
                                     cmocka_unit_test(the_slowest_rank_counts),
                                     cmocka_unit_test(each_call_is_the_product_it_names),
                                     cmocka_unit_test(a_product_without_gradients)};

  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
