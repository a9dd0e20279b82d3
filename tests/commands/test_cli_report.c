/* test_cli_report.c - trireme report: a page, a screen and a JSON value of finished, growing, hostile and
 * long runs. Judges: metrics.jsonl read by jansson for the JSON value, and for the curves read back from the
 * page's paths. xml_case.h judges the page. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"
#include "xml_case.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>

#define REPORT ONE "report "

/* Reads and judges the page written by a command. Free it with free. */
static char *take_page(const char *path) {
  size_t n;
  char  *page = xml_file(path, &n);

  xml_is_page(page, n);
  if (strstr(page, "http://") != strstr(page, "http://www.w3.org/1999/xhtml")) fail_msg("%s leads out", path);
  cli_shows(page, "default-src 'none'; style-src 'sha256-");
  return page;
}

static int count(const char *text, const char *part) {
  int n = 0;

  while ((text = strstr(text, part)) != NULL) n++, text++;
  return n;
}

/* Returns the numbers of a metric in the order of their lines, NaN if absent. */
static int read_metric(const char *run, const char *name, double *out, int most) {
  char   path[300], *line = NULL;
  size_t cap = 0;
  int    n = 0;
  FILE  *f;

  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  f = fopen(path, "r");
  assert_non_null(f);
  while (n < most && getline(&line, &cap, f) > 0) {
    json_t *o = json_loads(line, 0, NULL), *v = json_object_get(o, name);
    out[n++] = json_is_number(v) ? json_number_value(v) : (double)NAN;
    json_decref(o);
  }
  free(line);
  fclose(f);
  return n;
}

static double attribute(const char *at, const char *name) {
  const char *found = strstr(at, name);

  assert_non_null(found);
  return strtod(found + strlen(name) + 2, NULL);
}

/* Reads the first curve of a chart point by point, x in steps and y in numbers. Returns the number of
 * points. */
static int read_curve(const char *page, const char *metric, double *x, double *y, int most) {
  char        name[200];
  const char *at, *d;
  double      low, high, first, dx = 0, dy = 0;
  bool        far = true;
  int         n = 0;

  snprintf(name, sizeof name, "aria-label=\"%s, steps", metric);
  at = strstr(page, name);
  if (!at) fail_msg("no chart of %s", metric);
  low = attribute(at, "data-low"), high = attribute(at, "data-high"), first = attribute(at, "data-first");
  assert_true(attribute(at, "data-log") == 0);
  d = strstr(at, " d=\"") + 4;
  while (*d != '"') {
    if (*d == 'M' || *d == 'l') far = *d++ == 'M';
    char  *end;
    double a = strtod(d, &end), b = strtod(end, &end);
    d = end;
    dx = far ? a : dx + a;
    dy = far ? b : dy + b;
    if (n && x[n - 1] == first + dx && far == false && a == 0) continue; /* a point alone */
    assert_true(n < most);
    x[n] = first + dx;
    y[n++] = low + (high - low) * (1 - dy / 10000);
  }
  return n;
}

/* ---- a run of this program ---- */

static void test_screen(void **state) {
  (void)state;
  cli_succeeds(REPORT "run");
  cli_shows(cli_out, "run: finished, step 2 of 2\n");
  cli_shows(cli_out, "    sft, model config.json, 1 rank\n");
  cli_shows(cli_out, "newest checkpoint: step 2\n");
  cli_fits(cli_out);
  assert_string_equal(cli_err, "");
}

static void test_json(void **state) {
  double  loss[8];
  int     n = read_metric("run", "loss", loss, 8);
  json_t *all, *run, *metric;

  (void)state;
  cli_succeeds(REPORT "run --json");
  all = json_loads(cli_out, 0, NULL);
  assert_non_null(all);
  run = json_array_get(json_object_get(all, "runs"), 0);
  metric = json_object_get(json_object_get(run, "metrics"), "loss");
  assert_int_equal(n, 2);
  assert_true(json_number_value(json_object_get(metric, "first")) == loss[0]);
  assert_true(json_number_value(json_object_get(metric, "last")) == loss[1]);
  assert_true(json_number_value(json_object_get(metric, "min")) == fmin(loss[0], loss[1]));
  assert_int_equal(json_integer_value(json_object_get(run, "step")), 2);
  assert_int_equal(json_integer_value(json_object_get(run, "checkpoint_step")), 2);
  assert_string_equal(json_string_value(json_object_get(run, "state")), "finished");
  assert_string_equal(json_string_value(json_object_get(run, "algo")), "sft");
  json_decref(all);
}

