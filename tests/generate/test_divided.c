/* test_divided.c - tests generation by several ranks as one model. Judge: the same model, whole on each rank.
 * Every answer and every log-probability has the same bits. Run with 2 and 4 ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "base/host_memory.h"
#include "generate/sampler.h"
#include "refusal_case.h"

enum { MOST_NEW = 12, PROMPTS = 5, GROUP = 3, LONGEST = 20 };

typedef struct bench {
  tri_session  se;
  golden       g;
  tri_model   *m;
  tri_sampler *s;
  int32_t      token[PROMPTS][LONGEST];
  tri_prompt   prompt[PROMPTS];
  int64_t      held; /* planned bytes of weights in generation */
} bench;

/* The device's tables, which note the parts of products, and count and refuse their checks. */
enum { MOST_PARTS = 16 };
static tri_device_ops    spied;
static tri_kernels       kernels, real;
static const tri_linear *noted[MOST_PARTS];
static int               n_noted, checks[MOST_PARTS], others; /* others: checks of whole products */
static int               refused = -1;                        /* a part, or -1 */

static tri_status note_open(tri_device *d, const tri_linear_spec *spec, tri_linear **out) {
  tri_status st = real.linear_open(d, spec, out);

  if (st != TRI_OK || !spec->whole) return st;
  CHECK(n_noted < MOST_PARTS);
  noted[n_noted++] = *out;
  return TRI_OK;
}

static tri_status note_check(tri_stream *s, tri_linear *l, const void *packed_fwd) {
  int i = 0;

  while (i < n_noted && noted[i] != l) i++;
  if (i == n_noted) {
    others++;
    return real.linear_check(s, l, packed_fwd);
  }
  CHECK(packed_fwd);
  checks[i]++;
  if (i == refused) TRI_FAIL(TRI_EDEVICE, "part %d", i);
  return real.linear_check(s, l, packed_fwd);
}

static void spy(tri_device *d) {
  spied = *d->ops;
  kernels = real = *spied.kernels;
  kernels.linear_open = note_open;
  kernels.linear_check = note_check;
  spied.kernels = &kernels;
  d->ops = &spied;
  n_noted = others = 0;
  memset(checks, 0, sizeof checks);
}

typedef struct way {
  tri_dtype type;
  int       ranks_per_node, tensor; /* ranks of a node, 0: all. ranks that generate as one model */
  bool      lora;
  int       rows;
} way;

static tri_status fill_small(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                             float *out) {
  (void)ctx, (void)kind;
  for (int64_t k = 0; k < count; k++) out[k] = 0.05f * sinf((float)(31 * u + 7 * i) + (float)(begin + k));
  return TRI_OK;
}

static tri_status open_model(bench *b, const char *name, const way *w) {
  tri_model_opt opt;

  memset(b, 0, sizeof *b);
  OK(tri_session_open(
      &(tri_session_opt){
          .device = test_device(), .ranks_per_node = w->ranks_per_node, .threads = 1, .tensor = w->tensor},
      &b->se));
  spy(b->se.device);
  golden_open_model(&b->g, name);
  opt = model_options(&b->g, &b->se, w->type, 64);
  opt.rollout = true;
  opt.max_held_tokens = 64;
  if (w->lora) opt.lora = (tri_lora){.rank = 2, .alpha = 4, .target = tri_lora_all(b->g.shape.family)};
  return tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m);
}

static int64_t held_bytes(const bench *b) {
  tri_ledger_row *row;
  int64_t         bytes = 0;
  int             n;

  OK(tri_ledger_rows(b->se.ledger, &row, &n));
  for (int i = 0; i < n; i++)
    if (row[i].phase == TRI_PHASE_ROLLOUT && strstr(row[i].name, "weights")) bytes += row[i].bytes;
  TRI_FREE(row);
  return bytes;
}

static void open_bench(bench *b, const char *name, const way *w) {
  tri_sampler_opt so = {
      .max_sequences = w->rows, .max_prompt = LONGEST, .max_new = MOST_NEW, .max_prefill = 40};

  OK(open_model(b, name, w));
  OK(tri_sampler_open(b->se.device, b->se.ledger, b->m, w->type, &so, &b->s));
  OK(tri_session_take_memory(&b->se));
  b->held = held_bytes(b);
  OK(tri_model_start(b->m, b->se.stream));
  fill_model(b->m, &b->g, b->se.stream);
  if (w->lora) OK(tri_params_fill(tri_model_trained(b->m), TRI_STATE_WEIGHT, fill_small, NULL, b->se.stream));
  for (int i = 0; i < PROMPTS; i++) {
    b->prompt[i] = (tri_prompt){100 + i, b->token[i], 3 + 4 * i};
    for (int k = 0; k < LONGEST; k++) b->token[i][k] = (int32_t)((i * 7 + k * k * 3) % b->g.shape.V);
  }
}

