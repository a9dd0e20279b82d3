/* test_machine.c - tests the table of machines, the calibration file (written, read, refused) and the seconds
 * of rings. Judge: exact, and arithmetic by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "machine/machine.h"

#include "base/file.h"
#include "refusal_case.h"

#include <stdarg.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/test_machine.XXXXXX");
  return !mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1);
}

static int remove_folder(void **state) {
  char command[96];

  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void assert_refused(tri_status st, tri_status want, const char *part) {
  assert_int_equal(st, want);
  expect_refusal(part);
  tri_error_clear();
}

static void names_and_sizes_find_a_gpu(void **state) {
  static const char *const named[] = {"a100-40", "a100-80",    "h100-80",    "h200",      "gh200",
                                      "b200",    "a10-24",     "a40-48",     "l4-24",     "l40-48",
                                      "l40s-48", "rtx3090-24", "rtx4090-24", "rtx5090-32"};
  tri_machine              m;

  (void)state;
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    assert_int_equal(tri_machine_find(named[i], &m), TRI_OK);
    assert_string_equal(m.name, named[i]);
    assert_int_equal(tri_machine_check(&m, "x"), TRI_OK);
  }
  assert_int_equal(tri_machine_find("B200", &m), TRI_OK);
  assert_string_equal(m.name, "b200");
  assert_int_equal(tri_machine_find("80", &m), TRI_OK);
  assert_string_equal(m.name, "h100-80");
  assert_true(m.device_bytes == (int64_t)80 << 30);
  assert_int_equal(tri_machine_find("40.5", &m), TRI_OK);
  assert_string_equal(m.name, "a100-40");
  assert_true(m.device_bytes == (int64_t)81 << 29);
  assert_int_equal(tri_machine_find("94", &m), TRI_OK); /* an H100 of 94 GB, behind PCIe */
  assert_string_equal(m.name, "h100-80");
  assert_int_equal(tri_machine_find("24", &m), TRI_OK);
  assert_string_equal(m.name, "l4-24");
  assert_int_equal(tri_machine_find("48", &m), TRI_OK);
  assert_string_equal(m.name, "l40s-48");
  assert_int_equal(tri_machine_find("L40S", &m), TRI_OK);
  assert_string_equal(m.name, "l40s-48");
  assert_true(m.flops_bf16 > 1.4e14 && m.flops_bf16 < 1.5e14); /* 0.4 of the dense 362 */
}

static void others_are_refused_by_reason(void **state) {
  tri_machine m;

  (void)state;
  assert_refused(tri_machine_find("h100_80", &m), TRI_EARG, "fail_unknown() --gpu h100-80?");
  assert_refused(tri_machine_find("v100-32", &m), TRI_EARG, "tri_machine_find() --gpu GPU 7.0");
  assert_refused(tri_machine_find("V100", &m), TRI_EARG, "tri_machine_find() --gpu GPU 7.0");
  assert_refused(tri_machine_find("p100", &m), TRI_EARG,
                 "fail_unknown() GPU a100-40 a100-80 h100-80 h200 gh200 b200 p100");
  assert_refused(tri_machine_find("a100", &m), TRI_EARG, "fail_unknown() a100 a100-40?");
  assert_refused(tri_machine_find("", &m), TRI_EARG, "fail_unknown() a100-40 a100-80 h100-80");
  assert_refused(tri_machine_find("80x", &m), TRI_EARG, "fail_unknown() --gpu 80x GPU");
  assert_refused(tri_machine_find("0.5", &m), TRI_EARG, "tri_machine_find() 1 4096 GiB");
  assert_refused(tri_machine_find("nan", &m), TRI_EARG, "tri_machine_find() 1 4096 GiB");
}

