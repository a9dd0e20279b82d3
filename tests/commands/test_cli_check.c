/* test_cli_check.c - trireme train --check: all that is wrong at once, without MPI, nothing written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_case.h"

#include "train/train.h"

#define CHECK " --check"
#define WITH_REF                                                                                             \
  "run.resume=auto run.output=with_ref algo.kl_coef=0.1 model.ref_path=first checkpoint.save_steps=1 "

/* The list stands above the one error message. */
static void ends(int want, const char *command, int faults, const char *const *part, int n_part) {
  char count[64];
  int  code = cli_run(command);

  if (code != want || cli_errors() != 1) fail_msg("%s\nexit code %d\n...%s", command, code, cli_end());
  assert_string_equal(cli_out, "");
  assert_false(cli_exists("bad"));
  snprintf(count, sizeof count, ": %d fault%s, listed above", faults, faults == 1 ? "" : "s");
  cli_shows(cli_err, count);
  for (int i = 0; i < n_part; i++) cli_shows(cli_err, part[i]);
}

static void finds(const char *command, int faults, const char *const *part, int n_part) {
  ends(64, command, faults, part, n_part);
}

static void a_good_deck_gets_its_summary(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO CHECK);
  cli_shows(cli_err, "model: llama, 0.02 M parameters");
  cli_shows(cli_err, "data.train: 24 examples in 24 lines");
  cli_shows(cli_err, "16 = 8 x 2 x 1");
  cli_shows(cli_err, "memory per rank: ");
  cli_shows(cli_err, "grpo.yaml: no fault found; planned for 1 rank; ");
  assert_false(cli_exists("bad"));
  cli_succeeds(ONE GRPO CHECK " --ranks 2");
  cli_shows(cli_err, "16 = 8 x 1 x 2");
  cli_fails(64, ONE GRPO " --ranks 2", "--ranks belongs to --check", NULL);
}

static void one_is_no_plural(void **state) {
  (void)state;
  cli_sh("head -n 1 rl.jsonl >single.jsonl");
  cli_succeeds(ONE GRPO "data.train=single.jsonl" CHECK);
  cli_shows(cli_err, "data.train: 1 example in 1 line, the longest");
  cli_shows(cli_err, " MiB (rollout ");
  cli_succeeds(ONE SFT CHECK);
  cli_shows(cli_err, " MiB (learn ");
}

static void every_key_is_looked_at(void **state) {
  static const char *const part[] = {"unknown key 'train.stps'", "run.seed = x: ", "model.dtype = f8: "};

  (void)state;
  finds(ONE SFT "run.seed=x train.stps=3 model.dtype=f8" CHECK, 3, part, 3);
}

/* A fault of one kind hides none of another: keys, rewards, the model's folder, the data. What stands on a
 * key at fault is not guessed at. */
static void kinds_are_looked_at_together(void **state) {
  static const char *const all[] = {"run.seed = x: ", "unknown key 'train.stps'",
                                    "reward.pattern = a(: ", "nope.json", "half.jsonl:2: "};
  static const char *const folder[] = {"nope.json", "half.jsonl:2: "};
  static const char *const algo[] = {"algo.name = gpro: ", "nowhere"};
  static const char *const data[] = {"unknown key 'data.promt_key'", "run.output, batches, memory, data\n"};
  static const char *const model[] = {"model.dtype = f8: ", "half.jsonl:2: ", "batches, memory, model, "};

  (void)state;
  cli_write("half.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"1+1=\"}\n");
  finds(ONE GRPO "run.seed=x train.stps=3 model.config=nope.json data.train=half.jsonl "
                 "\"reward=[{name: exact},{name: regex, pattern: 'a('}]\"" CHECK,
        5, all, 5);
  finds(ONE GRPO "model.config=nope.json data.train=half.jsonl" CHECK, 2, folder, 2);
  finds(ONE LOAD "model.path=nowhere algo.name=gpro" CHECK, 2, algo, 2);
  finds(ONE GRPO "data.promt_key=q data.train=half.jsonl" CHECK, 1, data, 2);
  finds(ONE GRPO "model.dtype=f8 data.train=half.jsonl" CHECK, 2, model, 3);
  finds(ONE GRPO "data.train=null data.eval=half.jsonl eval.steps=1 run.seed=x" CHECK, 2, NULL, 0);
}

/* So many messages, and the number of the others. */
static void messages_of_keys_are_bounded(void **state) {
  char command[1024] = ONE SFT;
  int                      lines = 0;

  (void)state;
  for (int i = 0; i < 30; i++) sprintf(command + strlen(command), "train.no%d=1 ", i);
  strcat(command, CHECK);
  finds(command, 30, (const char *const[]){"'train.no19'", ": 10 more faults of keys\n"}, 2);
  assert_null(strstr(cli_err, "'train.no20'"));
  for (const char *at = cli_err; *at; at++) lines += *at == '\n';
  assert_true(lines < 45); /* each of two lines at most */
}

