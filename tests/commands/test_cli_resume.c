/* test_cli_resume.c - the whole program when a run is resumed with another deck or other data. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hash.h"
#include "cli_events.h"

#include <errno.h>

/* Copies the finished run "run", with checkpoints of steps 1 and 2 and two lines of metrics. */
static void copy_run(const char *to) { cli_sh("rm -rf %s && cp -r run %s", to, to); }

static const char *const program[] = {ONE, TWO};

/* Copied to a job's own disk, or named from another folder, the data are the data. */
static void the_same_lines_may_lie_elsewhere(void **state) {
  (void)state;
  cli_sh("mkdir -p copy sub && cp sft.jsonl copy/");
  copy_run("s");
  cli_succeeds(ONE SFT "run.output=s train.steps=3 data.train=copy/sft.jsonl");
  cli_shows(cli_err, "  data.train: [\"sft.jsonl\"] -> [\"copy/sft.jsonl\"]\n");
  copy_run("s");
  cli_succeeds("cd sub && " ONE "train ../sft.yaml run.output=../s train.steps=3 data.train=../sft.jsonl "
               "model.config=../config.json");
  assert_null(strstr(cli_err, "  model.config: "));
}

/* A renamed or copied model folder is the same model. Other bytes at its path are not. */
static void a_model_is_known_by_its_bytes(void **state) {
  (void)state;
  cli_sh("rm -rf one two m && cp -r model one");
  cli_succeeds(ONE LOAD "run.output=m run.resume=never train.steps=1 model.path=one");
  cli_sh("grep -q 'model.path.model.safetensors.[0-9]* [0-9a-f]*$' m/checkpoints/LATEST/inputs.txt");
  cli_sh("mv one two");
  cli_succeeds(TWO LOAD "run.output=m train.steps=2 model.path=two");
  cli_shows(cli_err, "  model.path: \"one\" -> \"two\"");
  assert_null(strstr(cli_err, "config.json")); /* no file of other bytes */
  cli_sh("printf ' ' >> two/config.json && cp two/config.json two/README.json");
  for (int i = 0; i < 2; i++) {
    char command[512];
    snprintf(command, sizeof command, "%s" LOAD "run.output=m train.steps=3 model.path=two", program[i]);
    cli_fails(64, command, "\n  model.path: \"two\" -> \"two\"", " config.json");
    cli_tells("run.allow_changes: [model.path]");
  }
  cli_succeeds(ONE LOAD "run.output=m train.steps=3 model.path=two 'run.allow_changes=[model.path]'");
  cli_succeeds(ONE LOAD "run.output=m train.steps=4 model.path=two"); /* as of the newest checkpoint */
  cli_sh("rm -rf two");
  cli_succeeds(ONE LOAD "run.output=m train.steps=5 model.path=two"); /* a resumed run does without */
  cli_sh("test $(grep -c model.path m/checkpoints/LATEST/inputs.txt) -gt 2 && cp -r model two");
  cli_fails(64, ONE LOAD "run.output=m train.steps=6 model.path=two", "  model.path: \"two\" -> \"two\"",
            " config.json");
}

/* Changes in the middle of a study: another seed, other data, another batch, a 50 times higher rate, one
 * output. */
static void another_experiment_is_refused_as_a_whole(void **state) {
  static const char *const part[] = {
      "a/checkpoints/step-00000002",
      "run.seed: 42 -> 7",
      "data.train: [\"sft.jsonl\"] -> [\"other.jsonl\"]",
      "train.train_batch_size: 8 -> 4",
      "run.allow_changes: [run.seed, data.train, train.train_batch_size]",
      "run.resume=never\n",
  };
  char command[512];

  (void)state;
  cli_sh("tail -n +2 sft.jsonl >other.jsonl");
  copy_run("a");
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command,
             "%s" SFT "run.output=a run.seed=7 data.train=other.jsonl train.train_batch_size=4 "
             "train.micro_batch_size=2 train.learning_rate=0.05 train.steps=4",
             program[i]);
    assert_int_equal(cli_run(command), 64);
    assert_int_equal(cli_errors(), 1);
    for (size_t k = 0; k < sizeof part / sizeof *part; k++) cli_shows(cli_err, part[k]);
    assert_null(strstr(cli_err, "learning_rate"));
    cli_sh("diff -r run a -x log.txt -x run.jsonl");
  }
}

/* A deck with another model and a misspelled path. The path must be fixed first. */
static void a_changed_path_that_is_not_there_comes_first(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    char command[512];
    snprintf(command, sizeof command, "%s" LOAD "run.output=run train.steps=3 model.path=nope", program[i]);
    cli_fails_in(64, command, "tri_source_missing", "nope: ");
    cli_tells("model.path");
  }
  cli_fails(64, ONE LOAD "run.output=run train.steps=3 model.path=Qwen/Qwen2.5-0.5B",
            "Qwen/Qwen2.5-0.5B: ", " --local-dir");
  cli_tells("(model.path)");
  for (int with = 0; with < 2; with++) { /* a reference in the checkpoint */
    char command[512];
    snprintf(command, sizeof command,
             ONE GRPO "run.output=kl%d run.resume=auto checkpoint.save_final=true "
                      "algo.kl_coef=%d",
             with, with);
    cli_succeeds(command);
    snprintf(command, sizeof command,
             ONE GRPO "run.output=kl%d run.resume=auto train.steps=2 algo.kl_coef=1 "
                      "model.ref_path=Qwen/Qwen2.5-0.5B",
             with);
    cli_fails(64, command, " --local-dir", "(model.ref_path");
    if (with != !!strstr(cli_err, "(model.ref_path)")) fail_msg("%s", cli_err); /* nor its purpose */
  }
  cli_fails_in(64, ONE SFT "run.output=run model.tokenizer=nope", "check_paths", "nope: ");
  cli_tells(strerror(ENOENT), "model.tokenizer");
}

