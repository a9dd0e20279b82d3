/* test_deck.c - reads strict YAML into entries, and refuses anything else with its line. Judge: exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "io/text/deck.h"
#include "refusal_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tri_deck *good(const char *text) {
  tri_deck *d = NULL;

  tri_error_clear();
  if (tri_deck_open_text("d.yaml", text, strlen(text), &d) != TRI_OK) fail_msg("%s", tri_error_message());
  return d;
}

static void entry(const tri_deck *d, int i, const char *section, const char *key, const char *field,
                  int index, const char *value, const char *where) {
  const tri_deck_entry *e;

  assert_true(i < tri_deck_count(d));
  e = tri_deck_at(d, i);
  assert_string_equal(e->section, section);
  assert_string_equal(e->key, key);
  assert_string_equal(e->field, field);
  assert_int_equal(e->index, index);
  assert_string_equal(e->value, value);
  assert_string_equal(e->where, where);
}

static void bad_bytes(const char *bytes, size_t n, const char *message) {
  tri_deck *d = NULL;

  tri_error_clear();
  assert_int_equal(tri_deck_open_text("d.yaml", bytes, n, &d), TRI_ECONFIG);
  assert_null(d);
  expect_refusal(message);
}

static void bad(const char *text, const char *message) { bad_bytes(text, strlen(text), message); }

static void test_sections(void **state) {
  (void)state;
  tri_deck *d =
      good("\xEF\xBB\xBF# a deck\nrun:\n  output: out # comment\n  seed: 7\n\ndata:\n  train: [a, \"b c\"]\n"
           "  eval:\n    - x\n    - 'y'\nreward:\n  - {name: exact, weight: 1}\n  - name: regex\n    "
           "pattern: \"\\\\d\\n\"\n"
           "rollout:\n  stop: []\nempty:\nflow: {a: 1}\n");

  entry(d, 0, "run", "output", "", TRI_DECK_PLAIN, "out", "d.yaml:3");
  entry(d, 1, "run", "seed", "", TRI_DECK_PLAIN, "7", "d.yaml:4");
  entry(d, 2, "data", "train", "", 0, "a", "d.yaml:7");
  entry(d, 3, "data", "train", "", 1, "b c", "d.yaml:7");
  entry(d, 4, "data", "eval", "", 0, "x", "d.yaml:9");
  entry(d, 5, "data", "eval", "", 1, "y", "d.yaml:10");
  entry(d, 6, "reward", "", "name", 0, "exact", "d.yaml:12");
  entry(d, 7, "reward", "", "weight", 0, "1", "d.yaml:12");
  entry(d, 8, "reward", "", "name", 1, "regex", "d.yaml:13");
  entry(d, 9, "reward", "", "pattern", 1, "\\d\n", "d.yaml:14");
  entry(d, 10, "rollout", "stop", "", TRI_DECK_EMPTY_LIST, "", "d.yaml:16");
  entry(d, 11, "empty", "", "", TRI_DECK_EMPTY_LIST, "", "d.yaml:17");
  entry(d, 12, "flow", "a", "", TRI_DECK_PLAIN, "1", "d.yaml:18");
  assert_int_equal(tri_deck_count(d), 13);
  assert_true(tri_deck_at(d, 2)->first && !tri_deck_at(d, 3)->first);
  assert_true(tri_deck_at(d, 6)->first && !tri_deck_at(d, 7)->first && !tri_deck_at(d, 8)->first);
  assert_true(tri_deck_at(d, 2)->unquoted && !tri_deck_at(d, 3)->unquoted);
  assert_int_equal(tri_deck_at(d, 1)->line, 4);
  assert_string_equal(tri_deck_name(d), "d.yaml");
  tri_deck_close(&d);
  assert_null(d);
  tri_deck_close(&d);
}

/* A field of a list item may be a list itself. */
static void test_lists_in_items(void **state) {
  (void)state;
  tri_deck *d = good("r:\n  - {n: a, c: [x, \"y z\"], w: 1}\n  - n: b\n    c: []\n  - c:\n      - x\n");

  entry(d, 0, "r", "", "n", 0, "a", "d.yaml:2");
  entry(d, 1, "r", "", "c", 0, "x", "d.yaml:2");
  entry(d, 2, "r", "", "c", 0, "y z", "d.yaml:2");
  entry(d, 3, "r", "", "w", 0, "1", "d.yaml:2");
  entry(d, 4, "r", "", "n", 1, "b", "d.yaml:3");
  entry(d, 5, "r", "", "c", 1, "", "d.yaml:4");
  entry(d, 6, "r", "", "c", 2, "x", "d.yaml:5");
  assert_int_equal(tri_deck_count(d), 7);
  for (int i = 0; i < 7; i++) {
    static const int part[] = {TRI_DECK_PLAIN, 0, 1, TRI_DECK_PLAIN, TRI_DECK_PLAIN, TRI_DECK_EMPTY_LIST, 0};
    assert_int_equal(tri_deck_at(d, i)->part, part[i]);
    assert_true(tri_deck_at(d, i)->first == (i == 0));
  }
  tri_deck_close(&d);
}

