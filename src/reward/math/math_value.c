/* math_value.c - the value of an expression, as residues at keyed points and a floating-point estimate. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "math_value.h"

#include "math_quantity.h"

#include <math.h>
#include <string.h>

enum { TURNS_MOST = 4 }; /* chosen: most whole turns of an angle */

static tri_quantity evaluate(tri_evaluation *e, int i);

/* ---- powers ---- */

static uint64_t letter_tag(tri_tex_shape shape) { return shape == TRI_SHAPE_PI ? TRI_TAG_PI : TRI_TAG_EULER; }

/* Tells whether node i is a small whole number, for an exponent within an exponent. */
static bool whole_exponent(const tri_evaluation *e, int i, int64_t *n) {
  enum { MOST = 16 }; /* chosen */
  tri_quantity x = {.f = 0};

  if (e->tree->node[i].shape != TRI_SHAPE_NUMBER || e->tree->node[i].repeat.n) return false;
  tri_quantity_set_decimal(&x, e->tree->node[i].text);
  *n = x.n;
  return x.rational && x.d == 1 && x.n >= 0 && x.n <= MOST;
}

/* Computes the exponent at node i modulo tri_exponent_prime. Returns false if it has more than integers,
 * fractions and letters joined by + - * / and small powers. */
static bool exponent_of(tri_evaluation *e, int i, uint64_t *out) {
  const tri_tex_node *x = &e->tree->node[i];
  uint64_t            half = tri_exponent_prime(e->field), a, all;
  tri_quantity        number = {.f = 0};
  int64_t             n;

  tri_evaluation_spend(e,
                       x->shape == TRI_SHAPE_NUMBER || x->shape == TRI_SHAPE_QUOTIENT ? TRI_WORK_POWER : 1);
  switch (x->shape) {
  case TRI_SHAPE_NUMBER:
    if (!x->repeat.n) tri_quantity_set_decimal(&number, x->text);
    if (!number.rational) return false;
    *out = tri_exponent_multiply(e->field, (uint64_t)number.n % half,
                                 tri_exponent_invert(e->field, (uint64_t)number.d % half));
    return true;
  case TRI_SHAPE_NAME:
    n = tri_letter_integer(e, tri_name_hash(x->text), false);
    *out = n < 0 ? (half - (uint64_t)-n % half) % half : (uint64_t)n % half;
    return true;
  case TRI_SHAPE_PI:
  case TRI_SHAPE_EULER:
    *out = (uint64_t)tri_letter_integer(e, tri_field_hash(letter_tag(x->shape), 0), true) % half;
    return true;
  case TRI_SHAPE_NEGATIVE:
    if (!exponent_of(e, x->first, &a)) return false;
    *out = (half - a) % half;
    return true;
  case TRI_SHAPE_POWER:
    if (!whole_exponent(e, x->last, &n) || !exponent_of(e, x->first, &a)) return false;
    for (all = 1; n > 0; n--) all = tri_exponent_multiply(e->field, all, a);
    *out = all;
    return true;
  case TRI_SHAPE_SUM:
  case TRI_SHAPE_PRODUCT:
    all = x->shape == TRI_SHAPE_PRODUCT;
    for (int c = x->first; c >= 0; c = e->tree->node[c].next) {
      if (!exponent_of(e, c, &a)) return false;
      all = x->shape == TRI_SHAPE_PRODUCT ? tri_exponent_multiply(e->field, all, a) : (all + a) % half;
    }
    *out = all;
    return true;
  case TRI_SHAPE_QUOTIENT:
    if (!exponent_of(e, x->first, &all) || !exponent_of(e, x->last, &a) || !a) return false;
    *out = tri_exponent_multiply(e->field, all, tri_exponent_invert(e->field, a));
    return true;
  default:
    return false;
  }
}

/* Computes the exponent at node i with every letter set to 0, so 1 for n + 1. Returns false if this is not a
 * fraction. */
