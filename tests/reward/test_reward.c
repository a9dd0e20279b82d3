/* test_reward.c - rewards by rule and their weighted sum. Judge: tables of cases worked by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward/reward.h"
#include "refusal_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static tri_answer answer(const char *response, const char *truth) {
  return (tri_answer){.prompt_id = 12,
                      .response = response,
                      .truth = truth,
                      .response_bytes = strlen(response),
                      .truth_bytes = truth ? strlen(truth) : 0};
}

static tri_reward_opt option(const char *name, double weight, const char *pattern) {
  tri_reward_opt o = {.name = name, .weight = weight};
  if (pattern[0]) {
    o.field[0].name = "pattern";
    o.field[o.n_field++].value = pattern;
  }
  return o;
}

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tri_error_clear();
  return tri_host_bytes() == 0 ? 0 : -1;
}

/* Returns the score of one answer, NAN if the reward failed. It may fail with *st. */
static float score_as(const char *name, const char *pattern, tri_answer a, tri_status *st) {
  tri_reward_opt  o = option(name, 1, pattern);
  tri_reward_set *set;
  float           part = -1, total = -1;
  int32_t         failed = 0;

  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  *st = tri_reward_set_score(set, &a, 1, &part, &total, &failed);
  tri_reward_set_close(&set);
  assert_true(*st != TRI_OK || total == part);
  return failed ? NAN : part;
}

typedef struct pair_case {
  const char *response, *truth;
  int         want;
} pair_case;

static void check_cases(const char *name, const pair_case *c, size_t n) {
  for (size_t i = 0; i < n; i++) {
    tri_status st;
    float      x = score_as(name, "", answer(c[i].response, c[i].truth), &st);
    if (st != TRI_OK || x != (float)c[i].want)
      fail_msg("%s: '%s' against '%s' gave %g, not %d", name, c[i].response, c[i].truth, (double)x,
               c[i].want);
  }
}

static void test_exact(void **state) {
  static const pair_case c[] = {{"Paris", "Paris", 1},
                                {" \t\r\n\v\fParis\n", "Paris ", 1},
                                {"paris", "Paris", 0},
                                {"Paris.", "Paris", 0},
                                {"", "", 1},
                                {"  ", "\n", 1},
                                {"", "x", 0},
                                {"x", "", 0},
                                {"Zo\xc3\xab", "Zo\xc3\xab", 1},
                                {"a  b", "a b", 0}};
  tri_answer             nul = answer("a", "a");
  tri_status             st;

  (void)state;
  check_cases("exact", c, sizeof c / sizeof *c);
  nul.response = "a\0b"; /* text behind a NUL counts */
  nul.response_bytes = 3;
  assert_true(score_as("exact", "", nul, &st) == 0 && st == TRI_OK);
  nul.truth = "a\0b";
  nul.truth_bytes = 3;
  nul.truncated = true; /* scored like any other */
  assert_true(score_as("exact", "", nul, &st) == 1 && st == TRI_OK);
}

