/* test_memory.c - tests the ledger. Phases may overlap each other but nothing else, and planned equals used.
 * Judge: sums by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/host_memory.h"
#include "device/memory.h"
#include "device_case.h"
#include "refusal_case.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 256 };

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

typedef struct want {
  tri_mem   kind;
  tri_phase phase;
  bool      state;
  size_t    bytes;
  char     *where;
} want;

static void add(tri_ledger *l, want *w, const char *name) {
  ok(tri_ledger_add(l, w->kind, w->phase, w->state, name, w->bytes, (void **)&w->where));
  assert_null(w->where);
}

static int64_t rounded(size_t bytes) { return (int64_t)((bytes + ALIGN - 1) / ALIGN * ALIGN); }

static void expect_zero(const want *w) {
  char *got = w->kind == TRI_MEM_DEVICE ? device_get(stream, w->where, w->bytes) : w->where;

  for (size_t k = 0; k < w->bytes; k++) assert_int_equal(got[k], 0);
  if (got != w->where) free(got);
}

static void sums_and_places(void **state) {
  want           w[] = {{TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, 1000, NULL},
                        {TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, 5000, NULL},
                        {TRI_MEM_PINNED, TRI_PHASE_LEARN, false, 300, NULL},
                        {TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, 100, NULL},
                        {TRI_MEM_DEVICE, TRI_PHASE_LEARN, true, 7777, NULL},
                        {TRI_MEM_PINNED, TRI_PHASE_ALWAYS, false, 1, NULL},
                        {TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, 0, NULL},
                        {TRI_MEM_PINNED, TRI_PHASE_ROLLOUT, false, 4000, NULL},
                        {TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, 1, NULL},
                        {TRI_MEM_HOST, TRI_PHASE_LEARN, false, 100000, NULL},
                        {TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, 7, NULL},
                        {TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, 256, NULL}};
  int            n = (int)(sizeof w / sizeof *w);
  int64_t        by[3][4] = {{0}}, gathered[4] = {0}, training = 0;
  tri_ledger    *l = NULL;
  tri_ledger_sum s;
  void          *base, *piece;
  size_t         bytes, piece_bytes;

  (void)state;
  ok(tri_ledger_open(&l));
  for (int i = 0; i < n; i++) {
    tri_ledger_set_gathered(l, i % 3 == 0);
    add(l, &w[i], i % 2 ? "odd" : "even");
    if (i % 3 == 0 && w[i].kind == TRI_MEM_DEVICE) gathered[w[i].phase] += rounded(w[i].bytes);
    by[w[i].kind][w[i].phase] += rounded(w[i].bytes);
    if (w[i].state) training += rounded(w[i].bytes);
  }
  s = tri_ledger_total(l);
  assert_int_equal(s.used, 0);
  assert_int_equal(s.always, by[0][3] + by[1][3] + by[2][3]);
  assert_int_equal(s.rollout, s.always + by[0][1] + by[1][1] + by[2][1]);
  assert_int_equal(s.learn, s.always + by[0][2] + by[1][2] + by[2][2]);
  assert_int_equal(s.state, training);
  /* LEARN has the larger entries of the device and the host, ROLLOUT those of pinned memory. */
  assert_true(by[0][2] > by[0][1] && by[1][1] > by[1][2] && by[2][2] > by[2][1]);
  assert_int_equal(s.planned, s.always + by[0][2] + by[1][1] + by[2][2]);
  ok(tri_ledger_take(l, device));
  assert_int_equal(tri_ledger_total(l).used, s.planned);
  tri_ledger_block(l, &base, &bytes);
  assert_int_equal(bytes, by[0][3] + by[0][2]);
  tri_ledger_gathered(l, &piece, &piece_bytes); /* no larger than needed */
  assert_true(gathered[3] && gathered[2] > gathered[1]);
  assert_int_equal(piece_bytes, gathered[3] + gathered[2]);
  for (int i = 0; i < n; i++) {
    if (!w[i].bytes) {
      assert_null(w[i].where);
      continue;
    }
    assert_int_equal((uintptr_t)w[i].where % ALIGN, 0);
    expect_zero(&w[i]);
    if (w[i].kind == TRI_MEM_DEVICE && i % 3 == 0)
      assert_true(w[i].where >= (char *)piece && w[i].where + w[i].bytes <= (char *)piece + piece_bytes);
    if (w[i].kind == TRI_MEM_DEVICE)
      assert_true(w[i].where >= (char *)base && w[i].where + w[i].bytes <= (char *)base + bytes);
    for (int j = 0; j < i; j++)
      if ((w[i].phase & w[j].phase) && w[j].bytes) /* needed at the same time */
        assert_true(w[i].where + w[i].bytes <= w[j].where || w[j].where + w[j].bytes <= w[i].where);
  }
  tri_ledger_close(&l);
  assert_null(l);
  tri_ledger_close(&l);
}

