/* test_cli_plan.c - trireme plan: its JSON and its screen, setups that fit and advice, and its refusals.
 * Judge: the run's own numbers, arithmetic over the JSON, exit codes and words. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <errno.h>

#include <jansson.h>

#define PLAN ONE "plan "
#define BIG                                                                                                  \
  PLAN "'" TRI_TEST_DATA "/../../inputs/70b/grpo.yaml' model.path=null model.config='" TRI_TEST_DATA         \
       "/../../inputs/models/Llama-3.1-70B-Instruct/config.json' "
#define RECURRENT                                                                                            \
  PLAN "'" TRI_TEST_DATA "/../../inputs/qwen3.5/grpo.yaml' model.path=null model.config='" TRI_TEST_DATA     \
       "/../../inputs/models/Qwen3.5-9B/config.json' --gpus-per-node 8 "
#define EIGHT                                                                                                \
  PLAN "'" TRI_TEST_DATA "/../../inputs/8b/grpo.yaml' model.path=null model.config='" TRI_TEST_DATA          \
       "/../../inputs/models/Llama-3.1-8B-Instruct/config.json' "

/* Checks that the command ends with this code and prints one JSON object. */
static json_t *plan_of(int want, const char *command) {
  int     code = cli_run(command);
  json_t *root = json_loads(cli_out, JSON_REJECT_DUPLICATES, NULL);

  if (code != want || !root) fail_msg("%s\nexit code %d\n%s\n...%s", command, code, cli_out, cli_end());
  return root;
}

static json_int_t integer(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);

  if (!json_is_integer(v)) fail_msg("%s is no integer", key);
  return json_integer_value(v);
}

static bool is(const json_t *row, const char *key, const char *word) {
  return !strcmp(json_string_value(json_object_get(row, key)), word);
}

/* Per kind of memory always plus the larger phase, summed. */
static json_int_t sum_of_rows(const json_t *root, const char *only) {
  static const char *const kind[] = {"device", "pinned", "host"};
  json_int_t               sum = 0;

  for (int k = 0; k < 3; k++) {
    json_int_t    phase[3] = {0};
    size_t        i;
    const json_t *row;
    json_array_foreach(json_object_get(root, "memory"), i, row) {
      if (!is(row, "where", kind[k])) continue;
      phase[is(row, "phase", "always") ? 0 : is(row, "phase", "rollout") ? 1 : 2] += integer(row, "bytes");
    }
    if (!only || !strcmp(only, kind[k])) sum += phase[0] + (phase[1] > phase[2] ? phase[1] : phase[2]);
  }
  return sum;
}

static int lines_of(const char *text) {
  int n = 0;

  for (; *text; text++) n += *text == '\n';
  return n;
}

/* Returns the bytes of the rows of this name. */
static json_int_t bytes_of_rows(const json_t *root, const char *name) {
  json_int_t    sum = 0;
  size_t        i;
  const json_t *row;

  json_array_foreach(json_object_get(root, "memory"), i, row) if (is(row, "name", name)) sum +=
      integer(row, "bytes");
  return sum;
}

static void json_has_what_the_run_will_take(void **state) {
  const json_t *part, *s;
  json_t       *root;
  char          said[64];

  (void)state;
  root = plan_of(0, PLAN
                 "grpo.yaml run.output=planned --gpus-per-node 2 --device cpu --walltime 1:00:00 --json");
  assert_int_equal(integer(root, "ranks"), 2);
  assert_int_equal(integer(root, "nodes"), 1);
  assert_true(json_is_true(json_object_get(root, "fits")));
  assert_true(sum_of_rows(root, NULL) == integer(root, "mem_planned_bytes"));
  assert_true(sum_of_rows(root, "device") == integer(root, "device_bytes"));
  assert_true(integer(root, "host_bytes_per_node") == 2 * integer(root, "mem_planned_bytes"));
  part = json_object_get(root, "batch");
  assert_int_equal(integer(part, "train_batch_size"), 16);
  assert_int_equal(integer(part, "micro_batch_size"), 8);
  assert_int_equal(integer(part, "gradient_accumulation_steps"), 1);
  assert_int_equal(integer(part, "data_parallel_size"), 2);
  part =
      json_object_get(root, "rollout"); /* 4 prompts x 4, so 8 answers a rank. 2 layers with 2 heads of 8 */
  assert_int_equal(integer(part, "models_per_node"), 2);
  assert_int_equal(integer(part, "rows"), 8);
  assert_true(integer(part, "cached_tokens") * 256 == bytes_of_rows(root, "key/value cache"));
  s = json_object_get(root, "time_step_s");
  assert_true(json_number_value(json_object_get(s, "all")) > 0);
  assert_true(json_number_value(json_object_get(s, "rollout")) <
              json_number_value(json_object_get(s, "all")));
  assert_true(json_number_value(json_object_get(root, "time_run_s")) ==
              json_number_value(json_object_get(s, "all")));
  assert_int_equal(integer(root, "steps_in_walltime"), 1);
  assert_int_equal(json_array_size(json_object_get(root, "advice")), 0);
  assert_true(integer(root, "free_bytes") > 0);
  assert_false(cli_exists("planned"));
  snprintf(said, sizeof said, "\"mem_planned_bytes\": %lld,", (long long)integer(root, "mem_planned_bytes"));
  cli_succeeds(TWO GRPO "run.output=planned checkpoint.save_final=true");
  cli_read("planned/metrics.jsonl", cli_out);
  cli_shows(cli_out, said);
  /* the file's tensors, and little beside them */
  cli_sh("stat -L -c %%s planned/checkpoints/LATEST/state.h5 >.size");
  cli_read(".size", cli_out);
  assert_true(strtoll(cli_out, NULL, 10) > integer(root, "checkpoint_bytes") * 9 / 10);
  json_decref(root);
  root = plan_of(
      0,
      PLAN "sft.yaml --device cpu --json shard.params=node shard.tensor_parallel_size=2 --gpus-per-node 2");
  assert_true(json_is_null(json_object_get(root, "rollout")));
  json_decref(root);
  cli_succeeds(PLAN "grpo.yaml --gpus-per-node 2 --device cpu");
  cli_shows(cli_out, "from a queue");
}