static const pair_case numbers[] = {
    {"She sold 48/2 = 24 clips, so 48 + 24 = 72.", "Natalia sold 48+24 = <<48+24=72>>72 clips.\n#### 72", 1},
    {"The answer is 73.", "#### 72", 0},
    {"72", "72.00", 1},
    {"072", "72", 1},
    {"1,234", "1234", 1},
    {"$1,234,567.50 in all", "1234567.5", 1},
    {"1234,567", "567", 0}, /* no number as a whole, so no number */
    {"1,2345", "2345", 0},
    {"1,23", "23", 0},
    {"so 5, or 1,23", "5", 0}, /* and no other is taken */
    {"1,000", "1000.0", 1},
    {"0,001", "1", 0},
    {"-5", "5", 0},
    {"-5", "-5.0", 1},
    {"+5", "5", 1},
    {"= -5", "-5", 1},
    {"(-5)", "-5", 1},
    {"7-3", "3", 1}, /* an operator */
    {"(7)-3", "3", 1},
    {"covid-19", "19", 1}, /* a hyphen */
    {"7 - -3", "-3", 1},
    {"-0", "0", 1},
    {"-0.00", "0", 1},
    {".5", "0.5", 1},
    {"-.5", "-0.50", 1},
    {".5", "5", 0},
    {"which is ...72", "72", 1},
    {"0.50", "0.5", 1},
    {"5.", "5", 1},
    {"1.2.3", "3", 0},
    {"1.2.3", "1.2", 0},
    {"at 4:30", "30", 0},
    {"1_000", "0", 0},
    {"1/2/2024", "2024", 0},
    {"0x1F", "0", 0},
    {"0.1", "0.10000000000000000001", 0}, /* equal as doubles */
    {"9007199254740993", "9007199254740992", 0},
    {"100", "1", 0},
    {"1", "100", 0},
    {"1,00", "100", 0},
    {"10", "1", 0},
    {"0.05", "0.5", 0},
    {"no digits here", "4", 0},
    {"", "4", 0},
    {"-", "4", 0},
    {".", "4", 0},
    {"4 apples, not 5 pears", "4", 0}, /* the last one counts */
    {"72%", "72", 1},
    {"\xe2\x88\x92"
     "72",
     "72", 0}, /* U+2212 is a minus sign */
    {"\xe2\x88\x92"
     "72",
     "-72", 1},
    {"\xe2\x80\x93"
     "72",
     "-72", 1}, /* and U+2013 */
    {"\xef\xbc\x8d"
     "7",
     "-7", 1}, /* and U+FF0D */
    {"7\xe2\x88\x92"
     "3",
     "3", 1},
    {"-$5", "-5", 1},
    {"1.5e3", "1500", 1},
    {"1.5E+3", "1500", 1},
    {"25e-2", "0.25", 1},
    {"1.5 \\times 10^3", "1500", 1},
    {"1.5 \\times 10^{-3}", "0.0015", 1},
    {"1.5\xc3\x97"
     "10\xc2\xb3",
     "1500", 1}, /* U+00D7, U+00B3 */
    {"2^{10}", "1024", 1},
    {"2^10", "10", 0},
    {"3/4", "0.75", 1},
    {"0.75", "\\frac{3}{4}", 1},
    {"\\dfrac34", "0.75", 1},
    {"-\\frac{3}{4}", "-0.75", 1},
    {"1\\frac{1}{2}", "1.5", 1},
    {"1 1/2 cups", "3/2", 1},
    {"1\xc2\xbd", "1.5", 1}, /* U+00BD */
    {"1\xc2\xbd", "1", 0},
    {"2/6", "1/3", 1},
    {"1/3", "0.3333333333333333", 0},
    {"3/0", "3", 0},
    {"\\frac{x}{2} of 7", "7", 1},
    {"\\frac{x}{2}", "2", 0},
    {"1{,}234", "1234", 1},
    {"1,\\!234,\\!567", "1234567", 1},
    {"1\\,234", "1234", 1},
    {"1\xe2\x80\x89"
     "234.5",
     "1234.5", 1}, /* U+2009 */
    {"1\xe2\x80\xaf"
     "234",
     "1234", 1}, /* U+202F */
    {"1\xc2\xa0"
     "234",
     "1234", 1}, /* U+00A0 */
    {"1\xe2\x80\x89"
     "234",
     "234", 0},
    {"10 000", "10000", 1},
    {"of 12 34", "34", 1}, /* two numbers */
    {"25 m^2", "25", 1},   /* exponents, indices and words are not numbers */
    {"25 cm^{2}", "25", 1},
    {"x_1 = 7", "7", 1},
    {"72 g of H2O", "72", 1},
    {"72 by v2.0", "72", 1},
    {"v2.0", "0", 0},
    {"1e400", "1e400", 1},
    {"1e400", "1e401", 0},
    {"1, 2, 3", "3", 1},
    {"1,", "1", 1},
    {"1,234,", "1234", 1},
    {"12,345,678.9", "12345678.90", 1},
};

static void test_number(void **state) {
  (void)state;
  check_cases("number", numbers, sizeof numbers / sizeof *numbers);
}

