/* bench_model.c - measures generation with a model of random weights and many sequences at once. Not a test.
 *
 * bench_model DEVICE LABEL CONFIG.json PROMPT NEW N [N ...]
 * prints two lines for each N, as FIGURE|LABEL, decode, N sequences|tokens/s|number. All N prompts have
 * PROMPT random tokens. Decoding is timed from the first token of the last prompt until each answer has NEW
 * tokens. The other line is the prompts' own tokens/s until then. The weights are bf16, as in `trireme
 * generate`. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/rng.h"
#include "bench_case.h"
#include "comm/session.h"
#include "generate/sampler.h"
#include "io/model/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 4 }; /* chosen: this many answers and tokens load every kernel */

typedef struct bench {
  tri_session  se;
  tri_source  *source;
  tri_model   *model;
  tri_sampler *sampler;
  tri_prompt  *prompt; /* [most] */
  int32_t     *token;  /* tokens of all prompts */
  int64_t      prompt_len, max_new;
} bench;

static void open_all(bench *b, const char *device, const char *config, int64_t most) {
  const tri_session_opt opt = {.device = device, .timeout_s = 600};
  const int64_t         prefill = tri_sampler_prefill(most, b->prompt_len);
  const tri_sampler_opt so = {
      .max_sequences = (int)most, .max_prompt = b->prompt_len, .max_new = b->max_new, .max_prefill = prefill};
  const tri_model_shape *shape;

  OK(tri_session_open(&opt, &b->se));
  OK(tri_source_open_random(config, NULL, 1, &b->source));
  shape = tri_source_shape(b->source);
  const tri_model_opt mo = {.shape = shape,
                            .dtype = TRI_BF16,
                            .place = b->se.place,
                            .rollout = true,
                            .max_tokens = prefill > most ? prefill : most,
                            .max_rows = most,
                            .max_positions = b->prompt_len + b->max_new,
                            .label = "model"};
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &mo, &b->model));
  OK(tri_sampler_open(b->se.device, b->se.ledger, b->model, TRI_BF16, &so, &b->sampler));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->model, b->se.stream));
  OK(tri_source_load(b->source, "/model", tri_model_params(b->model), b->se.comm[TRI_WORLD], b->se.stream));
  bench_prompts(most, b->prompt_len, shape->V, &b->token, &b->prompt);
}

static void close_all(bench *b) {
  free(b->prompt);
  free(b->token);
  tri_sampler_close(&b->sampler);
  tri_model_close(&b->model);
  tri_source_close(&b->source);
  tri_session_close(&b->se);
}

/* Records when all answers have begun and with how many tokens. The sampler calls it after each token. */
typedef struct progress {
  int64_t sequences, begun, tokens, tokens_then;
  double  then_s;
} progress;

static bool look(void *ctx, const int32_t *answer, int64_t n) {
  progress *p = ctx;

  (void)answer;
  p->tokens++;
  if (n == 1 && ++p->begun == p->sequences) {
    p->tokens_then = p->tokens;
    p->then_s = tri_now_s();
  }
  return false;
}

static void generate(bench *b, const char *label, int64_t n, int64_t max_new, bool print) {
  progress         p = {.sequences = n};
  tri_generate_opt gen = {.rule = {1, 1, 0, 3}, .max_new = max_new, .group = 1, .stop = look, .ctx = &p};
  tri_rollout      r = {0};
  const double     from_s = tri_now_s();

  OK(tri_sampler_generate(b->sampler, b->prompt, (int)n, &gen, b->se.stream, &r));
  const double to_s = tri_now_s();
  tri_rollout_free(&r);
  if (!print) return;
  printf("FIGURE|%s, decode, %lld sequences|tokens/s|%.5g\n", label, (long long)n,
         (double)(p.tokens - p.tokens_then) / (to_s - p.then_s));
  printf("FIGURE|%s, prompts, %lld sequences|tokens/s|%.5g\n", label, (long long)n,
         (double)(n * b->prompt_len) / (p.then_s - from_s));
  fflush(stdout);
}

int main(int argc, char **argv) {
  bench   b = {0};
  int64_t most = 0;

  if (argc < 7) {
    fprintf(stderr, "usage: bench_model DEVICE LABEL CONFIG.json PROMPT NEW N [N ...]\n");
    return 64;
  }
  b.prompt_len = bench_positive("bench_model", argv[4]);
  b.max_new = bench_positive("bench_model", argv[5]);
  for (int i = 6; i < argc; i++)
    most = bench_positive("bench_model", argv[i]) > most ? bench_positive("bench_model", argv[i]) : most;
  open_all(&b, argv[1], argv[3], most);
  generate(&b, argv[2], most < WARM_UP ? most : WARM_UP, b.max_new < WARM_UP ? b.max_new : WARM_UP, false);
  for (int i = 6; i < argc; i++)
    generate(&b, argv[2], bench_positive("bench_model", argv[i]), b.max_new, true);
  close_all(&b);
  return 0;
}
