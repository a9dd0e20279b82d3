/* tex_parse.h - an answer in TeX as a tree. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEX_PARSE_H
#define TRI_TEX_PARSE_H

#include "tex_tree.h"

/* Reads an answer; its text is borrowed. Returns false where it is not of a form that is read here. Pure. */
bool tri_tex_parse(tri_part answer, tri_tex_tree *out);

#endif