/* Two ranks a model. Each rank has the cache of one of the 2 heads, for twice as many answers. */
static void ranks_that_generate_as_one_model(void **state) {
  json_t       *root = plan_of(0, PLAN "grpo.yaml --gpus-per-node 4 --device cpu --json shard.plan=hybrid "
                                             "train.micro_batch_size=null shard.tensor_parallel_size=2");
  const json_t *part = json_object_get(root, "rollout");

  (void)state;
  assert_int_equal(integer(part, "models_per_node"), 2);
  assert_int_equal(integer(part, "rows"), 8);
  assert_true(integer(part, "cached_tokens") * 128 == bytes_of_rows(root, "key/value cache"));
  json_decref(root);
  cli_succeeds(PLAN "grpo.yaml --gpus-per-node 4 --device cpu shard.plan=hybrid train.micro_batch_size=null "
                    "shard.tensor_parallel_size=2");
  cli_shows(cli_out, "generation: 2 ranks a model\n");
  cli_shows(cli_out, "2 models decode 8 at once");
  cli_fits(cli_out);
  cli_succeeds(PLAN "grpo.yaml --gpus-per-node 4 --device cpu shard.plan=hybrid train.micro_batch_size=null");
  assert_null(strstr(cli_out, "a model\n"));
  cli_succeeds(ONE
               "train grpo.yaml --check --ranks 4 train.micro_batch_size=null shard.tensor_parallel_size=2");
  cli_shows(cli_err, "2 ranks a model\n"); /* the start screen's lines */
  cli_shows(cli_err, "  2 models decode 8 ");
  cli_fits(cli_err);
}

static void a_screen_holds_it(void **state) {
  (void)state;
  cli_succeeds(PLAN "grpo.yaml");
  cli_shows(cli_out, "grpo on 1 node x 1 CPU rank: 1 rank;");
  cli_shows(cli_out, "batch: train_batch_size 16 = micro_batch_size 8 x accumulation 2 x 1 rank\n");
  cli_shows(cli_out, "rollout: 16 samples = 4 prompts x 4, 1 update;");
  assert_null(strstr(cli_out, "from a queue")); /* one rank takes all */
  cli_shows(cli_out, "FITS: ");
  cli_fits(cli_out);
  assert_true(lines_of(cli_out) <= 23);
  cli_succeeds(PLAN "--help");
  cli_shows(cli_out, "--gpus-per-node G");
  cli_fits(cli_out);
}

/* Without a number of samples or tokens a pass has as many tokens as fit, at most 16384, as in the run. */
static void passes_have_a_budget(void **state) {
  json_t    *root;
  json_int_t budget;
  char       used[64];

  (void)state;
  root = plan_of(0, PLAN "grpo.yaml train.micro_batch_size=null run.output=budget --device cpu --json");
  budget = integer(json_object_get(root, "batch"), "max_tokens_per_gpu");
  json_decref(root);
  assert_in_range(budget, 1, 16384);
  cli_succeeds(ONE GRPO "train.micro_batch_size=null run.output=budget");
  cli_read("budget/deck.yaml", cli_out);
  snprintf(used, sizeof used, "  max_tokens_per_gpu: %lld\n", (long long)budget);
  cli_shows(cli_out, used);
  root = plan_of(0, EIGHT "train.max_tokens_per_gpu=null --gpu h100-80 --gpus-per-node 8 --json");
  assert_in_range(integer(json_object_get(root, "batch"), "max_tokens_per_gpu"), 1024, 16384);
  json_decref(root);
  root = plan_of(0, PLAN "grpo.yaml --device cpu --json");
  assert_int_equal(integer(json_object_get(root, "batch"), "max_tokens_per_gpu"), 0); /* by samples */
  json_decref(root);
}

