/* test_run.c - a run and its output folder. One run claims it, and an older run's files are set aside. Judge:
 * the files left afterwards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "ranks_case.h"

#include "base/file.h"
#include "base/folder.h"
#include "run/output.h"
#include "refusal_case.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[256];

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}

static void refused(tri_status st, tri_status want, const char *words) {
  assert_int_equal(st, want);
  expect_refusal(words);
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

/* A run in out/a/b with this run.resume. Its deck as used is one line. */
static tri_run open_run(tri_config *cfg, char *output, char *resume) {
  tri_run r;

  *cfg = (tri_config){.run = {.output = output, .resume = resume}};
  ok(tri_run_open(cfg, world, NULL, &r));
  ok(tri_text_printf(&r.deck, "# %s\n", resume));
  return r;
}

static void make_folders(const char *const *name) {
  for (; *name; name++) ok(tri_folder_make(path_of(*name)));
}

static void remove_all(const char *const *name) {
  for (; *name; name++) assert_int_equal(remove(path_of(*name)), 0);
}

static void one_run_at_a_time(void **state) {
  char       output[300], resume[] = "auto", words[400], host[64] = "";
  tri_config cfg[2];

  (void)state;
  gethostname(host, sizeof host - 1);
  setenv("SLURM_JOB_ID", "8127", 1);
  snprintf(output, sizeof output, "%s/out/a", top);
  tri_run first = open_run(&cfg[0], output, resume);
  ok(tri_run_claim(&first)); /* there is nothing to lock */
  ok(tri_run_find(&first));
  assert_true(!first.resume[0] && !tri_run_is_own(&first) && !is_there("out"));
  ok(tri_run_begin(&first, 0, true));
  check_text("out/a/deck.yaml", "# auto\n");
  tri_run second = open_run(&cfg[1], output, resume);
  unsetenv("SLURM_JOB_ID"); /* a start of the same job would wait */
  snprintf(words, sizeof words, "lock_output() run.output a process %ld %s 8127", (long)getpid(), host);
  refused(tri_run_claim(&second), TRI_ECONFIG, words);
  write_text("out/a/.start", "something else");
  refused(tri_run_begin(&second, 0, true), TRI_ECONFIG, "lock_output() run.output a");
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
  refused(tri_run_claim(&r), TRI_EFILE, "check_folder() run.output out");
  assert_int_equal(remove(output), 0);
  assert_int_equal(mkdir(output, 0777), 0);
  write_text("out/config.json", "{}");
  refused(tri_run_claim(&r), TRI_ECONFIG, "check_no_model() run.output out config.json");
  tri_run_close(&r);
  remove_all((const char *const[]){"out/config.json", "out", NULL});
}

/* Files of an older run stay under other names. Files to be read by the new run must not be among them. */
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
  refused(tri_run_check_aside(&r, &inside, 1), TRI_ECONFIG,
          "check_stays() model.path checkpoints run.resume");
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

/* ---- the run's own checkpoints ---- */

static void own_checkpoints_by_any_name(void **state) {
  char       output[300], resume[] = "never";
  tri_config cfg;
  const struct {
    const char *name;
    bool        own;
  } row[] = {{"out/checkpoints/step-00000001", true},
             {"out/checkpoints/step-00000001/", true},
             {"out/checkpoints/step-00000002", true}, /* a link to a folder elsewhere */
             {"alias/checkpoints/step-00000001", true},
             {"other/step-00000002", false},
             {"out", false}};

  (void)state;
  snprintf(output, sizeof output, "%s/out", top);
  make_folders((const char *const[]){"out", "out/checkpoints", "out/checkpoints/step-00000001", "other",
                                     "other/step-00000002", NULL});
  assert_int_equal(symlink("../../other/step-00000002", path_of("out/checkpoints/step-00000002")), 0);
  assert_int_equal(symlink("out", path_of("alias")), 0);
  tri_run r = open_run(&cfg, output, resume);
  assert_false(tri_run_is_own(&r));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(r.resume, sizeof r.resume, "%s", path_of(row[i].name));
    assert_int_equal(tri_run_is_own(&r), row[i].own);
  }
  tri_run_close(&r);
  remove_all((const char *const[]){"alias", "other/step-00000002", "other", "out/checkpoints/step-00000002",
                                   "out/checkpoints/step-00000001", "out/checkpoints", "out", NULL});
}

/* ---- looking without touching ---- */

static void a_look_changes_nothing(void **state) {
  char       output[300], resume[] = "auto", missing[320], line[512];
  tri_config cfg[3];
  tri_errors errors = {0};

  (void)state;
  snprintf(output, sizeof output, "%s/out", top);
  snprintf(missing, sizeof missing, "%s/none", top);
  tri_run r = open_run(&cfg[0], output, resume);
  r.errors = &errors;
  ok(tri_run_look(&r));
  assert_true(errors.n == 0 && !is_there("out"));
  tri_run holder = open_run(&cfg[1], output, resume);
  ok(tri_run_begin(&holder, 0, true));
  write_text("out/config.json", "{}");
  assert_int_equal(symlink("config.json", path_of("out/log.txt")), 0);
  cfg[0].run.resume = missing;
  ok(tri_run_look(&r));
  assert_int_equal(errors.n, 4); /* a model, a link, another run writing there, no checkpoint */
  snprintf(line, sizeof line,
           "run.output out config.json\nrun.output log.txt\nrun.output out\nrun.resume "
           "%s\n",
           missing);
  expect_lines(errors.text.data, line);
  assert_true(r.lock < 0);
  tri_errors_free(&errors);
  tri_run_close(&holder);
  tri_run_close(&r);
  remove_all((const char *const[]){"out/log.txt", "out/config.json", "out/deck.yaml", "out", NULL});
}

