/* math_answer.h - final answers of mathematics in TeX: found in a box, brought to one spelling, compared. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_ANSWER_H
#define TRI_MATH_ANSWER_H

#include "base/text_buffer.h"
#include "decimal.h"

/* What stands in the last \boxed{...} of the text, else in the last \fbox{...}; "\boxed 5" reaches to the
 * next $ or the end. false: there is none, or its brace is not closed. Pure. */
bool tri_math_boxed(const char *s, size_t n, tri_part *inside);

/* Whether the last box is there and no brace closes it. Pure. */
bool tri_math_box_is_open(const char *s, size_t n);
/* Whether nothing of an answer is left without space, brackets, dollars, full stops and commands that set
 * type. Pure. */
bool tri_math_is_empty(tri_part answer);

/* Not collective. The answer as MATH compares it (Hendrycks et al. 2021; lm-eval, hendrycks_math/utils.py,
 * strip_string): spaces, \left, \right, degrees, percent, dollars and a unit in \text{ ...} go; \frac and
 * \sqrt get their braces, a/b becomes a \frac. *good false: it cannot be brought to that form, and is equal
 * to the same bytes only. out is empty before. */
TRI_CHECKED tri_status tri_math_strip(const char *s, size_t n, tri_text *out, bool *good);
/* Not collective. The answer as Minerva's authors compare it (Lewkowycz et al. 2022, appendix D; lm-eval,
 * minerva_math/utils.py, normalize_final_answer): names of units, \text, \mbox, thousands' commas go. Three
 * things differ: several equations ("x=1,y=2") and commas that do not part thousands ("1,2,3") stay as they
 * are, line breaks go. */
TRI_CHECKED tri_status tri_math_final(const char *s, size_t n, tri_text *out);
/* Not collective. Whether two answers are the same: by value where both are read (tex_same.h), else the same
 * words, or by the spellings above: the first, the second, the second after the first (where % goes too),
 * decimal numbers there. A spelling that is cut off at "=", "$" or "\text{ " does not count. Symmetric. */
TRI_CHECKED tri_status tri_math_same(tri_part a, tri_part b, bool *same);

#endif