static bool constant_part(tri_evaluation *e, int i, tri_quantity *out) {
  const tri_tex_node *x = &e->tree->node[i];
  bool                product = x->shape == TRI_SHAPE_PRODUCT;
  tri_quantity        a;
  int64_t             n;

  *out = tri_quantity_integer(e, product); /* 0 for a sum, a quotient or a letter */
  switch (x->shape) {
  case TRI_SHAPE_NUMBER:
    *out = tri_quantity_number(e, x->text, x->repeat);
    return out->rational;
  case TRI_SHAPE_NAME:
  case TRI_SHAPE_PI:
  case TRI_SHAPE_EULER:
    return true;
  case TRI_SHAPE_NEGATIVE:
    if (!constant_part(e, x->first, &a)) return false;
    *out = tri_quantity_negate(e, a);
    return true;
  case TRI_SHAPE_POWER:
    if (!whole_exponent(e, x->last, &n) || !constant_part(e, x->first, &a)) return false;
    *out = tri_quantity_power(e, a, n);
    return out->rational;
  case TRI_SHAPE_SUM:
  case TRI_SHAPE_PRODUCT:
    for (int c = x->first; c >= 0; c = e->tree->node[c].next) {
      if (!constant_part(e, c, &a)) return false;
      *out = product ? tri_quantity_multiply(e, *out, a) : tri_quantity_add(e, *out, a);
    }
    return out->rational;
  case TRI_SHAPE_QUOTIENT:
    a = evaluate(e, x->last);
    if (!e->defined || (a.rational && !a.n)) return false;
    if (!a.rational) return true; /* with letters in the denominator nothing is constant */
    if (!constant_part(e, x->first, out)) return false;
    *out = tri_quantity_multiply(e, *out, tri_quantity_invert(e, a));
    return out->rational;
  default:
    return false;
  }
}

/* Raises a negative number to a power with letters, such as (-2)^(n + 1). The constant part of the exponent
 * is computed. (-1)^n is a value of its own, and (-1)^n (-1)^m = (-1)^(n + m) holds. Returns false if this is
 * not possible. */
static bool negative_power(tri_evaluation *e, tri_quantity a, int exponent, uint64_t n, tri_quantity *out) {
  tri_evaluation quiet = *e; /* its e->largest is dropped */
  uint64_t       half = tri_exponent_prime(e->field), rest;
  tri_residue    sign = tri_field_stand_in(e->field, TRI_TAG_SIGN, 0, 0);
  tri_quantity   c;

  if (!constant_part(&quiet, exponent, &c) || !quiet.defined || c.d > TRI_ROOT_MOST) return false;
  e->work = quiet.work;
  rest = tri_exponent_multiply(e->field, (uint64_t)(c.n < 0 ? -c.n : c.n) % half,
                               tri_exponent_invert(e->field, (uint64_t)c.d % half));
  rest = c.n < 0 ? (n + rest) % half : (n + half - rest) % half;
  sign = tri_field_multiply(e->field, sign, sign);
  *out = tri_quantity_power(e, c.d == 1 ? a : tri_quantity_root(e, a, c.d), c.n);
  out->r = tri_field_multiply(
      e->field, out->r,
      tri_field_power(e->field, tri_field_multiply(e->field, sign, tri_field_negate(e->field, a.r)), rest));
  out->constant = out->rational = false;
  return true;
}

/* Finds k if a is k pi / 360, or i times that with `imaginary`, up to TURNS_MOST whole turns. */
static bool half_degrees(tri_evaluation *e, tri_quantity a, bool imaginary, int64_t *out) {
  tri_residue pi = tri_quantity_letter(e, TRI_TAG_PI, acos(-1)).r, k;

  tri_evaluation_spend(e, TRI_WORK_POWER);
  if (a.r.re && a.r.im) return false;
  if (imaginary) a.r = (tri_residue){a.r.im, a.r.re};
  if (a.r.im || !tri_field_invert(e->field, pi, &k)) return false;
  k = tri_field_multiply(e->field, a.r, tri_field_multiply(e->field, k, tri_field_integer(e->field, 360)));
  *out = k.re > tri_field_prime(e->field) / 2 ? -(int64_t)(tri_field_prime(e->field) - k.re) : (int64_t)k.re;
  return *out >= -720 * TURNS_MOST && *out <= 720 * TURNS_MOST;
}

static bool is_euler(const tri_evaluation *e, int i) { return e->tree->node[i].shape == TRI_SHAPE_EULER; }