static void layouts_differ_where_places_do(void **state) {
  static const struct {
    tri_mem   kind;
    tri_phase phase;
    size_t    bytes;
    bool      same;
  } other[] = {{TRI_MEM_DEVICE, TRI_PHASE_LEARN, 1000, true},
               {TRI_MEM_DEVICE, TRI_PHASE_LEARN, 900, true}, /* rounded */
               {TRI_MEM_DEVICE, TRI_PHASE_LEARN, 1025, false},
               {TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, 1000, false},
               {TRI_MEM_DEVICE, TRI_PHASE_LEARN, 0, false},
               {TRI_MEM_PINNED, TRI_PHASE_LEARN, 1000, false}};
  uint64_t first = 0;

  (void)state;
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    tri_ledger *l = NULL;
    void       *a, *b, *c, *d;
    ok(tri_ledger_open(&l));
    ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "a", 256, &a));
    ok(tri_ledger_add(l, other[i].kind, other[i].phase, false, "b", other[i].bytes, &b));
    ok(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_LEARN, false, "c", 256 * i, &c)); /* lies elsewhere */
    ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "d", 512, &d));
    if (i == 0) first = tri_ledger_layout(l);
    assert_int_equal(tri_ledger_layout(l) == first, other[i].same);
    tri_ledger_close(&l);
  }
}