static void a_driver_s_name_finds_the_row(void **state) {
  tri_machine m = {0};

  (void)state;
  assert_true(tri_machine_guess("NVIDIA A100-SXM4-40GB", (int64_t)42 << 30, &m));
  assert_string_equal(m.name, "a100-40");
  assert_true(m.device_bytes == (int64_t)42 << 30);
  assert_true(tri_machine_guess("NVIDIA H200", (int64_t)139 << 30, &m));
  assert_string_equal(m.name, "h200");
  assert_true(tri_machine_guess("NVIDIA GH200 480GB", (int64_t)94 << 30, &m));
  assert_string_equal(m.name, "gh200");
  assert_true(m.host_bytes_per_s > 2e11); /* NVLink-C2C, not PCIe */
  assert_true(tri_machine_guess("NVIDIA GH200 144G HBM3e", (int64_t)140 << 30, &m));
  assert_string_equal(m.name, "gh200");
  assert_true(tri_machine_guess("NVIDIA L40S", (int64_t)44 << 30, &m));
  assert_string_equal(m.name, "l40s-48");
  assert_true(tri_machine_guess("NVIDIA L40", (int64_t)44 << 30, &m));
  assert_string_equal(m.name, "l40-48");
  assert_true(tri_machine_guess("NVIDIA L4", (int64_t)22 << 30, &m));
  assert_string_equal(m.name, "l4-24");
  assert_true(tri_machine_guess("NVIDIA A10G", (int64_t)22 << 30, &m));
  assert_string_equal(m.name, "a10-24");
  assert_true(tri_machine_guess("NVIDIA GeForce RTX 4090", (int64_t)23 << 30, &m));
  assert_string_equal(m.name, "rtx4090-24");
  assert_false(tri_machine_guess("NVIDIA RTX A4000", (int64_t)15 << 30, &m)); /* not an A40 */
  assert_false(tri_machine_guess("NVIDIA RTX A1000", (int64_t)7 << 30, &m));  /* not an A100 */
  assert_true(tri_machine_guess("NVIDIA H200", (int64_t)139 << 30, &m));
  assert_false(tri_machine_guess("emulated GPU", (int64_t)1 << 30, &m));
  assert_string_equal(m.name, "h200");
}

/* Another job ends at the same time and writes its own file there. */
static void stands_beside(const char *path, bool write) {
  char   name[TRI_MACHINE_PATH_BYTES + 8], *bytes = NULL;
  size_t n;

  snprintf(name, sizeof name, "%s.tmp", path);
  if (write) assert_int_equal(tri_file_write(name, "theirs", 6), TRI_OK);
  assert_int_equal(tri_file_read(name, 100, &bytes, &n), TRI_OK);
  assert_string_equal(bytes, "theirs");
  TRI_FREE(bytes);
  if (!write) assert_int_equal(unlink(name), 0);
}

static void what_is_written_is_read(void **state) {
  tri_machine m, got = {0};
  char        path[TRI_MACHINE_PATH_BYTES], want[128];
  bool        found = true;

  (void)state;
  tri_machine_host(2, (int64_t)123456789 << 8, &m);
  strcpy(m.name, "measured");
  m.node.alpha_s = 1.0 / 3;
  assert_int_equal(tri_machine_path("cpu", 2, path), TRI_OK);
  snprintf(want, sizeof want, "%s/trireme/machine-cpu-2.json", folder);
  assert_string_equal(path, want);
  assert_int_equal(tri_machine_read(path, &got, &found), TRI_OK);
  assert_false(found);
  for (int turn = 0; turn < 2; turn++) { /* the second divided by the first */
    m.disk_bytes_per_s += turn;
    assert_int_equal(tri_machine_write(path, &m), TRI_OK);
    assert_int_equal(tri_machine_read(path, &got, &found), TRI_OK);
    assert_true(found);
    assert_string_equal(got.name, m.name);
    assert_true(got.device_bytes == m.device_bytes && got.node.alpha_s == m.node.alpha_s);
    assert_true(got.cross.bytes_per_s == m.cross.bytes_per_s && got.flops_bf16 == m.flops_bf16);
    assert_true(got.disk_bytes_per_s == m.disk_bytes_per_s && got.mem_bytes_per_s == m.mem_bytes_per_s);
    assert_true(got.flops_f32 == m.flops_f32 && got.host_bytes_per_s == m.host_bytes_per_s);
    stands_beside(path, turn == 0);
  }
}

/* Replaces the first `from` by `to`, of the same length. */
static void change(const char *path, const char *from, const char *to) {
  char  *bytes, *at;
  size_t n;

  assert_int_equal(tri_file_read(path, 1 << 16, &bytes, &n), TRI_OK);
  at = strstr(bytes, from);
  assert_non_null(at);
  assert_int_equal(strlen(from), strlen(to));
  memcpy(at, to, strlen(to));
  assert_int_equal(tri_file_write(path, bytes, n), TRI_OK);
  tri_host_free((void **)&bytes);
}

