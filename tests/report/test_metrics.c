/* test_metrics.c - named numbers of a step, with reduction over ranks, the file, and cutting it back. Run
 * with 1, 2 and 3 ranks. Judges: sums and maxima written down per rank count, lines spelt out by hand,
 * jansson reading every number back. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/file.h"
#include "ranks_case.h"

#include "report/span.h"
#include "refusal_case.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[64], path[128]; /* this rank's own */

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_metrics_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tri_error_clear();
  unlink(path);
  return rmdir(folder);
}

static void put_file(const char *text) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void check_file(const char *want) {
  char  *got;
  size_t n;

  CHECK(tri_file_read(path, 1 << 20, &got, &n) == TRI_OK);
  if (strcmp(got, want)) fprintf(stderr, "got:  %s\nwant: %s\n", got, want);
  CHECK(!strcmp(got, want));
  tri_host_free((void **)&got);
}

/* Rank r adds r + 1 twice, so the sum is 2 (1 + .. + n) = n (n + 1). The others are the maxima of r and 10 -
 * r over ranks, and rank 0's last value. */
static void test_reduce(void **state) {
  int          n = world->size, r = world->rank;
  tri_metrics *m;

  (void)state;
  CHECK(tri_metrics_open(NULL, -1, r, &m) == TRI_OK);
  for (int step = 1; step < 3; step++) { /* write clears, so the second step is like the first */
    tri_metric_add(m, "sum", TRI_METRIC_SUM, r + 1);
    tri_metric_add(m, "max", TRI_METRIC_MAX, r);
    tri_metric_add(m, "max", TRI_METRIC_MAX, -5);
    tri_metric_add(m, "down", TRI_METRIC_MAX, 10 - r);
    tri_metric_text(m, "only_rank0", "x");
    tri_metric_add(m, "first", TRI_METRIC_RANK0, 7);
    tri_metric_add(m, "first", TRI_METRIC_RANK0, r + 0.25);
    tri_metric_add(m, "sum", TRI_METRIC_SUM, r + 1);
    tri_metric_add(m, "nan", TRI_METRIC_MAX, r == n - 1 ? (double)NAN : 3);
    tri_metric_add(m, "nan_first", TRI_METRIC_MAX, r == 0 ? (double)NAN : 3);
    tri_metric_add(m, "nan_first", TRI_METRIC_MAX, 4);
    tri_metric_add(m, "negative", TRI_METRIC_MAX, -3 - r);
    CHECK(tri_metrics_reduce(m, world) == TRI_OK);
    CHECK(tri_metric_get(m, "sum") == n * (n + 1));
    CHECK(tri_metric_get(m, "max") == n - 1 && tri_metric_get(m, "down") == 10);
    CHECK(tri_metric_get(m, "first") == 0.25 && tri_metric_get(m, "negative") == -3);
    CHECK(isnan(tri_metric_get(m, "nan")) && isnan(tri_metric_get(m, "nan_first")) &&
          isnan(tri_metric_get(m, "absent")));
    CHECK(tri_metrics_write(m, step) == TRI_OK);
    CHECK(isnan(tri_metric_get(m, "sum")));
  }
  CHECK(tri_metrics_reduce(m, world) == TRI_OK); /* no names at all */
  tri_metrics_close(&m);
  CHECK(!m);
  tri_metrics_close(&m);
}

/* 0.1 + ... in rank order, to the bit. */
static void test_sum_order(void **state) {
  double       want = 0.1;
  tri_metrics *m;

  (void)state;
  for (int r = 1; r < world->size; r++) want += 0.1 + r * 1e-3;
  CHECK(tri_metrics_open(NULL, -1, world->rank, &m) == TRI_OK);
  tri_metric_add(m, "x", TRI_METRIC_SUM, 0.1 + world->rank * 1e-3);
  CHECK(tri_metrics_reduce(m, world) == TRI_OK && tri_metric_get(m, "x") == want);
  tri_metrics_close(&m);
}

