/* filter_case.h - which of a test program's cases run: $TRI_TEST_FILTER, a pattern with * and ?, else all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_FILTER_CASE_H
#define TRI_TESTS_FILTER_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

/* Before cmocka_run_group_tests. */
static inline void test_filter(void) {
  const char *pattern = getenv("TRI_TEST_FILTER");
  if (pattern) cmocka_set_test_filter(pattern);
}

#endif
