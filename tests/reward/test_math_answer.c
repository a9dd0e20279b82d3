/* test_math_answer.c - final answers in TeX. Judges: math-verify (golden, make_math_golden.py), the code of
 * MATH and Minerva (golden, make_reward_golden.py), cases worked by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "reward/math/math_answer.h"
#include "reward/math/text_number.h"
#include "reward/reward.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

/* Answers equal by MATH's own code are equal here. Others may be equal by the other spellings. */
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

static bool same_texts(const json_t *a, const json_t *b) {
  bool same;

  assert_int_equal(tri_math_same(part(a), part(b), &same), TRI_OK);
  return same;
}

static json_t *read_lines(const char *path) {
  FILE   *f = fopen(path, "r");
  json_t *rows = json_array();
  char    line[2048];

  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    json_t *row = json_loads(line, 0, NULL);
    assert_non_null(row);
    assert_int_equal(json_array_append_new(rows, row), 0);
  }
  fclose(f);
  return rows;
}

/* Right answers of MATH beside answers made from them. Every right spelling is rewarded, no wrong one is, and
 * 97 of 100 verdicts agree with math-verify. */
static void test_pairs(void **state) {
  json_t *rows = read_lines(TRI_TEST_DATA "/math/pairs.jsonl"), *row;
  size_t  i, agree = 0;

  (void)state;
  json_array_foreach(rows, i, row) {
    const json_t *a = json_array_get(row, 0), *b = json_array_get(row, 1);
    const char   *rule = json_string_value(json_array_get(row, 2));
    bool          same = same_texts(a, b), own = !strcmp(rule, "own"), wrong = !strncmp(rule, "wrong", 5);
    if (!own && same == (wrong || !strcmp(rule, "times ten")))
      fail_msg("'%s' and '%s' (%s): %s", json_string_value(a), json_string_value(b), rule,
               same ? "equal" : "not equal");
    agree += same == (json_integer_value(json_array_get(row, 3)) == 1);
  }
  assert_true(i > 2000);
  if (100 * agree < 97 * i) fail_msg("%zu of %zu verdicts are math-verify's", agree, i);
  json_decref(rows);
}

/* Different right answers of MATH are equal if math-verify finds them equal, and only then. */
static void test_golds(void **state) {
  json_t *rows = read_lines(TRI_TEST_DATA "/math/golds.jsonl");
  size_t  n = json_array_size(rows), pairs = 0;

  (void)state;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++, pairs++) {
      const json_t *a = json_array_get(rows, i), *b = json_array_get(rows, j);
      bool          same = same_texts(json_array_get(a, 0), json_array_get(b, 0));
      if (same != (json_integer_value(json_array_get(a, 1)) == json_integer_value(json_array_get(b, 1))))
        fail_msg("'%s' and '%s': %s", json_string_value(json_array_get(a, 0)),
                 json_string_value(json_array_get(b, 0)), same ? "equal" : "not equal");
    }
  assert_true(pairs > 10000);
  json_decref(rows);
}

typedef struct pair_case {
  const char *a, *b;
  bool        same;
} pair_case;

/* Compares in both orders. */
static void check_same(const pair_case *c, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (int turn = 0; turn < 2; turn++) {
      const char *a = turn ? c[i].b : c[i].a, *b = turn ? c[i].a : c[i].b;
      bool        same;
      assert_int_equal(tri_math_same((tri_part){a, strlen(a)}, (tri_part){b, strlen(b)}, &same), TRI_OK);
      if (same != c[i].same) fail_msg("'%s' and '%s': %s", a, b, same ? "equal" : "not equal");
    }
}

static void test_same(void **state) {
  static const pair_case c[] = {{"0.50", "1/2", true},
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
                                {"feet", "meters", false}, /* both are empty */
                                {"\\text{ a}", "\\text{ b}", false},
                                {"\\text{}", "", false},
                                {"", "", true},
                                {"-5", "5", false},
                                {"1e3", "1000", true},
                                {"\\frac", "\\frac", true},
                                {"(1,2)", "(2,1)", false},
                                {"2^{10}", "2^10", true}};

  (void)state;
  check_same(c, sizeof c / sizeof *c);
}

