/* test_reward_library.c - a shared object as a reward: its input, its failures, and refused objects. Judge:
 * the bytes of each response, counted here. The objects: tests/case/reward_object.c. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward/reward.h"
#include "refusal_case.h"

#include <elf.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 200 };

static int teardown(void **state) {
  (void)state;
  tri_error_clear();
  return tri_host_bytes() == 0 ? 0 : -1;
}

static tri_reward_opt row(const char *path, const char *on_error) {
  return (tri_reward_opt){.name = "library",
                          .weight = 1,
                          .n_field = on_error ? 2 : 1,
                          .field = {{"path", path, 0}, {"on_error", on_error, 0}}};
}

static tri_reward_set *open_set(const char *on_error) {
  tri_reward_opt  o = row(TRI_REWARD_OBJECTS "/libreward_object.so", on_error);
  tri_reward_set *set = NULL;

  if (tri_reward_set_open(&o, 1, NULL, &set) != TRI_OK) fail_msg("%s", tri_error_message());
  return set;
}

static tri_answer answer(const char *response, int i) {
  static const int32_t token[] = {7, 8, 3, 4};

  return (tri_answer){.prompt_id = 40 + i,
                      .prompt = "2+3=",
                      .prompt_bytes = 4,
                      .response = response,
                      .response_bytes = strlen(response),
                      .truth = i % 2 ? "twelve bytes" : NULL,
                      .truth_bytes = i % 2 ? 12 : 0,
                      .fields = "\"extra\": {\"n\": 7}, ",
                      .fields_bytes = 19,
                      .token = token,
                      .n_prompt = 2,
                      .n_token = 2,
                      .truncated = i == 2};
}

/* Checks the scores of responses [n], NAN for a failure. */
static void check(const char *const *response, const float *want, int n) {
  static tri_answer a[MOST];
  static float      part[MOST], total[MOST];
  static int32_t    failed[MOST];
  tri_reward_set   *set = open_set("drop");

  for (int i = 0; i < n; i++) a[i] = answer(response[i], i);
  assert_int_equal(tri_reward_set_score(set, a, n, part, total, failed), TRI_OK);
  for (int i = 0; i < n; i++)
    if (failed[i] != isnan(want[i]) || (!failed[i] && total[i] != want[i]) || (failed[i] && !isnan(total[i])))
      fail_msg("'%s' got %g%s, not %g", response[i], (double)total[i], failed[i] ? " (failed)" : "",
               (double)want[i]);
  tri_reward_set_close(&set);
}

static void gives_what_it_says(void **state) {
  static const char *const response[] = {"a", "bc", "tokens", "truth", "truth", "field", ""};
  static const float       want[] = {1, 2, 1732, 12, -1, 7, 0};

  (void)state;
  check(response, want, 7);
}

/* A failed answer fails no other, whichever came in the same call. */
static void failures_are_its_own(void **state) {
  static const char *response[MOST];
  static float       want[MOST];

  (void)state;
  for (int i = 0; i < MOST; i++) {
    response[i] = i % 7 == 3 ? "error" : i % 11 == 5 ? "nan" : i % 13 == 6 ? "large" : "abc";
    want[i] = strcmp(response[i], "abc") ? NAN : 3;
  }
  check(response, want, MOST);
}

static void on_error_is_obeyed(void **state) {
  tri_reward_set *set = open_set(NULL);
  tri_answer      a[] = {answer("abc", 0), answer("error", 1)};
  float           part[2], total[2];
  int32_t         failed[2];

  (void)state;
  assert_int_equal(tri_reward_set_score(set, a, 2, part, total, failed), TRI_EREWARD);
  expect_refusal("judge_error() library prompt_id 41 answer 41 is an error");
  tri_error_clear();
  assert_int_equal(tri_reward_set_score(set, a, 1, part, total, failed), TRI_OK);
  assert_true(total[0] == 3);
  tri_reward_set_close(&set);
  set = open_set("zero");
  assert_int_equal(tri_reward_set_score(set, a, 2, part, total, failed), TRI_OK);
  assert_true(total[0] == 3 && total[1] == 0 && failed[1]);
  assert_int_equal(tri_reward_set_submit(set, &a[0], 0), TRI_OK);
  tri_reward_set_close(&set); /* with one open */
}

static void refuses(void **state) {
  static const struct {
    const char *path, *why;
  } c[] = {{TRI_PROGRAM "/x.so", "reward.path = " TRI_PROGRAM "/x.so: no shared object that can be loaded: "},
           {TRI_TEST_DATA "/reward/math.jsonl", "check_file() reward.path math.jsonl ELF"},
           {TRI_REWARD_OBJECTS "/libreward_version.so", "check_made_for() reward.path 99 trireme_reward.h"},
           {TRI_REWARD_OBJECTS "/libreward_symbol.so",
            "lacks_object() reward.path libreward_symbol.so trireme_reward_object"},
           {TRI_REWARD_OBJECTS "/libreward_score.so",
            "lacks_score() reward.path libreward_score.so trireme_reward_object"}};
  tri_reward_opt  o;
  tri_reward_set *set;

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    o = row(c[i].path, NULL);
    assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
    expect_refusal(c[i].why);
    tri_error_clear();
  }
  o = row(TRI_REWARD_OBJECTS "/libreward_opens.so", NULL);
  assert_int_equal(tri_reward_check(&o, NULL), TRI_OK); /* no run yet */
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_EREWARD);
  assert_non_null(strstr(tri_error_message(), "eeee"));
}

