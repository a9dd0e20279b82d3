/* tex_tree.c - the nodes of a parsed answer in TeX. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tex_tree.h"

#include <string.h>

int tri_tex_make(tri_tex_tree *tree, tri_tex_shape shape) {
  if (tree->n == TRI_TEX_NODES) return -1;
  tree->node[tree->n] = (tri_tex_node){.shape = shape, .first = -1, .last = -1, .next = -1};
  return tree->n++;
}

void tri_tex_give(tri_tex_tree *tree, int parent, int child) {
  tri_tex_node *x = &tree->node[parent];

  if (x->n)
    tree->node[x->last].next = (int16_t)child;
  else
    x->first = (int16_t)child;
  x->last = (int16_t)child;
  x->n++;
  x->two_valued = x->two_valued || tree->node[child].two_valued;
}

int tri_tex_spread(tri_tex_tree *tree, int node) {
  tri_tex_node *x = &tree->node[node];
  bool          divided = x->shape == TRI_SHAPE_QUOTIENT;
  int           matrix = divided ? x->first : x->last, number = divided ? x->last : x->first, made;

  if ((!divided && x->shape != TRI_SHAPE_PRODUCT) || x->n != 2) return node;
  if (tree->node[matrix].shape != TRI_SHAPE_MATRIX || tree->node[number].shape >= TRI_SHAPE_TEXT) return node;
  made = tri_tex_make(tree, TRI_SHAPE_MATRIX);
  if (made < 0) return -1;
  tree->node[made].columns = tree->node[matrix].columns;
  for (int c = tree->node[matrix].first, next; c >= 0; c = next) {
    int reference = tri_tex_make(tree, TRI_SHAPE_REFERENCE), cell = tri_tex_make(tree, x->shape);
    if (reference < 0 || cell < 0) return -1;
    next = tree->node[c].next;
    tree->node[c].next = -1;
    tree->node[reference].first = (int16_t)number;
    tree->node[reference].two_valued = tree->node[number].two_valued;
    tri_tex_give(tree, cell, divided ? c : reference);
    tri_tex_give(tree, cell, divided ? reference : c);
    tri_tex_give(tree, made, cell);
  }
  return made;
}

bool tri_tex_is_integer(const tri_tex_tree *tree, int node) {
  const tri_tex_node *x = &tree->node[node];

  if (x->shape != TRI_SHAPE_NUMBER || x->repeat.n || x->base.n) return false;
  for (size_t i = 0; i < x->text.n; i++)
    if (strchr(".eE", x->text.at[i])) return false;
  return true;
}

bool tri_tex_is_fraction(const tri_tex_tree *tree, int node) {
  const tri_tex_node *x = &tree->node[node];

  return x->shape == TRI_SHAPE_QUOTIENT && tri_tex_is_integer(tree, x->first) &&
         tri_tex_is_integer(tree, x->last);
}
