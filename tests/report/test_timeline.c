/* test_timeline.c - the shares beside compute, and the file of a run's first steps. Judges: numbers worked by
 * hand, and jansson reading the file back. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/timeline.h"
#include "base/file.h"
#include "trace_case.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static int setup(void **state) {
  snprintf(folder, sizeof folder, "/tmp/tri_timeline_XXXXXX");
  return mkdtemp(folder) ? trace_setup(state) : -1;
}

static int teardown(void **state) {
  char command[128];

  (void)trace_teardown(state);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

/* ---- shares beside compute ---- */

static void check_share(const tri_trace_span *span, int n, tri_lane lane, double beside_s, double total_s) {
  tri_timeline_share sum = {1, 2}; /* added to */

  OK(tri_timeline_share_add(span, n, lane, &sum));
  assert_true(sum.beside_s == 1 + beside_s && sum.total_s == 2 + total_s);
}

/* Whole seconds, for exact sums. */
static void shares_count_each_moment_once(void **state) {
  const tri_lane       P = TRI_LANE_PHASES, C = TRI_LANE_COMPUTE, G = TRI_LANE_GATHER, R = TRI_LANE_REDUCE;
  const tri_trace_span span[] = {
      {.lane = C, .begin_s = 20, .end_s = 30}, {.lane = C, .begin_s = 10, .end_s = 14},
      {.lane = C, .begin_s = 28, .end_s = 32},  /* overlaps the first */
      {.lane = C, .begin_s = 32, .end_s = 33},  /* touches it */
      {.lane = C, .begin_s = 40, .end_s = 40},  /* empty */
      {.lane = P, .begin_s = 0, .end_s = 100},  /* no compute */
      {.lane = G, .begin_s = 12, .end_s = 22},  /* 2 + 2 of 10 */
      {.lane = G, .begin_s = 0, .end_s = 10},   /* ends as compute begins, so 0 of 10 */
      {.lane = G, .begin_s = 20, .end_s = 26},  /* 12 .. 26 together with the first, so 4 more */
      {.lane = G, .begin_s = 29, .end_s = 36},  /* 4 of 7 */
      {.lane = R, .begin_s = 21, .end_s = 25},  /* all */
      {.lane = R, .begin_s = 50, .end_s = 51}}; /* nothing */
  const int n = sizeof span / sizeof *span;

  (void)state;
  check_share(span, n, TRI_LANE_GATHER, 2 + 6 + 4, 10 + 14 + 7);
  check_share(span, n, TRI_LANE_REDUCE, 4, 5);
  check_share(span, n, TRI_LANE_COMPUTE, 4 + 13, 4 + 13);
  check_share(span, 6, TRI_LANE_GATHER, 0, 0);
  check_share(span, 0, TRI_LANE_GATHER, 0, 0);
}

/* ---- the file ---- */

static tri_timeline *open_timeline(const char *under, const char *host, int64_t steps, int most_spans) {
  char             path[128];
  tri_timeline_opt opt = {3, host, path, steps, most_spans};
  tri_timeline    *t;

  snprintf(path, sizeof path, "%s/%s", folder, under);
  OK(tri_timeline_open(device, &opt, &t));
  return t;
}

/* Returns the single event with this name and this ph, and checks its numbers. */
static json_t *event_of(json_t *file, const char *ph, const char *name) {
  json_t *found = NULL, *e;
  size_t  i;

  json_array_foreach(json_object_get(file, "traceEvents"), i, e) {
    if (strcmp(json_string_value(json_object_get(e, "ph")), ph) ||
        strcmp(json_string_value(json_object_get(e, "name")), name))
      continue;
    if (found) fail_msg("two events %s", name);
    found = e;
  }
  if (!found) fail_msg("no event %s", name);
  assert_int_equal(json_integer_value(json_object_get(found, "pid")), 3);
  if (*ph == 'X')
    assert_true(json_real_value(json_object_get(found, "ts")) > 0 &&
                json_real_value(json_object_get(found, "dur")) >= 0);
  return found;
}

static json_t *arg(json_t *event, const char *name) {
  return json_object_get(json_object_get(event, "args"), name);
}

static void check_words(const tri_timeline *t, const char *want) {
  tri_text words = {0};

  OK(tri_timeline_words(t, &words));
  if (!want) assert_null(words.data);
  if (want) assert_non_null(strstr(words.data, want));
  tri_text_free(&words);
}

