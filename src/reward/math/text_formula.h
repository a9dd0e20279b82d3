/* text_formula.h - what stands beside a number in prose: whether the number is a part of a formula. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_FORMULA_H
#define TRI_TEXT_FORMULA_H

#include <stdbool.h>
#include <stddef.h>

/* All functions are pure and look at most 1024 bytes around s. Texts are begin .. end. */

/* Bytes of a root, function or named constant at s with its argument (\sqrt{2}, sin(30), \pi, U+221A and a
 * number), else 0. *has_digit: a digit stands in it. */
size_t tri_text_symbol(const char *begin, const char *s, const char *end, bool *has_digit);
/* Whether a formula goes on behind the number number .. s: 2x, 2\pi, 2^n, 1/x, 1 + x, 0.333... *after: behind
 * what was seen of it. A unit, a percent sign and a word do not belong to a formula. */
bool tri_text_goes_on(const char *number, const char *s, const char *end, const char **after);
/* Whether the number at s goes on with a formula: x + 5, \pi/2. tail: where the last piece of a formula
 * ended; NULL: none was seen. */
bool tri_text_continues(const char *begin, const char *tail, const char *s);
/* Bytes of a sign that joins two terms at s, with the spaces around it, else 0. */
size_t tri_text_joint(const char *begin, const char *s, const char *end);

#endif
