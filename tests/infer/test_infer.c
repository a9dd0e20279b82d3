/* test_infer.c - generation without training state, where memory is short and by ranks as one model. Run with
 * 1 and 2 ranks. Judge: the answers with a cache of full length on each rank, bit for bit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "base/host_memory.h"
#include "tools/infer/infer.h"

enum { PROMPTS = 12, GROUP = 3, NEW = 40, LONGEST = 70 };

static tri_device_ops spied; /* the device's table with other memory */
static tri_status (*real_mem_info)(tri_device *d, size_t *bytes_free, size_t *bytes_total);
static int short_calls; /* so many calls find a device almost full */

static tri_status short_mem_info(tri_device *d, size_t *bytes_free, size_t *bytes_total) {
  if (short_calls-- <= 0) return real_mem_info(d, bytes_free, bytes_total);
  *bytes_free = *bytes_total = 1 << 16;
  return TRI_OK;
}

/* Returns the planned bytes of weights while a model generates. */
static int64_t weight_bytes(const tri_infer *f) {
  tri_ledger_row *row;
  int64_t         bytes = 0;
  int             n;

  OK(tri_ledger_rows(f->se.ledger, &row, &n));
  for (int i = 0; i < n; i++)
    if (row[i].phase != TRI_PHASE_LEARN && strstr(row[i].name, "weights")) bytes += row[i].bytes;
  TRI_FREE(row);
  return bytes;
}

/* Returns those bytes. */
static int64_t answer(const golden *g, const tri_prompt *prompt, bool is_short, int tensor, tri_rollout *out,
                      tri_sampler_news *news) {
  const tri_infer_size size = {
      .dtype = "f32", .n_answers = (int64_t)PROMPTS * GROUP, .max_prompt = LONGEST, .max_new = NEW};
  const tri_generate_opt how = {.rule = {1.1f, 0.97f, 0, 11}, .max_new = NEW, .group = GROUP};
  tri_infer              f = {0};
  int64_t                bytes;

  OK(tri_infer_open(g->folder, NULL, false, 1, tensor, &f));
  spied = *f.se.device->ops;
  real_mem_info = spied.mem_info;
  spied.mem_info = short_mem_info;
  f.se.device->ops = &spied;
  short_calls = is_short;
  OK(tri_infer_ready(&f, &size));
  OK(tri_infer_generate(&f, prompt, PROMPTS, &how, NULL, NULL, out));
  tri_sampler_tell(f.sampler, news);
  bytes = weight_bytes(&f);
  tri_infer_leave(&f, TRI_OK);
  return bytes;
}

static void expect_same(const tri_rollout *a, const tri_rollout *b) {
  CHECK(a->n_seq == PROMPTS * GROUP && a->n_seq == b->n_seq && a->n_tok == b->n_tok);
  CHECK(!memcmp(a->start, b->start, ((size_t)a->n_seq + 1) * sizeof *a->start));
  CHECK(!memcmp(a->token, b->token, (size_t)a->n_tok * sizeof *a->token));
  CHECK(!memcmp(a->old_logp, b->old_logp, (size_t)a->n_tok * sizeof *a->old_logp));
}

/* The cache has pages for one answer with its prompt, so the answers compute tokens again. Ranks that
 * generate as one model have less than the whole model's weights. */
static void answers_take_pages_as_they_grow(void **state) {
  golden           g;
  tri_prompt       prompt[PROMPTS];
  tri_rollout      all = {0}, few = {0}, divided = {0};
  tri_sampler_news news;
  int32_t         *token, *length;
  int64_t          at = 0, whole, part;
  int              n;

  (void)state;
  golden_open(&g, "model/qwen2");
  token = golden_get_int(&g, "greedy.prompts");
  length = golden_get_int(&g, "greedy.lengths");
  n = (int)golden_count(&g, "greedy.lengths");
  for (int i = 0; i < PROMPTS; i++) {
    if (i % n == 0) at = 0;
    prompt[i] = (tri_prompt){100 + i, token + at, length[i % n]};
    at += length[i % n];
  }
  whole = answer(&g, prompt, false, 1, &all, &news);
  CHECK(news.recomputed == 0);
  answer(&g, prompt, true, 1, &few, &news);
  CHECK(news.recomputed > 0);
  expect_same(&all, &few);
  for (int is_short = 0; is_short < 2 && world->size > 1; is_short++) {
    part = answer(&g, prompt, is_short, world->size, &divided, &news);
    CHECK(part < whole && (news.recomputed > 0) == is_short, "%lld of %lld bytes", (long long)part,
          (long long)whole);
    expect_same(&all, &divided);
    tri_rollout_free(&divided);
  }
  tri_rollout_free(&all);
  tri_rollout_free(&few);
  free(token);
  free(length);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_take_pages_as_they_grow)};

  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