/* A mapping refused as a JSON object, and facts of its message. */
static void bad_mapping(const char *value, const char *what) {
  tri_deck *d = good("a:\n  x: 1\n");
  tri_text  text = {0};
  char      argument[80];

  snprintf(argument, sizeof argument, "a.x_kwargs=%s", value);
  assert_int_equal(tri_deck_set(d, argument), TRI_OK);
  assert_int_equal(tri_deck_put_json(d, 1, 1, &text), TRI_ECONFIG);
  expect_refusal(what);
  tri_error_clear();
  tri_text_free(&text);
  tri_deck_close(&d);
}

/* A mapping is allowed if its key ends with _kwargs. Unquoted words have their JSON types. */
static void test_mappings(void **state) {
  tri_text text = {0};

  (void)state;
  tri_deck *d =
      good("a:\n  x_kwargs: {n: 1, \"m\": \"1\"}\n  y_kwargs:\n    k: true\n  z_kwargs: {}\n  w: 1\n");
  entry(d, 0, "a", "x_kwargs", "n", TRI_DECK_MAPPING, "1", "d.yaml:2");
  entry(d, 1, "a", "x_kwargs", "m", TRI_DECK_MAPPING, "1", "d.yaml:2");
  entry(d, 2, "a", "y_kwargs", "k", TRI_DECK_MAPPING, "true", "d.yaml:4");
  entry(d, 3, "a", "z_kwargs", "", TRI_DECK_MAPPING, "", "d.yaml:5");
  entry(d, 4, "a", "w", "", TRI_DECK_PLAIN, "1", "d.yaml:6");
  for (int i = 0; i < 5; i++) assert_true(tri_deck_at(d, i)->first == (i != 1));
  assert_int_equal(tri_deck_put_json(d, 0, 2, &text), TRI_OK);
  assert_string_equal(text.data, "{\"n\": 1, \"m\": \"1\"}");
  text.len = 0;
  assert_int_equal(tri_deck_put_json(d, 3, 1, &text), TRI_OK);
  assert_string_equal(text.data, "{}");
  assert_int_equal(tri_deck_set(d, "a.s_kwargs={k: True, l: FALSE, m: ~, n: 'no', o: 'True'}"), TRI_OK);
  text.len = 0;
  assert_int_equal(tri_deck_put_json(d, 5, 5, &text), TRI_OK);
  assert_string_equal(text.data, "{\"k\": true, \"l\": false, \"m\": null, \"n\": \"no\", \"o\": \"True\"}");
  tri_deck_close(&d);
  d = good("a:\n  x: 1\n  y: 2\n  z: 3\n  w: 4\n  v: 5\n");
  assert_int_equal(tri_deck_set(d, "a.v_kwargs={k: 'x}'}"), TRI_OK);
  entry(d, 5, "a", "v_kwargs", "k", TRI_DECK_MAPPING, "x}", "argument 'a.v_kwargs={k: 'x}'}'");
  assert_int_equal(tri_deck_set(d, "a.u={k: 1}"), TRI_OK); /* for another key this is text */
  entry(d, 6, "a", "u", "", TRI_DECK_PLAIN, "{k: 1}", "argument 'a.u={k: 1}'");
  assert_int_equal(tri_deck_set(d, "a.t_kwargs={k: 1} x"), TRI_ECONFIG);
  tri_error_clear();
  tri_deck_close(&d);
  bad_mapping("{k: no}", "tri_deck_check_scalar() a.x_kwargs={k: no} x_kwargs k no");
  bad_mapping("{k: 9223372036854775808}",
              "tri_deck_check_scalar() a.x_kwargs={k: 9223372036854775808} x_kwargs k 9223372036854775808 "
              "64");
  bad_mapping("{k: -1e400}", "tri_deck_check_scalar() a.x_kwargs={k: -1e400} x_kwargs k -1e400");
  bad_mapping("{k: .nan}", "tri_deck_check_scalar() a.x_kwargs={k: .nan} x_kwargs k .nan");
  bad_mapping("{k: -.Inf}", "tri_deck_check_scalar() a.x_kwargs={k: -.Inf} x_kwargs k -.Inf");
  bad("a:\n  x_kwargs: {k: [1]}\n", "read_mapping() d.yaml:2");
  bad("a:\n  x_kwargs: {k: {l: 1}}\n", "read_mapping() d.yaml:2");
  tri_text_free(&text);
}

