/* test_apart.c - work in a child process. Judge: the caller's state afterwards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/apart.h"
#include "base/host_memory.h"
#include "refusal_case.h"

#include <stdarg.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

static tri_status many_bytes(void *ctx, tri_text *out) {
  for (int i = 0; i < *(int *)ctx; i++) TRI_TRY(tri_text_printf(out, "%07d\n", i));
  *(int *)ctx = 0;
  return TRI_OK;
}

static tri_status no_luck(void *ctx, tri_text *out) {
  TRI_TRY(tri_text_put(out, "half", 4));
  TRI_FAIL(TRI_EINPUT, "%s: is not liked", (const char *)ctx);
}

static tri_status killed(void *ctx, tri_text *out) {
  (void)ctx;
  (void)out;
  signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
  return TRI_OK;
}

static tri_status left(void *ctx, tri_text *out) {
  (void)ctx;
  (void)out;
  _exit(3);
}

static tri_status hungry(void *ctx, tri_text *out) {
  char *much;

  (void)out;
  TRI_TRY(TRI_ALLOC(much, *(int64_t *)ctx));
  TRI_FREE(much);
  return TRI_OK;
}

static tri_status busy(void *ctx, tri_text *out) {
  (void)out;
  while (*(volatile int *)ctx) continue;
  return TRI_OK;
}

static tri_status stubborn(void *ctx, tri_text *out) {
  signal(SIGXCPU, SIG_IGN);
  return busy(ctx, out);
}

static const tri_apart_limit none;

static void a_result_comes_back(void **state) {
  tri_text out = {0};
  int      n = 100000;
  char     how[TRI_APART_HOW_BYTES];

  (void)state;
  assert_int_equal(tri_text_put(&out, "before ", 7), TRI_OK);
  assert_int_equal(tri_apart(many_bytes, &n, &none, &out, how), TRI_OK);
  assert_string_equal(how, "");
  assert_int_equal(out.len, 7 + 8 * 100000);
  assert_memory_equal(out.data, "before 0000000\n", 15);
  assert_string_equal(out.data + out.len - 8, "0099999\n");
  assert_int_equal(n, 100000); /* its memory is its own */
  tri_text_free(&out);
}

static void an_error_comes_back(void **state) {
  tri_text out = {0};
  char     how[TRI_APART_HOW_BYTES];

  (void)state;
  assert_int_equal(tri_apart(no_luck, "x", &none, &out, how), TRI_EINPUT);
  assert_string_equal(how, "");
  assert_string_equal(tri_error_message(), "x: is not liked");
  tri_error_clear();
  tri_text_free(&out);
}

static void an_end_is_told(void **state) {
  tri_text out = {0};
  char     how[TRI_APART_HOW_BYTES];

  (void)state;
  assert_int_equal(tri_apart(killed, NULL, &none, &out, how), TRI_EFORMAT);
  assert_string_equal(how, "signal 15");
  assert_int_equal(tri_apart(left, NULL, &none, &out, how), TRI_EFORMAT);
  assert_string_equal(how, "exit code 3");
  assert_int_equal(out.len, 0);
}

static void memory_is_bounded(void **state) {
  tri_apart_limit limit = {(int64_t)1 << 26, 0};
  tri_text        out = {0};
  int64_t         bytes = (int64_t)1 << 28;
  char            how[TRI_APART_HOW_BYTES];

  (void)state;
  assert_int_equal(tri_apart(hungry, &bytes, &none, &out, how), TRI_OK);
  if (tri_apart(hungry, &bytes, &limit, &out, how) == TRI_OK) fail_msg("it got more than its bound");
  tri_error_clear();
  bytes = (int64_t)1 << 24;
  assert_int_equal(tri_apart(hungry, &bytes, &limit, &out, how), TRI_OK);
  tri_text_free(&out);
}

static void processor_time_is_bounded(void **state) {
  tri_apart_limit limit = {0, 1};
  tri_text        out = {0};
  int             on = 1;
  char            how[TRI_APART_HOW_BYTES];

  (void)state;
  assert_int_equal(tri_apart(busy, &on, &limit, &out, how), TRI_EFILE);
  assert_true(tells(how, "1 s processor"));
}

/* SIGXCPU may be ignored by `trap '' XCPU` in the shell, or blocked by a parent. */
static void who_ignores_the_signal_is_bounded_too(void **state) {
  tri_apart_limit limit = {0, 1};
  tri_text        out = {0};
  int             on = 1;
  char            how[TRI_APART_HOW_BYTES];
  sigset_t        set;

  (void)state;
  signal(SIGXCPU, SIG_IGN);
  sigemptyset(&set);
  sigaddset(&set, SIGXCPU);
  sigprocmask(SIG_BLOCK, &set, NULL);
  assert_int_equal(tri_apart(busy, &on, &limit, &out, how), TRI_EFILE);
  assert_true(tells(how, "1 s processor"));
  assert_int_equal(tri_apart(stubborn, &on, &limit, &out, how), TRI_EFORMAT);
  assert_string_equal(how, "signal 9");
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  signal(SIGXCPU, SIG_DFL);
}

/* The test runs in a child itself, because a lowered limit cannot be raised again. */
static tri_status with_one_second(void *ctx, tri_text *out) {
  tri_apart_limit limit = {0, 600};
  struct rlimit   one = {1, 600};
  char            how[TRI_APART_HOW_BYTES];
  tri_status      st;

  if (setrlimit(RLIMIT_CPU, &one)) TRI_FAIL(TRI_EINTERNAL, "setrlimit");
  st = tri_apart(busy, ctx, &limit, out, how);
  return tri_text_printf(out, "%s, %s", tri_status_text(st), how);
}

static void the_limit_in_force_is_named(void **state) {
  tri_text out = {0};
  int      on = 1;
  char     how[TRI_APART_HOW_BYTES];

  (void)state;
  assert_int_equal(tri_apart(with_one_second, &on, &none, &out, how), TRI_OK);
  assert_true(tells(out.data, "file error 1 s processor"));
  tri_text_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_comes_back),
      cmocka_unit_test(an_error_comes_back),
      cmocka_unit_test(an_end_is_told),
      cmocka_unit_test(memory_is_bounded),
      cmocka_unit_test(processor_time_is_bounded),
      cmocka_unit_test(who_ignores_the_signal_is_bounded_too),
      cmocka_unit_test(the_limit_in_force_is_named),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
