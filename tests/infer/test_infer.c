/* test_infer.c - generation without training state where memory is short. Run with 1 and 2 ranks. Judge: the
 * answers with a cache of full length, bit for bit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

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

static void answer(const golden *g, const tri_prompt *prompt, bool is_short, tri_rollout *out,
                   tri_sampler_news *news) {
  const tri_infer_size size = {
      .dtype = "f32", .n_answers = (int64_t)PROMPTS * GROUP, .max_prompt = LONGEST, .max_new = NEW};
  const tri_generate_opt how = {.rule = {1.1f, 0.97f, 0, 11}, .max_new = NEW, .group = GROUP};
  tri_infer              f = {0};

  OK(tri_infer_open(g->folder, NULL, false, 1, &f));
  spied = *f.se.device->ops;
  real_mem_info = spied.mem_info;
  spied.mem_info = short_mem_info;
  f.se.device->ops = &spied;
  short_calls = is_short;
  OK(tri_infer_ready(&f, &size));
  OK(tri_infer_generate(&f, prompt, PROMPTS, &how, NULL, NULL, out));
  tri_sampler_tell(f.sampler, news);
  tri_infer_leave(&f, TRI_OK);
}

/* The cache has pages for one answer with its prompt, so the answers compute tokens again. */
static void answers_take_pages_as_they_grow(void **state) {
  golden           g;
  tri_prompt       prompt[PROMPTS];
  tri_rollout      all = {0}, few = {0};
  tri_sampler_news news;
  int32_t         *token, *length;
  int64_t          at = 0;
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
  answer(&g, prompt, false, &all, &news);
  CHECK(news.recomputed == 0 && all.n_seq == PROMPTS * GROUP);
  answer(&g, prompt, true, &few, &news);
  CHECK(news.recomputed > 0 && few.n_seq == all.n_seq && few.n_tok == all.n_tok);
  CHECK(!memcmp(few.start, all.start, ((size_t)all.n_seq + 1) * sizeof *all.start));
  CHECK(!memcmp(few.token, all.token, (size_t)all.n_tok * sizeof *all.token));
  CHECK(!memcmp(few.old_logp, all.old_logp, (size_t)all.n_tok * sizeof *all.old_logp));
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