static void every_reward_is_looked_at(void **state) {
  static const char *const rows[] = {"unknown field 'wieght'", "there is no reward 'numbr'",
                                     "reward regex needs a pattern"};
  static const char *const values[] = {"reward 1 (regex): reward.pattern = a(: ",
                                       "reward 3 (regex): reward.pattern = b(: "};
  static const char *const files[] = {
      "reward 1 (process): reward.command = ", "reward 2 (library): reward.path = ",
      "reward 3 (regex): reward.pattern = ", "reward 4 (http): reward.url_file = ", "gone"};

  (void)state;
  finds(ONE GRPO
        "'reward=[{name: exact, wieght: [1, 2]}, {name: numbr}, {name: exact}, {name: regex}]'" CHECK,
        3, rows, 3);
  finds(ONE GRPO "'reward=[{name: regex, pattern: a(}, {name: exact}, {name: regex, pattern: b(}]'" CHECK, 2,
        values, 2);
  finds(ONE GRPO
        "'reward=[{name: process, command: [sh, gone.sh]}, {name: library, path: gone.so}, {name: regex, "
        "pattern: b(}, {name: http, url_file: gone.txt}, {name: model, path: gone}]'" CHECK,
        5, files, 5);
}

static void values_are_looked_at_together(void **state) {
  static const char *const part[] = {"rollout.top_k means nothing to algo.name sft",
                                     "train.epochs and train.steps", "eval.steps = 1 needs data.eval",
                                     "eval.steps = 1 needs rollout.max_response_length"};
  static const char *const missing[] = {
      "run.output is missing: ", "data.train is missing: ", "reward is missing: "};
  static const char *const pairs[] = {
      "train.epochs and train.steps",   "train.warmup_steps and train.warmup_ratio",
      "algo.num_generations = 1: ",     "train.min_lr_ratio means nothing",
      "rollout.temperature = 1e-05: ",  "model.ref_path means nothing",
      "eval.steps = 1 needs data.eval",
  };
  static const char *const unused[] = {"rollout.top_k means nothing", "algo.clip_eps means nothing"};

  (void)state;
  finds(ONE SFT "rollout.top_k=3 train.epochs=1 eval.steps=1 'reward=[{name: exact}]'" CHECK, 4, part, 4);
  finds(ONE GRPO "run.output=null data.train=null reward=null" CHECK, 3, missing, 3);
  finds(ONE SFT "rollout.top_k=3 algo.clip_eps=0.1" CHECK, 2, unused, 2);
  finds(ONE GRPO "train.epochs=1 train.warmup_steps=1 train.warmup_ratio=0.1 algo.num_generations=1 "
                 "train.lr_scheduler=constant train.min_lr_ratio=0.1 rollout.temperature=1e-5 "
                 "model.ref_path=model eval.steps=1" CHECK,
        7, pairs, 7);
}

static void files_batches_and_output_are_looked_at(void **state) {
  static const char *const part[] = {"plain", "nope.json", "is not a legal plan", "3 = 8 x ? x 1"};
  static const char *const data[] = {"none.jsonl: has no lines", "nope.jsonl"};

  (void)state;
  cli_write("plain", "");
  finds(ONE GRPO "run.output=plain/x model.config=nope.json train.train_batch_size=3 shard.params=world "
                 "shard.grads=node" CHECK,
        4, part, 4);
  cli_write("none.jsonl", "");
  finds(ONE GRPO "data.train=none.jsonl data.eval=nope.jsonl eval.steps=1" CHECK, 2, data, 2);
}

static void tensors_are_looked_at(void **state) {
  static const char *const part[] = {"model.embed_tokens.weight", "[257, 40]"};

  (void)state;
  cli_sh("rm -rf broken && cp -r model broken && sed -i 's/\"hidden_size\": 32/\"hidden_size\": 40/' "
         "broken/config.json");
  finds(ONE LOAD "model.path=broken" CHECK, 1, part, 2);
  cli_succeeds(ONE LOAD "model.path=model" CHECK);
}