#define LOCKED ONE LOAD "run.output=run train.steps=3 model.path=locked/model"
#define BOUND  "setpriv --bounding-set -dac_override,-dac_read_search "

/* Root may look everywhere unless it gives up that right. */
static void a_path_that_may_not_be_looked_at_is_not_called_missing(void **state) {
  (void)state;
  if (!geteuid() && cli_run(BOUND "true")) skip();
  cli_sh("mkdir -p locked/model && chmod 000 locked");
  cli_fails(64, geteuid() ? LOCKED : BOUND LOCKED, "locked/model: ", strerror(EACCES));
  cli_tells("model.path");
  cli_sh("chmod 700 locked");
}

/* Changes allowed to a resume are reported, and the previous deck is kept. */
static void rate_and_length_are_listed_and_go_on(void **state) {
  (void)state;
  copy_run("b");
  cli_succeeds(TWO SFT "run.output=b train.steps=3 train.learning_rate=0.05 train.micro_batch_size=2");
  cli_shows(cli_err, "  train.learning_rate: 0.001 -> 0.05\n");
  cli_shows(cli_err, "  train.steps: 2 -> 3\n");
  cli_sh("cmp b/deck.step-00000002.yaml run/deck.yaml && grep -q 'learning_rate: 0.05' b/deck.yaml");
  cli_sh("cmp b/deck.yaml b/checkpoints/step-00000003/deck.yaml && test $(wc -l < b/metrics.jsonl) = 3");
  cli_succeeds(TWO SFT "run.output=b train.steps=3 train.learning_rate=0.05 train.micro_batch_size=2");
  assert_null(strstr(cli_err, " -> "));
  assert_false(cli_exists("b/deck.step-00000003.yaml"));
  cli_succeeds(ONE SFT "run.output=b train.steps=3 train.learning_rate=0.05 train.micro_batch_size=2");
  cli_tells("b/checkpoints/step-00000003", "\n  ranks: 2 -> 1\n");
  assert_null(strstr(strstr(cli_err, " -> ") + 1, " -> ")); /* nothing else */
  assert_false(cli_exists("b/deck.step-00000003.yaml"));
}

/* A run wound back loses the decks of the lost steps. A run that starts anew sets them aside. */
static void old_decks_go_with_their_steps(void **state) {
  (void)state;
  copy_run("c");
  cli_succeeds(ONE SFT "run.output=c train.steps=3 checkpoint.save_total_limit=9");
  cli_succeeds(ONE SFT "run.output=c train.steps=4 checkpoint.save_total_limit=9");
  assert_true(cli_exists("c/deck.step-00000002.yaml") && cli_exists("c/deck.step-00000003.yaml"));
  cli_succeeds(ONE SFT "run.output=c train.steps=5 run.resume=c/checkpoints/step-00000002");
  assert_true(cli_exists("c/deck.step-00000002.yaml") && !cli_exists("c/deck.step-00000003.yaml"));
  cli_sh("cp c/deck.yaml last.yaml");
  cli_succeeds(ONE SFT "run.output=c train.steps=1 run.resume=never");
  assert_true(cli_exists("c/deck.step-00000002.yaml.before-1") && !cli_exists("c/deck.step-00000002.yaml"));
  cli_sh("cmp c/deck.yaml.before-1 last.yaml");
}

/* A job died before its first checkpoint. The lines and the deck of its steps are not lost. */
static void a_run_without_a_checkpoint_is_set_aside(void **state) {
  (void)state;
  cli_succeeds(ONE SFT "run.output=n train.steps=3 checkpoint.save_steps=0 checkpoint.save_final=false");
  cli_sh("cp n/deck.yaml first.yaml && cp n/metrics.jsonl first.jsonl && test ! -e n/checkpoints");
  cli_succeeds(ONE SFT "run.output=n train.steps=1 run.seed=9 run.resume=auto");
  cli_shows(cli_err, "n/*.before-1");
  cli_sh("cmp n/deck.yaml.before-1 first.yaml && cmp n/metrics.jsonl.before-1 first.jsonl");
  cli_sh("test $(wc -l < n/metrics.jsonl) = 1 && grep -q 'seed: 9' n/deck.yaml");
  cli_succeeds(ONE SFT "run.output=n run.resume=run/checkpoints/step-00000001");
  cli_sh("test -e n/checkpoints.before-2/step-00000001 && test $(wc -l < n/metrics.jsonl.before-2) = 1");
  cli_sh("mkdir o && echo 'x: 1' >o/deck.yaml");
  cli_succeeds(ONE SFT "run.output=o train.steps=1 run.resume=auto");
  assert_false(cli_exists("o/deck.yaml.before-1"));
}

