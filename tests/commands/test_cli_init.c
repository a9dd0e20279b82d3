/* test_cli_init.c - trireme init: decks and job files from flags, from a fake Slurm, from answers at a
 * terminal. It writes nothing after a refusal. Judge of the files: trireme train --check, and bash -n. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "cli_facts.h"
#include "device_case.h"

#include "device/device.h"

#include <errno.h>
#include <fcntl.h>

#define SLURM "PATH=\"$PWD/slurm:$PATH\" "
#define YES   ONE "init job --yes --model model "
#define DEAF  "PATH=\"$PWD/deaf:$PATH\" " /* no controller answers */
#define CPU   SLURM YES "--device cpu "

static char text[CLI_TEXT_BYTES];

static int open_all(void **state) {
  if (cli_open(state)) return -1;
  cli_sh("mkdir slurm && cat > slurm/sinfo <<'END'\n#!/bin/sh\n"
         "echo 'cpu*|up|1-00:00:00|1-4|8|16|64000|(null)'\n"
         "echo 'gpu|up|infinite|1-infinite|4|64|1031000|gpu:a100:4(S:0-1)'\n"
         "echo 'mix|up|10:00|1-infinite|2|32|500000|gpu:h100:8'\n"
         "echo 'mix|up|10:00|1-infinite|1|32|500000|gpu:a100:8'\n"
         "echo 'odd|up|infinite|1-infinite|2|32|500000|gpu:2'\nEND\nchmod +x slurm/sinfo");
  cli_sh("printf '#!/bin/sh\\nprintf \"phys\\\\nchem\\\\nphys\\\\n\"\\n' > slurm/sacctmgr"
         " && chmod +x slurm/sacctmgr");
  cli_sh("sed 's/\"completion\": \\(.*\\)}/\"chosen\": \\1, \"rejected\": \"?\"}/' sft.jsonl > pairs.jsonl");
  cli_sh("sed 's/}/, \"label\": true}/; n; s/}/, \"label\": false}/' sft.jsonl > labelled.jsonl");
  cli_sh("sed 's/\"prompt\"/\"question\"/; s/\"completion\": \"/&#### /; s/completion/answer/' sft.jsonl"
         " > gsm8k.jsonl");
  cli_sh("sed 's/\"completion\": \\(.*\\)}/\"x\": NaN, \"reward_model\": {\"ground_truth\": \\1}}/' sft.jsonl"
         " > verl.jsonl");
  cli_sh("sed 's/.*/{\"tokens\": [5, 6, 7, 8], \"prompt_tokens\": 2}/' sft.jsonl > tokens.jsonl");
  cli_sh("sed 's/, \"completion\".*/}/' sft.jsonl > prompts.jsonl");
  return 0;
}

static void forget(void) { cli_sh("rm -rf job"); }

/* Checks that both files exist and are right for this number of ranks. The second command suggested on the
 * screen succeeds. NULL means it is for another folder. The brief run checks every fourth time, because plan
 * and train --check have tests of their own. */
static void holds(int ranks, const char *screen) {
  static int  times;
  const char *next = screen ? strstr(screen, "\n  or: ") : NULL;
  char        command[512];

  if (times++ % test_step(4)) return;

  if (screen) {
    assert_non_null(next);
    next += strlen("\n  or: ");
    snprintf(command, sizeof command, "%.*s", (int)strcspn(next, "\r\n"), next);
    cli_shows(command, " plan ");
    cli_succeeds(command);
  }
  cli_sh("bash -n job/job.sbatch");
  snprintf(command, sizeof command, ONE "train job/deck.yaml --check --ranks %d", ranks);
  cli_succeeds(command);
  snprintf(command, sizeof command, " %d rank", ranks);
  cli_shows(cli_err, command);
  if (cli_exists("job/out")) fail_msg("a check made the output");
}

static void shows(const char *file, const char *part) {
  cli_read(file, text);
  cli_shows(text, part);
}

/* ---- written files ---- */

static void each_kind_of_lines_has_its_algorithm(void **state) {
  static const struct {
    const char *data, *deck;
    bool        is_evaluated;
  } t[] = {{"rl", "  name: grpo\n", true},
           {"sft", "  name: sft\n", true},
           {"pairs", "  name: dpo\n", true},
           {"labelled", "  name: kto\n", true},
           {"verl", "  answer_key: reward_model.ground_truth\nalgo:\n  name: grpo\n", false},
           {"tokens", "  name: sft\n", true},
           {"gsm8k", "  prompt_key: question\nalgo:\n  name: grpo\n", false}};

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char command[512];
    snprintf(command, sizeof command, CPU "--data %s.jsonl --nodes 2%s%s%s", t[i].data,
             t[i].is_evaluated ? " --eval " : "", t[i].is_evaluated ? t[i].data : "",
             t[i].is_evaluated ? ".jsonl" : "");
    forget();
    cli_succeeds(command);
    cli_shows(cli_out, "next: sbatch job/job.sbatch\n");
    shows("job/deck.yaml", t[i].deck);
    holds(4, cli_out); /* 2 nodes of 16 cores, 8 to a rank */
  }
  shows("job/deck.yaml", "  - name: gsm8k ");
}

static void every_algorithm_can_be_had(void **state) {
  static const char *const t[] = {
      "ppo --data rl.jsonl",  "dapo --data rl.jsonl",  "reinforce++ --data rl.jsonl", "remax --data rl.jsonl",
      "gspo --data rl.jsonl", "rm --data pairs.jsonl", "sft --data gsm8k.jsonl"};

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char command[512];
    snprintf(command, sizeof command, CPU "--algo %s --force", t[i]);
    cli_succeeds(command);
    holds(2, cli_out);
  }
  shows("job/deck.yaml", "  completion_key: answer\n");
}

