/* test_checkpoint_links.c - tests the whole program in an output folder with links and folders of other
 * users. Nothing is emptied, overwritten, appended to or made behind a link. Judge: `far`, the target of the
 * links, is unchanged. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <errno.h>

enum { OTHER_USER = 12345 };

/* Makes a copy of the finished run "run", and a folder elsewhere that must not change. */
static void prepare(void) {
  cli_sh(
      "rm -rf o far as_it_was && cp -r run o && mkdir far && echo mine >far/x && echo mine >far/MANIFEST.json"
      " && cp -r far as_it_was");
}

static void far_is_untouched(void) { cli_sh("diff -r far as_it_was"); }

static bool is_there(const char *path) {
  struct stat sb;

  return !lstat(path, &sb);
}

/* Tells whether this test may give files to another user. */
static bool give_away(const char *path) { return geteuid() == 0 && !lchown(path, OTHER_USER, OTHER_USER); }

static void an_archived_checkpoint_survives_retention(void **state) {
  (void)state;
  prepare();
  cli_sh("mv o/checkpoints/step-00000001 archived && cp -r archived saved &&"
         " ln -s ../../archived o/checkpoints/step-00000001");
  cli_succeeds(ONE SFT "run.output=o train.steps=5");
  cli_sh("diff -r archived saved && test -d o/checkpoints/step-00000005 -a ! -e o/checkpoints/step-00000003");
  assert_true(is_there("o/checkpoints/step-00000001"));
  cli_succeeds(ONE SFT "run.output=p train.steps=2 run.resume=o/checkpoints/step-00000001");
}

static void a_link_in_place_of_a_step_is_replaced(void **state) {
  (void)state;
  prepare();
  cli_sh("ln -s ../../far o/checkpoints/step-00000003");
  cli_succeeds(ONE SFT "run.output=o train.steps=3");
  far_is_untouched();
  cli_sh("test -d o/checkpoints/step-00000003 -a ! -L o/checkpoints/step-00000003");
}

static void leftovers_that_are_links_go_themselves(void **state) {
  (void)state;
  prepare();
  cli_sh("cd o/checkpoints && ln -s ../../far step-00000003.tmp && ln -s ../../far step-00000009.trash &&"
         " ln -s ../../far step-00000002.old && ln -s ../../far/x .LATEST.tmp && mkdir step-00000004.tmp &&"
         " ln -s ../../../far step-00000004.tmp/folder && ln -s ../../../far/x step-00000004.tmp/state.h5");
  cli_succeeds(ONE SFT "run.output=o train.steps=4");
  far_is_untouched();
  cli_sh("test -z \"$(find o/checkpoints -type l ! -name LATEST)\" -a \"$(readlink o/checkpoints/LATEST)\" = "
         "step-00000004");
}

static void what_cannot_be_removed_blocks_no_start(void **state) {
  (void)state;
  prepare();
  cli_sh("mkdir -p o/checkpoints/step-00000001.trash/folder && touch o/checkpoints/step-00000007.old");
  cli_succeeds(ONE SFT "run.output=o train.steps=3");
  cli_says(cli_err, "warning:", "o/checkpoints/step-00000001.trash/folder", strerror(EISDIR));
  cli_says(cli_err, "warning:", "o/checkpoints/step-00000007.old");
  assert_true(is_there("o/checkpoints/step-00000001.trash/folder") &&
              is_there("o/checkpoints/step-00000007.old"));
}

static void folders_of_others_are_left_alone(void **state) {
  (void)state;
  prepare();
  cli_sh("mkdir o/checkpoints/step-00000009.tmp && touch o/checkpoints/step-00000009.tmp/x");
  if (!give_away("o/checkpoints/step-00000009.tmp") || !give_away("o/checkpoints/step-00000001")) skip();
  cli_succeeds(ONE SFT "run.output=o train.steps=4");
  cli_says(cli_err, "warning:", "o/checkpoints/step-00000009.tmp", "12345");
  cli_says(cli_err, "warning:", "o/checkpoints/step-00000001", "12345");
  assert_true(is_there("o/checkpoints/step-00000009.tmp/x"));
  assert_true(is_there("o/checkpoints/step-00000001/MANIFEST.json") &&
              !is_there("o/checkpoints/step-00000002"));
}

