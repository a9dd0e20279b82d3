/* test_cli_checkpoint.c - the whole program when checkpoints are damaged, unfinished, or cannot be
 * written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

#include <errno.h>

enum { NORM_BYTES = 32 * 4, MOST_BYTES = 1 << 21 };

/* Copies the finished run "run", with checkpoints of steps 1 and 2 and two lines of metrics. */
static void copy_run(const char *to) { cli_sh("rm -rf %s && cp -r run %s", to, to); }

static size_t read_all(const char *path, char *bytes) {
  FILE  *f = fopen(path, "rb");
  size_t n = f ? fread(bytes, 1, MOST_BYTES, f) : 0;

  assert_true(n > 0 && n < MOST_BYTES);
  fclose(f);
  return n;
}

/* Flips one bit of /model/model.norm.weight in a checkpoint. The last tensor of the export has the same
 * bytes, and they give the place. */
static void change_norm(const char *folder) {
  static char state[MOST_BYTES], weights[MOST_BYTES];
  char        command[512];
  size_t      n_state, n_weights, at = 0;
  FILE       *f;

  snprintf(command, sizeof command, "rm -rf probe; " ONE "export %s probe", folder);
  cli_succeeds(command);
  n_weights = read_all("probe/model.safetensors", weights);
  snprintf(command, sizeof command, "%s/state.h5", folder);
  n_state = read_all(command, state);
  while (at + NORM_BYTES <= n_state && memcmp(state + at, weights + n_weights - NORM_BYTES, NORM_BYTES) != 0)
    at++;
  assert_true(at + NORM_BYTES <= n_state);
  state[at] = (char)(state[at] ^ 1);
  f = fopen(command, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(state, 1, n_state, f), n_state);
  assert_int_equal(fclose(f), 0);
}

static int count(const char *text, const char *part) {
  int n = 0;

  for (; (text = strstr(text, part)); text++) n++;
  return n;
}

/* Checks that the run is as after its second step: LATEST, metrics, no leftovers. */
static void is_untouched(const char *run) {
  char path[512], text[CLI_TEXT_BYTES] = {0};

  snprintf(path, sizeof path, "%s/checkpoints/LATEST", run);
  assert_true(readlink(path, text, sizeof text - 1) > 0);
  assert_string_equal(text, "step-00000002");
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  cli_read(path, text);
  assert_int_equal(count(text, "\n"), 2);
}

static void damaged_newest_falls_back_and_names_both(void **state) {
  (void)state;
  copy_run("a");
  change_norm("a/checkpoints/step-00000002");
  cli_fails(74, ONE "inspect a --verify", "/model/model.norm.weight", "step-00000002");
  cli_fails(74, ONE "inspect a --verify --json", "/model/model.norm.weight", NULL);
  cli_fails(74, ONE "inspect a/checkpoints/step-00000002 --verify", "/model/model.norm.weight", NULL);
  cli_succeeds(ONE "inspect a");
  cli_succeeds(ONE "inspect a/checkpoints/step-00000001 --verify");
  cli_succeeds(ONE "export a half");
  cli_says(cli_err, "a/checkpoints/step-00000002/state.h5", "/model/model.norm.weight");
  cli_succeeds(ONE "export a/checkpoints/step-00000001 first_half");
  cli_sh("cmp half/model.safetensors first_half/model.safetensors");
  cli_succeeds(ONE SFT "run.output=a train.steps=3");
  cli_says(cli_err, "a/checkpoints/step-00000002/state.h5", "/model/model.norm.weight");
  cli_resumed("a", "a/checkpoints/step-00000001", 3);
  assert_int_equal(cli_saying(cli_err, "warning", "a/checkpoints/step-00000001"), 1);
  cli_read("a/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\n"), 3);
}