/* The numbers of the equation in the deck's head are those of its keys. */
static void job_asks_for_what_the_nodes_have(void **state) {
  (void)state;
  forget();
  cli_succeeds(CPU "--data rl.jsonl --nodes 3 --gpus-per-node 4 --walltime 1-0 --account phys");
  assert_null(strstr(cli_err, "sacctmgr"));
  shows("job/job.sbatch",
        "#!/bin/bash\n# job.sbatch - runs deck.yaml, by trireme init: sbatch job.sbatch "
        "[key=value ...]\n#SBATCH --job-name=job\n#SBATCH --nodes=3\n"
        "#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=4\n#SBATCH --exclusive\n#SBATCH --mem=0\n"
        "#SBATCH --time=1-0\n#SBATCH --partition=cpu\n#SBATCH --account=phys\n"
        "#SBATCH --requeue\n#SBATCH --no-kill\n#SBATCH --open-mode=append\nexport TRIREME=");
  shows("job/deck.yaml",
        "# Batch: 192 answers a step = 24 prompts x 8, learned in one update; 192 = 12 ranks x "
        "16,\n");
  shows("job/deck.yaml", "  rollout_batch_size: 24 ");
  shows("job/deck.yaml", "  train_batch_size: 192 ");
  holds(12, cli_out);
}

static void gpus_are_asked_for(void **state) {
  (void)state;
  forget();
  cli_succeeds(SLURM YES "--data rl.jsonl --nodes 2");
  cli_tells("warning: ", "job.sbatch (TRIREME)");
  shows("job/job.sbatch",
        "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=16\n"
        "#SBATCH --gpus-per-node=4\n#SBATCH --exclusive\n#SBATCH --mem=0\n#SBATCH --time=04:00:00\n"
        "#SBATCH --partition=gpu\n");
  shows("job/deck.yaml", " of 36.9 GiB "); /* the smaller A100 */
  shows("job/job.sbatch", "/job/deck.yaml run.device=cuda \"$@\"\n");
  holds(8, cli_out);
  cli_succeeds(SLURM YES "--data rl.jsonl --partition mix --gpus-per-node 2 --force");
  shows("job/job.sbatch", "#SBATCH --cpus-per-task=4\n#SBATCH --gpus-per-node=h100:2\n#SBATCH --mem=125000M\n"
                          "#SBATCH --time=00:10:00\n#SBATCH --partition=mix\n");
  holds(2, cli_out);
  cli_succeeds(SLURM YES "--data rl.jsonl --partition odd --gpu 24 --account phy --force");
  cli_tells("warning: ", " phy", "sacctmgr", " phys, chem");
  shows("job/deck.yaml", " of 21.5 GiB ");
}

/* Its srun and scontrol only print their arguments. */
static void job_starts_the_program_that_wrote_it(void **state) {
  (void)state;
  forget();
  cli_succeeds(CPU "--data rl.jsonl");
  cli_sh("printf '#!/bin/sh\\necho srun \"$@\" >> srun.log\\n' > slurm/srun && chmod +x slurm/srun");
  assert_int_equal(cli_run(SLURM "SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=8 SLURM_JOB_END_TIME=1 SLURM_NNODES=1 "
                                 "SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=2 bash job/job.sbatch train.steps=5"),
                   0);
  cli_read("srun.log", text);
  cli_shows(text, TRI_PROGRAM " train /");
  cli_shows(text, "/job/deck.yaml train.steps=5\n");
}

/* Memory gets smaller and smaller, and init refuses once nothing helps any more. */
static void small_memory_is_used_sparingly(void **state) {
  int ways[3] = {0}, code = 0;

  (void)state;
  for (int mib = 60; mib > 0 && !code; mib -= 2) {
    forget();
    cli_sh("mkdir -p tight && sed 's/|64000|/|%d|/' slurm/sinfo > tight/sinfo && chmod +x tight/sinfo", mib);
    code = cli_run("PATH=\"$PWD/tight:$PATH\" " YES "--device cpu --data rl.jsonl --gpus-per-node 16");
    if (code) break;
    cli_read("job/deck.yaml", text);
    if (!ways[!strstr(text, "  recompute: layer ") ? 0 : !strstr(text, "  offload: ") ? 1 : 2]++)
      holds(16, cli_out);
  }
  assert_int_equal(code, 64);
  cli_tells("/model ", " MiB", "--gpus-per-node");
  assert_false(cli_exists("job"));
  assert_true(ways[0] && ways[1]);
}

/* Adds a tensor in bf16 to the head of a safetensors file. cols 0: a vector. *at: bytes so far. */
static void put_tensor(FILE *f, const char *name, long rows, long cols, long long *at) {
  long long end = *at + 2LL * rows * (cols ? cols : 1);

  fprintf(f, "%s\"%s\": {\"dtype\": \"BF16\", \"shape\": [%ld", *at ? ", " : "{", name, rows);
  if (cols == 4) fputs(", 1", f); /* a convolution */
  if (cols) fprintf(f, ", %ld", cols);
  fprintf(f, "], \"data_offsets\": [%lld, %lld]}", *at, end);
  *at = end;
}

/* A tensor of each layer. cols 0: a vector. */
typedef struct layer_part {
  const char *name;
  long        rows, cols;
} layer_part;

/* Writes a model's folder, with layers that are alike. Its weights are a file with holes, which takes no
 * space. NULL ends the parts. */
static void write_large(const char *folder, const char *config, int layers, const layer_part *of_layer) {
  FILE     *f;
  char      path[64];
  long long at = 0, head;

  cli_sh("mkdir %s && cp model/tokenizer*.json %s", folder, folder);
  snprintf(path, sizeof path, "%s/config.json", folder);
  cli_write(path, config);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  f = fopen(path, "w");
  assert_non_null(f);
  fwrite("\0\0\0\0\0\0\0\0", 8, 1, f);
  put_tensor(f, "model.embed_tokens.weight", 257, 4096, &at);
  put_tensor(f, "model.norm.weight", 4096, 0, &at);
  for (int i = 0; i < layers; i++)
    for (const layer_part *p = of_layer; p->name; p++) {
      char name[96];
      snprintf(name, sizeof name, "model.layers.%d.%s", i, p->name);
      put_tensor(f, name, p->rows, p->cols, &at);
    }
  fputc('}', f);
  head = ftell(f) - 8;
  rewind(f);
  for (int i = 0; i < 8; i++) fputc((int)(head >> 8 * i & 255), f);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(truncate(path, (off_t)(8 + head + at)), 0);
}

