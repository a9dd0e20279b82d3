/* test_file.c - existing files are never waited for, followed or emptied, and messages are safe to show.
 * Judge: the files and texts afterwards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/visible.h"
#include "refusal_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *at(const char *name) {
  static char path[4][128];
  static int  turn;

  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void put(const char *path, const char *text) {
  FILE *f = fopen(path, "w");

  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text) {
  char  *bytes;
  size_t n;

  assert_int_equal(tri_file_read(path, 1000, &bytes, &n), TRI_OK);
  assert_string_equal(bytes, text);
  tri_host_free((void **)&bytes);
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/test_file.XXXXXX"); /* no path names its kind */
  return !mkdtemp(folder);
}

static int remove_folder(void **state) {
  char command[96];

  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void only_regular_files_are_opened(void **state) {
  int fd = -1;

  (void)state;
  assert_int_equal(mkfifo(at("p"), 0600), 0);
  assert_int_equal(tri_file_open(at("p"), &fd), TRI_EINPUT); /* without O_NONBLOCK it would block for ever */
  expect_refusal("check_regular() pipe");
  tri_error_clear();
  assert_int_equal(tri_file_open(folder, &fd), TRI_EINPUT);
  expect_refusal("check_regular() folder");
  tri_error_clear();
  assert_int_equal(tri_file_open("/dev/null", &fd), TRI_EINPUT);
  expect_refusal("check_regular() /dev/null device");
  tri_error_clear();
  put(at("model"), "weights");
  assert_int_equal(symlink("model", at("link")), 0);
  assert_holds(at("link"), "weights"); /* model folders are full of links */
}

static void a_new_file_leaves_what_a_link_points_to(void **state) {
  (void)state;
  put(at("foreign"), "theirs");
  assert_int_equal(symlink("foreign", at("out.tmp")), 0);
  assert_int_equal(tri_file_write(at("out"), "ours", 4), TRI_OK);
  assert_holds(at("foreign"), "theirs");
  assert_holds(at("out"), "ours");
  assert_int_equal(symlink("foreign", at("link")), 0); /* the file itself is a link and is replaced */
  assert_int_equal(tri_file_write(at("link"), "ours", 4), TRI_OK);
  assert_holds(at("foreign"), "theirs");
  put(at("out.tmp"), "left by a killed run");
  assert_int_equal(tri_file_write(at("out"), "again", 5), TRI_OK);
  assert_holds(at("out"), "again");
}

static int count_files(void) {
  DIR *d = opendir(folder);
  int  n = 0;

  assert_non_null(d);
  for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

/* If two writers use one name, the first keeps it. No file of the user is touched. */
static void under_a_users_name_nothing_is_replaced(void **state) {
  tri_file_pieces one, two;

  (void)state;
  put(at("out.tmp"), "theirs");
  assert_int_equal(tri_pieces_begin_named(at("out"), false, &one), TRI_OK);
  assert_int_equal(tri_pieces_begin_named(at("out"), false, &two), TRI_OK);
  assert_string_not_equal(one.tmp, two.tmp);
  assert_int_equal(tri_pieces_put(&one, "one", 3), TRI_OK);
  assert_int_equal(tri_pieces_put(&two, "two, half", 9), TRI_OK);
  assert_int_equal(tri_pieces_end(&one), TRI_OK);
  assert_int_equal(tri_pieces_end(&two), TRI_EFILE);
  expect_refusal("tri_pieces_end() out");
  expect_refusal(two.tmp);
  tri_error_clear();
  assert_holds(at("out"), "one");
  assert_holds(two.tmp, "two, half");
  assert_holds(at("out.tmp"), "theirs");
  assert_int_equal(count_files(), 3);
  assert_int_equal(tri_pieces_begin_named(at("out"), true, &one), TRI_OK);
  tri_pieces_drop(&one);
  assert_int_equal(tri_file_write_named(at("out"), true, "new", 3), TRI_OK);
  assert_holds(at("out"), "new");
  assert_int_equal(count_files(), 3);
}

static void appending_refuses_links_and_pipes(void **state) {
  int fd = -1;

  (void)state;
  put(at("foreign"), "theirs");
  assert_int_equal(symlink("foreign", at("log.txt")), 0);
  assert_int_equal(tri_file_append(at("log.txt"), &fd), TRI_EFILE);
  expect_refusal("open_to_append() log.txt");
  tri_error_clear();
  assert_holds(at("foreign"), "theirs");
  assert_int_equal(mkfifo(at("p"), 0600), 0);
  assert_int_equal(tri_file_append(at("p"), &fd), TRI_EFILE);
  tri_error_clear();
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tri_file_append(at("lines"), &fd), TRI_OK);
    assert_int_equal(write(fd, "line\n", 5), 5);
    close(fd);
  }
  assert_holds(at("lines"), "line\nline\n");
}

