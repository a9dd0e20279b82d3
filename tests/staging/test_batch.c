/* test_batch.c - division of sequences among ranks, and staging of micro-batches. Judge: counting, over many
 * random shapes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rng.h"
#include "device_case.h"
#include "staging/batch.h"
#include "refusal_case.h"

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

/* n sequences of 1 to 20 tokens, with prompts from 0 tokens to all of them. A quarter of the tokens has no
 * loss. */
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
  for (int q = 0; q < n; q++) r.reward[q] = (float)(11 * q);
  for (int64_t i = 0; i < tokens; i++) {
    r.token[i] = (int32_t)(1000 + i);
    r.old_logp[i] = (float)-i;
    r.ref_logp[i] = (float)(-2 * i);
    r.adv[i] = (float)(3 * i);
    r.critic.value[i] = (float)(5 * i);
    r.critic.ret[i] = (float)(7 * i);
    r.roll_logp[i] = (float)(-4 * i);
    r.mark[i] = number(seed, 2000 + (uint64_t)i, 4) ? (uint8_t)(i % TRI_MARK_GIVEN) : TRI_MARK_GIVEN;
  }
  return r;
}

static int64_t length(const tri_rollout *r, int q) { return r->start[q + 1] - r->start[q]; }

/* Checks one split over all ranks for every sequence exactly once, the same n_micro, and the limits. */
static void check_way(const tri_rollout *r, int begin, int n, int size, int micro, int64_t most_tokens,
                      int together, bool whole) {
  int  seen[MOST] = {0}, n_micro = -1, next = begin, groups = n / r->group;
  bool parted = !whole || groups < size || (micro && groups % size); /* parts of a group may be */
  int  unit = parted ? together : r->group;

  for (int rank = 0; rank < size; rank++) {
    tri_split s;
    ok(tri_split_make(r, &(tri_split_opt){begin, n, together, whole, rank, size, micro, most_tokens}, &s));
    if (n_micro < 0) n_micro = s.n_micro;
    assert_int_equal(s.n_micro, n_micro);
    assert_int_equal(s.first[0], 0);
    for (int i = 0; i < s.n_micro; i++) {
      int64_t tokens = 0;
      for (int k = s.first[i]; k < s.first[i + 1]; k++) {
        assert_true(s.seq[k] >= begin && s.seq[k] < begin + n);
        seen[s.seq[k] - begin]++;
        if (whole) assert_int_equal(s.seq[k], next++); /* over all ranks, in order */
        tokens += length(r, s.seq[k]);
      }
      assert_true(s.first[i] <= s.first[i + 1]);
      for (int k = s.first[i]; k < s.first[i + 1]; k++) /* sequences of one sample are here, side by side */
        assert_int_equal((s.seq[k] - begin) % together, (k - s.first[i]) % together);
      assert_int_equal((s.first[i + 1] - s.first[i]) % together, 0);
      if (micro > 0) assert_true(s.first[i + 1] - s.first[i] <= micro);
      if (micro <= 0) assert_true(tokens <= most_tokens);
    }
    if (n % (size * unit) == 0) assert_int_equal(s.first[s.n_micro], n / size);
    if (n % unit == 0) assert_int_equal(s.first[s.n_micro] % unit, 0);
    if (micro > 0 && n % (size * micro) == 0 && (parted || groups * r->group == n))
      assert_int_equal(s.n_micro, n / size / micro);
    tri_split_free(&s);
    assert_null(s.seq);
  }
  for (int q = 0; q < n; q++) assert_int_equal(seen[q], 1);
}

