/* test_cli_check.c - trireme train --check: all errors at once, without MPI, and nothing written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <errno.h>

#include "train/train.h"

#define CHECK " --check"
#define WITH_REF                                                                                             \
  "run.resume=auto run.output=with_ref algo.kl_coef=0.1 model.ref_path=first checkpoint.save_steps=1 "

/* Checks that one message has all facts, separated by '|'. */
static void has_facts(const char *facts) {
  char        text[256];
  const char *fact[16] = {NULL};
  int         n = 0;

  assert_true(snprintf(text, sizeof text, "%s", facts) < (int)sizeof text);
  for (char *at = strtok(text, "|"); at && n < 15; at = strtok(NULL, "|")) fact[n++] = at;
  cli_says_at(cli_err, "", fact, facts, 0);
}

/* Checks that the error message names this as not checked because of the errors. */
static bool misses(const char *what) { return cli_count_facts(cli_err, "trireme: ", CLI_FACTS(what)) > 0; }

static void misses_all(const char *const *what) {
  for (int i = 0; what[i]; i++)
    if (!misses(what[i])) fail_msg("'%s' is not called unseen in\n%s", what[i], cli_err);
}

static void misses_none(const char *const *what) {
  for (int i = 0; what[i]; i++)
    if (misses(what[i])) fail_msg("'%s' is called unseen in\n%s", what[i], cli_err);
}

/* The list stands above one error message with the number of errors. Each part has the facts of one error. */
static void ends(int want, const char *command, int errors, const char *const *part, int n_part) {
  char count[64];
  int  code = cli_run(command);

  if (code != want || cli_errors() != 1) fail_msg("%s\nexit code %d\n...%s", command, code, cli_end());
  assert_string_equal(cli_out, "");
  assert_false(cli_exists("bad"));
  snprintf(count, sizeof count, "%d error%s", errors, errors == 1 ? "" : "s");
  cli_says_at(cli_err, "trireme: ", CLI_FACTS(count), command, 0);
  for (int i = 0; i < n_part; i++) has_facts(part[i]);
}

static void finds(const char *command, int errors, const char *const *part, int n_part) {
  ends(64, command, errors, part, n_part);
}

static void a_good_deck_gets_its_summary(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO CHECK);
  has_facts("llama|0.02 M");
  has_facts("data.train|24");
  has_facts("16 = 8 x 2 x 1");
  has_facts("MiB|rollout|learn");
  has_facts("grpo.yaml|1 rank");
  assert_false(cli_exists("bad"));
  cli_succeeds(ONE GRPO CHECK " --ranks 2");
  cli_shows(cli_err, "16 = 8 x 1 x 2");
  cli_fails(64, ONE GRPO " --ranks 2", "--ranks", "--check");
}

static void one_is_no_plural(void **state) {
  (void)state;
  cli_sh("head -n 1 rl.jsonl >single.jsonl");
  cli_succeeds(ONE GRPO "data.train=single.jsonl" CHECK);
  has_facts("data.train|1 example|1 line");
  has_facts("MiB|rollout|learn");
  cli_succeeds(ONE SFT CHECK);
  has_facts("MiB|learn");
  assert_int_equal(cli_saying(cli_err, "MiB", "rollout"), 0);
  cli_sh("sed 's/}/, \"response\": \"5\"}/' single.jsonl >answered.jsonl && sed 's/answer/completion/' "
         "single.jsonl >completed.jsonl");
  static const char *const way[] = {"reward grpo.yaml --on answered.jsonl",
                                    "score run completed.jsonl",
                                    "plan grpo.yaml",
                                    "inspect run",
                                    "report run",
                                    "train sft.yaml 'data.train_weights=[1,2]' --check"};
  for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
    char command[512];
    snprintf(command, sizeof command, ONE "%s", way[i]);
    assert_int_equal(cli_run(command), i + 1 < sizeof way / sizeof *way ? 0 : 64);
    cli_sh(
        "! grep -hE '(^|[^0-9.])1 (answer|file|line|rank|token|layer|pair|row|step|prompt|sample|update|node|"
        "core|thread|head|number)s' .out .err");
  }
}

