/* reward_rule.c - rewards by rule: the same text, the same last number, a pattern found. */
#include "reward.h"

#include <math.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

/* Steps of the search of an answer before it counts as endless, from all its places together. PCRE2 limits
 * those from one place only: a search that stays below FEW_STEPS there is bounded by the answer's length; any
 * other begins anew with a step counted at every item of the pattern. Memory of a search: the stack of the
 * JIT, and the heap and depth of the interpreter, which serves patterns that begin with (*NO_JIT) and
 * machines without executable memory. Chosen: each has room for 200 000 repeats of a group (pcre2jit(3),
 * pcre2api(3)). */
enum { FEW_STEPS = 256 }; /* chosen: nested repeats alone take more */
enum { MATCH_LIMIT = 10000000, DEPTH_LIMIT = 1000000, HEAP_LIMIT_KIB = 64 * 1024 };
enum { JIT_STACK_START = 32 * 1024, JIT_STACK_MOST = 8 * 1024 * 1024 };

/* Part of a text, borrowed. */
typedef struct span {
  const char *at;
  size_t      n;
} span;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static span trimmed(const char *at, size_t n) {
  while (n && is_space(*at)) {
    at++;
    n--;
  }
  while (n && is_space(at[n - 1])) n--;
  return (span){at, n};
}

static bool same_bytes(span a, span b) { return a.n == b.n && (!a.n || !memcmp(a.at, b.at, a.n)); }

static tri_status exact_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++)
    score[q] = same_bytes(trimmed(a[q].response, a[q].response_bytes), trimmed(a[q].truth, a[q].truth_bytes));
  return TRI_OK;
}

/* A decimal number where it stands: whole without leading zeros (commas still inside), fraction without
 * trailing ones. */
typedef struct decimal {
  bool negative;
  span whole, fraction;
} decimal;

static size_t count_digits(const char *s, size_t i, size_t n) {
  size_t k = 0;
  while (i + k < n && is_digit(s[i + k])) k++;
  return k;
}

/* End of the whole part that begins at i: digits, or up to three and then groups of three behind commas. */
static size_t whole_end(const char *s, size_t i, size_t n) {
  size_t k = count_digits(s, i, n);

  i += k;
  if (k < 1 || k > 3) return i;
  while (i < n && s[i] == ',' && count_digits(s, i + 1, n) == 3) i += 4;
  return i;
}

/* Is s[i] a sign of the number behind it, rather than an operator or a hyphen? */
static bool is_sign(const char *s, size_t i) {
  if (s[i] != '-' && s[i] != '+') return false;
  return i == 0 || !(is_digit(s[i - 1]) || is_letter(s[i - 1]) || s[i - 1] == ')' || s[i - 1] == ']');
}

/* The number that begins at i (a digit, or a point before one), and where it ends. */
static decimal decimal_read(const char *s, size_t i, size_t n, size_t *end) {
  decimal d = {.negative = i > 0 && s[i - 1] == '-' && is_sign(s, i - 1)};

  *end = whole_end(s, i, n);
  d.whole = (span){s + i, *end - i};
  if (*end + 1 < n && s[*end] == '.' && is_digit(s[*end + 1])) {
    d.fraction = (span){s + *end + 1, count_digits(s, *end + 1, n)};
    *end += 1 + d.fraction.n;
  }
  while (d.whole.n && (*d.whole.at == '0' || *d.whole.at == ','))
    d.whole = (span){d.whole.at + 1, d.whole.n - 1};
  while (d.fraction.n && d.fraction.at[d.fraction.n - 1] == '0') d.fraction.n--;
  if (!d.whole.n && !d.fraction.n) d.negative = false;
  return d;
}

static bool last_decimal(const char *s, size_t n, decimal *out) {
  bool   found = false;
  size_t i = 0;

  while (i < n) {
    bool point = s[i] == '.' && i + 1 < n && is_digit(s[i + 1]) && (i == 0 || !is_digit(s[i - 1]));
    if (is_digit(s[i]) || point) {
      *out = decimal_read(s, i, n, &i);
      found = true;
    } else {
      i++;
    }
  }
  return found;
}

static bool same_decimal(const decimal *a, const decimal *b) {
  span x = a->whole, y = b->whole;

  if (a->negative != b->negative || !same_bytes(a->fraction, b->fraction)) return false;
  while (x.n && y.n) {
    if (*x.at == ',') {
      x = (span){x.at + 1, x.n - 1};
    } else if (*y.at == ',') {
      y = (span){y.at + 1, y.n - 1};
    } else if (*x.at != *y.at) {
      return false;
    } else {
      x = (span){x.at + 1, x.n - 1};
      y = (span){y.at + 1, y.n - 1};
    }
  }
  return !x.n && !y.n;
}

static const char *number_refuse(void *state, const char *truth, size_t n) {
  decimal want;

  (void)state;
  return last_decimal(truth, n, &want) ? NULL : "holds no number, and reward number compares numbers";
}

static tri_status number_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) {
    decimal want, got;
    if (!last_decimal(a[q].truth, a[q].truth_bytes, &want))
      TRI_FAIL(TRI_EINPUT,
               "the answer given with prompt_id %lld holds no number, so reward number cannot judge; look at "
               "data.answer_key",
               (long long)a[q].prompt_id);
    score[q] = last_decimal(a[q].response, a[q].response_bytes, &got) && same_decimal(&got, &want);
  }
  return TRI_OK;
}

typedef struct regex {
  pcre2_code          *code, *counted; /* counted: calls count_step at every item */
  int64_t              left;           /* steps, of this search */
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

/* more: options of PCRE2 beside those of every pattern. */
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
  TRI_TRY(compile(o, PCRE2_AUTO_CALLOUT, &code)); /* the larger of the two */
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
  /* Where no executable memory is to be had, the interpreter finds the same matches. */
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

/* As pcre2_match. */
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

#define NO_END                                                                                               \
  "the search for its pattern reached its limit of steps or memory; write it with fewer nested repeats"
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
                                     .score = exact_score};
const tri_reward tri_reward_number = {.name = "number",
                                      .help = "the last number equals",
                                      .values = VALUES,
                                      .best = 1,
                                      .needs = TRI_REWARD_TRUTH | TRI_REWARD_TEXT,
                                      .score = number_score,
                                      .refuse = number_refuse};
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