static void test_null(void **state) {
  (void)state;
  tri_deck *d = good("a:\n  x: null\n  y: \"null\"\n  z:\n  w: ~\n  v: nul\n");

  assert_true(tri_deck_is_null(tri_deck_at(d, 0)));
  assert_false(tri_deck_is_null(tri_deck_at(d, 1)));
  assert_false(tri_deck_is_null(tri_deck_at(d, 2)));
  assert_true(tri_deck_is_null(tri_deck_at(d, 3)));
  assert_false(tri_deck_is_null(tri_deck_at(d, 4)));
  tri_deck_close(&d);
}

static void test_refused(void **state) {
  (void)state;
  bad("", "read_file() d.yaml:1");
  bad("# nothing\n", "read_file() d.yaml:1");
  bad("just words\n", "read_file() d.yaml:1");
  bad("- a\n", "read_file() d.yaml:1");
  bad("a:\n  x: &n 1\n", "next() d.yaml:2 YAML (&name)");
  bad("a:\n  x: *n\n", "next() d.yaml:2 YAML (*name)");
  bad("a: &s\n  x: 1\n", "next() d.yaml:1 YAML (&name)");
  bad("a:\n  x: !!int 1\n", "next() d.yaml:2 YAML (!name)");
  bad("a:\n  x: ! 1\n", "next() d.yaml:2 YAML (!name)");
  bad("%YAML 1.1\n---\na:\n  x: 1\n", "next() d.yaml:1 YAML (%...)");
  bad("a:\n  x: 1\n---\nb:\n  x: 1\n", "read_file() d.yaml:3 YAML");
  bad("a:\n  x: 1\n\n  x: 2\n", "refuse_repeated() d.yaml:4 a.x d.yaml:2");
  bad("a:\n  x: 1\nb:\n  x: 1\na:\n  y: 1\n", "refuse_repeated() d.yaml:5 d.yaml:2");
  bad("a:\n  x:\n    y: 1\n", "read_section() d.yaml:2");
  bad("a:\n  x: [[1]]\n", "read_list() d.yaml:2");
  bad("r:\n  - {n: 1, n: 2}\n", "read_item_fields() d.yaml:2");
  bad("r:\n  - {n: {m: 1}}\n", "read_field() d.yaml:2");
  bad("r:\n  - {n: [[1]]}\n", "read_field() d.yaml:2");
  bad("r:\n  - {n: [1], n: 2}\n", "read_item_fields() d.yaml:2");
  bad("r:\n  - {}\n", "read_item_fields() d.yaml:2");
  bad("a:\n  ? [x]\n  : 1\n", "take_key() d.yaml:2");
  bad("a:\n  \"\": 1\n", "take_key() d.yaml:2");
  bad("a:\n  x: \"\\0\"\n", "next() d.yaml:2 U+0000");
  bad("a:\n\tx: 1\n", "syntax_error() d.yaml:2 YAML tab");
  bad("a:\n  x: [1\n", "syntax_error() d.yaml:3 YAML ]");
  bad("a:\n  x: 1\n y: 2\n", "syntax_error() d.yaml:3 YAML");
  bad("a:\n  x: 1\n  y: \xFF\n", "syntax_error() d.yaml:3 YAML UTF-8");
  bad_bytes("a:\n  x: \0\n", 10, "syntax_error() d.yaml:2 YAML");
  bad_bytes("\xFF\xFE"
            "a\0:\0",
            6, "syntax_error() d.yaml:1 YAML UTF-8");
}

/* Every cut of a good deck, and every byte of it damaged, gives a result or a message, never a crash. */
static void test_damaged(void **state) {
  (void)state;
  const char *text = "run:\n  output: 'o'\ndata:\n  train: [a, b]\nreward:\n  - {name: exact}\n";
  size_t      n = strlen(text);
  char        copy[128];

  for (size_t i = 0; i < n; i++) {
    for (int byte = 0; byte < 256; byte += 5) {
      tri_deck  *d = NULL;
      tri_status st;
      memcpy(copy, text, n);
      copy[i] = (char)byte;
      tri_error_clear();
      st = tri_deck_open_text("d.yaml", copy, byte ? n : i, &d);
      assert_true(st == TRI_OK ? d != NULL : st == TRI_ECONFIG && tri_error_message()[0]);
      tri_deck_close(&d);
    }
  }
}

