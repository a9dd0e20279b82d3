/* sampler_case.h - helpers for the tests of generation. It opens a sampler on a golden model, collects
 * answers and compares them with goldens, with the trainer and with each other. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_SAMPLER_CASE_H
#define TRI_TESTS_SAMPLER_CASE_H

#include "model_case.h"

#include "generate/sampler.h"
#include "staging/batch.h"

enum { TOKENS = 128, MOST_NEW = 40, LONGEST = 70 };

typedef struct bench {
  tri_session  se;
  golden       g;
  tri_model   *m;
  tri_staging *staging;
  tri_sampler *s;
  tri_prompt  *prompt; /* all sequences of the golden file */
  int32_t     *token;
  int          n_prompt;
} bench;

static const tri_device_ops *instead;   /* in place of the device's table, or NULL */
static int64_t               few_pages; /* pages of the cache, or 0 for all */

static inline void open_bench(bench *b, const char *name, tri_dtype dtype, tri_shard_plan plan,
                              int max_sequences, int64_t max_prefill) {
  tri_sampler_opt so = {.max_sequences = max_sequences,
                        .max_prompt = LONGEST,
                        .max_new = MOST_NEW,
                        .max_prefill = max_prefill,
                        .max_answers = max_sequences % 2 ? 0 : 1024, /* both ways to store answers */
                        .max_pages = few_pages};
  tri_model_opt   opt;
  int32_t        *length;
  int64_t         at = 0;

  memset(b, 0, sizeof *b);
  session_open(&b->se, 1);
  if (instead) b->se.device->ops = instead;
  golden_open_model(&b->g, name);
  opt = model_options(&b->g, &b->se, dtype, max_prefill > TOKENS ? max_prefill : TOKENS);
  opt.rollout = true;
  opt.plan = plan;
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m));
  OK(tri_staging_open(b->se.device, b->se.ledger, &(tri_staging_opt){TOKENS, TOKENS, 0, TRI_PHASE_LEARN},
                      &b->staging));
  OK(tri_sampler_open(b->se.device, b->se.ledger, b->m, dtype, &so, &b->s));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->m, b->se.stream));
  fill_model(b->m, &b->g, b->se.stream);
  OK(tri_model_check(b->m, b->se.stream));
  b->token = golden_get_int(&b->g, "greedy.prompts");
  length = golden_get_int(&b->g, "greedy.lengths");
  b->n_prompt = (int)golden_count(&b->g, "greedy.lengths");
  b->prompt = test_alloc(b->n_prompt, sizeof *b->prompt);
  for (int i = 0; i < b->n_prompt; at += length[i++])
    b->prompt[i] = (tri_prompt){100 + i, b->token + at, length[i]};
  free(length);
}