/* A number is never cut out of a formula or of a longer number. `cut` has the last digits of the text. */
static void test_number_is_whole(void **state) {
  static const struct {
    const char *response, *cut;
  } c[] = {{"3\\sqrt{2}", "2"},
           {"\\sqrt 2", "2"},
           {"\\sqrt[3]{8}", "8"},
           {"\xe2\x88\x9a"
            "2",
            "2"}, /* U+221A */
           {"2\\pi", "2"},
           {"2 \xcf\x80", "2"}, /* U+03C0 */
           {"2pi", "2"},
           {"1/2 \\pi", "0.5"},
           {"\\frac{1}{2}\\pi", "0.5"},
           {"\\pi/2", "2"},
           {"(a+b)/2", "2"},
           {"1/x", "1"},
           {"1/\\sqrt{x}", "1"},
           {"2x", "2"},
           {"3 + 4i", "4"},
           {"2e", "2"},
           {"5k", "5"}, /* five thousand */
           {"2 million", "2"},
           {"2(x+1)", "1"},
           {"x + 5", "5"},
           {"x^2+5", "5"},
           {"\\sqrt{2}+1", "1"},
           {"2x + 3", "3"},
           {"1 + x", "1"},
           {"1-n", "1"},
           {"2 \\cdot x", "2"},
           {"2^n", "2"},
           {"2^{x}", "2"},
           {"\\log_2 8", "8"},
           {"\\sin 30", "30"},
           {"sqrt(16)", "16"},
           {"\\binom{5}{2}", "2"},
           {"\\frac{3\\sqrt{2}}{2}", "2"},
           {"0.333...", "0.333"},
           {"0.\\overline{3}", "3"},
           {"0.1\\overline{6}", "0.1"},
           {"5 \\pm 2", "2"},
           {"\\pm 3", "3"},
           {"sqrt 3", "3"},
           {"ln 3", "3"},
           {"sin 30", "30"},
           {"2 x", "2"},
           {"0.(36)", "36"},
           {"0.1(6)", "6"},
           {"(1/2)^3", "0.5"},
           {"\\left(2\\right)^3", "2"},
           {"\\pi \\div 2", "2"},
           {"x \xc3\xb7 2", "2"}, /* U+00F7 */
           {"204_{5}", "204"}};
  static const pair_case whole[] = {{"50%", "50", 1},
                                    {"72cm", "72", 1},
                                    {"7 pm", "7", 1},
                                    {"5m", "5", 1},
                                    {"60 km/h", "60", 1},
                                    {"$5/day", "5", 1},
                                    {"30^{\\circ}", "30", 1},
                                    {"17^{\\text{th}}", "17", 1},
                                    {"28 \\text{ cm}^2", "28", 1},
                                    {"**72**", "72", 1},
                                    {"*72* a day", "72", 1},
                                    {"about 5...", "5", 1},
                                    {"5!", "5", 1},
                                    {"5 - a good number", "5", 1},
                                    {"b) 5", "5", 1},
                                    {"Option B: 5", "5", 1},
                                    {"\\boxed{5}", "5", 1},
                                    {"\\sqrt{16} = 4", "4", 1},
                                    {"2\\pi \\approx 6.28", "6.28", 1},
                                    {"2x = 10, so x = 5", "5", 1},
                                    {"10^{3}", "1000", 1},
                                    {"min 5", "5", 1},
                                    {"8 x 3 = 24", "24", 1},
                                    {"(x = 5)", "5", 1},
                                    {"24 + 48 = 72", "72", 1}};
  tri_reward_opt         o = {.name = "number", .weight = 1};
  tri_reward_set        *set;

  (void)state;
  check_cases("number", whole, sizeof whole / sizeof *whole);
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    pair_case x = {c[i].response, c[i].cut, 0};
    check_cases("number", &x, 1);
    if (!tri_reward_set_refuse(set, c[i].response, strlen(c[i].response)))
      fail_msg("'%s' is taken for a number", c[i].response);
  }
  tri_reward_set_close(&set);
}

/* The text ends at its length, even inside a number. */
static void test_number_bounds(void **state) {
  static const char text[] = "1,234.567";
  static const struct {
    size_t      n;
    const char *truth;
  } c[] = {{1, "1"}, {2, "1"}, {5, "1234"}, {6, "1234"}, {7, "1234.5"}, {9, "1234.567"}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    char      *copy = malloc(c[i].n); /* lets a sanitizer see reads behind the end */
    tri_answer a = answer("", c[i].truth);
    tri_status st;
    assert_non_null(copy);
    memcpy(copy, text, c[i].n);
    a.response = copy;
    a.response_bytes = c[i].n;
    assert_true(score_as("number", "", a, &st) == 1 && st == TRI_OK);
    free(copy);
  }
}