/* Lines that are bad in one way are one message with their numbers; many ways are not all shown. */
static void every_bad_line_is_counted(void **state) {
  static const char *const part[] = {
      "bad.jsonl:2: not JSON", "\n  the same of lines 4, 6, 8, 10, 12, 14, 16, 18 and 4 more\n",
      "bad.jsonl:3: ", "\n  the same of lines 5, 7, 9, 11, 13, 15, 17, 19 and 3 more\n"};
  static const char *const two[] = {"one.jsonl:1: ", "two.jsonl:2: "};
  static const char *const ways[] = {
      "ways.jsonl:1: ", "ways.jsonl:20: ", "ways.jsonl: 5 more bad lines, 25 in all"};
  FILE *f = fopen("bad.jsonl", "w");

  (void)state;
  assert_non_null(f);
  fputs("{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n", f);
  for (int i = 0; i < 25; i++) fputs(i % 2 ? "{\"prompt\": \"1+1=\"}\n" : "{\n", f);
  assert_int_equal(fclose(f), 0);
  finds(ONE GRPO "data.train=bad.jsonl" CHECK, 25, part, 4);
  assert_null(strstr(cli_err, "bad.jsonl:4: "));
  assert_non_null(f = fopen("ways.jsonl", "w"));
  for (int i = 0; i < 25; i++) fprintf(f, "{%*sx\n", i, ""); /* the column is another */
  assert_int_equal(fclose(f), 0);
  finds(ONE GRPO "data.train=ways.jsonl" CHECK, 25, ways, 3);
  assert_null(strstr(cli_err, "ways.jsonl:21: "));
  cli_write("one.jsonl", "{\"prompt\"}\n");
  cli_write("two.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\n");
  finds(ONE GRPO "data.train=one.jsonl data.eval=two.jsonl eval.steps=1" CHECK, 2, two, 2);
  assert_null(strstr(cli_err, "bad line"));
}

/* Every line lacks the same: one fault, beside that of a line for itself. */
static void what_the_model_lacks_is_said_once(void **state) {
  static const char *const text[] = {"sft.jsonl:1: `prompt` is text, but the model brings no tokenizer.json",
                                     "give model.tokenizer"};
  static const char *const folder[] = {"rl.jsonl:1: ", "AutoTokenizer.from_pretrained"};
  static const char *const two[] = {"talk.jsonl:1: has messages, but the model brings no tokenizer.json",
                                    "talk.jsonl:2: not JSON"};
  static const char *const form[] = {"talk.jsonl:1: no chat template is wanted", "talk.jsonl:2: not JSON"};

  (void)state;
  finds(ONE SFT "model.tokenizer=null" CHECK, 1, text, 2);
  cli_sh("rm -rf mute && cp -r model mute && rm mute/tokenizer.json");
  finds(ONE GRPO "model.config=null model.tokenizer=null model.path=mute" CHECK, 1, folder, 2);
  cli_write("talk.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"1\"}, {\"role\": \"assistant\", "
            "\"content\": \"1\"}]}\n{\n");
  cli_sh("cat talk.jsonl talk.jsonl >.talk && sed 4d .talk >talk.jsonl");
  finds(ONE SFT "data.train=talk.jsonl model.tokenizer=null" CHECK, 2, two, 2);
  finds(ONE SFT "data.train=talk.jsonl data.chat_template=none" CHECK, 2, form, 2);
}

/* What new users type wrong is told in lines of at most 160 columns, in pipes too. */
static void no_line_is_a_paragraph(void **state) {
  static const char *const wrong[] = {ONE LOAD "model.path=Qwen/Qwen2.5-0.5B" CHECK,
                                      ONE LOAD "model.path=empty" CHECK,
                                      ONE GRPO "rollout.rollout_batch_size=2000" CHECK,
                                      ONE SFT "data.train=rl.jsonl" CHECK,
                                      ONE SFT "algo.name=dpo" CHECK,
                                      ONE GRPO "algo.name=ppo 'reward=[{name: model, path: model}]'" CHECK,
                                      ONE "plan grpo.yaml shard.params=world shard.grads=node",
                                      ONE "tokenize empty",
                                      ONE "generate empty a",
                                      ONE LOAD "model.path=bare" CHECK};

  (void)state;
  cli_sh("mkdir empty bare && cp model/config.json bare");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    cli_run(wrong[i]);
    if (!cli_err[0]) fail_msg("%s says nothing", wrong[i]);
    for (const char *at = cli_err; *at; at += strcspn(at, "\n"), at += *at == '\n')
      if (strcspn(at, "\n") > 160) fail_msg("a line of %zu columns: %.*s", strcspn(at, "\n"), 300, at);
  }
}

/* exact compares with answers, which no line has. */
static void a_bad_reward_hides_no_line(void **state) {
  static const char *const part[] = {"reward.pattern = a(: ", "asked.jsonl:1: ", "\n  the same of line 2\n"};

  (void)state;
  cli_write("asked.jsonl", "{\"prompt\": \"1+1=\"}\n{\"prompt\": \"1+2=\"}\n");
  finds(ONE GRPO "data.train=asked.jsonl \"reward=[{name: exact},{name: regex, pattern: 'a('}]\"" CHECK, 3,
        part, 3);
}

