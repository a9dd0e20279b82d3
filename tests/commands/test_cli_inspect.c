/* test_cli_inspect.c - trireme inspect: its output, the checkpoint it takes from a run's folder, and files of
 * strangers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

#include <errno.h>

static void sums_unless_the_tensors_are_asked_for(void **state) {
  (void)state;
  cli_succeeds(ONE "inspect run");
  cli_shows(cli_out, "tensors (--tensors lists each)\n  /model ");
  cli_shows(cli_out, "\n  /optimizer/exp_avg_sq ");
  assert_null(strstr(cli_out, "model.norm.weight"));
  cli_succeeds(ONE "inspect run --tensors");
  cli_shows(cli_out, "\ntensors in /model\n  model.embed_tokens.weight ");
  cli_shows(cli_out, "\ntensors in /optimizer/exp_avg_sq\n  model.embed_tokens.weight ");
  cli_succeeds(ONE "inspect run --json");
  cli_shows(cli_out, "{\"group\": \"/model\", \"name\": \"model.norm.weight\", ");
  cli_succeeds(ONE "inspect model");
  assert_null(strstr(cli_out, "model.norm.weight"));
  cli_succeeds(ONE "inspect model --tensors");
  cli_shows(cli_out, "\n  model.norm.weight ");
}

/* Sizes are rounded for people, and exact with --json. A name of 61 bytes stands above its row. */
static void no_row_wraps(void **state) {
  static const char *const command[] = {ONE "inspect run", ONE "inspect run --tensors --verify",
                                        ONE "inspect model", ONE "inspect model --tensors",
                                        ONE "inspect long.safetensors --tensors"};
  static const char header[] = "{\"model.layers.0.self_attn.a_name_longer_than_those_of_llama.weight\":"
                               "{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}";
  FILE             *f = fopen("long.safetensors", "wb");

  (void)state;
  assert_non_null(f);
  fprintf(f, "%c%c%c%c%c%c%c%c%s0000", (int)strlen(header), 0, 0, 0, 0, 0, 0, 0, header);
  assert_int_equal(fclose(f), 0);
  for (size_t i = 0; i < sizeof command / sizeof *command; i++) {
    cli_succeeds(command[i]);
    cli_fits(cli_out);
  }
  cli_shows(cli_out, "longer_than_those_of_llama.weight\n                   ");
  cli_succeeds(ONE "inspect model");
  cli_shows(cli_out, "tensors, 92.8 KiB\n");
  cli_shows(cli_out, "\n  all ");
}

static void what_is_no_checkpoint_is_named(void **state) {
  static const char no_checkpoint[] = "tri_source_check_output";

  (void)state;
  cli_refuses(64, ONE "inspect sft.jsonl", "fail_length", "sft.jsonl");
  cli_refuses(64, ONE "inspect sft.yaml", "fail_length", "sft.yaml");
  cli_sh("mkdir -p early && touch early/deck.yaml early/log.txt early/metrics.jsonl");
  cli_refuses(64, ONE "inspect early", no_checkpoint, "early");
  cli_refuses(64, ONE "generate early hi", no_checkpoint, "early");
  cli_refuses(64, ONE "export early x", no_checkpoint, "early");
  cli_sh("mv early/log.txt early/run.jsonl");
  cli_refuses(64, ONE "inspect early", no_checkpoint, "early");
  cli_sh("mkdir -p nothing");
  assert_int_equal(cli_run(ONE "generate nothing hi"), 64);
  cli_says(cli_err, "nothing", "config.json", "MANIFEST.json", "checkpoints/LATEST");
  assert_null(strstr(cli_err, "model.config"));
  assert_int_equal(cli_run(ONE "generate . hi"), 64);
  cli_says(cli_err, "model.safetensors", "model.safetensors.index.json", "./model");
  assert_null(strstr(cli_err, "model.config"));
  cli_sh("mkdir -p bare && cp model/model.safetensors bare");
  cli_succeeds(ONE "inspect bare");
  cli_shows(cli_out, "config.json");
  cli_sh("truncate --size=-1 bare/model.safetensors");
  cli_refuses(64, ONE "inspect bare", "parse_tensor", "bare/model.safetensors", "model.norm.weight");
}