static void check_split(const tri_rollout *r, int begin, int n, int size, int micro, int64_t most_tokens) {
  tri_rollout grouped = *r;

  check_way(r, begin, n, size, micro, most_tokens, 1, false);
  check_way(r, begin, n, size, micro, most_tokens, 1, true);
  grouped.group = 4;
  check_way(&grouped, begin, n, size, micro, most_tokens, 1, true);
  for (int together = 2; together <= 3; together++)
    if (n % together == 0 && micro % together == 0 && (micro || most_tokens >= 20 * together)) {
      check_way(r, begin, n, size, micro, most_tokens, together, false);
      grouped.group = 2 * together;
      check_way(&grouped, begin, n, size, micro, most_tokens, together, true);
    }
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

/* Sequences of each rank, of 24 in groups of 4. */
static void replayed_groups_stay_whole(void **state) {
  static const struct {
    int size, micro, mine[8];
  } way[] = {{3, 2, {8, 8, 8}},
             {4, 2, {6, 6, 6, 6}}, /* unequal numbers of groups, so cut between sequences */
             {4, 0, {8, 4, 8, 4}}, /* packed, with at least one group */
             {8, 0, {3, 3, 3, 3, 3, 3, 3, 3}}};
  tri_rollout r = make_rollout(3, MOST);

  (void)state;
  r.group = 4;
  for (size_t w = 0; w < sizeof way / sizeof *way; w++)
    for (int rank = 0; rank < way[w].size; rank++) {
      tri_split s;
      ok(tri_split_make(&r, &(tri_split_opt){0, 24, 1, true, rank, way[w].size, way[w].micro, 90}, &s));
      assert_int_equal(s.first[s.n_micro], way[w].mine[rank]);
      tri_split_free(&s);
    }
  tri_rollout_free(&r);
}

/* The token counts of ranks differ by at most the longest sequence, because sequences are dealt in
 * alternating direction. */
static void ranks_are_even(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 12; seed++) {
    tri_rollout r = make_rollout(seed, MOST);
    for (int size = 2; size <= 4; size++) {
      int64_t most = 0, least = INT64_MAX;
      for (int rank = 0; rank < size; rank++) {
        tri_split s;
        int64_t   tokens = 0;
        ok(tri_split_make(&r, &(tri_split_opt){0, 48, 1, 0, rank, size, 4, 0}, &s));
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

static void what_would_be_parted_is_refused(void **state) {
  tri_rollout r = {0};
  tri_split   s;

  (void)state;
  ok(tri_rollout_make(2, 12, 1, 0, &r));
  r.start[1] = 3;
  r.start[2] = 12;
  tri_error_clear();
  assert_int_equal(tri_split_make(&r, &(tri_split_opt){0, 2, 1, 0, 0, 2, 0, 8}, &s), TRI_EINPUT);
  expect_refusal("check_fits() 9 train.max_tokens_per_gpu 8");
  tri_error_clear();
  assert_int_equal(tri_split_make(&r, &(tri_split_opt){0, 2, 2, 0, 0, 2, 0, 11}, &s), TRI_EINPUT);
  expect_refusal("check_fits() 2 12 train.max_tokens_per_gpu");
  tri_error_clear();
  assert_null(s.seq);
  tri_error_clear();
  tri_rollout_free(&r);
}

typedef struct bench {
  tri_device  *d;
  tri_stream  *s;
  tri_ledger  *l;
  tri_staging *f;
  float       *value; /* device [MOST * 20] */
} bench;

static void open_bench(bench *b, int64_t tokens, int64_t rows, unsigned wants) {
  ok(tri_device_open(test_device(), 0, 1, &b->d));
  ok(b->d->ops->stream_open(b->d, "test", &b->s));
  ok(tri_ledger_open(&b->l));
  ok(tri_staging_open(b->d, b->l, &(tri_staging_opt){tokens, rows, wants, TRI_PHASE_LEARN}, &b->f));
  ok(tri_ledger_add(b->l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "results", MOST * 20 * sizeof *b->value,
                    (void **)&b->value));
  ok(tri_ledger_take(b->l, b->d));
}

static void close_bench(bench *b) {
  tri_staging_close(&b->f);
  tri_ledger_close(&b->l);
  b->d->ops->stream_close(&b->s);
  tri_device_close(&b->d);
}

/* Returns element i of a device array. */
static int32_t at(bench *b, const tri_tensor *t, int64_t i) {
  int32_t got;

  device_copy(b->s, &got, (const int32_t *)t->data + i, sizeof got);
  return got;
}

/* Checks the packed batch of sequences seq[0..n) for tokens and positions in order, and for each answer token
 * predicted by the row before. */
static void check_load(bench *b, const tri_rollout *r, const int *seq, int n, unsigned wants) {
  tri_batch    batch;
  tri_rows_out given = {0}, d;
  double       weight[MOST];
  tri_loss_in  in;
  tri_loss_out out;
  int64_t      row = 0, k = 0;
  float        value[MOST * 20];
  bool         scalar = wants & TRI_LOSS_VALUE;

  for (int q = 0; q < MOST; q++) weight[q] = 0.5 * q;
  ok(tri_batch_load(b->f, r, seq, n, b->s, &batch));
  assert_int_equal(batch.cu.dim[0], n + 1);
  for (int i = 0; i < MOST * 20; i++) value[i] = (float)i;
  device_copy(b->s, b->value, value, sizeof value);
  given.logp = tri_view1(b->value, TRI_F32, batch.row.dim[0]);
  given.ent = tri_view1(b->value + 1, TRI_F32, batch.row.dim[0]);
  if (scalar) given.value = tri_view1(b->value + 2, TRI_F32, batch.row.dim[0]);
  ok(tri_batch_fetch(b->f, &given, weight, b->s, &in, &out));
  assert_true(!in.value == !scalar && !out.dvalue == !scalar);
  assert_true(!in.old_logp == !(wants & TRI_LOSS_OLD_LOGP) && !in.ref_logp == !(wants & TRI_LOSS_REFERENCE));
  assert_true(!in.score == !(wants & TRI_LOSS_SCORE) && !in.old_value == !(wants & TRI_LOSS_RETURN));
  assert_true(!in.ret == !in.old_value && !in.roll_logp == !(wants & TRI_LOSS_ROLL_LOGP));
  assert_int_equal(in.n_seq, n);
  for (int q = 0; q < n; q++) {
    int64_t begin = r->start[seq[q]], first = r->prompt_len[seq[q]] > 1 ? r->prompt_len[seq[q]] : 1;
    assert_int_equal(at(b, &batch.cu, q), row);
    assert_int_equal(in.start[q], k);
    assert_true(in.weight[q] == 0.5 * seq[q] && (!in.score || in.score[q] == (float)(11 * seq[q])));
    for (int64_t i = 0; i < length(r, seq[q]); i++, row++) {
      assert_int_equal(at(b, &batch.token, row), r->token[begin + i]);
      assert_int_equal(at(b, &batch.pos, row), i);
      if (i < first || r->mark[begin + i] == TRI_MARK_GIVEN) continue;
      assert_int_equal(at(b, &batch.row, k), row - 1);
      assert_int_equal(at(b, &batch.target, k), r->token[begin + i]);
      assert_int_equal(in.origin[k], begin + i);
      assert_true(in.logp[k] == (float)k && in.ent[k] == (float)(k + 1));
      out.dlogp[k] = (float)(3 * k);
      out.dent[k] = (float)(5 * k);
      if (scalar) assert_true(in.value[k] == (float)(k + 2));
      if (scalar) out.dvalue[k] = (float)(7 * k);
      if (in.old_logp) assert_true(in.old_logp[k] == r->old_logp[begin + i]);
      if (in.ref_logp) assert_true(in.ref_logp[k] == r->ref_logp[begin + i]);
      if (in.adv) assert_true(in.adv[k] == r->adv[begin + i]);
      if (in.ret) assert_true(in.ret[k] == r->critic.ret[begin + i]);
      if (in.ret) assert_true(in.old_value[k] == r->critic.value[begin + i]);
      if (in.roll_logp) assert_true(in.roll_logp[k] == r->roll_logp[begin + i]);
      k++;
    }
  }
  assert_int_equal(at(b, &batch.cu, n), row);
  assert_int_equal(batch.token.dim[0], row);
  assert_int_equal(batch.row.dim[0], k);
  assert_true(in.n == k && in.start[n] == k);
  ok(tri_batch_send(b->f, &out, 1, b->s, &d));
  assert_true(d.logp.dim[0] == k && d.ent.dim[0] == k);
  float *sent = device_get(b->s, d.logp.data, (size_t)k * 4),
        *sent_ent = device_get(b->s, d.ent.data, (size_t)k * 4);
  for (int64_t i = 0; i < k; i++) assert_true(sent[i] == (float)(3 * i) && sent_ent[i] == (float)(5 * i));
  free(sent);
  free(sent_ent);
  assert_true(scalar || !d.value.data);
  if (!scalar) return;
  float *sent_value = device_get(b->s, d.value.data, (size_t)k * 4);
  for (int64_t i = 0; i < k; i++) assert_true(sent_value[i] == (float)(7 * i));
  free(sent_value);
}

/* The last row of each sequence, and a masked sequence without own rows. */
static void rows_are_the_last_or_none(void **state) {
  const int   seq[] = {3, 0, 5};
  tri_rollout r = make_rollout(30, MOST);
  tri_batch   batch;
  bench       b;
  int32_t     end = 0;

  (void)state;
  open_bench(&b, 100, 100, TRI_LOSS_LAST | TRI_LOSS_VALUE);
  ok(tri_batch_load(b.f, &r, seq, 3, b.s, &batch));
  assert_int_equal(batch.row.dim[0], 3);
  for (int k = 0; k < 3; k++) {
    end += (int32_t)length(&r, seq[k]);
    assert_int_equal(at(&b, &batch.row, k), end - 1);
  }
  close_bench(&b);
  open_bench(&b, 100, 100, TRI_LOSS_ADV);
  for (int q = 0; q < 6; q++) r.masked[q] = 1;
  ok(tri_batch_load(b.f, &r, seq, 3, b.s, &batch));
  assert_int_equal(batch.row.dim[0], 0);
  assert_int_equal(batch.token.dim[0], end);
  close_bench(&b);
  tri_rollout_free(&r);
}

static void batches_hold_what_was_asked(void **state) {
  const int sets[][5] = {{0, 1, 2, 3, 4}, {9, 2, 40, 3, 7}, {63, 0, 17, 18, 50}};

  (void)state;
  for (uint64_t seed = 20; seed < 24; seed++) {
    tri_rollout r = make_rollout(seed, MOST);
    bench       b;
    unsigned    wants = number(seed, 7, TRI_LOSS_LAST);
    open_bench(&b, 100, 100, wants);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
      for (int n = 0; n <= 5; n++) check_load(&b, &r, sets[i], n, wants);
    close_bench(&b);
    tri_rollout_free(&r);
  }
}

/* The loss sees old log-probabilities that became known after the fetch. */
static void a_refresh_follows_the_rollout(void **state) {
  const int    seq[] = {5, 2};
  tri_rollout  r = make_rollout(30, MOST);
  tri_rows_out none = {.logp = {.data = NULL}};
  tri_batch    batch;
  tri_loss_in  in;
  tri_loss_out out;
  bench        b;

  (void)state;
  open_bench(&b, 100, 100, TRI_LOSS_OLD_LOGP);
  ok(tri_batch_load(b.f, &r, seq, 2, b.s, &batch));
  ok(tri_batch_fetch(b.f, &none, NULL, b.s, &in, &out));
  assert_true(in.n > 0 && !in.adv);
  for (int64_t i = 0; i < r.n_tok; i++) r.old_logp[i] += 0.5f;
  tri_batch_refresh(b.f, &in);
  for (int64_t k = 0; k < in.n; k++) assert_true(in.old_logp[k] == 0.5f - (float)in.origin[k]);
  assert_null(in.adv);
  close_bench(&b);
  tri_rollout_free(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_sequence_once),          cmocka_unit_test(ranks_are_even),
      cmocka_unit_test(replayed_groups_stay_whole),   cmocka_unit_test(what_would_be_parted_is_refused),
      cmocka_unit_test(batches_hold_what_was_asked),  cmocka_unit_test(rows_are_the_last_or_none),
      cmocka_unit_test(a_refresh_follows_the_rollout)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
