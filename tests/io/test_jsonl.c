/* test_jsonl.c - the reader of JSON lines: raw values, fields, limits of lines and memory, other kinds of
 * files. Judges: exact values worked out by hand, and the peak memory of the process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "io/text/jsonl.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "refusal_case.h"

static char folder[64], path[96];

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_jsonl_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/a.jsonl", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(path);
  assert_int_equal(tri_host_bytes(), 0);
  return rmdir(folder);
}

static void put_file(const char *bytes, size_t n) {
  assert_int_equal(tri_file_write(path, bytes, n), TRI_OK);
}

static void expect_message(const char *part) {
  expect_refusal(part);
  tri_error_clear();
}

/* Reads the first line of a file with these bytes. */
static tri_status read_first(const char *bytes, size_t n, tri_jsonl **r) {
  json_t *object;

  put_file(bytes, n);
  assert_int_equal(tri_jsonl_open(path, r), TRI_OK);
  return tri_jsonl_next(*r, &object);
}

static void finds_raw_values(void **state) {
  static const struct {
    const char *key, *value;
  } row[] = {
      {"a", "1.50"}, {"b\"", "[1, \"]}\", {\"x\": 2}]"}, {"c", "\"\\\"}\""}, {"d", "{}"}, {"e", "-0.0E+2"}};
  static const char line[] =
      " { \"a\" : 1.50 ,\"b\\\"\":[1, \"]}\", {\"x\": 2}], \"c\":\"\\\"}\",\"d\":{},\"e\":-0.0E+2}";
  tri_jsonl     *r;
  struct json_t *object;
  const char    *raw;
  size_t         n;

  (void)state;
  put_file(line, sizeof line - 1);
  assert_int_equal(tri_jsonl_open(path, &r), TRI_OK);
  assert_int_equal(tri_jsonl_next(r, &object), TRI_OK);
  assert_int_equal(tri_jsonl_line(r), 1);
  assert_string_equal(tri_jsonl_path(r), path);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    raw = tri_jsonl_raw(r, row[i].key, &n);
    assert_non_null(raw);
    assert_int_equal(n, strlen(row[i].value));
    assert_memory_equal(raw, row[i].value, n);
  }
  assert_null(tri_jsonl_raw(r, "x", &n));
  assert_int_equal(tri_jsonl_next(r, &object), TRI_OK);
  assert_null(object);
  assert_int_equal(tri_jsonl_next(r, &object), TRI_OK);
  assert_null(object);
  tri_jsonl_close(&r);
  assert_null(r);
}

static void names_fields(void **state) {
  static const struct {
    const char *line, *want;
  } row[] = {{"{}", "!a !..."},
             {"{\"a\":1}", "a !..."},
             {"{\"question\":{\"x\":1},\"answer\":2}", "question answer !x !..."},
             {"{\"question\":1,\"answer\":2,\"third\":3}", "question answer ... !third"},
             {"{\"a_name_of_many_letters\":1,\"b\":2}", "... !a_name_of_many_letters !b"}};
  char       out[40];
  tri_jsonl *r;

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(read_first(row[i].line, strlen(row[i].line), &r), TRI_OK);
    if (!tells(tri_jsonl_fields(r, out, sizeof out), row[i].want)) fail_msg("not '%s': %s", row[i].want, out);
    tri_jsonl_close(&r);
  }
}

/* Files in other formats are recognised. */
static void recognises_other_files(void **state) {
  static const struct {
    const char *bytes;
    size_t      n;
    const char *what;
  } row[] = {
      {"PAR1\x15\0", 6, "refuse_kind() a.jsonl Parquet python3 -c"},
      {"ARROW1\0\0", 8, "refuse_kind() a.jsonl Arrow file"},
      {"\xff\xff\xff\xff\x10", 5, "refuse_kind() a.jsonl Arrow stream"},
      {"\x89HDF\r\n\x1a\n", 8, "refuse_kind() a.jsonl HDF5"},
      {"\xfd"
       "7zXZ",
       5, "refuse_kind() a.jsonl xz unxz"},
      {"BZh9", 4, "refuse_kind() a.jsonl bzip2 bunzip2"},
      {"PK\3\4", 4, "refuse_kind() a.jsonl zip unzip"},
      {"\xff\xfe{\0", 4, "refuse_kind() a.jsonl UTF-16 UTF-8"},
      {"\xfe\xff\0{", 4, "refuse_kind() a.jsonl UTF-16 UTF-8"},
      {"{\0\"\0", 4, "refuse_kind() a.jsonl UTF-16 UTF-8 UTF-16LE"},
      {"\0{\0\"", 4, "refuse_kind() a.jsonl UTF-16 UTF-8 UTF-16BE"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", 68,
       "refuse_kind() a.jsonl LFS"},
      {"\xef\xbb\xbf\n [{\"text\":\"a\"},\n{\"text\":\"b\"}]\n", 33, "refuse_kind() a.jsonl .[] a.new.jsonl"},
      {"question,answer\n1,2\n", 20, "refuse_kind() a.jsonl CSV python3 -c"},
      {"\xef\xbb\xbf\"a, b\",c\r\n1,2\r\n", 19, "refuse_kind() a.jsonl CSV python3 -c"},
      {"a b\tc\n1\t2\n", 10, "refuse_kind() a.jsonl python3 -c tabs"},
      {"{ \r\n  \"text\": \"a\"\n}\n", 21, "refuse_kind() a.jsonl JSON jq !.[]"},
  };
  tri_jsonl *r;

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    put_file(row[i].bytes, row[i].n);
    assert_int_equal(tri_jsonl_open(path, &r), TRI_EINPUT);
    expect_message(row[i].what);
  }
}