/* A key without effect is a warning, once for all ranks, and no event. The spelling of another program is
 * none. */
static void idle_keys_are_warned_of(void **state) {
  static const char *const way[] = {ONE SFT "rollout.max_response_length=4 train.lr=1e-3" CHECK,
                                    ONE "plan sft.yaml rollout.max_response_length=4 train.lr=1e-3",
                                    TWO SFT "run.output=idle rollout.max_response_length=4 train.lr=1e-3"};
  const char *const       *idle = CLI_FACTS("rollout.max_response_length=4", "rollout.max_response_length");

  (void)state;
  for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
    cli_succeeds(way[i]);
    assert_int_equal(cli_count_facts(cli_err, "trireme: warning: ", idle), 1);
    assert_int_equal(cli_count_facts(cli_err, "trireme: warning: ", CLI_FACTS("train.learning_rate")), 0);
    assert_int_equal(cli_saying(cli_err, "train.lr=1e-3", "train.learning_rate"), 1);
  }
  cli_sh("! grep -q '\"alarm\"' idle/run.jsonl && grep -q 'rollout.max_response_length=4' idle/log.txt");
}

static void every_key_is_looked_at(void **state) {
  static const char *const part[] = {"train.stps=3|train.steps", "run.seed=x|run.seed|0",
                                     "model.dtype=f8|f32|bf16|fp16"};

  (void)state;
  finds(ONE SFT "run.seed=x train.stps=3 model.dtype=f8" CHECK, 3, part, 3);
}

/* An error of one kind hides none of another kind: keys, rewards, the model's folder, the data. Checks that
 * depend on a wrong key are left out. */
static void kinds_are_looked_at_together(void **state) {
  static const char *const all[] = {"run.seed=x|run.seed|0", "train.stps=3|train.steps",
                                    "reward 2|regex|reward.pattern|a(", "nope.json|model.config",
                                    "half.jsonl:2|answer|data.answer_key"};
  static const char *const folder[] = {"nope.json|model.config", "half.jsonl:2|answer|data.answer_key"};
  static const char *const algo[] = {"algo.name=gpro|grpo", "nowhere|model.path"};
  static const char *const data[] = {"data.promt_key=q|data.prompt_key"};
  static const char *const model[] = {"model.dtype=f8|f32|bf16|fp16", "half.jsonl:2|answer|data.answer_key"};

  (void)state;
  cli_write("half.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"1+1=\"}\n");
  finds(ONE GRPO "run.seed=x train.stps=3 model.config=nope.json data.train=half.jsonl "
                 "\"reward=[{name: exact},{name: regex, pattern: 'a('}]\"" CHECK,
        5, all, 5);
  finds(ONE GRPO "model.config=nope.json data.train=half.jsonl" CHECK, 2, folder, 2);
  finds(ONE LOAD "model.path=nowhere algo.name=gpro" CHECK, 2, algo, 2);
  finds(ONE GRPO "data.promt_key=q data.train=half.jsonl" CHECK, 1, data, 1);
  misses_all(CLI_FACTS("run.output", "memory", "data"));
  finds(ONE GRPO "model.dtype=f8 data.train=half.jsonl" CHECK, 2, model, 2);
  misses_all(CLI_FACTS("run.output", "memory", "model"));
  finds(ONE GRPO "data.train=null data.eval=half.jsonl eval.steps=1 run.seed=x" CHECK, 2, NULL, 0);
}

/* So many messages, and the number of the others. */
static void messages_of_keys_are_bounded(void **state) {
  char command[1024] = ONE SFT;
  int                      lines = 0;

  (void)state;
  for (int i = 0; i < 30; i++) sprintf(command + strlen(command), "train.no%d=1 ", i);
  strcat(command, CHECK);
  finds(command, 30, (const char *const[]){"train.no19=1|train.no19", "sft.yaml|10"}, 2);
  assert_null(strstr(cli_err, "train.no20"));
  for (const char *at = cli_err; *at; at++) lines += *at == '\n';
  assert_true(lines < 45); /* each of two lines at most */
}