/* A copy left the link out. Its steps do not count as wound back. */
static void checkpoints_without_latest_are_set_aside(void **state) {
  (void)state;
  cli_sh("mkdir z && cp -r run/checkpoints z && rm z/checkpoints/LATEST && mkdir u u/checkpoints");
  cli_sh("mv z/checkpoints/step-00000002 z/checkpoints/step-00000005");
  cli_succeeds(ONE SFT "run.output=z train.steps=6 checkpoint.save_steps=2 "
                       "run.resume=run/checkpoints/step-00000002");
  assert_null(strstr(cli_err, "step-00000005"));
  assert_true(cli_exists("z/checkpoints.before-1/step-00000005/state.h5"));
  cli_succeeds(ONE SFT "run.output=u train.steps=1");
  assert_false(cli_exists("u/checkpoints.before-1"));
}

/* Root may write everywhere unless it gives up that right. */
static void files_that_may_not_be_written_come_first(void **state) {
  static const char *const file[] = {"log.txt", "metrics.jsonl", "run.jsonl"};
  static const char *const more[] = {"run.resume=never", "train.steps=3", "train.steps=3"};
  char                     command[512], part[128];

  (void)state;
  if (!geteuid() && cli_run(BOUND "true")) skip();
  for (int i = 0; i < 6; i++) {
    copy_run("ro");
    cli_sh("chmod 444 ro/%s && ls -A ro >listed", file[i / 2]);
    snprintf(command, sizeof command, "%s" ONE SFT "run.output=ro %s%s", geteuid() ? "" : BOUND, more[i / 2],
             i % 2 ? " --check" : "");
    snprintf(part, sizeof part, "run.output: ro/%s: ", file[i / 2]);
    cli_fails(74, command, part, strerror(EACCES));
    cli_sh("ls -A ro | diff - listed && diff -r run ro -x log.txt -x run.jsonl");
  }
}

/* As after its user archived the rest of the run. */
static void decks_of_an_archived_run_are_set_aside(void **state) {
  (void)state;
  copy_run("v");
  cli_succeeds(ONE SFT "run.output=v train.steps=3");
  cli_sh("rm -r v/checkpoints v/metrics.jsonl && cp v/deck.yaml last.yaml");
  cli_sh("touch v/deck.step-00000002.yaml.before-4");
  cli_succeeds(ONE SFT "run.output=v train.steps=1 run.resume=auto");
  cli_sh("cmp v/deck.step-00000002.yaml.before-5 run/deck.yaml && cmp v/deck.yaml.before-5 last.yaml");
  assert_false(cli_exists("v/deck.step-00000002.yaml"));
}

/* Made beforehand if there is space. */
static void an_empty_folder_is_no_older_run(void **state) {
  (void)state;
  cli_sh("mkdir y roomy && ln -s ../roomy y/rollouts && ln -s ../roomy y/trace");
  cli_succeeds(ONE SFT "run.output=y train.steps=1 run.trace_steps=1");
  cli_sh("test -L y/rollouts -a -L y/trace -a -f roomy/rank-0.json -a ! -e y/rollouts.before-1");
}

/* A checkpoint moved and linked back still belongs to the run. */
static void a_linked_checkpoint_is_its_own(void **state) {
  (void)state;
  copy_run("q");
  cli_sh("mkdir archive && mv q/checkpoints/step-00000002 archive && "
         "ln -s ../../archive/step-00000002 q/checkpoints/step-00000002");
  cli_succeeds(ONE SFT "run.output=q train.steps=3");
  cli_sh("test $(wc -l < q/metrics.jsonl) = 3");
}

/* The newest start had nothing to do. It has no phase of a step and no checkpoint, and it is finished. */
static void expect_no_step(const char *run, int step, int steps) {
  char want[256];

  snprintf(want, sizeof want, "{\"event\": \"start\", \"step\": %d, \"steps\": %d}", step, steps);
  assert_int_equal(cli_events_now(run, want), 1);
  snprintf(want, sizeof want, "{\"event\": \"end\", \"state\": \"finished\", \"step\": %d, \"exit_code\": 0}",
           step);
  assert_int_equal(cli_events_now(run, want), 1);
  assert_int_equal(cli_events_now(run, "{}"), 2);
}

/* The deck is the one of the completed steps. */
static void without_a_step_the_deck_stays(void **state) {
  (void)state;
  copy_run("r");
  cli_succeeds(ONE SFT "run.output=r train.learning_rate=0.5");
  expect_no_step("r", 2, 2);
  cli_succeeds(ONE SFT "run.output=r train.steps=1"); /* more than asked for, so there is no resume */
  expect_no_step("r", 2, 1);
  cli_tells("run.resume: never", "run.output"); /* not the end of a run with steps */
  cli_sh("diff -r run r -x log.txt -x run.jsonl");
  cli_sh("mkdir r/deck.step-00000003.yaml && touch r/deck.step-99999999999999999999.yaml");
  cli_fails_in(74, ONE SFT "run.output=r train.steps=3", "move_deck", "r/deck.step-00000003.yaml: ");
  cli_tells(strerror(EISDIR));
  cli_sh("rmdir r/deck.step-00000003.yaml && cp run/deck.yaml r/deck.step-00000002.yaml");
  cli_succeeds(ONE SFT "run.output=r train.steps=2 train.learning_rate=0.5");
  cli_sh("rm -r r && cp -r run r && touch r/deck.step-00000002.yaml r/deck.step-99999999999999999999.yaml");
  cli_succeeds(ONE SFT "run.output=r train.steps=3 run.resume=r/checkpoints/step-00000001");
  assert_true(cli_exists("r/deck.step-99999999999999999999.yaml"));
  assert_false(cli_exists("r/deck.step-00000002.yaml"));
}