/* Returns a to the power of the node `exponent`. `euler` is set if a is the base of the natural logarithm. */
static tri_quantity power_value(tri_evaluation *e, tri_quantity a, bool euler, int exponent) {
  tri_quantity b = evaluate(e, exponent), x;
  uint64_t     n;
  int64_t      turn;

  if (!e->defined) return a;
  if (b.rational && b.d == 1) return tri_quantity_power(e, a, b.n);
  if (b.rational && b.d <= TRI_ROOT_MOST) return tri_quantity_power(e, tri_quantity_root(e, a, b.d), b.n);
  if (euler && b.constant && half_degrees(e, b, true, &turn))
    return tri_quantity_note(
        e, (tri_quantity){.r = tri_field_turn(e->field, turn), .f = cexp(b.f), .constant = true});
  if (!a.r.im && exponent_of(e, exponent, &n)) {
    if (tri_field_positive(e->field, a.r.re)) {
      tri_evaluation_spend(e, TRI_WORK_POWER);
      x = (tri_quantity){
          .r = tri_field_power(e->field, a.r, n), .f = cpow(a.f, b.f), .constant = a.constant && b.constant};
      return tri_quantity_note(e, x);
    }
    if (a.r.re && negative_power(e, a, exponent, n, &x)) return x;
  }
  return tri_quantity_stand_in(e, TRI_TAG_POWER, a, b, cpow(a.f, b.f));
}

/* ---- logarithms and turns ---- */

static bool is_name(tri_part t, const char *name) { return t.n == strlen(name) && !memcmp(t.at, name, t.n); }

/* Returns the logarithm of an integer as a sum over its prime factors. */
static tri_residue integer_log(int k, uint64_t n) {
  tri_residue x = {0, 0};

  for (uint64_t d = 2; n > 1; d++) {
    if (d > TRI_TRIAL_DIVISORS || d * d > n) d = n;
    for (; n % d == 0; n /= d) x = tri_field_add(k, x, tri_field_stand_in(k, TRI_TAG_LOG_PRIME, d, 0));
  }
  return x;
}

static tri_quantity log_of(tri_evaluation *e, int i) {
  const tri_tex_node *x = &e->tree->node[i];
  tri_quantity        a;

  if (x->shape == TRI_SHAPE_EULER) return tri_quantity_integer(e, 1);
  a = evaluate(e, i);
  if (!e->defined || (a.constant && a.f == 0)) return tri_quantity_undefined(e);
  tri_evaluation_spend(e, 2 * TRI_TRIAL_DIVISORS / 5);
  if (a.rational && a.n > 0)
    return tri_quantity_note(
        e,
        (tri_quantity){.r = tri_field_add(e->field, integer_log(e->field, (uint64_t)a.n),
                                          tri_field_negate(e->field, integer_log(e->field, (uint64_t)a.d))),
                       .f = log(creal(a.f)),
                       .constant = true});
  if (x->shape == TRI_SHAPE_POWER && a.constant)
    return tri_quantity_multiply(e, evaluate(e, x->last), log_of(e, x->first));
  if (x->shape == TRI_SHAPE_ROOT && x->n == 1 && a.constant)
    return tri_quantity_multiply(e, log_of(e, x->first), tri_quantity_invert(e, tri_quantity_integer(e, 2)));
  return tri_quantity_stand_in(e, TRI_TAG_LOG, a, a, clog(a.f));
}

/* Computes cosine and sine. They are exact for half degrees. Otherwise a stand-in for the tangent of half the
 * angle gives both, so that sin^2 + cos^2 = 1 holds. The stand-in is odd in the angle. */
static void turn_of(tri_evaluation *e, tri_quantity a, tri_quantity *cosine, tri_quantity *sine) {
  tri_residue  back = tri_field_negate(e->field, a.r), half;
  int64_t      turn;
  bool         odd;
  tri_quantity one = tri_quantity_integer(e, 1), t;

  *cosine = (tri_quantity){.f = ccos(a.f), .constant = a.constant};
  *sine = (tri_quantity){.f = csin(a.f), .constant = a.constant};
  if (half_degrees(e, a, false, &turn)) {
    half = tri_field_turn(e->field, turn);
    cosine->r = (tri_residue){half.re, 0};
    sine->r = (tri_residue){half.im, 0};
    return;
  }
  odd = back.re < a.r.re || (back.re == a.r.re && back.im < a.r.im);
  t = tri_quantity_stand_in(e, TRI_TAG_TANGENT, odd ? (tri_quantity){.r = back} : a, one, 0);
  if (odd) t = tri_quantity_negate(e, t);
  t.constant = false; /* only its residue is used */
  tri_quantity square = tri_quantity_multiply(e, t, t),
               bottom = tri_quantity_invert(e, tri_quantity_add(e, one, square));
  cosine->r = tri_quantity_multiply(e, tri_quantity_add(e, one, tri_quantity_negate(e, square)), bottom).r;
  sine->r = tri_quantity_multiply(e, tri_quantity_add(e, t, t), bottom).r;
}

