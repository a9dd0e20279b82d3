/* test_pages.c - large buffers with pages that are taken when they are written (host_memory.h). Judges: the
 * bytes, the kernel's count of pages, and AddressSanitizer if it is built in. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/host_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __has_feature /* for clang. gcc has the other macro */
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { ASAN = true };
#else
enum { ASAN = false };
#endif

enum { BYTES = 64 << 20, PAGE = 4096 };

static void test_zeroed_and_counted(void **state) {
  static const size_t sizes[] = {0, 1, 4095, 1 << 20, BYTES};
  int64_t             before = tri_host_bytes();

  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *p = NULL;
    assert_int_equal(tri_pages_alloc(sizes[i], &p), TRI_OK);
    assert_true((uintptr_t)p % 256 == 0);
    assert_true(tri_host_bytes() >= before + (int64_t)sizes[i]);
    for (size_t k = 0; k < sizes[i]; k++) assert_true(((char *)p)[k] == 0);
    tri_pages_free(&p);
    assert_null(p);
    assert_true(tri_host_bytes() == before);
    tri_pages_free(&p);
  }
}

/* This must be the first buffer of its size, because later ones may reuse its memory. */
static void test_untouched(void **state) {
  struct rusage before, after;
  void         *p = NULL;

  (void)state;
  assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
  assert_int_equal(tri_pages_alloc((size_t)4 * BYTES, &p), TRI_OK);
  ((char *)p)[BYTES] = 1;
  assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
  if (!TRI_SANITIZED) assert_true(after.ru_minflt - before.ru_minflt < BYTES / PAGE / 10);
  tri_pages_free(&p);
}

static void test_too_large(void **state) {
  void *p = state;

  assert_int_equal(tri_pages_alloc(SIZE_MAX, &p), TRI_ENOMEM);
  assert_null(p);
  tri_error_clear();
}

/* Nobody may use the memory before the buffer. */
static void test_before(void **state) {
  void *p = NULL;
  int   status = 0;
  pid_t pid;

  (void)state;
  assert_int_equal(tri_pages_alloc(1 << 20, &p), TRI_OK);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    ((volatile char *)p)[-1] = 1;
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true((status != 0) == ASAN);
  tri_pages_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_untouched),
                                     cmocka_unit_test(test_zeroed_and_counted),
                                     cmocka_unit_test(test_too_large), cmocka_unit_test(test_before)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
