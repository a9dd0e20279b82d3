/* tex_tree.h - the nodes of an answer in TeX. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_TREE_H
#define TRI_TEX_TREE_H

#include "tex_lex.h"

#include <stdint.h>

/* Limits of an answer. A longer, larger or deeper one is not read. */
enum { TRI_TEX_BYTES = 4096, TRI_TEX_NODES = 1024, TRI_TEX_DEPTH = 32 };

typedef enum tri_tex_shape {
  /* values */
  TRI_SHAPE_NUMBER, /* text, repeat, base */
  TRI_SHAPE_NAME,   /* text */
  TRI_SHAPE_PI,
  TRI_SHAPE_EULER,  /* text */
  TRI_SHAPE_UNIT_I, /* text */
  TRI_SHAPE_INFINITY,
  TRI_SHAPE_SUM,        /* any number of children */
  TRI_SHAPE_PRODUCT,    /* any number of children */
  TRI_SHAPE_NEGATIVE,   /* 1 child */
  TRI_SHAPE_QUOTIENT,   /* 2 */
  TRI_SHAPE_POWER,      /* 2 */
  TRI_SHAPE_ROOT,       /* 1, or 2: the radicand, the order */
  TRI_SHAPE_FACTORIAL,  /* 1 */
  TRI_SHAPE_BINOMIAL,   /* 2 */
  TRI_SHAPE_ABSOLUTE,   /* 1 */
  TRI_SHAPE_FLOOR,      /* 1 */
  TRI_SHAPE_CEILING,    /* 1 */
  TRI_SHAPE_PERCENT,    /* 1 */
  TRI_SHAPE_DEGREE,     /* 1 */
  TRI_SHAPE_FUNCTION,   /* text; 1, or 2: the argument, the base of a logarithm */
  TRI_SHAPE_PLUS_MINUS, /* 1 or 2 */
  TRI_SHAPE_MINUS_PLUS, /* 1 or 2 */
  TRI_SHAPE_RATIO,      /* 2 or more */
  TRI_SHAPE_REFERENCE,  /* first: a node that is another's child or nobody's, which it stands for */
  /* what holds values */
  TRI_SHAPE_TEXT,     /* text */
  TRI_SHAPE_LIST,     /* elements without brackets: unordered */
  TRI_SHAPE_SET,      /* unordered */
  TRI_SHAPE_TUPLE,    /* ordered; open, close: its brackets */
  TRI_SHAPE_UNION,    /* unordered */
  TRI_SHAPE_MATRIX,   /* by rows of `columns` */
  TRI_SHAPE_RELATION, /* each child but the first has the sign before it */
  TRI_SHAPE_EMPTY
} tri_tex_shape;

typedef struct tri_tex_node {
  tri_tex_shape shape;
  tri_tex_kind  relation; /* of a relation's child */
  int16_t       first, last, next;
  int16_t       n, columns;
  char          open, close;
  bool          two_valued; /* \pm or \mp stands in it */
  tri_part      text, repeat, base;
  tri_part      source; /* of elements: where they stand */
} tri_tex_node;

typedef struct tri_tex_tree {
  int          n, root;
  tri_tex_node node[TRI_TEX_NODES];
} tri_tex_tree;

/* A new node without children; -1 where there are TRI_TEX_NODES. Not collective. */
int tri_tex_make(tri_tex_tree *tree, tri_tex_shape shape);
/* Makes `child` the last child of `parent`; it may be nobody's yet. Not collective. */
void tri_tex_give(tri_tex_tree *tree, int parent, int child);
/* Puts the number of a product or quotient of a matrix and a number into each cell. Returns the matrix made,
 * or the node where it is none; -1 where there are TRI_TEX_NODES. Not collective. */
int tri_tex_spread(tri_tex_tree *tree, int node);
/* A number without a point, exponent, repeating digits or index; a quotient of two. Pure. */
bool tri_tex_is_integer(const tri_tex_tree *tree, int node);
bool tri_tex_is_fraction(const tri_tex_tree *tree, int node);

#endif