/* Three models that compute in turns. Judge: the largest member by hand. */
static void members_lie_over_each_other(void **state) {
  enum { MEMBERS = 3, EACH = 4 };
  static const size_t bytes[MEMBERS][EACH] = {
      {512, 256, 1024, 768}, {2048, 512, 0, 256}, {256, 256, 512, 4096}};
  static const tri_phase phase[EACH] = {TRI_PHASE_LEARN, TRI_PHASE_ALWAYS, TRI_PHASE_LEARN, TRI_PHASE_LEARN};
  tri_ledger            *l = NULL;
  tri_ledger_row        *row = NULL;
  tri_ledger_sum         s;
  char                  *at[MEMBERS][EACH], *own, *last, *piece;
  size_t                 piece_bytes;
  int64_t                rows = 0;
  int                    n;
  uint64_t               layout;

  (void)state;
  ok(tri_ledger_open(&l));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "own", 256, (void **)&own));
  for (int m = 0; m < MEMBERS; m++)
    for (int k = 0; k < EACH; k++) {
      char name[8] = {(char)('a' + m), (char)('0' + k), 0};
      tri_ledger_set_member(l, m + 1);
      tri_ledger_set_gathered(l, k == 0);
      ok(tri_ledger_add(l, TRI_MEM_DEVICE, phase[k], false, name, bytes[m][k], (void **)&at[m][k]));
    }
  tri_ledger_set_gathered(l, false);
  layout = tri_ledger_layout(l);
  tri_ledger_set_member(l, 0);
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "last", 256, (void **)&last));
  assert_true(tri_ledger_layout(l) != layout);
  s = tri_ledger_total(l);
  assert_int_equal(s.always, 512);
  assert_int_equal(s.learn, 512 + 2048 + 512 + 4096 + 2 * 256);
  assert_int_equal(s.planned, s.learn);
  assert_int_equal(s.overlaid, (512 + 256) + (256 + 256) + (1792 + 256));
  ok(tri_ledger_rows(l, &row, &n)); /* they add up to the plan, so they are those of the largest members */
  for (int i = 0; i < n; i++) {
    rows += row[i].bytes;
    assert_int_equal(row[i].shared, strcmp(row[i].name, "own") && strcmp(row[i].name, "last"));
  }
  assert_int_equal(rows, s.planned);
  assert_int_equal(n, 6); /* own, b0, b1, c2, c3, last */
  TRI_FREE(row);
  ok(tri_ledger_take(l, device));
  assert_int_equal(tri_ledger_total(l).used, s.planned);
  tri_ledger_gathered(l, (void **)&piece, &piece_bytes);
  assert_int_equal(piece_bytes, 2048);
  assert_null(at[1][2]);
  for (int m = 0; m < MEMBERS; m++) {
    assert_ptr_equal(at[m][0], piece);
    assert_ptr_equal(at[m][1], at[0][1]);
    assert_ptr_equal(at[m][3], at[0][2] + bytes[m][2]);
    if (at[m][2]) assert_ptr_equal(at[m][2], at[0][2]);
    assert_true(at[m][0] + bytes[m][0] <= own && own + 256 <= at[0][2]);
    assert_true(at[m][1] + bytes[m][1] <= piece); /* always before learning */
    assert_true(at[m][3] + bytes[m][3] <= last);
  }
  tri_ledger_close(&l);
}

/* Two entries of one member lie behind each other, though another member's come between. */
static void one_member_does_not_overlap_itself(void **state) {
  tri_ledger *l = NULL;
  char       *a[2], *b, *c;

  (void)state;
  ok(tri_ledger_open(&l));
  for (int k = 0; k < 2; k++) {
    tri_ledger_set_member(l, 1);
    ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "a", 512, (void **)&a[k]));
    tri_ledger_set_member(l, 2);
    if (!k) ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "b", 768, (void **)&b));
  }
  tri_ledger_set_member(l, 0);
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "c", 256, (void **)&c));
  assert_int_equal(tri_ledger_total(l).planned, 1024 + 256);
  ok(tri_ledger_take(l, device));
  assert_ptr_equal(a[1], a[0] + 512);
  assert_ptr_equal(b, a[0]);
  assert_ptr_equal(c, a[0] + 1024);
  tri_ledger_close(&l);
}

static void the_table_names_everything(void **state) {
  tri_ledger *l = NULL;
  tri_text    text = {0};
  void       *a, *b, *c;

  (void)state;
  ok(tri_ledger_open(&l));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "policy weights", 1 << 20, &a));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "activations", 2 << 20, &b));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "policy weights", 1 << 20, &c));
  ok(tri_ledger_print(l, &text));
  assert_non_null(strstr(text.data, "policy weights                      2.000      2.000\n"));
  assert_non_null(strstr(text.data, "activations                         0.000      2.000\n"));
  assert_non_null(strstr(text.data, "total                               2.000      4.000\n"));
  assert_non_null(
      strstr(text.data, "planned 4194304 bytes, of them training state 2097152, on the device 4194304\n"));
  tri_text_free(&text);
  tri_ledger_close(&l);
}