static void test_page(void **state) {
  double x[100], y[100], loss[8];
  char  *page;

  (void)state;
  cli_succeeds(REPORT "run/ --html page.html");
  assert_string_equal(cli_out, "");
  page = take_page("page.html");
  assert_int_equal(read_metric("run", "loss", loss, 8), 2);
  assert_int_equal(read_curve(page, "loss", x, y, 100), 2);
  for (int i = 0; i < 2; i++) {
    assert_true(x[i] == i + 1);
    assert_true(fabs(y[i] - loss[i]) < 1e-4 * (fabs(loss[0]) + fabs(loss[1])));
  }
  cli_shows(page, "train.learning_rate: ");
  cli_shows(page, "policy weights"); /* a row of the plan in run.jsonl */
  free(page);
  cli_refuses(64, REPORT "run --html -", "run", "--html", "--json");
  cli_refuses(74, REPORT "run --html none/page.html", "tri_pieces_begin_named", "none/page.html",
              strerror(ENOENT));
  cli_succeeds(REPORT "run --html page.html --json"); /* a page may be written over, and beside JSON */
  assert_int_equal(cli_out[0], '{');
}

/* ---- runs written here ---- */

static FILE *make(const char *run, const char *file) {
  char path[300];

  cli_sh("mkdir -p '%s/rollouts'", run);
  snprintf(path, sizeof path, "%s/%s", run, file);
  return fopen(path, "wb");
}

static void end(FILE *f) { assert_int_equal(fclose(f), 0); }

/* Writes n steps with loss i * slope, a gap at a quarter, and a spike of all other metrics at a half, and a
 * deck with this rate. */
static void make_run(const char *run, int n, double slope, const char *rate) {
  FILE *f = make(run, "metrics.jsonl");

  for (int i = 1; i <= n; i++)
    if (i == n / 4)
      fprintf(f, "{\"step\": %d, \"algo\": \"grpo\", \"loss\": null, \"time_unix_s\": %d}\n", i,
              1800000000 + i);
    else
      fprintf(
          f,
          "{\"step\": %d, \"algo\": \"grpo\", \"loss\": %.9g, \"reward_mean\": %.9g, \"time_unix_s\": %d}\n",
          i, i == n / 2 ? 2 * slope * n : slope * i, i % 7 / 7.0, 1800000000 + i);
  end(f);
  f = make(run, "deck.yaml");
  fprintf(f, "run: {output: %s}\nmodel: {path: m}\ntrain: {steps: %d, learning_rate: %s}\n", run, n, rate);
  end(f);
}

static void test_gaps(void **state) {
  double x[100], y[100];
  char  *page;
  int    n;

  (void)state;
  make_run("gaps", 40, 0.5, "1e-5");
  cli_succeeds(REPORT "gaps --html gaps.html");
  page = take_page("gaps.html");
  n = read_curve(page, "loss", x, y, 100);
  assert_int_equal(n, 39);
  for (int i = 0; i < n; i++) {
    double wanted = x[i] == 20 ? 40 : 0.5 * x[i];
    assert_true(x[i] != 10 && fabs(y[i] - wanted) < 0.005); /* 1e-4 of the axis, of 0 to 40 */
  }
  assert_int_equal(count(strstr(page, "aria-label=\"loss"), "M9 "), 0);
  free(page);
}

static void test_several_runs(void **state) {
  char *page;

  (void)state;
  make_run("a", 40, 0.5, "1e-5");
  make_run("b", 30, 0.25, "3e-5");
  cli_sh("mkdir -p deep && cp -r a deep/a");
  cli_succeeds(REPORT "a b --html ab.html");
  page = take_page("ab.html");
  cli_shows(page,
            "<code>train.learning_rate</code></td><td class=\"wrap\">1e-5</td><td class=\"wrap\">3e-5</td>");
  assert_null(strstr(page, "<code>model.path</code>"));
  assert_null(strstr(page, "<code>run.output</code>"));
  cli_shows(strstr(page, "aria-label=\"loss"), "data-run=\"1\"");
  free(page);
  cli_succeeds(REPORT "a b");
  cli_shows(cli_out, "  train.learning_rate: 1e-5 | 3e-5\n");
  cli_fits(cli_out);
  cli_succeeds(REPORT "a deep/a"); /* equal names get a distinction */
  cli_shows(cli_out, "\ndeep/a: ");
  cli_sh("mkdir -p torn && cp a/metrics.jsonl torn && echo 'run: [' >torn/deck.yaml");
  cli_succeeds(REPORT "a torn b");
  cli_shows(cli_out, "torn: its deck cannot be read, and is not compared\n");
  cli_shows(cli_out, "  train.learning_rate: 1e-5 | not there | 3e-5\n");
  assert_null(strstr(cli_out, "model.path:"));
  cli_succeeds(REPORT "a b a b a b"); /* many runs have a row each */
  cli_fits(cli_out);
  assert_in_range(count(cli_out, "\n"), 7, 24);
}