static void every_reward_is_looked_at(void **state) {
  static const char *const rows[] = {"wieght|weight", "numbr|number", "regex|pattern"};
  static const char *const values[] = {"reward 1|regex|reward.pattern|a(",
                                       "reward 3|regex|reward.pattern|b("};
  static const char *const files[] = {
      "reward 1|process|reward.command|gone.sh", "reward 2|library|reward.path|gone.so",
      "reward 3|regex|reward.pattern|b(", "reward 4|http|reward.url_file|gone.txt", "gone|reward.path"};

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
  static const char *const part[] = {"rollout.top_k|algo.name|sft", "train.epochs|train.steps|sft.yaml:5",
                                     "eval.steps|1|data.eval", "eval.steps|1|rollout.max_response_length"};
  static const char *const missing[] = {"grpo.yaml|run.output", "grpo.yaml|data.train",
                                        "grpo.yaml|reward|grpo"};
  static const char *const pairs[] = {
      "train.epochs|train.steps|grpo.yaml:7",
      "train.warmup_steps|train.warmup_ratio=0.1",
      "algo.num_generations|1|algo.advantage|2",
      "train.min_lr_ratio|train.lr_scheduler|constant",
      "rollout.temperature|1e-05|0|1e-4",
      "model.ref_path|algo.kl_coef|0",
      "eval.steps|1|data.eval",
  };
  static const char *const unused[] = {"rollout.top_k|algo.name|sft", "algo.clip_eps|algo.name|sft"};

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
  static const char *const part[] = {"run.output|plain/x|plain", "nope.json|model.config",
                                     "shard.params: world|shard.grads: node", "3 = 8 x ? x 1"};
  static const char *const data[] = {"none.jsonl|data.train", "nope.jsonl|data.eval"};

  (void)state;
  cli_write("plain", "");
  finds(ONE GRPO "run.output=plain/x model.config=nope.json train.train_batch_size=3 shard.params=world "
                 "shard.grads=node" CHECK,
        4, part, 4);
  cli_write("none.jsonl", "");
  finds(ONE GRPO "data.train=none.jsonl data.eval=nope.jsonl eval.steps=1" CHECK, 2, data, 2);
}

static void tensors_are_looked_at(void **state) {
  static const char *const part[] = {"broken|model.embed_tokens.weight|[257, 32]|[257, 40]"};

  (void)state;
  cli_sh("rm -rf broken && cp -r model broken && sed -i 's/\"hidden_size\": 32/\"hidden_size\": 40/' "
         "broken/config.json");
  finds(ONE LOAD "model.path=broken" CHECK, 1, part, 1);
  cli_succeeds(ONE LOAD "model.path=model" CHECK);
}

/* Lines with the same fault are one message with their numbers. If there are many kinds of faults, only some
 * are shown. */
static void every_bad_line_is_counted(void **state) {
  static const char *const part[] = {"bad.jsonl:2|JSON|4, 6, 8, 10, 12, 14, 16, 18|4",
                                     "bad.jsonl:3|answer|data.answer_key|5, 7, 9, 11, 13, 15, 17, 19|3"};
  static const char *const two[] = {"one.jsonl:1|JSON", "two.jsonl:2|JSON"};
  static const char *const ways[] = {"ways.jsonl:1|JSON", "ways.jsonl:20|JSON", "ways.jsonl|5|25"};
  FILE                    *f = fopen("bad.jsonl", "w");

  (void)state;
  assert_non_null(f);
  fputs("{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n", f);
  for (int i = 0; i < 25; i++) fputs(i % 2 ? "{\"prompt\": \"1+1=\"}\n" : "{\n", f);
  assert_int_equal(fclose(f), 0);
  finds(ONE GRPO "data.train=bad.jsonl" CHECK, 25, part, 2);
  finds(ONE GRPO "data.train=bad.jsonl data.eval=bad.jsonl eval.steps=1" CHECK, 25, part, 2); /* once */
  assert_null(strstr(cli_err, "bad.jsonl:4: "));
  assert_non_null(f = fopen("ways.jsonl", "w"));
  for (int i = 0; i < 25; i++) fprintf(f, "{%*sx\n", i, ""); /* the column is another */
  assert_int_equal(fclose(f), 0);
  finds(ONE GRPO "data.train=ways.jsonl" CHECK, 25, ways, 3);
  assert_null(strstr(cli_err, "ways.jsonl:21: "));
  cli_write("one.jsonl", "{\"prompt\"}\n");
  cli_write("two.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\n");
  finds(ONE GRPO "data.train=one.jsonl data.eval=two.jsonl eval.steps=1" CHECK, 2, two, 2);
  assert_int_equal(cli_saying(cli_err, "one.jsonl"), 1); /* no sums */
  assert_int_equal(cli_saying(cli_err, "two.jsonl"), 1);
}