/* Writes a model of 3.5 billion parameters to the folder wide. */
static void write_wide(void) {
  static const layer_part of_layer[] = {
      {"input_layernorm.weight", 4096, 0},     {"post_attention_layernorm.weight", 4096, 0},
      {"self_attn.q_proj.weight", 4096, 4096}, {"self_attn.k_proj.weight", 1024, 4096},
      {"self_attn.v_proj.weight", 1024, 4096}, {"self_attn.o_proj.weight", 4096, 4096},
      {"mlp.gate_proj.weight", 14336, 4096},   {"mlp.up_proj.weight", 14336, 4096},
      {"mlp.down_proj.weight", 4096, 14336},   {NULL, 0, 0}};
  static const char config[] =
      "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 257, "
      "\"hidden_size\": 4096, \"num_hidden_layers\": 16, \"num_attention_heads\": 32, "
      "\"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"hidden_act\": \"silu\", "
      "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
      "\"tie_word_embeddings\": true, \"eos_token_id\": 256}";

  write_large("wide", config, 16, of_layer);
}

/* Writes a model of 3.5 billion parameters with recurrent layers alone to the folder recurrent. */
static void write_recurrent(void) {
  static const layer_part of_layer[] = {{"input_layernorm.weight", 4096, 0},
                                        {"post_attention_layernorm.weight", 4096, 0},
                                        {"linear_attn.in_proj_qkv.weight", 8192, 4096},
                                        {"linear_attn.in_proj_z.weight", 4096, 4096},
                                        {"linear_attn.in_proj_b.weight", 32, 4096},
                                        {"linear_attn.in_proj_a.weight", 32, 4096},
                                        {"linear_attn.conv1d.weight", 8192, 4},
                                        {"linear_attn.A_log", 32, 0},
                                        {"linear_attn.dt_bias", 32, 0},
                                        {"linear_attn.norm.weight", 128, 0},
                                        {"linear_attn.out_proj.weight", 4096, 4096},
                                        {"mlp.gate_proj.weight", 12288, 4096},
                                        {"mlp.up_proj.weight", 12288, 4096},
                                        {"mlp.down_proj.weight", 4096, 12288},
                                        {NULL, 0, 0}};
  char config[2048] = "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"model_type\": \"qwen3_5_text\", "
                      "\"vocab_size\": 257, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
                      "\"eos_token_id\": 256, \"num_hidden_layers\": 16, \"layer_types\": [";

  for (int i = 0; i < 16; i++) strcat(config, i ? ", \"linear_attention\"" : "\"linear_attention\"");
  strcat(config, "]}");
  write_large("recurrent", config, 16, of_layer);
}

/* If nothing else lets a GPU generate with the whole model, GPUs of a node generate as one. */
static void gpus_generate_as_one_model(void **state) {
  (void)state;
  write_wide();
  for (int gib = 24; gib > 0; gib -= 14) {
    char command[256];
    forget();
    snprintf(command, sizeof command,
             DEAF ONE "init job --yes --model wide --device cuda --gpus-per-node 8 --gpu %d --data rl.jsonl",
             gib);
    cli_succeeds(command);
    cli_read("job/deck.yaml", text);
    assert_int_equal(strstr(text, "  tensor_parallel_size: 2 ") != NULL, gib == 10);
    cli_sh("grep -q 'Memory: .* available to a rank on its GPU' job/deck.yaml");
    snprintf(command, sizeof command, ONE "plan job/deck.yaml --gpus-per-node 8 --gpu %d", gib);
    cli_succeeds(command);
  }
}

/* GPUs do not divide recurrent layers, so a deck that does not fit otherwise is refused. */
static void recurrent_layers_stay_whole(void **state) {
  char command[256];

  (void)state;
  write_recurrent();
  for (int gib = 24; gib > 0; gib -= 14) {
    forget();
    snprintf(command, sizeof command,
             DEAF ONE
             "init job --yes --model recurrent --device cuda --gpus-per-node 8 --gpu %d --data rl.jsonl",
             gib);
    if (gib == 10) {
      cli_fails(64, command, "trireme: ", NULL);
      cli_says(cli_err, "recurrent", "--nodes");
      assert_false(cli_exists("job/deck.yaml"));
      continue;
    }
    cli_succeeds(command);
    cli_read("job/deck.yaml", text);
    assert_null(strstr(text, "tensor_parallel_size"));
  }
}

/* ---- conversations ---- */