/* A truth that is not a number as a whole is refused while data is read. */
static void test_truth_broken(void **state) {
  static const char *const truth[] = {"12,34", "none", "1.2.3", "4:30"};
  tri_reward_opt           o = {.name = "number", .weight = 1};
  tri_reward_set          *set;

  (void)state;
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  for (size_t i = 0; i < sizeof truth / sizeof *truth; i++)
    assert_non_null(tri_reward_set_refuse(set, truth[i], strlen(truth[i])));
  assert_null(tri_reward_set_refuse(set, "1,234", 5));
  tri_reward_set_close(&set);
}

/* Such a truth would reward empty answers. */
static void test_truth_empty(void **state) {
  static const char *const name[] = {"exact", "number", "gsm8k", "boxed"}, *const truth[] = {"", " \n"};

  (void)state;
  for (size_t i = 0; i < 4; i++) {
    tri_reward_opt  o = {.name = name[i], .weight = 1};
    tri_reward_set *set;
    assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
    for (size_t j = 0; j < 2; j++)
      if (!tri_reward_set_refuse(set, truth[j], strlen(truth[j])))
        fail_msg("%s takes '%s' for a right answer", name[i], truth[j]);
    tri_reward_set_close(&set);
  }
}

static void test_truth_missing(void **state) {
  tri_status st;

  (void)state;
  score_as("exact", "", answer("x", NULL), &st);
  assert_int_equal(st, TRI_EINPUT);
  expect_refusal("prompt_id 12");
  expect_refusal("check_truths() prompt_id 12 exact");
  tri_error_clear();
  score_as("number", "", answer("1", NULL), &st);
  assert_int_equal(st, TRI_EINPUT);
  tri_error_clear();
  score_as("number", "", answer("1", "none"), &st);
  assert_int_equal(st, TRI_EINPUT);
  expect_refusal("prompt_id 12");
}

static void test_regex(void **state) {
  static const struct {
    const char *pattern, *response;
    int         want;
  } c[] = {
      {"####\\s*-?\\d+", "so #### 72", 1},
      {"^\\d+$", "so 72", 0},
      {"^\\d+$", "72", 1},
      {"(?i)paris", "in PARIS", 1},
      {"a.c", "a\nc", 0},
      {"(?s)a.c", "a\nc", 1},
      {"^.$", "\xc3\xab", 1},
      {"^..$", "\xc3\xab", 0}, /* characters, not bytes */
      {"\xc3\xab", "Zo\xc3\xab", 1},
      {"^$", "", 1},
      {"x", "", 0},
      {"<think>(?s:.*)</think>\\s*<answer>", "<think>a\nb</think>\n<answer>1", 1},
      {"(\\w)\\1", "abba", 1},
  };
  tri_answer nul = answer("a", NULL);
  tri_status st;

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    float x = score_as("regex", c[i].pattern, answer(c[i].response, NULL), &st);
    if (st != TRI_OK || x != (float)c[i].want)
      fail_msg("'%s' in '%s' gave %g", c[i].pattern, c[i].response, (double)x);
  }
  nul.response = "a\0b";
  nul.response_bytes = 3;
  assert_true(score_as("regex", "b", nul, &st) == 1 && st == TRI_OK);
  nul.response = NULL;
  nul.response_bytes = 0;
  assert_true(score_as("regex", "b", nul, &st) == 0 && st == TRI_OK);
}

/* This match repeats the group 200 000 times, and needs more stack than the JIT's small default. */
static void test_regex_long(void **state) {
  enum { N = 200000 };
  char      *text = malloc(N + 1);
  tri_status st;

  (void)state;
  assert_non_null(text);
  memset(text, 'a', N);
  text[N] = 0;
  assert_true(score_as("regex", "^(?:a|b)+$", answer(text, NULL), &st) == 1 && st == TRI_OK);
  free(text);
}