/* ---- a resumed run ---- */

static const char sft_deck[] =
    "run: {output: out}\nmodel: {path: m}\ndata: {train: [t.jsonl]}\nalgo: {name: sft}\n"
    "train: {steps: 10, train_batch_size: 4, micro_batch_size: 2}\n";

static tri_config load_deck(const char *arg) {
  tri_config c;
  tri_deck  *d = NULL;

  ok(tri_deck_open_text("d.yaml", sft_deck, strlen(sft_deck), &d));
  if (arg) ok(tri_deck_set(d, arg));
  ok(tri_config_from_deck(d, &c, NULL));
  tri_deck_close(&d);
  return c;
}

/* A run with five lines of data, after step 3. */
static void write_checkpoint(void) {
  const tri_ckpt_tensor one = {"/model", "x", TRI_F32, 1, {1}};
  const float           x = 1;
  tri_ckpt_writer      *w;

  ok(tri_ckpt_create(path_of("out/checkpoints"), 3, world, &one, 1, sizeof sft_deck, &w));
  ok(tri_ckpt_write(w, 0, 0, 1, &x));
  ok(tri_ckpt_put_i64(w, "step", 3));
  ok(tri_ckpt_put_i64(w, "ranks", 1));
  ok(tri_ckpt_put_i64(w, "data_lines", 5));
  ok(tri_ckpt_put_i64(w, "data_hash", 77));
  ok(tri_ckpt_put_text(w, "algo", "sft"));
  ok(tri_ckpt_put_file(w, "deck.yaml", sft_deck, sizeof sft_deck - 1));
  ok(tri_ckpt_commit(&w));
}

/* The deck is changed by one argument, the data by its lines. With refusal NULL the run resumes. */
static void check_resumed(const char *arg, int64_t lines, const char *refusal, bool deck_kept) {
  tri_config       cfg = load_deck(arg);
  tri_ckpt_reader *from;
  tri_run          r;

  TRI_FREE(cfg.run.output);
  ok(tri_host_alloc(300, 1, (void **)&cfg.run.output));
  snprintf(cfg.run.output, 300, "%s/out", top);
  ok(tri_run_open(&cfg, world, NULL, &r));
  ok(tri_run_find(&r));
  assert_true(tri_run_is_own(&r));
  r.data_lines = lines;
  r.data_hash = 77;
  ok(tri_ckpt_open(r.resume, world, false, &from));
  if (refusal)
    refused(tri_run_compare(&r, from, &cfg), TRI_ECONFIG, refusal);
  else
    ok(tri_run_compare(&r, from, &cfg));
  assert_int_equal(r.deck_before.len > 0, deck_kept);
  tri_ckpt_close(&from);
  tri_run_close(&r);
  tri_config_free(&cfg);
}

static void a_resumed_run_is_the_one_before(void **state) {
  (void)state;
  make_folders((const char *const[]){"out", NULL});
  write_checkpoint();
  check_resumed(NULL, 5, NULL, false);
  check_resumed("train.steps=20", 5, NULL, true);
  check_resumed("run.seed=7", 5, "refuse() run.allow_changes [run.seed] run.seed", true);
  check_resumed("train.steps=20", 6, "refuse() step-00000003 data.train 5", true);
  check_resumed("run.allow_changes=data.train", 6, NULL, true);
  ok(tri_folder_remove(AT_FDCWD, path_of("out/checkpoints/step-00000003"), top, NULL));
  remove_all((const char *const[]){"out/checkpoints/LATEST", "out/checkpoints", "out", NULL});
}

static int open_folder(void **state) {
  const char *tmp = getenv("TMPDIR");

  ranks_open(state);
  tri_log_open(0, TRI_LOG_WARN);
  snprintf(top, sizeof top, "%s/trireme-test-XXXXXX", tmp ? tmp : "/tmp");
  return mkdtemp(top) ? 0 : -1;
}

static int close_folder(void **state) {
  ranks_close(state);
  assert_int_equal(tri_host_bytes(), 0);
  return rmdir(top);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_run_at_a_time),         cmocka_unit_test(a_folder_that_is_no_runs_is_refused),
      cmocka_unit_test(an_older_run_is_set_aside), cmocka_unit_test(own_checkpoints_by_any_name),
      cmocka_unit_test(a_look_changes_nothing),    cmocka_unit_test(a_resumed_run_is_the_one_before)};

  return cmocka_run_group_tests(tests, open_folder, close_folder);
}
