/* tex_words.h - words in answers, in \text or in plain letters. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_WORDS_H
#define TRI_TEX_WORDS_H

#include "tex_tree.h"

/* All functions are pure. */

/* Tells whether the two have the same words. Case, space, brackets, \text and full stops do not count. */
bool tri_tex_words_equal(tri_part a, tri_part b);
/* Compares two nodes of plain letters if their order counts. cat is not act, and BCA is not ABC. Returns
 * false and leaves *out unchanged if both are products (xyz is zyx), or if one has more than letters.
 * Symmetric. */
bool tri_tex_compare_letters(const tri_tex_tree *a, int node_a, const tri_tex_tree *b, int node_b, bool *out);
/* Tells whether a node consists of letters in an order that counts. */
bool tri_tex_is_ordered(const tri_tex_tree *tree, int node);

#endif