/* A line over the limit is one bad line, whether or not more of it was read at once than the limit. */
static void a_long_line_is_stepped_over(void **state) {
  static const char *const part[] = {"long.jsonl:2: the line has ", "long.jsonl:4: not JSON"};

  (void)state;
  cli_sh("awk 'BEGIN { good = \"{\\\"prompt\\\": \\\"1+1=\\\", \\\"answer\\\": \\\"2\\\"}\"; print good; "
         "for (i = 0; i < 20000; i++) printf \"0123456789\"; printf \"\\n%%s\\n{\\n\", good }' > long.jsonl");
  finds(ONE GRPO "data.train=long.jsonl data.max_line_bytes=1000" CHECK, 2, part, 2);
  finds(ONE GRPO "data.train=long.jsonl data.max_line_bytes=100000" CHECK, 2, part, 2);
}

/* Variables that a shell has kept start nothing. */
static void no_mpi_is_started(void **state) {
  (void)state;
  cli_succeeds(
      "OMPI_MCA_pml=nosuch OMPI_COMM_WORLD_SIZE=2 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=3 " ONE GRPO CHECK);
  cli_shows(cli_err, "planned for 1 rank; --ranks N for a job of N\n");
  cli_succeeds("PMI_RANK=0 PMI_SIZE=2 " ONE GRPO CHECK);
  cli_shows(cli_err, "planned for 2 ranks\n");
  cli_succeeds(TWO GRPO CHECK);
  cli_shows(cli_err, "planned for 2 ranks\n");
  assert_null(strstr(strstr(cli_err, "no fault") + 1, "no fault")); /* said once */
}

static void a_resume_is_compared(void **state) {
  static const char *const part[] = {"train_batch_size"};

  (void)state;
  cli_write(".before", "");
  cli_succeeds(ONE SFT "run.output=run train.steps=3" CHECK);
  for (int i = 0; i < 3; i++) cli_succeeds(TWO SFT "run.output=run train.steps=3" CHECK); /* one rank looks */
  cli_sh("test -z \"$(find run -newer .before -type f)\"");
  finds(ONE SFT "run.output=run train.train_batch_size=4" CHECK, 1, part, 1);
}

/* As the run itself would say it. */
static void where_a_run_goes_on_is_said(void **state) {
  (void)state;
  cli_succeeds(ONE SFT "run.output=run train.steps=3" CHECK);
  cli_shows(cli_err, "resumes from run/checkpoints/step-00000002, after step 2 of 3\n");
  cli_shows(cli_err, "changed since run/checkpoints/step-00000002 was written:\n  train.steps: 2 -> 3\n");
  cli_succeeds(ONE SFT "run.output=run" CHECK);
  cli_shows(cli_err, "nothing to do: the checkpoint is after step 2, train.steps is 2; ");
  cli_succeeds(ONE SFT CHECK);
  assert_null(strstr(cli_err, "after step"));
}

/* Once, and the data is looked at nevertheless. */
static void no_room_for_prompts_is_one_fault(void **state) {
  static const char *const part[] = {"rollout.max_response_length = 100000 leaves no room for a prompt",
                                     "torn.jsonl:1: ", "nope.jsonl",
                                     "not looked at because of them: the length of prompts, "};

  (void)state;
  cli_write("torn.jsonl", "{\"prompt\"}\n");
  finds(ONE GRPO
        "rollout.max_response_length=100000 data.train=torn.jsonl data.eval=nope.jsonl eval.steps=1" CHECK,
        3, part, 4);
}

static void a_bad_line_hides_no_long_one(void **state) {
  static const char *const part[] = {"mixed.jsonl:3: `prompt` has no tokens",
                                     "mixed.jsonl:1: its prompt has 40 tokens, at most 28 are possible"};

  (void)state;
  cli_write("mixed.jsonl",
            "{\"prompt\": \"1234567890123456789012345678901234567890\", \"answer\": \"2\"}\n"
            "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"\", \"answer\": \"2\"}\n");
  finds(ONE GRPO "data.train=mixed.jsonl" CHECK, 2, part, 2);
}

/* Judge: the run's own; 64 where the faults have several. */
static void the_exit_code_is_that_of_the_run(void **state) {
  static const char *const row[] = {"run.output=plain", "data.train=nope.jsonl", "run.device=cuda",
                                    "model.config=nope.json"};
  char                     command[512];
  int                      code;

  (void)state;
  cli_write("plain", "");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(command, sizeof command, ONE SFT "%s", row[i]);
    code = cli_run(command);
    if (strstr(row[i], "cuda") && !strstr(cli_err, "is not in this build")) continue;
    strcat(command, CHECK);
    ends(code, command, 1, NULL, 0);
  }
  finds(ONE SFT "run.output=plain data.train=nope.jsonl" CHECK, 2, NULL, 0);
}