/* All lines lack the same field, which is one error, beside the error of a single line. */
static void what_the_model_lacks_is_said_once(void **state) {
  static const char *const text[] = {"sft.jsonl:1|prompt|tokenizer.json|model.tokenizer|tokens"};
  static const char *const folder[] = {"rl.jsonl:1|prompt|tokenizer.json|AutoTokenizer.from_pretrained"};
  static const char *const two[] = {"talk.jsonl:1|messages|tokenizer.json|tokens", "talk.jsonl:2|JSON"};
  static const char *const form[] = {"talk.jsonl:1|data.chat_template", "talk.jsonl:2|JSON"};

  (void)state;
  finds(ONE SFT "model.tokenizer=null" CHECK, 1, text, 1);
  cli_sh("rm -rf mute && cp -r model mute && rm mute/tokenizer.json");
  finds(ONE GRPO "model.config=null model.tokenizer=null model.path=mute" CHECK, 1, folder, 1);
  cli_write("talk.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"1\"}, {\"role\": \"assistant\", "
            "\"content\": \"1\"}]}\n{\n");
  cli_sh("cat talk.jsonl talk.jsonl >.talk && sed 4d .talk >talk.jsonl");
  finds(ONE SFT "data.train=talk.jsonl model.tokenizer=null" CHECK, 2, two, 2);
  finds(ONE SFT "data.train=talk.jsonl data.chat_template=none" CHECK, 2, form, 2);
}

/* Typical errors of new users are shown in lines of at most 160 columns, in pipes too. */
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

/* exact needs right answers, and no line has any. */
static void a_bad_reward_hides_no_line(void **state) {
  static const char *const part[] = {"reward 2|regex|reward.pattern|a(",
                                     "asked.jsonl:1|answer|data.answer_key|2"};

  (void)state;
  cli_write("asked.jsonl", "{\"prompt\": \"1+1=\"}\n{\"prompt\": \"1+2=\"}\n");
  finds(ONE GRPO "data.train=asked.jsonl \"reward=[{name: exact},{name: regex, pattern: 'a('}]\"" CHECK, 3,
        part, 2);
}

/* A line over the limit is one bad line, even if one read returned more of it than the limit. */
static void a_long_line_is_stepped_over(void **state) {
  static const char *const part[] = {"long.jsonl:2|1000|data.max_line_bytes", "long.jsonl:4|JSON"};
  static const char *const more[] = {"long.jsonl:2|100000|data.max_line_bytes", "long.jsonl:4|JSON"};

  (void)state;
  cli_sh("awk 'BEGIN { good = \"{\\\"prompt\\\": \\\"1+1=\\\", \\\"answer\\\": \\\"2\\\"}\"; print good; "
         "for (i = 0; i < 20000; i++) printf \"0123456789\"; printf \"\\n%%s\\n{\\n\", good }' > long.jsonl");
  finds(ONE GRPO "data.train=long.jsonl data.max_line_bytes=1000" CHECK, 2, part, 2);
  finds(ONE GRPO "data.train=long.jsonl data.max_line_bytes=100000" CHECK, 2, more, 2);
}

/* Variables left in a shell start nothing. */
static void no_mpi_is_started(void **state) {
  (void)state;
  cli_succeeds(
      "OMPI_MCA_pml=nosuch OMPI_COMM_WORLD_SIZE=2 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=3 " ONE GRPO CHECK);
  has_facts("grpo.yaml|1 rank|--ranks");
  cli_succeeds("PMI_RANK=0 PMI_SIZE=2 " ONE GRPO CHECK);
  has_facts("grpo.yaml|2 ranks");
  cli_succeeds(TWO GRPO CHECK);
  has_facts("grpo.yaml|2 ranks");
  assert_int_equal(cli_saying(cli_err, "grpo.yaml"), 1); /* said once */
}

