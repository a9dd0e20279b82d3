/* test_sampler.c - tests generation. Greedy answers are compared with transformers token for token
 * (make_model_golden.py). Answers stay the same for every batching, order of prompts, number of answers
 * and number of ranks, with recorded steps or without. Other tests check the order in which steps are
 * queued and waited for. Log-probabilities match the trainer's bit for bit, in f32 and bf16. They stay the
 * same in caches of any size, and if a generation ends early and goes on later. Run with 1, 2 and 3 ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "sampler_case.h"

#include "base/hash.h"
#include "device/gpu_plan.h"
#include "refusal_case.h"

/* Several ranks, and the brief run, take some of the golden models. All models pass through one rank. */
static int model_step(void) { return world->size > 1 ? 4 * test_step(3) : test_step(12); }

/* Answers to each prompt. The emulated device takes few, as a kernel takes each of them alike. */
static int group(void) { return 6 / test_step(3); }

/* ---- greedy against transformers ---- */

/* Brief: three models in one of the four ways each, with one answer to each prompt. */
static void greedy_is_transformers(void **state) {
  const int     rows[] = {1, 3, 8, 40};
  const int64_t prefill[] = {70, 75, 300, 1000};

  (void)state;
  for (int i = 0; i < N_MODELS; i += model_step())
    for (int k = test_step(4) > 1 ? 1 + i % 8 / 2 : 0; k < 4; k += test_step(4)) { /* brief: 1, 3, 1 */
      bench b;
      open_bench(&b, golden_models[i], TRI_F32, k % 2 ? zero3 : hybrid, rows[k], prefill[k]);
      greedy_of(&b, test_step(2) > 1 ? 1 : 1 + k);
      close_bench(&b);
    }
}

/* ---- the gap to the trainer ---- */

/* Brief: three models, both types, one way of sharding in turns, one or two of the five rules in turns, one
 * answer to each prompt. */
static void the_gap_is_zero(void **state) {
  const tri_sample_rule rules[] = {
      {0, 1, 0, 3}, {1, 1, 0, 4}, {0.7f, 1, 0, 5}, {1.3f, 0.9f, 0, 6}, {1, 0.8f, 7, 7}};

  int n_bench = 0;

  (void)state;
  for (int i = 0; i < N_MODELS; i += model_step())
    for (int half = 0; half < 2; half++)
      for (int k = (n_bench + i / 8) % test_step(2); k < 2; k += test_step(2), n_bench++) {
        bench b;
        open_bench(&b, golden_models[i], half ? TRI_BF16 : TRI_F32, k ? zero3 : hybrid, k ? 5 : 19,
                   k ? 80 : 400);
        /* in the brief run the ways above and these rules alternate, so each runs in both types */
        for (size_t rule = (size_t)(n_bench % test_step(3)); rule < sizeof rules / sizeof *rules;
             rule += (size_t)test_step(3))
          gap_of(&b, &rules[rule], 3 / test_step(3), rule % 2 ? 1 : TOKENS);
        close_bench(&b);
      }
}

/* ---- the same answers whatever the company ---- */

/* Row counts range from 1 to more than the number of answers. Free slots are refilled at once, and pages are
 * reused many times. Brief: f32 with 1 and 64 rows, bf16 with 1 and 5, and two answers to each prompt. */