/* A run wound back continues from there, however often it is started again. */
static void winding_back_holds(void **state) {
  (void)state;
  copy_run("w");
  cli_succeeds(ONE SFT "run.output=w train.steps=1 run.resume=w/checkpoints/step-00000001");
  cli_sh("diff -r run/checkpoints w/checkpoints && test $(wc -l < w/metrics.jsonl) = 2");
  cli_succeeds(ONE SFT "run.output=w train.steps=3 checkpoint.save_steps=0 checkpoint.save_final=false "
                       "run.resume=w/checkpoints/step-00000001");
  cli_tells("w/checkpoints/LATEST", " 1 ");
  cli_sh("test -d w/checkpoints/step-00000002 && test $(readlink w/checkpoints/LATEST) = step-00000001");
  cli_succeeds(ONE SFT "run.output=w train.steps=3");
  cli_resumed("w", "w/checkpoints/step-00000001", 3);
  cli_sh("test $(wc -l < w/metrics.jsonl) = 3");
}

#define EVERY_2 "checkpoint.save_steps=2 checkpoint.save_total_limit=2 train.lr_scheduler=constant "
#define NEXT_AT "checkpoint.save_steps=0 checkpoint.save_total_limit=2 train.lr_scheduler=constant "

static void has_checkpoints(const char *run, const char *steps) {
  cli_sh("test \"$(cd %s/checkpoints && echo step-* LATEST)\" = '%s LATEST'", run, steps);
}

/* The checkpoint to continue from is kept. Checkpoints given up, on purpose or because the newest is damaged,
 * are removed. */
static void what_was_given_up_goes_first(void **state) {
  (void)state;
  cli_succeeds(ONE SFT EVERY_2 "run.output=back train.steps=4");
  has_checkpoints("back", "step-00000002 step-00000004");
  cli_sh(
      "cp -r back worn && dd if=/dev/zero of=worn/checkpoints/step-00000004/state.h5 bs=1 seek=9000 count=99 "
      "conv=notrunc status=none");
  cli_succeeds(ONE SFT NEXT_AT "run.output=worn train.steps=5");
  cli_resumed("worn", "worn/checkpoints/step-00000002", 5);
  has_checkpoints("worn", "step-00000002 step-00000005");
  cli_succeeds(TWO SFT NEXT_AT "run.output=back train.steps=5 run.resume=back/checkpoints/step-00000002");
  has_checkpoints("back", "step-00000002 step-00000005");
  cli_sh("rm -r back/checkpoints/step-00000005/MANIFEST.json");
  cli_succeeds(ONE SFT NEXT_AT "run.output=back train.steps=6");
  cli_resumed("back", "back/checkpoints/step-00000002", 6);
}

static void what_is_kept_elsewhere_is_not_given_up(void **state) {
  (void)state;
  cli_succeeds(ONE SFT EVERY_2 "run.output=far train.steps=4");
  cli_sh("mv far/checkpoints/step-00000004 four && ln -s ../../four far/checkpoints/step-00000004");
  cli_succeeds(ONE SFT NEXT_AT "run.output=far train.steps=5 run.resume=far/checkpoints/step-00000002");
  has_checkpoints("far", "step-00000002 step-00000004 step-00000005");
  cli_sh("test -f four/state.h5");
}

static void what_is_allowed_goes_on(void **state) {
  (void)state;
  copy_run("d");
  cli_succeeds(TWO SFT "run.output=d train.steps=3 run.seed=7 'run.allow_changes=[run.seed]'");
  cli_shows(cli_err, "  run.seed: 42 -> 7\n");
  assert_true(cli_exists("d/deck.step-00000002.yaml"));
}

/* The same file name with other lines. The saved position would point to other lines. */
static void other_lines_under_one_name_are_refused(void **state) {
  (void)state;
  copy_run("e");
  cli_sh("cp sft.jsonl kept.jsonl && head -n 1 kept.jsonl >>sft.jsonl");
  cli_fails(64, TWO SFT "run.output=e train.steps=3", "data.train: ", "run.allow_changes: [data.train]");
  cli_succeeds(TWO SFT "run.output=e train.steps=3 run.allow_changes=data.train");
  cli_shows(cli_err, "data.train: ");
  copy_run("e"); /* as many lines, as earlier versions read other tokens of them */
  cli_sh("tac kept.jsonl >sft.jsonl");
  cli_fails(64, ONE SFT "run.output=e train.steps=3", "data.train: 24 lines ", " -> 24 lines ");
  cli_tells("'run.allow_changes=[data.train]'", " in place");
  cli_sh("mv kept.jsonl sft.jsonl");
  copy_run("e"); /* read with other keys, and these are the change */
  for (int check = 0; check < 2; check++) {
    cli_fails(64,
              check ? ONE SFT "run.output=e train.steps=3 data.prompt_key=completion "
                              "data.completion_key=prompt --check"
                    : ONE SFT
                  "run.output=e train.steps=3 data.prompt_key=completion data.completion_key=prompt",
              "data.prompt_key, data.completion_key, data.train]", "(hash ");
    assert_null(strstr(cli_err, " in place"));
  }
}

/* A checkpoint continued at another place is the same run. */
static void a_path_is_compared_likewise(void **state) {
  (void)state;
  cli_fails(64, ONE SFT "run.resume=run/checkpoints/step-00000001 run.seed=7", "run.seed: 42 -> 7",
            "model.path: run/checkpoints/step-00000001");
  cli_succeeds(ONE SFT "run.output=f run.resume=run/checkpoints/step-00000001 train.steps=3");
  cli_sh("cmp f/deck.step-00000001.yaml run/deck.yaml");
}

