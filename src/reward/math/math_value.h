/* math_value.h - the value of an expression: residues at keyed points, with a floating-point estimate. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_VALUE_H
#define TRI_MATH_VALUE_H

#include "math_field.h"
#include "tex_parse.h"

/* The points at which letters have values (math_quantity.h). */
enum { TRI_POINTS = 3 };

typedef struct tri_math_value {
  tri_residue at[TRI_FIELDS][TRI_POINTS];
  double      re, im;   /* an estimate, where `constant` */
  double      largest;  /* magnitude of the largest intermediate result: the scale of the estimate's error */
  bool        defined;  /* no division by zero, nothing but values in it */
  bool        constant; /* no letters in it, and the estimate is finite */
  int         choices;  /* roots of constants whose sign the residues leave open */
} tri_math_value;

/* The value of a node. sign: which of the two values \pm gives, 1 or -1. branch: a bit for each root that is
 * counted in `choices`; where it is set, the root takes its other sign in the residues. *work: products left,
 * from which those made are taken; below 0 the value is not defined. Not collective. */
tri_math_value tri_math_evaluate(const tri_tex_tree *tree, int node, int sign, unsigned branch,
                                 int64_t *work);

/* A node and its value with branch 0. */
typedef struct tri_math_operand {
  const tri_tex_tree   *tree;
  int                   node, sign;
  const tri_math_value *value;
} tri_math_operand;
/* Whether the two have the same value; false where one is undefined. Symmetric as long as *work lasts, as of
 * tri_math_evaluate. Not collective. */
bool tri_math_values_equal(const tri_math_operand *a, const tri_math_operand *b, int64_t *work);

#endif
