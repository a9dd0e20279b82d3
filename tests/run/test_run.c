/* test_run.c - a run and its output folder: claimed by one, an older run's files set aside. Judge: the files
 * that are there afterwards. */
#include "base/file.h"
#include "run/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tri_comm *world; /* of one rank, without MPI */
static char      top[256];

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

static void refused(tri_status st, tri_status want, const char *words) {
  assert_int_equal(st, want);
  assert_non_null(strstr(tri_error_message(), words));
  tri_error_clear();
}

static char *path_of(const char *name) {
  static char path[4][400];
  static int  turn;

  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof *path, "%s/%s", top, name);
  return path[turn];
}

static bool is_there(const char *name) { return tri_file_exists(path_of(name)); }

static void write_text(const char *name, const char *text) {
  ok(tri_file_write(path_of(name), text, strlen(text)));
}

static void check_text(const char *name, const char *want) {
  char  *text;
  size_t n;

  ok(tri_file_read(path_of(name), 1 << 20, &text, &n));
  assert_true(n == strlen(want) && !memcmp(text, want, n));
  tri_host_free((void **)&text);
}

/* A run into out/a/b that is asked to resume so; its deck as used is one line. */
static tri_run open_run(tri_config *cfg, char *output, char *resume) {
  tri_run r;

  *cfg = (tri_config){.run = {.output = output, .resume = resume}};
  ok(tri_run_open(cfg, world, NULL, &r));
  ok(tri_text_printf(&r.deck, "# %s\n", resume));
  return r;
}

static void remove_all(const char *const *name) {
  for (; *name; name++) assert_int_equal(remove(path_of(*name)), 0);
}

static void one_run_at_a_time(void **state) {
  char       output[300], resume[] = "auto";
  tri_config cfg[2];

  (void)state;
  snprintf(output, sizeof output, "%s/out/a", top);
  tri_run first = open_run(&cfg[0], output, resume);
  ok(tri_run_claim(&first)); /* nothing is there to be locked */
  ok(tri_run_find(&first));
  assert_true(!first.resume[0] && !tri_run_is_own(&first) && !is_there("out"));
  ok(tri_run_begin(&first, 0, true));
  check_text("out/a/deck.yaml", "# auto\n");
  tri_run second = open_run(&cfg[1], output, resume);
  refused(tri_run_claim(&second), TRI_ECONFIG, "another run is writing");
  refused(tri_run_begin(&second, 0, true), TRI_ECONFIG, "another run is writing");
  tri_run_close(&first);
  ok(tri_run_claim(&second));
  tri_run_close(&second);
  remove_all((const char *const[]){"out/a/deck.yaml", "out/a", "out", NULL});
}

static void a_folder_that_is_no_runs_is_refused(void **state) {
  char       output[300], resume[] = "never";
  tri_config cfg;

  (void)state;
  snprintf(output, sizeof output, "%s/out", top);
  tri_run r = open_run(&cfg, output, resume);
  write_text("out", "a file");
  refused(tri_run_claim(&r), TRI_EFILE, "no folder");
  assert_int_equal(remove(output), 0);
  assert_int_equal(mkdir(output, 0777), 0);
  write_text("out/config.json", "{}");
  refused(tri_run_claim(&r), TRI_ECONFIG, "the folder of a model");
  tri_run_close(&r);
  remove_all((const char *const[]){"out/config.json", "out", NULL});
}

/* What an older run wrote stays under other names; what the new one reads must not be among it. */
static void an_older_run_is_set_aside(void **state) {
  char       output[300], resume[] = "never";
  tri_config cfg;

  (void)state;
  snprintf(output, sizeof output, "%s/out", top);
  assert_int_equal(mkdir(output, 0777), 0);
  assert_int_equal(mkdir(path_of("out/checkpoints"), 0777), 0);
  write_text("out/metrics.jsonl", "{\"step\": 1}\n");
  write_text("out/deck.yaml", "# old\n");
  write_text("out/deck.step-00000007.yaml", "# older\n");
  write_text("out/notes", "mine");
  tri_run r = open_run(&cfg, output, resume);
  ok(tri_run_claim(&r));
  ok(tri_run_find(&r));
  const tri_run_input inside = {"model.path", path_of("out/checkpoints")}, none = {"model.ref_path", ""},
                      beside = {"model.config", path_of("out/notes")};
  refused(tri_run_check_aside(&r, &inside, 1), TRI_ECONFIG, "model.path");
  ok(tri_run_check_aside(&r, &none, 1));
  ok(tri_run_check_aside(&r, &beside, 1));
  assert_true(tri_output_would_move(&cfg, inside.path) && !tri_output_would_move(&cfg, beside.path));
  ok(tri_run_begin(&r, 0, false)); /* takes no step */
  check_text("out/deck.yaml", "# old\n");
  ok(tri_run_begin(&r, 0, true));
  check_text("out/deck.yaml", "# never\n");
  check_text("out/deck.yaml.before-1", "# old\n");
  check_text("out/deck.step-00000007.yaml.before-1", "# older\n");
  check_text("out/metrics.jsonl.before-1", "{\"step\": 1}\n");
  assert_true(is_there("out/checkpoints.before-1") && !is_there("out/metrics.jsonl") &&
              is_there("out/notes"));
  tri_run_close(&r);
  remove_all((const char *const[]){"out/deck.yaml", "out/deck.yaml.before-1", "out/checkpoints.before-1",
                                   "out/deck.step-00000007.yaml.before-1", "out/metrics.jsonl.before-1",
                                   "out/notes", "out", NULL});
}

static int open_folder(void **state) {
  const char *tmp = getenv("TMPDIR");

  (void)state;
  tri_log_open(0, TRI_LOG_WARN);
  ok(tri_comm_pretend(TRI_WORLD, 1, &world));
  snprintf(top, sizeof top, "%s/trireme-test-XXXXXX", tmp ? tmp : "/tmp");
  return mkdtemp(top) ? 0 : -1;
}

static int close_folder(void **state) {
  (void)state;
  TRI_FREE(world);
  return rmdir(top);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_run_at_a_time),
                                     cmocka_unit_test(a_folder_that_is_no_runs_is_refused),
                                     cmocka_unit_test(an_older_run_is_set_aside)};

  return cmocka_run_group_tests(tests, open_folder, close_folder);
}
