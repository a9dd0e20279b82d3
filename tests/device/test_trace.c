/* test_trace.c - tests spans on the device and on the host, and the limit of a step. Judge: numbers worked by
 * hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "trace_case.h"

static void nothing_is_recorded_without_a_trace(void **state) {
  int64_t before = tri_host_bytes();

  (void)state;
  assert_null(device->trace);
  assert_int_equal(tri_trace_begin(device->trace, TRI_LANE_COMPUTE, note_of("x", 0), stream), -1);
  tri_trace_end(device->trace, -1, stream);
  tri_trace_carry(device->trace, "policy", "layer 0", "weights");
  assert_null(tri_trace_carried(device->trace).what);
  assert_true(tri_host_bytes() == before);
}

static void spans_come_back_in_order(void **state) {
  const tri_trace_span *span;
  tri_trace            *t;
  double                before_s = tri_now_s();
  int64_t               dropped;
  int                   n, outer;

  (void)state;
  OK(tri_trace_open(device, 8, &t));
  assert_ptr_equal(device->trace, t);
  put(TRI_LANE_PHASES, note_of("before the step", 0), NULL);
  OK(tri_trace_start(t, stream));
  outer = tri_trace_phase(device->trace, "learn");
  put(TRI_LANE_COMPUTE, (tri_trace_note){"layer 0", "forward", "policy", 0}, stream);
  (void)tri_trace_begin(device->trace, TRI_LANE_COMPUTE, note_of("never ended", 0), stream);
  put(TRI_LANE_REDUCE, note_of("gradients", 12), stream);
  tri_trace_end(device->trace, outer, NULL);
  OK(tri_trace_stop(t, &span, &n, &dropped));
  put(TRI_LANE_PHASES, note_of("after the step", 0), NULL);
  assert_int_equal(n, 3);
  assert_int_equal(dropped, 1);
  assert_string_equal(span[0].note.what, "learn");
  assert_string_equal(span[1].note.how, "forward");
  assert_true(span[1].lane == TRI_LANE_COMPUTE && span[2].lane == TRI_LANE_REDUCE &&
              span[2].note.bytes == 12);
  for (int i = 0; i < n; i++) assert_true(span[i].begin_s > before_s && span[i].end_s >= span[i].begin_s);
  assert_true(span[2].begin_s >= span[1].end_s && tri_now_s() >= span[2].end_s);
  tri_trace_close(&t);
  assert_null(t);
  assert_null(device->trace);
}

/* Every step has the same space for spans, and reuses the events of the first step. */
static void further_spans_are_dropped_and_counted(void **state) {
  const tri_trace_span *span;
  tri_trace            *t;
  int64_t               dropped, held = 0;
  int                   n;

  (void)state;
  OK(tri_trace_open(device, 3, &t));
  for (int step = 0; step < 3; step++) {
    OK(tri_trace_start(t, stream));
    for (int i = 0; i < 5 - step; i++) put(TRI_LANE_COMPUTE, note_of("x", i), stream);
    OK(tri_trace_stop(t, &span, &n, &dropped));
    assert_int_equal(n, 3);
    assert_int_equal(dropped, 2 - step);
    assert_int_equal(span[2].note.bytes, 2);
    if (step) assert_true(tri_host_bytes() == held);
    held = tri_host_bytes();
  }
  tri_trace_close(&t);
}

static void a_note_is_for_one_collective(void **state) {
  tri_trace     *t;
  tri_trace_note note;

  (void)state;
  OK(tri_trace_open(device, 1, &t));
  tri_trace_carry(device->trace, "policy", "layer 0", "weights");
  tri_trace_carry(device->trace, "policy", "layer 1", "weights");
  note = tri_trace_carried(device->trace);
  assert_string_equal(note.owner, "policy");
  assert_string_equal(note.what, "layer 1");
  assert_string_equal(note.how, "weights");
  assert_null(tri_trace_carried(device->trace).what);
  tri_trace_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_recorded_without_a_trace),
      cmocka_unit_test(spans_come_back_in_order),
      cmocka_unit_test(further_spans_are_dropped_and_counted),
      cmocka_unit_test(a_note_is_for_one_collective),
  };
  return cmocka_run_group_tests(tests, trace_setup, trace_teardown);
}
