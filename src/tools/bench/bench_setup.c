/* bench_setup.c - makes the case without a deck, sends a case to all ranks, and derives sizes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_setup.h"

#include "tools/timer/series.h"

#include <string.h>

void tri_bench_case_default(tri_bench_case *out) {
  tri_model_shape shape = tri_family_llama.silent;

  shape.family = &tri_family_llama;
  shape.L = 12, shape.H = 12, shape.G = 12, shape.D = 64;
  shape.C = 768, shape.F = 2048, shape.V = 50257;
  shape.max_pos = 1024;
  shape.tied_head = true;
  *out = (tri_bench_case){
      .shape = shape,
      .dtype = TRI_BF16,
      .head = TRI_HEAD_TOKENS,
      .plan = {TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD}, /* hybrid */
      .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .max_grad_norm = 1},
      .rule = {1, 1, 0, 1},
      .size = {4, 256, 255, 4, 8, 128, 128},
      .passes = 1};
}

/* Sends the family by name, because its pointer differs between ranks. */
tri_status tri_bench_case_share(tri_comm *world, tri_bench_case *c) {
  char family[32] = "";

  if (world->rank == 0) strncpy(family, c->shape.family->model_type, sizeof family - 1);
  TRI_TRY(tri_host_bcast(world, family, sizeof family, 0));
  TRI_TRY(tri_host_bcast(world, c, sizeof *c, 0));
  c->shape.family = tri_family_find(family);
  TRI_ASSERT(c->shape.family);
  return TRI_OK;
}

int64_t tri_bench_tokens(const tri_bench_size *z) { return z->sequences * z->length; }

int64_t tri_bench_rows(const tri_bench_size *z) { return z->sequences * z->rows; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

enum { LEAST_STEPS = 8 }; /* chosen: five timed steps, the first, and those that a sampler needs to end */

int64_t tri_bench_steps(const tri_bench_size *z) {
  int64_t n = z->answer_tokens < TRI_BENCH_MOST ? z->answer_tokens : TRI_BENCH_MOST;

  return most(n, LEAST_STEPS);
}

int64_t tri_bench_prompt(const tri_bench_size *z) {
  return z->prompt_tokens + most(z->answer_tokens - tri_bench_steps(z), 0) / 2;
}