static void files_that_are_links_are_not_followed(void **state) {
  (void)state;
  prepare();
  cli_sh("ln -s ../far/x o/deck.yaml.tmp");
  cli_succeeds(ONE SFT "run.output=o train.steps=3");
  far_is_untouched();
  cli_sh("rm o/log.txt && ln -s ../far/x o/log.txt");
  cli_refuses(74, ONE SFT "run.output=o train.steps=4", "check_file", "run.output:", "o/log.txt");
  cli_refuses(74, TWO SFT "run.output=o train.steps=4", "check_file", "run.output:", "o/log.txt");
  cli_sh("rm o/log.txt o/metrics.jsonl && ln -s ../far/x o/metrics.jsonl");
  cli_refuses(74, ONE SFT "run.output=o train.steps=4", "check_file", "run.output:", "o/metrics.jsonl");
  far_is_untouched();
}

static void folders_that_are_links_must_be_ours(void **state) {
  (void)state;
  prepare();
  cli_sh("mv o/checkpoints mine && ln -s ../mine o/checkpoints");
  cli_succeeds(ONE SFT "run.output=o train.steps=3");
  assert_true(is_there("mine/step-00000003"));
  if (!give_away("o/checkpoints")) skip();
  cli_refuses(74, ONE SFT "run.output=o train.steps=4", "check_owner", "o/checkpoints", "12345");
}

static void export_follows_no_link(void **state) {
  (void)state;
  prepare();
  cli_sh("ln -s far there");
  cli_refuses(64, ONE "export run there", "check_free", "there");
  cli_sh("ln -s far new.tmp");
  assert_int_equal(cli_run(ONE "export run new --verbose"), 64); /* the link's target stays */
  assert_string_equal(cli_take_place(), "make_tmp");
  cli_says(cli_err, "trireme:", "new.tmp");
  far_is_untouched();
  cli_sh("rm there new.tmp");
}

/* The folder left by `cp -rL`, or by a copy to a place without links. Its contents are kept, and the run goes
 * on from the newest checkpoint. */
static void latest_that_is_no_link_is_set_aside(void **state) {
  (void)state;
  prepare();
  cli_sh("rm -r o && cp -rL run o && cp -r run/checkpoints/step-00000001 o/checkpoints/BEST");
  cli_succeeds(ONE "inspect o");
  cli_shows(cli_out, "after step 2");
  cli_succeeds(ONE SFT "run.output=o train.steps=3");
  cli_says(cli_err, "warning:", "o/checkpoints/LATEST", "o/checkpoints/LATEST.before-1");
  cli_says(cli_err, "warning:", "o/checkpoints/BEST", "o/checkpoints/BEST.before-1");
  cli_sh("grep '\"event\": *\"start\"' o/run.jsonl | tail -n 1 | "
         "grep -q '\"resumed_from\": *\"o/checkpoints/step-00000002\"'");
  cli_sh("cd o/checkpoints && test -L LATEST -a \"$(readlink LATEST)\" = step-00000003 && "
         "diff -r LATEST.before-1 ../../run/checkpoints/step-00000002 && diff -r BEST.before-1 "
         "../../run/checkpoints/step-00000001");
  prepare(); /* a file, and the only copy of a checkpoint */
  cli_sh("rm o/checkpoints/LATEST && echo step-00000002 >o/checkpoints/LATEST");
  cli_succeeds(TWO SFT "run.output=o train.steps=3");
  cli_sh("test -L o/checkpoints/LATEST && grep -q step o/checkpoints/LATEST.before-1");
  prepare();
  cli_sh("cd o/checkpoints && rm -r LATEST step-00000001 && mv step-00000002 LATEST");
  cli_succeeds(ONE SFT "run.output=o train.steps=3");
  cli_sh("grep '\"event\": *\"start\"' o/run.jsonl | tail -n 1 | "
         "grep -q '\"resumed_from\": *\"o/checkpoints/step-00000002\"'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_archived_checkpoint_survives_retention),
      cmocka_unit_test(a_link_in_place_of_a_step_is_replaced),
      cmocka_unit_test(leftovers_that_are_links_go_themselves),
      cmocka_unit_test(what_cannot_be_removed_blocks_no_start),
      cmocka_unit_test(folders_of_others_are_left_alone),
      cmocka_unit_test(files_that_are_links_are_not_followed),
      cmocka_unit_test(folders_that_are_links_must_be_ours),
      cmocka_unit_test(export_follows_no_link),
      cmocka_unit_test(latest_that_is_no_link_is_set_aside),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