static void only_damaged_ones_are_no_new_start(void **state) {
  (void)state;
  copy_run("b");
  change_norm("b/checkpoints/step-00000001");
  cli_fails(74, ONE SFT "run.resume=b/checkpoints/step-00000001", "step-00000001",
            "/model/model.norm.weight");
  change_norm("b/checkpoints/step-00000002");
  cli_fails(74, ONE SFT "run.output=b train.steps=3", "step-00000002", "/model/model.norm.weight");
  cli_fails(74, ONE SFT "run.output=b train.steps=3", "\nb/checkpoints/step-00000001", "run.resume: never");
  cli_says(cli_err, "run.resume: never", "run.output");
  cli_fails(74, TWO SFT "run.output=b train.steps=3", "step-00000002", "/model/model.norm.weight");
  cli_fails(74, ONE "export b x", "step-00000002", NULL);
  assert_false(cli_exists("x"));
  is_untouched("b");
}

/* Judge: the message names the damaged file. */
static void every_kind_of_damage_is_found(void **state) {
  static const struct {
    const char *damage, *part;
  } row[] = {
      {"truncate --size=-1 state.h5", "state.h5"},
      {"truncate --size=0 state.h5", "state.h5"},
      {"rm state.h5", "state.h5"},
      {"printf x >>deck.yaml", "deck.yaml"},
      {"sed -i s/llama/lLama/ config.json", "config.json"},
      {"rm tokenizer.json", "tokenizer.json"},
      {"sed -i s/trireme/triremE/ MANIFEST.json", "MANIFEST.json"},
      {"truncate --size=100 MANIFEST.json", "MANIFEST.json"},
      {"printf x | dd of=state.h5 bs=1 seek=40 conv=notrunc status=none", "c/checkpoints/step-00000002"}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    copy_run("c");
    cli_sh("cd c/checkpoints/step-00000002 && %s", row[i].damage);
    cli_fails(74, ONE "inspect c", row[i].part, "step-00000002");
    cli_fails(74, ONE SFT "run.resume=c/checkpoints/step-00000002", row[i].part, "step-00000002");
    cli_fails(74, ONE "generate c/checkpoints/step-00000002 hi", row[i].part, "step-00000002");
    cli_succeeds(ONE "generate c hi --temperature 0 --max-new 4");
    cli_shows(cli_err, "c/checkpoints/step-00000001");
    is_untouched("c");
  }
}

/* Nothing of the run before is taken for the new one's, and nothing of it is lost. */
static void starting_anew_sets_the_old_aside(void **state) {
  (void)state;
  copy_run("g");
  cli_sh("mkdir g/rollouts && touch g/rollouts/step-00000001.jsonl");
  cli_succeeds(ONE SFT "run.output=g run.resume=never train.steps=1");
  cli_says(cli_err, "g/*.before-1");
  cli_sh("cmp g/metrics.jsonl.before-1 run/metrics.jsonl");
  assert_true(cli_exists("g/checkpoints.before-1/step-00000002/MANIFEST.json"));
  assert_true(cli_exists("g/rollouts.before-1/step-00000001.jsonl") && !cli_exists("g/rollouts"));
  assert_true(cli_exists("g/checkpoints/step-00000001") && !cli_exists("g/checkpoints/step-00000002"));
  cli_succeeds(ONE SFT "run.output=g run.resume=never train.steps=1");
  assert_true(cli_exists("g/checkpoints.before-2/step-00000001"));
}

