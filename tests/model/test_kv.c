/* test_kv.c - tests the cache: which layers have pages and which have states, where these lie, and how pages
 * and states are taken, dropped and copied. Judge: sizes worked out by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/columns.h"
#include "base/host_memory.h"
#include "device_case.h"
#include "model/kv.h"

#include <string.h>

enum { L = 7, PAGES = 5, STATES = 4, Hk = 2, Hv = 4, Dk = 6, Dv = 10, CONV = 4, Er = 2 * Hk * Dk + Hv * Dv };

static tri_device *device;
static tri_stream *stream;

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

static int open_device(void **state) {
  (void)state;
  if (tri_device_open(test_device(), 0, 1, &device) != TRI_OK) return -1;
  return device->ops->stream_open(device, "test", &stream) == TRI_OK ? 0 : -1;
}
static int close_device(void **state) {
  (void)state;
  device->ops->stream_close(&stream);
  tri_device_close(&device);
  return 0;
}

/* A cache with its memory. */
typedef struct cache {
  tri_model_shape shape;
  tri_ledger     *ledger;
  tri_kv         *kv;
} cache;

/* Layer l is recurrent if bit l of `recurrent` is set. */
static void open_cache(cache *c, unsigned recurrent, tri_dtype dtype) {
  *c = (cache){.shape = {.L = L, .H = 6, .G = 3, .D = 8}};
  for (int layer = 0; layer < L; layer++)
    if (recurrent >> layer & 1) tri_set_recurrent(&c->shape, layer);
  if (recurrent)
    c->shape.delta.Hk = Hk, c->shape.delta.Hv = Hv, c->shape.delta.Dk = Dk, c->shape.delta.Dv = Dv,
    c->shape.delta.conv = CONV;
  ok(tri_ledger_open(&c->ledger));
  ok(tri_kv_open(device, c->ledger, &c->shape, dtype, PAGES, recurrent ? STATES : 0, &c->kv));
  ok(tri_ledger_take(c->ledger, device));
}

static void close_cache(cache *c) {
  tri_kv_close(&c->kv);
  tri_ledger_close(&c->ledger);
}

static int64_t bytes_of(const tri_ledger *l, const char *name) {
  tri_ledger_row *row = NULL;
  int64_t         bytes = 0;
  int             n;

  ok(tri_ledger_rows(l, &row, &n));
  for (int i = 0; i < n; i++)
    if (!strcmp(row[i].name, name)) bytes += row[i].bytes;
  TRI_FREE(row);
  return bytes;
}

static size_t size_of(const tri_tensor *x) { return (size_t)tri_tensor_count(x) * tri_dtype_bytes(x->dtype); }

/* The tensors of all layers, keys before values and states before tails. */
static int list_tensors(const cache *c, tri_tensor x[2 * L]) {
  int n = 0;

  for (int layer = 0; layer < L; layer++, n += 2)
    if (tri_is_recurrent(&c->shape, layer))
      tri_kv_states(c->kv, layer, &x[n], &x[n + 1]);
    else
      tri_kv_layer(c->kv, layer, &x[n], &x[n + 1]);
  return n;
}

static void expect_shape(const tri_tensor *x, tri_dtype dtype, int n, const int64_t dim[4]) {
  assert_int_equal(x->dtype, dtype);
  assert_int_equal(x->ndim, n);
  for (int i = 0; i < n; i++) assert_int_equal(x->dim[i], dim[i]);
}

static const unsigned some_kinds[] = {0, 0x7f, 0x77, 0x01, 0x2a};

/* Each layer has its own memory of the right shape, and all of them together are what was planned. */
static void layers_have_pages_or_states(void **state) {
  const int64_t k[4] = {PAGES, 3, 8, TRI_PAGE}, v[4] = {PAGES, 3, TRI_PAGE, 8}, s[4] = {STATES, Hv, Dk, Dv},
                t[4] = {STATES, CONV - 1, Er};

  (void)state;
  for (size_t i = 0; i < sizeof some_kinds / sizeof *some_kinds; i++) {
    cache      c;
    tri_tensor x[2 * L];
    size_t     pages = 0, states = 0;
    int        recurrent = 0;
    char       name[48], each[TRI_CELL_BYTES];
    open_cache(&c, some_kinds[i], TRI_BF16);
    list_tensors(&c, x);
    for (int layer = 0; layer < L; layer++) {
      bool    recurs = some_kinds[i] >> layer & 1;
      size_t *sum = recurs ? &states : &pages;
      recurrent += recurs;
      expect_shape(&x[2 * layer], recurs ? TRI_F32 : TRI_BF16, 4, recurs ? s : k);
      expect_shape(&x[2 * layer + 1], TRI_BF16, recurs ? 3 : 4, recurs ? t : v);
      *sum += size_of(&x[2 * layer]) + size_of(&x[2 * layer + 1]);
    }
    for (int a = 0; a < 2 * L; a++)
      for (int b = 0; b < a; b++) {
        uintptr_t at = (uintptr_t)x[a].data, other = (uintptr_t)x[b].data;
        assert_true(at >= other + size_of(&x[b]) || other >= at + size_of(&x[a]));
      }
    /* each of two entries is rounded up to 256 bytes */
    assert_in_range(bytes_of(c.ledger, "key/value cache"), pages, pages + 510);
    tri_cell_bytes((int64_t)states / STATES, each);
    snprintf(name, sizeof name, "%d states of %s", STATES, each);
    assert_in_range(bytes_of(c.ledger, name), states, states + 510);
    assert_int_equal(tri_kv_state_bytes(&c.shape, TRI_BF16) * STATES, states);
    assert_int_equal(states, recurrent * STATES * (Hv * Dk * Dv * 4 + (CONV - 1) * Er * 2));
    close_cache(&c);
  }
}

