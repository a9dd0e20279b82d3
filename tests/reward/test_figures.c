/* test_figures.c - figures of k answers to a prompt. Judges: numbers worked by hand, and equal figures for
 * one answer to a prompt or for equal answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward/figures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 12, END = 0 }; /* END: an end token */

static tri_tokenizer *tokenizer;

static int open_all(void **state) {
  (void)state;
  return tri_tokenizer_open(TRI_TEST_DATA "/tokenizer/gpt2.json", &tokenizer);
}

static int close_all(void **state) {
  (void)state;
  tri_tokenizer_close(&tokenizer);
  return tri_host_bytes() == 0 ? 0 : -1;
}

typedef struct answer {
  const char *text;
  float       reward; /* NAN if dropped */
} answer;

/* Makes n answers in groups of `group`, each with a prompt of one token and END at its end. */
static void make(const answer *a, int n, int group, tri_rollout *r) {
  tri_tokens all = {0};
  int64_t    start[MOST + 1] = {0};
  int32_t    end = END;

  assert_true(n <= MOST);
  for (int q = 0; q < n; q++) {
    assert_int_equal(tri_tokens_put(&all, &(int32_t){5}, 1), TRI_OK);
    assert_int_equal(tri_tokenizer_encode(tokenizer, a[q].text, strlen(a[q].text), false, &all), TRI_OK);
    assert_int_equal(tri_tokens_put(&all, &end, 1), TRI_OK);
    start[q + 1] = all.n;
  }
  *r = (tri_rollout){0};
  assert_int_equal(tri_rollout_make(n, all.n, group, 1, r), TRI_OK);
  memcpy(r->start, start, (size_t)(n + 1) * sizeof *start);
  memcpy(r->token, all.id, (size_t)all.n * sizeof *all.id);
  for (int q = 0; q < n; q++) {
    r->prompt_len[q] = 1;
    r->reward[q] = r->part[q] = a[q].reward;
    r->stop[q] = TRI_STOP_EOS;
  }
  tri_tokens_free(&all);
}

static tri_figures figures_of(const char *reward, const answer *a, int n, int group, int *vote) {
  static const int32_t end[] = {END};
  tri_reward_opt       opt = {.name = reward, .weight = 1};
  tri_reward_set      *set;
  tri_rollout          r;
  tri_figures          sum = {0};

  if (!strcmp(reward, "regex")) {
    opt.field[0].name = "pattern";
    opt.field[opt.n_field++].value = "x";
  }
  assert_int_equal(tri_reward_set_open(&opt, 1, NULL, &set), TRI_OK);
  const tri_answers_opt o = {.set = set, .tokenizer = tokenizer, .end = end, .n_end = 1};
  make(a, n, group, &r);
  assert_int_equal(tri_figures_vote(&r, &o, vote), TRI_OK);
  tri_figures_add(&r, set, vote, &sum);
  tri_rollout_free(&r);
  tri_reward_set_close(&set);
  return sum;
}

static void check(const char *reward, const answer *a, int n, int group, const double want[5]) {
  static const tri_figure which[] = {TRI_FIGURE_REWARD, TRI_FIGURE_PASS_1, TRI_FIGURE_PASS_K,
                                     TRI_FIGURE_BEST_K, TRI_FIGURE_MAJORITY_K};
  int                     vote[MOST];
  tri_figures             f = figures_of(reward, a, n, group, vote);

  for (int i = 0; i < 5; i++)
    if (fabs(tri_figure_mean(&f, which[i]) - want[i]) > 1e-7)
      fail_msg("%s, '%s' ...: %s is %g, not %g", reward, a[0].text, tri_figure_name(which[i]),
               tri_figure_mean(&f, which[i]), want[i]);
}

/* Mean, pass@1, pass@k, best@k, majority@k. Rewards are plain numbers here. */
static void groups_by_hand(void **state) {
  /* 5 has three votes of six, though 7 has a higher reward. Then two results have two votes each, and the
   * earlier wins */
  static const answer six[] = {{"it is 7", 1}, {"so 5", 0.25f},    {"5.0 = 5", 0},   {"05, no: 7", 1},
                               {"nothing", 0}, {"#### 5", 0.5f},   {"2 or 9", 0.5f}, {"10 - 4", 1},
                               {"+9.00", 0},   {"is it 3", 0.25f}, {"4", 0},         {"none", 0}};
  /* most have no number and do not vote. Then none has a number, and the first answer's reward is taken */
  static const answer none[] = {{"a", 0.5f}, {"b", 0.5f}, {"9", 1}, {"c", 0.25f}, {"d", 1}, {"e", 0}};
  /* answers without a reward do not vote, and a prompt without any does not count */
  static const answer dropped[] = {{"1", NAN}, {"2", 0.5f}, {"1", NAN}, {"3", NAN}, {"3", NAN}, {"3", NAN}};

  (void)state;
  check("number", six, 12, 6, (double[]){4.5 / 12, 3. / 12, 1, 1, (0.25 + 0.5) / 2});
  check("number", none, 6, 3, (double[]){3.25 / 6, 2. / 6, 1, 1, (1 + 0.25) / 2});
  check("number", dropped, 6, 3, (double[]){0.5, 0, 0, 0.5, 0.5});
}