static void test_regex_refused(void **state) {
  tri_reward_opt  o = option("regex", 1, "");
  tri_reward_set *set;

  (void)state;
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_ECONFIG);
  assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
  assert_null(set);
  expect_refusal("check_must() reward.pattern reward pattern");
  tri_error_clear();
  o = option("regex", 1, "ab(c");
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_ECONFIG);
  assert_null(set);
  expect_refusal("compile() reward.pattern ab(c 4");
  expect_refusal("compile() reward.pattern ab(c 4");
  tri_error_clear();
  assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG); /* without opening it */
  expect_refusal("compile() reward.pattern ab(c 4");
  tri_error_clear();
  o = option("regex", 1, "\xff");
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_ECONFIG);
  tri_error_clear();
}

/* Only PCRE2's own limits apply to a pattern. The last of 2000 alternatives is found. */
static void test_regex_long_pattern(void **state) {
  enum { N = 4000 };
  char      *pattern = malloc(N + 4);
  tri_status st;

  (void)state;
  assert_non_null(pattern);
  for (int i = 0; i < N; i += 2) memcpy(pattern + i, "a|", 2);
  memcpy(pattern + N, "bcd", 4);
  assert_true(score_as("regex", pattern, answer("xbcdx", NULL), &st) == 1 && st == TRI_OK);
  assert_true(score_as("regex", pattern, answer("xbcx", NULL), &st) == 0 && st == TRI_OK);
  free(pattern);
}

/* The text of an answer is never an error. Judge: PCRE2's limits as stated in reward_rule.c. */
static void test_regex_cannot_judge(void **state) {
  enum { N = 2000000 };
  static const char *const bomb = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
  char                    *text = malloc(N + 1);
  tri_status               st;

  (void)state;
  assert_non_null(text);
  memset(text, 'a', N);
  text[N] = 0;
  assert_true(isnan(score_as("regex", "^(a+)+$", answer(bomb, NULL), &st)) && st == TRI_OK);
  assert_true(isnan(score_as("regex", "(*NO_JIT)^(a+)+$", answer(bomb, NULL), &st)) && st == TRI_OK);
  /* the stack of the JIT, the heap of the interpreter, the depth of calls */
  assert_true(isnan(score_as("regex", "^(?:a|b)+$", answer(text, NULL), &st)) && st == TRI_OK);
  assert_true(isnan(score_as("regex", "(*NO_JIT)^(?:a|b)+$", answer(text, NULL), &st)) && st == TRI_OK);
  assert_true(isnan(score_as("regex", "^(a(?1)?b)$", answer(text, NULL), &st)) && st == TRI_OK);
  /* the decoder never produces this */
  assert_true(isnan(score_as("regex", "a", answer("\xff", NULL), &st)) && st == TRI_OK);
  free(text);
}

/* 2^21 steps from one start are few enough, but not from each of 50 words. */
static void test_regex_bounds_the_sum(void **state) {
  char       text[50 * 22 + 1];
  tri_status st;

  (void)state;
  memset(text, 'a', sizeof text - 1);
  for (size_t i = 21; i < sizeof text; i += 22) text[i] = ' ';
  text[sizeof text - 1] = 0;
  assert_true(isnan(score_as("regex", "(a|a)*[bc]", answer(text, NULL), &st)) && st == TRI_OK);
  assert_true(score_as("regex", "(a|a)*[b ]", answer(text, NULL), &st) == 1 && st == TRI_OK);
}