static void test_different_names(void **state) {
  tri_metrics *m;

  (void)state;
  if (world->size == 1) return;
  CHECK(tri_metrics_open(NULL, -1, world->rank, &m) == TRI_OK);
  tri_metric_add(m, world->rank == 1 ? "a" : "b", TRI_METRIC_SUM, 1);
  CHECK(tri_metrics_reduce(m, world) == TRI_EINTERNAL);
  tri_error_clear();
  CHECK(tri_metrics_write(m, 1) == TRI_OK);
  tri_metric_add(m, "a", TRI_METRIC_SUM, 1);
  if (world->rank == 1) tri_metric_add(m, "b", TRI_METRIC_SUM, 1);
  CHECK(tri_metrics_reduce(m, world) == TRI_EINTERNAL);
  tri_error_clear();
  tri_metrics_close(&m);
}

static void show(void *ctx, const char *name) {
  CHECK(!strcmp(name, "step"));
  ++*(int *)ctx;
}

static void test_spans(void **state) {
  double       begin, total, got;
  int          shown = 0;
  tri_metrics *m;

  (void)state;
  CHECK(tri_metrics_open(NULL, -1, world->rank, &m) == TRI_OK);
  tri_spans spans = {.metrics = m, .device = cpu, .show = show, .ctx = &shown};
  begin = tri_now_s();
  for (int i = 0; i < 3; i++) { /* nested, and entered three times */
    tri_span step = tri_span_begin(&spans, "step", TRI_SPAN_TIMED | TRI_SPAN_SHOWN);
    tri_span learn = tri_span_begin(&spans, "learn", TRI_SPAN_TIMED),
             update = tri_span_begin(&spans, "update", 0);
    for (double from = tri_now_s(); tri_now_s() < from + 1e-4;) continue;
    CHECK(tri_span_end(&spans, &update) >= 1e-4 && tri_span_end(&spans, &learn) >= 1e-4);
    tri_span_end(&spans, &step);
    CHECK(shown == i + 1 && spans.n_open == 0); /* "step" alone */
  }
  CHECK(!tri_metric_has(m, "time_update_s"));
  total = tri_now_s() - begin;
  got = tri_metric_get(m, "time_learn_s");
  CHECK(got >= 3e-4 && got <= tri_metric_get(m, "time_step_s") && tri_metric_get(m, "time_step_s") <= total);
  CHECK(tri_metrics_reduce(m, world) == TRI_OK);
  CHECK(tri_metric_get(m, "time_learn_s") >= got);
  tri_metrics_close(&m);
}

static void add_all(tri_metrics *m) {
  tri_metric_text(m, "algo", "gr\"po");
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 0.1);
  tri_metric_add(m, "tokens", TRI_METRIC_RANK0, 123456789012.0);
  tri_metric_add(m, "zero", TRI_METRIC_RANK0, 0);
  tri_metric_add(m, "minus", TRI_METRIC_RANK0, -3);
  tri_metric_add(m, "nan", TRI_METRIC_RANK0, NAN);
  tri_metric_add(m, "inf", TRI_METRIC_RANK0, -INFINITY);
  tri_metric_add(m, "big", TRI_METRIC_RANK0, 1e300);
}

#define REST                                                                                                 \
  ", \"algo\": \"gr\\\"po\", \"loss\": 0.1, \"tokens\": 123456789012, \"zero\": 0, "                         \
  "\"minus\": -3, "                                                                                          \
  "\"nan\": null, \"inf\": null, \"big\": 1e+300}\n"

static void write_step(tri_metrics *m, int64_t step) {
  add_all(m);
  CHECK(tri_metrics_reduce(m, NULL) == TRI_OK && tri_metrics_write(m, step) == TRI_OK);
}

