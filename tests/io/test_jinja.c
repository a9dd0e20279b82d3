/* test_jinja.c - parses and renders templates. Judges: Jinja2 3.1.6, configured as in transformers 5.24, made
 * tests/data/jinja/statements.json (make_jinja_golden.py). Limits come from the contract, and messages from
 * Jinja. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/host_memory.h"
#include "io/jinja/jinja.h"
#include "refusal_case.h"

static tri_status render(const char *text, size_t n, const json_t *variables, tri_jinja_text *out) {
  tri_jinja *t = NULL;
  tri_status st;

  tri_error_clear();
  st = tri_jinja_open(text, n, &t);
  if (st == TRI_OK) st = tri_jinja_render(t, variables, "2026-11-29", out);
  tri_jinja_close(&t);
  assert_true(st == TRI_OK || st == TRI_EINPUT);
  if (st != TRI_OK) assert_memory_equal(tri_error_message(), "line ", 5);
  return st;
}

/* ---- goldens ---- */

static bool same_spans(const json_t *want, const tri_jinja_text *got) {
  bool same = (int64_t)json_array_size(want) == got->n_span;

  for (int64_t i = 0; same && i < got->n_span; i++) {
    const json_t *span = json_array_get(want, (size_t)i);
    same = json_integer_value(json_array_get(span, 0)) == (json_int_t)got->span[i].begin &&
           json_integer_value(json_array_get(span, 1)) == (json_int_t)got->span[i].end;
  }
  return same;
}

/* want: the text, [text, spans], or null for an error. */
static bool as_wanted(const json_t *want, tri_status st, const tri_jinja_text *got) {
  const json_t *text = json_is_array(want) ? json_array_get(want, 0) : want;

  if (!json_is_string(text)) return st != TRI_OK;
  return st == TRI_OK && got->text.len == json_string_length(text) &&
         !memcmp(got->text.data, json_string_value(text), got->text.len) &&
         same_spans(json_is_array(want) ? json_array_get(want, 1) : NULL, got);
}

static void check_golden(const char *path) {
  json_t        *golden = json_load_file(path, JSON_ALLOW_NUL, NULL);
  json_t        *cases = json_object_get(golden, "cases"), *variables = json_object_get(golden, "variables");
  tri_jinja_text got = {0};
  int            differ = 0;

  assert_true(json_array_size(cases) >= 3000);
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t    *text = json_array_get(json_array_get(cases, i), 0);
    json_t    *want = json_array_get(json_array_get(cases, i), 1);
    tri_status st = render(json_string_value(text), json_string_length(text), variables, &got);
    if (as_wanted(want, st, &got)) continue;
    differ++;
    print_message("%s\n  %s\n", json_string_value(text), st == TRI_OK ? got.text.data : tri_error_message());
  }
  assert_int_equal(differ, 0);
  tri_jinja_text_free(&got);
  json_decref(golden);
}

static void statements(void **state) {
  (void)state;
  check_golden(TRI_TEST_DATA "/jinja/statements.json");
}

/* ---- messages ---- */

static void check_message(const char *template, const char *want) {
  tri_jinja_text got = {0};

  assert_int_equal(render(template, strlen(template), NULL, &got), TRI_EINPUT);
  if (!refusal_is(want)) print_message("%s\n", tri_error_message());
  expect_refusal(want);
  assert_null(strstr(tri_error_message() + 1, "line "));
  tri_jinja_text_free(&got);
}