/* A run of the deck is in progress. It has the lock, and its checkpoints may disappear at any time. */
static void a_run_under_way_is_no_obstacle(void **state) {
  json_t *alone, *beside;

  (void)state;
  alone = plan_of(0, PLAN "grpo.yaml run.output=anew --device cpu --json");
  cli_sh("mkdir -p way/checkpoints/step-00000001 && ln -s step-00000001 way/checkpoints/LATEST");
  beside = plan_of(0, "flock way " PLAN "grpo.yaml run.output=way --device cpu --json");
  assert_int_equal(integer(alone, "mem_planned_bytes"), integer(beside, "mem_planned_bytes"));
  assert_int_equal(cli_run("flock way " ONE GRPO "run.output=way --check"), 64); /* could not start */
  json_decref(beside);
  json_decref(alone);
}

/* An 8B model on GPUs that this machine lacks, with prompts that do not exist either. */
static void a_gpu_need_not_be_here(void **state) {
  json_t *root = plan_of(0, EIGHT "--gpu h100-80 --gpus-per-node 8 --json");

  (void)state;
  assert_int_equal(integer(root, "ranks"), 8);
  assert_true(sum_of_rows(root, NULL) == integer(root, "mem_planned_bytes"));
  assert_true(integer(root, "device_bytes") > (json_int_t)60 << 30);
  assert_true(integer(root, "device_room_bytes") >= integer(root, "device_bytes") &&
              integer(root, "device_room_bytes") < (json_int_t)79 << 30);
  /* master weights and two moments of 8.03e9 numbers */
  assert_true(integer(root, "checkpoint_bytes") / 12 > 8030000000 &&
              integer(root, "checkpoint_bytes") / 12 < 8031000000);
  cli_says(cli_err, "data/gsm8k/train.jsonl", "1024", "data.max_prompt_length");
  cli_fits(cli_err);
  json_decref(root);
  cli_succeeds(EIGHT "--gpu 80 --gpus-per-node 8 run.device=cpu");
  cli_says(cli_err, "warning", "run.device: cpu", "--gpu 80", "run.device=cuda");
  cli_shows(cli_out, "1 node x 8 gpu-80: 8 ranks; times from the table's h100-80\n");
  cli_shows(cli_out, " GPU hours\n");
  cli_shows(cli_out, " a node must have ");
  cli_succeeds(EIGHT "--gpu B200 --nodes 8 train.steps=3 --walltime 1:05 "
                     "checkpoint.save_total_limit=1000000"); /* 89 PB of them */
  cli_says(cli_err, "--gpus-per-node", "1", "8");
  cli_shows(cli_out, "8 nodes x 1 b200: 8 ranks; times from the table of machines");
  cli_shows(cli_out, "steps in the walltime: about 0 of 3; all 3 steps: about ");
  cli_shows(cli_out, "\nMEMORY FITS: ");
  cli_shows(cli_out, "\nBUT the checkpoints do not fit on the disk, and no step ends in the walltime\n");
  cli_says(cli_out, "exit code 0");
  cli_succeeds(EIGHT "--gpu B200 --nodes 8 train.steps=3 checkpoint.save_total_limit=1000000");
  cli_says(cli_out, "BUT", "disk");
  cli_says(cli_out, "exit code 0");
  cli_succeeds(ONE "plan sft.yaml");
  assert_int_equal(cli_saying(cli_out, "exit code 0"), 0); /* nothing stands in its way */
  cli_fits(cli_out);
  root = plan_of(0, EIGHT "--gpu h100-80 --gpus-per-node 8 --nodes 2048 --json");
  assert_int_equal(integer(root, "ranks"), 16384);
  json_decref(root);
}

static double seconds(const json_t *time) { return json_number_value(time); }

/* Each piece of advice, given back as arguments, fits with the bytes and the time it named. None takes fewer
 * GPU seconds than the one before it. */
static void take_advice(const char *command, const char *flags, const json_t *root) {
  const json_t *advice = json_object_get(root, "advice"), *a, *c;
  size_t        i, k;
  double        before = 0;

  assert_true(json_array_size(advice) > 0);
  json_array_foreach(advice, i, a) {
    double  step_s = seconds(json_object_get(a, "time_step_s")), cost;
    char    all[4096];
    size_t  used = (size_t)snprintf(all, sizeof all, "%s%s", command, flags);
    json_t *then;
    json_array_foreach(json_object_get(a, "change"), k, c) {
      const char *text = json_string_value(c), *equals = strchr(text, '=');
      used += (size_t)snprintf(all + used, sizeof all - used, text[0] == '-' ? " %.*s %s" : " %.*s=%s",
                               (int)(equals - text), text, equals + 1);
    }
    snprintf(all + used, sizeof all - used, " --json");
    then = plan_of(0, all);
    assert_true(integer(then, "device_bytes") == integer(a, "device_bytes"));
    assert_true(step_s > 0 &&
                seconds(json_object_get(json_object_get(then, "time_step_s"), "all")) == step_s);
    cost = step_s * (double)integer(then, "ranks");
    assert_true(cost >= before);
    before = cost;
    json_decref(then);
  }
}