/* A check reads the object but does not load it, so no code of it runs before a run opens it. Judge: its
 * constructor. Sanitizers run it once, so this test comes first. */
static void is_not_run_to_be_checked(void **state) {
  static const char *const path[] = {TRI_REWARD_OBJECTS "/libreward_object.so",
                                     TRI_REWARD_OBJECTS "/libreward_sysv.so"};
  tri_session              paper = {.pretended = true};
  tri_reward_env           env = {.se = &paper};
  tri_reward_set          *set;

  (void)state;
  for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
    tri_reward_opt o = row(path[i], NULL);
    unsetenv("TRI_TEST_OBJECT_RAN");
    assert_int_equal(tri_reward_check(&o, NULL), TRI_OK);
    assert_int_equal(tri_reward_set_open(&o, 1, &env, &set), TRI_OK);
    tri_reward_set_close(&set);
    assert_null(getenv("TRI_TEST_OBJECT_RAN"));
    assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
    assert_non_null(getenv("TRI_TEST_OBJECT_RAN"));
    tri_reward_set_close(&set);
  }
}

/* A part of an object, a program and an object of another machine are refused. */
static void refuses_what_no_loader_takes(void **state) {
  char           path[] = "/tmp/tri_object_XXXXXX", byte[1 << 16], want[64];
  int            fd = mkstemp(path);
  FILE          *f = fopen(TRI_REWARD_OBJECTS "/libreward_object.so", "rb");
  size_t         n = f ? fread(byte, 1, sizeof byte, f) : 0;
  Elf64_Ehdr    *head = (Elf64_Ehdr *)(void *)byte;
  tri_reward_opt o = row(path, NULL);

  (void)state;
  assert_true(fd >= 0 && n > 64);
  fclose(f);
  for (size_t part = 0; part < 2048; part += 97) {
    assert_true(!ftruncate(fd, 0) && pwrite(fd, byte, part, 0) == (ssize_t)part);
    assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
    expect_refusal("check_file() reward.path");
    tri_error_clear();
  }
  snprintf(want, sizeof want, "check_file() reward.path ELF %d %d", head->e_machine ^ 64, head->e_machine);
  head->e_machine ^= 64;
  assert_int_equal(pwrite(fd, byte, n, 0), (ssize_t)n);
  assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
  expect_refusal(want);
  tri_error_clear();
  o = row(TRI_REWARD_CHILD, NULL);
  assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
  expect_refusal("check_file() reward.path reward_child");
  close(fd);
  unlink(path);
}

/* A table of relocations in the zeros behind a segment's bytes, as no linker writes it. It may have any size,
 * and refusing it takes no time. */
static void refuses_a_table_without_end(void **state) {
  static const struct {
    int64_t  tag;
    uint64_t value;
  } set[] = {{DT_RELASZ, (uint64_t)1 << 60}, {DT_RELA, 0}};
  char           path[] = "/tmp/tri_object_XXXXXX", byte[1 << 16];
  int            fd = mkstemp(path);
  FILE          *f = fopen(TRI_REWARD_OBJECTS "/libreward_object.so", "rb");
  size_t         n = f ? fread(byte, 1, sizeof byte, f) : 0;
  Elf64_Ehdr    *head = (Elf64_Ehdr *)(void *)byte;
  Elf64_Phdr    *p = (Elf64_Phdr *)(void *)(byte + head->e_phoff), *last = NULL;
  Elf64_Dyn     *d = NULL;
  tri_reward_opt o = row(path, NULL);

  (void)state;
  assert_true(fd >= 0 && n > 64);
  fclose(f);
  for (int i = 0; i < head->e_phnum; i++) {
    if (p[i].p_type == PT_LOAD) last = &p[i];
    if (p[i].p_type == PT_DYNAMIC) d = (Elf64_Dyn *)(void *)(byte + p[i].p_offset);
  }
  assert_true(last && d);
  for (; d->d_tag != DT_NULL; d++)
    for (int i = 0; i < 2; i++)
      if (d->d_tag == set[i].tag) d->d_un.d_val = set[i].value ? set[i].value : last->p_vaddr + (1U << 30);
  last->p_memsz = (uint64_t)1 << 62;
  assert_int_equal(pwrite(fd, byte, n, 0), (ssize_t)n);
  alarm(60);
  assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
  alarm(0);
  expect_refusal("tri_elf_points() reward.path 48038396025285290");
  tri_error_clear();
  close(fd);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(is_not_run_to_be_checked, teardown),
                                     cmocka_unit_test_teardown(gives_what_it_says, teardown),
                                     cmocka_unit_test_teardown(failures_are_its_own, teardown),
                                     cmocka_unit_test_teardown(on_error_is_obeyed, teardown),
                                     cmocka_unit_test_teardown(refuses_what_no_loader_takes, teardown),
                                     cmocka_unit_test_teardown(refuses_a_table_without_end, teardown),
                                     cmocka_unit_test_teardown(refuses, teardown)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