/* 2 exact - 0.5 regex(\d) + 1 regex(^P) is 2 + 0 + 1 for "Paris", 0 - 0.5 + 1 for "P1", and 0 for "x". */
static void test_set(void **state) {
  const tri_reward_opt o[] = {option("exact", 2, ""), option("regex", -0.5, "\\d"), option("regex", 1, "^P")};
  const tri_answer     a[] = {answer("Paris", "Paris"), answer("P1", "Paris"), answer("x", "Paris")};
  static const float   want_part[] = {1, 0, 1, 0, 1, 1, 0, 0, 0}, want[] = {3, 0.5f, 0};
  tri_reward_set      *s;
  float                part[9], total[3];
  int32_t              failed[3];

  (void)state;
  assert_int_equal(tri_reward_set_open(o, 3, NULL, &s), TRI_OK);
  assert_int_equal(tri_reward_set_count(s), 3);
  assert_string_equal(tri_reward_set_name(s, 0), "exact");
  assert_string_equal(tri_reward_set_name(s, 1), "regex");
  assert_string_equal(tri_reward_set_name(s, 2), "regex_2");
  assert_int_equal(tri_reward_set_score(s, a, 3, part, total, failed), TRI_OK);
  assert_memory_equal(part, want_part, sizeof part);
  assert_memory_equal(total, want, sizeof total);
  assert_int_equal(tri_reward_set_score(s, a, 0, part, total, failed), TRI_OK);
  tri_reward_set_close(&s);
  assert_null(s);
  tri_reward_set_close(&s);
}

/* 2 exact + 1 regex. The regex search never ends on the first answer, so the sums are 2 + 0 and 0 + 1. */
static void test_set_cannot_judge(void **state) {
  const tri_reward_opt o[] = {option("exact", 2, ""), option("regex", 1, "^(a+)+$")};
  const tri_answer     a[] = {answer("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                                     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"),
                              answer("a", "b")};
  static const float   want_part[] = {1, 0, 0, 1}, want[] = {2, 1};
  tri_reward_set      *s;
  float                part[4], total[2];
  int32_t              failed[2];

  (void)state;
  assert_int_equal(tri_reward_set_open(o, 2, NULL, &s), TRI_OK);
  assert_int_equal(tri_reward_set_score(s, a, 2, part, total, failed), TRI_OK);
  assert_memory_equal(part, want_part, sizeof part);
  assert_memory_equal(total, want, sizeof total);
  assert_true(failed[0] == 1 << 1 && failed[1] == 0);
  tri_reward_set_close(&s);
}

static void refuse_set(const tri_reward_opt *o, int n, const char *word) {
  tri_reward_set *s;

  assert_int_equal(tri_reward_set_open(o, n, NULL, &s), TRI_ECONFIG);
  assert_null(s);
  expect_refusal(word);
  tri_error_clear();
}

/* Makes "exact, number or regex" of all rows, with `last` = " or ". */
static void join_names(const char *last, char *out, size_t bytes) {
  out[0] = 0;
  for (int i = 0; tri_reward_at(i); i++) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s%s",
             !i                     ? ""
             : tri_reward_at(i + 1) ? ", "
                                    : last,
             tri_reward_at(i)->name);
  }
}

static void test_set_refused(void **state) {
  tri_reward_opt   o[17], one;
  char             names[256], known[280];
  tri_reward_set  *s;
  const tri_answer a = answer("x", "x");
  float            part, total;
  int32_t          failed;

  (void)state;
  for (int i = 0; i < 17; i++) o[i] = option("exact", 1, "");
  refuse_set(o, 0, "tri_reward_set_open() 1 16");
  refuse_set(o, 17, "tri_reward_set_open() 1 16");
  o[1] = option("numbr", 1, "");
  refuse_set(o, 2, "tri_reward_check_name() reward.name numbr number");
  o[1] = option("zzzzzzzz", 1, "");
  join_names(" and ", names, sizeof names);
  snprintf(known, sizeof known, " %s", names);
  refuse_set(o, 2, known);
  o[1] = option("number", NAN, "");
  refuse_set(o, 2, "check_row() reward.weight nan number");
  o[1] = option("number", 1, "x");
  refuse_set(o, 2, "tri_reward_check_fields() reward.pattern x reward pattern");
  o[1] = option("regex", 1, "");
  refuse_set(o, 2, "check_must() reward.pattern regex pattern");
  one = option("exact", 1e300, "");
  assert_int_equal(tri_reward_set_open(&one, 1, NULL, &s), TRI_OK);
  assert_int_equal(tri_reward_set_score(s, &a, 1, &part, &total, &failed), TRI_ENUMERIC);
  expect_refusal("prompt_id 12");
  tri_reward_set_close(&s);
}