/* Judge: the exit code of the run alone, and the number of faults. */
static void where_nothing_can_be_written_is_told_at_once(void **state) {
  static const char *const both[] = {"3 = 4 x ? x 1", "/proc/x"}, *const alone[] = {"/proc/x"};

  (void)state;
  ends(74, ONE SFT "run.output=/proc/x" CHECK, 1, alone, 1);
  finds(ONE SFT "run.output=/proc/x train.train_batch_size=3" CHECK, 2, both, 2);
  finds(ONE SFT "run.output=/proc/x data.train=nope.jsonl" CHECK, 2, alone, 1);
  finds(ONE SFT "run.output=/proc/x run.threads=4096" CHECK, 2, alone, 1);
}

/* A row at fault hides no other, and no row is called by another's number. */
static void rows_beside_one_at_fault_are_looked_at(void **state) {
  static const char *const part[] = {"'nuber'", "a pattern",
                                     "reward 2 (process): ", "reward 4 (library): ", "rewards at fault"};
  static const char *const algo[] = {"'nuber'", "nearest: grpo\n", "reward 2 (process): "};
  static const char *const line[] = {"'nuber'", "bare.jsonl:1: "};

  (void)state;
  finds(ONE GRPO "'reward=[{name: nuber}, {name: process, command: [sh, gone.sh]}, {name: regex}, "
                 "{name: library, path: gone.so}]'" CHECK,
        4, part, 5);
  finds(ONE GRPO "algo.name=gpro 'reward=[{name: nuber}, {name: process, command: [sh, gone.sh]}]'" CHECK, 3,
        algo, 3);
  cli_write("bare.jsonl", "{\"prompt\": \"1+1=\"}\n");
  finds(ONE GRPO "data.train=bare.jsonl 'reward=[{name: nuber}, {name: exact}]'" CHECK, 2, line, 2);
}

/* What is no deck has nothing else to look at. Judge: the run's own code. */
static void what_is_no_deck_is_one_fault(void **state) {
  static const struct {
    const char *name, *text;
  } row[] = {{"nodeck.yaml", NULL},
             {"open.yaml", "x: [\n"},
             {"twice.yaml", "run: {output: bad}\nrun: {seed: 1}\n"},
             {"tab.yaml", "run:\n\toutput: bad\n"},
             {"empty.yaml", ""},
             {"comment.yaml", "# nothing\n"},
             {"list.yaml", "- run\n"},
             {"lines.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n"}};
  static const char *const how[] = {CHECK, " run.seed=x" CHECK, CHECK " --ranks 2", CHECK " --show 1"};
  char                     command[256];

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (row[i].text) cli_write(row[i].name, row[i].text);
    snprintf(command, sizeof command, ONE "train %s", row[i].name);
    cli_fails(64, command, row[i].name, NULL);
    for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
      snprintf(command, sizeof command, ONE "train %s%s", row[i].name, how[h]);
      finds(command, 1, &row[i].name, 1);
      assert_null(strstr(cli_err, "not looked at"));
    }
  }
}

/* Batches of no given passes ask what the model is, too. Judge: the run's own code. */
static void no_model_is_one_fault_of_every_algorithm(void **state) {
  static const char *const deck[] = {SFT,
                                     GRPO,
                                     SFT "algo.name=dpo data.train=pair.jsonl ",
                                     SFT "algo.name=kto data.train=label.jsonl ",
                                     SFT "algo.name=rm data.train=pair.jsonl ",
                                     GRPO "algo.name=ppo "};
  static const char *const model[] = {"/nope", "/tmp", "Qwen/Qwen2.5-0.5B"};
  static const char *const how[] = {CHECK, CHECK " --ranks 2", CHECK " --show 1"};
  char                     plain[512], command[640];

  (void)state;
  cli_write("pair.jsonl", "{\"prompt\": \"1+1=\", \"chosen\": \"2\", \"rejected\": \"3\"}\n");
  cli_write("label.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\", \"label\": true}\n");
  for (size_t d = 0; d < sizeof deck / sizeof *deck; d++)
    for (size_t m = 0; m < sizeof model / sizeof *model; m++) {
      snprintf(plain, sizeof plain,
               ONE "%s model.config=null model.tokenizer=null train.micro_batch_size=null model.path=%s",
               deck[d], model[m]);
      int code = cli_run(plain);
      if (cli_errors() != 1) fail_msg("%s\n%s", plain, cli_end());
      for (size_t h = 0; h < (m ? 1 : sizeof how / sizeof *how); h++) {
        snprintf(command, sizeof command, "%s%s", plain, how[h]);
        ends(code, command, 1, &model[m], 1);
      }
      snprintf(command, sizeof command, "%s data.train=nope.jsonl" CHECK, plain);
      finds(command, 2, (const char *const[]){"nope.jsonl", model[m]}, 2);
    }
}

