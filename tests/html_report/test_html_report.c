/* test_html_report.c - tests axes, thinned curves, means, escaping and the hashes of the page's policy.
 * Judges are strtod for the text of marks, a search of every column for thinned curves, a separate reader for
 * escaped text (xml_case.h lists its rules), and sha256sum for hashes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "xml_case.h"

#include <math.h>
#include <unistd.h>

#include "tools/html_report/escape.h"
#include "tools/html_report/style.h"
#include "tools/html_report/thin.h"
#include "tools/html_report/ticks.h"

#define OK(call) assert_int_equal(call, TRI_OK)

static uint64_t seed = 1;

/* Numerical Recipes, "ranqd1" in 64 bits. */
static double uniform(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 11) * 0x1p-53;
}

/* ---- axes ---- */

static double read_back(const char *text) {
  char  *end;
  double x = strtod(text, &end);

  switch (*end) {
  case 'k':
    return x * 1e3;
  case 'M':
    return x * 1e6;
  case 'G':
    return x * 1e9;
  case 'T':
    return x * 1e12;
  default:
    assert_string_equal(end, "");
    return x;
  }
}

/* The marks ascend and lie on the axis. Their texts read back as the marks, so that no two are alike. */
static void check_marks(const tri_axis *a) {
  double unit = 1;

  for (const char *u = tri_axis_unit(a); *u && *u != 'B'; u++)
    unit = pow(1024, *u == 'K'   ? 1
                     : *u == 'M' ? 2
                     : *u == 'G' ? 3
                     : *u == 'T' ? 4
                     : *u == 'P' ? 5
                                 : 6),
    u += 1;
  assert_in_range(a->n, 1, TRI_TICKS_MOST);
  for (int i = 0; i < a->n; i++) {
    char   text[TRI_TICK_BYTES];
    double at;
    tri_axis_text(a, a->at[i], text);
    at = read_back(text) * unit;
    if (fabs(at - a->at[i]) > 1e-6 * fabs(a->at[i])) fail_msg("%.17g is written %s", a->at[i], text);
    if (strlen(text) > 13) fail_msg("%s is too long", text);
    assert_true(i == 0 || a->at[i] > a->at[i - 1]);
    assert_true(tri_axis_place(a, a->at[i]) > -1e-9 && tri_axis_place(a, a->at[i]) < 1 + 1e-9);
  }
}

static void check_linear(double low, double high, tri_axis_kind kind) {
  tri_axis a = tri_axis_make(low, high, kind, false);
  double   slack = 1e-8 * (a.high - a.low); /* rounding error, less than a pixel */

  if (!(a.low <= low + slack && a.high >= high - slack && a.low < a.high))
    fail_msg("%g..%g is outside of %g..%g", low, high, a.low, a.high);
  assert_in_range(a.n, 2, 9);
  check_marks(&a);
  assert_true(fabs(tri_axis_place(&a, a.low)) < 1e-12 && fabs(tri_axis_place(&a, a.high) - 1) < 1e-12);
}

static void test_linear_axes(void **state) {
  (void)state;
  for (int i = 0; i < 20000; i++) {
    double size = pow(10, 24 * uniform() - 12), low = (2 * uniform() - 1) * size;
    check_linear(low, low + uniform() * size * pow(10, -3 * uniform()), TRI_AXIS_NUMBER);
    check_linear(1e3 * fabs(low), 1e3 * (fabs(low) + 1) + uniform() * size, TRI_AXIS_BYTES);
  }
  check_linear(0, 0, TRI_AXIS_NUMBER);
  check_linear(3, 3, TRI_AXIS_NUMBER);
  check_linear(-3, -3, TRI_AXIS_NUMBER);
  check_linear(0, 17179869184.0, TRI_AXIS_BYTES);
}

static void expect_marks(const tri_axis *a, const char *wanted) {
  char all[400] = "", text[TRI_TICK_BYTES];

  for (int i = 0; i < a->n; i++) {
    tri_axis_text(a, a->at[i], text);
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", text);
  }
  assert_string_equal(all, wanted);
}