/* Judge of the first line: all other lines with the same keys. */
static void grpo_on_eight_of_40_gib_is_told_what_would_fit(void **state) {
  json_t       *root = plan_of(64, EIGHT "--gpus-per-node 8 --gpu a100-40 --json");
  const json_t *first;
  bool          any = false;

  (void)state;
  assert_true(json_is_false(json_object_get(root, "fits")));
  take_advice(EIGHT "--gpus-per-node 8", " --gpu a100-40", root);
  first = json_array_get(json_object_get(root, "advice"), 0);
  for (int offload = 0; offload < 2; offload++)
    for (int n = 8; n <= 64; n += 8) {
      char    command[2048];
      json_t *other;
      int     code;
      snprintf(command, sizeof command,
               EIGHT "--gpus-per-node 8 --gpu a100-40 --json train.max_tokens_per_gpu=8192 "
                     "shard.offload=%s rollout.max_sequences=%d",
               offload ? "all" : "none", n);
      code = cli_run(command);
      other = json_loads(cli_out, 0, NULL);
      assert_non_null(other);
      any |= code == 0;
      if (code == 0)
        assert_true(seconds(json_object_get(json_object_get(other, "time_step_s"), "all")) >=
                    seconds(json_object_get(first, "time_step_s")));
      json_decref(other);
    }
  assert_true(any);
  json_decref(root);
  assert_int_equal(cli_run(EIGHT "--gpus-per-node 8 --gpu a100-40"), 64);
  cli_shows(cli_out, "DOES NOT FIT: learning needs ");
  cli_shows(cli_out, ":\n  shard.offload=all  (");
  cli_shows(cli_out, "\n  --nodes=");
  cli_fits(cli_out);
  assert_true(lines_of(cli_out) <= 23);
}

static void seventy_billion_on_four_by_eight(void **state) {
  json_t       *root = plan_of(0, BIG "--nodes 4 --gpus-per-node 8 --gpu h100-80 --json");
  const json_t *part = json_object_get(root, "rollout");

  (void)state;
  assert_int_equal(integer(root, "ranks"), 32);
  assert_int_equal(integer(part, "models_per_node"), 1);
  assert_int_equal(integer(part, "rows"), 128);
  assert_int_equal(integer(part, "cached_tokens"), 128 * (2048 + 16));
  /* a cached token has 80 layers, keys and values of one of the 8 heads, 128 wide, in 2 bytes */
  assert_true(bytes_of_rows(root, "key/value cache") == integer(part, "cached_tokens") * 80 * 2 * 128 * 2);
  json_decref(root);
  assert_int_equal(cli_run(BIG "--nodes 4 --gpus-per-node 8 --gpu h100-80 shard.tensor_parallel_size=1"), 64);
  cli_shows(cli_out, "DOES NOT FIT: generating needs ");
  cli_shows(cli_out, "policy gathered weights, 131 GiB");
  cli_shows(cli_out, "  shard.tensor_parallel_size=8  (");
  assert_null(strstr(cli_out, "  --gpu="));
  assert_true(lines_of(cli_out) <= 23);
  assert_int_equal(cli_run(BIG "num_nodes=4 num_gpus_per_node=8 --gpu h100-80"), 64);
  cli_shows(cli_err, "num_gpus_per_node");
  assert_string_equal(cli_out, "");
}

/* Judge: sizes of the published config.json. 24 of 32 layers are recurrent. Each has 32 heads with a state of
 * 128 x 128 floats, and keeps 3 rows of 2 x 16 x 128 + 32 x 128 numbers of 2 bytes for its convolution. */
static void states_of_recurrent_layers(void **state) {
  const json_int_t each = 24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2);
  json_t          *root = plan_of(0, RECURRENT "--gpu h100-80 --json");
  const json_t    *part = json_object_get(root, "rollout");
  json_int_t C = 4096, mlp = 3 * C * 12288 + 2 * C, attention = C * (2 * 4096 + 2 * 1024) + 4096 * C + 512,
             recurrent = C * (8192 + 4096 + 64) + 4096 * C + 8192 * 4 + 64 + 128;
  char parameters[64];

  (void)state;
  assert_int_equal(integer(part, "rows"), 128);
  assert_int_equal(integer(part, "states"), 129); /* and one for a prompt */
  assert_int_equal(integer(part, "state_bytes"), each);
  assert_true(bytes_of_rows(root, "129 states of 49.1 MiB") == 129 * each);
  /* a cached token has keys and values of 4 heads, 256 wide, in 2 bytes, in the other 8 layers */
  assert_true(bytes_of_rows(root, "key/value cache") == integer(part, "cached_tokens") * 8 * 2 * 4 * 256 * 2);
  json_decref(root);
  cli_succeeds(RECURRENT "--gpu h100-80");
  cli_shows(cli_out, ", 129 states of 49.1 MiB");
  snprintf(parameters, sizeof parameters, "%.2f G parameters",
           (double)(8 * attention + 24 * recurrent + 32 * mlp + 2 * 248320 * C + C) / 1e9);
  cli_shows(cli_out, parameters);
  cli_fits(cli_out);
  assert_true(lines_of(cli_out) <= 23);
  root = plan_of(0, EIGHT "--gpus-per-node 8 --gpu h100-80 --json");
  assert_int_equal(integer(json_object_get(root, "rollout"), "states"), 0);
  json_decref(root);
}