/* Puts `to` in place of `from`, of the same length, wherever it stands. */
static void replace(char *text, const char *from, const char *to) {
  assert_non_null(strstr(text, from));
  for (char *at = text; (at = strstr(at, from)) != NULL;) memcpy(at, to, strlen(to));
}

/* Replaces a word in a text of a checkpoint, and every hash that covers it. */
static void change(const char *folder, const char *file, const char *from, const char *to) {
  static char text[CLI_TEXT_BYTES], manifest[CLI_TEXT_BYTES];
  char        path[256], before[24], after[24], *own;

  snprintf(path, sizeof path, "%s/%s", folder, file);
  cli_read(path, text);
  snprintf(before, sizeof before, "%016llx", (unsigned long long)tri_hash64(text, strlen(text), 0));
  replace(text, from, to);
  snprintf(after, sizeof after, "%016llx", (unsigned long long)tri_hash64(text, strlen(text), 0));
  cli_write(path, text);
  snprintf(path, sizeof path, "%s/MANIFEST.json", folder);
  cli_read(path, manifest);
  replace(manifest, before, after);
  own = strstr(manifest, "\"manifest_hash\"");
  assert_non_null(own);
  snprintf(before, sizeof before, "%016llx",
           (unsigned long long)tri_hash64(manifest, (size_t)(own - manifest), 0));
  memcpy(own + strlen("\"manifest_hash\": \""), before, 16);
  cli_write(path, manifest);
}

static void change_deck(const char *folder, const char *from, const char *to) {
  change(folder, "deck.yaml", from, to);
}

/* Another version may count other things for its alarms, and the run still continues. */
static void alarms_of_another_version_begin_anew(void **state) {
  (void)state;
  copy_run("v");
  change("v/checkpoints/step-00000002", "health.txt", "0 0 0 0 ", "0 0 0 x ");
  cli_succeeds(TWO SFT "run.output=v train.steps=3");
  assert_int_equal(cli_events_now("v", ALARM("health_forgotten")), 1);
  cli_resumed("v", "v/checkpoints/step-00000002", 3);
}

/* A deck of a later version with unknown keys, which might hide any change. */
static void a_deck_that_cannot_be_read_must_be_allowed(void **state) {
  (void)state;
  copy_run("h");
  change_deck("h/checkpoints/step-00000002", "  seed: 42", "  sead: 42");
  cli_fails_in(64, TWO SFT "run.output=h train.steps=3 run.seed=7", "compare_decks",
               "h/checkpoints/step-00000002/deck.yaml:4: ");
  cli_tells("run.allow_changes: [deck]", "'run.sead'");
  cli_succeeds(TWO SFT "run.output=h train.steps=3 run.seed=7 'run.allow_changes=[deck]'");
  cli_shows(cli_err, "h/checkpoints/step-00000002/deck.yaml:4:");
  assert_int_equal(cli_events_now("h", ALARM("deck_not_compared")), 1);
  cli_resumed("h", "h/checkpoints/step-00000002", 3);
  assert_false(cli_exists("h/deck.step-00000002.yaml"));
}

/* The data of a run may lie in a folder with characters special to a shell. */
static void odd_names_of_a_run_before_are_no_error(void **state) {
  (void)state;
  copy_run("m");
  change_deck("m/checkpoints/step-00000002", "\"sft.jsonl\"", "\"s$t.jsonl\"");
  cli_succeeds(ONE SFT "run.output=m train.steps=3");
}

/* The command with its `own` keys is refused. With the line of cli_err that begins so in their place it is
 * accepted. */
static void type_offer(const char *command, const char *own, const char *begin) {
  char        line[2048];
  const char *offer;

  snprintf(line, sizeof line, "%s %s", command, own);
  assert_int_equal(cli_run(line), 64);
  offer = strstr(cli_err, begin);
  if (!offer) fail_msg("'%s' is missing in\n%s", begin, cli_err);
  snprintf(line, sizeof line, "%s %.*s", command, (int)strcspn(offer + 1, "\n"), offer + 1);
  cli_succeeds(line);
}

/* The offered keys include those already allowed, and are accepted as printed, even if the checkpoint lies in
 * a folder the new run would move. */
static void ways_out_can_be_typed(void **state) {
  (void)state;
  copy_run("i");
  cli_sh("tail -n +2 sft.jsonl >other.jsonl");
  type_offer(ONE SFT "run.output=i train.steps=3 run.seed=7 data.train=other.jsonl",
             "run.allow_changes=data.train", "\n    'run.allow_changes=[data.train,run.seed]'\n");
  copy_run("i");
  type_offer(ONE SFT "run.output=i train.steps=3 run.seed=7", "", "\n    run.resume=never\n");
  copy_run("i");
  type_offer(ONE SFT "run.output=n run.seed=7", "run.resume=i/checkpoints/step-00000001",
             "\n    run.resume=never 'model.path=i/checkpoints/step-00000001' model.config=null "
             "model.tokenizer=null\n");
  type_offer(ONE SFT "run.seed=7", "run.output=i run.resume=i/checkpoints/step-00000002",
             "\n    run.resume=never 'model.path=i/checkpoints/step-00000002' model.config=null "
             "model.tokenizer=null run.output=OTHER\n");
  assert_true(cli_exists("OTHER/checkpoints/LATEST"));
}