static void test_marks_as_people_write_them(void **state) {
  tri_axis a;

  (void)state;
  a = tri_axis_make(0.31, 0.94, TRI_AXIS_NUMBER, false);
  expect_marks(&a, "0 0.5 1.0");
  a = tri_axis_make(-0.031, 0.04, TRI_AXIS_NUMBER, false);
  expect_marks(&a, "-0.04 -0.02 0 0.02 0.04");
  a = tri_axis_make(0, 1e-6, TRI_AXIS_NUMBER, false);
  expect_marks(&a, "0 5e-7 1e-6");
  a = tri_axis_make(101234, 148000, TRI_AXIS_NUMBER, false);
  expect_marks(&a, "100k 120k 140k 160k");
  a = tri_axis_make(0, 40.0 * 0x1p30, TRI_AXIS_BYTES, false);
  expect_marks(&a, "0 10 20 30 40");
  assert_string_equal(tri_axis_unit(&a), "GiB");
  a = tri_axis_make(0.2, 30, TRI_AXIS_NUMBER, true);
  expect_marks(&a, "0.1 1 10 100");
  a = tri_axis_make(2e-7, 3e-6, TRI_AXIS_NUMBER, true);
  expect_marks(&a, "1e-7 2e-7 5e-7 1e-6 2e-6 5e-6 1e-5");
  a = tri_axis_steps(1, 500);
  expect_marks(&a, "100 200 300 400 500");
  a = tri_axis_steps(7, 7);
  expect_marks(&a, "7");
}

static void test_log_axes(void **state) {
  (void)state;
  for (int i = 0; i < 5000; i++) {
    double   low = pow(10, 20 * uniform() - 10), high = low * pow(10, 12 * uniform());
    tri_axis a = tri_axis_make(low, high, TRI_AXIS_NUMBER, true);
    assert_true(a.low <= low * (1 + 1e-8) && a.high >= high * (1 - 1e-8));
    assert_in_range(a.n, 2, 9);
    check_marks(&a);
    assert_true(fabs(tri_axis_place(&a, sqrt(a.low * a.high)) - 0.5) < 1e-9);
  }
}

static void test_step_axes(void **state) {
  (void)state;
  for (int i = 0; i < 5000; i++) {
    int64_t  first = (int64_t)(pow(10, 6 * uniform())), last = first + (int64_t)pow(10, 6 * uniform()) - 1;
    tri_axis a = tri_axis_steps(first, last);
    assert_true(a.low <= (double)first && a.high >= (double)last && a.low < a.high);
    for (int k = 0; k < a.n; k++) assert_true(a.at[k] == floor(a.at[k]));
    check_marks(&a);
  }
}

/* ---- thinned curves ---- */

enum { ROWS = 5000 };
static int64_t step[ROWS];
static double  value[ROWS];

/* Makes n rows at ascending steps. One row in `one_of` has no number. */
static tri_curve make_curve(int n, int one_of) {
  int64_t at = 1;

  for (int i = 0; i < n; i++) {
    at += 1 + (uniform() < 0.1 ? (int64_t)(uniform() * 9) : 0);
    step[i] = at;
    value[i] = one_of && uniform() * one_of < 1 ? (double)NAN : uniform() - 0.5;
  }
  return (tri_curve){step, value, n};
}

static void check_thinned(const tri_curve *c, int columns, bool joined) {
  int64_t first = c->step[0], last = c->step[c->n - 1], width = tri_thin_width(first, last, columns), *row, n,
          k = 0;

  OK(tri_thin(c, first, last, columns, joined, &row, &n));
  assert_true(n <= 4 * columns + 4 || n <= 2 * c->n);
  for (int64_t from = first; from <= last;
       from += width) { /* every column, with its least and its greatest number */
    double low = INFINITY, high = -INFINITY, kept_low = INFINITY, kept_high = -INFINITY;
    for (int64_t i = 0; i < c->n; i++)
      if (c->step[i] >= from && c->step[i] < from + width && !isnan(c->value[i]))
        low = fmin(low, c->value[i]), high = fmax(high, c->value[i]);
    for (; k < n && (row[k] == TRI_THIN_GAP || c->step[row[k]] < from + width); k++)
      if (row[k] != TRI_THIN_GAP)
        kept_low = fmin(kept_low, c->value[row[k]]), kept_high = fmax(kept_high, c->value[row[k]]);
    assert_true(low == kept_low && high == kept_high);
  }
  for (int64_t i = 1; i < n; i++) {
    assert_true(row[i] == TRI_THIN_GAP || row[i - 1] == TRI_THIN_GAP || row[i] > row[i - 1]);
    assert_false(row[i] == TRI_THIN_GAP && (joined || row[i - 1] == TRI_THIN_GAP));
    if (width > 1 || joined || row[i] == TRI_THIN_GAP) continue;
    /* if nothing is left out, the line breaks exactly at missing numbers */
    int64_t before = row[i - 1] == TRI_THIN_GAP ? row[i - 2] : row[i - 1];
    assert_int_equal(row[i - 1] == TRI_THIN_GAP, row[i] != before + 1);
  }
  TRI_FREE(row);
}

static void test_thinned_curves(void **state) {
  (void)state;
  for (int i = 0; i < 120; i++) {
    tri_curve c = make_curve(1 + (int)(uniform() * (ROWS - 1) * uniform()), i % 3 * 4);
    check_thinned(&c, 1 + (int)(uniform() * 400), i % 2);
  }
}