/* The screen reports the effect of data.overlong_prompt and data.overlong, on one rank and on two. */
static void dropped_lines_are_counted(void **state) {
  (void)state;
  cli_write("long.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n{\"prompt\": \"1+1+1+1+1+1=\", "
                          "\"completion\": \"6\"}\n");
  cli_succeeds(TWO SFT "run.output=m train.steps=1 data.train=long.jsonl data.max_prompt_length=6 "
                       "data.overlong_prompt=drop");
  assert_int_equal(cli_saying(cli_err, "long.jsonl", "1", "2", "data.overlong_prompt: drop"), 1);
  cli_succeeds(ONE SFT
               "run.output=m2 train.steps=1 data.train=long.jsonl max_seq_length=6 overlong=truncate");
  cli_says(cli_err, "long.jsonl", "1", "2", "data.overlong: truncate");
  cli_succeeds(TWO SFT "run.output=m3 train.steps=1 data.train=long.jsonl data.max_length=6 "
                       "data.overlong_prompt=truncate");
  assert_int_equal(cli_saying(cli_err, "long.jsonl", "1", "2", "data.overlong_prompt: truncate"), 1);
  cli_sh("grep -q '^  max_length: 6' m3/deck.yaml && grep -q '^  overlong: auto' m3/deck.yaml");
  cli_refuses(64, ONE SFT "run.output=m4 data.train=long.jsonl data.max_length=6", "refuse_too_long",
              "long.jsonl:2", "14", "6", "data.max_length", "data.overlong", "truncate", "1", "2");
  cli_refuses(64,
              ONE SFT "run.output=m3 train.steps=2 data.train=long.jsonl data.max_length=7 "
                      "data.overlong_prompt=truncate",
              "refuse", "m3/checkpoints/step-00000001", "run.allow_changes: [data.max_length, data.train]");
  cli_says(cli_err, "data.max_length", "6", "7");
}

static void another_model_is_refused(void **state) {
  (void)state;
  copy_run("d");
  cli_sh("sed 's/\"hidden_size\": 32/\"hidden_size\": 64/' config.json >other.json");
  cli_sh("sed 's/config: config.json/config: other.json/' sft.yaml >other.yaml");
  cli_refuses(64, ONE "train other.yaml run.output=d train.steps=3", "check_same_model",
              "d/checkpoints/step-00000002", "32", "64");
  cli_refuses(64, TWO "train other.yaml run.output=d train.steps=3", "check_same_model",
              "d/checkpoints/step-00000002", "32", "64");
  cli_refuses(64, ONE "train other.yaml run.resume=d", "check_same_model", "d/checkpoints/step-00000002",
              "32", "64");
  is_untouched("d");
}

static void leftovers_of_a_killed_writer_are_no_checkpoint(void **state) {
  (void)state;
  copy_run("e");
  cli_sh("cp -r e/checkpoints/step-00000002 e/checkpoints/step-00000003.tmp && rm "
         "e/checkpoints/*.tmp/MANIFEST.json &&ln -s step-00000003 e/checkpoints/.LATEST.tmp");
  assert_int_equal(cli_run(ONE "inspect e/checkpoints/step-00000003.tmp"), 74);
  cli_shows(cli_err, "MANIFEST.json");
  assert_int_equal(cli_errors(), 1);
  assert_int_equal(cli_run(ONE "export e/checkpoints/step-00000003.tmp x"), 74);
  assert_false(cli_exists("x"));
  cli_succeeds(ONE "inspect e");
  cli_shows(cli_out, "after step 2");
  cli_succeeds(ONE SFT "run.output=e train.steps=3 checkpoint.save_steps=0 checkpoint.save_final=false");
  cli_resumed("e", "e/checkpoints/step-00000002", 3);
  assert_false(cli_exists("e/checkpoints/step-00000003.tmp"));
  assert_false(cli_exists("e/checkpoints/.LATEST.tmp"));
  cli_sh("mkdir -p half.tmp && touch half.tmp/model.safetensors.tmp && rm -rf half");
  assert_int_equal(cli_run(ONE "export e half"), 64); /* left by a killed export or by somebody else */
  cli_says(cli_err, "half.tmp");
  assert_true(cli_exists("half.tmp/model.safetensors.tmp"));
  cli_sh("rm -r half.tmp");
  cli_succeeds(ONE "export e half");
  assert_false(cli_exists("half.tmp"));
}