/* The file has a second name, as in a backup by `cp -al`. */
static void appending_leaves_the_other_names_of_a_file(void **state) {
  int fd = -1;

  (void)state;
  put(at("shared"), "old\n");
  assert_int_equal(link(at("shared"), at("backup")), 0);
  assert_int_equal(tri_file_append(at("shared"), &fd), TRI_OK);
  assert_int_equal(write(fd, "new\n", 4), 4);
  assert_int_equal(ftruncate(fd, 6), 0);
  close(fd);
  assert_holds(at("backup"), "old\n");
  assert_holds(at("shared"), "old\nne");
}

static void assert_visible(const char *text, const char *keep, const char *shown) {
  char out[256];

  assert_int_equal(tri_visible(text, strlen(text), keep, out, sizeof out), strlen(shown));
  assert_string_equal(out, shown);
}

static void control_characters_become_visible(void **state) {
  char small[8];

  (void)state;
  assert_visible("plain, \xC3\xA4, \xE2\x82\xAC, \xF0\x9F\x98\x80", "",
                 "plain, \xC3\xA4, \xE2\x82\xAC, \xF0\x9F\x98\x80");
  assert_visible("\x1B[2Jdone\r\n\tx\x7F", "", "\\x1B[2Jdone\\r\\n\\tx\\x7F");
  assert_visible("a\n\tb\x1B", "\n\t", "a\n\tb\\x1B");
  assert_visible("\xC2\x9B"
                 "31m",
                 "", "\\u009B31m"); /* C1 control, CSI as one character */
  assert_visible("\xE2\x80\xAE"
                 "abc\xE2\x80\xA8",
                 "", "\\u202Eabc\\u2028"); /* right-to-left mark, and a line separator */
  assert_visible("\xFF\xC0\x80\xED\xA0\x80\xE2\x82", "",
                 "\\xFF\\xC0\\x80\\xED\\xA0\\x80\\xE2\\x82"); /* not UTF-8 */
  assert_visible("what\\x1B is visible stays", "", "what\\x1B is visible stays");
  assert_int_equal(tri_visible("\0", 1, "\n", small, sizeof small), 4);
  assert_string_equal(small, "\\x00");
  assert_int_equal(tri_visible("abcde\x1B", 6, "", small, sizeof small), 5); /* whole characters only */
  assert_string_equal(small, "abcde");
}

static void a_message_has_only_the_lines_of_its_format(void **state) {
  (void)state;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s: no tensor\n  see %s", "w\ntrireme: done\x1B[1A",
           "model\x01\x02");
  assert_string_equal(tri_error_message(), "w\\ntrireme: done\\x1B[1A: no tensor\n  see model\\x01\\x02");
  tri_error_lines("\n  1 = 1 x 1\x1B");
  expect_refusal("a_message_has_only_the_lines_of_its_format() done\\x1B[1A 1 1\\x1B");
  tri_error_clear();
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "\nboth ends\n");
  assert_string_equal(tri_error_message(), "\nboth ends\n");
  tri_error_clear();
}

static void the_log_escapes_what_it_is_given(void **state) {
  char  *text = NULL;
  size_t n;
  FILE  *f = tmpfile();

  (void)state;
  assert_non_null(f);
  tri_log_file(f);
  tri_log(TRI_LOG_INFO, "reward %s", "a\n  60 0.99\x1B[0m");
  tri_log_lines(TRI_LOG_INFO, "one\n  two\x07");
  tri_log_file(NULL);
  n = (size_t)ftell(f);
  assert_int_equal(TRI_ALLOC(text, n + 1), TRI_OK);
  rewind(f);
  assert_int_equal(fread(text, 1, n, f), n);
  fclose(f);
  assert_string_equal(text, "reward a\\n  60 0.99\\x1B[0m\none\n  two\\x07\n");
  TRI_FREE(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(only_regular_files_are_opened, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(a_new_file_leaves_what_a_link_points_to, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(under_a_users_name_nothing_is_replaced, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(appending_refuses_links_and_pipes, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(appending_leaves_the_other_names_of_a_file, make_folder, remove_folder),
      cmocka_unit_test(control_characters_become_visible),
      cmocka_unit_test(a_message_has_only_the_lines_of_its_format),
      cmocka_unit_test(the_log_escapes_what_it_is_given),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
