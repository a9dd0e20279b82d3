/* reward_rule.c - exact, number, regex: rewards by rule. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward/math/text_number.h"
#include "reward.h"

#include <math.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

/* MATCH_LIMIT: steps of the search of one answer, over all its start positions, before it counts as endless.
 * PCRE2 limits only the steps from one start position. A search below FEW_STEPS from each is bounded by the
 * length of the answer. Any other search starts again with a step counted at every item of the pattern.
 * Memory of a search: the JIT has its stack, and the interpreter has a heap and a depth. The interpreter runs
 * patterns that begin with (*NO_JIT), and all patterns without executable memory. Chosen: each has space for
 * 200 000 repeats of a group (pcre2jit(3), pcre2api(3)). */
enum { FEW_STEPS = 256 }; /* chosen: only nested repeats take more */
enum { MATCH_LIMIT = 10000000, DEPTH_LIMIT = 1000000, HEAP_LIMIT_KIB = 64 * 1024 };
enum { JIT_STACK_START = 32 * 1024, JIT_STACK_MOST = 8 * 1024 * 1024 };

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static tri_part trimmed(const char *at, size_t n) {
  while (n && is_space(*at)) {
    at++;
    n--;
  }
  while (n && is_space(at[n - 1])) n--;
  return (tri_part){at, n};
}

static bool same_bytes(tri_part a, tri_part b) { return a.n == b.n && (!a.n || !memcmp(a.at, b.at, a.n)); }

static tri_status exact_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++)
    score[q] = same_bytes(trimmed(a[q].response, a[q].response_bytes), trimmed(a[q].truth, a[q].truth_bytes));
  return TRI_OK;
}

/* Refuses an empty truth, because it would reward empty answers, and a model learns those first. */
static const char *exact_refuse(void *state, const char *truth, size_t n) {
  (void)state;
  return trimmed(truth, n).n ? NULL : "is empty, and reward exact would reward empty answers";
}

static tri_status exact_result(const char *response, size_t n, tri_text *out) {
  tri_part text = trimmed(response, n);

  return text.n ? tri_text_put(out, text.at, text.n) : TRI_OK;
}

static bool last_number(const char *s, size_t n, tri_text_number *out) {
  return tri_text_number_last(s, n, out) == TRI_TEXT_NUMBER;
}

static tri_status number_same(tri_part a, tri_part b, bool *same) {
  tri_text_number x, y;

  *same = last_number(a.at, a.n, &x) && last_number(b.at, b.n, &y) && tri_text_number_same(&x, &y);
  return TRI_OK;
}

static const char *number_refuse(void *state, const char *truth, size_t n) {
  tri_text_number want;

  (void)state;
  switch (tri_text_number_last(truth, n, &want)) {
  case TRI_TEXT_NUMBER:
    return NULL;
  case TRI_TEXT_BROKEN:
    return "does not end in a plain number (1.2.3 and 3\\sqrt{2} are none), and reward number compares "
           "numbers (boxed compares formulas)";
  default:
    return trimmed(truth, n).n ? "holds no number, and reward number compares numbers"
                               : "is empty, and reward number compares numbers";
  }
}

static tri_status number_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) {
    tri_text_number want, got;
    if (!last_number(a[q].truth, a[q].truth_bytes, &want))
      TRI_FAIL(TRI_EINPUT,
               "the right answer of prompt_id %lld has no number for reward number to compare with. Check "
               "data.answer_key",
               (long long)a[q].prompt_id);
    score[q] = last_number(a[q].response, a[q].response_bytes, &got) && tri_text_number_same(&got, &want);
  }
  return TRI_OK;
}

static tri_status number_result(const char *response, size_t n, tri_text *out) {
  tri_text_number got;

  return last_number(response, n, &got) ? tri_text_number_put(&got, out) : TRI_OK;
}

typedef struct regex {
  pcre2_code          *code, *counted; /* counted: compiled with count_step at every item */
  int64_t              left;           /* steps left of this search */
  pcre2_match_data    *match;
  pcre2_match_context *limits;
  pcre2_jit_stack     *stack;
} regex;

static int count_step(pcre2_callout_block *block, void *left) {
  (void)block;
  return --*(int64_t *)left < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

static void regex_close(void **state) {
  regex *x = *state;

  if (!x) return;
  pcre2_code_free(x->code);
  pcre2_code_free(x->counted);
  pcre2_match_data_free(x->match);
  pcre2_match_context_free(x->limits);
  pcre2_jit_stack_free(x->stack);
  tri_host_free(state);
}

/* Compiles the pattern. `more` adds PCRE2 options to the usual ones. */
static tri_status compile(const tri_reward_opt *o, uint32_t more, pcre2_code **out) {
  const char *pattern = tri_reward_get(o, "pattern");
  int         error;
  PCRE2_SIZE  offset;
  PCRE2_UCHAR text[256];

  *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | more,
                       &error, &offset, NULL);
  if (*out) return TRI_OK;
  pcre2_get_error_message(error, text, sizeof text);
  TRI_FAIL(TRI_ECONFIG, "%s (at byte %zu)", (const char *)text, offset);
}