static void close_bench(bench *b) {
  tri_sampler_close(&b->s);
  tri_model_close(&b->m);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

/* Generates twice, so that weights are held again. *out is the second time's. */
static void generate(const char *name, const way *w, tri_rollout *out, int64_t *held) {
  const tri_generate_opt gen = {.rule = {1.1f, 0.97f, 0, 11}, .max_new = MOST_NEW, .group = GROUP};
  tri_rollout            first = {0};
  bench                  b;

  open_bench(&b, name, w);
  OK(tri_sampler_generate(b.s, b.prompt, PROMPTS, &gen, b.se.stream, &first));
  tri_rollout_free(&first);
  OK(tri_sampler_generate(b.s, b.prompt, PROMPTS, &gen, b.se.stream, out));
  *held = b.held;
  close_bench(&b);
}

static void expect_same(const char *name, const way *w, const tri_rollout *a, const tri_rollout *b) {
  size_t n = (size_t)a->n_tok;

  CHECK(a->n_seq == PROMPTS * GROUP && a->n_seq == b->n_seq && a->n_tok == b->n_tok);
  CHECK(!memcmp(a->token, b->token, n * sizeof *a->token) &&
            !memcmp(a->old_logp, b->old_logp, n * sizeof *a->old_logp),
        "%s, type %d, %d ranks a node, %d as one model, lora %d: other answers", name, (int)w->type,
        w->ranks_per_node, w->tensor, w->lora);
}

/* Models with biases, tied heads, norms of heads, post-norms, caps, scaled residuals and windows. Brief:
 * three models, and each way with one of them. */
static void ranks_generate_as_one(void **state) {
  static const char *const names[] = {"model/llama_linear", "model/llama",      "model/qwen2",
                                      "model/qwen3",        "model/gemma2",     "model/gemma3_cap",
                                      "model/granite",      "model/gemma_bias", "model/qwen2_window"};
  const int                size = world->size;
  const way ways[] = {{TRI_F32, 0, 2, false, 4},     {TRI_BF16, 0, 2, true, 15}, {TRI_F16, 0, 2, false, 1},
                      {TRI_F32, 0, size, true, 7},   {TRI_BF16, 2, 2, false, 4}, {TRI_F32, 2, 2, true, 3},
                      {TRI_BF16, 0, size, false, 15}};
  int       done[5] = {0};

  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i += (size_t)test_step(3))
    for (size_t k = i / 3 % (size_t)test_step(3); k < sizeof ways / sizeof *ways; k += (size_t)test_step(3)) {
      way         alone = ways[k];
      tri_rollout want = {0}, got = {0};
      golden      g;
      int64_t     whole, part;
      golden_open_model(&g, names[i]);
      bool divides = g.shape.G % ways[k].tensor == 0;
      golden_close(&g);
      if (!divides) continue;
      alone.tensor = 1;
      generate(names[i], &alone, &want, &whole);
      generate(names[i], &ways[k], &got, &part);
      expect_same(names[i], &ways[k], &want, &got);
      done[ways[k].tensor]++;
      tri_rollout_free(&want);
      tri_rollout_free(&got);
    }
  CHECK(done[2] && done[size]);
}

/* Bytes that this rank has sent in collectives, except those of decode steps. */
static double sent_bytes(const bench *b) {
  double bytes = 0;

  for (int s = 0; s < TRI_SCOPE_COUNT; s++)
    if (s != TRI_TENSOR) bytes += b->se.comm[s]->traffic.bytes;
  return bytes;
}

/* Returns the bytes that a rank sends to hold the weights of a node whose ranks generate as one model. Sets
 * *least to the bytes of those weights that are not this rank's rows of cut matrices. */