/* Ranks cannot divide such a model. Plan and --check say so once, and advice does not propose it. */
static void recurrent_layers_are_not_divided(void **state) {
  char    command[2048];
  json_t *root;

  (void)state;
  assert_int_equal(cli_run(RECURRENT "--gpu h100-80 shard.tensor_parallel_size=2"), 64);
  assert_int_equal(cli_saying(cli_err, "shard.tensor_parallel_size", "2", "qwen3_5_text", "1"), 1);
  snprintf(command, sizeof command,
           ONE "train grpo.yaml --check --ranks 2 model.config='" TRI_TEST_DATA
               "/../../inputs/models/Qwen3.5-9B/"
               "config.json' shard.plan=zero3 shard.tensor_parallel_size=2");
  assert_int_equal(cli_run(command), 64);
  assert_int_equal(cli_saying(cli_err, "shard.tensor_parallel_size", "2", "qwen3_5_text", "1"), 1);
  root = plan_of(64, RECURRENT "--gpu 24 --json");
  assert_true(json_array_size(json_object_get(root, "advice")) > 0);
  assert_null(strstr(cli_out, "tensor_parallel_size"));
  take_advice(RECURRENT, "--gpu 24", root);
  json_decref(root);
}

/* The times are measured with whole periods of layers, and the run takes the planned memory. */
static void a_small_recurrent_run_takes_what_was_planned(void **state) {
  static const char deck[] = "grpo.yaml model.config=recurrent.json --device cpu ";
  char              command[512], said[96];
  json_t           *root;

  (void)state;
  cli_write(
      "recurrent.json",
      "{\"model_type\": \"qwen3_5_text\", \"vocab_size\": 257, \"hidden_size\": 32, "
      "\"num_hidden_layers\": 8, "
      "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 24, "
      "\"max_position_embeddings\": 32, \"initializer_range\": 0.1, \"eos_token_id\": 256, "
      "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, "
      "\"linear_value_head_dim\": 12}");
  snprintf(command, sizeof command, PLAN "%s --json", deck);
  root = plan_of(0, command);
  assert_int_equal(integer(json_object_get(root, "rollout"), "states"),
                   integer(json_object_get(root, "rollout"), "rows") + 1);
  assert_true(seconds(json_object_get(json_object_get(root, "time_step_s"), "learn")) > 0);
  cli_succeeds(ONE GRPO "model.config=recurrent.json run.output=recurrent");
  cli_shows(cli_err, " for the recurrent layers\n");
  cli_fits(cli_err);
  cli_read("recurrent/metrics.jsonl", cli_out);
  snprintf(said, sizeof said, "\"mem_planned_bytes\": %lld,", (long long)integer(root, "mem_planned_bytes"));
  cli_shows(cli_out, said);
  snprintf(said, sizeof said, "\"mem_used_bytes\": %lld,", (long long)integer(root, "mem_planned_bytes"));
  cli_shows(cli_out, said);
  json_decref(root);
}

/* Where generation needs too much, ranks that generate as one model come before more nodes and larger GPUs.
 * A plan without sharded weights gets them too. */
static void ranks_of_a_model_are_advised(void **state) {
  static const char *const plan[] = {"hybrid", "zero1"};

  (void)state;
  for (int i = 0; i < 2; i++) {
    char          command[2048];
    json_t       *root;
    const json_t *first;
    bool          has = false;
    size_t        k;
    const json_t *change;
    snprintf(command, sizeof command, EIGHT "--gpus-per-node 8 --gpu 24 --json shard.plan=%s", plan[i]);
    root = plan_of(64, command);
    first = json_array_get(json_object_get(root, "advice"), 0);
    json_array_foreach(json_object_get(first, "change"), k, change) has |=
        !strcmp(json_string_value(change), "shard.tensor_parallel_size=4");
    assert_true(has);
    json_decref(root);
  }
  json_t *root = plan_of(64, EIGHT "--gpus-per-node 8 --gpu 24 --json");
  take_advice(EIGHT "--gpus-per-node 8", " --gpu 24", root);
  json_decref(root);
  assert_int_equal(cli_run(EIGHT "--gpus-per-node 3 --gpu 24 train.train_batch_size=768 --json"), 64);
  assert_null(strstr(cli_out, "tensor_parallel_size")); /* no number divides 3 ranks and the heads */
}