/* A file in the place of a folder makes only this one save fail. */
static void save_that_fails_is_reported_and_the_run_goes_on(void **state) {
  static const char *const how[] = {"", " checkpoint.async=true"};
  char                     command[1024];

  (void)state;
  for (int i = 0; i < 2; i++) { /* the second time it is written beside the steps */
    copy_run("f");
    cli_sh("touch f/checkpoints/step-00000006.tmp");
    snprintf(command, sizeof command, "%s%s",
             ONE SFT "run.output=f train.steps=9 checkpoint.save_steps=2 "
                     "checkpoint.save_final=false",
             how[i]);
    cli_succeeds(command);
    assert_int_equal(cli_events_now("f", ALARM("save_failed")), 1);
    assert_int_equal(cli_saying(cli_err, "warning", "step 6", "f/checkpoints"), 1);
    assert_int_equal(cli_events_now("f", ALARM("failed_saves")), 1);
    cli_read("f/metrics.jsonl", cli_out);
    assert_int_equal(count(cli_out, "\n"), 9);
    assert_int_equal(count(cli_out, "\"failed_saves\": 1"), 3); /* steps 7 to 9 */
    cli_succeeds(ONE "inspect f --verify");
    cli_shows(cli_out, "after step 8");
  }
  copy_run("f"); /* one is published, and the next one fails after the same step */
  cli_sh("touch f/checkpoints/step-00000004.tmp");
  cli_succeeds(ONE SFT "run.output=f train.steps=5 checkpoint.save_steps=1 checkpoint.async=true");
  assert_int_equal(cli_saying(cli_err, "warning", "step 4", "f/checkpoints"), 1);
  assert_int_equal(cli_events_now("f", ALARM("save_failed")), 1);
  cli_read("f/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"failed_saves\": 1"), 1);
  cli_succeeds(ONE "inspect f --verify");
  cli_shows(cli_out, "after step 5");
  cli_sh("rm -r f");
}

/* The limit of 200 KiB is less than one state.h5. The run fails before the first step and changes nothing. */
static void what_makes_every_save_fail_ends_the_run_at_once(void **state) {
  (void)state;
  copy_run("f");
  cli_fails(74, "ulimit -f 400; " ONE SFT "run.output=f train.steps=3", "ulimit -f", "f/checkpoints");
  is_untouched("f");
  assert_int_equal(cli_run("ulimit -f 400; " ONE SFT "run.output=f train.steps=3 --check"), 74);
  cli_shows(cli_err, "ulimit -f");
  is_untouched("f");
  assert_int_equal(cli_run("ulimit -f 400; " ONE SFT "run.output=not/made train.steps=3 --check"), 74);
  assert_false(cli_exists("not"));
  cli_succeeds(ONE SFT "run.output=not/made train.steps=3 --check");
  assert_false(cli_exists("not"));
  assert_int_equal(cli_run("ulimit -n 26; " ONE SFT "run.output=f train.steps=3"), 74);
  cli_shows(cli_err, "ulimit -n");
  is_untouched("f");
}

/* Metrics that cannot be written wait, and stop the run only at its end. */
static void metrics_on_a_full_disk_wait(void **state) {
  (void)state;
  cli_write("newline", "\n");
  assert_int_equal(cli_run("ulimit -f 400; " ONE SFT
                           "run.output=n train.steps=520 run.log_every=1000 checkpoint.save_steps=0 "
                           "checkpoint.save_final=false"),
                   74);
  cli_sh("grep -q '\"event\": \"alarm\", \"code\": \"metrics_wait\"' n/run.jsonl");
  assert_int_equal(cli_errors(), 1);
  cli_sh("test $(wc -c < n/metrics.jsonl) -le 204800 && tail -c 1 n/metrics.jsonl | cmp - newline && grep -q "
         "'\"step\": 3,' n/metrics.jsonl");
}

/* The same holds for the evaluation given up by the previous run, since a folder stands in the place of its
 * file. The last save needs that file, and is retried until the run is told to stop. */
