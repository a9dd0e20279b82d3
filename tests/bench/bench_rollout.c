/* bench_rollout.c - measures a rollout whose answers have very different lengths. Not a test.
 *
 * mpirun -n RANKS bench_rollout whole|need DEVICE CONFIG.json PROMPTS PROMPT NEW PAGES ROWS
 * answers PROMPTS prompts of PROMPT random tokens. Answers have lognormal lengths (sigma 1, mean NEW / 8, at
 * most NEW), which are a function of their first tokens, so both ways give the same answers. Each rank has a
 * cache of PAGES pages.
 *   whole  Each rank gets an even part of the prompts before it begins. Every answer has pages for its full
 *          length, so a rank decodes as many at once as have space, at most ROWS.
 *   need   Ranks take prompts by need, and answers take pages as they grow. A rank decodes up to ROWS.
 * It prints one line: the slowest rank's seconds, all tokens of answers, the share of rows in use, the
 * answers preempted, and the tokens computed again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/rng.h"
#include "bench_case.h"
#include "comm/session.h"
#include "generate/by_need.h"
#include "io/model/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
  tri_session  se;
  tri_source  *source;
  tri_model   *model;
  tri_sampler *sampler;
  tri_prompt  *prompt; /* [n] */
  int32_t     *token;  /* tokens of all prompts */
  int64_t      n, prompt_len, max_new, pages, rows;
  bool         by_need;
} bench;

/* Returns the options of the cache. A `whole` cache has as many rows as its pages hold at full length. */
static tri_sampler_opt sampler_options(const bench *b) {
  tri_sampler_opt so = {.max_sequences = (int)b->rows,
                        .max_prompt = b->prompt_len,
                        .max_new = b->max_new,
                        .max_prefill = tri_sampler_prefill(b->rows, b->prompt_len)};

  if (b->by_need) {
    so.max_pages = b->pages;
    if (so.max_prefill < b->prompt_len + b->max_new) so.max_prefill = b->prompt_len + b->max_new;
    return so;
  }
  while (so.max_sequences > 1 &&
         tri_sampler_full_pages(so.max_sequences, b->prompt_len, b->max_new) > b->pages)
    so.max_sequences--;
  return so;
}

static void open_all(bench *b, const char *device, const char *config) {
  const tri_session_opt  opt = {.device = device, .timeout_s = 600};
  const tri_sampler_opt  so = sampler_options(b);
  const tri_model_shape *shape;

  OK(tri_session_open(&opt, &b->se));
  OK(tri_source_open_random(config, NULL, 1, &b->source));
  shape = tri_source_shape(b->source);
  const tri_model_opt mo = {.shape = shape,
                            .dtype = TRI_F32,
                            .place = b->se.place,
                            .rollout = true,
                            .max_tokens = so.max_prefill > b->rows ? so.max_prefill : b->rows,
                            .max_rows = b->rows,
                            .max_positions = b->prompt_len + b->max_new,
                            .label = "model"};
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &mo, &b->model));
  OK(tri_sampler_open(b->se.device, b->se.ledger, b->model, TRI_F32, &so, &b->sampler));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->model, b->se.stream));
  OK(tri_source_load(b->source, "/model", tri_model_params(b->model), b->se.comm[TRI_WORLD], b->se.stream));
  bench_prompts(b->n, b->prompt_len, shape->V, &b->token, &b->prompt);
}

static void close_all(bench *b) {
  free(b->prompt);
  free(b->token);
  tri_sampler_close(&b->sampler);
  tri_model_close(&b->model);
  tri_source_close(&b->source);
  tri_session_close(&b->se);
}

/* Returns a number above 0 and below 1. */
static double uniform(uint64_t key) { return ((double)(tri_rng_mix(key) >> 11) + 0.5) * 0x1p-53; }

enum { KEYS = 3 }; /* tokens that decide the length */

/* Ends an answer at its length. */
static bool look(void *ctx, const int32_t *answer, int64_t n) {
  const bench *b = ctx;
  uint64_t     key = 0;
  double       normal, length;

  if (n < KEYS) return false;
  for (int i = 0; i < KEYS; i++) key = tri_rng_mix(key ^ (uint64_t)answer[i]);
  normal = sqrt(-2 * log(uniform(key))) * cos(2 * acos(-1.0) * uniform(key + 1));
  length = exp(log((double)b->max_new / 8) - 0.5 + normal); /* the mean of a lognormal is exp(mu + 1/2) */
  return (double)n >= length;
}

/* Each rank answers the prompts rank, rank + size and so on. */
static void answer_whole(bench *b, const tri_generate_opt *gen, tri_rollout *r) {
  const tri_comm *world = b->se.comm[TRI_WORLD];
  int             n = 0;

  for (int64_t k = world->rank; k < b->n; k += world->size) b->prompt[n++] = b->prompt[k];
  OK(tri_sampler_generate(b->sampler, b->prompt, n, gen, b->se.stream, r));
}

static void run(bench *b) {
  const tri_generate_opt gen = {
      .rule = {1, 1, 0, 3}, .max_new = b->max_new, .group = 1, .stop = look, .ctx = b};
  tri_rollout      r = {0};
  tri_sampler_news did;
  double           slowest, sum[5];

  OK(tri_agree(b->se.comm[TRI_WORLD], TRI_OK)); /* all begin together */
  const double from_s = tri_now_s();
  if (b->by_need)
    OK(tri_generate_by_need(b->sampler, b->se.comm[TRI_WORLD], b->prompt, (int)b->n, &gen, b->se.stream, &r));
  else
    answer_whole(b, &gen, &r);
  OK(tri_agree(b->se.comm[TRI_WORLD], TRI_OK)); /* all have ended */
  slowest = tri_now_s() - from_s;
  tri_sampler_tell(b->sampler, &did);
  sum[0] = (double)(r.n_tok - r.n_seq * b->prompt_len);
  sum[1] = (double)did.row_steps;
  sum[2] = (double)did.row_steps_all;
  sum[3] = (double)did.preempted;
  sum[4] = (double)did.recomputed;
  OK(tri_host_sum(b->se.comm[TRI_WORLD], sum, 5));
  tri_rollout_free(&r);
  if (b->se.rt.world_rank) return;
  printf("%s: %.3f s, %.0f tokens, %.0f tokens/s, rows used %.3f, preempted %.0f, recomputed %.0f\n",
         b->by_need ? "need" : "whole", slowest, sum[0], sum[0] / slowest, sum[1] / sum[2], sum[3], sum[4]);
}

int main(int argc, char **argv) {
  bench b = {0};

  if (argc != 9 || (strcmp(argv[1], "whole") && strcmp(argv[1], "need"))) {
    fprintf(stderr, "usage: bench_rollout whole|need DEVICE CONFIG.json PROMPTS PROMPT NEW PAGES ROWS\n");
    return 64;
  }
  b.by_need = !strcmp(argv[1], "need");
  b.n = bench_positive("bench_rollout", argv[4]);
  b.prompt_len = bench_positive("bench_rollout", argv[5]);
  b.max_new = bench_positive("bench_rollout", argv[6]);
  b.pages = bench_positive("bench_rollout", argv[7]);
  b.rows = bench_positive("bench_rollout", argv[8]);
  open_all(&b, argv[2], argv[3]);
  run(&b);
  close_all(&b);
  return 0;
}
