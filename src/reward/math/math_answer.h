/* math_answer.h - final answers of mathematics in TeX: finds them in a box, normalises their spelling,
 * compares them. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_ANSWER_H
#define TRI_MATH_ANSWER_H

#include "base/text_buffer.h"
#include "decimal.h"

/* Pure. Finds the content of the last \boxed{...} of the text, else of the last \fbox{...}. "\boxed 5"
 * reaches to the next $ or the end. Returns false if there is none, or if its brace is not closed. */
bool tri_math_boxed(const char *s, size_t n, tri_part *inside);

/* Pure. Tells whether there is a last box without a closing brace. */
bool tri_math_box_is_open(const char *s, size_t n);
/* Pure. Tells whether an answer is empty apart from space, brackets, dollars, full stops and commands for
 * type. */
bool tri_math_is_empty(tri_part answer);

/* Writes the answer as MATH compares it (Hendrycks et al. 2021, and lm-eval, hendrycks_math/utils.py,
 * strip_string). Spaces, \left, \right, degrees, percent, dollars and a unit in \text{ ...} are removed.
 * \frac and \sqrt get braces, and a/b becomes a \frac. *good is false if it cannot be brought to that form.
 * Such an answer equals the same bytes only. out must be empty. */
TRI_CHECKED tri_status tri_math_strip(const char *s, size_t n, tri_text *out, bool *good);
/* Writes the answer as Minerva's authors compare it (Lewkowycz et al. 2022, appendix D, and lm-eval,
 * minerva_math/utils.py, normalize_final_answer). Names of units, \text, \mbox and commas of thousands are
 * removed. Three things differ from it. Several equations ("x=1,y=2") stay. Commas other than those of
 * thousands ("1,2,3") stay. Line breaks are removed. */
TRI_CHECKED tri_status tri_math_final(const char *s, size_t n, tri_text *out);
/* Not collective, symmetric. Tells whether two answers are the same. They are compared by value if both can
 * be read (tex_same.h). Else they are the same if they have the same words, or the same spelling by strip, by
 * final, or by strip and then final, without %. Decimal numbers in the last spelling are compared as numbers.
 * A spelling is not used if it would be cut at "=", "$" or "\text{ ". */
TRI_CHECKED tri_status tri_math_same(tri_part a, tri_part b, bool *same);

#endif