static void a_batch_that_does_not_multiply_is_told_so(void **state) {
  (void)state;
  cli_fails(
      64,
      PLAN
      "sft.yaml train.train_batch_size=256 train.micro_batch_size=2 train.gradient_accumulation_steps=18 "
      "--gpus-per-node 7 --gpu h100-80",
      "256 = 2 x 18 x 7", "252");
  cli_says(cli_err, "256 = 2 x 18 x 7", "252", "256 = 2 x 16 x 8 (8 ranks)");
}

#define SPREAD "sft.yaml shard.plan=zero3 train.train_batch_size=16 train.micro_batch_size=1 "
#define ON_ONE                                                                                               \
  "run.ranks_per_node=8 run.output=spread train.steps=1 checkpoint.save_final=false checkpoint.save_steps=0 "

/* Compares the plan with a simulation on one machine, by ranks that pretend to be two nodes. */
static void zero3_over_two_nodes_of_eight(void **state) {
  json_t    *root = plan_of(0, PLAN SPREAD "--nodes 2 --gpus-per-node 8 --device cpu --json");
  json_int_t bytes = integer(root, "mem_planned_bytes");
  char       said[64];

  (void)state;
  json_decref(root);
  root = plan_of(0, PLAN SPREAD ON_ONE "--gpus-per-node 16 --device cpu --json");
  assert_int_equal(integer(root, "ranks"), 16);
  assert_true(integer(root, "mem_planned_bytes") == bytes);
  json_decref(root);
  cli_succeeds(PLAN SPREAD "--nodes 2 --gpus-per-node 8 --gpu h100-80");
  cli_shows(cli_out, "sharded: weights, gradients, optimizer over all ranks");
  if (TRI_SANITIZED) return; /* sixteen ranks of it start slowly, and every_algo.sh has four */
  cli_succeeds("'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 16 '" TRI_PROGRAM
               "' train " SPREAD ON_ONE);
  cli_shows(cli_err, "ranks: 16 on 2 nodes");
  snprintf(said, sizeof said, "\"mem_planned_bytes\": %lld,", (long long)bytes);
  cli_read("spread/metrics.jsonl", cli_out);
  cli_shows(cli_out, said);
}

/* --gpus-per-node without a name of a GPU gives a warning if CPUs are planned, but not with --device cpu. The
 * GPUs of this machine are hidden. */
static void gpus_without_a_name_are_told_to_be_cpus(void **state) {
  (void)state;
  cli_succeeds("CUDA_VISIBLE_DEVICES='' " PLAN "grpo.yaml --gpus-per-node 2 run.device=auto");
  cli_says(cli_err, "warning", "--gpu");
  assert_int_equal(cli_saying(cli_err, "--gpu", "run.device"), 0);
  cli_fits(cli_err);
  cli_shows(cli_out, "2 CPU ranks");
  cli_succeeds(PLAN "grpo.yaml --gpus-per-node 2 run.device=cpu");
  cli_says(cli_err, "warning", "--gpu", "run.device", "cpu");
  cli_succeeds(PLAN "grpo.yaml --gpus-per-node 2 --device cpu");
  assert_null(strstr(cli_err, "--gpu"));
  cli_succeeds("CUDA_VISIBLE_DEVICES='' " PLAN "grpo.yaml run.device=auto");
  assert_null(strstr(cli_err, "--gpu"));
  cli_succeeds(PLAN "grpo.yaml --gpus-per-node 2 --gpu 80 run.device=cuda");
  assert_null(strstr(cli_err, "warning"));
}

static void what_contradicts_is_refused(void **state) {
  (void)state;
  cli_refuses(64, PLAN "grpo.yaml --gpu h100-80 --device cpu", "choose_device", "--gpu", "h100-80",
              "--device", "cpu");
  cli_refuses(64, PLAN "grpo.yaml --gpu h100_80", "fail_unknown", "--gpu", "h100_80", "h100-80");
  cli_refuses(64, PLAN "grpo.yaml --gpu v100-32", "tri_machine_find", "--gpu", "v100-32", "7.0", "8.0");
  cli_refuses(64, PLAN "grpo.yaml --device cuda", "own_gpu", "--gpu", "h100-80", "80");
  cli_refuses(64, PLAN "grpo.yaml --walltime tomorrow", "find_job", "--walltime", "tomorrow", "12:00:00",
              "1-12");
  cli_refuses(64, PLAN "grpo.yaml --nodes 0", "set", "--nodes", "0", "1", "1048576");
  cli_refuses(64, PLAN "grpo.yaml --nodes 1048576 --gpus-per-node 8 --gpu 80", "find_job", "--nodes",
              "1048576", "--gpus-per-node", "8", "1048576");
  cli_refuses(64, PLAN "--json", "plan", "trireme plan DECK");
  cli_fails(64, PLAN "grpo.yaml train.stps=3", "trireme: grpo.yaml: ", NULL);
  cli_says(cli_err, "train.stps=3", "train.steps");
}

