/* test_batch.c - who trains on what, and the staging of micro-batches. Judge: counting, over many random
 * shapes. */
#include "base/rng.h"
#include "device_case.h"
#include "train/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

static uint32_t number(uint64_t a, uint64_t b, uint32_t below) {
  uint32_t bits[4];

  tri_rng_bits(tri_rng_make_key(5, TRI_RNG_TEST), a, b, bits);
  return bits[0] % below;
}

/* n sequences of 1 to 20 tokens; prompts from 0 tokens to all of them. */
static tri_rollout make_rollout(uint64_t seed, int n) {
  tri_rollout r = {0};
  int64_t     tokens = 0;

  for (int q = 0; q < n; q++) tokens += 1 + number(seed, (uint64_t)q, 20);
  ok(tri_rollout_make(n, tokens, 1, 0, &r));
  for (int q = 0; q < n; q++) {
    int64_t len = 1 + number(seed, (uint64_t)q, 20);
    r.start[q + 1] = r.start[q] + len;
    r.prompt_len[q] = (int32_t)number(seed, 1000 + (uint64_t)q, (uint32_t)len + 1);
  }
  for (int64_t i = 0; i < tokens; i++) r.token[i] = (int32_t)(1000 + i);
  return r;
}

static int64_t length(const tri_rollout *r, int q) { return r->start[q + 1] - r->start[q]; }

/* One split over all ranks: every sequence exactly once, the same n_micro, limits kept. */
static void check_way(const tri_rollout *r, int begin, int n, int size, int micro, int64_t most_tokens,
                      bool in_blocks) {
  int seen[MOST] = {0}, n_micro = -1, next = begin;

  for (int rank = 0; rank < size; rank++) {
    tri_split s;
    ok(tri_split_make(r, &(tri_split_opt){begin, n, rank, size, micro, most_tokens, in_blocks}, &s));
    if (n_micro < 0) n_micro = s.n_micro;
    assert_int_equal(s.n_micro, n_micro);
    assert_int_equal(s.first[0], 0);
    for (int i = 0; i < s.n_micro; i++) {
      int64_t tokens = 0;
      for (int k = s.first[i]; k < s.first[i + 1]; k++) {
        assert_true(s.seq[k] >= begin && s.seq[k] < begin + n);
        seen[s.seq[k] - begin]++;
        if (in_blocks) assert_int_equal(s.seq[k], next++); /* over all ranks, in order */
        tokens += length(r, s.seq[k]);
      }
      assert_true(s.first[i] <= s.first[i + 1]);
      if (micro > 0) assert_true(s.first[i + 1] - s.first[i] <= micro);
      if (micro <= 0) assert_true(tokens <= most_tokens);
    }
    if (n % size == 0) assert_int_equal(s.first[s.n_micro], n / size);
    if (micro > 0 && n % (size * micro) == 0) assert_int_equal(s.n_micro, n / size / micro);
    tri_split_free(&s);
    assert_null(s.seq);
  }
  for (int q = 0; q < n; q++) assert_int_equal(seen[q], 1);
}

static void check_split(const tri_rollout *r, int begin, int n, int size, int micro, int64_t most_tokens) {
  check_way(r, begin, n, size, micro, most_tokens, false);
  check_way(r, begin, n, size, micro, most_tokens, true);
}

static void every_sequence_once(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 12; seed++) {
    tri_rollout r = make_rollout(seed, MOST);
    for (int size = 1; size <= 5; size++)
      for (int micro = 1; micro <= 4; micro++) {
        check_split(&r, 0, 12 * size, size, micro, 0);
        check_split(&r, 3, 7, size, micro, 0);
      }
    for (int size = 1; size <= 5; size++)
      for (int64_t budget = 20; budget < 90; budget += 13) {
        check_split(&r, 0, 60, size, 0, budget);
        check_split(&r, 11, 3, size, 0, budget); /* some ranks have nothing */
      }
    tri_rollout_free(&r);
  }
}

/* Tokens of a rank are at most one longest sequence away from any other's: the sequences are dealt there and
 * back. */
static void ranks_are_even(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 12; seed++) {
    tri_rollout r = make_rollout(seed, MOST);
    for (int size = 2; size <= 4; size++) {
      int64_t most = 0, least = INT64_MAX;
      for (int rank = 0; rank < size; rank++) {
        tri_split s;
        int64_t   tokens = 0;
        ok(tri_split_make(&r, &(tri_split_opt){0, 48, rank, size, 4, 0, false}, &s));
        for (int k = 0; k < s.first[s.n_micro]; k++) tokens += length(&r, s.seq[k]);
        if (tokens > most) most = tokens;
        if (tokens < least) least = tokens;
        tri_split_free(&s);
      }
      assert_true(most - least <= 20);
    }
    tri_rollout_free(&r);
  }
}