/* A model with a chat template learns by it, whatever form the lines have. */
static void a_chat_model_gets_the_chat_form(void **state) {
  static const struct {
    const char *model, *data;
    bool        applied;
  } t[] = {{"chat", "rl", true},     {"chat", "sft", true},       {"chat", "pairs", true},
           {"chat", "gsm8k", true},  {"chat", "labelled", true},  {"chat", "asked", false},
           {"chat", "sides", false}, {"chat", "rendered", false}, {"chat", "tokens", false},
           {"model", "rl", false},   {"model", "text", false}};
  static const char applied[] = "  apply_chat_template: true ";
  char              command[512];

  (void)state;
  cli_sh("cp -r model chat && printf '%%s' '{%% for m in messages %%}{{ m.content }};{%% endfor %%}' "
         "> chat/chat_template.jinja");
  cli_sh("cp -r chat odd && echo '{%% for %%}' > odd/chat_template.jinja");
  cli_write("asked.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"3\"}], \"answer\": \"4\"}\n");
  cli_write("sides.jsonl",
            "{\"chosen\": [{\"role\": \"user\", \"content\": \"3\"}, {\"role\": \"assistant\", "
            "\"content\": \"4\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"3\"}, {\"role\": "
            "\"assistant\", \"content\": \"5\"}]}\n");
  cli_write("rendered.jsonl", "{\"prompt\": \"[INST]3\", \"answer\": \"4\"}\n");
  cli_write("text.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"three\"}\n");
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    snprintf(command, sizeof command,
             SLURM ONE "init job --yes --device cpu --model %s --data %s.jsonl --force", t[i].model,
             t[i].data);
    cli_succeeds(command);
    cli_read("job/deck.yaml", text);
    if (t[i].applied != (strstr(text, applied) != NULL)) fail_msg("%s %s: %s", t[i].model, t[i].data, text);
    holds(2, cli_out);
  }
  forget();
  cli_fails(64, SLURM ONE "init job --yes --device cpu --model chat --data text.jsonl",
            "text.jsonl: ", "\"messages\"");
  cli_tells("--data ");
  cli_fails(64, SLURM ONE "init job --yes --device cpu --model odd --data rl.jsonl", "--chat-template", NULL);
  assert_false(cli_exists("job"));
  cli_succeeds(SLURM ONE "init job --yes --device cpu --model model --data asked.jsonl --chat-template "
                         "chat/chat_template.jinja");
  shows("job/deck.yaml", "/chat/chat_template.jinja\"\n");
  holds(2, cli_out);
  cli_succeeds(SLURM ONE "init job --yes --device cpu --model odd --data rl.jsonl --force --chat-template "
                         "chat/chat_template.jinja");
  shows("job/deck.yaml", "/chat/chat_template.jinja\"\n");
  shows("job/deck.yaml", applied);
  holds(2, cli_out);
}

/* ---- labels, and forms of other programs ---- */

/* Takes n lines of a file. Each odd one passes through its own sed command. */
static void make_lines(const char *name, const char *from, int n, const char *odd, const char *even) {
  cli_sh("sed -e '%s' -e n -e '%s' %s | head -n %d > %s", odd, even, from, n, name);
}

/* A label in any line means that some answers are not good. They are never imitated unless the user asks for
 * it. Judge: the reader of train. */
static void labels_are_judged_as_train_judges_them(void **state) {
  static const struct {
    const char *odd, *even; /* put behind each line's fields */
    const char *deck;       /* NULL if refused */
  } t[] = {{"\"label\": 1", "\"label\": 0", "  name: kto\n"},
           {"\"label\": true", "\"label\": 0", "  name: kto\n"},
           {"\"answer\": \"5\", \"label\": 1", "\"answer\": \"4\", \"label\": 0", "  name: kto\n"},
           {"\"kto_tag\": true", "\"kto_tag\": false", "  label_key: kto_tag\n"},
           {"\"label\": \"true\"", "\"label\": \"false\"", NULL},
           {"\"label\": 0.5", "\"label\": 1", NULL},
           {"\"label\": true", "\"x\": 1", NULL}};
  char odd[128], even[128];

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    forget();
    snprintf(odd, sizeof odd, "s/}$/, %s}/", t[i].odd);
    snprintf(even, sizeof even, "s/}$/, %s}/", t[i].even);
    make_lines("judged.jsonl", "sft.jsonl", 16, odd, even);
    if (t[i].deck) {
      cli_succeeds(CPU "--data judged.jsonl");
      shows("job/deck.yaml", t[i].deck);
      holds(2, cli_out);
    } else {
      assert_int_equal(cli_run(CPU "--data judged.jsonl"), 64);
      cli_shows(cli_err, "--algo sft");
      assert_false(cli_exists("job"));
    }
    cli_succeeds(CPU "--data judged.jsonl --algo sft --force");
    shows("job/deck.yaml", "  name: sft\n");
  }
}

#define TURNS(who, what, a, b)                                                                               \
  "[{\"" who "\": \"" a "\", \"" what "\": \"3\"}, {\"" who "\": \"" b "\", \"" what "\": \"4\"}]"
#define TALKED   TURNS("role", "content", "user", "assistant")
#define SHAREGPT TURNS("from", "value", "human", "gpt")

/* No part of such a line is silently left out. Init refuses it with a command, and accepts the command's
 * result. Judge: jq, and the files of init afterwards. */
static void forms_of_others_are_told_their_cure(void **state) {
  static const struct {
    const char *line, *flags, *deck;
  } t[] = {
      {"{\"instruction\": \"3\", \"input\": \"+1\", \"output\": \"4\"}", "", "  name: sft\n"},
      {"{\"instruction\": \"3\", \"input\": \"\", \"output\": \"4\"}", "--algo grpo", "  name: grpo\n"},
      {"{\"instruction\": \"3\", \"context\": \"+1\", \"response\": \"4\"}", "", "  name: sft\n"},
      {"{\"instruction\": \"3\", \"output\": \"4\", \"system\": \"s\"}", "", "  name: sft\n"},
      {"{\"instruction\": \"3\", \"input\": \"\", \"output\": \"4\", \"kto_tag\": true}", "",
       "  name: kto\n"},
      {"{\"instruction\": \"3\", \"input\": \"\", \"chosen\": \"4\", \"rejected\": \"5\"}", "",
       "  name: dpo\n"},
      {"{\"conversations\": " SHAREGPT "}", "", "  name: sft\n"},
      {"{\"conversations\": " SHAREGPT "}", "--algo rloo", "  name: rloo\n"},
      {"{\"messages\": " SHAREGPT ", \"label\": true}", "", "  name: kto\n"},
      {"{\"chosen\": \"\\n\\nHuman: 3\\n\\nAssistant: 4\", "
       "\"rejected\": \"\\n\\nHuman: 3\\n\\nAssistant: 5\"}",
       "--algo rm", "  name: rm\n"},
  };
  char command[4096], *jq, *end;
  bool can_run = system("command -v jq > /dev/null") == 0; /* NOLINT: the tests' own command */

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    forget();
    snprintf(command, sizeof command, "%s\n%s\n", t[i].line, t[i].line);
    cli_write("foreign.jsonl", command);
    snprintf(command, sizeof command, CPU "--model chat --data foreign.jsonl %s", t[i].flags);
    cli_fails(64, command, "foreign.jsonl:1: ", "\n  jq -c ");
    assert_false(cli_exists("job"));
    jq = strstr(cli_err, "jq -c ");
    end = strchr(jq, '\n'); /* the command works as printed, and writes a file with the name at its end */
    assert_non_null(end);
    if (!can_run) continue;
    cli_sh("rm -f foreign.*new* && %.*s && mv foreign.*new* cured.jsonl", (int)(end - jq), jq);
    snprintf(command, sizeof command, CPU "--model chat --data cured.jsonl %s", t[i].flags);
    cli_succeeds(command);
    shows("job/deck.yaml", t[i].deck);
    holds(2, cli_out);
  }
}