/* A deck valid for only a part of the run, and the best checkpoint. Almost correct file names do not
 * count. */
static void test_marks(void **state) {
  (void)state;
  make_run("marks", 40, 0.5, "1e-5");
  cli_sh("mkdir marks/checkpoints && ln -s step-00000025 marks/checkpoints/BEST && "
         "touch marks/deck.step-00000030.yaml marks/deck.step-00000005.yaml marks/deck.step-7.yaml "
         "marks/deck.step-00000008.yaml.before-1");
  cli_succeeds(REPORT "marks");
  cli_shows(cli_out, "    best checkpoint: step 25 (checkpoints/BEST)\n");
  cli_shows(cli_out, "    another deck until step 5, 30: deck.step-*.yaml in its folder\n");
  cli_succeeds(REPORT "marks --json");
  cli_shows(cli_out, "\"best_checkpoint_step\": 25, \"deck_changed_steps\": [5, 30], ");
  cli_succeeds(REPORT "marks --html marks.html");
  free(take_page("marks.html"));
  cli_sh("grep -q 'the best: step 25' marks.html && grep -q 'another until step 5, 30,' marks.html");
  cli_sh("for i in 10 11 12 13 14 15 16; do "
         "touch marks/deck.step-000000$i.yaml; done; ln -sfn ../../x marks/checkpoints/BEST");
  cli_succeeds(REPORT "marks --json"); /* the last eight */
  cli_shows(cli_out,
            "\"best_checkpoint_step\": null, \"deck_changed_steps\": [10, 11, 12, 13, 14, 15, 16, 30], ");
}

static void test_empty_and_one_step(void **state) {
  (void)state;
  end(make("empty", "metrics.jsonl"));
  make_run("one", 1, 0.5, "1e-5");
  cli_succeeds(REPORT "empty one --html few.html");
  free(take_page("few.html"));
  cli_succeeds(REPORT "empty --html empty.html");
  free(take_page("empty.html"));
  cli_succeeds(REPORT "empty");
  cli_shows(cli_out, "empty: ");
}

/* With 100,000 steps no peak is lost, and the page stays small. */
static void test_long(void **state) {
  static double x[2000], y[2000];
  struct stat   sb;
  double        most = 0;
  char         *page;
  int           n;

  (void)state;
  make_run("long", 100000, 0.001, "1e-5");
  cli_succeeds(REPORT "long --html long.html");
  page = take_page("long.html");
  n = read_curve(page, "loss", x, y, 2000);
  assert_in_range(n, 400, 1000);
  for (int i = 0; i < n; i++) {
    most = fmax(most, y[i]);
    assert_true(fabs(y[i] - (x[i] == 50000 ? 200 : 0.001 * x[i])) < 0.05);
  }
  assert_true(fabs(most - 200) < 0.05);
  cli_shows(page, "of every 250 steps");
  free(page);
  assert_int_equal(stat("long.html", &sb), 0);
  assert_true(sb.st_size < 200000);
}

/* ---- files of others ---- */

#define EVIL                                                                                                 \
  "\\\"'><script>document.title=1</script><img src=x onerror=alert(1)>&lt;]]><!--\\u001b[31m\\u202e\\ufffe"

static void write_hostile(void) {
  FILE *f = make("evil<b>", "metrics.jsonl");

  for (int i = 1; i <= 9; i++)
    fprintf(f,
            "{\"step\": %d, \"algo\": \"" EVIL
            "\", \"<i>\\\" onload=\\\"x\": %d, \"huge\": %s, \"mem_<b>_bytes\": 1e300, "
            "\"eval_</figure>\": %d, \"time_</svg>_s\": 2, \"reward_mean\": -0.0}\n",
            i, i, i % 2 ? "1.7e308" : "-1.7e308", i * i);
  fputs("not JSON \x80\n[1]\n{\"step\": -1e999}\n{\"step\": 10", f);
  end(f);
  f = make("evil<b>", "deck.yaml");
  fputs("model: {path: '</pre><script>'}\n'<s>': {'&k': \"\\e[0m<x>\"}\n", f);
  end(f);
  f = make("evil<b>", "run.jsonl");
  fputs("{\"v\": 1, \"event\": \"start\", \"ranks\": 4, \"collectives\": \"" EVIL "\", \"loss\": \"" EVIL
        "\", \"model\": {\"type\": \"" EVIL "\", \"parameters\": 1, \"dtype\": \"" EVIL
        "\"}, \"memory\": [{\"name\": \"<script>\", \"bytes\": 1}, {\"name\": \"" EVIL "\"}]}\n",
        f);
  fputs("{\"v\": 1, \"event\": \"alarm\", \"code\": \"" EVIL
        "\", \"text\": \"<script>\\u001b]0;\\u0007 & " EVIL "\"}\n\xff\n",
        f);
  end(f);
  f = make("evil<b>", "rollouts/step-00000009.jsonl");
  fputs("{\"reward\": 1\n\xff\n{}\n", f);
  for (int i = 0; i < 9; i++)
    fprintf(f,
            "{\"prompt_id\": %d, \"prompt\": \"" EVIL "\", \"response\": \"" EVIL
            "</pre></main>\\u0000\\n\", "
            "\"answer\": [\"" EVIL "\"], \"reward\": %d, \"advantage\": 1e308, \"stop\": \"" EVIL "\"}\n",
            i, i);
  fputs("{\"reward\": 9, \"response\": \"", f);
  for (int i = 0; i < 100000; i++) fputs("\xe5\xad\x97<b>", f);
  fputs("\"}\n", f);
  end(f);
}

