/* test_tensorboard.c - the event file beside metrics.jsonl. Judges: a file made by TensorBoard's own writer
 * (tests/golden/make_tensorboard_golden.py), RFC 3720's CRCs, and this test's reader, with a bitwise CRC,
 * beside jansson's reading of metrics.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "events_case.h"

#include "report/events.h"
#include "report/tensorboard.h"
#include "refusal_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOW    1790000000.25 /* as the golden script has it, as DECK and add_* */
#define DECK   "run:\n  output: out # caf\xc3\xa9\n"
#define FIRST  "events.out.tfevents.1790000000.trireme"
#define SECOND "events.out.tfevents.1790000001.trireme"

static char top[64], lines[96], folder[96];

/* ---- the folder ---- */

static void put_file(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");

  assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static int setup(void **state) {
  (void)state;
  snprintf(top, sizeof top, "/tmp/tri_board_XXXXXX");
  if (!mkdtemp(top)) return -1;
  snprintf(lines, sizeof lines, "%s/metrics.jsonl", top);
  snprintf(folder, sizeof folder, "%s/tensorboard", top);
  tri_error_clear();
  return 0;
}

static int teardown(void **state) {
  char command[96];

  (void)state;
  tri_error_clear();
  snprintf(command, sizeof command, "rm -rf %s", top);
  return system(command);
}

static tri_metrics *start(int64_t keep_step, bool waits) {
  tri_metrics_board opt = {folder, DECK, 0, NOW, waits};
  tri_metrics      *m;

  assert_int_equal(tri_metrics_open(lines, keep_step, 0, &m), TRI_OK);
  assert_int_equal(tri_metrics_open_board(m, &opt), TRI_OK);
  return m;
}

static void add_0(tri_metrics *m) {
  tri_metric_text(m, "algo", "grpo");
  tri_metric_add(m, "eval_reward_mean", TRI_METRIC_RANK0, 0.1);
  tri_metric_add(m, "time_unix_s", TRI_METRIC_RANK0, 1790000001.5);
}

static void add_1(tri_metrics *m) {
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, -0.25);
  tri_metric_add(m, "reward_mean", TRI_METRIC_RANK0, (double)-INFINITY);
  tri_metric_add(m, "tokens_per_s", TRI_METRIC_RANK0, 12345.678);
  tri_metric_add(m, "mem_used_bytes", TRI_METRIC_RANK0, 34359738368.0);
  tri_metric_add(m, "time_unix_s", TRI_METRIC_RANK0, 1790000002.625);
}

static void add_300(tri_metrics *m) {
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 1e-40);
  tri_metric_add(m, "grad_norm", TRI_METRIC_RANK0, 3e38);
  tri_metric_add(m, "odd", TRI_METRIC_RANK0, 1e300);
  tri_metric_add(m, "time_unix_s", TRI_METRIC_RANK0, 1790000003.125);
  tri_metric_text(m, "alarms", "kl_high, truncation");
}

/* Steps 0, 1 and 300, with a late evaluation. */
static void take_steps(tri_metrics *m) {
  add_0(m);
  assert_int_equal(tri_metrics_write(m, 0), TRI_OK);
  add_1(m);
  assert_int_equal(tri_metrics_write(m, 1), TRI_OK);
  add_300(m);
  assert_int_equal(tri_metrics_put_off(m, 300), TRI_OK);
  tri_metric_add(m, "eval_reward_mean", TRI_METRIC_RANK0, 0.5);
  assert_int_equal(tri_metrics_complete(m), TRI_OK);
}

/* ---- cases ---- */

static void crcs_are_those_of_the_rfc(void **state) {
  unsigned char p[32] = {0};

  (void)state;
  assert_int_equal(tri_events_crc(p, 32), 0x8a9136aau);
  for (int i = 0; i < 32; i++) p[i] = (unsigned char)i;
  assert_int_equal(tri_events_crc(p, 32), 0x46dd794eu);
  assert_int_equal(tri_events_crc("123456789", 9), 0xe3069283u);
  for (size_t n = 0; n <= 32; n++) assert_int_equal(tri_events_crc(p, n), events_crc_by_bits(p, n));
}