static void the_file_is_json_whatever_the_names(void **state) {
  tri_timeline *t = open_timeline("odd", "a\"b\\c\n\x01\xc3\xa9", 2, 3);
  char          path[128];
  json_t       *file, *e;
  json_error_t  error;

  (void)state;
  snprintf(path, sizeof path, "%s/odd/rank-3.json", folder);
  OK(tri_timeline_begin(t, 41, stream));
  put(TRI_LANE_COMPUTE, (tri_trace_note){"a \"layer\"\t", "back\\ward", "pol\"icy", 0}, stream);
  put(TRI_LANE_GATHER, (tri_trace_note){"layer 1", "weights", "policy", 1LL << 40}, stream);
  put(TRI_LANE_GATHER, note_of("all_gather", 7), stream);
  put(TRI_LANE_REDUCE, note_of("too many", 0), stream);
  OK(tri_timeline_end(t, false));
  assert_int_not_equal(access(path, F_OK), 0);
  check_words(t, NULL);
  OK(tri_timeline_begin(t, 42, stream));
  put(TRI_LANE_PHASES, note_of("learn", 0), NULL);
  OK(tri_timeline_end(t, false));
  assert_null(device->trace);
  OK(tri_timeline_begin(t, 43, stream)); /* no longer traced */
  OK(tri_timeline_end(t, true));

  file = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!file) fail_msg("line %d: %s", error.line, error.text);
  e = event_of(file, "M", "process_name");
  assert_string_equal(json_string_value(arg(e, "name")), "rank 3 on a\"b\\c\n\x01\xc3\xa9");
  e = event_of(file, "X", "a \"layer\"\t back\\ward");
  assert_string_equal(json_string_value(arg(e, "model")), "pol\"icy");
  assert_int_equal(json_integer_value(json_object_get(e, "tid")), TRI_LANE_COMPUTE);
  e = event_of(file, "X", "layer 1 weights");
  assert_true(json_integer_value(arg(e, "bytes")) == 1LL << 40);
  assert_int_equal(json_integer_value(arg(event_of(file, "X", "all_gather"), "bytes")), 7);
  assert_int_equal(json_integer_value(arg(event_of(file, "X", "step 41"), "dropped_spans")), 1);
  assert_true(json_is_null(arg(event_of(file, "X", "step 42"), "gather_beside_compute")));
  event_of(file, "X", "learn");
  assert_int_equal(json_integer_value(json_object_get(json_object_get(file, "otherData"), "dropped_spans")),
                   1);
  json_decref(file);
  check_words(t, "spans left out, as too many: 1, ");
  check_words(t, path);
  tri_timeline_close(&t);
}

/* A gather inside a layer and a reduction after it, on the host's clock. The words report the overlap. */
static void the_words_name_shares_and_file(void **state) {
  tri_timeline *t = open_timeline("words", "host", 9, 8);
  char          path[192];
  int           layer, gather, reduce;

  (void)state;
  OK(tri_timeline_begin(t, 1, stream));
  layer = tri_trace_begin(device->trace, TRI_LANE_COMPUTE, note_of("layer", 0), NULL);
  gather = tri_trace_begin(device->trace, TRI_LANE_GATHER, note_of("weights", 0), NULL);
  usleep(10);
  tri_trace_end(device->trace, gather, NULL);
  tri_trace_end(device->trace, layer, NULL);
  reduce = tri_trace_begin(device->trace, TRI_LANE_REDUCE, note_of("gradients", 0), NULL);
  usleep(10);
  tri_trace_end(device->trace, reduce, NULL);
  OK(tri_timeline_end(t, true)); /* the run's last step, before the ninth */
  snprintf(path, sizeof path,
           "100 %% of gathers and 0 %% of reductions ran beside compute, %s/words/rank-3.json", folder);
  check_words(t, path);
  tri_timeline_close(&t);
  assert_null(device->trace);
}

static void a_file_that_cannot_be_written_ends_no_run(void **state) {
  tri_timeline *t = open_timeline("plain", "host", 1, 8);
  char          path[128];

  (void)state;
  snprintf(path, sizeof path, "%s/plain", folder);
  OK(tri_file_write(path, "", 0));
  OK(tri_timeline_begin(t, 1, stream));
  OK(tri_timeline_end(t, false));
  check_words(t, NULL);
  assert_string_equal(tri_error_message(), "");
  tri_timeline_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_count_each_moment_once),
      cmocka_unit_test(the_file_is_json_whatever_the_names),
      cmocka_unit_test(the_words_name_shares_and_file),
      cmocka_unit_test(a_file_that_cannot_be_written_ends_no_run),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
