/* value_tests.c - the tests after `is`, as in jinja2/tests.py of Jinja2 3.1.6. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

static tri_status put(bool x, tri_jvalue *out) {
  *out = tri_jbool(x);
  return TRI_OK;
}

static tri_status remainder_is(tri_jarena *a, const tri_jcalled *c, tri_jvalue by, int64_t rest,
                               tri_jvalue *out) {
  tri_jvalue v;

  TRI_TRY(tri_jbinary(a, TRI_JOP_MOD, c->self, by, &v));
  return tri_jbinary(a, TRI_JOP_EQ, v, tri_jint(rest), out);
}

static tri_status compare(tri_jarena *a, tri_jop op, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jbinary(a, op, c->self, *c->arg[0], out);
}

#define TEST(name, expression)                                                                               \
  static tri_status name(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {                             \
    tri_jkind kind = c->self.kind;                                                                           \
    (void)kind;                                                                                              \
    TRI_TRY(tri_jarena_step(a, 1));                                                                          \
    return expression;                                                                                       \
  }

TEST(is_odd, remainder_is(a, c, tri_jint(2), 1, out))
TEST(is_even, remainder_is(a, c, tri_jint(2), 0, out))
TEST(is_divisible, remainder_is(a, c, *c->arg[0], 0, out))
TEST(is_defined, put(kind != TRI_J_UNDEFINED, out))
TEST(is_undefined, put(kind == TRI_J_UNDEFINED, out))
TEST(is_none, put(kind == TRI_J_NONE, out))
TEST(is_boolean, put(kind == TRI_J_BOOL, out))
TEST(is_false, put(kind == TRI_J_BOOL && !c->self.as.truth, out))
TEST(is_true, put(kind == TRI_J_BOOL && c->self.as.truth, out))
TEST(is_integer, put(kind == TRI_J_INT, out))
TEST(is_float, put(kind == TRI_J_FLOAT, out))
TEST(is_string, put(kind == TRI_J_STRING, out))
TEST(is_mapping, put(kind == TRI_J_MAP, out))
TEST(is_number, put(kind == TRI_J_INT || kind == TRI_J_FLOAT || kind == TRI_J_BOOL, out))
TEST(is_escaped, put(kind == TRI_J_STRING && c->self.note == TRI_J_MARKUP, out))
/* len() and [] */
TEST(is_sequence, put(kind == TRI_J_UNDEFINED || kind == TRI_J_STRING || kind == TRI_J_LIST ||
                          kind == TRI_J_TUPLE || kind == TRI_J_RANGE || kind == TRI_J_MAP,
                      out))
TEST(is_iterable,
     put(kind == TRI_J_UNDEFINED || kind == TRI_J_STRING || kind == TRI_J_LIST || kind == TRI_J_TUPLE ||
             kind == TRI_J_RANGE || kind == TRI_J_MAP || kind == TRI_J_VIEW || kind == TRI_J_STREAM,
         out))
TEST(is_callable, put(kind == TRI_J_UNDEFINED || kind == TRI_J_METHOD || kind == TRI_J_FUNCTION ||
                          (kind == TRI_J_OBJECT && c->self.as.object->call),
                      out))
TEST(is_equal, compare(a, TRI_JOP_EQ, c, out))
TEST(is_unequal, compare(a, TRI_JOP_NE, c, out))
TEST(is_greater, compare(a, TRI_JOP_GT, c, out))
TEST(is_greater_equal, compare(a, TRI_JOP_GE, c, out))
TEST(is_less, compare(a, TRI_JOP_LT, c, out))
TEST(is_less_equal, compare(a, TRI_JOP_LE, c, out))
TEST(is_in, compare(a, TRI_JOP_IN, c, out))

/* Tests identity. Numbers and texts are compared by value, because CPython often shares them. */
static tri_status is_same(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue x = c->self, y = *c->arg[0];

  if (x.kind != y.kind || x.note != y.note) return put(false, out);
  switch (x.kind) {
  case TRI_J_NONE:
    return put(true, out);
  case TRI_J_BOOL:
  case TRI_J_INT:
  case TRI_J_FLOAT:
    return tri_jbinary(a, TRI_JOP_EQ, x, y, out);
  case TRI_J_STRING:
    return tri_jbinary(a, TRI_JOP_EQ, x, y, out);
  case TRI_J_UNDEFINED:
    return put(x.as.text.s == y.as.text.s && x.as.text.n == y.as.text.n, out);
  default:
    return put(x.as.object == y.as.object, out);
  }
}

static tri_status has_case(tri_jarena *a, const tri_jcalled *c, const char *method, tri_jvalue *out) {
  int64_t         n = 0;
  const tri_jrow *rows = tri_jmethods_text(&n), *row = tri_jrow_find(rows, n, method, strlen(method));
  tri_jvalue      text;
  tri_jargs       none = {0};

  TRI_TRY(tri_jstr(a, c->self, &text));
  return tri_jrow_call(a, row, "method", text, &none, out);
}

TEST(is_lower, has_case(a, c, "islower", out))
TEST(is_upper, has_case(a, c, "isupper", out))

/* clang-format off */
const tri_jrow tri_jtests[] = {
  {"odd", "", is_odd}, {"even", "", is_even}, {"divisibleby", "num", is_divisible}, {"defined", "", is_defined},
  {"undefined", "", is_undefined}, {"none", "", is_none}, {"boolean", "", is_boolean}, {"false", "", is_false},
  {"true", "", is_true}, {"integer", "", is_integer}, {"float", "", is_float}, {"lower", "", is_lower},
  {"upper", "", is_upper}, {"string", "", is_string}, {"mapping", "", is_mapping}, {"number", "", is_number},
  {"sequence", "", is_sequence}, {"iterable", "", is_iterable}, {"callable", "", is_callable},
  {"sameas", "other", is_same}, {"escaped", "", is_escaped}, {"in", "seq", is_in},
  {"==", "/b", is_equal}, {"eq", "/b", is_equal}, {"equalto", "/b", is_equal}, {"!=", "/b", is_unequal},
  {"ne", "/b", is_unequal}, {">", "/b", is_greater}, {"gt", "/b", is_greater}, {"greaterthan", "/b", is_greater},
  {">=", "/b", is_greater_equal}, {"ge", "/b", is_greater_equal}, {"<", "/b", is_less}, {"lt", "/b", is_less},
  {"lessthan", "/b", is_less}, {"<=", "/b", is_less_equal}, {"le", "/b", is_less_equal},
};
/* clang-format on */
const int64_t tri_jtests_n = sizeof tri_jtests / sizeof *tri_jtests;
