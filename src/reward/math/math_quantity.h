/* math_quantity.h - quantities of one evaluation: a residue, an estimate, a fraction. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_QUANTITY_H
#define TRI_MATH_QUANTITY_H

#include "math_field.h"

#include <complex.h>

/* Limits, chosen: one evaluation makes about TRI_EVALUATION_WORK products at most, in a millisecond.
 * TRI_WORK_POWER is the cost of a power or an inverse, in products of the same time. */
enum { TRI_EVALUATION_WORK = 30000, TRI_TRIAL_DIVISORS = 1000, TRI_ROOT_MOST = 1000, TRI_WORK_POWER = 60 };

/* One evaluation, with a field, a point for the values of letters, and a sign for each open root. */
struct tri_tex_tree;
typedef struct tri_evaluation {
  const struct tri_tex_tree *tree; /* borrowed. math_value.c evaluates its nodes */
  int                        field, point;
  int                        sign;    /* sign taken by \pm, 1 or -1 */
  unsigned                   branch;  /* bit i set gives root i of `choices` its other sign */
  int                        choices; /* roots of constants so far with a sign left open by the residues */
  int64_t                    work;    /* products left */
  bool   defined; /* false after a division by zero, a node without a value, or too much work */
  double largest; /* magnitude of the largest estimate so far */
} tri_evaluation;

/* A quantity. If `rational` is set, it is n / d in lowest terms with d > 0. Else n and d are meaningless. */
typedef struct tri_quantity {
  tri_residue    r;
  double complex f; /* an estimate, valid if `constant` is set (no letters) */
  bool           constant, rational;
  int64_t        n, d;
} tri_quantity;

/* The kinds of stand-in values. */
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
  TRI_TAG_ANGLE, /* angle of a sine. The next is the angle of a tangent */
  TRI_TAG_ANGLE_OF_TANGENT,
  TRI_TAG_FUNCTION
};

/* Not collective, all of them. Each may end the evaluation. e->defined is then false and the result is
 * meaningless. */
void         tri_evaluation_spend(tri_evaluation *e, int64_t work);
tri_quantity tri_quantity_undefined(tri_evaluation *e);
/* Returns x and updates e->largest. */
tri_quantity tri_quantity_note(tri_evaluation *e, tri_quantity x);
tri_quantity tri_quantity_integer(tri_evaluation *e, int64_t n);
tri_quantity tri_quantity_number(tri_evaluation *e, tri_part digits, tri_part repeat);
/* Makes x the rational of the digits if it fits 64 bits. */
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
/* up selects the ceiling. */
tri_quantity tri_quantity_floor(tri_evaluation *e, tri_quantity a, bool up);
/* Returns the value of a letter, a keyed integer at each point. It is positive at point 0, negative at point
 * 1, and of either sign at point 2. */
tri_quantity tri_quantity_name(tri_evaluation *e, tri_part name);
/* Returns the value of pi or e, a positive letter with an estimate. */
tri_quantity tri_quantity_letter(tri_evaluation *e, uint64_t tag, double f);
/* Returns a value for an expression without a rule. It depends on tag, a and b only. */
tri_quantity tri_quantity_stand_in(tri_evaluation *e, uint64_t tag, tri_quantity a, tri_quantity b,
                                   double complex f);
uint64_t     tri_name_hash(tri_part name);
int64_t      tri_letter_integer(const tri_evaluation *e, uint64_t hash, bool positive);

#endif