static void a_damaged_file_is_refused_by_field(void **state) {
  static const struct {
    const char *from, *to, *said;
  } bad[] = {{"\"version\": 1", "\"version\": 2", "get_head() machine-cuda.json version 1"},
             {"trireme-machine", "trireme_machine", "`format`"},
             {"flops_bf16", "flops_bf17", "get_number() machine-cuda.json flops_bf16"},
             {"\"name\": \"", "\"nome\": \"", "`name`"},
             {"0.25", "-0.2", "tri_machine_check() cross.alpha_s -0.2 0"},
             {"0.25", "null", "get_number() machine-cuda.json cross.alpha_s"},
             {"alpha_s", "alpha_t", "`node.alpha_s`"},
             {"{", "[", "tri_machine_read() machine-cuda.json:2 ]"}};
  tri_machine m, got;
  char        path[TRI_MACHINE_PATH_BYTES];
  bool        found;

  (void)state;
  tri_machine_host(1, 1 << 30, &m);
  m.cross.alpha_s = 0.25;
  assert_int_equal(tri_machine_path("cuda", 1, path), TRI_OK);
  assert_non_null(strstr(path, "/machine-cuda.json"));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(tri_machine_write(path, &m), TRI_OK);
    change(path, bad[i].from, bad[i].to);
    assert_refused(tri_machine_read(path, &got, &found), TRI_EINPUT, bad[i].said);
    assert_true(strstr(bad[i].said, "tri_machine_read() machine-cuda.json:2 ]") || found);
  }
  m.flops_f32 = 0;
  assert_refused(tri_machine_write(path, &m), TRI_EINPUT,
                 "tri_machine_check() machine-cuda.json flops_f32 0");
}

static void the_better_of_two_measurements_stays(void **state) {
  const char *kept[TRI_MACHINE_FIGURES];
  tri_machine before, m, want;

  (void)state;
  tri_machine_host(2, (int64_t)64 << 30, &m);
  want = before = m;
  assert_int_equal(tri_machine_better(&before, &m, kept), 0);
  before.flops_f32 = m.flops_f32 / 2; /* a busy machine */
  before.cross.alpha_s = m.cross.alpha_s * 2;
  assert_int_equal(tri_machine_better(&before, &m, kept), 0);
  assert_memory_equal(&m, &want, sizeof m);
  want.mem_bytes_per_s = before.mem_bytes_per_s = m.mem_bytes_per_s * 2;
  want.node.alpha_s = before.node.alpha_s = m.node.alpha_s / 2;
  assert_int_equal(tri_machine_better(&before, &m, kept), 2);
  assert_string_equal(kept[0], "mem_bytes_per_s");
  assert_string_equal(kept[1], "node.alpha_s");
  assert_memory_equal(&m, &want, sizeof m);
  before.device_bytes *= 2; /* another machine */
  before.disk_bytes_per_s *= 2;
  assert_int_equal(tri_machine_better(&before, &m, kept), 0);
  assert_memory_equal(&m, &want, sizeof m);
}

static void without_a_home_there_is_no_file(void **state) {
  char path[TRI_MACHINE_PATH_BYTES], want[128];

  (void)state;
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", folder, 1);
  assert_int_equal(tri_machine_path("cpu", 3, path), TRI_OK);
  snprintf(want, sizeof want, "%s/.cache/trireme/machine-cpu-3.json", folder);
  assert_string_equal(path, want);
  unsetenv("HOME");
  assert_refused(tri_machine_path("cpu", 3, path), TRI_EFILE, "tri_machine_path() XDG_CACHE_HOME HOME");
  setenv("XDG_CACHE_HOME", folder, 1);
}

static void is_second(double got, double want) { /* a relative difference of 1e-12, only rounding */
  if (!(fabs(got - want) <= 1e-12 * want)) fail_msg("%.17g s, by hand %.17g", got, want);
}

/* Round figures, 1e8 bytes a second in the node and 1e7 between nodes. */
static void rings_take_hops_and_the_slowest_link(void **state) {
  const tri_machine m = {.node = {1e-5, 1e8}, .cross = {1e-4, 1e7}};

  (void)state;
  is_second(tri_machine_ring(&m, 1, 1, 1e6), 0);
  is_second(tri_machine_ring(&m, 4, 1, 1e6), 3e-5 + 1e6 * 0.75 / 1e8);
  /* two crossings and five hops inside; the slowest link carries 7/8 of the bytes */
  is_second(tri_machine_ring(&m, 8, 2, 1e6), 2e-4 + 5e-5 + 1e6 * 0.875 / 1e7);
  is_second(tri_machine_ring(&m, 2, 2, 1e6), 1e-4 + 1e6 * 0.5 / 1e7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_sizes_find_a_gpu),
      cmocka_unit_test(others_are_refused_by_reason),
      cmocka_unit_test(a_driver_s_name_finds_the_row),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(a_damaged_file_is_refused_by_field),
      cmocka_unit_test(without_a_home_there_is_no_file),
      cmocka_unit_test(the_better_of_two_measurements_stays),
      cmocka_unit_test(rings_take_hops_and_the_slowest_link),
  };

  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