static void test_hostile(void **state) {
  char *page;

  (void)state;
  write_hostile();
  cli_sh("mkdir -p other && cp -r 'evil<b>/.' other");
  cli_succeeds(REPORT "'evil<b>' other --html evil.html");
  page = take_page("evil.html");
  assert_int_equal(count(page, "<script"), 1);
  cli_shows(page, "&lt;script&gt;");
  cli_shows(page, "lines of metrics.jsonl skipped: 3");
  cli_shows(page, "step 9: 10 answers; unreadable lines: 2");
  cli_shows(page, "and 596000 more bytes");
  free(page);
  cli_succeeds(REPORT "'evil<b>' other");
  for (const char *p = cli_out; *p; p++) assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
  cli_succeeds(REPORT "'evil<b>' --json");
  json_t *all = json_loads(cli_out, 0, NULL);
  assert_non_null(all);
  json_decref(all);
}

/* A link, a FIFO or a folder in the place of a file of the run never blocks. */
static void test_no_files(void **state) {
  (void)state;
  make_run("odd", 3, 0.5, "1e-5");
  cli_sh("mkdir odd/rollouts/step-00000003.jsonl && mkfifo odd/rollouts/step-00000004.jsonl");
  cli_succeeds(REPORT "odd --html odd.html");
  free(take_page("odd.html"));
}

static void test_refusals(void **state) {
  char before[CLI_TEXT_BYTES], after[CLI_TEXT_BYTES];

  (void)state;
  cli_refuses(64, REPORT, "tri_flags_need", "OUTPUT", "trireme report OUTPUT");
  cli_refuses(64, REPORT "nowhere", "check_folder", "nowhere", strerror(ENOENT));
  cli_refuses(64, REPORT "model", "check_folder", "model", "metrics.jsonl");
  assert_int_equal(cli_run(REPORT "nowhere run"), 64);
  cli_says(cli_err, "warning", "nowhere", strerror(ENOENT), "run.output");
  assert_int_equal(cli_count_facts(cli_err, "trireme: ", CLI_FACTS("1", "2")), 1);
  cli_shows(cli_out, "run");
  cli_read("run/metrics.jsonl", before);
  cli_refuses(64, REPORT "run --html run/metrics.jsonl", "check_page", "--html run/metrics.jsonl");
  cli_read("run/metrics.jsonl", after);
  assert_string_equal(before, after);
  cli_refuses(64, REPORT "run --html model", "check_regular", "model");
  cli_refuses(74, REPORT "run --html nowhere/page.html", "tri_pieces_begin_named", "nowhere/page.html",
              strerror(ENOENT));
  cli_refuses(64, REPORT "run run run run run run run run run run run run run run run run run run run", "run",
              "19", "18");
  cli_write("page", "<!DOCTYPE html>\n<html><head>the user's own</head></html>\n");
  cli_refuses(64, REPORT "run --html page", "check_page", "--html page");
  assert_null(strstr(cli_err, "link"));
  cli_write("own.html.tmp", "theirs");
  cli_succeeds(REPORT "run --html own.html");
  cli_sh("test \"$(cat own.html.tmp)\" = theirs && test \"$(echo own.html*)\" = 'own.html own.html.tmp' && "
         "rm own.html.tmp && ln -s gone away.html && ln -s own.html there.html");
  cli_refuses(64, REPORT "run --html away.html", "check_page", "--html away.html", "link");
  cli_refuses(64, REPORT "run --html there.html", "check_page", "--html there.html", "link");
  cli_fails(64, REPORT "run --htm x", "--html", NULL);
  cli_succeeds(REPORT "--help");
  cli_fits(cli_out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_screen),       cmocka_unit_test(test_json),
      cmocka_unit_test(test_page),         cmocka_unit_test(test_gaps),
      cmocka_unit_test(test_several_runs), cmocka_unit_test(test_empty_and_one_step),
      cmocka_unit_test(test_long),         cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_no_files),     cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_marks)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
