/* math_value.h - the value of an expression, as residues at keyed points and a floating-point estimate. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_VALUE_H
#define TRI_MATH_VALUE_H

#include "math_field.h"
#include "tex_parse.h"

/* Number of points with values for letters (math_quantity.h). */
enum { TRI_POINTS = 3 };

typedef struct tri_math_value {
  tri_residue at[TRI_FIELDS][TRI_POINTS];
  double      re, im;   /* an estimate, valid if `constant` is set */
  double      largest;  /* magnitude of the largest intermediate result, the scale of the estimate's error */
  bool        defined;  /* no division by zero, and every node has a value */
  bool        constant; /* no letters, and the estimate is finite */
  int         choices;  /* roots of constants with a sign left open by the residues */
} tri_math_value;

/* Returns the value of a node. `sign` is the sign taken by \pm, 1 or -1. Bit i of `branch` gives root i of
 * `choices` its other sign in the residues. The products made are subtracted from *work. Below 0 the value is
 * not defined. */
tri_math_value tri_math_evaluate(const tri_tex_tree *tree, int node, int sign, unsigned branch,
                                 int64_t *work);

/* A node and its value with branch 0. */
typedef struct tri_math_operand {
  const tri_tex_tree   *tree;
  int                   node, sign;
  const tri_math_value *value;
} tri_math_operand;
/* Tells whether the two have the same value. Returns false if one is undefined. It is symmetric as long as
 * *work is not used up. */
bool tri_math_values_equal(const tri_math_operand *a, const tri_math_operand *b, int64_t *work);

#endif