/* Judged by hand. */
static const pair_case values[] = {
    {"**5**", "5", true},
    {"5 \\\\", "5", true},
    {"5 USD", "5", true},
    {"\\[ 5 \\]", "5", true},
    {"**", "5", false},
    {"\\mathbb{R}", "(-\\infty,\\infty)", true},
    {"x \\in \\mathbb{R}", "(-\\infty,+\\infty)", true},
    {"\\mathbb{R}", "(-\\infty,0)", false},
    {"\\mathbb{R}", "R", false},
    {"x<3 \\text{ or } x>5", "(-\\infty,3) \\cup (5,\\infty)", true},
    {"x \\in (5,\\infty) \\cup (-\\infty,3)", "x<3, x>5", true},
    {"\\frac{\\pi}{2} + 2\\pi n, n \\in \\mathbb{Z}", "2 n \\pi + \\pi/2, n \\in \\mathbb{Z}", true},
    {"25\\%", "\\frac14", true},
    {"6.02 \\times 10^{23}", "602000000000000000000000", true},
    {"(1,2), (3,4)", "\\{(3,4),(1,2)\\}", true},
    {"y = -\\frac{1}{2}x + 3", "x + 2y = 6", true},
    {"(x,y) = (1,2)", "(1, 2)", true},

    {"\\boxed{\\text{(E)},}", "E", true},
    {"\\approx 8.24 \\text{ mph}", "8.24", true},

    {"f(0) x", "0", false},
    {"f(2) = 5", "5", true},
    {"f(2) + 1", "1 + f(2)", true},
    {"f(2) < f(1) < f(4)", "f(4) > f(1) > f(2)", true},
    {"f(2) < f(1)", "f(1) < f(2)", false},
    {"2 \\text{ if } x > 0, \\sum y", "2 \\text{ if } x < 0, \\sum y", false}, /* spellings that would be cut
                                                                                * are not compared */
    {"Yes, since $v \\cdot w=0", "\\sum x=0", false},
    {"$\\max$ at $-1$", "$\\max$ at $0$", false},

    {"\\frac{1}{10}\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
     "\\begin{pmatrix}0.1&0.2\\\\0.3&2/5\\end{pmatrix}", true},
    {"\\begin{pmatrix}2\\\\4\\end{pmatrix}/2", "2\\begin{pmatrix}1/2\\\\1\\end{pmatrix}", true},
    {"\\{x \\mid x \\ge 3\\}", "[3,\\infty)", true},
    {"\\{x : x<0\\}", "(-\\infty,0)", true},
    {"\\ln|x|+C", "C+\\ln\\left|x\\right|", true},
    {"5\\text{ N}\\cdot\\text{m}", "5", true},
    {"5 \\mathrm{~N}-\\mathrm{m}", "5", true},
    {"2|x|", "2\\left|x\\right|", true},
    {"t = \\frac{\\ln 9}{2} = \\ln 3", "\\ln 3", true},
    {"\\sum_{k=1}^{n} k", " \\sum_{k=1}^{n} k ", true}, /* compared by spelling */
    {"\\sum_{k=1}^{n} k", "\\sum_{k=1}^{n} k^2", false},
    {"(1,2)^T", "(1,2)^T.", true},

    {"\\sqrt{8}", "2\\sqrt{2}", true},
    {"\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}", true},
    {"\\sqrt{2+\\sqrt{3}}", "\\frac{\\sqrt6+\\sqrt2}{2}", true},
    {"\\frac{1}{\\sqrt{2}-1}", "\\sqrt{2}+1", true},
    {"\\cos 60^\\circ", "\\frac12", true},
    {"\\sin\\frac{\\pi}{3}", "\\frac{\\sqrt{3}}{2}", true},
    {"\\tan 15^\\circ", "2-\\sqrt{3}", true},
    {"\\cos 36^\\circ", "\\frac{1+\\sqrt5}{4}", true},
    {"\\log_2 8", "3", true},
    {"\\ln 4", "2\\ln 2", true},
    {"\\log_{10} 1000", "3", true},
    {"e^{i\\pi}", "-1", true},
    {"2^{x+1}", "2\\cdot 2^x", true},
    {"4^x", "2^{2x}", true},
    {"(x+1)^2", "x^2+2x+1", true},
    {"\\frac{x^2-1}{x-1}", "x+1", true},
    {"\\sqrt[3]{8}", "2", true},
    {"8^{1/3}", "2", true},
    {"x^{1/2}", "\\sqrt{x}", true},
    {"\\frac{x+y}{2}", "\\frac{y}{2}+\\frac x2", true},
    {"|-5|", "5", true},
    {"0.\\overline{3}", "\\frac13", true},
    {"0.1\\overline{6}", "1/6", true},
    {"1.5\\times10^3", "1500", true},
    {"1.5e3", "1500", true},
    {"3 \\pm \\sqrt{2}", "3+\\sqrt2, 3-\\sqrt2", true},
    {"\\{1,2,3\\}", "3,2,1", true},
    {"x\\in\\{1,2\\}", "\\{2,1\\}", true},
    {"x>3", "(3,\\infty)", true},
    {"(3,+\\infty)", "x > 3", true},
    {"x \\le 5 ", "(-\\infty,5]", true},
    {"2x+3y=6", "4x+6y=12", true},
    {"y=2x+3", "2x-y+3=0", true},
    {"x^2+y^2=13", "x^2+y^2-13=0", true},
    {"-x < 3", "x > -3", true},
    {"a:b=1:2", "1:2", true},
    {"2:4", "1:2", true},
    {"\\binom{5}{2}", "10", true},
    {"5!", "120", true},
    {"\\lfloor 3.7\\rfloor", "3", true},
    {"\\sin^2 x + \\cos^2 x", "1", true},
    {"\\frac{\\sin x}{\\cos x}", "\\tan x", true},
    {"1\\frac12", "\\frac32", true},
    {"1 1/2", "1.5", true},
    {"-1\\frac12", "-1.5", true},
    {"\\begin{pmatrix}1/2\\\\3\\end{pmatrix}", "\\begin{bmatrix}0.5\\\\3\\end{bmatrix}", true},
    {"\\left(\\begin{array}{cc}1&2\\\\3&4\\end{array}\\right)", "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
     true},
    {"\\text{(B)}", "B", true},
    {"(B)", "\\text{B}", true},
    {"\\textbf{(B)}", "(B)", true},
    {"\\text{ east }", "East", true},
    {"\\emptyset", "\\varnothing", true},
    {"\\mathbb{R}", "\\mathbb{R} ", true},
    {"12\\text{ and }13", "12, 13", true},
    {"\\$5.00", "5", true},
    {"5\\text{ cm}", "5", true},
    {"30^\\circ", "30", true},
    {"30\\%", "30", true},
    {"30\\%", "0.3", true},
    {"5 km/h", "5", true},
    {"17^{\\text{th}}", "17", true},
    {"17th", "17", true},
    {"\\frac{-3}{4}", "-\\frac{3}{4}", true},
    {"3^{2007}", "3 \\cdot 3^{2006}", true},
    {"\\frac{1}{2004!}", "1/2004!", true},
    {"\\pi/3", "\\frac{\\pi}{3}", true},
    {"\\frac{2}{3}\\pi", "\\frac{2\\pi}{3}", true},
    {"(2\\pi)/3", "\\frac{2\\pi}{3}", true},
    {"f^{-1}(x)=2x", "2x", true},
    {"x=\\frac{-1\\pm\\sqrt{5}}{2}", "\\frac{-1+\\sqrt5}{2},\\frac{-1-\\sqrt5}{2}", true},
    {"\\infty", "+\\infty", true},
    {"\\log 100", "2", true},
    {"\\sqrt{-4}", "2i", true},
    {"|3+4i|", "5", true},
    {"\\left|-7\\right|", "7", true},
    {"x^2 + 10x + 25", "(x+5)^2", true},
    {"\\frac{3}{4}x", "\\frac{3x}{4}", true},
    {"0.75", "\\dfrac{3}{4}", true},
    {"\\text{13}", "13", true},
    {"1,000,000", "1\\,000\\,000", true},
    {"2\\sqrt3", "\\sqrt{12}", true},
    {"\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}", true},
    {"2\\sin x\\cos x", "2\\cos x \\sin x", true},
    {"(a+b)(a-b)", "a^2-b^2", true},
    {"e^{x}e^{y}", "e^{x+y}", true},
    {"\\frac{a}{b}+\\frac{c}{d}", "\\frac{ad+bc}{bd}", true},
    {"x = 3 \\text{ or } x = -3", "\\pm 3", true},
    {"p - q", "-q+p", true},
    {"[0,\\infty)", "x \\geq 0", true},
    {"-2 \\le x \\le 7", "x \\in [-2,7]", true},
    {"4:30", "\\text{4:30}", true},
    {"\\frac{1}{2},\\frac13", "0.5, \\frac{2}{6}", true},
    {"\\textbf{5}", "5", true},
    {"\\mathbf{5}", "5", true},
    {"\\boxed{5}", "5", true},
    {"A, C, F", "\\text{A,C,F}", true},
    {"2^{-1}", "0.5", true},
    {"1.0", "1", true},
    {"\\frac{10}{5}", "2", true},
    {"(1,-2)",
     "(1,\xe2\x88\x92"
     "2)",
     true},
    {"\\lambda+1", "1+\\lambda", true},
    {"x_1=2,x_2=3", "2,3", true},
    {"\\sqrt{x^2+2x+1}", "\\sqrt{(x+1)^2}", true},
    {"\\sqrt{2}", "1.414", false},
    {"\\sqrt{2}", "1.41421", false},
    {"\\sqrt{x^2}", "x", false},
    {"(1,2)", "[1,2]", false},
    {"(1,2)", "(2,1)", false},
    {"\\{1,2\\}", "\\{1,2,3\\}", false},
    {"1,2", "1", false},
    {"4t", "4", false},
    {"2b", "2", false},
    {"x", "y", false},
    {"3R^2", "3r^2", false},
    {"10^\\circ", "10000", false},
    {"9\\text{ a.m.}", "9\\text{ p.m.}", false},
    {"204_5", "204_7", false},
    {"abc", "abd", false},
    {"\\frac{1}{2004!}", "\\frac{1}{2006!}", false},
    {"\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}", false},
    {"4:30", "2:15", false},
    {"12:00", "1:00", false},
    {"\\sqrt{3-2\\sqrt2}", "1-\\sqrt2", false},
    {"\\sin x", "\\cos x", false},
    {"\\text{even}", "\\text{odd}", false},
    {"x>3", "x<3", false},
    {"x>3", "x\\ge3", false},
    {"(3,\\infty)", "[3,\\infty]", false},
    {"y=2x", "y=-2x", false},
    {"x=5", "y=5", false},
    {"-5", "5", false},
    {"\\pm 3", "3", false},
    {"1/3", "0.33", false},
    {"1/3", "0.3333", false},
    {"\\frac{22}{7}", "\\pi", false},
    {"2^{2005}", "2^{2006}", false},
    {"1-\\frac1e", "1+\\frac1e", false},
    {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}2\\\\1\\end{pmatrix}", false},
    {"\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}", false},
    {"\\log_2 3", "\\log_3 2", false},
    {"5\\%", "5.5", false},
    {"12", "1,2", false},
    {"1,2,3", "123", false},
    {"(0,1)\\cup(2,3)", "(0,1)\\cup(2,4)", false},
    {"\\text{Evelyn}", "\\text{Briana}", false},
    {"6", "6!", false},
    {"no solution", "no integers", false},
    {"no solution", "infinitely many solutions", false},
    {"|x|", "x", false},
    {"1.2.3", "1.23", false},
    {"10.0000001", "10", false}, /* a rounding does not equal a number in digits alone */
    {"-7.00000049", "-7", false},
    {"10000000000000000.000000", "10000000000000001", false},
    {"\\frac{x}{y}", "\\frac{y}{x}", false},
    {"\\overline{AB}", "\\overline{CD}", false},
    {"2306843007387610240", "1", false},
    {"5317 000000", "5317", false}};