static void other_files_and_names_are_told(void **state) {
  static const struct {
    const char *name, *text, *part;
  } t[] = {{"a.csv", "question,answer\n1+1,2\n", "\n  python3 -c 'import sys, pandas; pandas.read_csv("},
           {"a.tsv", "\"question\"\t\"answer\"\n1+1\t2\n", ", sep=\"\\t\").to_json(sys.stdout, "},
           {"a.json", "[\n {\"prompt\": \"a\", \"answer\": \"b\"}\n]\n", "\n  jq -c '.[]' "},
           {"a.parquet", "PAR1....", "/a.new.jsonl\n"},
           {"a.txt", "Hello, world\n", "a.txt:1: not JSON"},
           {"names.jsonl", "{\"prompt\": \"a\", \"accepted\": \"b\", \"dispreferred\": \"c\"}\n",
            "data.chosen_key: accepted, data.rejected_key: dispreferred"},
           {"inner.jsonl", "{\"body\": {\"messages\": " TALKED "}}\n", "data.completion_key: body.messages"}};
  char command[512];

  (void)state;
  forget();
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    cli_write(t[i].name, t[i].text);
    snprintf(command, sizeof command, CPU "--data %s", t[i].name);
    cli_fails(64, command, t[i].name, t[i].part);
  }
  cli_fails_in(64, CPU "--data slurm", "check_regular", "/slurm: ");
  cli_fails_in(64, CPU "--data slurm --walltime soon", "take_walltime",
               "/slurm: "); /* the first of two listed ones */
  assert_false(cli_exists("job"));
  cli_write("talks.jsonl", "{\"conversations\": " TALKED "}\n{\"conversations\": " TALKED "}\n");
  cli_succeeds(CPU "--model chat --data talks.jsonl");
  shows("job/deck.yaml", "  completion_key: conversations\n");
  holds(2, cli_out);
  cli_write("talks.jsonl",
            "{\"messages\": " TALKED ", \"label\": true}\n{\"messages\": " TALKED ", \"label\": false}\n");
  cli_succeeds(CPU "--model chat --data talks.jsonl --force");
  shows("job/deck.yaml", "  name: kto\n");
  holds(2, cli_out);
}

/* ---- small sets, and rates ---- */

static void the_smallest_sets_can_be_learned_from(void **state) {
  static const struct {
    const char *data, *algo;
  } t[] = {{"labelled", "kto"}, {"sft", "sft"}, {"pairs", "dpo"}, {"rl", "grpo"}, {"rl", "reinforce++"}};
  static const int lines[] = {1, 2, 3, 16};
  char             command[512];

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++)
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
      forget();
      cli_sh("head -n %d %s.jsonl > few.jsonl && head -n 1 %s.jsonl > one.jsonl", lines[k], t[i].data,
             t[i].data);
      snprintf(command, sizeof command, CPU "--gpus-per-node 1 --data few.jsonl --algo %s --eval one.jsonl",
               t[i].algo);
      if (i == 0 && lines[k] == 1) {
        cli_fails(64, command, "few.jsonl: ", " 1 line");
        cli_tells(" kto ");
        continue;
      }
      cli_succeeds(command);
      holds(1, cli_out);
    }
}

/* A model of some 100 million parameters gets the algorithm's own rate, even with adapters. Its weights are a
 * file without bytes. */
static void a_rate_that_is_no_default_says_why(void **state) {
  static const char table[] = "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[3200000,32],"
                              "\"data_offsets\":[0,409600000]}}";
  static const struct {
    const char *data, *algo, *usual;
  } t[] = {{"sft", "sft", "2e-05"},
           {"pairs", "rm", "1e-05"},
           {"labelled", "kto", "5e-07"},
           {"rl", "grpo", "1e-06"}};
  char command[512];

  (void)state;
  cli_sh(
      "mkdir big && cp model/tokenizer*.json big && "
      "sed 's/\"vocab_size\": 257/\"vocab_size\": 3200000/' model/config.json > big/config.json && "
      "sed 's/embed_tokens.weight\"/embed_tokens.weighx\"/' model/model.safetensors > big/a.safetensors && "
      "{ printf '\\%o\\0\\0\\0\\0\\0\\0\\0%s'; } > big/b.safetensors && "
      "truncate -s +409600000 big/b.safetensors && "
      "{ printf '{\"weight_map\": {\"model.embed_tokens.weight\": \"b.safetensors\"'; "
      "grep -ao '\"model\\.[a-z0-9_.]*\"' model/model.safetensors | grep -v embed | "
      "sed 's/.*/, &: \"a.safetensors\"/'; echo '}}'; } > big/model.safetensors.index.json",
      (unsigned)strlen(table), table);
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    forget();
    snprintf(command, sizeof command, CPU "--gpus-per-node 1 --data %s.jsonl --algo %s", t[i].data,
             t[i].algo);
    cli_succeeds(command);
    cli_read("job/deck.yaml", text);
    assert_non_null(strstr(text, "  learning_rate: "));
    snprintf(command, sizeof command, " default %s", t[i].usual);
    cli_shows(strstr(text, "  learning_rate: "), command);
    snprintf(command, sizeof command, CPU "--gpus-per-node 1 --model big --data %s.jsonl --algo %s --force",
             t[i].data, t[i].algo);
    cli_succeeds(command);
    cli_read("job/deck.yaml", text);
    assert_null(strstr(text, "learning_rate"));
    holds(1, cli_out);
  }
}