/* Fills place p of every tensor with byte 16 * number of the tensor + p. */
static void mark_places(tri_tensor *x, int n) {
  for (int i = 0; i < n; i++) {
    size_t each = size_of(&x[i]) / (size_t)x[i].dim[0];
    for (int64_t p = 0; p < x[i].dim[0]; p++)
      ok(device->ops->fill(stream, (char *)x[i].data + each * (size_t)p, (int)(16 * i + p), each));
  }
}

/* Expects place `to` of the tensors of one kind of layer to be as place `from`, and all else as marked. */
static void expect_places(const cache *c, const tri_tensor *x, int n, bool recurs, int to, int from) {
  for (int i = 0; i < n; i++) {
    size_t         each = size_of(&x[i]) / (size_t)x[i].dim[0];
    unsigned char *got = device_get(stream, x[i].data, size_of(&x[i]));
    for (int64_t p = 0; p < x[i].dim[0]; p++) {
      bool copied = p == to && tri_is_recurrent(&c->shape, i / 2) == recurs;
      for (size_t k = 0; k < each; k++)
        assert_int_equal(got[each * (size_t)p + k], 16 * i + (copied ? from : p));
    }
    free(got);
  }
}

/* A copy changes one place in every layer of its kind, and nothing else. */
static void copies_change_one_place(void **state) {
  const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};

  (void)state;
  for (size_t i = 0; i < sizeof some_kinds / sizeof *some_kinds; i++) {
    cache      c;
    tri_tensor x[2 * L];
    int        n;
    open_cache(&c, some_kinds[i], types[i % 3]);
    n = list_tensors(&c, x);
    mark_places(x, n);
    ok(tri_kv_copy(c.kv, 4, 1, stream));
    expect_places(&c, x, n, false, 4, 1);
    mark_places(x, n);
    ok(tri_kv_copy_state(c.kv, 0, 3, stream));
    expect_places(&c, x, n, true, 0, 3);
    close_cache(&c);
  }
}

/* All states are taken once, and a dropped one comes back. The pages do not notice. */
static void states_have_one_holder(void **state) {
  bool    taken[STATES] = {false};
  int32_t last = -1;
  cache   c;

  (void)state;
  open_cache(&c, 0x77, TRI_F32);
  assert_int_equal(tri_kv_free_states(c.kv), STATES);
  for (int i = 0; i < STATES; i++) {
    last = tri_kv_take_state(c.kv);
    assert_in_range(last, 0, STATES - 1);
    assert_false(taken[last]);
    taken[last] = true;
  }
  assert_int_equal(tri_kv_take_state(c.kv), -1);
  assert_int_equal(tri_kv_free(c.kv), PAGES);
  tri_kv_drop_state(c.kv, 2);
  assert_int_equal(tri_kv_free_states(c.kv), 1);
  assert_int_equal(tri_kv_take_state(c.kv), 2);
  assert_int_equal(tri_kv_take_state(c.kv), -1);
  assert_in_range(tri_kv_take(c.kv), 0, PAGES - 1);
  tri_kv_reset(c.kv);
  assert_int_equal(tri_kv_free_states(c.kv), STATES);
  assert_int_equal(tri_kv_free(c.kv), PAGES);
  close_cache(&c);
}

/* A page is free again once its last holder drops it. */
static void pages_count_their_holders(void **state) {
  cache   c;
  int32_t page;

  (void)state;
  open_cache(&c, 0, TRI_F32);
  assert_int_equal(tri_kv_take_state(c.kv), -1);
  page = tri_kv_take(c.kv);
  assert_false(tri_kv_is_shared(c.kv, page));
  tri_kv_share(c.kv, page);
  assert_true(tri_kv_is_shared(c.kv, page));
  for (int i = 1; i < PAGES; i++) assert_int_not_equal(tri_kv_take(c.kv), page);
  assert_int_equal(tri_kv_take(c.kv), -1);
  tri_kv_drop(c.kv, page);
  assert_int_equal(tri_kv_free(c.kv), 0);
  tri_kv_drop(c.kv, page);
  assert_int_equal(tri_kv_take(c.kv), page);
  close_cache(&c);
}

/* Qwen3.5 0.8B has 18 recurrent layers with 16 heads of 128 by 128, and 3 rows of 6,144 columns. 9B has 24
 * layers with 32 heads, 16 of them of keys, and rows of 8,192 columns. */
static void states_of_published_models(void **state) {
  tri_model_shape small = {.L = 24, .delta = {.Hk = 16, .Hv = 16, .Dk = 128, .Dv = 128, .conv = 4}},
                  large = {.L = 32, .delta = {.Hk = 16, .Hv = 32, .Dk = 128, .Dv = 128, .conv = 4}};

  (void)state;
  for (int layer = 0; layer < 32; layer++) {
    if (layer % 4 == 3) continue;
    if (layer < 24) tri_set_recurrent(&small, layer);
    tri_set_recurrent(&large, layer);
  }
  assert_int_equal(tri_kv_state_bytes(&small, TRI_BF16), 18 * (1048576 + 36864));
  assert_int_equal(tri_kv_state_bytes(&large, TRI_BF16), 24 * (2097152 + 49152));
  assert_int_equal(tri_kv_state_bytes(&large, TRI_F32), 24 * (2097152 + 98304));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_have_pages_or_states), cmocka_unit_test(copies_change_one_place),
      cmocka_unit_test(states_have_one_holder), cmocka_unit_test(pages_count_their_holders),
      cmocka_unit_test(states_of_published_models)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