static void the_file_is_that_of_tensorboards_writer(void **state) {
  tri_metrics *m = start(-1, false);
  char        *got, *want, path[128];
  size_t       n, n_want;

  (void)state;
  take_steps(m);
  tri_metrics_close(&m);
  snprintf(path, sizeof path, "%s/" FIRST, folder);
  assert_string_equal(events_file(folder), path);
  assert_int_equal(tri_file_read(path, 1 << 20, &got, &n), TRI_OK);
  assert_int_equal(tri_file_read(TRI_TEST_DATA "/tensorboard/golden.tfevents", 1 << 20, &want, &n_want),
                   TRI_OK);
  assert_int_equal(n, n_want);
  assert_memory_equal(got, want, n);
  tri_host_free((void **)&got);
  tri_host_free((void **)&want);
}

static void a_start_writes_it_anew(void **state) {
  static events_reading r;
  tri_metrics          *m = start(-1, false);

  (void)state;
  take_steps(m);
  tri_metrics_close(&m);
  m = start(300, false);
  assert_non_null(
      strstr(events_file(folder), SECOND)); /* the clock did not move, and still it is the newer one */
  assert_int_equal(events_check(folder, lines), 12);
  events_read(events_file(folder), &r);
  assert_int_equal(r.n_text, 2);
  assert_string_equal(r.text, "kl_high, truncation");
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 2);
  tri_metric_add(m, "time_unix_s", TRI_METRIC_RANK0, 1790000009);
  assert_int_equal(tri_metrics_write(m, 301), TRI_OK);
  assert_int_equal(events_check(folder, lines), 14);
  tri_metrics_close(&m);
  m = start(1, false); /* steps 300 and 301 are taken again */
  assert_int_equal(events_check(folder, lines), 7);
  add_300(m);
  assert_int_equal(tri_metrics_write(m, 300), TRI_OK);
  assert_int_equal(events_check(folder, lines), 11);
  tri_metrics_close(&m);
}

/* Before a run's first step it replaces a file that ends in half a record, or in none. */
static void damage_is_gone_with_the_next_start(void **state) {
  static const int cut[] = {1, 5, 200};
  tri_metrics     *m = start(-1, false);

  (void)state;
  take_steps(m);
  tri_metrics_close(&m);
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    struct stat sb;
    assert_true(!stat(events_file(folder), &sb) && !truncate(events_file(folder), sb.st_size - cut[i]));
    m = start(300, false);
    assert_int_equal(events_check(folder, lines), 12);
    tri_metrics_close(&m);
  }
  put_file(events_file(folder), "");
  m = start(300, false);
  assert_int_equal(events_check(folder, lines), 12);
  tri_metrics_close(&m);
}

/* Limits the bytes of files until the next call. -1 removes the limit. */
static void bound_files(int64_t bytes) {
  struct rlimit l;

  signal(SIGXFSZ, bytes < 0 ? SIG_DFL : SIG_IGN);
  assert_false(getrlimit(RLIMIT_FSIZE, &l));
  l.rlim_cur = bytes < 0 ? l.rlim_max : (rlim_t)bytes;
  assert_false(setrlimit(RLIMIT_FSIZE, &l));
}