/* ---- inverse functions ---- */

static const char *const inverse[] = {"arcsin", "arccos", "arctan", "arccot"};

static bool is_inverse(const tri_tex_node *x) {
  for (size_t i = 0; i < sizeof inverse / sizeof *inverse; i++)
    if (x->shape == TRI_SHAPE_FUNCTION && x->n == 1 && is_name(x->text, inverse[i])) return true;
  return false;
}

/* Returns the angle of k half degrees in radians. */
static tri_quantity half_degree_angle(tri_evaluation *e, int64_t k) {
  return tri_quantity_multiply(e, tri_quantity_letter(e, TRI_TAG_PI, acos(-1)),
                               tri_quantity_multiply(e, tri_quantity_integer(e, k),
                                                     tri_quantity_invert(e, tri_quantity_integer(e, 360))));
}

/* Returns the angle of a sine or a tangent. It is exact if it has whole half degrees, else an odd
 * stand-in. */
static tri_quantity angle_of(tri_evaluation *e, tri_quantity a, bool tangent) {
  double complex f = tangent ? catan(a.f) : casin(a.f);
  double         k = floor(creal(f) * 360 / acos(-1) + 0.5);
  tri_residue    back = tri_field_negate(e->field, a.r), turn;
  bool           odd = back.re < a.r.re || (back.re == a.r.re && back.im < a.r.im);
  tri_quantity   x;

  if (a.constant && cimag(a.f) == 0 && fabs(k) <= 180) {
    turn = tri_field_turn(e->field, (int64_t)k);
    if (tangent ? turn.re && tri_field_equal((tri_residue){turn.im, 0},
                                             tri_field_multiply(e->field, a.r, (tri_residue){turn.re, 0}))
                : tri_field_equal((tri_residue){turn.im, 0}, a.r))
      return half_degree_angle(e, (int64_t)k);
  }
  if (odd) a.r = back;
  x = tri_quantity_stand_in(e, TRI_TAG_ANGLE + tangent, a, a, odd ? -f : f);
  return odd ? tri_quantity_negate(e, x) : x;
}

static tri_quantity inverse_value(tri_evaluation *e, const tri_tex_node *x) {
  bool         tangent = is_name(x->text, "arctan") || is_name(x->text, "arccot");
  int          argument = x->first;
  bool         negative = e->tree->node[argument].shape == TRI_SHAPE_NEGATIVE;
  tri_quantity a;

  if (negative) argument = e->tree->node[argument].first;
  if (tangent && e->tree->node[argument].shape == TRI_SHAPE_INFINITY) {
    a = half_degree_angle(e, negative ? -180 : 180);
  } else {
    a = evaluate(e, x->first);
    if (!e->defined) return a;
    a = angle_of(e, a, tangent);
  }
  if (is_name(x->text, "arcsin") || is_name(x->text, "arctan")) return a;
  return tri_quantity_add(e, half_degree_angle(e, 180), tri_quantity_negate(e, a));
}

/* Computes cosine and sine of an inverse function, such as cos(arcsin x) as the root of 1 - x^2. */
static void turn_of_inverse(tri_evaluation *e, const tri_tex_node *x, tri_quantity *cosine,
                            tri_quantity *sine) {
  tri_quantity a = evaluate(e, x->first), one = tri_quantity_integer(e, 1), square, length;
  bool         tangent = is_name(x->text, "arctan") || is_name(x->text, "arccot");

  square = tri_quantity_multiply(e, a, a);
  if (!tangent) square = tri_quantity_negate(e, square);
  length = tri_quantity_root(e, tri_quantity_add(e, one, square), 2);
  if (tangent) {
    *cosine = tri_quantity_invert(e, length);
    *sine = tri_quantity_multiply(e, a, *cosine);
  } else {
    *cosine = length;
    *sine = a;
  }
  if (is_name(x->text, "arcsin") || is_name(x->text, "arctan")) return;
  a = *cosine;
  *cosine = *sine;
  *sine = a;
}

/* ---- functions ---- */