static void test_file(void **state) {
  tri_metrics *m;

  (void)state;
  CHECK(tri_metrics_open(path, -1, 0, &m) == TRI_OK);
  write_step(m, 0);
  check_file("{\"step\": 0" REST); /* there before close */
  write_step(m, 1);
  tri_metrics_close(&m);
  check_file("{\"step\": 0" REST "{\"step\": 1" REST);
  CHECK(tri_metrics_open(path, 0, 0, &m) == TRI_OK); /* like a run resumed from step 0 */
  write_step(m, 1);
  write_step(m, 2);
  tri_metrics_close(&m);
  check_file("{\"step\": 0" REST "{\"step\": 1" REST "{\"step\": 2" REST);
  CHECK(tri_metrics_open(path, 99, 0, &m) == TRI_OK);
  tri_metrics_close(&m);
  check_file("{\"step\": 0" REST "{\"step\": 1" REST "{\"step\": 2" REST);
  CHECK(tri_metrics_open(path, -1, 1, &m) == TRI_OK); /* rank 1 touches nothing */
  write_step(m, 3);
  tri_metrics_close(&m);
  check_file("{\"step\": 0" REST "{\"step\": 1" REST "{\"step\": 2" REST);
  CHECK(tri_metrics_open(path, -1, 0, &m) == TRI_OK);
  tri_metrics_close(&m);
  check_file("");
}

/* Every cut of a file of three lines keeps exactly the whole lines of steps up to 2. */
static void test_cut(void **state) {
  static const char *const line[] = {"{\"step\": 1, \"a\": 1}\n", "{\"step\": 2}\n", "{\"step\": 3}\n"};
  char                     all[128] = "", begin[128], want[128];
  tri_metrics             *m;

  (void)state;
  for (int i = 0; i < 3; i++) strcat(all, line[i]);
  for (size_t n = 0; n <= strlen(all); n++) {
    snprintf(begin, sizeof begin, "%.*s", (int)n, all);
    put_file(begin);
    CHECK(tri_metrics_open(path, 2, 0, &m) == TRI_OK);
    tri_metrics_close(&m);
    want[0] = 0;
    if (n >= strlen(line[0])) strcat(want, line[0]);
    if (n >= strlen(line[0]) + strlen(line[1])) strcat(want, line[1]);
    check_file(want);
  }
}

/* Lines left by a crash or a person stay, and do not keep a run from continuing. */
static void test_strange_lines(void **state) {
  static const char *const strange[] = {"hello\n",           "\n",    "{}\n",
                                        "{\"step\": 1.0}\n", "[1]\n", "{\"step\": 1}}\n"};
  static const char        nuls[] = "{\"step\": 1}\n\0\0\0\0\n\0\0{\"step\": 2}\n{\"step\": 3}\n";
  tri_metrics             *m;
  char                     text[128], *got;
  size_t                   n;

  (void)state;
  for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
    snprintf(text, sizeof text, "{\"step\": 1}\n%s{\"step\": 2}\n", strange[i]);
    put_file(text);
    CHECK(tri_metrics_open(path, 2, 0, &m) == TRI_OK && !tri_metrics_is_new(m));
    tri_metrics_close(&m);
    check_file(text);
    put_file(strange[i]); /* and nothing else, as at the beginning of a run */
    CHECK(tri_metrics_open(path, 2, 0, &m) == TRI_OK && tri_metrics_is_new(m));
    tri_metrics_close(&m);
    check_file(strange[i]);
  }
  CHECK(tri_file_write(path, nuls, sizeof nuls - 1) == TRI_OK);
  CHECK(tri_metrics_open(path, 2, 0, &m) == TRI_OK);
  tri_metrics_close(&m);
  CHECK(tri_file_read(path, 1 << 10, &got, &n) == TRI_OK); /* step 2's counts as its */
  CHECK(n == sizeof nuls - 1 - strlen("{\"step\": 3}\n") && !memcmp(got, nuls, n));
  tri_host_free((void **)&got);
  CHECK(tri_metrics_open(folder, -1, 0, &m) == TRI_EFILE && !m); /* a folder */
  tri_error_clear();
}