/* The weights of a resumed run are its checkpoint's, whatever model the deck names. */
static void another_model_is_listed_as_not_read(void **state) {
  (void)state;
  copy_run("j");
  cli_succeeds(ONE LOAD "run.output=j train.steps=3 model.path=model "
                        "'run.allow_changes=[model.path,model.config,model.tokenizer]'");
  cli_tells("  model.path: null -> \"model\" (", " run.output"); /* here the new weights would matter */
  cli_shows(cli_err, "  model.config: \"config.json\" -> null\n");
}

/* A run that starts anew would move the checkpoint away before the deck naming it is written. */
static void what_is_set_aside_is_no_model(void **state) {
  (void)state;
  copy_run("k");
  for (int i = 0; i < 2; i++) {
    char command[512];
    snprintf(command, sizeof command, "%s" LOAD "run.output=k run.resume=never model.path=./k", program[i]);
    cli_fails_in(64, command, "check_stays", "model.path: ./k/checkpoints/step-00000002 ");
    cli_tells(" k/checkpoints", "run.resume: never", "run.output");
    cli_sh("diff -r run k -x log.txt");
  }
  cli_fails(64, ONE LOAD "run.output=k run.resume=never model.path=k/checkpoints/step-00000001 --check",
            "model.path: k/checkpoints/step-00000001 ", " k/checkpoints,");
  cli_tells("run.resume: never", "run.output");
  cli_sh("mkdir k/rollouts && cp sft.jsonl k/rollouts && cp config.json k/rollouts");
  cli_fails_in(64, TWO SFT "run.output=k run.resume=never data.train=[sft.jsonl,k/rollouts/sft.jsonl]",
               "check_stays", "data.train: k/rollouts/sft.jsonl ");
  cli_fails_in(64, ONE SFT "run.output=k run.resume=never data.eval=k/rollouts/sft.jsonl", "check_stays",
               "data.eval: k/rollouts/sft.jsonl ");
  cli_fails_in(64, ONE SFT "run.output=k run.resume=never model.config=k/rollouts/config.json", "check_stays",
               "model.config: k/rollouts/config.json ");
  cli_tells("run.resume: never", "run.output");
  cli_succeeds(ONE LOAD "run.output=l run.resume=never model.path=k/checkpoints/step-00000001");
  cli_succeeds(ONE SFT "run.output=k run.resume=run/checkpoints/step-00000001 "
                       "model.config=k/rollouts/config.json run.allow_changes=model.config");
  cli_shows(cli_err, "k/*.before-1");
}

static void another_algorithm_is_refused(void **state) {
  (void)state;
  copy_run("g");
  cli_fails_in(64, ONE GRPO "run.output=g run.resume=auto", "refuse_algo", "algo.name");
  cli_tells(" sft", " grpo", "run.output", "model.path: g/checkpoints/step-00000002 ", "run.resume: never");
  cli_fails_in(64, ONE GRPO "run.output=g run.resume=auto algo.name=ppo", "refuse_algo",
               " ppo"); /* no, there is no critic */
  cli_fails_in(64, ONE GRPO "run.output=g run.resume=auto 'run.allow_changes=[algo.name]'", "check_allowed",
               "run.allow_changes: ");
  cli_tells(" algo.name", "model.path");
}

/* If the deck does not size passes, they hold as many tokens as memory has space for, or all of a small
 * batch. The number is shown, saved in the deck, and kept by a resume. */
static void passes_of_no_given_size_keep_theirs(void **state) {
  (void)state;
  cli_succeeds(ONE SFT "run.output=p run.resume=never train.steps=1 train.micro_batch_size=null");
  cli_sh("n=$(sed -n 's/^  max_tokens_per_gpu: //p' p/deck.yaml) && test $n -gt 8 && test $n -le 16384 && "
         "grep -q 'micro_batch_size: null' p/deck.yaml && echo \"  max_tokens_per_gpu: $n\" >was");
  cli_succeeds(ONE SFT "run.output=p train.steps=2 train.micro_batch_size=null");
  assert_null(strstr(cli_err, "  train.max_tokens_per_gpu: "));
  cli_sh("grep -qxf was p/deck.yaml && cp -r p p2");
  cli_succeeds(ONE SFT "run.output=p train.steps=3 train.micro_batch_size=null train.max_tokens_per_gpu=100");
  cli_shows(cli_err, "  train.max_tokens_per_gpu: ");
  cli_succeeds(ONE SFT
               "run.output=p train.steps=4 train.micro_batch_size=null"); /* the newest checkpoint's */
  cli_sh("grep -qx '  max_tokens_per_gpu: 100' p/deck.yaml");
  cli_succeeds(TWO SFT
               "run.output=p2 train.steps=3 train.micro_batch_size=null"); /* on any number of ranks */
  cli_sh("grep -qxf was p2/deck.yaml");
  cli_fails(64, ONE SFT "run.output=p3 train.max_tokens_per_gpu=100", "train.micro_batch_size",
            "train.max_tokens_per_gpu");
}

#define UNGIVEN "train.learning_rate=null "

/* The output of an earlier version with default rate 1e-6 continues with that rate. A given rate takes
 * effect, and so does another rate of the checkpoint. Judge: metrics.jsonl. */