static double held_by_sending(const char *name, double *least) {
  const way w = {TRI_BF16, 0, world->size, false, 4};
  double    bytes;
  bench     b;

  open_bench(&b, name, &w);
  const tri_params_opt *o = tri_params_options(tri_model_params(b.m));
  int64_t               multiple = 64 * world->size;
  *least = 0;
  for (int u = 0; u < o->n_unit; u++) /* the vocabulary is odd, so the head is not cut */
    CHECK((o->unit[u].n_cut > 0) == o->unit[u].in_ring);
  for (int u = 0; u < o->n_unit; u++)
    *least += (double)((o->unit[u].count - o->unit[u].n_cut + multiple - 1) / multiple * 64 *
                       (world->size - 1) * 2);
  bytes = sent_bytes(&b);
  OK(tri_model_hold(b.m, true, b.se.stream));
  bytes = sent_bytes(&b) - bytes;
  OK(tri_model_hold(b.m, false, b.se.stream));
  close_bench(&b);
  return bytes;
}

/* Ranks that share memory send nothing. Other ranks have their rows of cut matrices, and gather the rest. */
static void no_rank_sends_what_others_have(void **state) {
  const char *was = getenv("TRI_COMM"), *name = "model/llama_linear";
  bool        cpu_ranks = !strcmp(test_device(), "cpu");
  double      least, bytes;

  (void)state;
  bytes = held_by_sending(name, &least);
  CHECK(bytes == (cpu_ranks && (!was || !strcmp(was, "shm")) ? 0 : least), "%.0f bytes, not %.0f", bytes,
        least);
  if (!cpu_ranks || was) return;
  setenv("TRI_COMM", "mpi", 1);
  bytes = held_by_sending(name, &least);
  CHECK(bytes == least, "%.0f bytes, not %.0f", bytes, least);
  unsetenv("TRI_COMM");
}

static void refuses(const char *name, const way *w, const char *fact) {
  bench b;

  CHECK(open_model(&b, name, w) == TRI_ECONFIG, "%s is divided", name);
  CHECK(strstr(tri_error_message(), "shard.tensor_parallel_size") && strstr(tri_error_message(), fact), "%s",
        tri_error_message());
  tri_error_clear();
  tri_model_close(&b.m);
  golden_close(&b.g);
  tri_session_close(&b.se);
}

static void what_cannot_be_divided_is_named(void **state) {
  (void)state;
  refuses("model/llama_bias", &(way){TRI_F32, 0, 2, false, 4}, "key/value heads");
  refuses("model/phi3", &(way){TRI_F32, 0, 2, false, 4}, "phi3");
  refuses("model/olmo2", &(way){TRI_F32, 0, 2, false, 4}, "olmo2");
  if (world->size == 2) refuses("model/qwen3_5_half", &(way){TRI_F32, 0, 2, false, 4}, "recurrent layers");
}

/* A part's check fails on one rank alone, while the others go on. */
static void parts_are_checked(void **state) {
  const way   ways[] = {{TRI_F32, 0, 1, true, 4}, {TRI_F32, 0, 2, false, 4}, {TRI_BF16, 0, 2, true, 4}};
  const char *names[] = {"model/llama", "model/qwen3"};
  const bool  fails = world->rank == world->size - 1;
  bench       b;

  (void)state;
  for (size_t k = 0; k < 2 * sizeof ways / sizeof *ways; k++) {
    const way *w = &ways[k / 2];
    refused = -1;
    open_bench(&b, names[k % 2], w);
    int parts = w->tensor == 1 ? 0 : w->lora ? 9 : 5;
    CHECK(n_noted == parts, "%d parts", n_noted);
    OK(tri_model_check(b.m, b.se.stream));
    CHECK(others == (w->lora ? 13 : 5), "%d checks", others);
    for (int i = 0; i < n_noted; i++)
      CHECK(checks[i] == 1, "part %d of %d: %d checks", i, n_noted, checks[i]);
    for (int i = 0; i < n_noted; i++) {
      refused = fails ? i : -1;
      CHECK(tri_model_check(b.m, b.se.stream) == (fails ? TRI_EDEVICE : TRI_OK), "part %d", i);
      tri_error_clear();
    }
    close_bench(&b);
  }
}

/* With TRI_TEST_COMM all but the helpers' own communicator uses that way. */
static int open_all(void **state) {
  const char *by = getenv("TRI_TEST_COMM");

  ranks_open(state);
  if (by) setenv("TRI_COMM", by, 1);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_checked), cmocka_unit_test(what_cannot_be_divided_is_named),
      cmocka_unit_test(ranks_generate_as_one), cmocka_unit_test(no_rank_sends_what_others_have)};
  return cmocka_run_group_tests(tests, open_all, ranks_close);
}
