/* filter_case.h - runs only the test cases that match $TRI_TEST_FILTER, a pattern with * and ?. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_FILTER_CASE_H
#define TRI_TESTS_FILTER_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

/* Call it before cmocka_run_group_tests. */
static inline void test_filter(void) {
  const char *pattern = getenv("TRI_TEST_FILTER");
  if (pattern) cmocka_set_test_filter(pattern);
}

#endif