/* Doubles of every size come back with the same bits. */
static void test_digits(void **state) {
  double       x[200];
  tri_metrics *m;
  uint64_t     s = 88172645463325252u;
  char        *text, name[16];
  size_t       n;

  (void)state;
  CHECK(tri_metrics_open(path, -1, 0, &m) == TRI_OK);
  for (int i = 0; i < 200; i++) {
    do {
      s ^= s << 13, s ^= s >> 7, s ^= s << 17;
      memcpy(&x[i], &s, sizeof s);
    } while (!isfinite(x[i]));
    if (i % 4 == 0) x[i] = (double)(int64_t)(s >> 8 * (i / 4 % 8)) * (i % 8 ? 1 : -1);
    if (i == 1) x[i] = -0.0;
    snprintf(name, sizeof name, "x%d", i);
    tri_metric_add(m, name, TRI_METRIC_RANK0, x[i]);
  }
  CHECK(tri_metrics_reduce(m, NULL) == TRI_OK && tri_metrics_write(m, 1) == TRI_OK);
  tri_metrics_close(&m);
  CHECK(tri_file_read(path, 1 << 20, &text, &n) == TRI_OK);
  json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  CHECK(json_object_size(line) == 201);
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "x%d", i);
    double got = json_number_value(json_object_get(line, name));
    CHECK(!memcmp(&got, &x[i], sizeof got));
  }
  json_decref(line);
  tri_host_free((void **)&text);
}

/* Limits the bytes of files until the next call. -1 removes the limit. */
static void bound_files(int64_t bytes) {
  struct rlimit l;

  signal(SIGXFSZ, bytes < 0 ? SIG_DFL : SIG_IGN);
  CHECK(!getrlimit(RLIMIT_FSIZE, &l));
  l.rlim_cur = bytes < 0 ? l.rlim_max : (rlim_t)bytes;
  CHECK(!setrlimit(RLIMIT_FSIZE, &l));
}

/* On a disk that is full after ten more bytes, write fails, the file stays as it was, and the next step
 * writes again. */
static void test_full(void **state) {
  tri_metrics *m;

  (void)state;
  CHECK(tri_metrics_open(path, -1, 0, &m) == TRI_OK);
  write_step(m, 1);
  bound_files((int64_t)strlen("{\"step\": 1" REST) + 10);
  add_all(m);
  CHECK(tri_metrics_reduce(m, NULL) == TRI_OK);
  tri_status st = tri_metrics_write(m, 2);
  bound_files(-1);
  CHECK(st == TRI_EFILE && refusal_is(path));
  tri_error_clear();
  check_file("{\"step\": 1" REST);
  write_step(m, 3);
  tri_metrics_close(&m);
  check_file("{\"step\": 1" REST "{\"step\": 2" REST "{\"step\": 3" REST); /* the line of step 2 waited */
}