static void a_resume_is_compared(void **state) {
  static const char *const part[] = {
      "run/checkpoints/step-00000002|run.allow_changes: [train.train_batch_size]"};

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
  has_facts("run/checkpoints/step-00000002|2|3");
  has_facts("run/checkpoints/step-00000002|train.steps: 2 -> 3");
  cli_succeeds(ONE SFT "run.output=run" CHECK);
  has_facts("train.steps|2|run.resume: never"); /* all steps are done */
  cli_succeeds(ONE SFT CHECK);
  assert_null(strstr(cli_err, "step-0000"));
  assert_null(strstr(cli_err, "train.steps"));
}

/* Once, and the data is looked at nevertheless. */
static void no_space_for_prompts_is_one_error(void **state) {
  static const char *const part[] = {"rollout.max_response_length|100000|32", "torn.jsonl:1|JSON",
                                     "nope.jsonl|data.eval"};

  (void)state;
  cli_write("torn.jsonl", "{\"prompt\"}\n");
  finds(ONE GRPO
        "rollout.max_response_length=100000 data.train=torn.jsonl data.eval=nope.jsonl eval.steps=1" CHECK,
        3, part, 3);
  misses_all(CLI_FACTS("prompts", "memory"));
}

static void a_bad_line_hides_no_long_one(void **state) {
  static const char *const part[] = {"mixed.jsonl:3|prompt", "mixed.jsonl:1|40|28|data.overlong_prompt"};

  (void)state;
  cli_write("mixed.jsonl",
            "{\"prompt\": \"1234567890123456789012345678901234567890\", \"answer\": \"2\"}\n"
            "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"\", \"answer\": \"2\"}\n");
  finds(ONE GRPO "data.train=mixed.jsonl" CHECK, 2, part, 2);
}

static bool has_cuda(void) {
  cli_succeeds(ONE "--version");
  return strstr(cli_out, "cuda") != NULL;
}

/* Judge: the exit code of the run, or 64 if the errors have several. */
static void the_exit_code_is_that_of_the_run(void **state) {
  static const char *const row[] = {"run.output=plain", "data.train=nope.jsonl", "run.device=cuda",
                                    "model.config=nope.json"};
  char                     command[512];
  int                      code;

  (void)state;
  cli_write("plain", "");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(command, sizeof command, ONE SFT "%s", row[i]);
    if (strstr(row[i], "cuda") && has_cuda()) continue;
    code = cli_run(command);
    strcat(command, CHECK);
    ends(code, command, 1, NULL, 0);
  }
  finds(ONE SFT "run.output=plain data.train=nope.jsonl" CHECK, 2, NULL, 0);
}

/* Judge: the exit code of the run alone, and the number of errors. */
static void where_nothing_can_be_written_is_told_at_once(void **state) {
  static const char *const both[] = {"3 = 4 x ? x 1", "/proc/x"}, *const alone[] = {"/proc/x"};

  (void)state;
  ends(74, ONE SFT "run.output=/proc/x" CHECK, 1, alone, 1);
  finds(ONE SFT "run.output=/proc/x train.train_batch_size=3" CHECK, 2, both, 2);
  finds(ONE SFT "run.output=/proc/x data.train=nope.jsonl" CHECK, 2, alone, 1);
  finds(ONE SFT "run.output=/proc/x run.threads=4096" CHECK, 2, alone, 1);
}