static void a_new_default_changes_no_run_halfway(void **state) {
  (void)state;
  cli_succeeds(ONE SFT "run.output=d1 train.steps=1 train.learning_rate=1e-6");
  cli_sh("cp -r d1 d2 && cp -r d1 d3");
  cli_succeeds(ONE SFT UNGIVEN "run.output=d1");
  cli_tells("train.learning_rate", " 1e-06");
  assert_null(strstr(cli_err, "  train.learning_rate: "));
  cli_sh("test $(grep -c '\"learning_rate\": 1e-06,' d1/metrics.jsonl) = 2 && grep -q 'learning_rate: 1e-06' "
         "d1/deck.yaml");
  cli_succeeds(ONE SFT "run.output=d2 train.learning_rate=2e-5");
  cli_shows(cli_err, "  train.learning_rate: 1e-06 -> 2e-05\n");
  cli_succeeds(ONE SFT UNGIVEN "run.output=d4 train.steps=1");
  cli_tells(" 2e-05 ", "sft", "constant\n", " 1 step,", " 30 minutes", " 2 "); /* the open parts of a deck */
  cli_succeeds(ONE "train d3/deck.yaml run.resume=auto train.steps=2");
  cli_sh("grep -q 'learning_rate: 1e-06' d3/deck.yaml");
  cli_succeeds(ONE SFT "run.output=d5 train.steps=3 train.warmup_ratio=0.5");
  cli_tells("constant", " 2 updates\n");
}

#define LIBRARY "\"products\": {\"f32\": \"library\", "
#define PLAIN   "TRI_CPU_F32= TRI_CPU_BF16= TRI_COMM= "

/* The products that compute are recorded in MANIFEST.json and log.txt. A resume with other products says
 * so once, by name, and continues. The key equals the variable to the bit. Judge: the files and equal
 * metrics. */
static void what_computed_a_run_is_recorded(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(
      "TRI_CPU_F32=library NCCL_NET=https://me:pass@host/x OMP_TOKEN=abc TRI_DB_PASS=abc NCCL_PASSWD=abc "
      "TRI_AUTH=abc TRI_CREDENTIALS=abc TRI_APIKEY=abc TRI_BYPASS=on " ONE SFT
      "run.output=by1 train.steps=1");
  cli_read("by1/checkpoints/step-00000001/MANIFEST.json", text);
  cli_shows(text, "\"record\": {\"version\": \"" TRI_VERSION "\", \"commit\": ");
  cli_shows(text, LIBRARY);
  cli_shows(text, "\"NCCL_NET\": \"https://***\"");
  cli_shows(text, "\"OMP_TOKEN\": \"***\"");
  cli_shows(text, "\"TRI_CPU_F32\": \"library\"");
  cli_sh("! grep -q '\": \"abc\"' by1/run.jsonl by1/checkpoints/step-00000001/MANIFEST.json");
  cli_shows(text, "\"TRI_BYPASS\": \"on\"");
  cli_shows(text, "\"loaded\": ");
  assert_int_equal(cli_events("by1",
                              "{\"event\": \"start\", \"version\": \"" TRI_VERSION
                              "\", \"products\": {\"f32\": \"library\"}, \"environment\": {\"NCCL_NET\": "
                              "\"https://***\", \"OMP_TOKEN\": \"***\", \"TRI_CPU_F32\": \"library\"}}"),
                   1);
  cli_read("by1/log.txt", text);
  cli_shows(text, "\n  program      trireme " TRI_VERSION);
  assert_null(strstr(cli_err, "\n  program "));
  cli_succeeds(ONE "inspect by1");
  cli_fits(cli_out);
  cli_shows(cli_out, "\n  program      trireme " TRI_VERSION);
  cli_succeeds(ONE "inspect by1 --json");
  cli_shows(cli_out, ", \"record\": {\"version\": ");
  cli_succeeds(PLAIN ONE SFT "run.output=by2 run.cpu_f32=library run.collectives=mpi train.steps=1");
  cli_read("by2/checkpoints/step-00000001/MANIFEST.json", text);
  cli_shows(text, LIBRARY);
  cli_sh("for run in by1 by2; do grep -o '\"loss\": [^,]*' $run/metrics.jsonl > $run.loss; done; "
         "cmp by1.loss by2.loss");
  cli_succeeds("TRI_CPU_F32=library " ONE SFT "run.output=by1");
  assert_int_equal(cli_events_now("by1", ALARM("computed_otherwise")), 0);
  cli_succeeds(PLAIN ONE SFT "run.output=by2 run.cpu_bf16=f32 run.cpu_f32=library");
  if (strstr(text, "\"bf16\": \"f32\"")) return; /* this processor has no other family */
  assert_int_equal(cli_events_now("by2", ALARM("computed_otherwise")), 1);
  assert_int_equal(cli_events_now("by2", "{\"event\": \"start\", \"products\": {\"bf16\": \"f32\"}}"), 1);
  cli_tells(" bf16: ", "  run.cpu_bf16: auto -> f32\n");
}

extern char **environ;

/* An environment may have a variable twice, though no shell makes one. Its first value counts, as in getenv,
 * and the record reads back. */
static void a_variable_may_stand_twice(void **state) {
  static char *all[4096];
  int          n = 0, status;
  pid_t        child;

  (void)state;
  for (char **e = environ; *e && n < 4000; e++) all[n++] = *e;
  all[n++] = "NCCL_NET=a";
  all[n++] = "NCCL_NET=b";
  child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    execle(TRI_PROGRAM, "trireme", "train", "sft.yaml", "run.output=twice", "train.steps=1", (char *)NULL,
           all);
    _exit(127);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(cli_events("twice", "{\"event\": \"start\", \"environment\": {\"NCCL_NET\": \"a\"}}"), 1);
  cli_succeeds(ONE SFT "run.output=twice");
}

