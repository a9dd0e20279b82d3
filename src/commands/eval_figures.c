/* eval_figures.c - writes the figures of trireme eval. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "eval_figures.h"

#include "base/folder.h"
#include "base/log.h"
#include "io/text/json_text.h"
#include "reward/answers_file.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>

/* Returns NaN if the reward has no such figure. */
static double figure(const tri_eval_figures *x, tri_figure which) {
  return tri_figure_is_had(which, x->set) ? tri_figure_mean(&x->figures, which) : (double)NAN;
}

/* Prints "pass@8 0.250000", aligned with the other figures. */
static void print_at_k(const tri_eval_figures *x, const char *what, tri_figure which) {
  char label[32];

  snprintf(label, sizeof label, "%s@%d", what, x->num);
  if (!isnan(figure(x, which))) printf("%-13s  %.6f\n", label, figure(x, which));
}

void tri_eval_print_figures(const tri_eval_figures *x) {
  printf("prompts %lld, answers each %d\nreward mean    %.6f\n", (long long)x->prompts, x->num,
         figure(x, TRI_FIGURE_REWARD));
  if (x->reward_failures)
    printf("failures       %d of %lld answer%s\n", x->reward_failures, (long long)x->prompts * x->num,
           x->prompts * x->num == 1 ? "" : "s");
  if (!isnan(figure(x, TRI_FIGURE_PASS_1))) printf("pass@1         %.6f\n", figure(x, TRI_FIGURE_PASS_1));
  printf("truncated      %.4f\n", figure(x, TRI_FIGURE_TRUNCATED)); /* read pass@1 together with this */
  if (x->num > 1) {
    print_at_k(x, "pass", TRI_FIGURE_PASS_K);
    print_at_k(x, "best", TRI_FIGURE_BEST_K);
    print_at_k(x, "majority", TRI_FIGURE_MAJORITY_K);
  }
  printf("length mean    %.2f tokens\n", figure(x, TRI_FIGURE_LENGTH));
}

tri_status tri_eval_put(tri_text *out, const char *name, double value) {
  bool first = !out->len || out->data[out->len - 1] == '{';

  TRI_TRY(tri_text_printf(out, "%s\"%s\": ", first ? "" : ", ", name));
  return tri_json_put_double(out, value);
}

tri_status tri_eval_put_figures(const tri_eval_figures *x, tri_text *out) {
  TRI_TRY(tri_eval_put(out, "prompts", (double)x->prompts));
  TRI_TRY(tri_eval_put(out, "num_generations", x->num));
  for (tri_figure i = 0; i < TRI_FIGURE_COUNT; i++)
    TRI_TRY(tri_eval_put(out, tri_figure_name(i), figure(x, i)));
  return tri_eval_put(out, "reward_failures", x->reward_failures);
}

/* Chosen: the threshold of a run's warning (report/health.c). */
static const double cut_most = 0.2;

void tri_eval_warn(const tri_eval_figures *x, int64_t max_new) {
  double cut = figure(x, TRI_FIGURE_TRUNCATED);

  if (cut > cut_most)
    tri_log(TRI_LOG_WARN,
            "%.1f %% of the answers were cut at %lld tokens, so their results are unknown. Use a larger "
            "--max-new",
            100 * cut, (long long)max_new);
  if (x->reward_failures)
    tri_log(TRI_LOG_WARN,
            "%s %s failed on answers: %d of %lld. They %s. The warning of the first failure gives the reason",
            x->failing ? "reward" : "one of", x->failing ? x->failing : "the rewards", x->reward_failures,
            (long long)x->prompts * x->num,
            x->drops ? "are left out of all figures" : "count as 0 in the figures");
}

tri_status tri_eval_check_output(const char *path) {
  tri_answers_file f;

  if (tri_folder_has(AT_FDCWD, path))
    TRI_FAIL(TRI_EINPUT, "--output %s: the file exists already. Remove it or give another name", path);
  TRI_TRY(tri_answers_file_begin_new(path, &f));
  tri_answers_file_drop(&f);
  return TRI_OK;
}