/* Entries of an offloading run, and those of a run without offloading. Only the first get memory. */
static void cases_are_counted_apart(void **state) {
  tri_ledger    *l = NULL;
  tri_ledger_sum s;
  tri_text       text = {0};
  void          *always, *piece, *moments, *resident;
  size_t         bytes;
  uint64_t       layout;

  (void)state;
  ok(tri_ledger_open(&l));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "weights", 1024, &always));
  tri_ledger_set_case(l, TRI_CASE_OFFLOADED);
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "pieces", 512, &piece));
  ok(tri_ledger_add(l, TRI_MEM_PINNED, TRI_PHASE_ALWAYS, true, "moments", 4096, &moments));
  layout = tri_ledger_layout(l);
  tri_ledger_set_case(l, TRI_CASE_RESIDENT);
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "moments", 4096, &resident));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "more", 4096, &resident));
  tri_ledger_set_case(l, TRI_CASE_ANY);
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "cache", 256, &resident));
  s = tri_ledger_total(l);
  assert_int_equal(s.planned, 1024 + 512 + 4096);
  assert_int_equal(s.device, 1024 + 512);
  assert_int_equal(s.pinned, 4096);
  assert_int_equal(s.resident, 1024 + 2 * 4096 + 256);
  assert_int_equal(s.state, 1024 + 4096);
  assert_true(tri_ledger_layout(l) != layout); /* changed by the cache */
  ok(tri_ledger_print(l, &text));
  assert_non_null(strstr(text.data, "on the device 1536 (9472 without shard.offload)\n"));
  assert_null(strstr(text.data, "more"));
  tri_text_free(&text);
  ok(tri_ledger_take(l, device));
  assert_int_equal(tri_ledger_total(l).used, s.planned);
  tri_ledger_block(l, &always, &bytes);
  assert_int_equal(bytes, 1536);
  tri_ledger_close(&l);
}

static void too_much_is_refused_with_the_table(void **state) {
  tri_ledger             *l = NULL;
  void                   *a;
  size_t                  bytes_free, bytes_total;
  const tri_ledger_beside none = {0, 0};

  (void)state;
  ok(device->ops->mem_info(device, &bytes_free, &bytes_total));
  ok(tri_ledger_open(&l));
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "giant", bytes_total + 1, &a));
  tri_error_clear();
  assert_int_equal(tri_ledger_check(l, device, none, NULL, 1, 1), TRI_ECONFIG);
  expect_refusal("check_one() GiB giant train.max_tokens_per_gpu model.recompute=layer shard.plan=zero3");
  tri_ledger_close(&l);
  tri_error_clear();
  ok(tri_ledger_open(&l)); /* refused too if libraries take the memory */
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "small", 1 << 20, &a));
  assert_int_equal(tri_ledger_check(l, device, none, NULL, 1, 1), TRI_OK);
  const tri_ledger_beside all = {bytes_total, bytes_total};
  assert_int_equal(tri_ledger_check(l, device, all, "the test's limit", 1, 1), TRI_ECONFIG);
  expect_refusal("check_one() 1.0 MiB GiB");
  if (!tri_device_is_gpu(device)) {
    expect_refusal("check_one() 1.0 MiB 1 limit test --mem");
  }
  tri_error_clear();
  tri_ledger_close(&l);
  ok(tri_ledger_open(&l)); /* enough for one rank, not for two */
  ok(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "half", bytes_free / 4 * 3, &a));
  tri_error_clear();
  assert_int_equal(tri_ledger_check(l, device, none, NULL, 2, 2), TRI_ECONFIG);
  tri_error_clear();
  assert_int_equal(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, true, "absurd", (size_t)1 << 60, &a),
                   TRI_ECONFIG);
  tri_error_clear();
  tri_ledger_close(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_and_places),
                                     cmocka_unit_test(layouts_differ_where_places_do),
                                     cmocka_unit_test(members_lie_over_each_other),
                                     cmocka_unit_test(one_member_does_not_overlap_itself),
                                     cmocka_unit_test(the_table_names_everything),
                                     cmocka_unit_test(cases_are_counted_apart),
                                     cmocka_unit_test(too_much_is_refused_with_the_table)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
