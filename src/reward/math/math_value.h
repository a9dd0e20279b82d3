/* math_value.h - the value of an expression: residues at keyed points, with a floating-point estimate. */
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
 * counted in `choices`; where it is set, the root takes its other sign in the residues. Pure. */
tri_math_value tri_math_evaluate(const tri_tex_tree *tree, int node, int sign, unsigned branch);
/* Whether the two nodes have the same value; false where one is undefined. Symmetric, pure. */
bool tri_math_values_equal(const tri_tex_tree *a, int node_a, int sign_a, const tri_tex_tree *b, int node_b,
                           int sign_b);

#endif