/* Faults hide what is behind them, which is said. */
static void what_is_not_looked_at_is_said(void **state) {
  static const char *const deck[] = {
      "1 fault, listed above; not looked at because of it: the machine, run.output, batches, memory\n"};
  static const char *const model[] = {
      "nope.json", "1 fault, listed above; not looked at because of it: the length of the data's lines, "
                   "tensors, memory, room for checkpoints\n"};
  static const char *const data[] = {
      "not looked at because of it: what changed since the checkpoint, tensors, memory, "
      "room for checkpoints\n"};

  (void)state;
  finds(ONE SFT "run.seed=x" CHECK, 1, deck, 1);
  finds(ONE SFT "model.config=nope.json" CHECK, 1, model, 2);
  finds(ONE SFT "run.output=run data.train=nope.jsonl" CHECK, 1, data, 1);
  finds(ONE SFT "run.threads=4096" CHECK, 1, NULL, 0);
  assert_null(strstr(cli_err, "not looked at"));
}

static void all_of_the_output_is_looked_at(void **state) {
  static const char *const part[] = {"run.output: model is the folder of a model",
                                     "run.resume: nope: there is no checkpoint"};
  static const char *const file[] = {
      "run.output: the folder plain cannot be made: plain is there and no folder"};

  (void)state;
  finds(ONE SFT "run.output=model run.resume=nope" CHECK, 2, part, 2);
  cli_write("plain", "");
  ends(74, ONE SFT "run.output=plain" CHECK, 1, file, 1);
}

/* The run does so before it sets anything aside. */
static void links_of_the_output_are_looked_at(void **state) {
  static const char *const dangling[] = {
      "run.output: the folder dl cannot be made: the link dl leads nowhere"};
  static const char *const below[] = {
      "run.output: the folder dl/x cannot be made: the link dl leads nowhere"};
  static const char *const link[] = {"run.output: old/log.txt: is a link"};
  static const char *const log[] = {"run.output: old/log.txt: is no regular file"};

  (void)state;
  cli_sh("ln -s nowhere dl && ln -s lo lo && mkdir old && echo 1 >old/metrics.jsonl && ln -s ../far "
         "old/log.txt");
  ends(74, ONE SFT "run.output=dl" CHECK, 1, dangling, 1);
  ends(74, ONE SFT "run.output=dl/x" CHECK, 1, below, 1);
  cli_fails(74, ONE SFT "run.output=dl", dangling[0], NULL);
  cli_fails(74, ONE SFT "run.output=lo",
            "run.output: the folder lo cannot be made: lo: Too many levels of symbolic links", NULL);
  ends(74, ONE SFT "run.output=old" CHECK, 1, link, 1);
  cli_fails(74, TWO SFT "run.output=old", link[0], NULL);
  cli_sh("rm old/log.txt && mkdir old/log.txt");
  ends(74, ONE SFT "run.output=old" CHECK, 1, log, 1);
  cli_fails(74, ONE SFT "run.output=old", log[0], NULL);
  assert_true(cli_exists("old/metrics.jsonl") && !cli_exists("old/metrics.jsonl.before-1"));
}

/* That of another run is seen; a check has none of its own while it reads the data, and makes no file. */
static void the_lock_is_looked_at_and_not_kept(void **state) {
  static const char *const part[] = {"run.output: another run is writing to locked; wait for its end"};
  static char *const       key[] = {"run.output=locked"};
  tri_session_opt          opt = {"cpu", 0, 1, 0, NULL};
  tri_session              se = {0};
  tri_trainer              t = {0};
  tri_config               cfg = {0};
  tri_faults               faults = {0};
  tri_text                 notes = {0};

  (void)state;
  cli_sh("mkdir locked");
  cli_succeeds(ONE SFT "run.output=locked" CHECK);
  cli_sh("test -z \"$(ls -A locked)\"");
  finds("flock locked " ONE SFT "run.output=locked" CHECK, 1, part, 1);
  cli_fails(64, "flock locked " ONE SFT "run.output=locked", part[0], NULL);
  cli_fails(64, "flock locked " TWO SFT "run.output=locked", part[0], NULL);
  /* A start of the same job that still lives is waited for. */
  cli_succeeds("(flock locked sh -c '>held; until grep -q older waits; do sleep 0.1; done' &); "
               "until test -e held; do sleep 0.1; done; "
               "SLURM_JOB_ID=7 " ONE SFT "run.output=locked train.steps=1 2>waits");
  cli_sh("grep -q 'an older start of this job still has it' waits && rm -r locked && mkdir locked");
  assert_int_equal(tri_config_load("sft.yaml", key, 1, &cfg, &notes), TRI_OK);
  assert_int_equal(tri_session_pretend(&opt, 1, 1, &se), TRI_OK);
  assert_int_equal(tri_trainer_plan(&cfg, &se, &faults, &t), TRI_OK);
  cli_sh("flock --nonblock locked true");
  tri_trainer_close(&t);
  tri_session_close(&se);
  tri_text_free(&notes);
  tri_faults_free(&faults);
  tri_config_free(&cfg);
  cli_succeeds(ONE SFT "run.output=locked");
  assert_false(cli_exists("locked/.lock")); /* the folder itself is locked: copies share nothing */
}