/* Judge: a resumed run takes the same checkpoint with the same warning. */
static void latest_means_what_it_means_to_resume(void **state) {
  static const struct {
    const char *latest, *is;
  } row[] = {{"ln -s step-00000009 LATEST", "l/checkpoints/step-00000009"},
             {"ln -s ../../run/checkpoints/step-00000001 LATEST", "../../run/checkpoints/step-00000001"},
             {"touch LATEST", "l/checkpoints/LATEST"}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    cli_sh("rm -rf l && cp -r run l && cd l/checkpoints && rm LATEST && %s", row[i].latest);
    cli_succeeds(ONE "inspect l");
    cli_shows(cli_out, "l/checkpoints/step-00000002\n");
    assert_true(cli_saying(cli_err, "LATEST", row[i].is) > 0); /* in the order of the row */
    cli_says(cli_err, "warning", "l/checkpoints/step-00000002");
    cli_succeeds(ONE "inspect l/checkpoints --json");
    cli_shows(cli_out, "l/checkpoints/step-00000002\"");
    cli_succeeds(ONE SFT "run.output=l train.steps=2");
    cli_resumed("l", "l/checkpoints/step-00000002", 2);
    assert_true(cli_saying(cli_err, "LATEST", row[i].is) > 0); /* in the order of the row */
  }
  cli_sh("rm -rf l && mkdir -p l/checkpoints && ln -s ../../run l/checkpoints/LATEST");
  cli_refuses(74, ONE "inspect l", "find_checkpoint", "l/checkpoints/LATEST", "../../run");
}

/* Judge: the checkpoint of a resumed run. */
static void of_a_damaged_latest_the_next_is_told(void **state) {
  (void)state;
  cli_sh("rm -rf d && cp -r run d && printf x >> d/checkpoints/step-00000002/state.h5");
  cli_refuses(74, ONE "inspect d", "tell_next", "LATEST", "d/checkpoints/step-00000002/state.h5",
              "d/checkpoints/step-00000001", "--verify");
  cli_refuses(74, ONE "inspect d/checkpoints --verify --json", "tell_next", "LATEST",
              "d/checkpoints/step-00000002/state.h5", "d/checkpoints/step-00000001");
  assert_null(strstr(cli_err, "--verify"));
  cli_refuses(74, ONE "inspect d/checkpoints/step-00000002", "run", "d/checkpoints/step-00000002/state.h5");
  assert_null(strstr(cli_err, "LATEST"));
  cli_succeeds("cp -r d e && " ONE SFT "run.output=e train.steps=2");
  cli_resumed("e", "e/checkpoints/step-00000001", 2);
  cli_sh("rm d/checkpoints/step-00000001/MANIFEST.json");
  cli_refuses(74, ONE "inspect d", "tell_next", "LATEST", "d/checkpoints/step-00000002/state.h5");
  assert_null(strstr(cli_err, "step-00000001"));
}

/* Judge: the checkpoint of a resumed run, which reads every byte. */
static void verify_finds_what_resume_takes(void **state) {
  (void)state;
  cli_sh("rm -rf g && cp -r run g && rm g/checkpoints/LATEST && cd g/checkpoints/step-00000002 && "
         "printf '\\377' | dd of=state.h5 bs=1 seek=$(($(wc -c < state.h5) / 2)) conv=notrunc 2>/dev/null");
  cli_succeeds(ONE "inspect g --verify");
  cli_shows(cli_out, "g/checkpoints/step-00000001\n");
  cli_says(cli_err, "warning", "g/checkpoints/step-00000001");
  cli_says(cli_err, "g/checkpoints/step-00000002/state.h5");
  cli_succeeds(ONE SFT "run.output=g train.steps=2");
  cli_resumed("g", "g/checkpoints/step-00000001", 2);
}

/* Root may read everything unless it gives up that right. */
static void what_cannot_be_read_is_not_called_damaged(void **state) {
  const char *command =
      geteuid() ? ONE "inspect p" : "setpriv --bounding-set -dac_override,-dac_read_search " ONE "inspect p";

  (void)state;
  if (!geteuid() && cli_run("setpriv --bounding-set -dac_override,-dac_read_search true")) skip();
  cli_sh("rm -rf p && cp -r run p && chmod 000 p/checkpoints/step-00000002/state.h5");
  cli_refuses(74, command, "tell_next", "LATEST", "p/checkpoints/step-00000002/state.h5", strerror(EACCES),
              "p/checkpoints/step-00000001", "--verify");
  assert_null(strstr(cli_err, "damaged"));
  cli_sh("chmod 600 p/checkpoints/step-00000002/state.h5");
}

