/* tex_tree.h - the nodes of a parsed answer in TeX. Not collective, all that follow, unless they say
 * Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_TREE_H
#define TRI_TEX_TREE_H

#include "tex_lex.h"

#include <stdint.h>

/* Limits of an answer. A longer, larger or deeper one is not read. */
enum { TRI_TEX_BYTES = 4096, TRI_TEX_NODES = 1024, TRI_TEX_DEPTH = 32 };

typedef enum tri_tex_shape {
  /* values, with their members and numbers of children */
  TRI_SHAPE_NUMBER, /* text, repeat, base */
  TRI_SHAPE_NAME,   /* text */
  TRI_SHAPE_PI,
  TRI_SHAPE_EULER,  /* text */
  TRI_SHAPE_UNIT_I, /* text */
  TRI_SHAPE_INFINITY,
  TRI_SHAPE_SUM,        /* any number of children */
  TRI_SHAPE_PRODUCT,    /* any number of children */
  TRI_SHAPE_NEGATIVE,   /* 1 */
  TRI_SHAPE_QUOTIENT,   /* 2 */
  TRI_SHAPE_POWER,      /* 2 */
  TRI_SHAPE_ROOT,       /* 1 (the radicand), or 2 with the order */
  TRI_SHAPE_FACTORIAL,  /* 1 */
  TRI_SHAPE_BINOMIAL,   /* 2 */
  TRI_SHAPE_ABSOLUTE,   /* 1 */
  TRI_SHAPE_FLOOR,      /* 1 */
  TRI_SHAPE_CEILING,    /* 1 */
  TRI_SHAPE_PERCENT,    /* 1 */
  TRI_SHAPE_DEGREE,     /* 1 */
  TRI_SHAPE_FUNCTION,   /* text, and 1 (the argument) or 2 with the base of a logarithm */
  TRI_SHAPE_PLUS_MINUS, /* 1 or 2 */
  TRI_SHAPE_MINUS_PLUS, /* 1 or 2 */
  TRI_SHAPE_RATIO,      /* 2 or more */
  TRI_SHAPE_REFERENCE,  /* `first` is another node, which it stands for. It is not a child */
  /* structures of values */
  TRI_SHAPE_TEXT,     /* text */
  TRI_SHAPE_LIST,     /* unordered elements without brackets */
  TRI_SHAPE_SET,      /* unordered */
  TRI_SHAPE_TUPLE,    /* ordered. open and close are its brackets */
  TRI_SHAPE_UNION,    /* unordered */
  TRI_SHAPE_MATRIX,   /* cells row by row, `columns` in each */
  TRI_SHAPE_RELATION, /* each child except the first has its sign in `relation` */
  TRI_SHAPE_EMPTY
} tri_tex_shape;

typedef struct tri_tex_node {
  tri_tex_shape shape;
  tri_tex_kind  relation; /* sign before a child of a relation */
  int16_t       first, last, next;
  int16_t       n, columns;
  char          open, close;
  bool          two_valued; /* contains \pm or \mp */
  tri_part      text, repeat, base;
  tri_part      source; /* text of an element */
} tri_tex_node;

typedef struct tri_tex_tree {
  int          n, root;
  tri_tex_node node[TRI_TEX_NODES];
} tri_tex_tree;

/* Returns a new node without children, or -1 if there are TRI_TEX_NODES already. */
int tri_tex_make(tri_tex_tree *tree, tri_tex_shape shape);
/* Makes `child` the last child of `parent`. It must not have a parent yet. */
void tri_tex_give(tri_tex_tree *tree, int parent, int child);
/* Turns a product or quotient of a matrix and a number into a matrix, with the number in each cell. Returns
 * this matrix, or the node unchanged if it is no such product, or -1 if there are TRI_TEX_NODES already. */
int tri_tex_spread(tri_tex_tree *tree, int node);
/* Pure. Tells whether a node is a number without a point, exponent, repeating digits or index, or a quotient
 * of two such numbers. */
bool tri_tex_is_integer(const tri_tex_tree *tree, int node);
bool tri_tex_is_fraction(const tri_tex_tree *tree, int node);

#endif