/* A file that only resembles a table is read, and its line is refused. */
static void takes_no_text_for_a_table(void **state) {
  static const char *const row[] = {"Hello, world\n",
                                    "one\ntwo, three\n",
                                    "\"prompt\": \"a\", \"x\": 1}\n",
                                    "true,\n",
                                    "a,",
                                    "\"a",
                                    "\"\""};
  tri_jsonl               *r;

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(read_first(row[i], strlen(row[i]), &r), TRI_EINPUT);
    expect_message("tri_jsonl_next() a.jsonl:1");
    tri_jsonl_close(&r);
  }
}

/* Returns the peak memory of this process. */
static int64_t most_bytes(void) {
  struct rusage r;

  assert_int_equal(getrusage(RUSAGE_SELF, &r), 0);
  return (int64_t)r.ru_maxrss * 1024;
}

/* A line beyond the limit is not held, nor a skipped line. An empty line costs nothing. */
static void holds_no_long_line(void **state) {
  enum { FILE_BYTES = 1 << 29, MOST = 300 << 20, BLANKS = 20000000 };
  tri_jsonl     *r;
  struct json_t *object;
  int64_t        before = most_bytes();
  char          *blank;

  (void)state;
  put_file("\n{", 2);
  assert_int_equal(truncate(path, FILE_BYTES), 0); /* a hole without a newline */
  assert_int_equal(tri_jsonl_open_part(path, 2, FILE_BYTES, &r), TRI_OK);
  assert_int_equal(tri_jsonl_next(r, &object), TRI_OK);
  assert_null(object);
  tri_jsonl_close(&r);
  assert_int_equal(tri_jsonl_open(path, &r), TRI_OK);
  assert_int_equal(tri_jsonl_next(r, &object), TRI_EINPUT);
  expect_refusal("take_line() a.jsonl:2 more than");
  expect_refusal("take_line() a.jsonl:2 more 67108864");
  tri_jsonl_close(&r);
  assert_int_equal(TRI_ALLOC(blank, BLANKS), TRI_OK);
  memset(blank, '\n', BLANKS);
  put_file(blank, BLANKS);
  TRI_FREE(blank);
  assert_int_equal(tri_jsonl_open(path, &r), TRI_OK);
  assert_int_equal(tri_jsonl_next(r, &object), TRI_OK);
  assert_int_equal(tri_jsonl_line(r), BLANKS);
  tri_jsonl_close(&r);
  assert_in_range(most_bytes() - before, 0, MOST);
}

/* Parsed, "{}" takes 80 times its bytes. */
static void bounds_nesting(void **state) {
  enum { MOST = 1 << 18, DEEPEST = 2048 };
  tri_text   text = {0};
  tri_jsonl *r;

  (void)state;
  assert_int_equal(tri_text_printf(&text, "{\"text\":\"[{[{\\\"[{\",\"x\":[0"), TRI_OK);
  for (int i = 2; i < MOST; i++) assert_int_equal(tri_text_put(&text, ",{}", 3), TRI_OK);
  assert_int_equal(tri_text_put(&text, "]}", 2), TRI_OK);
  assert_int_equal(read_first(text.data, text.len, &r), TRI_OK);
  tri_jsonl_close(&r);
  text.len -= 2;
  assert_int_equal(tri_text_put(&text, ",[]]}", 5), TRI_OK);
  assert_int_equal(read_first(text.data, text.len, &r), TRI_EINPUT);
  expect_message("parse() a.jsonl:1 262144");
  tri_jsonl_close(&r);
  text.len = 0;
  for (int i = 0; i < DEEPEST; i++) assert_int_equal(tri_text_put(&text, "{\"\":", 4), TRI_OK);
  assert_int_equal(read_first(text.data, text.len, &r), TRI_EINPUT);
  expect_message("tri_jsonl_next() a.jsonl:1 8192");
  tri_jsonl_close(&r);
  tri_text_free(&text);
}

