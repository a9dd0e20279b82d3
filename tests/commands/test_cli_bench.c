/* test_cli_bench.c - trireme bench: its JSON and its screen, on one rank and on two, and its refusals. Judge:
 * arithmetic over the JSON, exit codes and words. No figure has an expected value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <jansson.h>

#define BENCH ONE "bench "
#define PAIR  TWO "bench "
#define DECK  "grpo.yaml run.device=cpu run.output=bad run.threads=1 --seconds 1 "

static json_t *bench_of(const char *command) {
  json_t *root;

  cli_succeeds(command);
  root = json_loads(cli_out, JSON_REJECT_DUPLICATES, NULL);
  if (!root) fail_msg("%s\nis no JSON object: %s", command, cli_out);
  if (cli_exists("bad")) fail_msg("%s\nleft something behind", command);
  return root;
}

static double number(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);

  if (!json_is_number(v)) fail_msg("%s is no number", key);
  return json_number_value(v);
}

static void is_about(double x, double y) {
  if (!(x > 0 && x >= y * (1 - 1e-9) && x <= y * (1 + 1e-9))) fail_msg("%.17g is not %.17g", x, y);
}

/* NAME_share is NAME_floor_s over NAME_s. */
static void share_is_floor_over_time(const json_t *o, const char *name) {
  char s[64], floor_s[64], share[64];

  snprintf(s, sizeof s, "%s_s", name);
  snprintf(floor_s, sizeof floor_s, "%s_floor_s", name);
  snprintf(share, sizeof share, "%s_share", name);
  is_about(number(o, share), number(o, floor_s) / number(o, s));
}

/* Four products for a layer, and the head. */
static void check_products(const json_t *root) {
  const json_t *list = json_object_get(root, "products"), *step = json_object_get(root, "step"), *p;
  double        forward = 0, backward = 0;
  size_t        i;

  assert_int_equal(json_array_size(list), 5);
  json_array_foreach(list, i, p) {
    double flops = 2 * number(p, "n_out") * number(p, "n_in") * number(p, "rows");
    is_about(number(p, "forward_flops_per_s"), flops / number(p, "forward_s"));
    is_about(number(p, "grad_x_flops_per_s"), flops / number(p, "grad_x_s"));
    is_about(number(p, "grad_w_flops_per_s"), flops / number(p, "grad_w_s"));
    forward += number(p, "times_in_pass") * number(p, "forward_s");
    backward += number(p, "times_in_pass") * (number(p, "grad_x_s") + number(p, "grad_w_s"));
  }
  is_about(number(step, "forward_floor_s"), forward);
  is_about(number(step, "backward_floor_s"), backward);
}

static void check_step(const json_t *root) {
  const json_t *step = json_object_get(root, "step"), *pass = json_object_get(root, "pass");
  double        passes = number(pass, "passes_of_update"),
         s = passes * (number(step, "forward_s") + number(step, "backward_s")) + number(step, "pack_s") +
             number(step, "update_s");

  share_is_floor_over_time(step, "forward");
  share_is_floor_over_time(step, "backward");
  share_is_floor_over_time(step, "update");
  share_is_floor_over_time(step, "step");
  is_about(number(step, "step_s"), s);
  is_about(number(step, "train_tokens_per_s"), passes * number(pass, "tokens") * number(root, "ranks") / s);
  assert_true(number(step, "times") >= 1);
}

/* Returns the bytes of a model in f32 with the keys and values of n sequences, divided among its ranks. */
static double bytes_to_read(const json_t *root, double n, double tokens) {
  const json_t *m = json_object_get(root, "model");
  double        C = number(m, "width"), L = number(m, "layers"), D = number(m, "head_width"),
         q = number(m, "heads") * D, kv = number(m, "kv_heads") * D,
         layer = 2 * C * (q + kv) + 3 * C * number(m, "mlp_width");

  return 4 * (L * layer + C * number(m, "vocabulary") + n * tokens * L * 2 * kv) /
         number(root, "tensor_parallel_size");
}

static void check_decode(const json_t *root) {
  static const int at_once[] = {1, 4, 16, 32};
  const json_t    *list = json_object_get(root, "decode"), *d;
  size_t           i;

  assert_int_equal(json_array_size(list), 4);
  json_array_foreach(list, i, d) {
    assert_int_equal(number(d, "sequences"), at_once[i]);
    share_is_floor_over_time(d, "step");
    is_about(number(d, "read_bytes"), bytes_to_read(root, at_once[i], number(d, "tokens_of_sequence")));
    is_about(number(d, "step_floor_s"),
             number(d, "read_bytes") * number(root, "ranks_of_machine") / number(d, "read_bytes_per_s"));
    is_about(number(d, "decode_tokens_per_s"), number(d, "sequences") * number(root, "ranks") /
                                                   number(root, "tensor_parallel_size") /
                                                   number(d, "step_s"));
  }
}

/* Masters and moments of all trained weights, in f32. */
static void check_disk(const json_t *root) {
  const json_t *disk = json_object_get(root, "checkpoint");
  double        bytes = number(disk, "bytes");

  assert_true(json_is_null(json_object_get(disk, "not_timed")));
  assert_string_equal(json_string_value(json_object_get(disk, "folder")), ".");
  assert_true(bytes == number(disk, "whole_bytes"));
  is_about(bytes, 12 * number(json_object_get(root, "model"), "learned_numbers"));
  is_about(number(disk, "write_bytes_per_s"), bytes / number(disk, "write_s"));
  is_about(number(disk, "plain_bytes_per_s"), bytes / number(disk, "write_floor_s"));
  share_is_floor_over_time(disk, "write");
  if (system("ls -d .trireme-bench-* >.left 2>&1") == 0) fail_msg("the folder of the trial stays");
}