/* ---- refusals ---- */

/* With --yes all errors are named, but not their consequences. */
static void errors_are_named_together(void **state) {
  static const char *const part[] = {
      "--partition none: ", "--account a b: ", "--model nowhere: ", "--data none.jsonl: ", " 4 errors"};

  (void)state;
  forget();
  cli_fails(64,
            SLURM ONE "init job --yes --device cpu --partition none --account 'a b' --model nowhere "
                      "--data none.jsonl",
            part[0], part[1]);
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) cli_shows(cli_err, part[i]);
  cli_fails(64, DEAF ONE "init job --yes --device cpu --model nowhere --data rl.jsonl --algo dpo", part[2],
            "--algo ");
  cli_tells(" dpo: ", " 2 errors");
  assert_false(cli_exists("job"));
}

static void what_cannot_be_is_refused(void **state) {
  static const struct {
    const char *flags, *place, *part, *other;
  } t[] = {
      {"--data rl.jsonl --nodes 9", "take_count", "--nodes 9", " 4"},
      {"--data rl.jsonl --gpus-per-node 17", "take_count", "--gpus-per-node 17", " 16"},
      {"--data rl.jsonl --partition none", "take_partition", "--partition none", " cpu, gpu, mix, odd"},
      {"--data rl.jsonl --walltime 2-0", "take_walltime", "--walltime 2-0", " 86400 s"},
      {"--data rl.jsonl --walltime soon", "take_walltime", "--walltime soon", " 4:00:00"},
      {"--data rl.jsonl --account 'a b'", "take_account", "--account a b", ""},
      {"--data rl.jsonl --gpu 80", "settle", "--gpu", "--device cpu"},
      {"--data rl.jsonl --algo dpo", "take_algo", "--algo dpo", " sft, ppo, grpo, "},
      {"--data rl.jsonl --algo gpro", "take_algo", "--algo gpro", " sft, ppo, grpo, "},
      {"--data rl.jsonl --eval sft.jsonl", "take_eval", "--eval sft.jsonl", "/rl.jsonl"},
      {"--data none.jsonl", "open_to_read", "/none.jsonl: ", ""},
      {"--data /dev/null", "check_regular", "/dev/null: ", ""},
      {"--data prompts.jsonl", "tri_foreign_refuse", "/prompts.jsonl:1: ", "\"answer\", \"completion\""},
      {"--data config.json", "refuse_kind", "/config.json: ", "\n  jq -c . "},
      {"--data talk.jsonl", "check_form", "--data talk.jsonl", "--chat-template"},
      {"--data rl.jsonl --chat-template none", "put_template", "--chat-template none", "auto|chatml|"},
      {"--data rl.jsonl --chat-template qwen", "put_template", "--chat-template qwen", "auto|chatml|"},
      {"--data rl.jsonl more", "tri_flags_need", "'more'", ""},
      {"", "tri_flags_need", "--data F.jsonl", ""},
  };

  (void)state;
  forget();
  cli_write("talk.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"3\"}, {\"role\": \"assistant\", "
            "\"content\": \"4\"}]}\n");
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char command[512];
    snprintf(command, sizeof command, CPU "%s", t[i].flags);
    cli_fails_in(64, command, t[i].place, t[i].part);
    cli_tells(t[i].other);
    if (cli_exists("job")) fail_msg("%s: left its folder behind", t[i].flags);
  }
  cli_sh("mkdir bare && cp model/config.json model/tokenizer.json bare");
  cli_fails(64, SLURM ONE "init job --yes --model bare --data rl.jsonl --device cpu", "/bare: ", " 1 error");
  cli_tells("model.safetensors.index.json", " --local-dir ");
  cli_sh("rm bare/tokenizer.json");
  cli_fails(64, SLURM ONE "init job --yes --model bare --data rl.jsonl --device cpu", "/bare ",
            "tokenizer.json");
  cli_tells("--data rl.jsonl");
  assert_false(cli_exists("job"));
  cli_fails(64, SLURM ONE "init job --yes --model none --data rl.jsonl", "--model ", "/none: ");
  cli_fails_in(64, SLURM YES "--data rl.jsonl --device cuda --partition cpu", "take_partition",
               "--device cpu");
  cli_fails_in(64, SLURM YES "--data rl.jsonl --device cuda --partition odd", "settle", "--gpu ");
  cli_fails(64, SLURM YES "--data rl.jsonl --partition odd --gpu v100-32", "v100-32", " 7.0");
  cli_tells("--gpu ", " 8.0");
  cli_fails(64, SLURM YES "--data rl.jsonl --device tpu", " tpu", "cpu|cuda");
}

/* Nothing is waited for. */
static void without_a_terminal_nothing_is_asked(void **state) {
  (void)state;
  forget();
  cli_fails(64, SLURM ONE "init job --model model", "--yes", "--data");
  cli_tells("--model");
  cli_fails(64, ONE "init job < /dev/zero", "--yes", "--data");
  assert_false(cli_exists("job"));
}