/* AddressSanitizer itself needs /proc. */
static void without_proc_memory_has_no_bound(void **state) {
  (void)state;
  if (TRI_SANITIZED || cli_run("unshare -m mount -t tmpfs none /proc")) skip();
  cli_succeeds("unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$0\" inspect run' " ONE);
  cli_shows(cli_out, "run/checkpoints/step-00000002\n");
  cli_says(cli_err, "warning", "/proc/self/statm");
}

/* Judge: the message of a resumed run. */
static void a_hash_is_shown_as_messages_show_it(void **state) {
  char        hash[17] = "", said[32];
  const char *at;

  (void)state;
  cli_succeeds(ONE "inspect run --json");
  at = strstr(cli_out, "\"data_hash\": \"");
  if (!at || sscanf(at, "\"data_hash\": \"%16[0-9a-f]\"", hash) != 1) fail_msg("%s", cli_out);
  snprintf(said, sizeof said, "data_hash            \"%s\"\n", hash);
  cli_succeeds(ONE "inspect run");
  cli_shows(cli_out, said);
  cli_sh("rm -rf h && cp -r run h && cp sft.jsonl kept.jsonl && tail -n 1 kept.jsonl >> sft.jsonl");
  snprintf(said, sizeof said, "lines (hash %s) -> ", hash);
  cli_run(ONE SFT "run.output=h train.steps=3");
  cli_sh("mv kept.jsonl sft.jsonl");
  cli_shows(cli_err, said);
}

/* HDF5 1.10 crashes on it. Other versions may find it damaged. */
static void a_crash_of_the_library_is_a_message(void **state) {
  (void)state;
  cli_fails(74, ONE "inspect '" TRI_TEST_DATA "/checkpoint/forged'", "/forged", "state.h5");
  cli_fails(74, ONE "inspect --json --verify '" TRI_TEST_DATA "/checkpoint/forged'", "/forged", NULL);
  cli_sh("mkdir -p s/checkpoints && cp -r '" TRI_TEST_DATA "/checkpoint/forged' s/checkpoints/step-00000002");
  cli_fails(74, ONE "inspect s", "state.h5", NULL);
}

static void names_of_strangers_are_shown_not_obeyed(void **state) {
  (void)state;
  cli_sh("cp '" TRI_TEST_DATA "/checkpoint/escape.safetensors' .");
  cli_succeeds(ONE "inspect escape.safetensors --tensors");
  cli_shows(cli_out, "\\x1B");
  assert_null(strchr(cli_out, 0x1b));
}

/* For the commands that need no run. */
static void what_was_meant_is_told(void **state) {
  (void)state;
  cli_refuses(64, ONE "generate model hi --num-generations 2", "unknown", "--num-generations", "--num");
  cli_refuses(64, ONE "generate model hi --max-new-tokens 2", "unknown", "--max-new-tokens", "--max-new");
  cli_write("strings.jsonl", "\"one\"\n");
  cli_refuses(64, ONE "tokenize model strings.jsonl", "tri_jsonl_next", "strings.jsonl:1", "JSON",
              "{\"text\": \"...\"}");
  cli_write("texts.jsonl", "{\"text\": \"one\"}\n");
  cli_refuses(64, ONE "tokenize model texts.jsonl --decode", "decode", "texts.jsonl:1", "text", "tokens",
              "--decode");
}

static void help_says_whom_to_trust(void **state) {
  (void)state;
  cli_succeeds(ONE "inspect --help");
  cli_shows(cli_out, "--tensors");
  cli_shows(cli_out, "4 GiB");
  cli_shows(cli_out, "600 s");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_unless_the_tensors_are_asked_for),
      cmocka_unit_test(no_row_wraps),
      cmocka_unit_test(what_is_no_checkpoint_is_named),
      cmocka_unit_test(latest_means_what_it_means_to_resume),
      cmocka_unit_test(of_a_damaged_latest_the_next_is_told),
      cmocka_unit_test(verify_finds_what_resume_takes),
      cmocka_unit_test(what_cannot_be_read_is_not_called_damaged),
      cmocka_unit_test(without_proc_memory_has_no_bound),
      cmocka_unit_test(a_hash_is_shown_as_messages_show_it),
      cmocka_unit_test(a_crash_of_the_library_is_a_message),
      cmocka_unit_test(names_of_strangers_are_shown_not_obeyed),
      cmocka_unit_test(what_was_meant_is_told),
      cmocka_unit_test(help_says_whom_to_trust),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