/* A start that fails between its claim of the folder and its first event leaves its error and its place. */
static void an_early_failure_is_recorded(void **state) {
  static const struct {
    const char *prepare, *keys, *cause;
    int         code;
  } row[] = {{"true", LOAD "run.output=e train.steps=3 model.path=nope", "input", 64},
             {"rm -r e/checkpoints", SFT "run.output=e train.steps=3 model.tokenizer=cut.json", "input", 64},
             {"rm -r e/checkpoints",
              SFT
              "run.output=e train.steps=3 train.micro_batch_size=null train.max_tokens_per_gpu=1000000000",
              "config", 64},
             {"true", SFT "run.output=e train.steps=3 run.seed=7", "config", 64},
             {"true", SFT "run.output=e train.steps=3 data.train=nope.jsonl", "input", 64},
             {"for s in e/checkpoints/step-*; do printf x >> $s/state.h5; done",
              SFT "run.output=e train.steps=3", "format", 74}};

  (void)state;
  cli_write("cut.json", "{\"model\": ");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    for (int ranks = 0; ranks < 2; ranks++) {
      char command[512], want[200];
      copy_run("e");
      cli_sh("%s && : > e/log.txt", row[i].prepare);
      snprintf(command, sizeof command, "TRI_START=s.%d %s%s", ranks, program[ranks], row[i].keys);
      int code = cli_run(command);
      if (code != row[i].code) fail_msg("%s: %d\n%s", command, code, cli_err);
      snprintf(want, sizeof want,
               "{\"event\": \"end\", \"state\": \"failed\", \"step\": null, \"exit_code\": %d, \"tag\": "
               "\"s.%d\", \"cause\": \"%s\"}",
               code, ranks, row[i].cause);
      if (cli_events("e", want) != 1) fail_msg("%s: no %s\n%s", command, want, cli_err);
      cli_sh("tail -n 1 e/run.jsonl | grep -q '\"trace\": \\[\"[a-z_/]*\\.c:[0-9]* '");
      cli_sh("grep -q '^trireme: ' e/log.txt && grep -q '[a-z_]\\.c:[0-9]* ' e/log.txt");
      cli_succeeds(ONE "watch e --json"); /* a finished run stays finished */
      cli_shows(cli_out, "\"state\": \"finished\"");
      cli_shows(cli_out, "\"bad_events\": 0");
      snprintf(command, sizeof command, ONE "watch e --end --tag s.%d", ranks);
      cli_succeeds(command);
      cli_shows(cli_out, "state failed\n");
    }
}

/* The record of a run about to be set aside does not belong to this start. Neither does a missing folder. */
static void an_early_failure_spoils_no_other_record(void **state) {
  (void)state;
  copy_run("e");
  cli_fails(64, ONE LOAD "run.output=e run.resume=never model.path=nope", "nope", NULL);
  cli_sh("cmp run/run.jsonl e/run.jsonl && tail -n 9 e/log.txt | grep -q '[a-z_]\\.c:[0-9]* '");
  cli_fails(64, ONE LOAD "run.output=bad model.path=nope", "nope", NULL);
  assert_false(cli_exists("bad"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_lines_may_lie_elsewhere),
      cmocka_unit_test(a_model_is_known_by_its_bytes),
      cmocka_unit_test(passes_of_no_given_size_keep_theirs),
      cmocka_unit_test(another_experiment_is_refused_as_a_whole),
      cmocka_unit_test(a_changed_path_that_is_not_there_comes_first),
      cmocka_unit_test(a_path_that_may_not_be_looked_at_is_not_called_missing),
      cmocka_unit_test(rate_and_length_are_listed_and_go_on),
      cmocka_unit_test(a_new_default_changes_no_run_halfway),
      cmocka_unit_test(what_computed_a_run_is_recorded),
      cmocka_unit_test(a_variable_may_stand_twice),
      cmocka_unit_test(old_decks_go_with_their_steps),
      cmocka_unit_test(a_run_without_a_checkpoint_is_set_aside),
      cmocka_unit_test(checkpoints_without_latest_are_set_aside),
      cmocka_unit_test(files_that_may_not_be_written_come_first),
      cmocka_unit_test(decks_of_an_archived_run_are_set_aside),
      cmocka_unit_test(an_empty_folder_is_no_older_run),
      cmocka_unit_test(a_linked_checkpoint_is_its_own),
      cmocka_unit_test(without_a_step_the_deck_stays),
      cmocka_unit_test(winding_back_holds),
      cmocka_unit_test(what_was_given_up_goes_first),
      cmocka_unit_test(what_is_kept_elsewhere_is_not_given_up),
      cmocka_unit_test(what_is_allowed_goes_on),
      cmocka_unit_test(other_lines_under_one_name_are_refused),
      cmocka_unit_test(a_path_is_compared_likewise),
      cmocka_unit_test(ways_out_can_be_typed),
      cmocka_unit_test(odd_names_of_a_run_before_are_no_error),
      cmocka_unit_test(another_model_is_listed_as_not_read),
      cmocka_unit_test(what_is_set_aside_is_no_model),
      cmocka_unit_test(another_algorithm_is_refused),
      cmocka_unit_test(a_deck_that_cannot_be_read_must_be_allowed),
      cmocka_unit_test(alarms_of_another_version_begin_anew),
      cmocka_unit_test(an_early_failure_is_recorded),
      cmocka_unit_test(an_early_failure_spoils_no_other_record),
  };
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