static json_int_t bytes_of(const char *command) {
  json_t    *root = plan_of(0, command);
  json_int_t bytes = integer(root, "mem_planned_bytes");

  json_decref(root);
  return bytes;
}

/* Lines have 32 tokens, the model's context. One side of a pair is half of a pass. */
static void write_longest(void) {
  char  tokens[256] = "[0";
  FILE *f = fopen("longest.jsonl", "w");

  assert_non_null(f);
  for (int i = 1; i < 32; i++) snprintf(tokens + strlen(tokens), sizeof tokens - strlen(tokens), ", %d", i);
  for (int i = 0; i < 8; i++)
    fprintf(f, "{\"tokens\": %s], \"label\": %s}\n", tokens, i % 2 ? "true" : "false");
  assert_int_equal(fclose(f), 0);
  cli_sh("sed 's/\"tokens\": \\(.*\\), \"label\".*/\"chosen_tokens\": \\1, \"rejected_tokens\": \\1}/' "
         "longest.jsonl >pairs.jsonl");
}

#define LATER "data.train=later.jsonl --device cpu --json"

/* Judges: the plan and the run of lines with exactly this length. */
static void lines_that_are_not_there_are_as_long_as_may_be(void **state) {
  static const struct {
    const char *deck, *lines;
  } algo[] = {{"sft.yaml ", "longest.jsonl"},
              {"sft.yaml algo.name=rm ", "pairs.jsonl"},
              {"sft.yaml algo.name=dpo ", "pairs.jsonl"},
              {"sft.yaml algo.name=kto ", "longest.jsonl"}};
  json_int_t sft = 0;
  char       command[1024];

  (void)state;
  write_longest();
  for (int i = 3; i >= 0; i--) {
    snprintf(command, sizeof command, PLAN "%s" LATER, algo[i].deck);
    sft = bytes_of(command);
    cli_says(cli_err, "later.jsonl", "32");
    snprintf(command, sizeof command, PLAN "%s--device cpu --json data.train=%s", algo[i].deck,
             algo[i].lines);
    assert_true(bytes_of(command) == sft);
  }
  cli_succeeds(ONE SFT "data.train=longest.jsonl train.steps=1 run.output=longest checkpoint.save_steps=0 "
                       "checkpoint.save_final=false");
  snprintf(command, sizeof command, "\"mem_planned_bytes\": %lld,", (long long)sft);
  cli_read("longest/metrics.jsonl", cli_out);
  cli_shows(cli_out, command);
  cli_succeeds(PLAN "sft.yaml algo.name=dpo train.micro_batch_size=null train.max_tokens_per_gpu=40 "
                    "train.steps=null train.epochs=2 --walltime 1:00:00 --device cpu data.train=later.jsonl");
  cli_says(cli_err, "later.jsonl", "20", "train.max_tokens_per_gpu");
  cli_says(cli_err, "train.epochs", "2");
  cli_succeeds(PLAN "grpo.yaml data.train=later.jsonl");
  cli_says(cli_err, "later.jsonl", "28", "rollout.max_response_length");
}

#define PPO                                                                                                  \
  "grpo.yaml algo.name=ppo algo.num_generations=4 model.config=null model.tokenizer=null --device cpu --json "

/* Judge: the same plan with all files of the models. */
static void a_config_is_enough_of_every_model(void **state) {
  json_int_t whole;

  (void)state;
  write_longest();
  cli_succeeds(ONE SFT "algo.name=rm data.train=pairs.jsonl train.steps=1 run.output=rm");
  cli_succeeds(ONE "export rm judge");
  cli_sh("mkdir bare bare_judge && cp model/config.json bare && cp judge/config.json bare_judge");
  cli_write("bare/model.safetensors.index.json", "{}"); /* it comes before its files */
  whole = bytes_of(PLAN PPO "model.path=model model.ref_path=model 'reward=[{name: model, path: judge}]' "
                            "data.train=later.jsonl");
  assert_true(bytes_of(PLAN PPO "model.path=bare model.ref_path=bare 'reward=[{name: model, path: "
                                "bare_judge}]' data.train=later.jsonl") == whole);
  assert_true(bytes_of(PLAN PPO "model.path=bare model.ref_path=bare critic.path=bare_judge 'reward=[{name: "
                                "model, path: bare_judge}]'") == whole);
  cli_says(cli_err, "rl.jsonl", "tokenizer.json", "28");
  cli_shows(cli_err, "save_pretrained(");
  cli_fails(64, PLAN PPO "model.path=bare model.ref_path=none 'reward=[{name: model, path: bare_judge}]'",
            "trireme: grpo.yaml: ", NULL);
  cli_says(cli_err, "none", "model.ref_path");
}

