/* device_case.h - the device of a test program, access to its memory, and the paths of tests/data and of the
 * program. The device is $TRI_TEST_DEVICE, else the CPU, while tests of every device run on all. The paths
 * may differ on a machine other than the build machine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_DEVICE_CASE_H
#define TRI_TESTS_DEVICE_CASE_H

#include "device/device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const char *test_device(void) {
  const char *name = getenv("TRI_TEST_DEVICE");
  return name ? name : "cpu";
}

/* Returns whether tests of every device run on this one. */
static inline bool test_on(const char *name) {
  const char *only = getenv("TRI_TEST_DEVICE");
  return !only || !strcmp(only, name);
}

/* Returns 1 for every case, or `step` to run one case of `step` if the device is emulated and slow. */
static inline int test_step(int step) {
  const char *brief = getenv("TRI_TEST_BRIEF");
  return brief && atoi(brief) ? step : 1;
}

/* Returns the folder tests/data, $TRI_TEST_DATA or else its place at build time. */
static inline const char *test_data(void) {
  const char *folder = getenv("TRI_TEST_DATA");
  return folder ? folder : TRI_TEST_DATA;
}

/* Returns the program trireme, $TRI_TEST_PROGRAM or else its place at build time. */
static inline const char *test_program(void) {
  const char *path = getenv("TRI_TEST_PROGRAM");
  return path ? path : TRI_PROGRAM;
}

/* Copies and waits. A failure ends the program. */
static inline void device_copy(tri_stream *s, void *to, const void *from, size_t bytes) {
  if (s->device->ops->copy(s, to, from, bytes) == TRI_OK && s->device->ops->stream_sync(s) == TRI_OK) return;
  fprintf(stderr, "%s", tri_error_trace());
  abort();
}

/* Returns the bytes at a device address in host memory. The caller frees them. */
static inline void *device_get(tri_stream *s, const void *from, size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) abort();
  device_copy(s, p, from, bytes);
  return p;
}

#endif
