/* trace_case.h - the device, its stream and whole spans, for the tests of spans and of their file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEST_TRACE_CASE_H
#define TRI_TEST_TRACE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/trace.h"
#include "device_case.h"

#define OK(call) assert_int_equal((call), TRI_OK)

static tri_device *device;
static tri_stream *stream;

static inline int trace_setup(void **state) {
  (void)state;
  return tri_device_open(test_device(), 0, 1, &device) == TRI_OK &&
                 device->ops->stream_open(device, "compute", &stream) == TRI_OK
             ? 0
             : -1;
}

static inline int trace_teardown(void **state) {
  (void)state;
  device->ops->stream_close(&stream);
  tri_device_close(&device);
  return 0;
}

static inline tri_trace_note note_of(const char *what, int64_t bytes) {
  return (tri_trace_note){.what = what, .bytes = bytes};
}

/* Records a whole span of the lane, in the stream or (NULL) on the host. */
static inline void put(tri_lane lane, tri_trace_note note, tri_stream *s) {
  int span = tri_trace_begin(device->trace, lane, note, s);
  tri_trace_end(device->trace, span, s);
}

#endif