/* Figures of doctor for this machine are used, with a message. Another message says if they cannot be
 * read. */
static void a_calibration_is_used(void **state) {
  json_t *root;

  (void)state;
  cli_sh(
      "mkdir -p cache/trireme && printf '{\"format\": \"trireme-machine\", \"version\": 1, \"name\": \"x\", "
      "\"device_bytes\": 1e9, \"flops_bf16\": 1e3, \"flops_f32\": 1e3, \"mem_bytes_per_s\": 1e9, \"node\": "
      "{\"alpha_s\": 1e-5, \"bytes_per_s\": 1e9}, \"cross\": {\"alpha_s\": 1e-5, \"bytes_per_s\": 1e9}, "
      "\"host_bytes_per_s\": 1e9, \"disk_bytes_per_s\": 10}' >cache/trireme/machine-cpu-1.json");
  cli_succeeds("XDG_CACHE_HOME=$PWD/cache " PLAN "grpo.yaml --device cpu");
  cli_shows(cli_out, "times from these cores and doctor's links");
  root = plan_of(0, "XDG_CACHE_HOME=$PWD/cache " PLAN "grpo.yaml --device cpu --walltime 1:00:00 --json");
  assert_int_equal(integer(root, "steps_in_walltime"), 0); /* its disk takes an hour for a checkpoint */
  json_decref(root);
  cli_sh("sed 's/\"device_bytes\": 1e9/\"device_bytes\": 84.9e9/' cache/trireme/machine-cpu-1.json "
         ">cache/trireme/machine-cuda.json");
  cli_succeeds("XDG_CACHE_HOME=$PWD/cache " PLAN "grpo.yaml --gpu h100-80");
  cli_shows(cli_out, "x 1 h100-80: 1 rank; times from trireme doctor's figures");
  cli_succeeds("XDG_CACHE_HOME=$PWD/cache " PLAN "grpo.yaml --gpu h200");
  cli_shows(cli_out, "the table of machines");
  cli_sh("sed -i 's/1e9/x/' cache/trireme/machine-cpu-1.json");
  cli_fails(64, "XDG_CACHE_HOME=$PWD/cache " PLAN "grpo.yaml --device cpu", "machine-cpu-1.json:1", "JSON");
}

/* If the deck does not size passes, they hold as much as the GPU has space for, at most 16384 tokens. */
static void passes_of_no_given_size_fill_the_gpu(void **state) {
  static const char deck[] = EIGHT "train.max_tokens_per_gpu=null --nodes 1 --gpus-per-node 8 ";
  char              command[CLI_TEXT_BYTES / 16];
  int               tokens = 0;

  (void)state;
  snprintf(command, sizeof command, "%s--gpu 80", deck);
  cli_succeeds(command);
  cli_shows(cli_out, "micro-batches of at most 16384 tokens, on 8 ranks\n");
  snprintf(command, sizeof command, "%s--gpu 40", deck);
  cli_succeeds(command);
  assert_non_null(strstr(cli_out, "micro-batches of at most "));
  assert_int_equal(
      sscanf(strstr(cli_out, "micro-batches of at most "), "micro-batches of at most %d", &tokens), 1);
  assert_in_range(tokens, 2048, 15360);
  cli_shows(cli_out, "MEMORY FITS: ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_has_what_the_run_will_take),
      cmocka_unit_test(ranks_that_generate_as_one_model),
      cmocka_unit_test(a_screen_holds_it),
      cmocka_unit_test(a_run_under_way_is_no_obstacle),
      cmocka_unit_test(passes_have_a_budget),
      cmocka_unit_test(a_gpu_need_not_be_here),
      cmocka_unit_test(grpo_on_eight_of_40_gib_is_told_what_would_fit),
      cmocka_unit_test(seventy_billion_on_four_by_eight),
      cmocka_unit_test(ranks_of_a_model_are_advised),
      cmocka_unit_test(states_of_recurrent_layers),
      cmocka_unit_test(recurrent_layers_are_not_divided),
      cmocka_unit_test(a_small_recurrent_run_takes_what_was_planned),
      cmocka_unit_test(a_batch_that_does_not_multiply_is_told_so),
      cmocka_unit_test(zero3_over_two_nodes_of_eight),
      cmocka_unit_test(gpus_without_a_name_are_told_to_be_cpus),
      cmocka_unit_test(what_contradicts_is_refused),
      cmocka_unit_test(lines_that_are_not_there_are_as_long_as_may_be),
      cmocka_unit_test(a_config_is_enough_of_every_model),
      cmocka_unit_test(passes_of_no_given_size_fill_the_gpu),
      cmocka_unit_test(a_calibration_is_used),
  };

  return cmocka_run_group_tests_name("plan", tests, cli_open, cli_close);
}
