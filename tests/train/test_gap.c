/* test_gap.c - compares the sampler's log-probabilities of tokens with the trainer's. Checks the old
 * log-probability, the gap, and the error that ends a run. Judge: exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "comm/comm.h"
#include "device_case.h"
#include "train/score.h"
#include "train/batch_source.h"
#include "train/train.h"
#include "refusal_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

enum { N_TOK = 6, N_ROW = 4 }; /* two sequences of three tokens, each with an unpredicted first token */

typedef struct bench {
  tri_session se; /* for its device, stream and world */
  tri_ledger *ledger;
  tri_rollout r;
  tri_trainer t;
  float      *logp; /* device [N_ROW] */
} bench;

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

static void open_bench(bench *b) {
  memset(b, 0, sizeof *b);
  ok(tri_device_open("cpu", 0, 1, &b->se.device));
  ok(b->se.device->ops->stream_open(b->se.device, "test", &b->se.stream));
  ok(tri_comm_pretend(TRI_WORLD, 1, b->se.device, &b->se.comm[TRI_WORLD]));
  ok(tri_ledger_open(&b->ledger));
  ok(tri_staging_open(b->se.device, b->ledger,
                      &(tri_staging_opt){N_TOK, N_TOK, TRI_LOSS_OLD_LOGP, TRI_PHASE_LEARN}, &b->t.staging));
  ok(tri_ledger_add(b->ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "logp", N_ROW * sizeof *b->logp,
                    (void **)&b->logp));
  ok(tri_ledger_take(b->ledger, b->se.device));
  ok(tri_rollout_make(2, N_TOK, 1, 0, &b->r));
  b->r.start[1] = 3;
  b->r.start[2] = 6;
  b->t.se = &b->se;
}

static void close_bench(bench *b) {
  tri_rollout_free(&b->r);
  tri_staging_close(&b->t.staging);
  tri_ledger_close(&b->ledger);
  TRI_FREE(b->se.comm[TRI_WORLD]);
  b->se.device->ops->stream_close(&b->se.stream);
  tri_device_close(&b->se.device);
  assert_int_equal(tri_host_bytes(), 0);
}

/* Runs one forward pass. For the predicted rows the sampler gave `old` and the trainer gives `now`. The loss
 * must then see `want`. */
static void meet(bench *b, int mode, const float old[N_ROW], const float now[N_ROW], tri_gap *gap,
                 const float want[N_ROW]) {
  static const int64_t row[N_ROW] = {1, 2, 4, 5};
  const int            seq[] = {0, 1};
  tri_rows_out         given = {.logp = tri_view1(b->logp, TRI_F32, N_ROW)};
  tri_batch            batch;
  tri_loss_in          in;
  tri_loss_out         out;

  b->t.sampling.mode = mode;
  for (int k = 0; k < N_ROW; k++) b->r.old_logp[row[k]] = old[k];
  device_copy(b->se.stream, b->logp, now, N_ROW * sizeof *now);
  ok(tri_batch_load(b->t.staging, &b->r, seq, 2, b->se.stream, &batch));
  ok(tri_batch_fetch(b->t.staging, &given, NULL, b->se.stream, &in, &out));
  assert_int_equal(in.n, N_ROW);
  tri_gap_take_and_refresh(&b->t, &b->r, &in, gap);
  for (int k = 0; k < N_ROW; k++) {
    assert_int_equal(in.origin[k], row[k]);
    assert_true(in.old_logp[k] == want[k] || (isnan(in.old_logp[k]) && isnan(want[k])));
    assert_memory_equal(&b->r.old_logp[row[k]], &in.old_logp[k], sizeof(float));
  }
}

static void old_is_what_run_sampler_says(void **state) {
  const float old[] = {-1, NAN, -2, -3}, now[] = {-1, -4, -2.5f, -3}, known[] = {-1, -4, -2, -3};
  tri_gap     gap = {.open = true}, closed = {.nats = 0}, strange = {.open = true};
  bench       b;

  (void)state;
  open_bench(&b);
  meet(&b, TRI_CONFIG_EXACT, old, now, &gap, known);
  assert_true(gap.nats == 0.5);
  meet(&b, TRI_CONFIG_TRUST, old, now, &gap, known);
  meet(&b, TRI_CONFIG_RESCORE, old, now, &gap, now);
  assert_true(gap.nats == 0.5); /* an unknown number makes no gap */
  meet(&b, TRI_CONFIG_RESCORE, old, now, &closed, old);
  assert_true(closed.nats == 0);
  meet(&b, TRI_CONFIG_EXACT, old, (const float[]){NAN, -4, -9, -3}, &strange, known);
  assert_true(isnan(strange.nats));
  close_bench(&b);
}

static void exact_allows_no_gap(void **state) {
  const tri_batch_source *source[] = {&tri_batch_source_generate, &tri_batch_source_replay};
  const tri_status        want[] = {TRI_ENUMERIC, TRI_ECONFIG};
  const char *const       words[] = {"tri_gap_close() 1 0.25 !replayed", "tri_gap_close() 1 replayed 0.25"};
  bench                   b;

  (void)state;
  open_bench(&b);
  for (int i = 0; i < 2; i++) {
    tri_gap none = {.open = true}, some = {.open = true, .nats = 0.25}, known = {.nats = 0.25};
    b.t.source = source[i];
    b.t.sampling.mode = TRI_CONFIG_EXACT;
    ok(tri_gap_close(&b.t, &none));
    ok(tri_gap_close(&b.t, &known)); /* said before */
    assert_int_equal(tri_gap_close(&b.t, &some), want[i]);
    expect_refusal(words[i]);
    expect_refusal("tri_gap_close() 1 0.25 0");
    assert_int_equal(tells(tri_error_message(), "run.sampler: trust rescore"), i == 1);
    tri_error_clear();
    b.t.sampling.mode = TRI_CONFIG_TRUST;
    some.open = true;
    ok(tri_gap_close(&b.t, &some));
    assert_true(!some.open && some.nats == 0.25);
  }
  close_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(old_is_what_run_sampler_says),
                                     cmocka_unit_test(exact_allows_no_gap)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
