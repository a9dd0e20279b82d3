/* math_field.h - exact arithmetic to compare answers, with residues modulo two large primes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_FIELD_H
#define TRI_MATH_FIELD_H

#include "decimal.h"

#include <stdint.h>

/* Two expressions of integers, fractions and roots are equal if they are equal modulo both primes. The
 * product of the primes is near 2^122. A residue re + im i lies in the field of p^2 elements.
 *
 * Each prime p was found by a search. Roots modulo p behave like roots of positive reals:
 *   - (p - 1) / 2 is prime, so every odd root is unique, and exponents can be divided.
 *   - -1 is not a square. A square has one root that is a square too, and this root is multiplicative.
 *   - 2, 3, 5, ..., 59 are squares, so sqrt(2) sqrt(3) = sqrt(6) holds.
 *   - 720 divides p + 1, so cosines and sines of half degrees exist. */
enum { TRI_FIELDS = 2 };

typedef struct tri_residue {
  uint64_t re, im;
} tri_residue;

/* All functions are pure. k is the field, below TRI_FIELDS. Parts of residues are below p. */
uint64_t tri_field_prime(int k);
/* Returns the residue of an integer. */
tri_residue tri_field_integer(int k, int64_t x);
tri_residue tri_field_add(int k, tri_residue a, tri_residue b);
tri_residue tri_field_negate(int k, tri_residue a);
tri_residue tri_field_multiply(int k, tri_residue a, tri_residue b);
/* Returns false and leaves *out unchanged if a is 0. */
bool        tri_field_invert(int k, tri_residue a, tri_residue *out);
tri_residue tri_field_power(int k, tri_residue a, uint64_t n);
bool        tri_field_equal(tri_residue a, tri_residue b);
/* Tells whether a real residue is a square, as positive numbers are. */
bool tri_field_positive(int k, uint64_t a);
/* Returns the square root of a real residue. It is real if a is a square, else imaginary. */
tri_residue tri_field_root(int k, uint64_t a);
/* Returns the root of odd order n > 0, with n below the prime. */
uint64_t tri_field_odd_root(int k, uint64_t a, uint64_t n);
/* Returns cos(x) + i sin(x) for x = n half degrees. */
tri_residue tri_field_turn(int k, int64_t n);
/* Returns a real residue that depends on these words only. It stands for a letter or an unknown value. */
tri_residue tri_field_stand_in(int k, uint64_t tag, uint64_t a, uint64_t b);
uint64_t    tri_field_hash(uint64_t a, uint64_t b);

/* Exponents are integers modulo (p - 1) / 2. */
uint64_t tri_exponent_prime(int k);
uint64_t tri_exponent_multiply(int k, uint64_t a, uint64_t b);
uint64_t tri_exponent_invert(int k, uint64_t a); /* returns 0 for 0 */

/* Returns the value of a decimal number such as "1,234.5e-3". Bytes between its digits are grouping and are
 * skipped, except '.', 'e', 'E' and the signs behind them. `repeat` has the digits that repeat without end,
 * or none. */
tri_residue tri_field_decimal(int k, tri_part digits, tri_part repeat);
double      tri_float_decimal(tri_part digits, tri_part repeat);

#endif
