/* reward_math.c - boxed, gsm8k: the final answer of a solution equals the truth's. */
#include "reward/math/decimal.h"
#include "reward/math/math_answer.h"
#include "reward.h"

#include <string.h>

/* The truth is the answer itself, or a solution with the answer in a box, as MATH's. */
static tri_part truth_of(const tri_answer *a) {
  tri_part inside;

  if (tri_math_boxed(a->truth, a->truth_bytes, &inside)) return inside;
  return (tri_part){a->truth, a->truth_bytes};
}

static tri_status boxed_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) {
    tri_part inside;
    bool     same = false;
    if (a[q].response_bytes && tri_math_boxed(a[q].response, a[q].response_bytes, &inside))
      TRI_TRY(tri_math_same(inside, truth_of(&a[q]), &same));
    score[q] = same;
  }
  return TRI_OK;
}

static tri_status boxed_result(const char *response, size_t n, tri_text *out) {
  tri_part inside;

  if (!n || !tri_math_boxed(response, n, &inside) || !inside.n) return TRI_OK;
  return tri_text_put(out, inside.at, inside.n);
}

/* GSM8K's solutions end with "#### 72". The first number behind the last such mark, else the last of all. */
static bool final_number(const char *s, size_t n, tri_decimal *out) {
  static const char mark[] = "####";
  size_t            m = sizeof mark - 1;

  for (size_t i = n; i >= m; i--)
    if (!memcmp(s + i - m, mark, m))
      return tri_decimal_first(s + i, n - i, out) || tri_decimal_last(s, n, out);
  return tri_decimal_last(s, n, out);
}

static const char *gsm8k_refuse(void *state, const char *truth, size_t n) {
  tri_decimal want;

  (void)state;
  return final_number(truth, n, &want) ? NULL : "holds no number, and reward gsm8k compares numbers";
}

static tri_status gsm8k_result(const char *response, size_t n, tri_text *out) {
  tri_decimal got;

  return final_number(response, n, &got) ? tri_decimal_put(&got, out) : TRI_OK;
}

static tri_status gsm8k_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) {
    tri_decimal want, got;
    if (!final_number(a[q].truth, a[q].truth_bytes, &want))
      TRI_FAIL(TRI_EINPUT,
               "the answer given with prompt_id %lld holds no number, so reward gsm8k cannot judge; look at "
               "data.answer_key",
               (long long)a[q].prompt_id);
    score[q] = final_number(a[q].response, a[q].response_bytes, &got) && tri_decimal_same(&got, &want);
  }
  return TRI_OK;
}

const tri_reward tri_reward_boxed = {.name = "boxed",
                                     .help = "what the last \\boxed{} holds equals, as MATH compares",
                                     .values = "1 or 0",
                                     .best = 1,
                                     .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                     .score = boxed_score,
                                     .result = boxed_result,
                                     .same = tri_math_same};
const tri_reward tri_reward_gsm8k = {.name = "gsm8k",
                                     .help = "the number after ####, else the last, equals",
                                     .values = "1 or 0",
                                     .best = 1,
                                     .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                     .score = gsm8k_score,
                                     .refuse = gsm8k_refuse,
                                     .result = gsm8k_result};
