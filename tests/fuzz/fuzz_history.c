/* fuzz_history.c - a run's output folder (src/tools/history, src/tools/look), from metrics.jsonl, run.jsonl
 * and deck.yaml, separated by 0x01.
 *
 * Reading all at once must give the same as reading in pieces. For each line jansson is the judge. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <math.h>

#include "fuzz_case.h"
#include "tools/history/history.h"
#include "tools/look/look.h"

FUZZ_QUIET_START

static const char *in(const char *name) {
  static char path[128];

  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  return path;
}

static void append(const char *name, const char *p, size_t n) {
  int fd = open(in(name), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

  FUZZ_CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
  close(fd);
}

static void check_same(const tri_history *a, const tri_history *b) {
  FUZZ_CHECK(tri_history_rows(a) == tri_history_rows(b));
  FUZZ_CHECK(tri_history_n_series(a) == tri_history_n_series(b));
  FUZZ_CHECK(tri_history_bad_lines(a) == tri_history_bad_lines(b));
  FUZZ_CHECK(tri_history_n_alarms(a) == tri_history_n_alarms(b));
  FUZZ_CHECK(tri_history_n_keys(a) == tri_history_n_keys(b));
  for (int i = 0; i < tri_history_n_series(a); i++) {
    FUZZ_CHECK(!strcmp(tri_history_name(a, i), tri_history_name(b, i)));
    FUZZ_CHECK(fuzz_is_utf8(tri_history_name(a, i), strlen(tri_history_name(a, i))));
    tri_history_points p = tri_history_points_of(a, i), q = tri_history_points_of(b, i);
    FUZZ_CHECK(p.n == q.n && p.n <= tri_history_rows(a));
    FUZZ_CHECK(fuzz_same(p.value, q.value, (size_t)p.n * sizeof(double)));
    FUZZ_CHECK(fuzz_same(p.row, q.row, (size_t)p.n * sizeof *p.row));
  }
  for (int i = 0; i < tri_history_n_alarms(a); i++) {
    FUZZ_CHECK(!strcmp(tri_history_alarm(a, i), tri_history_alarm(b, i)));
    FUZZ_CHECK(fuzz_is_utf8(tri_history_alarm(a, i), strlen(tri_history_alarm(a, i))));
    FUZZ_CHECK(!strcmp(tri_history_alarm_code(a, i), tri_history_alarm_code(b, i)));
    FUZZ_CHECK(tri_history_alarm_step(a, i) == tri_history_alarm_step(b, i));
    FUZZ_CHECK(tri_history_alarm_is_error(a, i) == tri_history_alarm_is_error(b, i));
  }
  FUZZ_CHECK(tri_history_starts(a) == tri_history_starts(b));
  FUZZ_CHECK(tri_history_said_steps(a) == tri_history_said_steps(b));
  FUZZ_CHECK(tri_history_bad_events(a) == tri_history_bad_events(b));
  FUZZ_CHECK(tri_history_ending(a).state == tri_history_ending(b).state);
  FUZZ_CHECK(!strcmp(tri_history_phase(a), tri_history_phase(b)));
  for (int64_t i = 1; i < tri_history_rows(a); i++)
    FUZZ_CHECK(tri_history_step(a)[i - 1] < tri_history_step(a)[i]);
}

/* Largest size of a name with its NUL (history_impl.h), and the largest step (rows.c). */
enum { NAME_BYTES = 96 };
static const int64_t STEP_MOST = 1000000000000000;

/* Checks that the line is accepted exactly if it is valid, and that the last row has its values. */
static void check_line(const tri_history *h, int64_t bad, const char *line, size_t n) {
  json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL),
         *value = json_object_get(object, "step");
  bool good =
      json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= STEP_MOST;
  const char *name;

  json_object_foreach(object, name, value) good &= strlen(name) > 0;
  FUZZ_CHECK(good == (tri_history_bad_lines(h) == bad) || strspn(line, " \t\r") == n);
  json_object_foreach(object, name, value) {
    int i = good ? tri_history_find(h, name) : -1;
    if (!good || !strcmp(name, "step")) continue;
    if (strlen(name) >= NAME_BYTES) { /* too long for our names, only this name is left out */
      FUZZ_CHECK(i < 0);
      continue;
    }
    FUZZ_CHECK((i >= 0) >= (json_is_number(value) || json_is_null(value)));
    if (i < 0) continue;
    double x = tri_history_at(h, i, tri_history_rows(h) - 1);
    FUZZ_CHECK(json_is_number(value) ? x == json_number_value(value) : isnan(x));
  }
  json_decref(object);
}