/* A line with an interrupted evaluation ends up like any other line. Only rank 0 has a file. */
static void test_put_off(void **state) {
  tri_metrics *m;

  (void)state;
  CHECK(tri_metrics_open(path, -1, 0, &m) == TRI_OK);
  CHECK(tri_metrics_is_new(m) && !tri_metrics_is_due(m));
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 2);
  tri_spans spans = {.metrics = m, .device = cpu};
  tri_span  loss = tri_span_begin(&spans, "loss", TRI_SPAN_TIMED), part;
  tri_span_end(&spans, &loss);
  part = tri_span_begin(&spans, "loss", 0);
  tri_span_give_up(&spans, &part); /* without a time, so nothing is left out */
  CHECK(tri_metric_has(m, "time_loss_s") && spans.n_open == 0);
  tri_metric_forget_time(m, "loss");
  for (int i = 0; i < 2; i++) { /* the second part is given up, and with it the first */
    tri_span eval = tri_span_begin(&spans, "eval", TRI_SPAN_TIMED);
    if (i == 0) tri_span_end(&spans, &eval);
    if (i == 1) tri_span_give_up(&spans, &eval);
  }
  CHECK(tri_metrics_put_off(m, 3) == TRI_OK);
  tri_metrics_close(&m);
  check_file("{\"step\": 3, \"loss\": 2, \"eval\": \"due\"}\n");
  CHECK(tri_metrics_open(path, 3, 0, &m) == TRI_OK);
  CHECK(!tri_metrics_is_new(m) && tri_metrics_is_due(m));
  tri_metric_add(m, "pass", TRI_METRIC_RANK0, 1);
  CHECK(tri_metrics_complete(m) == TRI_OK && !tri_metrics_is_due(m));
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 4);
  CHECK(tri_metrics_write(m, 4) == TRI_OK);
  tri_metrics_close(&m);
  check_file("{\"step\": 3, \"loss\": 2, \"pass\": 1}\n{\"step\": 4, \"loss\": 4}\n");
}

/* On a full disk the interrupted evaluation waits, and the lines of later steps behind it. */
static void test_put_off_full(void **state) {
  static const char due[] = "{\"step\": 3, \"eval\": \"due\"}\n";
  tri_metrics      *m;
  tri_status        st[2];

  (void)state;
  put_file(due);
  CHECK(tri_metrics_open(path, 3, 0, &m) == TRI_OK);
  bound_files(10);
  tri_metric_add(m, "pass", TRI_METRIC_RANK0, 1);
  st[0] = tri_metrics_complete(m);
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 4);
  st[1] = tri_metrics_write(m, 4);
  bound_files(-1);
  CHECK(st[0] == TRI_EFILE && st[1] == TRI_EFILE && refusal_is(path));
  tri_error_clear();
  check_file(due);
  CHECK(tri_metrics_flush(m) == TRI_OK);
  check_file("{\"step\": 3, \"pass\": 1}\n{\"step\": 4, \"loss\": 4}\n");
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 5);
  CHECK(tri_metrics_write(m, 5) == TRI_OK);
  tri_metrics_close(&m);
  check_file("{\"step\": 3, \"pass\": 1}\n{\"step\": 4, \"loss\": 4}\n{\"step\": 5, \"loss\": 5}\n");
}

/* A file that is missing for a while is an error of files, not of the user's input. */
static void test_put_off_gone(void **state) {
  static const char due[] = "{\"step\": 3, \"eval\": \"due\"}\n";
  char              away[sizeof path + 8];
  tri_metrics      *m;

  (void)state;
  snprintf(away, sizeof away, "%s.away", path);
  put_file(due);
  CHECK(tri_metrics_open(path, 3, 0, &m) == TRI_OK);
  tri_metric_add(m, "pass", TRI_METRIC_RANK0, 1);
  CHECK(!rename(path, away));
  CHECK(tri_metrics_complete(m) == TRI_EFILE && refusal_is(path));
  tri_error_clear();
  CHECK(!rename(away, path));
  CHECK(tri_metrics_flush(m) == TRI_OK);
  tri_metrics_close(&m);
  check_file("{\"step\": 3, \"pass\": 1}\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reduce),
      cmocka_unit_test(test_sum_order),
      cmocka_unit_test(test_different_names),
      cmocka_unit_test(test_spans),
      cmocka_unit_test_setup_teardown(test_file, setup, teardown),
      cmocka_unit_test_setup_teardown(test_put_off, setup, teardown),
      cmocka_unit_test_setup_teardown(test_put_off_full, setup, teardown),
      cmocka_unit_test_setup_teardown(test_put_off_gone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
      cmocka_unit_test_setup_teardown(test_strange_lines, setup, teardown),
      cmocka_unit_test_setup_teardown(test_digits, setup, teardown),
      cmocka_unit_test_setup_teardown(test_full, setup, teardown),
  };

  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