static void messages(void **state) {
  static const char *const c[][2] = {
      {"a\n{{ b.c }}", "tri_jundefined_fail() 2 b"},
      {"{% for x in [1] %}\n\n{{ raise_exception('no ' ~ x) }}{% endfor %}", "raise_exception() 3 no 1"},
      {"\n{% macro m(a) %}\n{{ a + 1 }}{% endmacro %}\n{{ m() }}", "tri_jundefined_fail() 3"},
      {"\n{% if x", "unexpected() 2"},
      {"\n{% for x in y %}\n", "parse_bodies() 2 for endfor"},
      {"{% if x %}{% endfor %}", "fail_unknown() 1 endfor elif"},
      {"{{ 1 +\n }}", "tri_jparse_primary() 2"},
      {"{{ (1] }}", "keep_balance() 1 ] )"},
      {"\n\n{{ x | nofilter }}", "check_known() 3 filter nofilter"},
      {"{{ 'a' }}\n{{ x is notest }}", "check_known() 2 test notest"},
      {"{% if true %}\n{{ x | nofilter }}{% endif %}", "fail_unknown() 2 filter nofilter"},
      {"\n{% include 'a' %}", "refuse() 2 {% include %}"},
      {"{% extends 'a' %}", "refuse() 1 {% extends %}"},
      {"{% import 'a' as b %}", "refuse() 1 {% import %}"},
      {"{% from 'a' import b %}", "refuse() 1 {% from %}"},
      {"{% block a %}{% endblock %}", "refuse() 1 {% block %}"},
      {"\n{% for x in y recursive %}{% endfor %}", "parse_for() 2"},
      {"{% do x %}", "fail_unknown() 1 do"},
      {"{% for x, in y %}{% endfor %}", "unexpected() 1 y"},
      {"{% break %}", "parse_jump() 1 break"},
      {"{% for x in [1] %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
       "parse_jump() 1 continue"},
      {"{% set x = 1 %}{% set x.y = 1 %}", "check_spaces() 1"},
      {"{% set x, y = [1] %}", "assign_tuple() 1 2"},
      {"{{ 99999999999999999999 }}", "read_integer() 1 99999999999999999999 64"},
      {"\n{{ '\\ud83d' }}", "put_hex() 2 \\uD83D"},
      {"{# a", "skip_comment() 1"},
      {"{{ 'a }}", "read_operator() 1 ' !ASCII"},
      {"{{ \xc3\xa9 }}", "line 1: '\xc3\xa9'"},
      {"a\n\xff", "check_utf8() 2 3 UTF-8"},
      {"{{ f(a=1, a=2) }}", "put_named() 1"},
      {"{{ range(a=1) }}", "bind() 1 start"},
      {"{{ self.a() }}", "tri_jresolve() 1"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) check_message(c[i][0], c[i][1]);
}

/* ---- limits: a hostile template ends with a message ---- */

static void check_hostile(const char *front, const char *piece, int64_t n, const char *back) {
  tri_text       text = {0};
  tri_jinja_text got = {0};

  assert_int_equal(tri_text_put(&text, front, strlen(front)), TRI_OK);
  for (int64_t i = 0; i < n; i++) assert_int_equal(tri_text_put(&text, piece, strlen(piece)), TRI_OK);
  assert_int_equal(tri_text_put(&text, back, strlen(back)), TRI_OK);
  assert_int_equal(render(text.data, text.len, NULL, &got), TRI_EINPUT);
  assert_true(got.text.len <= 64 << 20);
  tri_text_free(&text);
  tri_jinja_text_free(&got);
}

static void hostile(void **state) {
  static const char *const piece[] = {"(",     "[",    "{",      "{'a':", "not ",         "- ",       "a.",
                                      "a[",    "a(",   "1 if ",  "a|",    "a|upper(",     "a is eq ", "a ** ",
                                      "'a' ~", "a < ", "a and ", "a\n",   "1 if 2 else ", "1.0.0.0",  "''"};
  static const char *const block[] = {"{% if 1 %}",
                                      "{% for x in [1] %}",
                                      "{% macro m() %}",
                                      "{% filter upper %}",
                                      "{% set x %}",
                                      "{% call m() %}",
                                      "{% with %}",
                                      "{% generation %}",
                                      "{% if 1 %}{% set x = 1 %}{% else %}",
                                      "{% raw %}",
                                      "{#",
                                      "{{ '"};

  (void)state;
  for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) check_hostile("{{ ", piece[i], 1000000, "");
  for (size_t i = 0; i < sizeof block / sizeof *block; i++) check_hostile("", block[i], 200000, "");
  check_hostile("{{ 1", " + 1", 5000, " }}"); /* a deep tree without brackets */
  check_hostile("{{ x", ".a", 5000, " }}");
  check_hostile("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "", 0, "");
  check_hostile("{% macro m(c) %}{{ c(c) }}{% endmacro %}{{ m(m) }}", "", 0, "");
  check_hostile("{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}", "", 0, "");
  check_hostile("{% set s = 'aaaaaaaaaaaaaaaa' * 4000000 %}{{ s ~ s }}", "", 0, "");
  check_hostile("{% set s = 'a' * 1000000 %}{% for x in range(9999) %}{{ s }}{% endfor %}", "", 0, "");
  check_hostile("{% set s = 'a' * 1000000 %}{% set l = [s] * 100000 %}{{ l }}", "", 0, "");
  check_hostile(
      "{% set ns = namespace(x=[]) %}{% for x in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "", 0, "");
  check_hostile(
      "{% set ns = namespace(x='a') %}{% for x in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "",
      0, "");
  check_hostile(
      "{% for a in range(9999) %}{% generation %}{% for b in range(9999) %}{% endfor %}{% endgeneration %}"
      "{% endfor %}",
      "", 0, "");
}

/* A template may be long, and it may have as many levels as the contract allows. */
static void long_templates(void **state) {
  tri_text       text = {0};
  tri_jinja_text got = {0};

  (void)state;
  for (int i = 0; i < 50000; i++)
    assert_int_equal(tri_text_printf(&text, "{%% set a%d = %d %%}x\n", i, i), TRI_OK);
  assert_int_equal(render(text.data, text.len, NULL, &got), TRI_OK);
  assert_int_equal(got.text.len, 2 * 50000 - 1);
  text.len = 0;
  for (int i = 0; i < 490; i++) assert_int_equal(tri_text_put(&text, i ? "[" : "{{ [", i ? 1 : 4), TRI_OK);
  for (int i = 0; i < 490; i++) assert_int_equal(tri_text_put(&text, "]", 1), TRI_OK);
  assert_int_equal(tri_text_put(&text, " }}", 3), TRI_OK);
  assert_int_equal(render(text.data, text.len, NULL, &got), TRI_OK);
  assert_int_equal(got.text.len, 2 * 490);
  tri_text_free(&text);
  tri_jinja_text_free(&got);
}

/* ---- other promises of jinja.h ---- */

static void asked_of_templates(void **state) {
  static const char text[] =
      "{% set a = 1 %}{{ a }}{{ b }}{% macro m(c) %}{{ c }}{{ d }}{% endmacro %}{% for e in f %}{{ e }}"
      "{% endfor %}{{ g.h }}";
  tri_jinja *t;
  char       name[2] = "a";

  (void)state;
  assert_int_equal(tri_jinja_open(text, sizeof text - 1, &t), TRI_OK);
  assert_false(tri_jinja_marks(t));
  for (name[0] = 'a'; name[0] <= 'h'; name[0]++)
    assert_int_equal(tri_jinja_reads(t, name), strchr("bdfg", name[0]) != NULL);
  tri_jinja_close(&t);
  assert_null(t);
  tri_jinja_close(&t);
  assert_int_equal(tri_jinja_open("{%- generation -%}{% endgeneration %}", 37, &t), TRI_OK);
  assert_true(tri_jinja_marks(t));
  tri_jinja_close(&t);
}

/* A template renders repeatedly. A failed rendering has no effect on the next one, and all memory is
 * freed. */
static void again(void **state) {
  static const char text[] =
      "{% generation %}{{ x[0] * 2 }}{% endgeneration %}{% if x is string %}{{ x.y.z }}{% endif %}";
  int64_t        before = tri_host_bytes();
  tri_jinja_text got = {0};
  tri_jinja     *t;

  (void)state;
  assert_int_equal(tri_jinja_open(text, sizeof text - 1, &t), TRI_OK);
  for (int i = 0; i < 4; i++) {
    json_t    *variables = i % 2 ? json_pack("{s:s}", "x", "ab") : json_pack("{s:[i]}", "x", 21);
    tri_status st = tri_jinja_render(t, variables, NULL, &got);
    assert_int_equal(st, i % 2 ? TRI_EINPUT : TRI_OK);
    if (st == TRI_OK) {
      assert_string_equal(got.text.data, "42");
      assert_int_equal(got.n_span, 1);
      assert_int_equal(got.span[0].end, 2);
    }
    tri_error_clear();
    json_decref(variables);
  }
  tri_jinja_text_free(&got);
  tri_jinja_close(&t);
  assert_true(tri_host_bytes() == before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statements),     cmocka_unit_test(messages),           cmocka_unit_test(hostile),
      cmocka_unit_test(long_templates), cmocka_unit_test(asked_of_templates), cmocka_unit_test(again),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
