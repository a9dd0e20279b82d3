/* test_math_answer.c - final answers in TeX. Judge: MATH's and Minerva's own code (golden,
 * make_reward_golden.py), cases worked by hand for what differs from them. */
#include "reward/math/math_answer.h"
#include "reward/reward.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int teardown(void **state) {
  (void)state;
  return tri_host_bytes() == 0 ? 0 : -1;
}

static tri_part part(const json_t *text) {
  return (tri_part){json_string_value(text), json_string_length(text)};
}

static void check_text(const json_t *row, const char *key, const tri_text *got, bool good) {
  const json_t *want = json_object_get(row, key);
  const char   *text = got->data ? got->data : "";

  if (!want) return;
  if (good == json_is_null(want) || (good && strcmp(text, json_string_value(want))))
    fail_msg("%s of '%s' is '%s'%s, not '%s'", key, json_string_value(json_object_get(row, "answer")), text,
             good ? "" : " (it fails)", json_is_null(want) ? "a failure" : json_string_value(want));
}

static void check_spellings(const json_t *row) {
  tri_part answer = part(json_object_get(row, "answer"));
  tri_text strip = {0}, final = {0};
  bool     good;

  assert_int_equal(tri_math_strip(answer.at, answer.n, &strip, &good), TRI_OK);
  check_text(row, "strip", &strip, good);
  assert_int_equal(tri_math_final(answer.at, answer.n, &final), TRI_OK);
  check_text(row, "final", &final, true);
  tri_text_free(&strip);
  tri_text_free(&final);
}

/* What MATH's own code finds equal is equal here; what it does not may be by the other spellings. */
static void check_pair(const json_t *row) {
  bool same;

  assert_int_equal(tri_math_same(part(json_object_get(row, "a")), part(json_object_get(row, "b")), &same),
                   TRI_OK);
  if (json_is_true(json_object_get(row, "equal")) && !same)
    fail_msg("'%s' and '%s' are equal", json_string_value(json_object_get(row, "a")),
             json_string_value(json_object_get(row, "b")));
}

static void test_golden(void **state) {
  FILE *f = fopen(TRI_TEST_DATA "/reward/math.jsonl", "r");
  char  line[1024];
  int   n = 0, pairs = 0;

  (void)state;
  assert_non_null(f);
  for (; fgets(line, sizeof line, f); n++) {
    json_t *row = json_loads(line, 0, NULL);
    assert_non_null(row);
    if (json_object_get(row, "a")) {
      pairs++;
      check_pair(row);
    } else {
      check_spellings(row);
    }
    json_decref(row);
  }
  fclose(f);
  assert_true(n > 140 && pairs > 25);
}

typedef struct pair_case {
  const char *a, *b;
  bool        same;
} pair_case;

static void test_same(void **state) {
  static const pair_case c[] = {{"0.50", "1/2", false}, /* by spelling, not by value */
                                {"72.0", "72", true},
                                {"1,000", "1000", true},
                                {"1{,}000\\%", "1000", true},
                                {"50%", "50", true},
                                {"50\\%", "50%", true},
                                {"10,\\!000\\text{ dollars}", "10000", true},
                                {"5\\text{cm}", "5", true},
                                {"\\text{east}", "east", true},
                                {"\\mbox{yes}", "yes", true},
                                {"12 inches", "12", true},
                                {"f(x) = 5", "5", true},
                                {"\\sqrt 3", "\\sqrt{3}", true},
                                {"17\\mathrm{th}", "17", true},
                                {"\\left( 1,2 \\right)", "( 1, 2 )", true},
                                {"\\dfrac{\\sqrt3}{2}", "\\frac{\\sqrt{3}}{2}", true},
                                {"1,2,3", "123", false}, /* a list */
                                {"12,3", "123", false},
                                {"1,2", "1,3", false},
                                {"x=1,y=2", "2", false}, /* two equations */
                                {"x=1,y=2", "x = 1, y = 2", true},
                                {"feet", "meters", false}, /* nothing is left of either */
                                {"\\text{ a}", "\\text{ b}", false},
                                {"\\text{}", "", false},
                                {"", "", true},
                                {"-5", "5", false},
                                {"1e3", "1000", false},
                                {"\\frac", "\\frac", true},
                                {"(1,2)", "(2,1)", false},
                                {"2^{10}", "2^10", false}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++)
    for (int turn = 0; turn < 2; turn++) {
      const char *a = turn ? c[i].b : c[i].a, *b = turn ? c[i].a : c[i].b;
      bool        same;
      assert_int_equal(tri_math_same((tri_part){a, strlen(a)}, (tri_part){b, strlen(b)}, &same), TRI_OK);
      if (same != c[i].same) fail_msg("'%s' and '%s': %s", a, b, same ? "equal" : "not equal");
    }
}

