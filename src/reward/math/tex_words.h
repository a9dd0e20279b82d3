/* tex_words.h - words in answers: in \text and in plain letters. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_WORDS_H
#define TRI_TEX_WORDS_H

#include "tex_tree.h"

/* All functions are pure. */

/* Whether the two are the same words, whatever the case, without space, brackets, \text, full stops. */
bool tri_tex_words_equal(tri_part a, tri_part b);
/* Compares two nodes of plain letters whose order counts: cat is not act, BCA is not ABC. Returns false, and
 * leaves *out, where both are products (xyz is zyx) or one holds more than letters. Symmetric. */
bool tri_tex_compare_letters(const tri_tex_tree *a, int node_a, const tri_tex_tree *b, int node_b, bool *out);
/* Whether a node is letters whose order counts. */
bool tri_tex_is_ordered(const tri_tex_tree *tree, int node);

#endif