static void without_slurm_the_flags_hold(void **state) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  char ranks[64];

  (void)state;
  forget();
  cli_sh("mkdir -p deaf && printf '#!/bin/sh\\necho sinfo: error: no controller >&2\\nexit 1\\n' "
         "> deaf/sinfo && chmod +x deaf/sinfo");
  cli_succeeds(DEAF YES "--data rl.jsonl --device cpu"); /* this machine's */
  snprintf(ranks, sizeof ranks, "#SBATCH --ntasks-per-node=%ld\n", cores > 8 ? cores / 8 : 1);
  shows("job/job.sbatch", ranks);
  holds(cores > 8 ? (int)(cores / 8) : 1, cli_out);
  forget();
  if (!tri_device_find("cuda"))
    cli_fails(64, DEAF YES "--data rl.jsonl --device cuda --gpu h100-80", "--gpus-per-node ",
              ": no controller"); /* as the tests' sinfo says */
  assert_false(cli_exists("job"));
  cli_fails(64, DEAF YES "--data rl.jsonl --nodes 1048576 --gpus-per-node 1048576", "--gpus-per-node 1048576",
            " 1099511627776 ranks");
  cli_succeeds(DEAF YES "--data rl.jsonl --device cpu --gpus-per-node 2 --partition any");
  cli_tells("warning: ", "sinfo", ": no controller");
  shows("job/job.sbatch", "#SBATCH --partition=any\n");
  cli_sh(
      "mkdir -p lost && printf '#!/bin/sh\\necho sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: "
      "Unknown host >&2\\necho sinfo: fatal: Could not establish a configuration source >&2\\nexit 1\\n' "
      "> lost/sinfo && chmod +x lost/sinfo");
  cli_succeeds("PATH=\"$PWD/lost:$PATH\" " YES "--data rl.jsonl --device cpu --gpus-per-node 2 --force");
  cli_tells("warning: ", "sinfo", "Slurm");
  assert_null(strstr(cli_err, "res_nsearch"));
  cli_succeeds(DEAF YES "--data rl.jsonl --device cpu --gpus-per-node 2 --partition any --force");
  cli_read("job/job.sbatch", text);
  assert_null(strstr(text, "--mem"));
  holds(2, cli_out);
  cli_succeeds(DEAF YES "--data rl.jsonl --gpu h100-80 --gpus-per-node 8 --force");
  shows("job/job.sbatch", "#SBATCH --cpus-per-task=8\n#SBATCH --gpus-per-node=8\n#SBATCH --exclusive\n"
                          "#SBATCH --mem=0\n");
}

/* ---- the folder ---- */

static void files_of_others_stay(void **state) {
  (void)state;
  forget();
  cli_sh("mkdir job && echo mine > job/deck.yaml");
  cli_fails_in(64, CPU "--data rl.jsonl", "check_folder", "job/deck.yaml ");
  cli_tells("--force");
  cli_sh("mv job/deck.yaml job/job.sbatch");
  cli_fails_in(64, CPU "--data rl.jsonl", "check_folder", "job/job.sbatch ");
  assert_false(cli_exists("job/deck.yaml"));
  cli_succeeds(CPU "--data rl.jsonl --force");
  holds(2, cli_out);
  /* a link in the place of a file is replaced, not followed */
  cli_sh("echo mine > other && ln -sf ../other job/deck.yaml");
  cli_succeeds(CPU "--data rl.jsonl --force");
  shows("other", "mine\n");
}

/* Another process writes the files while init asks Slurm, after its check. Their files stay, and init leaves
 * nothing. */
static void files_that_come_meanwhile_stay(void **state) {
  static const char *const theirs[] = {"deck.yaml", "job.sbatch"};
  char                     command[256];

  (void)state;
  cli_sh("mkdir busy && cat > busy/sinfo <<'END'\n#!/bin/sh\nmkdir -p job && echo theirs > job/$THEIRS\n"
         "exec slurm/sinfo\nEND\nchmod +x busy/sinfo");
  for (int i = 0; i < 2; i++) {
    forget();
    snprintf(command, sizeof command,
             "THEIRS=%s PATH=\"$PWD/busy:$PATH\" " YES "--device cpu --data rl.jsonl", theirs[i]);
    cli_fails(64, command, theirs[i], "--force");
    cli_sh("test \"$(cat job/*)\" = theirs && test $(ls -A job | wc -l) = 1");
  }
  forget(); /* a folder in the place of the second file. The first file gets its old text back */
  cli_sh("mkdir -p job/job.sbatch && echo mine > job/deck.yaml");
  cli_fails_in(74, CPU "--data rl.jsonl --force", "keep_old", "/job/job.sbatch: ");
  cli_sh("test \"$(cat job/deck.yaml)\" = mine && test $(ls -A job | wc -l) = 2");
  cli_sh("rm job/deck.yaml");
  cli_fails_in(74, CPU "--data rl.jsonl --force", "keep_old", "/job/job.sbatch: ");
  cli_sh("test \"$(ls -A job)\" = job.sbatch");
}

static void folder_may_be_a_link_or_hold_spaces(void **state) {
  (void)state;
  forget();
  cli_sh("mkdir -p 'in here' && ln -s 'in here' job");
  cli_succeeds(CPU "--data rl.jsonl");
  holds(2, cli_out);
  cli_sh("test -f 'in here/deck.yaml' && rm job && mv 'in here' job && rm job/*");
  cli_sh("ln -sfn model 'a model' && cp rl.jsonl \"it's: #1.jsonl\"");
  cli_succeeds("cd job && PATH=\"$PWD/../slurm:$PATH\" " ONE
               "init --yes --device cpu --model '../a model' --data "
               "\"../it's: #1.jsonl\"");
  holds(2, NULL);
  cli_read("job/deck.yaml", text);
  if (strstr(text, "/job/") && strstr(text, "/..")) fail_msg("a path is not tidy:\n%s", text);
  forget(); /* behind a link ".." leads elsewhere, and stays */
  cli_sh("mkdir -p far/deep && cp rl.jsonl far/here.jsonl && ln -sfn far/deep near");
  cli_succeeds(
      SLURM ONE
      "init ./slurm/.././job --yes --device cpu --model near/../..//model --data near/../here.jsonl");
  holds(2, NULL);
  cli_read("job/deck.yaml", text);
  cli_shows(text, "/near/../here.jsonl");
  assert_null(strstr(text, "slurm"));
  assert_null(strstr(text, "/./"));
  assert_null(strstr(text, "//"));
  forget();
  cli_sh("ln -s nowhere job");
  cli_fails(74, CPU "--data rl.jsonl", "job", NULL);
  forget();
  cli_sh("echo a file > job");
  cli_fails(74, CPU "--data rl.jsonl", "job", NULL);
  forget();
  cli_fails(74, ONE "init none/job --yes --device cpu --model model --data rl.jsonl --gpus-per-node 1",
            "none/job", NULL);
  if (getuid() == 0) return; /* who may write everywhere */
  cli_sh("mkdir job && chmod 555 job");
  cli_fails(74, CPU "--data rl.jsonl", "job", strerror(EACCES));
}

