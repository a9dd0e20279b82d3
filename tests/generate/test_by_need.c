/* test_by_need.c - generations by all ranks together. Run with 1 to 4 ranks. Judge: the answers are those of
 * a rank that answers all prompts alone, bit for bit, whichever rank gave them. With 2 and 4 ranks every test
 * runs again with models of two ranks each. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "device/kernels.h"
#include "generate/by_need.h"
#include "refusal_case.h"

enum { PROMPTS = 36, GROUP = 2, NEW = 40, LONGEST = 70, TOKENS = 128 };

typedef struct bench {
  tri_session  se;
  golden       g;
  tri_model   *m;
  tri_sampler *s;
  tri_prompt   prompt[PROMPTS];
  int32_t     *token;
} bench;

static int  tensor = 1;       /* ranks that generate as one model */
static bool one_node = false; /* else each rank is a node, if each has its model */

static tri_device_ops spied; /* the device's table with a fill that can fail */
static tri_status (*real_fill)(tri_stream *s, void *at, int value, size_t bytes);
static size_t              failing_bytes; /* a fill of so many bytes fails, or 0 */
static tri_kernels         spied_kernels; /* the device's kernels with a linear_size that can fail */
static tri_linear_size_fn *real_linear_size;
static int sizes, failing_size; /* calls of linear_size. failing_size: the number of one that fails, or 0 */

static tri_status spy_fill(tri_stream *s, void *at, int value, size_t bytes) {
  if (failing_bytes && bytes == failing_bytes) TRI_FAIL(TRI_EDEVICE, "no fill %d", 29);
  return real_fill(s, at, value, bytes);
}

/* Weights are packed with it. */
static tri_status spy_linear_size(const tri_linear *l, tri_linear_bytes *out) {
  if (++sizes == failing_size) TRI_FAIL(TRI_EDEVICE, "no size %d", 31);
  return real_linear_size(l, out);
}

static int models(void) { return world->size / tensor; }

/* Returns whether this rank has the answers of its model. */
static bool is_first(const bench *b) { return b->se.rt.world_rank < models(); }

static bool is_last(const bench *b) { return b->se.rt.world_rank == b->se.rt.world_size - 1; }
static bool is_slow(const bench *b) { return b->se.rt.world_rank % models() == models() - 1; }

/* The last model decodes `slow` rows at once, the others `rows`. */
static void open_bench(bench *b, int rows, int slow, int64_t max_answers) {
  tri_sampler_opt so = {
      .max_prompt = LONGEST, .max_new = NEW, .max_prefill = 300, .max_answers = max_answers};
  tri_model_opt opt;
  int32_t      *length;
  int           n;
  int64_t       at = 0;

  memset(b, 0, sizeof *b);
  OK(tri_session_open(
      &(tri_session_opt){test_device(), tensor > 1 || one_node ? 0 : 1, 1, 0, NULL, tensor, NULL, false},
      &b->se));
  spied = *b->se.device->ops;
  real_fill = spied.fill;
  spied.fill = spy_fill;
  spied_kernels = *spied.kernels;
  real_linear_size = spied_kernels.linear_size;
  spied_kernels.linear_size = spy_linear_size;
  spied.kernels = &spied_kernels;
  b->se.device->ops = &spied;
  so.max_sequences = is_slow(b) ? slow : rows;
  golden_open_model(&b->g, "model/qwen2");
  opt = model_options(&b->g, &b->se, TRI_F32, 300);
  opt.rollout = true;
  opt.max_held_tokens = 300;
  opt.plan = (tri_shard_plan){TRI_SHARD_WORLD, TRI_SHARD_WORLD, TRI_SHARD_WORLD};
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m));
  OK(tri_sampler_open(b->se.device, b->se.ledger, b->m, TRI_F32, &so, &b->s));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->m, b->se.stream));
  fill_model(b->m, &b->g, b->se.stream);
  b->token = golden_get_int(&b->g, "greedy.prompts");
  length = golden_get_int(&b->g, "greedy.lengths");
  n = (int)golden_count(&b->g, "greedy.lengths");
  for (int i = 0; i < PROMPTS; i++) {
    if (i % n == 0) at = 0;
    b->prompt[i] = (tri_prompt){100 + i, b->token + at, length[i % n]};
    at += length[i % n];
  }
  free(length);
}