/* A row wrong hides no other, and no row is called by another's number. */
static void rows_beside_one_at_error_are_looked_at(void **state) {
  static const char *const part[] = {"nuber|number", "regex|pattern", "reward 2|process|gone.sh",
                                     "reward 4|library|gone.so"};
  static const char *const algo[] = {"nuber|number", "algo.name=gpro|grpo", "reward 2|process|gone.sh"};
  static const char *const line[] = {"nuber|number", "bare.jsonl:1|answer|data.answer_key"};

  (void)state;
  finds(ONE GRPO "'reward=[{name: nuber}, {name: process, command: [sh, gone.sh]}, {name: regex}, "
                 "{name: library, path: gone.so}]'" CHECK,
        4, part, 4);
  misses_all(CLI_FACTS("rewards"));
  finds(ONE GRPO "algo.name=gpro 'reward=[{name: nuber}, {name: process, command: [sh, gone.sh]}]'" CHECK, 3,
        algo, 3);
  cli_write("bare.jsonl", "{\"prompt\": \"1+1=\"}\n");
  finds(ONE GRPO "data.train=bare.jsonl 'reward=[{name: nuber}, {name: exact}]'" CHECK, 2, line, 2);
}

/* With an unreadable deck there is nothing else to check. Judge: the exit code of the run. */
static void what_is_no_deck_is_one_error(void **state) {
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
      misses_none(CLI_FACTS("run.output", "memory", "tensors", "data"));
    }
  }
}