static void a_sequence_over_the_budget_is_refused(void **state) {
  tri_rollout r = {0};
  tri_split   s;

  (void)state;
  ok(tri_rollout_make(2, 12, 1, 0, &r));
  r.start[1] = 3;
  r.start[2] = 12;
  tri_error_clear();
  assert_int_equal(tri_split_make(&r, &(tri_split_opt){0, 2, 0, 2, 0, 8, false}, &s), TRI_EINPUT);
  assert_non_null(strstr(tri_error_message(), "9 tokens"));
  assert_null(s.seq);
  tri_error_clear();
  tri_rollout_free(&r);
}

typedef struct bench {
  tri_device *d;
  tri_stream *s;
  tri_ledger *l;
  tri_feed   *f;
  float      *value; /* device [MOST * 20] */
} bench;

static void open_bench(bench *b, int64_t tokens, int64_t rows) {
  ok(tri_device_open(test_device(), 0, 1, &b->d));
  ok(b->d->ops->stream_open(b->d, "test", &b->s));
  ok(tri_ledger_open(&b->l));
  ok(tri_feed_open(b->d, b->l, tokens, rows, &b->f));
  ok(tri_ledger_add(b->l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "results", MOST * 20 * sizeof *b->value,
                    (void **)&b->value));
  ok(tri_ledger_take(b->l, b->d));
}

static void close_bench(bench *b) {
  tri_feed_close(&b->f);
  tri_ledger_close(&b->l);
  b->d->ops->stream_close(&b->s);
  tri_device_close(&b->d);
}

/* Element i, which the device has. */
static int32_t at(bench *b, const tri_tensor *t, int64_t i) {
  int32_t got;

  device_copy(b->s, &got, (const int32_t *)t->data + i, sizeof got);
  return got;
}

/* The packed batch of sequences seq[0..n): tokens and positions in order; each answer token predicted by the
 * row before. */
static void check_load(bench *b, const tri_rollout *r, const int *seq, int n) {
  tri_batch     batch;
  tri_rows_out  given = {0}, d;
  tri_feed_rows rows;
  int64_t       row = 0, k = 0;
  float         value[MOST * 20];

  ok(tri_batch_load(b->f, r, seq, n, b->s, &batch));
  assert_int_equal(batch.cu.dim[0], n + 1);
  for (int i = 0; i < MOST * 20; i++) value[i] = (float)i;
  device_copy(b->s, b->value, value, sizeof value);
  given.logp = tri_view1(b->value, TRI_F32, batch.row.dim[0]);
  given.ent = tri_view1(b->value + 1, TRI_F32, batch.row.dim[0]);
  ok(tri_batch_fetch(b->f, &given, b->s, &rows));
  assert_int_equal(rows.n_seq, n);
  for (int q = 0; q < n; q++) {
    int64_t begin = r->start[seq[q]], first = r->prompt_len[seq[q]] > 1 ? r->prompt_len[seq[q]] : 1;
    assert_int_equal(at(b, &batch.cu, q), row);
    assert_int_equal(rows.start[q], k);
    for (int64_t i = 0; i < length(r, seq[q]); i++, row++) {
      assert_int_equal(at(b, &batch.token, row), r->token[begin + i]);
      assert_int_equal(at(b, &batch.pos, row), i);
      if (i < first) continue;
      assert_int_equal(at(b, &batch.row, k), row - 1);
      assert_int_equal(at(b, &batch.target, k), r->token[begin + i]);
      assert_int_equal(rows.origin[k], begin + i);
      assert_true(rows.logp[k] == (float)k && rows.ent[k] == (float)(k + 1));
      rows.dlogp[k] = (float)(3 * k);
      rows.dent[k] = (float)(5 * k);
      k++;
    }
  }
  assert_int_equal(at(b, &batch.cu, n), row);
  assert_int_equal(batch.token.dim[0], row);
  assert_int_equal(batch.row.dim[0], k);
  assert_true(rows.n == k && rows.start[n] == k);
  ok(tri_batch_send(b->f, b->s, &d));
  assert_true(d.logp.dim[0] == k && d.ent.dim[0] == k);
  float *sent = device_get(b->s, d.logp.data, (size_t)k * 4),
        *sent_ent = device_get(b->s, d.ent.data, (size_t)k * 4);
  for (int64_t i = 0; i < k; i++) assert_true(sent[i] == (float)(3 * i) && sent_ent[i] == (float)(5 * i));
  free(sent);
  free(sent_ent);
}

static void batches_hold_what_was_asked(void **state) {
  const int sets[][5] = {{0, 1, 2, 3, 4}, {9, 2, 40, 3, 7}, {63, 0, 17, 18, 50}};

  (void)state;
  for (uint64_t seed = 20; seed < 24; seed++) {
    tri_rollout r = make_rollout(seed, MOST);
    bench       b;
    open_bench(&b, 100, 100);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
      for (int n = 0; n <= 5; n++) check_load(&b, &r, sets[i], n);
    close_bench(&b);
    tri_rollout_free(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_sequence_once), cmocka_unit_test(ranks_are_even),
                                     cmocka_unit_test(a_sequence_over_the_budget_is_refused),
                                     cmocka_unit_test(batches_hold_what_was_asked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