static bool is_event(const json_t *object, const char *name) {
  const char *event = json_string_value(json_object_get(object, "event"));

  return event && !strcmp(event, name);
}

/* Checks starts and ends against jansson's reading of the whole lines of this version. */
static void check_events(const tri_history *h, fuzz_part log) {
  const char *at = log.p, *end = log.p + log.n, *newline;
  int         starts = 0;

  for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1) {
    json_t *object = json_loadb(at, (size_t)(newline - at), JSON_REJECT_DUPLICATES, NULL),
           *v = json_object_get(object, "v");
    starts += json_is_integer(v) && json_integer_value(v) == 1 && is_event(object, "start");
    json_decref(object);
  }
  FUZZ_CHECK(tri_history_starts(h) == starts);
  FUZZ_CHECK((tri_history_start(h) != NULL) == (starts > 0));
}

static void grow(tri_history *h, fuzz_part metrics) {
  const char *at = metrics.p, *end = metrics.p + metrics.n, *newline;
  bool        changed;

  while (at < end) {
    int64_t bad = tri_history_bad_lines(h);
    newline = memchr(at, '\n', (size_t)(end - at));
    size_t n = (size_t)((newline ? newline + 1 : end) - at);
    append("metrics.jsonl", at, n / 2);
    FUZZ_CHECK(tri_history_refresh(h, &changed) == TRI_OK);
    append("metrics.jsonl", at + n / 2, n - n / 2);
    FUZZ_CHECK(tri_history_refresh(h, &changed) == TRI_OK && changed);
    if (newline) {
      char *line = strndup(at, n - 1); /* with a NUL at the end, the text stops at a NUL inside */
      if (strlen(line) == n - 1) check_line(h, bad, line, n - 1);
      free(line);
    }
    at += n;
  }
}

/* Checks that the screen's lines fit and are UTF-8 without control characters for any files, and that the
 * JSON is valid. */
static void check_look(void) {
  const char  *folder = fuzz_folder();
  tri_look    *l = NULL;
  tri_text     text = {0}, json = {0};
  tri_look_how how = {.columns = 20};

  FUZZ_CHECK(tri_look_open(&folder, 1, &l) == TRI_OK);
  for (; how.columns < 200; how.columns = how.columns * 2 + 7, how.utf8 = !how.utf8) {
    text.len = 0;
    FUZZ_CHECK(tri_look_draw(l, &how, 2e9, &text) == TRI_OK && fuzz_is_utf8(text.data, text.len));
    for (size_t i = 0, n = 0; i < text.len; i++) {
      n = text.data[i] == '\n' ? 0 : n + ((text.data[i] & 0xC0) != 0x80);
      FUZZ_CHECK(n <= (size_t)how.columns && (text.data[i] == '\n' || (unsigned char)text.data[i] >= ' '));
    }
  }
  FUZZ_CHECK(tri_look_json(l, &how, 2e9, &json) == TRI_OK);
  json_t *object = json_loadb(json.data, json.len, JSON_REJECT_DUPLICATES, NULL);
  FUZZ_CHECK(json_is_object(object));
  json_decref(object);
  tri_text_free(&text);
  tri_text_free(&json);
  tri_look_close(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part    metrics = fuzz_next(&data, &n), log = fuzz_next(&data, &n), deck = fuzz_next(&data, &n);
  tri_history *grown = NULL, *whole = NULL;
  bool         changed;

  if (metrics.n > 1 << 12) return -1;
  fuzz_begin();
  unlink(in("metrics.jsonl"));
  append("metrics.jsonl", "", 0);
  unlink(in("run.jsonl"));
  append("run.jsonl", log.p, log.n / 2);
  fuzz_write(in("deck.yaml"), deck.p, deck.n);
  FUZZ_CHECK(tri_history_open(fuzz_folder(), &grown) == TRI_OK);
  append("run.jsonl", log.p + log.n / 2,
         log.n - log.n / 2); /* read with the next line of metrics, or at the end */
  grow(grown, metrics);
  FUZZ_CHECK(tri_history_refresh(grown, &changed) == TRI_OK);
  check_events(grown, log);
  FUZZ_CHECK(tri_history_open(fuzz_folder(), &whole) == TRI_OK);
  check_same(grown, whole);
  check_look();
  tri_history_close(&grown);
  tri_history_close(&whole);
  fuzz_end();
  return 0;
}
