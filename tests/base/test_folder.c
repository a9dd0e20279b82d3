/* test_folder.c - folders opened, created and removed without following links. Judge: the files
 * afterwards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/folder.h"
#include "refusal_case.h"

#include <stdarg.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

enum { OTHER_USER = 12345 };
static char root[256];

/* Returns the program's user: the system's number, or the number that the file system maps it to. */
static uid_t pretended;
uid_t        geteuid(void) { return pretended ? pretended : (uid_t)syscall(SYS_geteuid); }

static void sh(const char *command) {
  if (system(command) != 0) fail_msg("failed: %s", command);
}

static bool there(const char *path) { return tri_folder_has(AT_FDCWD, path); }

static void refused(tri_status st, const char *part) {
  assert_int_equal(st, TRI_EFILE);
  expect_refusal(part);
  tri_error_clear();
}

static tri_status remove_it(const char *name) { return tri_folder_remove(AT_FDCWD, name, name, "first"); }

static void files_and_links_go_targets_stay(void **state) {
  (void)state;
  sh("mkdir keep a; touch keep/x a/first a/b; ln -s ../keep a/folder; ln -s ../keep/x a/file; ln -s gone "
     "a/none");
  assert_int_equal(remove_it("a"), TRI_OK);
  assert_false(there("a"));
  assert_true(there("keep/x"));
  assert_int_equal(remove_it("a"), TRI_OK);
}

static void a_link_goes_itself(void **state) {
  (void)state;
  sh("mkdir far; touch far/x; ln -s far l; ln -s nowhere m; ln -s far/x n");
  assert_true(tri_folder_has_link(AT_FDCWD, "l") && !tri_folder_has_link(AT_FDCWD, "far"));
  assert_int_equal(remove_it("l"), TRI_OK);
  assert_int_equal(remove_it("m"), TRI_OK);
  assert_int_equal(remove_it("n"), TRI_OK);
  assert_true(!there("l") && !there("m") && !there("n") && there("far/x"));
}

static void folders_in_it_and_files_in_its_place_stay(void **state) {
  (void)state;
  sh("mkdir -p deep/sub; touch deep/sub/x plain");
  refused(remove_it("deep"), "remove_entry() deep/sub");
  refused(remove_it("plain"), "open_own() plain");
  refused(tri_folder_check_own(AT_FDCWD, "plain", "plain"), "tri_folder_check_own() plain");
  refused(tri_folder_check_own(AT_FDCWD, "missing", "missing"), "missing");
  assert_true(there("deep/sub/x") && there("plain"));
}

static void made_once_found_twice(void **state) {
  int fd;

  (void)state;
  sh("touch file; mkdir real; ln -s real mine; ln -s nowhere dangling");
  assert_int_equal(tri_folder_make("new"), TRI_OK);
  assert_int_equal(tri_folder_make("new"), TRI_OK);
  assert_int_equal(tri_folder_make("mine"), TRI_OK);
  refused(tri_folder_make("file"), "tri_folder_open() file");
  refused(tri_folder_make("dangling"), "open_linked() dangling");
  refused(tri_folder_make("no/parent"), "tri_folder_make() no/parent");
  assert_int_equal(tri_folder_open("missing", &fd), TRI_OK);
  assert_int_equal(fd, -1);
  assert_int_equal(tri_folder_open("mine", &fd), TRI_OK);
  assert_true(fd >= 0);
  close(fd);
}

static void another_users_are_left_alone(void **state) {
  int fd;

  (void)state;
  if (geteuid() != 0) skip();
  sh("mkdir theirs ours; touch theirs/x; ln -s ours planted; ln -s theirs out");
  if (lchown("theirs", OTHER_USER, OTHER_USER) || lchown("planted", OTHER_USER, OTHER_USER)) skip();
  refused(remove_it("theirs"), "check_owner() theirs 12345 0");
  refused(tri_folder_check_own(AT_FDCWD, "theirs", "theirs"), "check_owner() theirs 12345 0");
  refused(tri_folder_open("planted", &fd), "check_owner() planted 12345 0");
  refused(tri_folder_make("planted"), "check_owner() planted 12345 0");
  refused(tri_folder_open("out", &fd), "check_owner() out 12345 0");
  assert_int_equal(fd, -1);
  assert_int_equal(tri_folder_make("theirs"), TRI_OK);
  assert_true(there("theirs/x"));
}

static void a_file_system_may_map_users(void **state) {
  tri_status checked, opened, removed;
  int        fd;

  (void)state;
  sh("mkdir mapped mapped_too; touch mapped/x; ln -s mapped_too to_mapped");
  pretended = OTHER_USER;
  checked = tri_folder_check_own(AT_FDCWD, "mapped", "mapped");
  opened = tri_folder_open("to_mapped", &fd);
  removed = remove_it("mapped");
  pretended = 0;
  assert_true(checked == TRI_OK && opened == TRI_OK && removed == TRI_OK && !there("mapped"));
  close(fd);
  sh("test -z \"$(find . -name '.owner*')\"");
}

/* Clusters have such links from /home/me to /scratch/me. */
static void roots_links_are_followed(void **state) {
  tri_status st;
  int        fd = -1;

  (void)state;
  if (geteuid() != 0) skip();
  sh("mkdir users_own; ln -s users_own by_root");
  if (lchown("users_own", OTHER_USER, OTHER_USER) || chmod(root, 0755) || seteuid(OTHER_USER)) skip();
  st = tri_folder_open("by_root", &fd);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(st, TRI_OK);
  close(fd);
}

/* Some file systems report unlimited space. */
static void space_is_counted(void **state) {
  int fd = open(".", O_RDONLY | O_DIRECTORY);

  (void)state;
  assert_true(tri_folder_bytes_of(3, 4096) == 12288 && tri_folder_bytes_of(7, 0) == 0);
  assert_true(tri_folder_bytes_of(UINT64_MAX, 1) == INT64_MAX);
  assert_true(tri_folder_bytes_of(UINT64_MAX / 4096, 4096) == INT64_MAX);
  assert_true(tri_folder_bytes_of((uint64_t)INT64_MAX / 4096, 4096) == INT64_MAX - 4095);
  assert_true(tri_folder_bytes_of((uint64_t)INT64_MAX / 4096 + 1, 4096) == INT64_MAX);
  assert_true(fd >= 0 && tri_folder_free_bytes(fd) >= 0 && tri_folder_free_bytes(-1) == -1);
  close(fd);
}

static int open_root(void **state) {
  const char *base = getenv("TMPDIR");

  (void)state;
  snprintf(root, sizeof root, "%s/trireme-folder-XXXXXX", base ? base : "/tmp");
  return !mkdtemp(root) || chdir(root);
}

static int close_root(void **state) {
  char command[300];

  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return chdir("/") || system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_and_links_go_targets_stay),
      cmocka_unit_test(a_link_goes_itself),
      cmocka_unit_test(folders_in_it_and_files_in_its_place_stay),
      cmocka_unit_test(made_once_found_twice),
      cmocka_unit_test(another_users_are_left_alone),
      cmocka_unit_test(a_file_system_may_map_users),
      cmocka_unit_test(roots_links_are_followed),
      cmocka_unit_test(space_is_counted),
  };

  return cmocka_run_group_tests(tests, open_root, close_root);
}