static inline void close_bench(bench *b) {
  free(b->prompt);
  free(b->token);
  tri_sampler_close(&b->s);
  tri_staging_close(&b->staging);
  tri_model_close(&b->m);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

static const tri_shard_plan hybrid = {TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD};
static const tri_shard_plan zero3 = {TRI_SHARD_WORLD, TRI_SHARD_WORLD, TRI_SHARD_WORLD};

static inline const int32_t *answer_of(const tri_rollout *r, int q, int64_t *n) {
  *n = r->start[q + 1] - r->start[q] - r->prompt_len[q];
  return r->token + r->start[q] + r->prompt_len[q];
}

/* ---- greedy against transformers ---- */

static inline void expect_greedy(bench *b, const tri_rollout *r, int group, bool ended) {
  int32_t *want = golden_get_int(&b->g, ended ? "greedy.ended" : "greedy.answers");
  int32_t *length = ended ? golden_get_int(&b->g, "greedy.ended_lengths") : NULL,
          *eos = golden_get_int(&b->g, "greedy.eos");
  int64_t at = 0, n;

  CHECK(r->n_seq == b->n_prompt * group);
  for (int i = 0; i < b->n_prompt; i++) {
    int64_t n_want = ended ? length[i] : MOST_NEW;
    for (int k = 0; k < group; k++) {
      int            q = i * group + k;
      const int32_t *got = answer_of(r, q, &n);
      CHECK(n == n_want, "%s, prompt %d: %lld tokens, not %lld", b->g.folder, i, (long long)n,
            (long long)n_want);
      for (int64_t t = 0; t < n; t++)
        CHECK(got[t] == want[at + t], "%s, prompt %d, token %lld is %d, not %d", b->g.folder, i, (long long)t,
              got[t], want[at + t]);
      CHECK(r->stop[q] == (ended && got[n - 1] == *eos ? TRI_STOP_EOS : TRI_STOP_LENGTH));
      CHECK(r->prompt_id[q] == b->prompt[i].id && r->sample[q] == k &&
            r->prompt_len[q] == b->prompt[i].n_token);
      CHECK(!memcmp(r->token + r->start[q], b->prompt[i].token, (size_t)b->prompt[i].n_token * 4));
    }
    at += n_want;
  }
  free(want);
  free(length);
  free(eos);
}

static inline void greedy_of(bench *b, int group) {
  int32_t         *eos = golden_get_int(&b->g, "greedy.eos");
  tri_generate_opt gen = {.rule = {0, 1, 0, 1}, .max_new = MOST_NEW, .group = group};
  tri_rollout      r = {0};

  for (int ended = 0; ended < 2; ended++) {
    gen.eos = eos;
    gen.n_eos = ended;
    OK(tri_sampler_generate(b->s, b->prompt, b->n_prompt, &gen, b->se.stream, &r));
    expect_greedy(b, &r, group, ended);
    tri_rollout_free(&r);
  }
  free(eos);
}

/* ---- the gap to the trainer ---- */

/* Compares every log-probability of the answers with a training forward, bit for bit. The forward takes one
 * sequence at a time, or all that fit. */
static inline void expect_no_gap(bench *b, const tri_rollout *r, float temperature, int most) {
  for (int q = 0; q < r->n_seq;) {
    int          seq[TOKENS], n = 0;
    int64_t      tokens = 0;
    tri_batch    batch;
    tri_rows_out given;
    tri_loss_in  in;
    tri_loss_out out;
    while (q < r->n_seq && n < most && tokens + r->start[q + 1] - r->start[q] <= TOKENS) {
      tokens += r->start[q + 1] - r->start[q];
      seq[n++] = q++;
    }
    OK(tri_batch_load(b->staging, r, seq, n, b->se.stream, &batch));
    OK(tri_model_forward(b->m, &batch, n % 2 != 0, temperature > 0 ? 1.0f / temperature : 1.0f, &given,
                         b->se.stream));
    OK(tri_batch_fetch(b->staging, &given, NULL, b->se.stream, &in, &out));
    for (int64_t k = 0; k < in.n; k++)
      CHECK(!memcmp(&in.logp[k], &r->old_logp[in.origin[k]], sizeof(float)),
            "%s: sampler %.9g, trainer %.9g in a batch of %d sequences", b->g.folder,
            (double)r->old_logp[in.origin[k]], (double)in.logp[k], n);
  }
}

/* Every rank runs the same number of forwards, since all generate the same. */
static inline void gap_of(bench *b, const tri_sample_rule *rule, int group, int most) {
  tri_generate_opt gen = {.rule = *rule, .max_new = MOST_NEW, .group = group};
  tri_rollout      r = {0};

  OK(tri_sampler_generate(b->s, b->prompt, b->n_prompt, &gen, b->se.stream, &r));
  expect_no_gap(b, &r, rule->temperature, most);
  tri_rollout_free(&r);
}

/* ---- answers of many prompts ---- */

typedef struct answers {
  int32_t token[8][6][MOST_NEW]; /* [prompt][sample] */
  float   logp[8][6][MOST_NEW];
  int64_t n[8][6];
} answers;

static const int32_t some_ends[] = {5, 9, 23, 60};
static int           n_ends = 2;

/* Answers to prompts order[0..n), with `group` answers each. */
static inline void collect(bench *b, const int *order, int n, int group, uint64_t seed, answers *out) {
  tri_prompt       prompt[8];
  tri_generate_opt gen = {
      .rule = {1.1f, 0.97f, 0, seed}, .max_new = MOST_NEW, .group = group, .eos = some_ends, .n_eos = n_ends};
  tri_rollout r = {0};

  memset(out, 0, sizeof *out);
  for (int i = 0; i < n; i++) prompt[i] = b->prompt[order[i]];
  OK(tri_sampler_generate(b->s, prompt, n, &gen, b->se.stream, &r));
  for (int q = 0; q < r.n_seq; q++) {
    int            i = order[q / group], k = q % group;
    const int32_t *token = answer_of(&r, q, &out->n[i][k]);
    memcpy(out->token[i][k], token, (size_t)out->n[i][k] * 4);
    memcpy(out->logp[i][k], r.old_logp + r.start[q] + r.prompt_len[q], (size_t)out->n[i][k] * 4);
  }
  tri_rollout_free(&r);
}

static inline bool same(const answers *a, const answers *c, int i, int group) {
  return !memcmp(a->n[i], c->n[i], (size_t)group * sizeof a->n[i][0]) &&
         !memcmp(a->token[i], c->token[i], (size_t)group * sizeof a->token[i][0]) &&
         !memcmp(a->logp[i], c->logp[i], (size_t)group * sizeof a->logp[i][0]);
}

static const int every_prompt[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* ---- requests ---- */

enum { N_REQUESTS = 48 };

/* The tokens of a request outside the sampler. */
typedef struct saved {
  int32_t token[MOST_NEW];
  float   logp[MOST_NEW];
  uint8_t mark[MOST_NEW];
} saved;

static inline bool is_answer(const tri_request *r, const answers *a) {
  int i = r->place, k = r->sample;

  for (int64_t t = 0; t < r->n; t++)
    if (r->mark[t]) return false;
  return r->n == a->n[i][k] && !memcmp(r->token, a->token[i][k], (size_t)r->n * 4) &&
         !memcmp(r->logp, a->logp[i][k], (size_t)r->n * 4);
}

static inline tri_generate_opt how_collect_asks(int group, uint64_t seed) {
  return (tri_generate_opt){
      .rule = {1.1f, 0.97f, 0, seed}, .max_new = MOST_NEW, .group = group, .eos = some_ends, .n_eos = n_ends};
}

/* Ends a generation after 3 and `steps` steps. Answers that are not done go on in the next one, with the
 * tokens they have, and end as if nothing had happened. */
static inline void go_on_later(bench *b, const answers *want, int steps) {
  static saved     kept[N_REQUESTS];
  tri_request      r[N_REQUESTS], *list[N_REQUESTS];
  tri_generate_opt gen = how_collect_asks(6, 11);
  tri_sampler_news news;
  int              n = 0, with_tokens = 0;

  OK(tri_sampler_begin(b->s, &gen, b->se.stream));
  tri_sampler_tell(b->s, &news);
  CHECK(news.want >= 1 && news.queued + news.running + news.done == 0);
  for (int i = 0; i < N_REQUESTS; i++) {
    r[i] = (tri_request){.prompt = &b->prompt[i / 6], .place = i / 6, .sample = i % 6};
    list[i] = &r[i];
  }
  OK(tri_sampler_add(b->s, list, 12));
  OK(tri_sampler_run(b->s, 3, &news));
  CHECK(news.queued + news.running + news.done == 12 && news.running > 0);
  OK(tri_sampler_add(b->s, list + 12, N_REQUESTS - 12));
  OK(tri_sampler_run(b->s, steps, &news));
  CHECK(news.queued > 0 && news.done > 0 && news.running > 0 && news.want == 0);
  CHECK(news.row_steps <= news.row_steps_all && news.row_steps > steps);
  OK(tri_sampler_end(b->s));
  for (int i = 0; i < N_REQUESTS; i++) {
    if (r[i].state == TRI_REQUEST_DONE) {
      CHECK(is_answer(&r[i], want), "prompt %d, answer %d", i / 6, i % 6);
      continue;
    }
    CHECK(r[i].state == TRI_REQUEST_QUEUED);
    with_tokens += r[i].n > 0;
    if (r[i].n) {
      memcpy(kept[n].token, r[i].token, (size_t)r[i].n * 4);
      memcpy(kept[n].logp, r[i].logp, (size_t)r[i].n * 4);
      memcpy(kept[n].mark, r[i].mark, (size_t)r[i].n);
    }
    r[i].token = kept[n].token, r[i].logp = kept[n].logp, r[i].mark = kept[n].mark;
    list[n++] = &r[i];
  }
  CHECK(with_tokens > 2);
  OK(tri_sampler_begin(b->s, &gen, b->se.stream));
  OK(tri_sampler_add(b->s, list, n));
  OK(tri_sampler_run(b->s, 100000, &news));
  CHECK(news.done == n && news.queued == 0 && news.running == 0);
  OK(tri_sampler_end(b->s));
  for (int i = 0; i < n; i++)
    CHECK(is_answer(list[i], want), "prompt %d, answer %d went on", list[i]->place, list[i]->sample);
}

/* The news of the last generation tell whether its cache was short. */
static inline void expect_short(const bench *b, int64_t done, bool is_short) {
  tri_sampler_news n;

  tri_sampler_tell(b->s, &n);
  CHECK(n.done == done && n.queued == 0 && n.running == 0);
  CHECK((n.preempted > 0) == is_short && (n.recomputed > 0) == is_short, "%lld gave up, %lld tokens again",
        (long long)n.preempted, (long long)n.recomputed);
  CHECK(n.row_steps > 0 && n.row_steps <= n.row_steps_all);
}

#endif