/* A variable that the run reads. */
static void the_collectives_are_looked_at(void **state) {
  static const char *const
             part[] = {"TRI_COMM=nosuch: for run.device: cpu it can be shm, mpi or staged", "nope.jsonl"},
      *const key[] = {"run.collectives: nccl: for run.device: cpu it can be shm, mpi or staged, or auto",
                      "nope.jsonl"};

  (void)state;
  finds("TRI_COMM=nosuch " ONE SFT "run.device=cpu data.train=nope.jsonl" CHECK, 2, part, 2);
  cli_succeeds("TRI_COMM=mpi " ONE SFT "run.device=cpu" CHECK);
  finds(ONE SFT "run.device=cpu data.train=nope.jsonl run.collectives=nccl" CHECK, 2, key, 2);
  cli_succeeds(ONE SFT "run.device=cpu run.collectives=mpi" CHECK);
}

/* Judge: the run's own table, on the threads and with the collectives of this command. */
static void memory_is_that_of_the_run(void **state) {
  static const char *const start[] = {ONE, TWO, "TRI_COMM=staged " TWO};
  static const char        table[] =
      " 2>&1 | sed -n '/^memory per rank, MiB/,/^  planned /p; /^memory per rank: /p' ";
  char command[1024];

  (void)state;
  for (int i = 0; i < 3; i++) {
    const char *deck = i ? "run.threads=1" : "run.threads=$(($(nproc) > 1 ? 2 : 1))";
    snprintf(command, sizeof command, "%s" GRPO "run.device=cpu run.output=mem%d --verbose %s", start[i], i,
             deck);
    cli_sh("%s" CHECK "%s >check.txt", command, table);
    cli_sh("%s%s >run.txt && test $(wc -l <run.txt) -gt 10 && cmp check.txt run.txt", command, table);
  }
}

/* All of them the run refuses or warns of. */
static void the_machine_is_looked_at(void **state) {
  static const char *const part[] = {"run.threads = 4096: "};

  (void)state;
  finds(ONE GRPO "run.threads=4096" CHECK, 1, part, 1);
  cli_shows(cli_err, ": 1 rank x 4096 threads = 4096, ");
  cli_succeeds(ONE GRPO "run.threads=4096" CHECK " --ranks 2");
  cli_shows(cli_err, "as on this machine; the nodes of a job may have more:\nrun.threads = 4096: ");
  cli_succeeds(ONE GRPO "rollout.rollout_batch_size=1 algo.num_generations=16 train.micro_batch_size=4" CHECK
                        " --ranks 4");
  cli_shows(cli_err, "ranks 1 to 3 of 4 have no prompt to answer in any step,\n    waiting for the others: ");
}

/* A build for CPUs has no other device; one with CUDA may be asked on a machine without GPUs. */
static void the_device_is_looked_at(void **state) {
  static const char *const part[] = {"the device 'cuda' is not in this build", "nope.jsonl"};

  (void)state;
  if (cli_run(ONE SFT "run.device=cuda run.output=bad") == 69 && strstr(cli_err, part[0]))
    finds(ONE SFT "run.device=cuda data.train=nope.jsonl" CHECK, 2, part, 2);
}

static void a_resume_needs_no_first_reference(void **state) {
  (void)state;
  cli_sh("rm -rf first && cp -r model first");
  cli_succeeds(ONE GRPO WITH_REF "train.steps=1");
  cli_sh("rm -rf first");
  cli_succeeds(ONE GRPO WITH_REF "train.steps=2" CHECK);
  cli_succeeds(ONE GRPO WITH_REF "train.steps=2");
}