/* Messages name the flag as typed, not the key of a deck. */
static void test_refused_flags(void **state) {
  static const struct {
    const char *name, *pattern, *message;
  } row[] = {{"numbr", "", "tri_reward_check_name() --reward numbr number"},
             {"number", "x", "tri_reward_check_fields() --pattern x pattern"},
             {"regex", "", "check_must() --pattern regex pattern"},
             {"regex", "a\x1b(", "compile() --pattern a\\x1B( 3"}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_reward_opt o = option(row[i].name, 1, row[i].pattern);
    assert_int_equal(tri_reward_check_flags(&o, NULL), TRI_ECONFIG);
    expect_refusal(row[i].message);
    tri_error_clear();
  }
}

/* ---- length ---- */

static tri_reward_opt shaping(const char *buffer, const char *factor) {
  tri_reward_opt o = {.name = "length", .weight = 1};

  if (buffer) {
    o.field[o.n_field].name = "buffer";
    o.field[o.n_field++].value = buffer;
  }
  if (factor) {
    o.field[o.n_field].name = "factor";
    o.field[o.n_field++].value = factor;
  }
  return o;
}

/* Scores an answer of n tokens, and one with more that were not drawn. Their text does not matter. */
static float shaped(int64_t longest, const char *buffer, const char *factor, int n) {
  tri_reward_opt  o = shaping(buffer, factor);
  tri_reward_env  env = {.longest = longest, .longest_key = "the test"};
  tri_answer      a[] = {{.prompt_id = 12, .response = "", .n_prompt = 3, .n_token = n},
                         {.prompt_id = 12, .response = "", .n_prompt = 3, .n_token = n + 7, .n_given = 7}};
  float           part[2], total[2];
  int32_t         failed[2];
  tri_reward_set *set;

  assert_int_equal(tri_reward_set_open(&o, 1, &env, &set), TRI_OK);
  assert_int_equal(tri_reward_set_score(set, a, 2, part, total, failed), TRI_OK);
  assert_true(part[0] == total[0] && !failed[0] && part[1] == part[0]);
  assert_int_equal(tri_reward_set_is_full(set, part), part[0] == 0);
  tri_reward_set_close(&set);
  return part[0];
}

/* Judge: TRL's get_soft_overlong_punishment (tests/golden/make_reward_golden.py). We do not copy its two
 * roundings in f64. */
static void test_length(void **state) {
  FILE  *f = fopen(TRI_TEST_DATA "/reward/length.txt", "r");
  int    longest, buffer, n, lines = 0;
  double want;

  (void)state;
  assert_non_null(f);
  while (fscanf(f, "%d %d %d %lf", &longest, &buffer, &n, &want) == 4) {
    char text[16];
    snprintf(text, sizeof text, "%d", buffer);
    float x = shaped(longest, text, NULL, n), half = shaped(longest, text, "0.5", n);
    if (fabs((double)x - want) > 1e-7 || fabs((double)half - want / 2) > 1e-7)
      fail_msg("longest %d, buffer %d: %d tokens lose %g and %g, not %g", longest, buffer, n, (double)x,
               (double)half, want);
    lines++;
  }
  fclose(f);
  assert_int_equal(lines, 131);
}

static void test_length_refused(void **state) {
  static const struct {
    const char *buffer, *factor;
    int64_t     longest;
    const char *message;
  } row[] = {{NULL, NULL, 8, "check_must() reward.buffer length buffer"},
             {"0", NULL, 8, "read_buffer() reward.buffer 0"},
             {"-1", NULL, 8, "read_buffer() reward.buffer -1 0"},
             {"2.5", NULL, 8, "read_buffer() reward.buffer 2.5 0"},
             {"9", NULL, 8, "read_buffer() reward.buffer 9 rollout.max_response_length 8"},
             {"4", "0", 8, "read_shape() reward.factor 0"},
             {"4", "inf", 8, "read_shape() reward.factor inf 0"},
             {"4", "1x", 8, "read_shape() reward.factor 1x 0"},
             {"4", NULL, 0, "read_buffer() reward.buffer 4 reward rollout.max_response_length"}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_reward_opt  o = shaping(row[i].buffer, row[i].factor);
    tri_reward_env  env = {.longest = row[i].longest, .longest_key = "rollout.max_response_length"};
    tri_reward_set *set;
    assert_int_equal(tri_reward_check(&o, &env), TRI_ECONFIG);
    expect_refusal(row[i].message);
    tri_error_clear();
    assert_int_equal(tri_reward_set_open(&o, 1, &env, &set), TRI_ECONFIG);
    assert_null(set);
    tri_error_clear();
  }
}