/* Judge: Python's json writes and reads all of these. */
static void holds_places_of_odd_values(void **state) {
  static const char line[] =
      "{\"a\":NaN, \"b\\ud800\\u0000\" :[ -Infinity ,1], \"c\":-12345678901234567890 ,\"d\":"
      "\"x\\\\\\udfff\\\"\",\"e\":{\"f\":1e400},\"g\":\"NaN \\ud83d\\ude00\"}";
  static const struct {
    const char *key, *raw, *said; /* said NULL: the value can be read */
  } row[] = {{"a", "NaN", "tri_jsonl_refuse_odd() a.jsonl:1 NaN"},
             {"c", "-12345678901234567890", "tri_jsonl_refuse_odd() c -12345678901234567890 64"},
             {"d", "\"x\\\\\\udfff\\\"\"", "tri_jsonl_refuse_odd() a.jsonl:1 d x\\\\\\udfff\\\""},
             {"e", "{\"f\":1e400}", "`e` 1e400"},
             {"e.f", "1e400", "tri_jsonl_refuse_odd() a.jsonl:1 e.f 1e400"},
             {"g", "\"NaN \\ud83d\\ude00\"", NULL},
             {"h", NULL, NULL}};
  static const char *const but[] = {"c", NULL};
  tri_text                 members = {0};
  tri_jsonl               *r;

  (void)state;
  assert_int_equal(read_first(line, sizeof line - 1, &r), TRI_OK);
  assert_true(tri_jsonl_has_odd(r));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    size_t      n;
    const char *raw = tri_jsonl_raw(r, row[i].key, &n);
    assert_true(!raw == !row[i].raw && (!raw || n == strlen(row[i].raw)));
    if (raw) assert_memory_equal(raw, row[i].raw, n);
    assert_int_equal(tri_jsonl_refuse_odd(r, row[i].key), row[i].said ? TRI_EINPUT : TRI_OK);
    if (row[i].said) expect_message(row[i].said);
  }
  assert_int_equal(tri_jsonl_put_members(r, but, &members), TRI_OK);
  assert_string_equal(members.data,
                      "\"a\":NaN, \"b\\ud800\\u0000\" :[ -Infinity ,1], \"d\":\"x\\\\\\udfff\\\"\", "
                      "\"e\":{\"f\":1e400}, \"g\":\"NaN \\ud83d\\ude00\", ");
  tri_text_free(&members);
  tri_jsonl_close(&r);
  assert_int_equal(read_first("{\"a\":NaN,\"b\":x}", 15, &r), TRI_EINPUT);
  expect_message("tri_jsonl_next() a.jsonl:1 x 14"); /* the column in the line */
  tri_jsonl_close(&r);
}

/* Odd values cannot fill the memory either. */
static void bounds_odd_values(void **state) {
  enum { MOST = 1 << 18 };
  tri_text   text = {0};
  tri_jsonl *r;

  (void)state;
  assert_int_equal(tri_text_printf(&text, "{\"x\":[0"), TRI_OK);
  for (int i = 2; i < MOST; i++) assert_int_equal(tri_text_put(&text, ",NaN", 4), TRI_OK);
  assert_int_equal(tri_text_put(&text, "]}", 2), TRI_OK);
  assert_int_equal(read_first(text.data, text.len, &r), TRI_OK);
  tri_jsonl_close(&r);
  text.len -= 2;
  assert_int_equal(tri_text_put(&text, ",NaN]}", 6), TRI_OK);
  assert_int_equal(read_first(text.data, text.len, &r), TRI_EINPUT);
  expect_message("parse() a.jsonl:1 262144 NaN");
  tri_jsonl_close(&r);
  tri_text_free(&text);
}

static void refuses_what_is_no_regular_file(void **state) {
  const char *const file[] = {path, "/dev/zero", "/"}, *const what[] = {"check_regular() a.jsonl",
                                                                        "check_regular() /dev/zero device",
                                                                        "check_regular() / folder"};
  tri_jsonl *r;

  (void)state;
  assert_int_equal(mkfifo(path, 0600), 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tri_jsonl_open(file[i], &r), TRI_EINPUT);
    expect_message(what[i]);
  }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest test[] = {
      CASE(finds_raw_values),
      CASE(names_fields),
      CASE(recognises_other_files),
      CASE(takes_no_text_for_a_table),
      CASE(holds_no_long_line),
      CASE(bounds_nesting),
      CASE(refuses_what_is_no_regular_file),
      CASE(holds_places_of_odd_values),
      CASE(bounds_odd_values),
  };
  return cmocka_run_group_tests(test, NULL, NULL);
}
