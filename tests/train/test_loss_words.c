/* test_loss_words.c - words for a policy loss at the start of a run. Judge: the names and values of its
 * options. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text_buffer.h"
#include "config/config.h"
#include "train/screen.h"
#include "train/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <string.h>

/* Writes the words for a loss beside the advantage `group`. */
static void words_of(tri_config *c, const tri_loss *loss, tri_text *out) {
  tri_trainer *t = calloc(1, sizeof *t);

  assert_non_null(t);
  c->algo.row = (tri_algo){"grpo", TRI_NEEDS_ANSWERS, &tri_advantage_group, loss, NULL};
  t->cfg = c;
  t->algo = &c->algo.row;
  out->len = 0;
  assert_int_equal(tri_screen_loss(t, out), TRI_OK);
  free(t);
}

/* A loss needs no words of its own here, because the key table gives the names of its options. */
static void a_new_loss_shows_its_options(void **state) {
  static const char *const option[] = {"algo.clip_eps", "algo.beta", "algo.dpo_loss", NULL};
  tri_loss                 fresh = tri_loss_sapo;
  tri_config              *c = calloc(1, sizeof *c);
  tri_text                 out = {0};

  (void)state;
  assert_non_null(c);
  c->algo.opt =
      (tri_algo_opt){.clip_eps = 0.375, .beta = 0.625, .dpo_loss = TRI_DPO_IPO, .top_entropy_quantile = 1};
  fresh.name = "fresh";
  fresh.option = option;
  words_of(c, &fresh, &out);
  assert_non_null(strstr(out.data, "fresh"));
  assert_non_null(strstr(out.data, "0.375"));
  assert_non_null(strstr(out.data, "beta 0.625"));
  assert_non_null(strstr(out.data, "dpo_loss ipo"));
  tri_text_free(&out);
  free(c);
}

/* Every option of every policy loss shows its value. */
static void every_loss_shows_its_options(void **state) {
  tri_config *c = calloc(1, sizeof *c);
  tri_text    out = {0};

  (void)state;
  assert_non_null(c);
  for (int i = 0; tri_policy_loss_at(i); i++)
    for (const char *const *key = tri_policy_loss_at(i)->option; *key; key++) {
      static const struct {
        const char *key;
        size_t      at;
      } row[] = {{"algo.clip_eps", offsetof(tri_algo_opt, clip_eps)},
                 {"algo.clip_eps_high", offsetof(tri_algo_opt, clip_eps_high)},
                 {"algo.dual_clip", offsetof(tri_algo_opt, dual_clip)},
                 {"algo.sapo_temperature_pos", offsetof(tri_algo_opt, sapo_temperature_pos)},
                 {"algo.sapo_temperature_neg", offsetof(tri_algo_opt, sapo_temperature_neg)},
                 {"algo.vespo_k_pos", offsetof(tri_algo_opt, vespo_k_pos)},
                 {"algo.vespo_k_neg", offsetof(tri_algo_opt, vespo_k_neg)},
                 {"algo.vespo_lambda_pos", offsetof(tri_algo_opt, vespo_lambda_pos)},
                 {"algo.vespo_lambda_neg", offsetof(tri_algo_opt, vespo_lambda_neg)}};
      for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        if (strcmp(row[k].key, *key) != 0) continue;
        c->algo.opt = (tri_algo_opt){.top_entropy_quantile = 1};
        memcpy((char *)&c->algo.opt + row[k].at, &(double){0.375}, sizeof(double));
        words_of(c, tri_policy_loss_at(i), &out);
        if (!strstr(out.data, "0.375"))
          fail_msg("%s: no value of %s in %s", tri_policy_loss_at(i)->name, *key, out.data);
      }
    }
  tri_text_free(&out);
  free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_new_loss_shows_its_options),
                                     cmocka_unit_test(every_loss_shows_its_options)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