/* One name means several formulas: the line says which. */
static void the_loss_is_said(void **state) {
  static const struct {
    const char *args, *line;
  } row[] = {
      {"", "loss: clip (1 - 0.2 to 1 + 0.2) of group advantages (std group), token-mean\n"},
      {"algo.name=dr_grpo", "loss: clip (1 - 0.2 to 1 + 0.2) of group advantages (std none), "
                            "seq-mean-token-sum-norm\n"},
      {"algo.name=reinforce++ algo.kl_coef=0.01 algo.entropy_coef=0.1",
       "loss: clip (1 - 0.2 to 1 + 0.2) of whitened return advantages (gamma 1), token-mean, "
       "0.01 k3 in the reward, "
       "entropy 0.1\n"},
      {"algo.name=gspo algo.dual_clip=3",
       "loss: sequence (1 - 0.0003 to 1 + 0.0004) of group advantages (std group), "
       "seq-mean-token-mean, dual clip 3\n"},
      {"algo.name=rloo algo.policy_loss=cispo",
       "loss: cispo (to 5) of leave-one-out advantages, token-mean\n"},
      {"algo.name=sapo", "loss: sapo (1, 1.05) of group advantages (std group), seq-mean-token-mean\n"},
      {"algo.name=dapo", "dynamic sampling: up to 3 extra batches a step replace groups of"},
      {"algo.name=vespo", "loss: vespo (2, 3; 3, 2) of group advantages (std group), token-mean\n"},
      {"algo.name=ppo algo.num_generations=4",
       "loss: clip (1 - 0.2 to 1 + 0.2) of whitened gae advantages (gamma 1, lam 0.95), token-mean, "
       "0.01 k1 in the reward\n"},
      {"algo.name=luspo",
       "loss: luspo (1 - 0.2 to 1 + 0.2) of group advantages (std group), seq-mean-token-sum\n"}};
  char command[512];

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(command, sizeof command, ONE GRPO "--check run.output=loss %s", row[i].args);
    cli_succeeds(command);
    for (char *at; (at = strstr(cli_err, ",\n    ")) != NULL;) /* lists break at words */
      memmove(at + 2, at + 6, strlen(at + 6) + 1), at[1] = ' ';
    cli_shows(cli_err, row[i].line);
  }
}

static void labels_of_one_kind_are_told(void **state) {
  (void)state;
  cli_sh("for i in 1 2 3 4; do echo '{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}'; done "
         "> one.jsonl");
  cli_succeeds(ONE SFT "--check run.output=one algo.name=kto data.train=one.jsonl");
  cli_shows(cli_err, "data.train: every label is true");
  cli_sh("echo '{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}' >> one.jsonl");
  cli_succeeds(ONE SFT "--check run.output=one algo.name=kto data.train=one.jsonl");
  if (strstr(cli_err, "every label")) fail_msg("%s", cli_err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_good_deck_gets_its_summary),
      cmocka_unit_test(one_is_no_plural),
      cmocka_unit_test(every_key_is_looked_at),
      cmocka_unit_test(kinds_are_looked_at_together),
      cmocka_unit_test(messages_of_keys_are_bounded),
      cmocka_unit_test(every_reward_is_looked_at),
      cmocka_unit_test(values_are_looked_at_together),
      cmocka_unit_test(files_batches_and_output_are_looked_at),
      cmocka_unit_test(tensors_are_looked_at),
      cmocka_unit_test(every_bad_line_is_counted),
      cmocka_unit_test(what_the_model_lacks_is_said_once),
      cmocka_unit_test(no_line_is_a_paragraph),
      cmocka_unit_test(a_bad_reward_hides_no_line),
      cmocka_unit_test(a_long_line_is_stepped_over),
      cmocka_unit_test(no_mpi_is_started),
      cmocka_unit_test(a_resume_is_compared),
      cmocka_unit_test(where_a_run_goes_on_is_said),
      cmocka_unit_test(no_room_for_prompts_is_one_fault),
      cmocka_unit_test(a_bad_line_hides_no_long_one),
      cmocka_unit_test(the_exit_code_is_that_of_the_run),
      cmocka_unit_test(where_nothing_can_be_written_is_told_at_once),
      cmocka_unit_test(rows_beside_one_at_fault_are_looked_at),
      cmocka_unit_test(what_is_no_deck_is_one_fault),
      cmocka_unit_test(no_model_is_one_fault_of_every_algorithm),
      cmocka_unit_test(what_is_not_looked_at_is_said),
      cmocka_unit_test(all_of_the_output_is_looked_at),
      cmocka_unit_test(links_of_the_output_are_looked_at),
      cmocka_unit_test(the_lock_is_looked_at_and_not_kept),
      cmocka_unit_test(the_collectives_are_looked_at),
      cmocka_unit_test(memory_is_that_of_the_run),
      cmocka_unit_test(the_machine_is_looked_at),
      cmocka_unit_test(the_device_is_looked_at),
      cmocka_unit_test(a_resume_needs_no_first_reference),
      cmocka_unit_test(the_loss_is_said),
      cmocka_unit_test(labels_of_one_kind_are_told),
  };
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