static void close_bench(bench *b) {
  free(b->token);
  tri_sampler_close(&b->s);
  tri_model_close(&b->m);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

/* The work of a generation's callbacks. */
typedef struct watcher {
  int64_t work;     /* counted work of a step on this rank */
  int     calls;    /* of halt */
  int     halt_at;  /* the call of halt that returns true, or 0 */
  int     fails_at; /* the answer of this rank whose end fails, or 0 */
  int     ended;
  int     most, total; /* of progress */
} watcher;

static bool halt(void *ctx) {
  watcher          *w = ctx;
  volatile uint64_t x = 1;

  for (int64_t i = 0; i < w->work; i++) x = x * 6364136223846793005u + 1;
  return ++w->calls == w->halt_at || (w->halt_at && w->calls > w->halt_at);
}

static void progress(void *ctx, int finished, int total) {
  watcher *w = ctx;

  CHECK(finished >= 0 && finished <= total);
  if (finished > w->most) w->most = finished;
  w->total = total;
}

static tri_status ended(void *ctx, int number, const int32_t *answer, int64_t n, tri_stop_reason why) {
  watcher *w = ctx;

  (void)answer, (void)why;
  CHECK(number >= 0 && number < PROMPTS * GROUP && n > 0);
  if (++w->ended == w->fails_at) TRI_FAIL(TRI_ENUMERIC, "no judge %d", 23);
  return TRI_OK;
}

static const int32_t ends[] = {5, 9};

static tri_generate_opt how(watcher *w) {
  return (tri_generate_opt){.rule = {1.1f, 0.97f, 0, 11},
                            .max_new = NEW,
                            .group = GROUP,
                            .eos = ends,
                            .n_eos = 2,
                            .halt = halt,
                            .halt_ctx = w,
                            .progress = progress,
                            .progress_ctx = w,
                            .finished = ended,
                            .finished_ctx = w};
}

static void expect_same(const tri_rollout *r, const tri_rollout *want) {
  CHECK(r->n_seq == want->n_seq && r->n_tok == want->n_tok && r->group == want->group);
  CHECK(!memcmp(r->start, want->start, ((size_t)r->n_seq + 1) * sizeof *r->start));
  CHECK(!memcmp(r->token, want->token, (size_t)r->n_tok * sizeof *r->token));
  CHECK(!memcmp(r->old_logp, want->old_logp, (size_t)r->n_tok * sizeof *r->old_logp));
  CHECK(!memcmp(r->stop, want->stop, (size_t)r->n_seq * sizeof *r->stop));
  for (int q = 0; q < r->n_seq; q++) CHECK(r->place[q] == q / GROUP && r->sample[q] == q % GROUP);
}

static tri_rollout of_one[2]; /* the answers of a model of one rank, without and with planned memory */

/* One model has a quarter of the rows, and each of its steps has more work. It answers fewer prompts, and the
 * answers of all ranks together are those of one rank. A model without answers is no obstacle. */
static void a_slow_rank_answers_fewer(void **state) {
  (void)state;
  for (int planned = 0; planned < 2; planned++) {
    bench            b;
    watcher          w = {0}, alone = {0};
    tri_rollout      mine = {0}, all = {0}, *want = &of_one[planned];
    tri_generate_opt gen = how(&alone);
    double           n[4] = {0};
    open_bench(&b, 8, 2, planned ? PROMPTS * GROUP : 0);
    if (tensor == 1) OK(tri_sampler_generate(b.s, b.prompt, PROMPTS, &gen, b.se.stream, want));
    gen = how(&w);
    w.work = is_slow(&b) && models() > 1 ? 1000000 : 0;
    OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine));
    CHECK(w.ended == mine.n_seq && w.total == PROMPTS * GROUP && w.most == PROMPTS * GROUP);
    CHECK(is_first(&b) || !mine.n_seq);
    n[b.se.rt.world_rank] = mine.n_seq;
    OK(tri_host_sum(b.se.comm[TRI_WORLD], n, 4));
    for (int r = 0; r + 1 < models(); r++)
      CHECK(2 * n[models() - 1] < n[r], "%.0f %.0f %.0f %.0f answers", n[0], n[1], n[2], n[3]);
    OK(tri_rollout_exchange(&mine, b.se.comm[TRI_WORLD], &all));
    expect_same(&all, want);
    if (world->size % 2 || tensor > 1) tri_rollout_free(want);
    tri_rollout_free(&mine);
    tri_rollout_free(&all);
    OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, 1, &gen, b.se.stream, &mine));
    OK(tri_rollout_exchange(&mine, b.se.comm[TRI_WORLD], &all));
    CHECK(all.n_seq == GROUP);
    tri_rollout_free(&mine);
    tri_rollout_free(&all);
    close_bench(&b);
  }
}