/* want NULL: no box. */
static void check_box(const char *text, size_t n, const char *want) {
  tri_part got;
  bool     found = tri_math_boxed(text, n, &got);

  if (found != (want != NULL) || (want && (got.n != strlen(want) || memcmp(got.at, want, got.n))))
    fail_msg("'%s' holds '%.*s', not '%s'", text, found ? (int)got.n : 0, found ? got.at : "",
             want ? want : "nothing");
}

static void test_box(void **state) {
  static const struct {
    const char *text, *want;
  } c[] = {{"so $\\boxed{72}$.", "72"},
           {"\\boxed{1} or rather \\boxed{2}", "2"}, /* the last */
           {"\\boxed{\\frac{1}{2}} then", "\\frac{1}{2}"},
           {"\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"},
           {"\\boxed{\\boxed{5}}", "5"},
           {"\\boxed 5$ and", "5"},
           {"\\boxed 5", "5"},
           {"\\boxed {5}", "5"},
           {"\\boxed{}", ""},
           {"\\fbox{7}", "7"},
           {"\\boxed{7} \\fbox{8}", "7"},
           {"\\boxed{7", NULL}, /* cut */
           {"\\boxed{1} \\boxed{2", NULL},
           {"\\boxed", NULL},
           {"\\boxed ", NULL},
           {"\\boxedfive", NULL},
           {"72", NULL},
           {"", NULL}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) check_box(c[i].text, strlen(c[i].text), c[i].want);
  check_box("\\boxed{7}", 8, NULL); /* nothing behind the end is read */
}

static float score(const char *name, const char *response, const char *truth) {
  tri_reward_opt  o = {.name = name, .weight = 1};
  tri_answer      a = {.response = response, .truth = truth};
  tri_reward_set *set;
  float           part_of, total;
  int32_t         failed;

  a.response_bytes = strlen(response);
  a.truth_bytes = strlen(truth);
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  assert_int_equal(tri_reward_set_score(set, &a, 1, &part_of, &total, &failed), TRI_OK);
  assert_int_equal(failed, 0);
  tri_reward_set_close(&set);
  return total;
}

static void test_boxed(void **state) {
  (void)state;
  assert_true(score("boxed", "thus \\boxed{\\dfrac12}", "\\frac{1}{2}") == 1);
  assert_true(score("boxed", "thus \\boxed{1/2}", "We get $\\boxed{\\frac12}$.") == 1); /* MATH's solution */
  assert_true(score("boxed", "thus 1/2", "\\frac{1}{2}") == 0);
  assert_true(score("boxed", "", "") == 0); /* without a box */
  assert_true(score("boxed", "\\boxed{3}", "2") == 0);
}

static void test_gsm8k(void **state) {
  static const char truth[] = "Natalia sold 48/2 = <<48/2=24>>24 clips.\n#### 72";
  static const char big[] = "... 99 #### 1,234";
  static const struct {
    const char *response, *truth;
    int         want;
  } c[] = {{"#### 72", truth, 1},
           {"so 24 + 48.\n#### 72 clips, of 100", truth, 1}, /* the first behind the mark */
           {"The answer is 72.", truth, 1},                  /* no mark: the last */
           {"72 of 100", truth, 0},
           {"#### 72\n#### 73", truth, 0}, /* the last mark */
           {"#### none, 72", truth, 1},
           {"it is 72 ####", truth, 1}, /* nothing behind it: the last of all */
           {"####72.00", truth, 1},
           {"#####72", truth, 1},
           {"#### $1234", big, 1},
           {"#### -72", truth, 0},
           {"no number", truth, 0},
           {"", truth, 0},
           {"####", truth, 0},
           {"#### 5", "5", 1}}; /* a truth that is the number alone */
  tri_reward_opt  o = {.name = "gsm8k", .weight = 1};
  tri_reward_set *set;

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++)
    if (score("gsm8k", c[i].response, c[i].truth) != (float)c[i].want)
      fail_msg("'%s' against '%s' is not %d", c[i].response, c[i].truth, c[i].want);
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  assert_non_null(tri_reward_set_refuse(set, "none", 4));
  assert_null(tri_reward_set_refuse(set, "#### 4", 6));
  tri_reward_set_close(&set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_golden, teardown), cmocka_unit_test_teardown(test_same, teardown),
      cmocka_unit_test_teardown(test_box, teardown), cmocka_unit_test_teardown(test_boxed, teardown),
      cmocka_unit_test_teardown(test_gsm8k, teardown)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
