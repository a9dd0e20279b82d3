/* reward_math.c - boxed, gsm8k: compare the final answer of a solution with the truth. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "reward/math/math_answer.h"
#include "reward/math/text_number.h"
#include "reward.h"

#include <string.h>

/* Finds the text behind the last "####". GSM8K's solutions end with this mark and the number. */
static bool behind_mark(const char *s, size_t n, tri_part *out) {
  static const char mark[] = "####";
  size_t            m = sizeof mark - 1;

  for (size_t i = n; i >= m; i--)
    if (!memcmp(s + i - m, mark, m)) {
      *out = (tri_part){s + i, n - i};
      return true;
    }
  return false;
}

/* said: the hint about GSM8K's answers is logged. */
typedef struct boxed {
  bool said;
} boxed;

static tri_status boxed_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  boxed *x = NULL;

  (void)o;
  (void)env;
  *state = NULL;
  TRI_TRY(TRI_ALLOC(x, 1));
  *state = x;
  return TRI_OK;
}

static void boxed_close(void **state) { tri_host_free(state); }

/* Finds the answer in a truth. It is the text in a box (MATH), the number behind "####" (GSM8K), another text
 * behind "####", or else the whole truth. */
static tri_part truth_of(const char *s, size_t n, bool *marked) {
  tri_part        inside;
  tri_text_number number;

  *marked = false;
  if (tri_math_boxed(s, n, &inside)) return inside;
  if (!behind_mark(s, n, &inside)) return (tri_part){s, n};
  *marked = tri_text_number_first(inside.at, inside.n, &number) == TRI_TEXT_NUMBER;
  return *marked ? number.text : inside;
}

/* Refuses truths without an answer. It logs once if the data has answers of GSM8K. */
static const char *boxed_refuse(void *state, const char *truth, size_t n) {
  boxed   *x = state;
  bool     marked = false;
  tri_part want = n ? truth_of(truth, n, &marked) : (tri_part){truth, 0};

  if (n && tri_math_box_is_open(truth, n))
    return "has a \\boxed without a closing brace, so no answer to it could be right (was it cut?)";
  if (tri_math_is_empty(want))
    return n && want.at != truth
               ? "has nothing in its box or behind its ####, so no answer to it could be right"
               : "is empty, so no answer to it could be right";
  if (x->said) return NULL;
  if (marked)
    tri_log(TRI_LOG_INFO,
            "reward boxed: the answers of the data end with \"####\" and a number, as in GSM8K. The box must "
            "hold that number");
  x->said = x->said || marked;
  return NULL;
}

static tri_status boxed_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) {
    tri_part inside;
    bool     same = false, marked;
    if (a[q].response_bytes && tri_math_boxed(a[q].response, a[q].response_bytes, &inside) &&
        !tri_math_is_empty(inside))
      TRI_TRY(tri_math_same(inside, truth_of(a[q].truth, a[q].truth_bytes, &marked), &same));
    score[q] = same;
  }
  return TRI_OK;
}

static tri_status boxed_result(const char *response, size_t n, tri_text *out) {
  tri_part inside;

  if (!n || !tri_math_boxed(response, n, &inside) || tri_math_is_empty(inside)) return TRI_OK;
  return tri_text_put(out, inside.at, inside.n);
}

/* Finds the first number behind the mark, or without a mark the last number of all. */
static tri_text_found find_number(const char *s, size_t n, tri_text_number *out) {
  tri_part       end;
  tri_text_found found = TRI_TEXT_NONE;

  if (behind_mark(s, n, &end)) found = tri_text_number_first(end.at, end.n, out);
  return found == TRI_TEXT_NONE ? tri_text_number_last(s, n, out) : found;
}

static bool final_number(const char *s, size_t n, tri_text_number *out) {
  return find_number(s, n, out) == TRI_TEXT_NUMBER;
}

static tri_status gsm8k_same(tri_part a, tri_part b, bool *same) {
  tri_text_number x, y;

  *same = final_number(a.at, a.n, &x) && final_number(b.at, b.n, &y) && tri_text_number_same(&x, &y);
  return TRI_OK;
}

static const char *gsm8k_refuse(void *state, const char *truth, size_t n) {
  tri_text_number want;

  (void)state;
  switch (find_number(truth, n, &want)) {
  case TRI_TEXT_NUMBER:
    return NULL;
  case TRI_TEXT_BROKEN:
    return "does not end in a plain number (1.2.3 and 3\\sqrt{2} are none), and reward gsm8k compares "
           "numbers (boxed compares formulas)";
  default:
    return tri_math_is_empty((tri_part){truth, n}) ? "is empty, and reward gsm8k compares numbers"
                                                   : "holds no number, and reward gsm8k compares numbers";
  }
}

static tri_status gsm8k_result(const char *response, size_t n, tri_text *out) {
  tri_text_number got;

  return final_number(response, n, &got) ? tri_text_number_put(&got, out) : TRI_OK;
}

static tri_status gsm8k_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) {
    tri_text_number want, got;
    if (!final_number(a[q].truth, a[q].truth_bytes, &want))
      TRI_FAIL(TRI_EINPUT,
               "the answer given with prompt_id %lld holds no number, so reward gsm8k cannot judge; look at "
               "data.answer_key",
               (long long)a[q].prompt_id);
    score[q] = final_number(a[q].response, a[q].response_bytes, &got) && tri_text_number_same(&got, &want);
  }
  return TRI_OK;
}

const tri_reward tri_reward_boxed = {.name = "boxed",
                                     .help = "the last \\boxed{} holds the same value",
                                     .values = "1 or 0",
                                     .best = 1,
                                     .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                     .open = boxed_open,
                                     .refuse = boxed_refuse,
                                     .score = boxed_score,
                                     .close = boxed_close,
                                     .result = boxed_result,
                                     .same = tri_math_same};
const tri_reward tri_reward_gsm8k = {.name = "gsm8k",
                                     .help = "the number after ####, else the last, equals",
                                     .values = "1 or 0",
                                     .best = 1,
                                     .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                     .score = gsm8k_score,
                                     .refuse = gsm8k_refuse,
                                     .result = gsm8k_result,
                                     .same = gsm8k_same};