static tri_quantity trigonometric(tri_evaluation *e, tri_part name, const tri_tex_node *argument) {
  tri_quantity cosine, sine, a;

  if (is_inverse(argument)) {
    turn_of_inverse(e, argument, &cosine, &sine);
  } else {
    a = evaluate(e, (int)(argument - e->tree->node));
    if (e->defined && argument->shape == TRI_SHAPE_DEGREE)
      a = tri_quantity_multiply(e, tri_quantity_multiply(e, a, tri_quantity_letter(e, TRI_TAG_PI, acos(-1))),
                                tri_quantity_invert(e, tri_quantity_integer(e, 180)));
    if (!e->defined) return a;
    turn_of(e, a, &cosine, &sine);
  }
  if (!e->defined) return cosine;
  if (is_name(name, "sin")) return tri_quantity_note(e, sine);
  if (is_name(name, "cos")) return tri_quantity_note(e, cosine);
  if (is_name(name, "tan")) return tri_quantity_multiply(e, sine, tri_quantity_invert(e, cosine));
  if (is_name(name, "cot")) return tri_quantity_multiply(e, cosine, tri_quantity_invert(e, sine));
  return tri_quantity_invert(e, is_name(name, "sec") ? cosine : sine);
}

static tri_quantity logarithm(tri_evaluation *e, const tri_tex_node *x) {
  tri_quantity top = log_of(e, x->first), bottom;

  if (x->n == 1 && is_name(x->text, "ln")) return top;
  bottom = x->n == 2 ? log_of(e, x->last)
                     : (tri_quantity){.r = integer_log(e->field, 10), .f = log(10), .constant = true};
  return tri_quantity_multiply(e, top, tri_quantity_invert(e, bottom));
}

/* Computes exp, and with it sinh, cosh and tanh. */
static tri_quantity exponential(tri_evaluation *e, const tri_tex_node *x) {
  tri_quantity up = power_value(e, tri_quantity_letter(e, TRI_TAG_EULER, exp(1)), true, x->first), down, half;
  tri_quantity sum, difference;

  if (!e->defined || is_name(x->text, "exp")) return up;
  down = tri_quantity_invert(e, up);
  half = tri_quantity_invert(e, tri_quantity_integer(e, 2));
  sum = tri_quantity_add(e, up, down);
  difference = tri_quantity_add(e, up, tri_quantity_negate(e, down));
  if (is_name(x->text, "cosh")) return tri_quantity_multiply(e, sum, half);
  if (is_name(x->text, "sinh")) return tri_quantity_multiply(e, difference, half);
  return tri_quantity_multiply(e, difference, tri_quantity_invert(e, sum));
}

static tri_quantity function_value(tri_evaluation *e, const tri_tex_node *x) {
  static const char *const circular[] = {"sin", "cos", "tan", "cot", "sec", "csc"};
  static const char *const hyperbolic[] = {"exp", "sinh", "cosh", "tanh"};
  const tri_tex_node      *argument = &e->tree->node[x->first];
  tri_quantity             a;

  if (is_name(x->text, "log") || is_name(x->text, "ln") || is_name(x->text, "lg")) return logarithm(e, x);
  if (x->n != 1) return tri_quantity_undefined(e);
  if (is_inverse(x)) return inverse_value(e, x);
  for (size_t i = 0; i < sizeof hyperbolic / sizeof *hyperbolic; i++)
    if (is_name(x->text, hyperbolic[i])) return exponential(e, x);
  for (size_t i = 0; i < sizeof circular / sizeof *circular; i++)
    if (is_name(x->text, circular[i])) return trigonometric(e, x->text, argument);
  a = evaluate(e, x->first);
  if (!e->defined) return a;
  a = tri_quantity_stand_in(e, TRI_TAG_FUNCTION + tri_name_hash(x->text), a, a, 0);
  a.constant = false;
  return a;
}

/* ---- nodes ---- */

static tri_quantity two_valued(tri_evaluation *e, const tri_tex_node *x) {
  int          sign = x->shape == TRI_SHAPE_PLUS_MINUS ? e->sign : -e->sign;
  tri_quantity b = evaluate(e, x->last);

  if (sign < 0) b = tri_quantity_negate(e, b);
  return x->n == 1 ? b : tri_quantity_add(e, evaluate(e, x->first), b);
}

