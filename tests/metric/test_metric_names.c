/* test_metric_names.c - the table of metrics. Judges: each loss's own list of metrics, the figures of
 * evaluations, the units in the names, exact rows for names and words. src/metric/README.md equals the
 * table. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "algo/algo.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "metric/metric_names.h"
#include "reward/figures.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void rows_are_whole_and_differ(void **state) {
  const tri_metric_row *a, *b;

  (void)state;
  for (int i = 0; (a = tri_metric_row_at(i)) != NULL; i++) {
    size_t meaning = strlen(a->meaning), moves = strlen(a->moves);
    if (!a->name[0] || meaning < 8 || moves < 4 || a->meaning[meaning - 1] == '.' ||
        a->moves[moves - 1] != '.' || !isupper((unsigned char)a->moves[0]))
      fail_msg("%s: a name, a phrase and sentences are wanted", a->name);
    if (strlen(a->name) > 32) fail_msg("%s: is longer than the list's column", a->name);
    for (int j = 0; j < i; j++) {
      b = tri_metric_row_at(j);
      if (!strcmp(a->name, b->name)) fail_msg("%s stands twice", a->name);
      if (a->word && b->word && !strcmp(a->word, b->word)) fail_msg("%s names two metrics", a->word);
    }
  }
  assert_null(tri_metric_row_at(-1));
}

static void units_are_those_of_the_names(void **state) {
  static const char *const unit[][2] = {{"_bytes_per_s", "bytes per s"},
                                        {"tokens_per_s", "tokens per s"},
                                        {"_bytes", "bytes"},
                                        {"_nats", "nats"},
                                        {"_tokens", "tokens"},
                                        {"_ratio", "share"}};
  const tri_metric_row    *r;

  (void)state;
  for (int i = 0; (r = tri_metric_row_at(i)) != NULL; i++) {
    for (size_t k = 0; k < sizeof unit / sizeof *unit; k++)
      if (tri_ends_with(r->name, unit[k][0])) {
        if (strcmp(r->unit, unit[k][1])) fail_msg("%s has the unit %s", r->name, r->unit);
        break;
      }
    if (!strncmp(r->name, "time_", 5)) assert_string_equal(r->unit, "s");
  }
}

static void known(const char *name) {
  if (!tri_metric_row_find(name)) fail_msg("the table does not know %s", name);
}

/* The table has the metrics of all losses and the figures. The tests of the whole program check the others at
 * their end (cli_case.h). */
static void what_is_reported_is_known(void **state) {
  const tri_algo *a;
  char            name[128];

  (void)state;
  for (int i = 0; (a = tri_algo_at(i)) != NULL; i++)
    for (int k = 0; a->loss && a->loss->metric[k]; k++) {
      known(a->loss->metric[k]);
      snprintf(name, sizeof name, "eval_%s", a->loss->metric[k]);
      if (a->needs & TRI_NEEDS_PAIRS) known(name);
    }
  for (tri_figure f = 0; f < TRI_FIGURE_COUNT; f++) {
    snprintf(name, sizeof name, "eval_%s", tri_figure_name(f));
    if (strcmp(tri_metric_row_find(name)->name, name)) fail_msg("%s has no row of its own", name);
  }
}