/* Functions of one token without brackets, their inverses, and powers with letters. Judged by hand. */
static const pair_case functions[] = {{"\\arctan 1", "\\frac{\\pi}{4}", true},
                                      {"\\arcsin\\frac12", "\\frac{\\pi}{6}", true},
                                      {"\\arccos(-1)", "\\pi", true},
                                      {"\\arctan\\sqrt3", "\\frac{\\pi}{3}", true},
                                      {"\\arctan(2-\\sqrt3)", "\\frac{\\pi}{12}", true},
                                      {"\\arccot 1", "\\frac{\\pi}{4}", true},
                                      {"\\arctan\\infty", "\\frac{\\pi}{2}", true},
                                      {"arctan 1", "pi/4", true},
                                      {"\\operatorname{arctan} 1", "\\frac{\\pi}{4}", true},
                                      {"\\sin^{-1} 1", "\\frac{\\pi}{2}", true},
                                      {"\\tan^{-1} x", "\\arctan x", true},
                                      {"\\arctan(-x)", "-\\arctan x", true},
                                      {"\\arccos x", "\\frac{\\pi}{2} - \\arcsin x", true},
                                      {"\\tan\\arctan 5", "5", true},
                                      {"\\cos(\\arcsin\\frac35)", "\\frac45", true},
                                      {"\\ln\\ln e", "0", true},
                                      {"\\exp 2", "e^2", true},
                                      {"\\cosh x", "\\frac{e^x+e^{-x}}{2}", true},
                                      {"\\sinh 0", "0", true},
                                      {"x^a x^b", "x^{a+b}", true},
                                      {"x^n \\cdot x", "x^{n+1}", true},
                                      {"\\frac{x^a}{x^b}", "x^{a-b}", true},
                                      {"(x^a)^b", "x^{ab}", true},
                                      {"x^{1/n}x^{1/n}", "x^{2/n}", true},
                                      {"x^{n^2+n}", "x^{n(n+1)}", true},
                                      {"2^\\pi \\cdot 2", "2^{\\pi+1}", true},
                                      {"(-1)^{n+1}", "-(-1)^n", true},
                                      {"(-2)^n", "(-1)^n 2^n", true},
                                      {"5\\text{ sec}", "5", true},
                                      {"\\arctan 1", "\\frac{\\pi}{3}", false},
                                      {"\\arctan 1", "1", false},
                                      {"\\arcsin x", "\\arccos x", false},
                                      {"\\arcsin 2", "\\frac{\\pi}{2}", false},
                                      {"\\arctan(-x)", "\\arctan x", false},
                                      {"\\sin^{-1} x", "\\frac{1}{\\sin x}", false},
                                      {"\\sec^{-1} 2", "\\cos 2", false},
                                      {"\\sec^{-1} 2", "\\sec^{-1} 2", true},
                                      {"\\sinh^{-1} 2", "\\frac{1}{\\sinh 2}", false},
                                      {"\\log_2^{-1} 3", "\\frac{1}{\\log_2 3}", false},
                                      {"\\exp x", "e^{2x}", false},
                                      {"x^a x^b", "x^{ab}", false},
                                      {"x^a y^b", "x^{a+b}", false},
                                      {"(-1)^n", "1", false},
                                      {"(-1)^n", "(-1)^m", false},
                                      {"(-1)^n", "(-1)^{n+1}", false},
                                      {"(-2)^n", "2^n", false},
                                      {"(-x)^n", "x^n", false}};