static void a_due_evaluation_on_a_full_disk_waits(void **state) {
  static const char again[] = ONE "train look.yaml run.output=v train.steps=3";
  static const char ended[] =
      "{ " ONE "train look.yaml run.output=v train.steps=3 2>v.err & } ; until grep -q "
      "'\"code\": \"save_waits\"' v/run.jsonl; do kill -0 $! || break; sleep 0.1; done; touch v/STOP; "
      "wait $!; code=$?; cat v.err >&2; (exit $code)";

  (void)state;
  copy_run("v");
  cli_sh("{ cat sft.yaml && echo 'data: {train: sft.jsonl, eval: rl.jsonl}' && echo 'reward: [{name: "
         "exact}]' && echo 'rollout: {max_response_length: 4}' && echo 'eval: {steps: 2}'; } | sed '/^data: "
         ".train: sft.jsonl.$/d' > look.yaml");
  cli_sh("sed -i '$ s/}$/, \"eval\": \"due\"}/' v/metrics.jsonl && cp v/metrics.jsonl due.jsonl && "
         "mkdir -p v/metrics.jsonl.tmp/full");
  assert_int_equal(cli_run(ended), 74);
  assert_int_equal(cli_events_now("v", "{\"event\": \"alarm\", \"code\": \"metrics_wait\", \"step\": 2}"), 1);
  assert_int_equal(cli_events_now("v", "{\"event\": \"alarm\", \"code\": \"metrics_wait\", \"step\": 3}"), 1);
  assert_true(cli_events_now("v", ALARM("save_waits")) >= 1);
  assert_int_equal(
      cli_events_now("v",
                     "{\"event\": \"end\", \"state\": \"failed\", \"cause\": \"file\", \"exit_code\": 74}"),
      1);
  assert_int_equal(cli_errors(), 1);
  cli_sh("cmp v/metrics.jsonl due.jsonl && rm -r v/metrics.jsonl.tmp");
  cli_succeeds(again);
  cli_sh("test $(wc -l < v/metrics.jsonl) = 3 && sed -n 2p v/metrics.jsonl | grep '\"eval_reward_mean\"' && "
         "! grep due v/metrics.jsonl");
}

/* The checkpoint stands alone and needs no folder from the start of the run. Another model is still
 * noticed. */
static void resume_without_the_first_models(void **state) {
  (void)state;
  cli_sh("cp -r model first && cp -r model ref");
#define STANDS "run.output=o run.resume=auto model.config=null model.tokenizer=null "
  cli_succeeds(TWO GRPO STANDS "model.path=first model.ref_path=ref algo.kl_coef=0.1 train.steps=1 "
                               "checkpoint.save_final=true");
  cli_sh("mv ref gone && sed -i 's/10000.0/20000.0/' first/config.json");
  cli_refuses(64, TWO GRPO STANDS "model.path=first model.ref_path=ref algo.kl_coef=0.1 train.steps=2",
              "check_same_model", "o/checkpoints/step-00000001", "rope_theta");
  cli_sh("echo '{' > first/config.json");
  cli_succeeds(TWO GRPO STANDS "model.path=first model.ref_path=ref algo.kl_coef=0.1 train.steps=2");
  cli_says(cli_err, "warning", "first/config.json:2", "model.path");
  cli_resumed("o", "o/checkpoints/step-00000001", 2);
}

static void mount_disk(void) {
  cli_sh("mkdir -p disk");
  if (geteuid() == 0 && system("mount -t tmpfs -o size=8m tmpfs disk 2>/dev/null") == 0) return;
  print_message("skipped: a small file system cannot be mounted here\n");
  skip();
}