static tri_status regex_check(const tri_reward_opt *o, const tri_reward_env *env, const char **field) {
  pcre2_code *code;

  (void)env;
  *field = "pattern";
  TRI_TRY(compile(o, PCRE2_AUTO_CALLOUT, &code)); /* the larger of both codes */
  pcre2_code_free(code);
  return TRI_OK;
}

static tri_status regex_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  tri_status st = TRI_OK;
  regex     *x = NULL;

  (void)env;
  *state = NULL;
  TRI_TRY(TRI_ALLOC(x, 1));
  TRI_TRY_DONE(tri_error_at(compile(o, 0, &x->code), "the pattern of reward regex"));
  TRI_TRY_DONE(tri_error_at(compile(o, PCRE2_AUTO_CALLOUT, &x->counted), "the pattern of reward regex"));
  /* Without executable memory the interpreter finds the same matches. */
  (void)pcre2_jit_compile(x->code, PCRE2_JIT_COMPLETE);
  (void)pcre2_jit_compile(x->counted, PCRE2_JIT_COMPLETE);
  x->match = pcre2_match_data_create(1, NULL);
  x->limits = pcre2_match_context_create(NULL);
  x->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MOST, NULL);
  if (!x->match || !x->limits) TRI_FAIL_DONE(TRI_ENOMEM, "the host has no memory left for a pattern");
  pcre2_set_callout(x->limits, count_step, &x->left);
  pcre2_set_depth_limit(x->limits, DEPTH_LIMIT);
  pcre2_set_heap_limit(x->limits, HEAP_LIMIT_KIB);
  if (x->stack) pcre2_jit_stack_assign(x->limits, NULL, x->stack);
done:
  *state = x;
  if (st != TRI_OK) regex_close(state);
  return st;
}

/* Returns the result of pcre2_match. */
static int regex_search(regex *x, const char *s, size_t n) {
  int rc;

  x->left = MATCH_LIMIT;
  pcre2_set_match_limit(x->limits, FEW_STEPS);
  rc = pcre2_match(x->code, (PCRE2_SPTR)s, n, 0, 0, x->match, x->limits);
  if (rc != PCRE2_ERROR_MATCHLIMIT) return rc;
  x->left = MATCH_LIMIT;
  pcre2_set_match_limit(x->limits, MATCH_LIMIT);
  return pcre2_match(x->counted, (PCRE2_SPTR)s, n, 0, 0, x->match, x->limits);
}

static tri_status regex_score(void *state, const tri_answer *a, int n, float *score) {
  regex *x = state;

  for (int q = 0; q < n; q++) {
    const char *subject = a[q].response_bytes ? a[q].response : "";
    int         rc = regex_search(x, subject, a[q].response_bytes);
    if (rc == PCRE2_ERROR_NOMEMORY)
      TRI_FAIL(TRI_ENOMEM, "the host has no memory left to search for a pattern");
    score[q] = rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : NAN;
  }
  return TRI_OK;
}

#define NO_END "the search for its pattern reached its limit of steps or memory. Use fewer nested repeats"
static const tri_reward_field regex_field[] = {{.name = "pattern",
                                                .unit = "1",
                                                .help = "A PCRE2 expression.",
                                                .value = "P",
                                                .what = "the expression",
                                                .must = true},
                                               {.name = NULL}};

#define VALUES "1 or 0"
const tri_reward tri_reward_exact = {.name = "exact",
                                     .help = "the trimmed answer equals",
                                     .values = VALUES,
                                     .best = 1,
                                     .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                     .refuse = exact_refuse,
                                     .score = exact_score,
                                     .result = exact_result};
const tri_reward tri_reward_number = {.name = "number",
                                      .help = "the last number equals",
                                      .values = VALUES,
                                      .best = 1,
                                      .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                      .score = number_score,
                                      .refuse = number_refuse,
                                      .result = number_result,
                                      .same = number_same};
const tri_reward tri_reward_regex = {.name = "regex",
                                     .help = "pattern is found in the answer",
                                     .values = VALUES,
                                     .best = 1,
                                     .needs = TRI_REWARD_TEXT,
                                     .field = regex_field,
                                     .failure = NO_END,
                                     .check = regex_check,
                                     .open = regex_open,
                                     .score = regex_score,
                                     .close = regex_close};
