/* test_usage.c - resources of a run, and readings of a GPU. Judge: exact, by a fake NVML with given readings
 * (case/fake_nvml.c). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "fake_nvml.h"
#include "report/usage.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

static const unsigned char uuid[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                       0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
static fake_nvml          *said;

static int load_nvml(void **state) {
  void *library = dlopen(TRI_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);

  (void)state;
  if (library) said = dlsym(library, "fake_nvml_state");
  return said ? 0 : -1;
}

static int nothing_said(void **state) {
  (void)state;
  memset(said, 0, sizeof *said);
  return 0;
}

static void all_is_read_in_units(void **state) {
  tri_gauge        *g;
  tri_gauge_reading r;

  (void)state;
  *said = (fake_nvml){.percent = 75, .milliwatts = 650500, .megahertz = 1980, .millijoules = 12345678};
  said->power_ns = 1500000000;
  said->heat_ns = 250000000;
  assert_int_equal(tri_gauge_open(uuid, &g), TRI_OK);
  assert_non_null(g);
  r = tri_gauge_read(g);
  assert_true(r.busy_ratio == 0.75 && fabs(r.power_w - 650.5) < 1e-9 && fabs(r.energy_j - 12345.678) < 1e-9);
  assert_true(r.clock_hz == 1.98e9 && fabs(r.slowed_s - 1.75) < 1e-9);
  tri_gauge_close(&g);
  assert_null(g);
  assert_int_equal(said->opened, 0);
}

static void what_it_does_not_say_is_no_number(void **state) {
  tri_gauge        *g;
  tri_gauge_reading r;

  (void)state;
  said->fails = true;
  assert_int_equal(tri_gauge_open(uuid, &g), TRI_OK);
  r = tri_gauge_read(g);
  assert_true(isnan(r.busy_ratio) && isnan(r.power_w) && isnan(r.energy_j) && isnan(r.clock_hz));
  assert_true(isnan(r.slowed_s));
  tri_gauge_close(&g);
  r = tri_gauge_read(NULL);
  assert_true(isnan(r.busy_ratio) && isnan(r.slowed_s));
}

static void another_gpu_has_no_gauge(void **state) {
  unsigned char other[16] = {1};
  tri_gauge    *g;

  (void)state;
  assert_int_equal(tri_gauge_open(other, &g), TRI_OK);
  assert_null(g);
  assert_int_equal(said->opened, 0);
}

/* A run of two ranks, including this one. The energy of both is known once their sums are made. */
static void metrics_are_of_all_gpus(void **state) {
  tri_usage    u = {.reads = true, .read_s = tri_now_s() - 2};
  tri_metrics *m;
  double       watts;

  (void)state;
  *said = (fake_nvml){.percent = 50, .megahertz = 1000, .millijoules = 1000000, .power_ns = 5};
  assert_int_equal(tri_gauge_open(uuid, &u.gauge), TRI_OK);
  u.last = tri_gauge_read(u.gauge);
  said->millijoules += 800000;
  said->power_ns += 500000000;
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_usage_report(&u, m, 2);
  watts = 800 / u.spent_s;
  assert_true(u.spent_s >= 2);
  assert_true(fabs(tri_metric_get(m, "gpu_joules_per_s") - watts / 2) < 1e-9 * watts);
  assert_true(tri_metric_get(m, "gpu_cycles_per_s") == 1e9);
  assert_true(tri_metric_get(m, "gpu_busy_s_per_s") == 0.25);
  assert_true(fabs(tri_metric_get(m, "time_gpu_slowed_s") - 0.5) < 1e-9);
  tri_metric_add(m, "gpu_joules_per_s", TRI_METRIC_SUM, watts / 2); /* the other's */
  tri_usage_add(&u, m, 2);
  assert_true(fabs(u.energy_j - 1600) < 1e-6);
  tri_metrics_close(&m);
  tri_usage_close(&u);
}

/* A GPU without an energy counter, from before Volta, is asked for its power. */
static void power_stands_for_energy(void **state) {
  tri_usage    u = {.reads = true, .read_s = tri_now_s() - 1, .last.energy_j = NAN};
  tri_metrics *m;

  (void)state;
  said->milliwatts = 250000;
  assert_int_equal(tri_gauge_open(uuid, &u.gauge), TRI_OK);
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_usage_report(&u, m, 1);
  assert_true(tri_metric_get(m, "gpu_joules_per_s") == 250);
  tri_metrics_close(&m);
  tri_usage_close(&u);
}

static void the_slowest_clock_counts(void **state) {
  tri_metrics *m;

  (void)state;
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_metric_add(m, "clock", TRI_METRIC_MIN, 3);
  tri_metric_add(m, "clock", TRI_METRIC_MIN, 2);
  tri_metric_add(m, "clock", TRI_METRIC_MIN, 4);
  assert_true(tri_metric_get(m, "clock") == 2);
  tri_metric_add(m, "clock", TRI_METRIC_MIN, NAN);
  tri_metric_add(m, "clock", TRI_METRIC_MIN, 1);
  assert_true(isnan(tri_metric_get(m, "clock")));
  tri_metrics_close(&m);
}

static void a_cpu_has_no_metrics_of_gpus(void **state) {
  tri_usage    u = {0};
  tri_metrics *m;

  (void)state;
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_usage_report(&u, m, 1);
  assert_false(tri_metric_has(m, "gpu_joules_per_s"));
  tri_metrics_close(&m);
}

static void phases_share_the_time(void **state) {
  tri_usage u = {.began_s = 100, .energy_j = NAN};
  tri_text  text = {0};

  (void)state;
  tri_usage_spend(&u, "another", 1);
  tri_usage_spend(&u, "eval", 9);
  tri_usage_spend(&u, "rollout", 30);
  tri_usage_spend(&u, "learn", 20);
  tri_usage_spend(&u, "rollout", 30);
  assert_int_equal(tri_usage_time_words(&u, 200, &text), TRI_OK);
  assert_string_equal(text.data, "rollout 60 %, learn 20 %, eval 9 %, another 1 %, other 10 %");
  tri_text_free(&text);
  assert_int_equal(tri_usage_words(&u, 3700, 0, 16, &text), TRI_OK);
  assert_string_equal(text.data, "16 core hours");
  tri_text_free(&text);
  u.energy_j = 7.2e6;
  assert_int_equal(tri_usage_words(&u, 1900, 8, 64, &text), TRI_OK);
  assert_string_equal(text.data, "4 GPU hours, 2 kWh of the GPUs");
  tri_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(all_is_read_in_units, nothing_said),
      cmocka_unit_test_setup(what_it_does_not_say_is_no_number, nothing_said),
      cmocka_unit_test_setup(another_gpu_has_no_gauge, nothing_said),
      cmocka_unit_test_setup(metrics_are_of_all_gpus, nothing_said),
      cmocka_unit_test_setup(power_stands_for_energy, nothing_said),
      cmocka_unit_test(the_slowest_clock_counts),
      cmocka_unit_test(a_cpu_has_no_metrics_of_gpus),
      cmocka_unit_test(phases_share_the_time),
  };

  return cmocka_run_group_tests(tests, load_nvml, NULL);
}