/* A file's steps may be any. */
static void test_far_steps(void **state) {
  tri_curve c = make_curve(3, 0);
  int64_t  *row, n;

  (void)state;
  step[0] = 0;
  step[1] = INT64_MAX - 1;
  step[2] = INT64_MAX;
  value[2] = value[1] + 1;
  assert_true(tri_thin_width(0, INT64_MAX, 10) == INT64_MAX / 10 + 1);
  assert_int_equal(tri_thin_width(1, 21, 10), 3);
  assert_int_equal(tri_thin_width(1, 20, 10), 1);
  OK(tri_thin(&c, 0, INT64_MAX, 10, true, &row, &n));
  assert_int_equal(n, 3);
  TRI_FREE(row);
}

static void test_nothing_to_draw(void **state) {
  tri_curve c = make_curve(9, 0);
  int64_t  *row, n;

  (void)state;
  for (int i = 0; i < 9; i++) value[i] = (double)NAN;
  OK(tri_thin(&c, step[0], step[8], 10, false, &row, &n));
  assert_int_equal(n, 0);
  TRI_FREE(row);
}

/* Means of a straight line lie on it, except near its ends. Few rows have no means. */
static void test_means(void **state) {
  tri_curve c = make_curve(3000, 0);
  tri_means m = {0};

  (void)state;
  for (int i = 0; i < 3000; i++) value[i] = 2.0 * i + (i % 2 ? 1 : -1);
  OK(tri_means_make(&c, 200, &m));
  assert_int_equal(m.n, 200);
  assert_int_equal(m.width, 100);
  assert_int_equal(m.row[199], 2999);
  for (int i = 0; i < 200; i++) {
    double far = fabs(m.mean[i] - 2.0 * (double)m.row[i]);
    if (m.row[i] >= 50 && m.row[i] < 2950) assert_true(far <= 1.0);
  }
  tri_means_free(&m);
  c.n = 59;
  OK(tri_means_make(&c, 200, &m));
  assert_int_equal(m.n, 0);
}

/* Means are apart exactly at gaps of the curve wider than the mean. */
static void test_means_at_a_gap(void **state) {
  tri_curve c = make_curve(900, 0);
  tri_means m = {0};
  int       n_apart = 0;

  (void)state;
  for (int i = 0; i < 900; i++) value[i] = i % 100 == 7 || (i >= 400 && i < 440) ? (double)NAN : i;
  OK(tri_means_make(&c, 200, &m));
  for (int64_t i = 1; i < m.n; i++) {
    bool apart = m.row[i] - m.row[i - 1] > m.apart;
    n_apart += apart;
    assert_int_equal(apart, m.row[i - 1] < 400 && m.row[i] >= 440);
  }
  assert_int_equal(n_apart, 1);
  tri_means_free(&m);
}

/* ---- escaping ---- */

static void expect_escaped(const char *text, size_t n, bool lines, const char *wanted) {
  tri_text out = {0};

  OK(tri_html_put_bytes(&out, text, n, lines));
  assert_string_equal(out.data ? out.data : "", wanted);
  tri_text_free(&out);
}

static void test_escaping(void **state) {
  (void)state;
  expect_escaped("<b a='1' c=\"2\">&amp;</b>", 24, false,
                 "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;&lt;/b&gt;");
  expect_escaped("a\nb\tc\x1b[0m\x00\x7f", 11, true, "a\nb\tc\\x1B[0m\\x00\\x7F");
  expect_escaped("a\nb", 3, false, "a\\nb");
  expect_escaped("\xe2\x80\xaegnp", 6, false, "\\u202Egnp");
  expect_escaped("\xff<\xc3", 3, false, "\\xFF&lt;\\xC3");
  expect_escaped("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", 9, false, "\\uFFFE\\uFFFF\xef\xbf\xbd");
  expect_escaped("\xe5\xad\x97 \xf0\x9f\x99\x82", 8, false, "\xe5\xad\x97 \xf0\x9f\x99\x82");
  expect_escaped("", 0, false, "");
}