/* A file system of 8 MB. A checkpoint needs 0.5 MB of free space, and the filler takes more than the rest. */
static void full_disk_keeps_the_old_checkpoint(void **state) {
  static const char *const program[] = {ONE, TWO};
  char                     command[1024];

  (void)state;
  for (int i = 0; i < 2; i++) {
    mount_disk();
    snprintf(command, sizeof command, "%s" SFT "run.output=disk/run", program[i]);
    cli_succeeds(command);
    cli_sh("head -c 7400000 /dev/zero >disk/filler");
    snprintf(command, sizeof command, "%s" SFT "run.output=disk/run train.steps=3", program[i]);
    cli_refuses(74, command, "tri_ckpt_check_space", "disk/run/checkpoints");
    cli_sh("test -z \"$(find disk -name '*.tmp')\"");
    cli_succeeds(ONE "inspect disk/run --verify");
    cli_shows(cli_out, "after step 2");
    assert_int_equal(cli_run("cat /dev/zero >disk/more"), 1);
    cli_fails(74, ONE "export run disk/model", "disk/model.tmp", strerror(ENOSPC));
    assert_false(cli_exists("disk/model"));
    cli_refuses(74, command, "tri_ckpt_check_space", "disk/run/checkpoints");
    assert_null(strstr(cli_err, "save_total_limit")); /* one is wanted, and none is less */
    cli_succeeds(ONE "inspect disk/run --verify");
    cli_shows(cli_out, "after step 2");
    cli_sh("umount disk");
  }
}

/* The run gives the same message as --check, with a cure. Asking for no checkpoint does not help. */
static void a_read_only_disk_is_named(void **state) {
  static const char *const end[] = {"", " --check"};
  char                     command[1024];

  (void)state;
  mount_disk();
  cli_sh("mount -o remount,ro disk && mkdir linked && ln -s ../disk linked/checkpoints");
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command, "%s" SFT "run.output=disk/new/run%s", i ? ONE : TWO, end[i]);
    cli_fails(74, command, "disk/new/run", "mount -o remount,rw");
    cli_says(cli_err, "run.output", "disk/new/run", "disk", strerror(EROFS), "mount -o remount,rw");
    assert_int_equal(cli_saying(cli_err, strerror(EROFS)), 1); /* no second try is told */
  }
  cli_refuses(74, TWO SFT "run.output=disk", "check_writable", "run.output", "disk", strerror(EROFS));
  cli_refuses(74, TWO SFT "run.output=linked", "make_own", "linked/checkpoints/", strerror(EROFS));
  assert_null(strstr(cli_err, "STOP"));
  cli_refuses(74,
              TWO SFT "run.output=linked checkpoint.save_steps=0 checkpoint.save_minutes=0 "
                      "checkpoint.save_final=false",
              "make_own", "linked/checkpoints/", strerror(EROFS));
  cli_shows(cli_err, "STOP"); /* though the deck asks for no checkpoint */
  cli_sh("umount disk");
}

static int close_disk(void **state) {
  int unused = system("umount disk 2>/dev/null"); /* left over if a test stopped half-way */

  (void)unused;
  return cli_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damaged_newest_falls_back_and_names_both),
      cmocka_unit_test(only_damaged_ones_are_no_new_start),
      cmocka_unit_test(every_kind_of_damage_is_found),
      cmocka_unit_test(another_model_is_refused),
      cmocka_unit_test(starting_anew_sets_the_old_aside),
      cmocka_unit_test(dropped_lines_are_counted),
      cmocka_unit_test(leftovers_of_a_killed_writer_are_no_checkpoint),
      cmocka_unit_test(what_makes_every_save_fail_ends_the_run_at_once),
      cmocka_unit_test(save_that_fails_is_reported_and_the_run_goes_on),
      cmocka_unit_test(metrics_on_a_full_disk_wait),
      cmocka_unit_test(a_due_evaluation_on_a_full_disk_waits),
      cmocka_unit_test(resume_without_the_first_models),
      cmocka_unit_test(full_disk_keeps_the_old_checkpoint),
      cmocka_unit_test(a_read_only_disk_is_named),
  };
  return cmocka_run_group_tests(tests, cli_open, close_disk);
}