/* ---- a terminal ---- */

/* Types each line once its question is on the screen, and Ctrl-D after the last. `text` gets all output of
 * the terminal. */
static int conversation(const char *command, const char *const *question, const char *const *line) {
  int         status, slave, master = posix_openpt(O_RDWR | O_NOCTTY);
  size_t      n = 0;
  const char *from = text;
  pid_t       child;

  if (master < 0 || grantpt(master) || unlockpt(master)) skip();
  slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (slave < 0) skip();
  child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(slave, 0);
    dup2(slave, 1);
    dup2(slave, 2);
    close(master);
    setenv("TERM", "xterm", 1);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  close(slave);
  for (text[0] = '\0';;) {
    ssize_t     got = read(master, text + n, sizeof text - 1 - n);
    const char *asks;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break; /* EIO, the last writer is gone */
    n += (size_t)got;
    text[n] = '\0';
    while (*question && (asks = strstr(from, *question)) != NULL) {
      from = asks + strlen(*question);
      assert_true(write(master, *line ? *line : "\004", *line ? strlen(*line) : 1) > 0);
      if (*line) line++;
      question++;
    }
  }
  close(master);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (*question) fail_msg("'%s' was not asked:\n%s", *question, text);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_person_is_asked(void **state) {
  static const char *const question[] = {"train on cpu or cuda [cuda]: ",
                                         "train on cpu or cuda [cuda]: ",
                                         "partition (cpu, gpu, mix, odd) [cpu]: ",
                                         "partition (cpu, gpu, mix, odd) [cpu]: ",
                                         "nodes [1]: ",
                                         "nodes [1]: ",
                                         "ranks on a node [2]: ",
                                         "longest time of a job, H:M:S [04:00:00]: ",
                                         "account to charge (phys, chem) [yours]: ",
                                         "folder of the model: ",
                                         "folder of the model: ",
                                         "folder of the model: ",
                                         "data to learn from, JSON lines: ",
                                         "data held out for evaluation [none]: ",
                                         "luspo) [grpo]: ",
                                         NULL};
  static const char *const line[] = {"gpu\n",      "cpu\n",  "all\n",  "\n", "5\n",    "2\n",
                                     "\n",         " 90 \n", "\n",     "\n", "none\n", "model\n",
                                     "rl.jsonl\n", "\n",     "rloo\n", NULL};

  (void)state;
  forget();
  assert_int_equal(conversation(SLURM ONE "init job", question, line), 0);
  cli_shows(text, "trireme: gpu: ");
  cli_shows(text, "cpu, gpu, mix, odd");
  cli_shows(text, "trireme: 5: is more than 4, ");
  cli_shows(text, "[cpu]: \r\n  taken: cpu\r\n");
  cli_shows(text, "[2]: \r\n  taken: 2\r\n");
  cli_shows(text, "[yours]: \r\n  taken: yours\r\n");
  cli_shows(text, "[none]: \r\n  taken: none\r\n");
  cli_shows(text, "folder of the model: \r\n  ");
  cli_shows(text, "--walltime 90 is 90 minutes, 01:30:00");
  assert_null(strstr(text, "taken: grpo")); /* a choice that was typed is not repeated */
  cli_shows(text, "wrote job/deck.yaml and job/job.sbatch");
  holds(4, text);
  strstr(text, "\nwrote ")[0] = 0; /* the command behind it is for a shell */
  cli_fits(text);
  shows("job/deck.yaml", "# deck.yaml - rloo on 2 nodes x 2 ranks");
  shows("job/job.sbatch", "#SBATCH --time=90\n");
}

static void what_flags_say_is_not_asked(void **state) {
  static const char *const question[] = {
      "longest time of a job, H:M:S [00:10:00]: ", "account to charge (phys, chem) [yours]: ", NULL};
  static const char *const line[] = {"\n", NULL};

  (void)state;
  forget();
  assert_int_equal(
      conversation(SLURM ONE
                   "init job --model model --data rl.jsonl --eval rl.jsonl --algo grpo --device cuda "
                   "--partition mix --nodes 1 --gpus-per-node 2 --gpu h100-80",
                   question, line),
      64);
  cli_shows(text, "trireme: the input ended");
  assert_false(cli_exists("job"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kind_of_lines_has_its_algorithm),
      cmocka_unit_test(every_algorithm_can_be_had),
      cmocka_unit_test(job_asks_for_what_the_nodes_have),
      cmocka_unit_test(gpus_are_asked_for),
      cmocka_unit_test(job_starts_the_program_that_wrote_it),
      cmocka_unit_test(small_memory_is_used_sparingly),
      cmocka_unit_test(recurrent_layers_stay_whole),
      cmocka_unit_test(gpus_generate_as_one_model),
      cmocka_unit_test(a_chat_model_gets_the_chat_form),
      cmocka_unit_test(labels_are_judged_as_train_judges_them),
      cmocka_unit_test(forms_of_others_are_told_their_cure),
      cmocka_unit_test(other_files_and_names_are_told),
      cmocka_unit_test(the_smallest_sets_can_be_learned_from),
      cmocka_unit_test(a_rate_that_is_no_default_says_why),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(without_a_terminal_nothing_is_asked),
      cmocka_unit_test(without_slurm_the_flags_hold),
      cmocka_unit_test(errors_are_named_together),
      cmocka_unit_test(files_of_others_stay),
      cmocka_unit_test(files_that_come_meanwhile_stay),
      cmocka_unit_test(folder_may_be_a_link_or_hold_spaces),
      cmocka_unit_test(a_person_is_asked),
      cmocka_unit_test(what_flags_say_is_not_asked),
  };

  return cmocka_run_group_tests(tests, open_all, cli_close);
}