/* Any bytes, of any length, as text and as an attribute. */
static void test_any_bytes(void **state) {
  static const char piece[][8] = {"<",
                                  ">",
                                  "&",
                                  "\"",
                                  "'",
                                  "]]>",
                                  "<!--",
                                  "\xe5\xad\x97",
                                  "\xf0\x9f\x99\x82",
                                  "\xef\xbf\xbe",
                                  "\xe2\x80\xae",
                                  "&lt;",
                                  "\x80",
                                  "\xff",
                                  "\x1b",
                                  "a"};
  char              text[3000];

  (void)state;
  for (int i = 0; i < 400; i++) {
    size_t   n = 0, most = (size_t)(uniform() * (sizeof text - 8));
    tri_text report = {0};
    while (n < most)
      if (uniform() < 0.5) {
        const char *p = piece[(int)(uniform() * 16)];
        memcpy(text + n, p, strlen(p));
        n += strlen(p);
      } else
        text[n++] = (char)(int)(uniform() * 256);
    OK(tri_text_printf(&report, "<!DOCTYPE html>\n<html lang=\"en\"><p title=\""));
    OK(tri_html_put_bytes(&report, text, n, i % 2));
    OK(tri_text_printf(&report, "\">"));
    OK(tri_html_put_bytes(&report, text, n, true));
    OK(tri_text_printf(&report, "</p></html>\n"));
    xml_is_page(report.data, report.len);
    tri_text_free(&report);
  }
}

/* No character is cut, whatever is kept of a text. */
static void test_cut(void **state) {
  static const char   text[] = "a\xe5\xad\x97\xf0\x9f\x99\x82z";
  static const size_t wanted[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9};

  (void)state;
  for (size_t most = 0; most <= 9; most++) assert_int_equal(tri_html_cut(text, 9, most), wanted[most]);
}

/* The reader used as a judge of pages finds errors. */
static void test_reader(void **state) {
  static const char *const bad[] = {"<p>&nbsp;</p>",
                                    "<p><b></p></b>",
                                    "<p title=\"a\" title=\"b\"></p>",
                                    "<p onclick=\"a\"></p>",
                                    "<img/>",
                                    "<p title=\"<\"></p>",
                                    "a ]]> b",
                                    "<br>",
                                    "<!-- a -->",
                                    "<a href=\"x\">b</a>",
                                    "\x80",
                                    "\xe2\x80\xae",
                                    "\x1b",
                                    "\xed\xa0\x80",
                                    "<p>"};
  char                     report[200], where[100];

  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int n = snprintf(report, sizeof report, "<!DOCTYPE html>\n<html lang=\"en\">%s</html>\n", bad[i]);
    if (!xml_error(report, (size_t)n, where)) fail_msg("taken for a page: %s", bad[i]);
  }
}

/* ---- the policy ---- */

/* Base 64 of 32 bytes given in hexadecimal. */
static void base64(const char *hex, char out[48]) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned          byte[33] = {0};

  for (int i = 0; i < 32; i++) assert_int_equal(sscanf(hex + 2 * (size_t)i, "%2x", &byte[i]), 1);
  for (int i = 0; i < 11; i++) {
    unsigned three = byte[3 * i] << 16 | byte[3 * i + 1] << 8 | (i < 10 ? byte[3 * i + 2] : 0);
    for (int k = 0; k < 4; k++) out[4 * i + k] = digit[three >> (18 - 6 * k) & 63];
  }
  out[43] = '=';
  out[44] = 0;
}

static void check_hash(const char *text, const char *hash, const char *name) {
  char  path[] = "/tmp/trireme-page-XXXXXX", command[100], hex[80] = "", wanted[48];
  int   fd = mkstemp(path);
  FILE *out;

  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
  snprintf(command, sizeof command, "sha256sum '%s'", path);
  out = popen(command, "r");
  assert_non_null(out);
  assert_int_equal(fread(hex, 1, 64, out), 64);
  pclose(out);
  unlink(path);
  base64(hex, wanted);
  if (strncmp(hash, "sha256-", 7) != 0 || strcmp(hash + 7, wanted) != 0)
    fail_msg("%s is %s; src/tools/html_report/style.c must say sha256-%s", name, hash, wanted);
  if (strpbrk(text, "<&")) fail_msg("%s of the text holds < or &, which XML reads otherwise than HTML", name);
}

static void test_policy(void **state) {
  (void)state;
  check_hash(tri_html_style, tri_html_style_hash, "tri_html_style_hash");
  check_hash(tri_html_script, tri_html_script_hash, "tri_html_script_hash");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear_axes),     cmocka_unit_test(test_marks_as_people_write_them),
      cmocka_unit_test(test_log_axes),        cmocka_unit_test(test_step_axes),
      cmocka_unit_test(test_thinned_curves),  cmocka_unit_test(test_far_steps),
      cmocka_unit_test(test_nothing_to_draw), cmocka_unit_test(test_means),
      cmocka_unit_test(test_means_at_a_gap),  cmocka_unit_test(test_escaping),
      cmocka_unit_test(test_any_bytes),       cmocka_unit_test(test_cut),
      cmocka_unit_test(test_reader),          cmocka_unit_test(test_policy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
