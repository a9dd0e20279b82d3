/* math_quantity.h - quantities in one evaluation: a residue, an estimate, a fraction. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_QUANTITY_H
#define TRI_MATH_QUANTITY_H

#include "math_field.h"

#include <complex.h>

/* Limits, chosen: one evaluation makes about TRI_EVALUATION_WORK products at most, in a millisecond.
 * TRI_WORK_POWER: products of a power or an inverse, by their time. */
enum { TRI_EVALUATION_WORK = 30000, TRI_TRIAL_DIVISORS = 1000, TRI_ROOT_MOST = 1000, TRI_WORK_POWER = 60 };

/* One evaluation: a field, a point at which letters have values, a sign for each root that is open. */
struct tri_tex_tree;
typedef struct tri_evaluation {
  const struct tri_tex_tree *tree; /* borrowed; whose nodes math_value.c evaluates */
  int                        field, point;
  int                        sign; /* of \pm: 1 or -1 */
  unsigned branch;  /* a bit for each of the roots counted in `choices`: set, it takes its other sign */
  int      choices; /* roots of constants whose sign the residues leave open, so far */
  int64_t  work;    /* left */
  bool     defined; /* false: something was divided by zero, is no quantity or takes too long */
  double   largest; /* magnitude of the largest estimate so far */
} tri_evaluation;

/* A quantity. rational: it is n / d in lowest terms, d > 0; else n and d say nothing. */
typedef struct tri_quantity {
  tri_residue    r;
  double complex f; /* an estimate, where `constant`: no letters in it */
  bool           constant, rational;
  int64_t        n, d;
} tri_quantity;

/* The kinds of stand-ins. */
enum {
  TRI_TAG_PI = 1,
  TRI_TAG_EULER,
  TRI_TAG_INFINITY,
  TRI_TAG_LOG_PRIME,
  TRI_TAG_LOG,
  TRI_TAG_ROOT,
  TRI_TAG_POWER,
  TRI_TAG_FACTORIAL,
  TRI_TAG_BINOMIAL,
  TRI_TAG_FLOOR,
  TRI_TAG_TANGENT,
  TRI_TAG_SIGN,
  TRI_TAG_ANGLE, /* of a sine; the next: of a tangent */
  TRI_TAG_ANGLE_OF_TANGENT,
  TRI_TAG_FUNCTION
};

/* None is collective. Each may end the evaluation: e->defined is false then, and the result says nothing. */
void         tri_evaluation_spend(tri_evaluation *e, int64_t work);
tri_quantity tri_quantity_undefined(tri_evaluation *e);
/* Returns x and keeps the size of its estimate. */
tri_quantity tri_quantity_note(tri_evaluation *e, tri_quantity x);
tri_quantity tri_quantity_integer(tri_evaluation *e, int64_t n);
tri_quantity tri_quantity_number(tri_evaluation *e, tri_part digits, tri_part repeat);
/* Makes x the rational that the digits say, where it fits 64 bits. */
void         tri_quantity_set_decimal(tri_quantity *x, tri_part digits);
tri_quantity tri_quantity_add(tri_evaluation *e, tri_quantity a, tri_quantity b);
tri_quantity tri_quantity_negate(tri_evaluation *e, tri_quantity a);
tri_quantity tri_quantity_multiply(tri_evaluation *e, tri_quantity a, tri_quantity b);
tri_quantity tri_quantity_invert(tri_evaluation *e, tri_quantity a);
tri_quantity tri_quantity_root(tri_evaluation *e, tri_quantity a, int64_t order);
tri_quantity tri_quantity_power(tri_evaluation *e, tri_quantity a, int64_t n);
tri_quantity tri_quantity_factorial(tri_evaluation *e, tri_quantity a);
tri_quantity tri_quantity_binomial(tri_evaluation *e, tri_quantity n, tri_quantity k);
tri_quantity tri_quantity_absolute(tri_evaluation *e, tri_quantity a);
/* up: the ceiling. */
tri_quantity tri_quantity_floor(tri_evaluation *e, tri_quantity a, bool up);
/* A letter: a keyed integer at each point, positive at point 0, negative at point 1, of either sign at 2. */
tri_quantity tri_quantity_name(tri_evaluation *e, tri_part name);
/* pi, e: a letter that is positive and has an estimate. */
tri_quantity tri_quantity_letter(tri_evaluation *e, uint64_t tag, double f);
/* A value that no rule computes. It depends on tag, a and b alone. */
tri_quantity tri_quantity_stand_in(tri_evaluation *e, uint64_t tag, tri_quantity a, tri_quantity b,
                                   double complex f);
uint64_t     tri_name_hash(tri_part name);
int64_t      tri_letter_integer(const tri_evaluation *e, uint64_t hash, bool positive);

#endif