/* Results extracted by each reward. The answers of a row have these kinds. */
static void results_are_the_rewards(void **state) {
  static const struct {
    const char *reward;
    answer      a[5];
    int         vote[5];
  } row[] = {
      {"number",
       {{"1,000", 0}, {"x = 1000.0", 0}, {"-1000", 0}, {"", 0}, {"is -1,000.", 0}},
       {0, 0, 2, -1, 2}},
      {"gsm8k",
       {{"#### 3 of 4", 0}, {"4", 0}, {"so 3", 0}, {"####", 0}, {"9 #### 4.00", 0}},
       {0, 1, 0, -1, 1}},
      {"exact", {{" Paris\n", 0}, {"Paris", 0}, {"paris", 0}, {" \n", 0}, {"Paris.", 0}}, {0, 0, 2, -1, 4}},
      {"boxed",
       {{"\\boxed{1/2}", 0},
        {"\\boxed{3} no \\boxed{\\frac{1}{2}}", 0},
        {"1/2", 0},
        {"\\boxed{}", 0},
        {"\\boxed{0.5}", 0}},
       {0, 0, -1, -1, 0}},
      {"regex", {{"x", 0}, {"x", 0}, {"y", 0}, {"", 0}, {"x", 0}}, {-1, -1, -1, -1, -1}},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int vote[MOST];
    figures_of(row[i].reward, row[i].a, 5, 5, vote);
    for (int q = 0; q < 5; q++)
      if (vote[q] != row[i].vote[q])
        fail_msg("%s: '%s' votes with %d, not with %d", row[i].reward, row[i].a[q].text, vote[q],
                 row[i].vote[q]);
  }
}

/* With k = 1 all equal the mean reward, and pass@k equals pass@1. The same holds if a group's answers are
 * equal. */
static void one_answer_is_all_of_them(void **state) {
  static const answer a[] = {{"1", 1}, {"1", 1}, {"none", 0.5f}, {"none", 0.5f},
                             {"3", 0}, {"3", 0}, {"4", 0.25f},   {"4", 0.25f},
                             {"", 1},  {"", 1},  {"6", -1},      {"6", -1}};

  (void)state;
  for (int k = 1; k <= 2; k++) {
    int         vote[MOST];
    tri_figures f = figures_of("number", a, 12, k, vote);
    assert_int_equal(f.answers, 12);
    assert_int_equal(f.prompts, 12 / k);
    assert_true(tri_figure_mean(&f, TRI_FIGURE_BEST_K) == tri_figure_mean(&f, TRI_FIGURE_REWARD));
    assert_true(tri_figure_mean(&f, TRI_FIGURE_MAJORITY_K) == tri_figure_mean(&f, TRI_FIGURE_REWARD));
    assert_true(tri_figure_mean(&f, TRI_FIGURE_PASS_K) == tri_figure_mean(&f, TRI_FIGURE_PASS_1));
    assert_true(tri_figure_mean(&f, TRI_FIGURE_PASS_1) == 4. / 12);
  }
}

/* Figures do not exist for no answers, or for rewards without a largest value or a result. */
static void what_is_not_had(void **state) {
  static const tri_reward_opt regex = {
      .name = "regex", .weight = 1, .n_field = 1, .field = {{.name = "pattern", .value = "x"}}};
  tri_figures     none = {0};
  tri_reward_set *set;

  (void)state;
  for (tri_figure i = 0; i < TRI_FIGURE_COUNT; i++) assert_true(isnan(tri_figure_mean(&none, i)));
  assert_int_equal(tri_reward_set_open(&regex, 1, NULL, &set), TRI_OK);
  assert_false(tri_figure_is_had(TRI_FIGURE_MAJORITY_K, set));
  assert_true(tri_figure_is_had(TRI_FIGURE_PASS_K, set));
  assert_true(tri_figure_is_had(TRI_FIGURE_BEST_K, set));
  tri_reward_set_close(&set);
}

/* Lengths are drawn tokens with the end token. Two of the first answer's were not drawn. */
static void lengths_are_of_drawn_tokens(void **state) {
  static const answer         two[] = {{"1", 1}, {"2", 0}};
  static const tri_reward_opt exact = {.name = "exact", .weight = 1};
  const int                   vote[] = {-1, -1};
  tri_figures                 all = {0}, drawn = {0};
  tri_reward_set             *set;
  tri_rollout                 r;

  (void)state;
  assert_int_equal(tri_reward_set_open(&exact, 1, NULL, &set), TRI_OK);
  make(two, 2, 1, &r);
  tri_figures_add(&r, set, vote, &all);
  assert_true(r.start[1] == 3 && tri_figure_mean(&all, TRI_FIGURE_LENGTH) == 2);
  r.mark[1] = r.mark[2] = TRI_MARK_GIVEN;
  tri_figures_add(&r, set, vote, &drawn);
  assert_true(tri_figure_mean(&drawn, TRI_FIGURE_LENGTH) == 1);
  tri_rollout_free(&r);
  tri_reward_set_close(&set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_by_hand), cmocka_unit_test(results_are_the_rewards),
      cmocka_unit_test(one_answer_is_all_of_them), cmocka_unit_test(what_is_not_had),
      cmocka_unit_test(lengths_are_of_drawn_tokens)};
  return cmocka_run_group_tests(tests, open_all, close_all);
}
