/* text_formula.h - tells whether a number in prose is a part of a formula. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_FORMULA_H
#define TRI_TEXT_FORMULA_H

#include <stdbool.h>
#include <stddef.h>

/* All functions are pure and look at most 1024 bytes around s. Texts are begin .. end. */

/* Returns the bytes of a root, function or named constant at s with its argument, else 0. Examples are
 * \sqrt{2}, sin(30), \pi, and U+221A with a number. *has_digit is set if it contains a digit. */
size_t tri_text_symbol(const char *begin, const char *s, const char *end, bool *has_digit);
/* Tells whether a formula continues behind the number `number` .. s, as in 2x, 2\pi, 2^n, 1/x, 1 + x,
 * 0.333... *after is the end of its part seen so far. A unit, a percent sign and a word do not belong to a
 * formula. */
bool tri_text_goes_on(const char *number, const char *s, const char *end, const char **after);
/* Tells whether the number at s continues a formula, as in x + 5, \pi/2. `tail` is the end of the last part
 * of a formula, or NULL. */
bool tri_text_continues(const char *begin, const char *tail, const char *s);
/* Returns the bytes of a sign between two terms at s, with the spaces around it, else 0. */
size_t tri_text_joint(const char *begin, const char *s, const char *end);

#endif