static void test_functions(void **state) {
  (void)state;
  check_same(functions, sizeof functions / sizeof *functions);
}

static void test_values(void **state) {
  (void)state;
  check_same(values, sizeof values / sizeof *values);
  /* text behind a NUL counts */
  bool same = true;
  assert_int_equal(tri_math_same((tri_part){"a\0b", 3}, (tri_part){"a\0c", 3}, &same), TRI_OK);
  assert_false(same);
}

/* Words in plain letters keep their order, and products of variables do not. Judge: by hand. math-verify
 * reads each of these as a product and rewards cat for act. */
static void test_words(void **state) {
  static const pair_case c[] = {
      {"cat", "act", false},
      {"yes", "sey", false},
      {"no", "on", false},
      {"NO", "ON", false},
      {"Amy", "May", false},
      {"Bob", "obB", false},
      {"six", "xis", false}, /* i and e may be letters of words */
      {"red", "der", false},
      {"SSA", "SAS", false},
      {"ABC", "BCA", false}, /* an order of three letters */
      {"Amy Lee", "Lee Amy", false},
      {"\\angle ABC", "\\angle BAC", false},
      {"cat,dog", "act,god", false},
      {"(no,on)", "(on,no)", false},
      {"x = cat", "x = act", false},
      {"\\text{cat}", "act", false},
      {"ABC", "abc", false},
      {"\\begin{pmatrix}cat\\\\dog\\end{pmatrix}", "\\begin{pmatrix}act\\\\dog\\end{pmatrix}", false},
      {"Amy", "amy", true},
      {"YES", "yes", true},
      {"cat", "\\text{cat}", true},
      {"SAS", "\\text{S.A.S.}", true},
      {"cat,dog", "dog,cat", true},
      {"x = Amy", "Amy", true},
      {"n = \\text{even}", "\\text{even}", true},
      {"n = \\text{even}", "even", true},
      {"n = \\text{even}", "\\text{odd}", false},
      {"n = \\text{even}", "x = \\text{even}", false},
      {"Amy Lee", "Amy  Lee", true},
      {"cat", "c a t", true},
      {"ABC", "A B C", true},
      {"\\angle ABC", "\\angle CBA", true},
      {"\\triangle ABC", "\\triangle CAB", true},
      {"AB", "BA", true}, /* a segment */
      {"abc", "cba", true},
      {"xyz", "zxy", true},
      {"lwh", "hwl", true},
      {"mgh", "m \\cdot h \\cdot g", true},
      {"abh", "a b h", true},
      {"2abh", "2bah", true},
      {"abh+1", "1+bah", true},
      {"\\frac{abh}{2}", "\\frac{bah}{2}", true}};

  (void)state;
  check_same(c, sizeof c / sizeof *c);
}