/* Batches of unspecified passes need the model too. Judge: the exit code of the run. */
static void no_model_is_one_error_of_every_algorithm(void **state) {
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

/* One rank cannot be divided. All else is checked as for a whole model on each rank. */
static void ranks_that_do_not_divide_hide_no_error(void **state) {
  (void)state;
  finds(ONE GRPO "algo.name=grpo shard.plan=zero3 shard.tensor_parallel_size=2 data.train=nope.jsonl" CHECK,
        2, CLI_FACTS("tensor_parallel_size", "nope.jsonl"), 2);
}

/* The message says that errors prevented further checks. */
static void what_is_not_looked_at_is_said(void **state) {
  static const char *const model[] = {"nope.json|model.config"};

  (void)state;
  finds(ONE SFT "run.seed=x" CHECK, 1, NULL, 0);
  misses_all(CLI_FACTS("machine", "run.output", "batches", "memory"));
  misses_none(CLI_FACTS("data", "tensors", "checkpoints"));
  finds(ONE SFT "model.config=nope.json" CHECK, 1, model, 1);
  misses_all(CLI_FACTS("data", "tensors", "memory", "checkpoints"));
  misses_none(CLI_FACTS("machine", "run.output", "batches"));
  finds(ONE SFT "run.output=run data.train=nope.jsonl" CHECK, 1, NULL, 0);
  misses_all(CLI_FACTS("checkpoint", "tensors", "memory", "checkpoints"));
  misses_none(CLI_FACTS("machine", "run.output", "batches"));
  finds(ONE SFT "run.threads=4096" CHECK, 1, NULL, 0);
  misses_none(CLI_FACTS("machine", "run.output", "batches", "data", "tensors", "memory", "checkpoints"));
}

static void all_of_the_output_is_looked_at(void **state) {
  static const char *const part[] = {"run.output|model|config.json", "run.resume|nope"};
  static const char *const file[] = {"run.output|plain"};

  (void)state;
  finds(ONE SFT "run.output=model run.resume=nope" CHECK, 2, part, 2);
  cli_write("plain", "");
  ends(74, ONE SFT "run.output=plain" CHECK, 1, file, 1);
}

/* The run does so before it sets anything aside. */
static void links_of_the_output_are_looked_at(void **state) {
  static const char *const dangling[] = {"run.output|dl|link"};
  static const char *const below[] = {"run.output|dl/x|dl|link"};
  static const char *const file[] = {"run.output|old/log.txt"};

  (void)state;
  cli_sh("ln -s nowhere dl && ln -s lo lo && mkdir old && echo 1 >old/metrics.jsonl && ln -s ../far "
         "old/log.txt");
  ends(74, ONE SFT "run.output=dl" CHECK, 1, dangling, 1);
  ends(74, ONE SFT "run.output=dl/x" CHECK, 1, below, 1);
  cli_refuses(74, ONE SFT "run.output=dl", "check_folder", "run.output", "dl", "link");
  cli_refuses(74, ONE SFT "run.output=lo", "check_folder", "run.output", "lo", strerror(ELOOP));
  ends(74, ONE SFT "run.output=old" CHECK, 1, file, 1);
  cli_refuses(74, TWO SFT "run.output=old", "check_file", "run.output", "old/log.txt", "link");
  cli_sh("rm old/log.txt && mkdir old/log.txt");
  ends(74, ONE SFT "run.output=old" CHECK, 1, file, 1);
  cli_refuses(74, ONE SFT "run.output=old", "check_file", "run.output", "old/log.txt");
  assert_null(strstr(cli_err, "link"));
  assert_true(cli_exists("old/metrics.jsonl") && !cli_exists("old/metrics.jsonl.before-1"));
}

/* A check sees the lock of another run. It holds none itself while it reads the data, and creates no file. */
static void the_lock_is_looked_at_and_not_kept(void **state) {
  static const char *const part[] = {"run.output|locked"};
  static char *const       key[] = {"run.output=locked"};
  tri_session_opt          opt = {.device = "cpu", .threads = 1};
  tri_session              se = {0};
  tri_trainer              t = {0};
  tri_config               cfg = {0};
  tri_errors               errors = {0};
  tri_text                 notes = {0};

  (void)state;
  cli_sh("mkdir locked");
  cli_succeeds(ONE SFT "run.output=locked" CHECK);
  cli_sh("test -z \"$(ls -A locked)\"");
  finds("flock locked " ONE SFT "run.output=locked" CHECK, 1, part, 1);
  cli_refuses(64, "flock locked " ONE SFT "run.output=locked", "lock_output", "run.output", "locked");
  cli_refuses(64, "flock locked " TWO SFT "run.output=locked", "lock_output", "run.output", "locked");
  /* It waits for a start of the same job that is still alive, which ends when the test sees the wait. */
  cli_succeeds("(flock locked sh -c '>held; until grep -qsw locked waits; do sleep 0.1; done' &); "
               "until test -e held; do sleep 0.1; done; "
               "SLURM_JOB_ID=7 " ONE SFT "run.output=locked train.steps=1 2>waits");
  cli_sh("rm -r locked && mkdir locked");
  assert_int_equal(tri_config_load("sft.yaml", key, 1, &cfg, &notes), TRI_OK);
  assert_int_equal(tri_session_pretend(&opt, 1, 1, &se), TRI_OK);
  assert_int_equal(tri_trainer_plan(&cfg, &se, &errors, &t), TRI_OK);
  cli_sh("flock --nonblock locked true");
  tri_trainer_close(&t);
  tri_session_close(&se);
  tri_text_free(&notes);
  tri_errors_free(&errors);
  tri_config_free(&cfg);
  cli_succeeds(ONE SFT "run.output=locked");
  assert_false(cli_exists("locked/.lock")); /* the folder itself is locked, and copies share nothing */
}

/* A variable read by the run. */
static void the_collectives_are_looked_at(void **state) {
  static const char *const        part[] = {"TRI_COMM=nosuch|run.device|cpu|shm|mpi|staged",
                                            "nope.jsonl|data.train"},
                           *const key[] = {"run.collectives|nccl|run.device|cpu|shm|mpi|staged|auto",
                                           "nope.jsonl|data.train"};

  (void)state;
  finds("TRI_COMM=nosuch " ONE SFT "run.device=cpu data.train=nope.jsonl" CHECK, 2, part, 2);
  cli_succeeds("TRI_COMM=mpi " ONE SFT "run.device=cpu" CHECK);
  finds(ONE SFT "run.device=cpu data.train=nope.jsonl run.collectives=nccl" CHECK, 2, key, 2);
  cli_succeeds(ONE SFT "run.device=cpu run.collectives=mpi" CHECK);
}

/* Judge: the run's own table, with the threads and collectives of this command. */
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
  static const char *const part[] = {"run.threads|4096|1"};

  (void)state;
  finds(ONE GRPO "run.threads=4096" CHECK, 1, part, 1);
  cli_succeeds(ONE GRPO "run.threads=4096" CHECK " --ranks 2");
  has_facts("run.threads|4096|2|8192"); /* a warning only, since the nodes of a job may have more */
  cli_succeeds(ONE GRPO "rollout.rollout_batch_size=1 algo.num_generations=16 train.micro_batch_size=4" CHECK
                        " --ranks 4");
  has_facts("warning|1|3|4|rollout.rollout_batch_size");
}