static void answers_do_not_depend_on_company(void **state) {
  const int forward[] = {0, 1, 2, 3, 4, 5, 6, 7}, backward[] = {7, 5, 3, 1, 6, 4, 2, 0},
            rows[] = {1, 2, 5, 7, 64};
  static answers  first, a;
  tri_shard_plan  plan[] = {hybrid, zero3};
  const tri_dtype types[] = {TRI_F32, TRI_BF16};
  const int       n = group(), fewer = n / 3 + (n < 3); /* answers to each prompt */

  (void)state;
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < (half && test_step(2) == 2 ? 3 : 5); k += test_step(half ? 2 : 4)) {
      bench b;
      open_bench(&b, "model/qwen2", types[half], plan[k % 2], rows[k], k % 2 ? 1000 : 70);
      collect(&b, forward, 8, n, 11, &a);
      if (k == 0) first = a;
      for (int i = 0; i < 8; i++) CHECK(same(&a, &first, i, n), "%d rows, prompt %d", rows[k], i);
      if (k == 0 && test_step(2) == 2) { /* in the brief run one row is alone */
        close_bench(&b);
        continue;
      }
      collect(&b, backward, 8, n, 11, &a);
      for (int i = 0; i < 8; i++) CHECK(same(&a, &first, i, n), "%d rows, backward, prompt %d", rows[k], i);
      collect(&b, forward, 8, fewer, 11, &a); /* the first answers of many */
      for (int i = 0; i < 8; i++)
        CHECK(same(&a, &first, i, fewer), "%d rows, %d answers, prompt %d", rows[k], fewer, i);
      /* a rank has only its own prompts, or none */
      int mine[8], n_mine = 0;
      for (int i = b.se.rt.world_rank; i < 5; i += b.se.rt.world_size)
        if (b.se.rt.world_rank < 2) mine[n_mine++] = i;
      collect(&b, mine, n_mine, n, 11, &a);
      for (int i = 0; i < n_mine; i++)
        CHECK(same(&a, &first, mine[i], n), "%d rows, prompt %d on its rank", rows[k], mine[i]);
      close_bench(&b);
    }
}

