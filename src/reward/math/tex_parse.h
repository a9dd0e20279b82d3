/* tex_parse.h - parses an answer in TeX into a tree. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_PARSE_H
#define TRI_TEX_PARSE_H

#include "tex_tree.h"

/* Pure. Parses an answer and borrows its text. Returns false if it has no readable form. */
bool tri_tex_parse(tri_part answer, tri_tex_tree *out);

#endif