/* A build for CPUs has no other device. A build with CUDA may run on a machine without GPUs. */
static void the_device_is_looked_at(void **state) {
  static const char *const part[] = {"cuda|cpu", "nope.jsonl|data.train"};

  (void)state;
  if (has_cuda()) return;
  cli_refuses(69, ONE SFT "run.device=cuda run.output=bad", "tri_device_check", "cuda", "cpu");
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

/* One name stands for several formulas, and the line says which one. */
static void the_loss_is_said(void **state) {
  static const struct {
    const char *args, *facts;
  } row[] = {{"", "clip|1 - 0.2|1 + 0.2|group|std group|token-mean"},
             {"algo.name=dr_grpo", "clip|1 - 0.2|1 + 0.2|group|std none|seq-mean-token-sum-norm"},
             {"algo.name=reinforce++ algo.kl_coef=0.01 algo.entropy_coef=0.1",
              "clip|1 - 0.2|1 + 0.2|return|gamma 1|token-mean|0.01 k3|entropy 0.1"},
             {"algo.name=gspo algo.dual_clip=3",
              "sequence|1 - 0.0003|1 + 0.0004|group|std group|seq-mean-token-mean|3"},
             {"algo.name=rloo algo.policy_loss=cispo", "cispo|5|leave-one-out|token-mean"},
             {"algo.name=sapo", "sapo|1, 1.05|group|std group|seq-mean-token-mean"},
             {"algo.name=dapo", "3|batches|step|reward"},
             {"algo.name=vespo", "vespo|2, 3; 3, 2|group|std group|token-mean"},
             {"algo.name=ppo algo.num_generations=4",
              "clip|1 - 0.2|1 + 0.2|gae|gamma 1|lam 0.95|token-mean|0.01 k1"},
             {"algo.name=luspo", "luspo|1 - 0.2|1 + 0.2|group|std group|seq-mean-token-sum"}};
  char command[512];

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(command, sizeof command, ONE GRPO "--check run.output=loss %s", row[i].args);
    cli_succeeds(command);
    for (char *at; (at = strstr(cli_err, ",\n    ")) != NULL;) /* lists break at words */
      memmove(at + 2, at + 6, strlen(at + 6) + 1), at[1] = ' ';
    has_facts(row[i].facts);
  }
}

static void labels_of_one_kind_are_told(void **state) {
  (void)state;
  cli_sh("for i in 1 2 3 4; do echo '{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}'; done "
         "> one.jsonl");
  cli_succeeds(ONE SFT "--check run.output=one algo.name=kto data.train=one.jsonl");
  has_facts("warning|data.train|true|kto");
  cli_sh("echo '{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}' >> one.jsonl");
  cli_succeeds(ONE SFT "--check run.output=one algo.name=kto data.train=one.jsonl");
  assert_int_equal(cli_saying(cli_err, "warning", "data.train"), 0);
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
      cmocka_unit_test(ranks_that_do_not_divide_hide_no_error),
      cmocka_unit_test(every_bad_line_is_counted),
      cmocka_unit_test(what_the_model_lacks_is_said_once),
      cmocka_unit_test(no_line_is_a_paragraph),
      cmocka_unit_test(a_bad_reward_hides_no_line),
      cmocka_unit_test(a_long_line_is_stepped_over),
      cmocka_unit_test(no_mpi_is_started),
      cmocka_unit_test(a_resume_is_compared),
      cmocka_unit_test(where_a_run_goes_on_is_said),
      cmocka_unit_test(no_space_for_prompts_is_one_error),
      cmocka_unit_test(a_bad_line_hides_no_long_one),
      cmocka_unit_test(the_exit_code_is_that_of_the_run),
      cmocka_unit_test(where_nothing_can_be_written_is_told_at_once),
      cmocka_unit_test(rows_beside_one_at_error_are_looked_at),
      cmocka_unit_test(what_is_no_deck_is_one_error),
      cmocka_unit_test(no_model_is_one_error_of_every_algorithm),
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
      cmocka_unit_test(idle_keys_are_warned_of),
  };
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