static tri_quantity join(tri_evaluation *e, const tri_tex_node *x) {
  tri_quantity all = tri_quantity_integer(e, x->shape == TRI_SHAPE_PRODUCT);

  for (int c = x->first; c >= 0 && e->defined; c = e->tree->node[c].next)
    all = x->shape == TRI_SHAPE_PRODUCT ? tri_quantity_multiply(e, all, evaluate(e, c))
                                        : tri_quantity_add(e, all, evaluate(e, c));
  return all;
}

static tri_quantity evaluate(tri_evaluation *e, int i) {
  const tri_tex_node *x = &e->tree->node[i];
  tri_quantity        a;

  tri_evaluation_spend(e, 1);
  if (!e->defined) return (tri_quantity){.f = 0};
  switch (x->shape) {
  case TRI_SHAPE_NUMBER:
    return tri_quantity_number(e, x->text, x->repeat);
  case TRI_SHAPE_NAME:
    return tri_quantity_name(e, x->text);
  case TRI_SHAPE_PI:
    return tri_quantity_letter(e, TRI_TAG_PI, acos(-1));
  case TRI_SHAPE_EULER:
    return tri_quantity_letter(e, TRI_TAG_EULER, exp(1));
  case TRI_SHAPE_INFINITY:
    return tri_quantity_letter(e, TRI_TAG_INFINITY, INFINITY);
  case TRI_SHAPE_UNIT_I:
    return tri_quantity_note(e, (tri_quantity){.r = {0, 1}, .f = I, .constant = true});
  case TRI_SHAPE_SUM:
  case TRI_SHAPE_PRODUCT:
    return join(e, x);
  case TRI_SHAPE_REFERENCE:
    return evaluate(e, x->first);
  case TRI_SHAPE_NEGATIVE:
    return tri_quantity_negate(e, evaluate(e, x->first));
  case TRI_SHAPE_QUOTIENT:
    a = evaluate(e, x->first);
    return tri_quantity_multiply(e, a, tri_quantity_invert(e, evaluate(e, x->last)));
  case TRI_SHAPE_RATIO:
    if (x->n != 2) return tri_quantity_undefined(e);
    a = evaluate(e, x->first);
    return tri_quantity_multiply(e, a, tri_quantity_invert(e, evaluate(e, x->last)));
  case TRI_SHAPE_POWER:
    a = evaluate(e, x->first);
    return power_value(e, a, is_euler(e, x->first), x->last);
  case TRI_SHAPE_ROOT:
    a = x->n == 2 ? evaluate(e, x->last) : tri_quantity_integer(e, 2);
    if (!a.rational || a.d != 1) return tri_quantity_undefined(e);
    return tri_quantity_root(e, evaluate(e, x->first), a.n);
  case TRI_SHAPE_FACTORIAL:
    return tri_quantity_factorial(e, evaluate(e, x->first));
  case TRI_SHAPE_BINOMIAL:
    a = evaluate(e, x->first);
    return tri_quantity_binomial(e, a, evaluate(e, x->last));
  case TRI_SHAPE_ABSOLUTE:
    return tri_quantity_absolute(e, evaluate(e, x->first));
  case TRI_SHAPE_FLOOR:
    return tri_quantity_floor(e, evaluate(e, x->first), false);
  case TRI_SHAPE_CEILING:
    return tri_quantity_floor(e, evaluate(e, x->first), true);
  case TRI_SHAPE_PERCENT:
    a = evaluate(e, x->first);
    return tri_quantity_multiply(e, a, tri_quantity_invert(e, tri_quantity_integer(e, 100)));
  case TRI_SHAPE_DEGREE:
    return evaluate(e, x->first);
  case TRI_SHAPE_FUNCTION:
    return function_value(e, x);
  case TRI_SHAPE_PLUS_MINUS:
  case TRI_SHAPE_MINUS_PLUS:
    return two_valued(e, x);
  default:
    return tri_quantity_undefined(e);
  }
}

tri_math_value tri_math_evaluate(const tri_tex_tree *tree, int node, int sign, unsigned branch,
                                 int64_t *work) {
  tri_math_value out = {.defined = true};

  for (int k = 0; k < TRI_FIELDS; k++)
    for (int j = 0; j < TRI_POINTS; j++) {
      int64_t        most = *work < TRI_EVALUATION_WORK ? *work : TRI_EVALUATION_WORK;
      tri_evaluation e = {.tree = tree,
                          .field = k,
                          .point = j,
                          .sign = sign,
                          .branch = branch,
                          .work = most,
                          .defined = most >= 0};
      tri_quantity   x = evaluate(&e, node);
      *work -= most - e.work;
      out.defined = out.defined && e.defined;
      if (!out.defined) return out;
      out.at[k][j] = x.r;
      out.constant = x.constant && isfinite(creal(x.f)) && isfinite(cimag(x.f));
      out.re = creal(x.f);
      out.im = cimag(x.f);
      out.largest = e.largest;
      out.choices = e.choices;
    }
  return out;
}