/* Models with memory for few answers share the prompts so that each has its part. */
static void few_answers_have_memory(void **state) {
  bench            b;
  watcher          w = {0};
  tri_generate_opt gen = how(&w);
  tri_rollout      mine = {0}, all = {0};
  int              part = (PROMPTS + models() - 1) / models() * GROUP;

  (void)state;
  open_bench(&b, 8, 2, part);
  OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine));
  CHECK(mine.n_seq <= part && (PROMPTS % models() || !is_first(&b) || mine.n_seq == part));
  OK(tri_rollout_exchange(&mine, b.se.comm[TRI_WORLD], &all));
  CHECK(all.n_seq == PROMPTS * GROUP);
  tri_rollout_free(&mine);
  tri_rollout_free(&all);
  close_bench(&b);
}

/* The last rank is told to stop, or the last model's first rank fails, while prompts are left, or when each
 * model has the answers to one prompt. All ranks end without answers, and the next generation is a whole
 * one. */
static void all_ranks_end_together(void **state) {
  bench b;

  (void)state;
  open_bench(&b, 4, 4, 0);
  for (int k = 0; k < 4; k++) {
    watcher          w = {0};
    tri_generate_opt gen = how(&w);
    tri_rollout      mine = {0};
    tri_status       st;
    bool             fails = k % 2, at_end = k / 2;
    if (is_slow(&b) && fails) w.fails_at = at_end ? 1 : 2;
    if (is_last(&b) && !fails) w.halt_at = at_end ? 2 : 7;
    st = tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, at_end ? models() : PROMPTS, &gen,
                              b.se.stream, &mine);
    CHECK(st == (fails ? TRI_ENUMERIC : TRI_OK) && mine.n_seq == 0);
    if (fails) CHECK(refusal_is("ended() 23"));
    tri_error_clear();
    w = (watcher){0};
    OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine));
    CHECK(mine.n_seq == w.ended);
    tri_rollout_free(&mine);
  }
  close_bench(&b);
}

/* The last rank cannot clear its page table. All ranks return its error, though the end of a generation waits
 * for all ranks of a node. */
static void a_rank_that_cannot_begin_is_heard(void **state) {
  watcher          w = {0};
  tri_generate_opt gen = how(&w);
  tri_rollout      mine = {0};
  bench            b;

  (void)state;
  open_bench(&b, 4, 4, 0);
  if (is_last(&b)) failing_bytes = 4 * ((LONGEST + NEW + TRI_PAGE - 1) / TRI_PAGE) * sizeof(int32_t);
  CHECK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine) ==
            TRI_EDEVICE &&
        mine.n_seq == 0 && refusal_is("spy_fill() 29"));
  tri_error_clear();
  failing_bytes = 0;
  OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine));
  CHECK(mine.n_seq == w.ended);
  tri_rollout_free(&mine);
  close_bench(&b);
}

/* The last rank fails as it packs its first or its last weights. All ranks return its error, also where the
 * ranks of a node share memory. A rank alone packs none. */