/* The warning comes only if the load in the JSON is above a quarter. */
static void check_load(const json_t *root) {
  const double load = number(root, "load_per_core");
  const bool   told = cli_saying(cli_err, "warning", "--exclusive") > 0;

  assert_true(load >= 0);
  assert_int_equal(told, load > 0.25);
  cli_fits(cli_err);
}

static void one_rank(void **state) {
  json_t *root = bench_of(BENCH DECK "--json");

  (void)state;
  assert_int_equal(number(root, "ranks"), 1);
  assert_int_equal(number(root, "tensor_parallel_size"), 1);
  assert_string_equal(json_string_value(json_object_get(root, "device")), "cpu");
  assert_string_equal(json_string_value(json_object_get(root, "dtype")), "f32");
  assert_int_equal(number(json_object_get(root, "model"), "layers"), 2);
  check_products(root);
  check_step(root);
  check_decode(root);
  check_disk(root);
  check_load(root);
  assert_int_equal(json_array_size(json_object_get(root, "attention")), 1);
  assert_int_equal(json_array_size(json_object_get(root, "collectives")), 0);
  json_decref(root);
}

static void two_ranks_that_pretend_to_be_two_nodes(void **state) {
  const json_t *list;
  json_t       *root = bench_of(PAIR DECK "run.ranks_per_node=1 --json");

  (void)state;
  assert_int_equal(number(root, "ranks"), 2);
  assert_int_equal(number(root, "nodes"), 2);
  check_products(root);
  check_step(root);
  check_decode(root);
  check_disk(root);
  check_load(root);
  list = json_object_get(root, "collectives");
  assert_int_equal(json_array_size(list), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "scope")), "world");
  assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "scope")), "cross");
  assert_true(number(json_array_get(list, 1), "gather_bytes_per_s") > 0);
  json_decref(root);
}

/* The ranks decode as one model, by a key or by a flag. Training is as without. */
static void ranks_that_decode_as_one(void **state) {
  json_t *root = bench_of(PAIR DECK "--tensor-parallel-size 2 --json");

  (void)state;
  assert_int_equal(number(root, "tensor_parallel_size"), 2);
  check_products(root);
  check_step(root);
  check_decode(root);
  json_decref(root);
  cli_succeeds(PAIR DECK "shard.tensor_parallel_size=2");
  cli_fits(cli_out);
  cli_says(cli_out, "decode", "2 ranks", "32");
  cli_refuses(64, PAIR DECK "--tensor-parallel-size 3", "set_tensor", "--tensor-parallel-size 3", "2 ");
}

static int lines_of(const char *text) {
  int n = 0;

  for (; *text; text++) n += *text == '\n';
  return n;
}

/* A deck of lines works too. With adapters only these learn. */
static void a_screen_holds_it(void **state) {
  (void)state;
  cli_succeeds(BENCH "sft.yaml lora.rank=2 model.config=null model.tokenizer=null model.path=model "
                     "run.output=/proc/gone run.threads=1 --seconds 1");
  cli_shows(cli_out, "sft.yaml: 2 layers of 32,");
  cli_shows(cli_out, "\nproducts, ");
  cli_shows(cli_out, "\ndecode: ");
  cli_shows(cli_out, "\ncollectives: none");
  cli_fits(cli_out);
  assert_true(lines_of(cli_out) <= 24);
  cli_shows(cli_out, "\ncheckpoint: ");
  cli_says(cli_out, "checkpoint", "/proc");
  cli_succeeds(BENCH "--help");
  cli_shows(cli_out, "--seconds S");
  cli_fits(cli_out);
}

static void what_cannot_be_timed_is_refused(void **state) {
  (void)state;
  cli_fails(64, BENCH "gone.yaml", "gone.yaml", NULL);
  cli_refuses(64, BENCH "run.output=bad grpo.yaml", "bench", "run.output=bad", "trireme bench");
  cli_refuses(64, BENCH "grpo.yaml train.stps=3 run.output=bad", "refuse_unknown", "train.stps=3",
              "train.steps");
  cli_refuses(
      64, BENCH "grpo.yaml run.output=bad train.micro_batch_size=null train.max_tokens_per_gpu=1000000000",
      "check_space", "grpo.yaml", "trireme plan grpo.yaml");
  cli_fails(64, BENCH "grpo.yaml --seconds 0", "--seconds", NULL);
  cli_fails(69, "ulimit -s 1024; " BENCH DECK, "OMP_STACKSIZE", "ulimit -s 8192");
  cli_fails(64, BENCH "grpo.yaml run.output=bad model.config=gone.json", "trireme: grpo.yaml: ", NULL);
  cli_says(cli_err, "gone.json", "model.config");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank), cmocka_unit_test(two_ranks_that_pretend_to_be_two_nodes),
      cmocka_unit_test(ranks_that_decode_as_one), cmocka_unit_test(a_screen_holds_it),
      cmocka_unit_test(what_cannot_be_timed_is_refused)};

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