/* ---- equality ---- */

/* Tells whether two estimates are equal within the rounding of the largest intermediate result. */
static bool estimates_agree(const tri_math_value *a, const tri_math_value *b) {
  double scale = fmax(a->largest, b->largest);

  if (!a->constant || !b->constant || !isfinite(scale)) return true;
  return hypot(a->re - b->re, a->im - b->im) <=
         1e-9 * fmin(scale, hypot(a->re, a->im) + hypot(b->re, b->im)) + 1e-13 * scale;
}

static bool residues_equal(const tri_math_value *a, const tri_math_value *b, int k) {
  for (int j = 0; j < TRI_POINTS; j++)
    if (!tri_field_equal(a->at[k][j], b->at[k][j])) return false;
  return true;
}

static const tri_tex_node *unsigned_node(const tri_tex_tree *tree, int i) {
  const tri_tex_node *x = &tree->node[i];

  return x->shape == TRI_SHAPE_NEGATIVE ? &tree->node[x->first] : x;
}

/* Tells whether a node is written in digits alone. Such a number is not compared with a rounding. */
static bool is_written_out(const tri_tex_tree *tree, int i) {
  const tri_tex_node *x = unsigned_node(tree, i);

  return x->shape == TRI_SHAPE_NUMBER && !x->repeat.n;
}

/* Tells whether a number has at least six digits behind its point and no exponent. It then stands for every
 * value that rounds to it. */
static bool is_rounded(const tri_tex_tree *tree, int i) {
  const tri_tex_node *x = unsigned_node(tree, i);
  const char         *point;

  point = x->shape == TRI_SHAPE_NUMBER && x->text.n ? memchr(x->text.at, '.', x->text.n) : NULL;
  return point && x->text.at + x->text.n - point > 6 &&
         !memchr(point, 'e', (size_t)(x->text.at + x->text.n - point)) &&
         !memchr(point, 'E', (size_t)(x->text.at + x->text.n - point));
}

static bool rounds_to(const tri_math_value *a, const tri_math_value *b) {
  return a->constant && b->constant && fabs(a->re) >= 0.1 && fabs(a->im) + fabs(b->im) < 1e-9 &&
         fabs(a->re - b->re) <= 0.5e-6;
}

bool tri_math_values_equal(const tri_math_operand *a, const tri_math_operand *b, int64_t *work) {
  enum { CHOICES_MOST = 3 };
  tri_math_value x = *a->value, y = *b->value, other[1 << CHOICES_MOST];
  bool           equal[TRI_FIELDS] = {false};

  if (!x.defined || !y.defined) return false;
  if (!(is_written_out(a->tree, a->node) && is_written_out(b->tree, b->node)) &&
      is_rounded(a->tree, a->node) != is_rounded(b->tree, b->node) && rounds_to(&x, &y))
    return true;
  if (!estimates_agree(&x, &y)) return false;
  for (int k = 0; k < TRI_FIELDS; k++) equal[k] = residues_equal(&x, &y, k);
  if (equal[0] && equal[1]) return true;
  if (!x.constant || !y.constant || x.choices > CHOICES_MOST || y.choices > CHOICES_MOST) return false;
  /* The residues leave the sign of a root of a root open. The estimates agree, so they decide it. */
  for (unsigned j = 0; j < 1u << y.choices; j++)
    other[j] = tri_math_evaluate(b->tree, b->node, b->sign, j, work);
  for (unsigned i = 0; i < 1u << a->value->choices; i++) {
    x = tri_math_evaluate(a->tree, a->node, a->sign, i, work);
    for (unsigned j = 0; j < 1u << y.choices; j++)
      for (int k = 0; k < TRI_FIELDS; k++)
        equal[k] = equal[k] || (x.defined && other[j].defined && residues_equal(&x, &other[j], k));
  }
  return equal[0] && equal[1];
}