static void test_deep_and_large(void **state) {
  (void)state;
  size_t n = (1 << 20) + 1;
  char  *text = malloc(n);

  assert_non_null(text);
  memset(text, '[', n);
  memcpy(text, "a: ", 3);
  bad_bytes(text, n - 1, "read_list() d.yaml:1");
  memset(text, '{', n);
  bad_bytes(text, n - 1, "");
  bad_bytes(text, n, "tri_deck_open_text() d.yaml 1048577 1048576");
  free(text);
}

static void refuse_argument(tri_deck *d, const char *argument, const char *message) {
  tri_error_clear();
  assert_int_equal(tri_deck_set(d, argument), TRI_ECONFIG);
  expect_refusal(message);
}

static void test_arguments(void **state) {
  (void)state;
  tri_deck *d = good("a:\n  x: 1\n");

  assert_int_equal(tri_deck_set(d, "a.x=2"), TRI_OK);
  assert_int_equal(tri_deck_set(d, "actor.adam.lr=a=b # c"), TRI_OK);
  assert_int_equal(tri_deck_set(d, "eps_clip=.3"), TRI_OK);
  assert_int_equal(tri_deck_set(d, "data.train=[a, 'b']"), TRI_OK);
  assert_int_equal(tri_deck_set(d, "reward=[{name: exact}]"), TRI_OK);
  assert_int_equal(tri_deck_set(d, "rollout.stop=[]"), TRI_OK);
  entry(d, 1, "a", "x", "", TRI_DECK_PLAIN, "2", "argument 'a.x=2'");
  entry(d, 2, "actor", "adam.lr", "", TRI_DECK_PLAIN, "a=b # c", "argument 'actor.adam.lr=a=b # c'");
  entry(d, 3, "", "eps_clip", "", TRI_DECK_PLAIN, ".3", "argument 'eps_clip=.3'");
  entry(d, 4, "data", "train", "", 0, "a", "argument 'data.train=[a, 'b']'");
  entry(d, 5, "data", "train", "", 1, "b", "argument 'data.train=[a, 'b']'");
  entry(d, 6, "", "reward", "name", 0, "exact", "argument 'reward=[{name: exact}]'");
  entry(d, 7, "rollout", "stop", "", TRI_DECK_EMPTY_LIST, "", "argument 'rollout.stop=[]'");
  assert_int_equal(tri_deck_at(d, 1)->line, 0);
  refuse_argument(d, "a.x=3", "refuse_repeated() a.x=3 a.x a.x=2");
  refuse_argument(d, "a.x", "tri_deck_set() a.x section.key=value train.steps=10");
  refuse_argument(d, "=1", "tri_deck_set() =1 section.key=value train.steps=10 !.x=1 !a.=1");
  refuse_argument(d, "a.=1", "tri_deck_set() a.=1 section.key=value train.steps=10");
  refuse_argument(d, ".x=1", "tri_deck_set() .x=1 section.key=value train.steps=10");
  refuse_argument(d, "a.y=[1", "syntax_error() a.y=[1 YAML ]");
  refuse_argument(d, "a.z=[1] 2", "syntax_error() a.z=[1] 2 YAML");
  refuse_argument(d, "a.w=[&n 1]", "next() a.w=[&n 1] YAML");
  refuse_argument(d, "a.v=\xC0\x80", "tri_deck_set() UTF-8");
  refuse_argument(d, "a.v=\xED\xA0\x80", "tri_deck_set() UTF-8");
  assert_int_equal(tri_deck_set(d, "a.u=\xF0\x9F\x98\x80\xC3\xA9"), TRI_OK);
  tri_deck_close(&d);
}

static void test_files(void **state) {
  (void)state;
  char      name[] = "/tmp/test_deck_XXXXXX";
  int       fd = mkstemp(name);
  tri_deck *d = NULL;

  assert_true(fd >= 0);
  assert_int_equal(write(fd, "a:\n  x: 1\n", 10), 10);
  close(fd);
  assert_int_equal(tri_deck_open(name, &d), TRI_OK);
  assert_int_equal(tri_deck_count(d), 1);
  tri_deck_close(&d);
  unlink(name);
  tri_error_clear();
  assert_int_equal(tri_deck_open(name, &d), TRI_EINPUT);
  expect_refusal("open_to_read()");
  assert_int_equal(tri_deck_open("/tmp", &d), TRI_EINPUT);
  assert_null(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sections),       cmocka_unit_test(test_mappings),  cmocka_unit_test(test_null),
      cmocka_unit_test(test_lists_in_items), cmocka_unit_test(test_refused),   cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_deep_and_large), cmocka_unit_test(test_arguments), cmocka_unit_test(test_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