/* The event file is larger than metrics.jsonl, because metrics.jsonl has no deck. */
static void a_full_disk_makes_it_wait(void **state) {
  tri_metrics *m = start(-1, false);
  struct stat  before, after;
  tri_status   st;

  (void)state;
  add_0(m);
  assert_int_equal(tri_metrics_write(m, 0), TRI_OK);
  assert_false(stat(events_file(folder), &before));
  bound_files(before.st_size + 20);
  add_1(m);
  st = tri_metrics_write(m, 1);
  bound_files(-1);
  assert_int_equal(st, TRI_EFILE);
  expect_refusal("/tensorboard/" FIRST ": writing failed");
  tri_error_clear();
  assert_true(!stat(events_file(folder), &after) && after.st_size == before.st_size);
  add_300(m);
  assert_int_equal(tri_metrics_write(m, 300), TRI_OK);
  assert_int_equal(events_check(folder, lines), 11);
  tri_metrics_close(&m);
}

static void a_disk_that_is_full_at_the_start_too(void **state) {
  char         path[128];
  tri_metrics *m;

  (void)state;
  bound_files(10);
  m = start(-1, false);
  bound_files(-1);
  snprintf(path, sizeof path, "%s/" FIRST, folder);
  assert_true(!tri_file_exists(path) && !tri_file_in(folder, "next") && !tri_file_in(folder, "next.tmp"));
  assert_string_equal(tri_error_message(), "");
  take_steps(m);
  assert_int_equal(events_check(folder, lines), 12);
  tri_metrics_close(&m);
}

/* There is space for the new file, but none to empty the old one. Both hold the steps until the next line. */
static void what_could_not_be_emptied_is_emptied_later(void **state) {
  static events_reading r;
  tri_metrics          *m = start(-1, false);
  char                  path[128];

  (void)state;
  take_steps(m);
  tri_metrics_close(&m);
  m = start(300, true);
  snprintf(path, sizeof path, "%s/" FIRST, folder);
  assert_true(!unlink(path) && !mkdir(path, 0777)); /* a file cannot take its place */
  tri_metric_add(m, "time_unix_s", TRI_METRIC_RANK0, 1790000009);
  assert_int_equal(tri_metrics_write(m, 301), TRI_EFILE);
  tri_error_clear();
  assert_false(rmdir(path));
  put_file(path, "older steps");
  tri_metric_add(m, "time_unix_s", TRI_METRIC_RANK0, 1790000009);
  assert_int_equal(tri_metrics_write(m, 302), TRI_OK);
  assert_int_equal(events_check(folder, lines), 14);
  events_read(path, &r);
  assert_true(r.n == 0 && r.n_text == 0 && r.n_start == 0);
  tri_metrics_close(&m);
}

/* A run without event files goes back some steps. The file loses these steps and keeps the content of the
 * lines. */
static void without_a_board_what_is_cut_goes_too(void **state) {
  tri_metrics_board opt = {folder, DECK, 0, NOW, false};
  tri_metrics      *m = start(-1, false);

  (void)state;
  take_steps(m);
  tri_metrics_close(&m);
  for (int keep = 300; keep >= 1; keep -= 299) {
    assert_int_equal(tri_metrics_open(lines, keep, 0, &m), TRI_OK);
    tri_metrics_cut_board(m, &opt);
    assert_true((strstr(events_file(folder), FIRST) != NULL) == (keep == 300));
    assert_int_equal(events_check(folder, lines), keep == 300 ? 12 : 7);
    tri_metrics_close(&m);
  }
}

static void a_link_is_refused(void **state) {
  tri_metrics_board opt = {folder, DECK, 0, NOW, false};
  char              other[96], path[160];
  tri_metrics      *m;

  (void)state;
  snprintf(other, sizeof other, "%s/other", top);
  snprintf(path, sizeof path, "%s/" FIRST, other);
  assert_true(!mkdir(other, 0777) && !symlink("other", folder));
  put_file(path, "another run's");
  assert_int_equal(tri_metrics_open(lines, -1, 0, &m), TRI_OK);
  assert_int_equal(tri_metrics_open_board(m, &opt), TRI_EFILE);
  expect_refusal("make_folder() tensorboard TensorBoard's --logdir");
  tri_error_clear();
  tri_metrics_close(&m);
  put_file(lines, "{\"step\": 1}\n");
  assert_int_equal(tri_metrics_open(lines, -1, 0, &m), TRI_OK);
  tri_metrics_cut_board(m, &opt);
  tri_metrics_close(&m);
  snprintf(path, sizeof path, "test \"$(cat %s/*)\" = \"another run's\"", other);
  assert_false(system(path));
}