/* The full reward is 2 exact and 1 regex. A penalty takes it away, but a loss by length does not. */
static void test_full(void **state) {
  const tri_reward_opt o[] = {option("exact", 2, ""), option("regex", 1, "a"), shaping("4", NULL),
                              option("regex", -0.5, "b")};
  const tri_reward_env env = {.longest = 8, .longest_key = "the test"};
  static const struct {
    float part[4];
    bool  full;
  } row[] = {{{1, 1, 0, 0}, true}, {{1, 1, -1, 0}, true}, {{1, 0, 0, 0}, false}, {{1, 1, 0, 1}, false}};
  tri_reward_set *s;

  (void)state;
  assert_int_equal(tri_reward_set_open(o, 4, &env, &s), TRI_OK);
  assert_true(tri_reward_set_most(s, 0) == 2 && tri_reward_set_most(s, 1) == 1);
  assert_true(tri_reward_set_most(s, 2) == 0 && tri_reward_set_most(s, 3) == 0);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_int_equal(tri_reward_set_is_full(s, row[i].part), row[i].full);
  tri_reward_set_close(&s);
}

static void test_table(void **state) {
  char names[TRI_REWARD_NAMES_BYTES], want[TRI_REWARD_NAMES_BYTES];

  (void)state;
  assert_null(tri_reward_find("Exact"));
  assert_null(tri_reward_at(-1));
  for (int i = 0; tri_reward_at(i); i++) {
    const tri_reward *kind = tri_reward_at(i);
    int               n = 0;
    assert_ptr_equal(tri_reward_find(kind->name), kind);
    for (const tri_reward_field *f = kind->field; f && f->name; f++, n++)
      assert_true(strcmp(f->name, "name") && strcmp(f->name, "weight")); /* every row has these anyway */
    assert_true(n <= TRI_REWARD_FIELDS);
  }
  assert_ptr_equal(tri_reward_at(0), &tri_reward_exact);
  tri_reward_names(" or ", names);
  join_names(" or ", want, sizeof want);
  assert_string_equal(names, want);
}

/* The needs of all rows, whether or not they can be opened. */
static void test_needs(void **state) {
  const tri_reward_opt o[] = {option("regex", 1, "a("), option("exact", 1, "")};

  (void)state;
  assert_int_equal(tri_reward_needs(o, 0), 0);
  assert_int_equal(tri_reward_needs(o, 1), TRI_REWARD_TEXT);
  assert_int_equal(tri_reward_needs(o, 2), TRI_REWARD_TEXT | TRI_REWARD_TRUTH);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_exact, setup, teardown),
      cmocka_unit_test_setup_teardown(test_number, setup, teardown),
      cmocka_unit_test_setup_teardown(test_number_is_whole, setup, teardown),
      cmocka_unit_test_setup_teardown(test_number_bounds, setup, teardown),
      cmocka_unit_test_setup_teardown(test_truth_broken, setup, teardown),
      cmocka_unit_test_setup_teardown(test_truth_empty, setup, teardown),
      cmocka_unit_test_setup_teardown(test_truth_missing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regex, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regex_long, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regex_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regex_cannot_judge, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regex_bounds_the_sum, setup, teardown),
      cmocka_unit_test_setup_teardown(test_set, setup, teardown),
      cmocka_unit_test_setup_teardown(test_set_cannot_judge, setup, teardown),
      cmocka_unit_test_setup_teardown(test_set_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regex_long_pattern, setup, teardown),
      cmocka_unit_test_setup_teardown(test_needs, setup, teardown),
      cmocka_unit_test_setup_teardown(test_refused_flags, setup, teardown),
      cmocka_unit_test_setup_teardown(test_length, setup, teardown),
      cmocka_unit_test_setup_teardown(test_length_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_full, setup, teardown),
      cmocka_unit_test_setup_teardown(test_table, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