static void a_rank_that_cannot_hold_is_heard(void **state) {
  (void)state;
  for (int k = 0; k < 4 && world->size > 1; k++) {
    watcher          w = {0};
    tri_generate_opt gen = how(&w);
    tri_rollout      mine = {0};
    bench            b;
    int              all;
    one_node = tensor > 1 || k / 2;
    open_bench(&b, 4, 4, 0);
    sizes = 0;
    OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, 1, &gen, b.se.stream, &mine));
    tri_rollout_free(&mine);
    all = sizes;
    CHECK(all > 0);
    close_bench(&b);
    open_bench(&b, 4, 4, 0); /* the first generation of this sampler */
    if (is_last(&b)) failing_size = k % 2 ? all : 1;
    sizes = 0;
    CHECK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine) ==
              TRI_EDEVICE &&
          mine.n_seq == 0 && refusal_is("spy_linear_size() 31"));
    tri_error_clear();
    failing_size = 0;
    w = (watcher){0};
    OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine));
    CHECK(mine.n_seq == w.ended);
    tri_rollout_free(&mine);
    close_bench(&b);
  }
  one_node = false;
}

static tri_status fill_nan(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                           float *out) {
  (void)ctx, (void)kind, (void)u, (void)i, (void)begin;
  for (int64_t k = 0; k < count; k++) out[k] = NAN;
  return TRI_OK;
}

/* All ranks return the same error, and the next generation is a whole one. */
static void a_diverged_model_is_named(void **state) {
  watcher          w = {0};
  tri_generate_opt gen = how(&w);
  tri_rollout      mine = {0};
  bench            b;

  (void)state;
  open_bench(&b, 4, 4, 0);
  OK(tri_params_fill(tri_model_params(b.m), TRI_STATE_WEIGHT, fill_nan, NULL, b.se.stream));
  CHECK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine) ==
                TRI_ENUMERIC &&
            mine.n_seq == 0 && refusal_is("check_drawn() 0"),
        "%s", tri_error_message());
  tri_error_clear();
  fill_model(b.m, &b.g, b.se.stream);
  OK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine));
  CHECK(mine.n_seq == w.ended);
  tri_rollout_free(&mine);
  close_bench(&b);
}

static tri_decode_in_fn *real_decode_in;
static int               steps_left = -1; /* decode steps that this rank begins before one fails */

static tri_status spy_decode_in(tri_stream *s, tri_out token, tri_out table, tri_in drawn, tri_in from,
                                tri_in pos, tri_in slot) {
  if (steps_left-- == 0) TRI_FAIL(TRI_EDEVICE, "no step %d", 37);
  return real_decode_in(s, token, table, drawn, from, pos, slot);
}

/* With the argument "apart", and as the only case, because it ends the process. The last rank fails in a
 * decode step while the other rank of its model waits for it there. It returns alone. */
static int fails_apart(void) {
  watcher          w = {0};
  tri_generate_opt gen = how(&w);
  tri_rollout      mine = {0};
  bench            b;

  tensor = 2;
  ranks_open(NULL);
  open_bench(&b, 4, 4, 0);
  real_decode_in = spied_kernels.decode_in;
  spied_kernels.decode_in = spy_decode_in;
  if (is_last(&b)) steps_left = 21;
  CHECK(tri_generate_by_need(b.s, b.se.comm[TRI_WORLD], b.prompt, PROMPTS, &gen, b.se.stream, &mine) ==
                TRI_EDEVICE &&
            is_last(&b) && mine.n_seq == 0 && refusal_is("spy_decode_in() 37"),
        "%s", tri_error_message());
  printf("the last rank returns alone\n");
  tri_runtime_abort(3);
}

static int as_pairs(void **state) {
  (void)state;
  tensor = 2;
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slow_rank_answers_fewer),        cmocka_unit_test(few_answers_have_memory),
      cmocka_unit_test(all_ranks_end_together),           cmocka_unit_test(a_rank_that_cannot_begin_is_heard),
      cmocka_unit_test(a_rank_that_cannot_hold_is_heard), cmocka_unit_test(a_diverged_model_is_named),
  };
  int failed;

  if (argc > 1 && !strcmp(argv[1], "apart")) return fails_apart();
  failed = cmocka_run_group_tests_name("a model a rank", tests, ranks_open, NULL);

  if (world->size % 2 == 0)
    failed += cmocka_run_group_tests_name("models of two ranks", tests, as_pairs, NULL);
  ranks_close(NULL);
  return failed;
}
