/* math_quantity.c - quantities of one evaluation: a residue, an estimate, a fraction. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "math_quantity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACTORIAL_MOST = 3000, BINOMIAL_MOST = 3000 }; /* chosen: within TRI_EVALUATION_WORK */

typedef __int128 wide;

/* ---- arithmetic ---- */

tri_quantity tri_quantity_undefined(tri_evaluation *e) {
  e->defined = false;
  return (tri_quantity){.f = 0};
}

void tri_evaluation_spend(tri_evaluation *e, int64_t work) {
  e->work -= work;
  if (e->work < 0) e->defined = false;
}

static bool fits(wide x) { return x >= -INT64_MAX && x <= INT64_MAX; }

static wide gcd(wide a, wide b) {
  while (b) {
    wide rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

static void set_rational(tri_quantity *x, wide n, wide d) {
  wide g = gcd(n, d);

  x->rational = false;
  if (!d) return;
  if (d < 0) g = -g;
  n /= g;
  d /= g;
  if (!fits(n) || !fits(d)) return;
  x->rational = true;
  x->n = (int64_t)n;
  x->d = (int64_t)d;
}

tri_quantity tri_quantity_note(tri_evaluation *e, tri_quantity x) {
  double size = x.constant ? cabs(x.f) : 0;

  if (size > e->largest) e->largest = size;
  return x;
}

tri_quantity tri_quantity_integer(tri_evaluation *e, int64_t n) {
  return tri_quantity_note(e, (tri_quantity){.r = tri_field_integer(e->field, n),
                                             .f = (double)n,
                                             .constant = true,
                                             .rational = true,
                                             .n = n,
                                             .d = 1});
}

tri_quantity tri_quantity_add(tri_evaluation *e, tri_quantity a, tri_quantity b) {
  tri_quantity x = {
      .r = tri_field_add(e->field, a.r, b.r), .f = a.f + b.f, .constant = a.constant && b.constant};

  tri_evaluation_spend(e, a.rational && b.rational ? 4 : 1);
  if (a.rational && b.rational) set_rational(&x, (wide)a.n * b.d + (wide)b.n * a.d, (wide)a.d * b.d);
  return tri_quantity_note(e, x);
}

tri_quantity tri_quantity_negate(tri_evaluation *e, tri_quantity a) {
  a.r = tri_field_negate(e->field, a.r);
  a.f = -a.f;
  a.n = -a.n;
  return a;
}

tri_quantity tri_quantity_multiply(tri_evaluation *e, tri_quantity a, tri_quantity b) {
  tri_quantity x = {
      .r = tri_field_multiply(e->field, a.r, b.r), .f = a.f * b.f, .constant = a.constant && b.constant};

  tri_evaluation_spend(e, a.rational && b.rational ? 4 : 1);
  if (a.rational && b.rational) set_rational(&x, (wide)a.n * b.n, (wide)a.d * b.d);
  return tri_quantity_note(e, x);
}

tri_quantity tri_quantity_invert(tri_evaluation *e, tri_quantity a) {
  tri_quantity x = {.f = 1 / a.f, .constant = a.constant};

  tri_evaluation_spend(e, TRI_WORK_POWER);
  if (!tri_field_invert(e->field, a.r, &x.r)) return tri_quantity_undefined(e);
  if (a.rational) set_rational(&x, a.d, a.n);
  return tri_quantity_note(e, x);
}

/* Returns a value that depends on its origin only. */
tri_quantity tri_quantity_stand_in(tri_evaluation *e, uint64_t tag, tri_quantity a, tri_quantity b,
                                   double complex f) {
  uint64_t left = tri_field_hash(a.r.re, a.r.im), right = tri_field_hash(b.r.re, b.r.im);

  return tri_quantity_note(e, (tri_quantity){.r = tri_field_stand_in(e->field, tag, left, right),
                                             .f = f,
                                             .constant = a.constant && b.constant});
}

/* ---- letters ---- */

uint64_t tri_name_hash(tri_part name) {
  uint64_t x = name.n == 1 ? 1 : 2;

  for (size_t i = 0; i < name.n; i++)
    if (!strchr(" {}\\", name.at[i])) x = tri_field_hash(x, (unsigned char)name.at[i]);
  return x;
}

/* Returns the integer a letter stands for, a square below 2^60 or its negative. */
int64_t tri_letter_integer(const tri_evaluation *e, uint64_t hash, bool positive) {
  int64_t root = (int64_t)(tri_field_hash(hash, (uint64_t)e->point) >> 34) + 2;
  bool    negative = !positive && (e->point == 1 || (e->point == 2 && hash & 1));

  return negative ? -root * root : root * root;
}

tri_quantity tri_quantity_letter(tri_evaluation *e, uint64_t tag, double f) {
  return tri_quantity_note(
      e, (tri_quantity){.r = tri_field_integer(e->field, tri_letter_integer(e, tri_field_hash(tag, 0), true)),
                        .f = f,
                        .constant = isfinite(f)});
}

tri_quantity tri_quantity_name(tri_evaluation *e, tri_part name) {
  return (tri_quantity){.r = tri_field_integer(e->field, tri_letter_integer(e, tri_name_hash(name), false))};
}

/* ---- numbers ---- */

/* Sets the fraction of 64-bit integers if it fits. */
void tri_quantity_set_decimal(tri_quantity *x, tri_part t) {
  wide n = 0, d = 1;
  bool point = false;

  for (size_t i = 0; i < t.n; i++) {
    char c = t.at[i];
    if (c == 'e' || c == 'E') return;
    if (c == '.') point = true;
    if (c < '0' || c > '9') continue;
    n = 10 * n + (c - '0');
    if (point) d *= 10;
    if (!fits(n) || !fits(d)) return;
  }
  set_rational(x, n, d);
}

tri_quantity tri_quantity_number(tri_evaluation *e, tri_part digits, tri_part repeat) {
  tri_quantity x = {.r = tri_field_decimal(e->field, digits, repeat), .f = tri_float_decimal(digits, repeat)};

  x.constant = isfinite(creal(x.f));
  if (!repeat.n) tri_quantity_set_decimal(&x, digits);
  return tri_quantity_note(e, x);
}

/* ---- roots ---- */

static uint64_t whole_root(uint64_t n) {
  uint64_t x = (uint64_t)sqrt((double)n);

  while (x > 0 && x > n / x) x--;
  while (x + 1 <= n / (x + 1)) x++;
  return x;
}

/* Returns sqrt(n) as the product of the roots of its prime factors, so that it agrees with every other
 * product. A cofactor without small factors counts as a prime. *whole is the root if it is an integer, else
 * 0. */
static tri_residue integer_root(int k, uint64_t n, uint64_t *whole) {
  tri_residue x = {1, 0};
  uint64_t    root = whole_root(n);

  *whole = root * root == n ? root : 0;
  if (*whole) return tri_field_integer(k, (int64_t)root);
  for (uint64_t d = 2; d <= TRI_TRIAL_DIVISORS && d * d <= n; d++)
    for (; n % d == 0; n /= d) x = tri_field_multiply(k, x, tri_field_root(k, d));
  root = whole_root(n);
  if (root * root == n) return tri_field_multiply(k, x, tri_field_integer(k, (int64_t)root));
  return tri_field_multiply(k, x, tri_field_root(k, n % tri_field_prime(k)));
}

static tri_quantity rational_root(tri_evaluation *e, tri_quantity a) {
  static const tri_residue unit_i = {0, 1};
  uint64_t                 top, bottom;
  tri_residue              n = integer_root(e->field, (uint64_t)(a.n < 0 ? -a.n : a.n), &top),
              d = integer_root(e->field, (uint64_t)a.d, &bottom);
  tri_quantity x = {.f = a.n < 0 ? I * sqrt(-creal(a.f)) : sqrt(creal(a.f)), .constant = a.constant};

  tri_evaluation_spend(e, TRI_TRIAL_DIVISORS);
  if (!a.n) return a;
  if (!tri_field_invert(e->field, d, &d)) return tri_quantity_undefined(e);
  x.r = tri_field_multiply(e->field, n, d);
  if (a.n < 0) x.r = tri_field_multiply(e->field, x.r, unit_i);
  if (a.n > 0 && top && bottom) set_rational(&x, (wide)top, (wide)bottom);
  return tri_quantity_note(e, x);
}

static tri_quantity square_root(tri_evaluation *e, tri_quantity a) {
  tri_quantity x = {.f = csqrt(a.f), .constant = a.constant};

  if (a.rational) return rational_root(e, a);
  if (a.r.im) return tri_quantity_stand_in(e, TRI_TAG_ROOT, a, a, x.f);
  tri_evaluation_spend(e, 2 * TRI_WORK_POWER);
  x.r = tri_field_root(e->field, a.r.re);
  if (!a.constant) return x;
  if (e->branch >> e->choices & 1) x.r = tri_field_negate(e->field, x.r);
  if (e->choices < 31) e->choices++;
  return tri_quantity_note(e, x);
}

static tri_quantity odd_root(tri_evaluation *e, tri_quantity a, int64_t order) {
  double complex f = cimag(a.f) == 0 ? (creal(a.f) < 0 ? -1 : 1) * pow(fabs(creal(a.f)), 1 / (double)order)
                                     : cpow(a.f, 1 / (double)order);
  tri_quantity   x = {.f = f, .constant = a.constant};

  if (order == 1) return a;
  tri_evaluation_spend(e, 2 * TRI_WORK_POWER);
  if (a.r.im) return tri_quantity_stand_in(e, TRI_TAG_ROOT + ((uint64_t)order << 8), a, a, f);
  x.r = (tri_residue){tri_field_odd_root(e->field, a.r.re, (uint64_t)order), 0};
  return tri_quantity_note(e, x);
}

tri_quantity tri_quantity_root(tri_evaluation *e, tri_quantity a, int64_t order) {
  if (order < 1 || order > TRI_ROOT_MOST)
    return tri_quantity_stand_in(e, TRI_TAG_ROOT, a, tri_quantity_integer(e, order), NAN);
  for (; order % 2 == 0; order /= 2) a = square_root(e, a);
  return odd_root(e, a, order);
}

/* ---- powers, factorials, parts ---- */

tri_quantity tri_quantity_power(tri_evaluation *e, tri_quantity a, int64_t n) {
  tri_quantity x;
  uint64_t     size = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  double       f = (double)n;

  tri_evaluation_spend(e, TRI_WORK_POWER);
  if (n < 0 && tri_field_equal(a.r, (tri_residue){0, 0})) return tri_quantity_undefined(e);
  x = (tri_quantity){.r = tri_field_power(e->field, a.r, size), .constant = a.constant};
  x.f = cimag(a.f) == 0 ? pow(creal(a.f), (double)size) : cpow(a.f, (double)size);
  if (a.rational && size <= 62 && fabs(f * log2(fmax((double)llabs(a.n), (double)a.d) + 1)) < 63) {
    wide top = 1, bottom = 1;
    for (uint64_t i = 0; i < size; i++) {
      top *= a.n;
      bottom *= a.d;
    }
    set_rational(&x, top, bottom);
  }
  x.constant = x.constant && isfinite(creal(x.f)) && isfinite(cimag(x.f));
  return n < 0 ? tri_quantity_invert(e, x) : tri_quantity_note(e, x);
}

static bool is_whole(tri_quantity a, int64_t most) {
  return a.rational && a.d == 1 && a.n >= 0 && a.n <= most;
}

tri_quantity tri_quantity_factorial(tri_evaluation *e, tri_quantity a) {
  tri_quantity x = tri_quantity_integer(e, 1);

  if (!is_whole(a, FACTORIAL_MOST)) return tri_quantity_stand_in(e, TRI_TAG_FACTORIAL, a, a, NAN);
  for (int64_t i = 2; i <= a.n && e->defined; i++)
    x = tri_quantity_multiply(e, x, tri_quantity_integer(e, i));
  x.constant = x.constant && isfinite(creal(x.f));
  return x;
}

tri_quantity tri_quantity_binomial(tri_evaluation *e, tri_quantity n, tri_quantity k) {
  tri_quantity x = tri_quantity_integer(e, 1), below = x;

  if (!is_whole(n, BINOMIAL_MOST) || !is_whole(k, BINOMIAL_MOST))
    return tri_quantity_stand_in(e, TRI_TAG_BINOMIAL, n, k, NAN);
  if (k.n > n.n) return tri_quantity_integer(e, 0);
  for (int64_t i = 1; i <= k.n && e->defined; i++) {
    x = tri_quantity_multiply(e, x, tri_quantity_integer(e, n.n - k.n + i));
    below = tri_quantity_multiply(e, below, tri_quantity_integer(e, i));
  }
  x.constant = below.constant = isfinite(creal(x.f)) && isfinite(creal(below.f));
  return tri_quantity_multiply(e, x, tri_quantity_invert(e, below));
}

tri_quantity tri_quantity_absolute(tri_evaluation *e, tri_quantity a) {
  tri_quantity conjugate = a;

  if (a.r.im) {
    conjugate.r = tri_field_negate(e->field, (tri_residue){0, a.r.im});
    conjugate.r.re = a.r.re;
    conjugate.f = conj(a.f);
    conjugate.rational = false;
    conjugate = tri_quantity_multiply(e, a, conjugate); /* real */
    conjugate.f = creal(conjugate.f);
    return square_root(e, conjugate);
  }
  if (a.constant) return creal(a.f) < 0 ? tri_quantity_negate(e, a) : a;
  return tri_field_positive(e->field, a.r.re) ? a : tri_quantity_negate(e, a);
}

tri_quantity tri_quantity_floor(tri_evaluation *e, tri_quantity a, bool up) {
  double f = creal(a.f), near = floor(f + 0.5);

  if (up) return tri_quantity_negate(e, tri_quantity_floor(e, tri_quantity_negate(e, a), false));
  if (a.rational) return tri_quantity_integer(e, a.n >= 0 ? a.n / a.d : -((a.d - 1 - a.n) / a.d));
  if (!a.constant || a.r.im || fabs(f) > 1e9 || fabs(f - near) < 1e-6)
    return tri_quantity_stand_in(e, TRI_TAG_FLOOR, a, a, floor(f));
  return tri_quantity_integer(e, (int64_t)floor(f));
}