/* want NULL means no box. */
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
  assert_true(score("boxed", "thus \\boxed{1/2}", "We get $\\boxed{\\frac12}$.") ==
              1); /* a solution of MATH */
  assert_true(score("boxed", "thus 1/2", "\\frac{1}{2}") == 0);
  assert_true(score("boxed", "", "") == 0); /* without a box */
  assert_true(score("boxed", "\\boxed{3}", "2") == 0);
  /* lines of GSM8K, with the number behind the mark */
  assert_true(score("boxed", "\\boxed{1234}", "12 * 100 = <<12*100=1200>>1200, and 34.\n#### 1,234") == 1);
  assert_true(score("boxed", "\\boxed{\\$72.00}", "24 + 48 = 72.\n#### 72") == 1);
  assert_true(score("boxed", "\\boxed{24}", "24 + 48 = 72.\n#### 72") == 0);
}

/* A truth without a possible right answer is refused. An empty box is never rewarded. */
static void test_boxed_refuses(void **state) {
  static const char *const bad[] = {"",
                                    " \n",
                                    "\\boxed{}",
                                    "so $\\boxed{ }$.",
                                    "\\boxed{\\text{}}",
                                    "\\boxed{5",
                                    "\\boxed{1} and \\boxed{\\frac{1}{2}",
                                    "\\fbox{",
                                    "it is 5.\n#### ",
                                    "$$",
                                    "\\text{}"};
  static const char *const good[] = {"5", "\\boxed{5}", "\\{\\}", "\\emptyset", "#### 5", "#### x+1", "yes"};
  tri_reward_opt           o = {.name = "boxed", .weight = 1};
  tri_reward_set          *set;

  (void)state;
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (!tri_reward_set_refuse(set, bad[i], strlen(bad[i])))
      fail_msg("'%s' is taken for a right answer", bad[i]);
    assert_true(score("boxed", "\\boxed{}", bad[i]) == 0);
    assert_true(score("boxed", "\\boxed{ }", bad[i]) == 0);
    assert_true(score("boxed", "\\boxed{\\text{}}", bad[i]) == 0);
  }
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (tri_reward_set_refuse(set, good[i], strlen(good[i]))) fail_msg("'%s' is refused", good[i]);
  tri_reward_set_close(&set);
  assert_true(score("boxed", "\\boxed{1+x}", "#### x+1") == 1);
}

