/* test_cli_trace.c - the trace of a run on two ranks: its content, and that the run does not change with it.
 * Judges: jansson, the names of the model's layers, a run without a trace. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <jansson.h>

/* Numbers that differ between equal runs (README.md). */
static bool may_differ(const char *name) {
  size_t n = strlen(name);
  return !strncmp(name, "time_", 5) || !strncmp(name, "mem_", 4) ||
         (n > 6 && !strcmp(name + n - 6, "_per_s"));
}

static json_t *next_line(FILE *f) {
  json_t     *line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL), *value;
  const char *name;
  void       *after;

  json_object_foreach_safe(line, after, name, value) {
    if (may_differ(name)) json_object_del(line, name);
  }
  return line;
}

static void same_metrics(const char *a, const char *b) {
  FILE *fa = fopen(a, "rb"), *fb = fopen(b, "rb");

  assert_true(fa && fb);
  for (int step = 1; step <= 2; step++) {
    json_t *x = next_line(fa), *y = next_line(fb);
    assert_true(json_object_size(x) > 5);
    if (!json_equal(x, y)) fail_msg("step %d of %s is not that of %s", step, a, b);
    json_decref(x);
    json_decref(y);
  }
  fclose(fa);
  fclose(fb);
}

/* Spans of this name and lane, and their bytes. */
static int spans_of(json_t *file, const char *lane, const char *name, int64_t *bytes) {
  static const char *const lanes[] = {"phases", "compute", "gather", "reduce"};
  json_t                  *e;
  size_t                   i;
  int                      n = 0;

  *bytes = 0;
  json_array_foreach(json_object_get(file, "traceEvents"), i, e) {
    json_int_t tid = json_integer_value(json_object_get(e, "tid"));
    if (strcmp(json_string_value(json_object_get(e, "ph")), "X") ||
        strcmp(json_string_value(json_object_get(e, "name")), name))
      continue;
    assert_string_equal(lanes[tid], lane);
    *bytes += json_integer_value(json_object_get(json_object_get(e, "args"), "bytes"));
    n++;
  }
  return n;
}

typedef struct want {
  const char *lane, *name;
  int         n;
} want;

static void check_trace(const char *path, const want *w, int n) {
  json_error_t error;
  json_t      *file = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  int64_t      bytes;

  if (!file) fail_msg("%s:%d: %s", path, error.line, error.text);
  for (int i = 0; i < n; i++) {
    int got = spans_of(file, w[i].lane, w[i].name, &bytes);
    if (got != w[i].n) fail_msg("%s: %d spans '%s', not %d", path, got, w[i].name, w[i].n);
    if (got && (bytes > 0) != (*w[i].lane == 'g' || *w[i].lane == 'r'))
      fail_msg("%s: '%s' carries %lld bytes", path, w[i].name, (long long)bytes);
  }
  json_decref(file);
}

/* One micro-batch of one step with everything sharded. A layer's weights are gathered for forward and for
 * backward, the embedding's and the head's once. Gradients are reduced once. Ranks with shared memory gather
 * nothing. */
static void every_layer_and_collective_has_its_span(void **state) {
  static const want w[] = {{"phases", "step 1", 1},
                           {"phases", "step 2", 0},
                           {"phases", "learn", 1},
                           {"phases", "update", 1},
                           {"phases", "save", 1},
                           {"compute", "embedding forward", 1},
                           {"compute", "layer 0 forward", 1},
                           {"compute", "layer 1 forward", 1},
                           {"compute", "head forward", 1},
                           {"compute", "head backward", 1},
                           {"compute", "layer 1 backward", 1},
                           {"compute", "layer 0 backward", 1},
                           {"compute", "embedding backward", 1},
                           {"compute", "gradient norm", 1},
                           {"compute", "layer 1 update", 1},
                           {"gather", "embedding weights", 1},
                           {"gather", "layer 0 weights", 2},
                           {"gather", "layer 1 weights", 2},
                           {"gather", "head weights", 1},
                           {"reduce", "embedding gradients", 1},
                           {"reduce", "layer 0 gradients", 1},
                           {"reduce", "layer 1 gradients", 1},
                           {"reduce", "head gradients", 1}};

  (void)state;
  cli_succeeds(TWO SFT "run.output=plain3 shard.plan=zero3");
  cli_succeeds(TWO SFT "run.output=common3 shard.plan=zero3 run.trace_steps=1");
  cli_says(cli_err, "trace", "0 %", "reductions", "common3/trace/rank-0.json");
  assert_int_equal(cli_saying(cli_err, "common3/trace/rank-0.json", "gathers"), 0);
  cli_succeeds("TRI_COMM=mpi " TWO SFT "run.output=traced3 shard.plan=zero3 run.trace_steps=1");
  cli_says(cli_err, "trace", "0 %", "gathers", "reductions", "traced3/trace/rank-0.json");
  check_trace("traced3/trace/rank-0.json", w, sizeof w / sizeof *w);
  check_trace("traced3/trace/rank-1.json", w, sizeof w / sizeof *w);
  same_metrics("plain3/metrics.jsonl", "traced3/metrics.jsonl");
  assert_false(cli_exists("plain3/trace"));
}

/* Every rank keeps all weights, so only new ones are gathered. It asks for more steps than the run has. */
static void new_weights_have_theirs(void **state) {
  static const want w[] = {{"phases", "step 2", 1},
                           {"gather", "layer 0 new weights", 2},
                           {"gather", "layer 0 weights", 0},
                           {"reduce", "layer 0 gradients", 2}};

  (void)state;
  cli_succeeds(TWO SFT "run.output=traced2 shard.plan=zero2 run.trace_steps=5");
  check_trace("traced2/trace/rank-1.json", w, sizeof w / sizeof *w);
}

static void generation_has_its_phases(void **state) {
  static const want w[] = {{"phases", "rollout", 1},          {"phases", "wait for rewards", 1},
                           {"phases", "reward", 1},           {"phases", "learn", 1},
                           {"compute", "layer 1 forward", 3}, /* prefill, two micro-batches */
                           {"compute", "decode", 4}};

  (void)state;
  cli_succeeds(ONE GRPO "run.output=traced1 run.trace_steps=1");
  cli_says(cli_err, "trace", "traced1/trace/rank-0.json");
  assert_int_equal(cli_saying(cli_err, "traced1/trace/rank-0.json", "0 %"), 0); /* no share of nothing */
  check_trace("traced1/trace/rank-0.json", w, sizeof w / sizeof *w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_layer_and_collective_has_its_span),
      cmocka_unit_test(new_weights_have_theirs),
      cmocka_unit_test(generation_has_its_phases),
  };
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