static void names_find_their_rows(void **state) {
  static const char *const t[][2] = {{"reward_mean", "reward_mean"},
                                     {"reward_gsm8k_mean", "reward_<name>_mean"},
                                     {"reward_py_tests_passed", "reward_<name>_<field>"},
                                     {"eval_easy_pass_at_1", "eval_pass_at_1"},
                                     {"eval_a_b_reward_mean", "eval_reward_mean"},
                                     {"eval_chosen_reward_mean", "eval_chosen_reward_mean"},
                                     {"eval_a_chosen_reward_mean", "eval_chosen_reward_mean"},
                                     {"mem_moved_cross_bytes", "mem_moved_<communicator>_bytes"},
                                     {"comm_node_bytes_per_s", "comm_<communicator>_bytes_per_s"},
                                     {"time_learn_s", "time_learn_s"},
                                     {"time_other_s", "time_<phase>_s"},
                                     {"reward_<name>_mean", "reward_<name>_mean"},
                                     {"critic_grad_norm", "critic_grad_norm"}};
  static const char *const none[] = {"",          "reward_", "rewardmean", "eval_", "eval__pass_at_1x",
                                     "mem_bytes", "time__s"};
  const tri_metric_row    *row[4];

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    const tri_metric_row *r = tri_metric_row_find(t[i][0]);
    if (!r || strcmp(r->name, t[i][1])) fail_msg("%s: %s", t[i][0], r ? r->name : "none");
  }
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if (tri_metric_row_find(none[i])) fail_msg("'%s': %s", none[i], tri_metric_row_find(none[i])->name);
  assert_int_equal(tri_metric_rows_named("held", row, 4), 1);
  assert_string_equal(row[0]->name, "eval_accuracy");
  assert_int_equal(tri_metric_rows_named("eval", row, 4), 2); /* a name, and a word */
  assert_int_equal(tri_metric_rows_named("loss", row, 4), 1);
  assert_int_equal(tri_metric_rows_named("nothing", row, 4), 0);
  assert_string_equal(tri_metric_word("tokens_per_s"), "tok/s");
  assert_string_equal(tri_metric_nearest("rewrd_mean"), "reward_mean");
}

/* With TRI_WRITE_REFERENCE=1 in the environment the test writes the file instead of comparing it. */
static void the_readme_is_the_table(void **state) {
  static const char     path[] = TRI_SOURCE_DIR "/src/metric/README.md";
  const char           *wish = getenv("TRI_WRITE_REFERENCE");
  const tri_metric_row *r;
  tri_text              want = {0};
  char                 *have = NULL;
  size_t                n = 0;

  (void)state;
  assert_int_equal(
      tri_text_printf(
          &want,
          "# Metrics\n\n"
          "This page explains the numbers of metrics.jsonl and of screens. `trireme metrics NAME` prints\n"
          "the same, with `--json` for programs. Each `eval_...` also exists for each set of\n"
          "`data.eval_names`, as in `eval_easy_pass_at_1`.\n\n"
          "The table is in `metric_names.c`. `TRI_WRITE_REFERENCE=1 build/cpu-release/test_metric_names`\n"
          "writes this page from it.\n"),
      TRI_OK);
  for (tri_metric_group g = 0; g < TRI_GROUPS; g++) {
    assert_int_equal(tri_text_printf(&want,
                                     "\n## %s\n\n| name | on screens | unit | meaning | moved by |\n"
                                     "|---|---|---|---|---|\n",
                                     tri_metric_group_title(g)),
                     TRI_OK);
    for (int i = 0; (r = tri_metric_row_at(i)) != NULL; i++)
      if (r->group == g)
        assert_int_equal(tri_text_printf(&want, "| `%s` | %s | %s | %s | %s |\n", r->name,
                                         r->word ? r->word : "", r->unit, r->meaning, r->moves),
                         TRI_OK);
  }
  if (wish && !strcmp(wish, "1")) assert_int_equal(tri_file_write(path, want.data, want.len), TRI_OK);
  assert_int_equal(tri_file_read(path, 1 << 20, &have, &n), TRI_OK);
  if (n != want.len || memcmp(have, want.data, n))
    fail_msg("src/metric/README.md is not the table: TRI_WRITE_REFERENCE=1 test_metric_names writes it");
  TRI_FREE(have);
  tri_text_free(&want);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_whole_and_differ), cmocka_unit_test(units_are_those_of_the_names),
      cmocka_unit_test(what_is_reported_is_known), cmocka_unit_test(names_find_their_rows),
      cmocka_unit_test(the_readme_is_the_table)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
