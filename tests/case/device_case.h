/* device_case.h - the device a test program runs on: $TRI_TEST_DEVICE, else the CPU; how the host reaches its
 * memory; and where tests/data and the program lie on a machine that did not build them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_DEVICE_CASE_H
#define TRI_TESTS_DEVICE_CASE_H

#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

static inline const char *test_device(void) {
  const char *name = getenv("TRI_TEST_DEVICE");
  return name ? name : "cpu";
}

/* Every case (1), or one of `step` where the device is emulated and slow. */
static inline int test_step(int step) {
  const char *brief = getenv("TRI_TEST_BRIEF");
  return brief && atoi(brief) ? step : 1;
}

/* tests/data: $TRI_TEST_DATA, else where it lay when this was built. */
static inline const char *test_data(void) {
  const char *folder = getenv("TRI_TEST_DATA");
  return folder ? folder : TRI_TEST_DATA;
}

/* trireme: $TRI_TEST_PROGRAM, else where it was built. */
static inline const char *test_program(void) {
  const char *path = getenv("TRI_TEST_PROGRAM");
  return path ? path : TRI_PROGRAM;
}

/* Copies, waited for; a failure ends the program. */
static inline void device_copy(tri_stream *s, void *to, const void *from, size_t bytes) {
  if (s->device->ops->copy(s, to, from, bytes) == TRI_OK && s->device->ops->stream_sync(s) == TRI_OK) return;
  fprintf(stderr, "%s", tri_error_trace());
  abort();
}

/* The bytes at a device address, in host memory; by free(). */
static inline void *device_get(tri_stream *s, const void *from, size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) abort();
  device_copy(s, p, from, bytes);
  return p;
}

#endif