static void what_others_wrote_stays(void **state) {
  char         path[160];
  tri_metrics *m;

  (void)state;
  assert_false(mkdir(folder, 0777));
  snprintf(path, sizeof path, "%s/" EVENTS_FOREIGN, folder);
  put_file(path, "theirs");
  for (int i = 0; i < 2; i++) {
    m = start(-1, false);
    take_steps(m);
    tri_metrics_close(&m);
    assert_int_equal(events_check(folder, lines), 12);
    assert_true(tri_file_exists(path));
  }
}

static void a_folder_that_cannot_be_had_is_an_error(void **state) {
  tri_metrics_board opt = {folder, DECK, 0, NOW, false};
  tri_metrics      *m;

  (void)state;
  assert_int_equal(tri_metrics_open(lines, -1, 0, &m), TRI_OK);
  put_file(folder, "a file");
  assert_int_equal(tri_metrics_open_board(m, &opt), TRI_EFILE);
  expect_refusal(folder);
  tri_error_clear();
  assert_true(!unlink(folder) && !symlink(TRI_PROGRAM "/none", folder));
  assert_int_equal(tri_metrics_open_board(m, &opt), TRI_EFILE);
  tri_error_clear();
  assert_false(unlink(folder));
  add_0(m); /* and the lines are written without it */
  assert_int_equal(tri_metrics_write(m, 0), TRI_OK);
  assert_false(tri_file_exists(folder));
  tri_metrics_close(&m);
}

/* A run without a step left changes nothing, unless its last evaluation is still to come. */
static void nothing_changes_before_a_line_comes(void **state) {
  tri_metrics *m = start(-1, true);

  (void)state;
  assert_false(tri_file_exists(folder));
  tri_metrics_close(&m);
  m = start(-1, true);
  take_steps(m);
  tri_metrics_close(&m);
  assert_int_equal(events_check(folder, lines), 12);
  assert_non_null(strstr(events_file(folder), FIRST));
  m = start(INT64_MAX, true);
  tri_metrics_close(&m);
  assert_non_null(strstr(events_file(folder), FIRST));
}

static void no_file_no_board(void **state) {
  tri_metrics_board opt = {folder, DECK, 0, NOW, false};
  tri_metrics      *m;

  (void)state;
  for (int rank = 0; rank < 2; rank++) {
    assert_int_equal(tri_metrics_open(rank ? lines : NULL, -1, rank, &m), TRI_OK);
    assert_int_equal(tri_metrics_open_board(m, &opt), TRI_OK);
    add_0(m);
    assert_int_equal(tri_metrics_write(m, 0), TRI_OK);
    tri_metrics_close(&m);
    assert_false(tri_file_exists(folder));
  }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {CASE(crcs_are_those_of_the_rfc),
                                     CASE(the_file_is_that_of_tensorboards_writer),
                                     CASE(a_start_writes_it_anew),
                                     CASE(damage_is_gone_with_the_next_start),
                                     CASE(a_full_disk_makes_it_wait),
                                     CASE(a_disk_that_is_full_at_the_start_too),
                                     CASE(what_could_not_be_emptied_is_emptied_later),
                                     CASE(without_a_board_what_is_cut_goes_too),
                                     CASE(a_link_is_refused),
                                     CASE(what_others_wrote_stays),
                                     CASE(a_folder_that_cannot_be_had_is_an_error),
                                     CASE(nothing_changes_before_a_line_comes),
                                     CASE(no_file_no_board)};
  tri_log_open(0, TRI_LOG_ERROR);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