/* Other seeds, samples and prompts give other answers. End tokens end them. */
static void answers_are_keyed(void **state) {
  const int      forward[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static answers a, c;
  bench          b;
  int            cut = 0;

  (void)state;
  open_bench(&b, "model/llama", TRI_F32, hybrid, 16, 200);
  collect(&b, forward, 8, group(), 1, &a);
  collect(&b, forward, 8, group(), 2, &c);
  for (int i = 0; i < 8; i++) {
    CHECK(!same(&a, &c, i, group()));
    CHECK(memcmp(a.token[i][0], a.token[i][1], sizeof a.token[i][0]) != 0);
    for (int k = 0; k < group(); k++)
      for (int64_t t = 0; t < a.n[i][k]; t++) {
        bool end = a.token[i][k][t] == some_ends[0] || a.token[i][k][t] == some_ends[1];
        CHECK(!end || t == a.n[i][k] - 1);
        cut += end;
      }
  }
  CHECK(cut > 0);
  b.prompt[1] = b.prompt[0]; /* the same text on another line of the file */
  b.prompt[1].id = 7;
  collect(&b, forward, 8, group(), 1, &c);
  CHECK(same(&a, &c, 0, group()) && memcmp(c.token[0], c.token[1], sizeof c.token[0]) != 0);
  close_bench(&b);
}

/* ---- requests ---- */

/* Brief: bf16 only. */
static void requests_go_on_later(void **state) {
  const int       forward[] = {0, 1, 2, 3, 4, 5, 6, 7}, rows[] = {7, 16};
  const tri_dtype types[] = {TRI_F32, TRI_BF16};
  static answers  want;

  (void)state;
  for (int half = test_step(2) - 1; half < 2; half++) {
    bench b;
    open_bench(&b, "model/qwen2", types[half], half ? zero3 : hybrid, rows[half], 300);
    collect(&b, forward, 8, 6, 11, &want);
    go_on_later(&b, &want, 25);
    close_bench(&b);
  }
}

/* ---- recorded steps ---- */

static tri_device_ops spied, real;
static int            n_asked, n_recorded, n_run, n_closed;

static tri_status spy_record(tri_stream *s, tri_status (*work)(void *ctx, tri_stream *s), void *ctx,
                             tri_graph **out) {
  tri_status st = real.graph_record(s, work, ctx, out);
  n_asked++;
  n_recorded += *out != NULL;
  return st;
}
static tri_status spy_run(tri_graph *g, tri_stream *s) {
  n_run++;
  return real.graph_run(g, s);
}
static void spy_close(tri_graph **g) {
  n_closed += *g != NULL;
  real.graph_close(g);
}

/* The work, then a call that no device can record. */
typedef struct bad_work {
  tri_status (*work)(void *ctx, tri_stream *s);
  void *ctx;
} bad_work;
static tri_status wait_too(void *ctx, tri_stream *s) {
  const bad_work *w = ctx;
  TRI_TRY(w->work(w->ctx, s));
  return s->device->ops->stream_sync(s);
}
static tri_status spoil_record(tri_stream *s, tri_status (*work)(void *ctx, tri_stream *s), void *ctx,
                               tri_graph **out) {
  bad_work w = {work, ctx};
  return spy_record(s, wait_too, &w, out);
}

/* Steps run call by call and without padding, as recordings, or on a device that refuses to record. All give
 * the same answers. 48 answers of many lengths in 40 rows use most row counts more than once. */
static void recorded_steps_change_nothing(void **state) {
  const int      forward[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static answers plain, a;
  bench          b;

  (void)state;
  real = *tri_device_find(test_device());
  if (!real.graph_record) skip();
  n_ends = 4;
  for (int how = 0; how < 3; how++) {
    spied = real;
    spied.graph_record = how == 0 ? NULL : how == 1 ? spy_record : spoil_record;
    spied.graph_run = how == 0 ? NULL : spy_run;
    spied.graph_close = how == 0 ? NULL : spy_close;
    n_asked = n_recorded = n_run = n_closed = 0;
    instead = &spied;
    open_bench(&b, "model/llama_bias", TRI_BF16, hybrid, 40, 200);
    collect(&b, forward, 8, 6, 5, &a);
    if (how == 0) plain = a;
    for (int i = 0; i < 8; i++) CHECK(same(&a, &plain, i, 6), "way %d, prompt %d", how, i);
    CHECK(n_closed == n_recorded); /* no recording outlives its call */
    if (how == 1) {
      CHECK(n_recorded >= 5 && n_asked == n_recorded && n_run >= 2 * n_recorded, "%d of %d recorded, %d runs",
            n_recorded, n_asked, n_run);
      collect(&b, forward, 8, 2, 6, &a); /* another seed, since a recording holds its seed */
      CHECK(n_closed == n_recorded);
      CHECK(!same(&a, &plain, 0, 2));
      collect(&b, forward, 8, 2, 5, &a);
      for (int i = 0; i < 8; i++) CHECK(same(&a, &plain, i, 2), "seed 5 again, prompt %d", i);
    } else {
      CHECK(n_recorded == 0 && n_run == 0 && n_asked == (how == 2));
    }
    close_bench(&b);
  }
  instead = NULL;
  n_ends = 2;
}

/* ---- long contexts ---- */

static tri_kernels kernels;
static int         n_spread, n_whole; /* calls of attn_step, in either mode */

static tri_status spy_step(tri_stream *s, tri_out o, tri_out qkv, tri_out k_page, tri_out v_page,
                           const tri_step_at *at, const tri_attn_rule *rule) {
  n_spread += at->work != NULL;
  n_whole += at->work == NULL;
  return real.kernels->attn_step(s, o, qkv, k_page, v_page, at, rule);
}

static void advise_to_spread(const tri_device *d, tri_device_advice *out) {
  real.advice(d, out);
  out->spread_tokens = 45;
  out->spread_heads = TRI_GPU_SPREAD_HEADS;
}

/* Contexts grow past the number of tokens at which attention is spread. Each row count has one recording
 * below it and another above it. A layer with a shorter window is never spread. The answers equal those of
 * unspread rows, and the trainer's numbers. Brief: two answers to each prompt, and one for the trainer. */
static void long_contexts_are_spread(void **state) {
  const char *const model[] = {"model/qwen2", "model/gemma2"};
  const int         forward[] = {0, 1, 2, 3, 4, 5, 6, 7}, rows[] = {5, 3};
  static answers    plain, a;
  int               n_plain = 0;

  (void)state;
  real = spied = *tri_device_find(test_device());
  if (!real.graph_record) skip();
  kernels = *real.kernels;
  kernels.attn_step = spy_step;
  spied.kernels = &kernels;
  spied.graph_record = spy_record;
  instead = &spied;
  for (int i = 0; i < 2; i++)
    for (int spread = 0; spread < 2; spread++) {
      bench b;
      spied.advice = spread ? advise_to_spread : real.advice;
      n_spread = n_whole = n_recorded = 0;
      open_bench(&b, model[i], i ? TRI_BF16 : TRI_F32, hybrid, rows[i], 200);
      collect(&b, forward, 8, group(), 5, &a);
      if (!spread) plain = a, n_plain = n_recorded;
      for (int q = 0; q < 8; q++) CHECK(same(&a, &plain, q, group()), "%s, prompt %d", model[i], q);
      CHECK(!spread || n_recorded > n_plain, "%s: %d recorded, %d before", model[i], n_recorded, n_plain);
      CHECK(n_whole > 0 && (n_spread > 0) == (spread != 0), "%s: %d calls spread, %d not", model[i], n_spread,
            n_whole);
      if (spread) gap_of(&b, &(tri_sample_rule){1, 1, 0, 4}, 3 / test_step(3), TOKENS);
      close_bench(&b);
    }
  instead = NULL;
}

/* ---- steps under way ---- */

/* A call to the device: an event recorded, a wait for an event (NULL: for the stream), or bytes copied. */
typedef struct call {
  enum { RECORDS, WAITS, COPIES } what;
  const tri_event *event;
  size_t           bytes;
} call;
static call noted[4096];
static int  n_noted;

static void note(call c) {
  CHECK(n_noted < (int)(sizeof noted / sizeof *noted));
  noted[n_noted++] = c;
}
static tri_status note_record(tri_event *e, tri_stream *s) {
  note((call){.what = RECORDS, .event = e});
  return real.event_record(e, s);
}
static tri_status note_wait(tri_event *e) {
  note((call){.what = WAITS, .event = e});
  return real.event_sync(e);
}
static tri_status note_sync(tri_stream *s) {
  note((call){.what = WAITS});
  return real.stream_sync(s);
}
static tri_status note_copy(tri_stream *s, void *dst, const void *src, size_t bytes) {
  note((call){.what = COPIES, .bytes = bytes});
  return real.copy(s, dst, src, bytes);
}

/* Each step has one row, and its prompt of one token needs no prefill. The host waits for a step after it
 * queued one more. The host's own cores run at once, so they have none queued. It never waits for the whole
 * stream. A step copies only its arrays and results, however many pages a row may have. */
static void the_host_is_a_step_behind(void **state) {
  tri_generate_opt gen = {.rule = {1, 1, 0, 3}, .max_new = MOST_NEW, .group = 1};
  tri_rollout      r = {0};
  bench            b;
  int              ahead, n_given = 0, n_taken = 0;

  (void)state;
  real = spied = *tri_device_find(test_device());
  spied.event_record = note_record;
  spied.event_sync = note_wait;
  spied.stream_sync = note_sync;
  spied.copy = note_copy;
  instead = &spied;
  open_bench(&b, "model/llama", TRI_F32, hybrid, 1, 100);
  ahead = tri_device_is_gpu(b.se.device) ? 1 : 0;
  b.prompt[0].n_token = 1;
  n_noted = 0;
  OK(tri_sampler_generate(b.s, b.prompt, 1, &gen, b.se.stream, &r));
  for (int i = 0; i < n_noted; i++) {
    const call *c = &noted[i];
    bool        taken = false; /* is it the event of a step? */
    for (int k = 0; k < n_noted && c->event; k++)
      taken |= noted[k].what == WAITS && noted[k].event == c->event;
    n_given += c->what == RECORDS && taken;
    if (c->what == COPIES) CHECK(c->bytes <= 9 * 16 + 16, "%zu bytes", c->bytes);
    if (c->what != WAITS || n_given == 0 || n_taken == MOST_NEW) continue;
    CHECK(c->event, "the stream is waited for behind step %d", n_given);
    n_taken++;
    CHECK(n_given == (n_taken + ahead < MOST_NEW ? n_taken + ahead : MOST_NEW), "%d given, %d taken", n_given,
          n_taken);
  }
  CHECK(n_given == MOST_NEW && n_taken == MOST_NEW, "%d given, %d taken", n_given, n_taken);
  tri_rollout_free(&r);
  close_bench(&b);
  instead = NULL;
}

/* ---- endings ---- */

static tri_status fill_all(void *weight, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                           float *out) {
  (void)kind, (void)u, (void)i, (void)begin;
  for (int64_t k = 0; k < count; k++) out[k] = *(const float *)weight;
  return TRI_OK;
}

/* In f32 the weights are NaN. In fp16 they are values that only another type can hold. */
static void a_diverged_model_is_named(void **state) {
  static const tri_dtype   type[] = {TRI_F32, TRI_F16};
  static const char *const why[] = {"diverged learning rate", "fp16 65504 model.dtype"};
  tri_generate_opt         gen = {.rule = {1, 1, 0, 3}, .max_new = 9, .group = 2};
  tri_rollout              r = {0};
  bench                    b;

  (void)state;
  for (int i = 0; i < 2; i++) {
    float weight = i ? 1e6f : NAN;
    open_bench(&b, "model/llama", type[i], hybrid, 3, 100);
    OK(tri_params_fill(tri_model_params(b.m), TRI_STATE_WEIGHT, fill_all, &weight, b.se.stream));
    CHECK(tri_sampler_generate(b.s, b.prompt, b.n_prompt, &gen, b.se.stream, &r) == TRI_ENUMERIC);
    CHECK(refusal_is("token 0 answer prompt_id 100"), "%s", tri_error_message());
    CHECK(refusal_is(why[i]), "%s", tri_error_message());
    tri_error_clear();
    tri_rollout_free(&r);
    close_bench(&b);
  }
}

/* The answers reported as they ended. */
typedef struct told {
  tri_rollout *r;
  int          n, rounds, first_round; /* rounds requested, and the round of the first report */
  int          number[64], n_token[64];
  uint64_t     hash[64];
  bool         fails;
} told;

static uint64_t hash_of(const int32_t *token, int64_t n) { return tri_hash64(token, (size_t)n * 4, 0); }

static tri_status tell(void *ctx, int number, const int32_t *answer, int64_t n, tri_stop_reason why) {
  told *t = ctx;

  if (t->fails) TRI_FAIL(TRI_EREWARD, "nobody hears of answer %d", number);
  if (!t->n) t->first_round = t->rounds;
  CHECK(t->n < 64 && (why == TRI_STOP_LENGTH || why == TRI_STOP_EOS));
  t->number[t->n] = number;
  t->n_token[t->n] = (int)n;
  t->hash[t->n++] = hash_of(answer, n);
  return TRI_OK;
}

static bool count_round(void *ctx) {
  ((told *)ctx)->rounds++;
  return false;
}

/* Each answer is reported once, with its own tokens. The first report comes long before the last. A failing
 * report ends the generation. */
static void answers_are_told_as_they_end(void **state) {
  told             t = {0};
  tri_generate_opt gen = {.rule = {1, 1, 0, 3},
                          .max_new = 9,
                          .group = 3,
                          .finished = tell,
                          .finished_ctx = &t,
                          .halt = count_round,
                          .halt_ctx = &t};
  tri_rollout      r = {0};
  bench            b;

  (void)state;
  open_bench(&b, "model/llama", TRI_F32, hybrid, 3, 100);
  OK(tri_sampler_generate(b.s, b.prompt, 8, &gen, b.se.stream, &r));
  CHECK(t.n == 24 && r.n_seq == 24 && t.first_round < t.rounds / 2, "%d told, round %d of %d", t.n,
        t.first_round, t.rounds);
  for (int k = 0; k < t.n; k++) {
    int64_t        n;
    const int32_t *token = answer_of(&r, t.number[k], &n);
    CHECK(n == t.n_token[k] && hash_of(token, n) == t.hash[k], "answer %d", t.number[k]);
    for (int j = 0; j < k; j++) CHECK(t.number[j] != t.number[k]);
  }
  tri_rollout_free(&r);
  t.fails = true;
  CHECK(tri_sampler_generate(b.s, b.prompt, 8, &gen, b.se.stream, &r) == TRI_EREWARD && !r.start);
  tri_error_clear();
  close_bench(&b);
}

/* A rule that stops after an even token. */
static bool stops_at_even(void *ctx, const int32_t *answer, int64_t n) {
  ++*(int *)ctx;
  return answer[n - 1] % 2 == 0;
}

static void stop_rules_end_answers(void **state) {
  int              calls = 0;
  tri_generate_opt gen = {
      .rule = {1, 1, 0, 3}, .max_new = 9, .group = 2, .stop = stops_at_even, .ctx = &calls};
  tri_rollout r = {0};
  bench       b;

  (void)state;
  open_bench(&b, "model/llama", TRI_F32, hybrid, 3, 100);
  OK(tri_sampler_generate(b.s, b.prompt, b.n_prompt, &gen, b.se.stream, &r));
  for (int q = 0; q < r.n_seq; q++) {
    int64_t        n;
    const int32_t *token = answer_of(&r, q, &n);
    for (int64_t t = 0; t < n - 1; t++) CHECK(token[t] % 2 == 1);
    CHECK(n <= 9 && r.stop[q] == (token[n - 1] % 2 ? TRI_STOP_LENGTH : TRI_STOP_STRING));
    CHECK(r.stop[q] != TRI_STOP_LENGTH || n == 9);
    calls -= (int)n;
  }
  CHECK(calls == 0);
  tri_rollout_free(&r);
  close_bench(&b);
}

/* ---- caches smaller than all answers ---- */

static int64_t n_nowhere, n_put; /* tokens of prefills that were computed but not written, and all */

static tri_status spy_put(tri_stream *s, tri_out k_page, tri_out v_page, tri_in qkv, tri_in slot,
                          const tri_heads *h) {
  n_put += slot->dim[0];
  for (int64_t i = 0; i < slot->dim[0]; i++) n_nowhere += ((const int32_t *)slot->data)[i] < 0;
  return real.kernels->kv_put(s, k_page, v_page, qkv, slot, h);
}

/* On the CPU, where the slots can be read. */
static void spy_on_pages(void) {
  n_nowhere = n_put = 0;
  if (strcmp(test_device(), "cpu") != 0) return;
  real = spied = *tri_device_find(test_device());
  kernels = *real.kernels;
  kernels.kv_put = spy_put;
  spied.kernels = &kernels;
  instead = &spied;
}

/* The cache holds all pages, half of them, a fifth, and just one answer with a prompt. Answers give up their
 * pages and are prefilled again, which changes no token and no log-probability. Prompts of all lengths have
 * six answers each, which share pages. All answers are long, then some end early. Brief: bf16 with all pages
 * and the least, two answers to each prompt, all long, and no generation that goes on later, as the rest is
 * decided by the host alone. */
static void small_caches_change_nothing(void **state) {
  const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
  static answers  want[2], a;
  const int64_t   full = tri_sampler_full_pages(20, LONGEST, MOST_NEW);
  const int64_t   pages[] = {0, full / 2, full / 5, tri_sampler_least_pages(LONGEST, MOST_NEW)};

  (void)state;
  for (int type = test_step(2) - 1; type < 3; type += test_step(3))
    for (int k = 0; k < 4; k += test_step(3)) {
      bench b;
      few_pages = pages[k];
      spy_on_pages();
      open_bench(&b, type == 1 ? "model/gemma2" : "model/qwen2", types[type], type % 2 ? zero3 : hybrid, 20,
                 k % 2 ? LONGEST + MOST_NEW : 300);
      for (int ends = 0; ends < 2; ends += test_step(2)) {
        n_ends = 2 * ends;
        collect(&b, every_prompt, 8, group(), 11, k ? &a : &want[ends]);
        if (!ends) expect_short(&b, 8 * group(), k > 0);
        for (int i = 0; i < 8 && k; i++)
          CHECK(same(&a, &want[ends], i, group()), "%lld pages, prompt %d", (long long)pages[k], i);
      }
      CHECK(!instead || (n_put > 0 && (n_nowhere > 0) == (k > 0)), "%lld of %lld tokens were written nowhere",
            (long long)n_nowhere, (long long)n_put);
      if (k && group() == 6) go_on_later(&b, &want[1], 25);
      close_bench(&b);
    }
  few_pages = 0;
  n_ends = 2;
  instead = NULL;
}

/* Any number of pages will do, and any number of rows and of answers to a prompt. A prime number lies between
 * those tried, so that they divide into rows in every way. Several ranks try fewer. */
static void every_cache_will_do(void **state) {
  const int rows[] = {2, 9, 20}, groups[] = {6, 1, 5}, each = world->size > 1 ? 41 : test_step(6) * 8 - 1;
  static answers want, a;

  (void)state;
  n_ends = 0;
  for (int i = test_step(3) - 1; i < 3; i++) {
    int64_t full = tri_sampler_full_pages(rows[i], LONGEST, MOST_NEW);
    for (few_pages = full; few_pages >= tri_sampler_least_pages(LONGEST, MOST_NEW); few_pages -= each) {
      bench b;
      open_bench(&b, "model/llama", TRI_F32, hybrid, rows[i], LONGEST + MOST_NEW);
      collect(&b, every_prompt, 8, groups[i], 5, few_pages == full ? &want : &a);
      for (int q = 0; q < 8 && few_pages < full; q++)
        CHECK(same(&a, &want, q, groups[i]), "%d rows, %lld pages, prompt %d", rows[i], (long long)few_pages,
              q);
      close_bench(&b);
    }
  }
  n_ends = 2;
  few_pages = 0;
}

static bool halt_at_once(void *ctx) { return ((told *)ctx)->rounds++ == 30; }

/* A generation that is halted or fails while answers wait for their pages leaves the cache whole. The next
 * one gives all answers. */
static void a_small_cache_survives_endings(void **state) {
  told             t = {0};
  int              calls = 0;
  tri_generate_opt gen = {.rule = {1, 1, 0, 3}, .max_new = MOST_NEW, .group = 6};
  tri_rollout      want = {0}, r = {0};
  bench            b;

  (void)state;
  open_bench(&b, "model/llama", TRI_F32, hybrid, 16, 300);
  gen.stop = stops_at_even, gen.ctx = &calls;
  OK(tri_sampler_generate(b.s, b.prompt, 8, &gen, b.se.stream, &want));
  close_bench(&b);
  few_pages = tri_sampler_least_pages(LONGEST, MOST_NEW);
  open_bench(&b, "model/llama", TRI_F32, hybrid, 16, 300);
  gen.stop = NULL;
  gen.halt = halt_at_once, gen.halt_ctx = &t;
  OK(tri_sampler_generate(b.s, b.prompt, 8, &gen, b.se.stream, &r));
  CHECK(!r.start && t.rounds == 31);
  gen.halt = NULL;
  gen.finished = tell, gen.finished_ctx = &t;
  t.fails = true;
  CHECK(tri_sampler_generate(b.s, b.prompt, 8, &gen, b.se.stream, &r) == TRI_EREWARD && !r.start);
  tri_error_clear();
  gen.finished = NULL;
  gen.stop = stops_at_even;
  OK(tri_sampler_generate(b.s, b.prompt, 8, &gen, b.se.stream, &r));
  CHECK(r.n_seq == 48 && r.n_tok == want.n_tok && !memcmp(r.stop, want.stop, 48 * sizeof *r.stop));
  CHECK(!memcmp(r.token, want.token, (size_t)r.n_tok * 4));
  tri_rollout_free(&r);
  tri_rollout_free(&want);
  close_bench(&b);
  few_pages = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(greedy_is_transformers),
                                     cmocka_unit_test(the_gap_is_zero),
                                     cmocka_unit_test(answers_do_not_depend_on_company),
                                     cmocka_unit_test(answers_are_keyed),
                                     cmocka_unit_test(long_contexts_are_spread),
                                     cmocka_unit_test(recorded_steps_change_nothing),
                                     cmocka_unit_test(a_diverged_model_is_named),
                                     cmocka_unit_test(answers_are_told_as_they_end),
                                     cmocka_unit_test(stop_rules_end_answers),
                                     cmocka_unit_test(the_host_is_a_step_behind),
                                     cmocka_unit_test(requests_go_on_later),
                                     cmocka_unit_test(small_caches_change_nothing),
                                     cmocka_unit_test(every_cache_will_do),
                                     cmocka_unit_test(a_small_cache_survives_endings)};
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