/* The log says once that truths of GSM8K's kind stand for their number. */
static void test_boxed_says(void **state) {
  static const char truth[] = "24 + 48 = 72.\n#### 72";
  tri_reward_opt    o = {.name = "boxed", .weight = 1};
  tri_reward_set   *set;
  FILE             *log = tmpfile();
  char              text[1024] = "";
  size_t            n;

  (void)state;
  assert_non_null(log);
  tri_log_file(log);
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  assert_null(tri_reward_set_refuse(set, "\\boxed{5}", 9));
  for (int i = 0; i < 3; i++) assert_null(tri_reward_set_refuse(set, truth, sizeof truth - 1));
  tri_reward_set_close(&set);
  tri_log_file(NULL);
  rewind(log);
  n = fread(text, 1, sizeof text - 1, log);
  fclose(log);
  assert_true(n > 0 && n < sizeof text - 1);
  assert_non_null(strstr(text, "reward boxed"));
  assert_null(strstr(strstr(text, "reward boxed") + 1, "reward boxed"));
}

static void test_gsm8k(void **state) {
  static const char truth[] = "Natalia sold 48/2 = <<48/2=24>>24 clips.\n#### 72";
  static const char big[] = "... 99 #### 1,234";
  static const struct {
    const char *response, *truth;
    int         want;
  } c[] = {{"#### 72", truth, 1},
           {"so 24 + 48.\n#### 72 clips, of 100", truth, 1}, /* the first behind the mark */
           {"The answer is 72.", truth, 1},                  /* without a mark the last */
           {"72 of 100", truth, 0},
           {"#### 72\n#### 73", truth, 0}, /* the last mark */
           {"#### none, 72", truth, 1},
           {"it is 72 ####", truth, 1}, /* nothing behind the mark, so the last of all */
           {"####72.00", truth, 1},
           {"#####72", truth, 1},
           {"#### $1234", big, 1},
           {"#### -72", truth, 0},
           {"no number", truth, 0},
           {"", truth, 0},
           {"####", truth, 0},
           {"#### 5", "5", 1}, /* a truth with nothing but the number */
           {"#### \xe2\x88\x92"
            "5",
            "#### -5", 1}, /* U+2212 */
           {"#### 1.5e3", "#### 1,500", 1},
           {"#### 3/4", "#### 0.75", 1},
           {"#### 72.5.1, or 72", truth, 0}, /* no number as a whole, and no other is taken */
           {"#### 1,2345", "#### 1", 0},
           {"#### 5 + 2\\sqrt{3}", "#### 5", 0},
           {"#### 3 + 4i", "#### 3", 0},
           {"#### 2\\pi", "#### 2", 0},
           {"#### 72 - a good number", truth, 1}};
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

/* The time for a repetitive answer grows linearly with its length. 600 kB take 0.1 s here. They would take
 * half a minute if each \\frac searched for its closing brace up to the end. */
static void test_repeated(void **state) {
  enum { TIMES = 100000 };
  static const char part[] = "\\frac{";
  size_t            n = sizeof part - 1;
  char             *text = malloc(TIMES * n);
  tri_text_number   x;
  clock_t           begin = clock();

  (void)state;
  assert_non_null(text);
  for (size_t i = 0; i < TIMES; i++) memcpy(text + i * n, part, n);
  assert_int_equal(tri_text_number_last(text, TIMES * n, &x), TRI_TEXT_NONE);
  assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
  free(text);
}

/* Two lists of 100 factorials, and 128 sines in relations. The work of a comparison is bounded for every
 * answer. All take 30 ms here, and would take 10 s if each comparison of two elements evaluated both
 * again. */
static void test_bounded(void **state) {
  tri_text a = {0}, b = {0}, c = {0}, d = {0};
  clock_t  begin;
  bool     same;

  (void)state;
  for (int i = 0; i < 100; i++) {
    assert_int_equal(tri_text_printf(&a, "%s%d!", i ? "," : "", 2900 + i), TRI_OK);
    assert_int_equal(tri_text_printf(&b, "%s%d!", i ? "," : "", 2999 - i), TRI_OK);
  }
  for (int i = 0; i < 128; i++) {
    assert_int_equal(tri_text_printf(&c, "%s\\sin %d", i ? "+" : "x = ", i), TRI_OK);
    assert_int_equal(tri_text_printf(&d, "%s\\sin %d", i ? "+" : "y = ", i), TRI_OK);
  }
  begin = clock();
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tri_math_same((tri_part){a.data, a.len}, (tri_part){b.data, b.len}, &same), TRI_OK);
    assert_int_equal(tri_math_same((tri_part){c.data, c.len}, (tri_part){d.data, d.len}, &same), TRI_OK);
    assert_false(same);
  }
  assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
  tri_text_free(&a);
  tri_text_free(&b);
  tri_text_free(&c);
  tri_text_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_golden, teardown),
                                     cmocka_unit_test_teardown(test_pairs, teardown),
                                     cmocka_unit_test_teardown(test_golds, teardown),
                                     cmocka_unit_test_teardown(test_same, teardown),
                                     cmocka_unit_test_teardown(test_values, teardown),
                                     cmocka_unit_test_teardown(test_words, teardown),
                                     cmocka_unit_test_teardown(test_functions, teardown),
                                     cmocka_unit_test_teardown(test_box, teardown),
                                     cmocka_unit_test_teardown(test_boxed, teardown),
                                     cmocka_unit_test_teardown(test_boxed_says, teardown),
                                     cmocka_unit_test_teardown(test_boxed_refuses, teardown),
                                     cmocka_unit_test_teardown(test_gsm8k, teardown),
                                     cmocka_unit_test_teardown(test_repeated, teardown),
                                     cmocka_unit_test_teardown(test_bounded, teardown)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
